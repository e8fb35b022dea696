// SPDX-License-Identifier: MIT
// Hostile packets to the port of RoCEv2: made from scratch with every field near what it should be, damaged,
// cut, for queue pairs that are there or not, from the peer's address and from others. Whatever comes, no
// byte changes but in what the peer was given a key for and in receive requests; and nothing at all for
// packets from elsewhere. At the end a right packet does its work. usage: wire_fuzz [--seconds N] [--seed N];
// exit status 77: no network namespace here
#include <infiniband/verbs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "testing/private_network.h"
#include "testing/queue_pair_steps.h"
#include "tests/fuzz/random.h"
#include "wire/format/packet.h"
#include "wire/link/udp/port_socket.h"

using namespace verbatim;
using fuzz::Random;

namespace {

constexpr size_t kPart = 16384, kParts = 8;
/// What the memory is for. Between them lies what has no key.
enum Part : size_t { kWritable = 1, kReadOnly = 3, kReceives = 5, kLocal = 6 };
constexpr uint32_t kPsn = 0x1000, kQkey = 0x11111111, kPackets = 256;

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::exit(1);
}
void expect(bool right, const char* what) {
  if (!right) fail(what);
}

Gid host(uint8_t number) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 127;
  gid.bytes[15] = number;
  return gid;
}
constexpr uint8_t kVictim = 1, kPeer = 2, kStranger = 3;

/// The attacked process, which is this one.
class Victim {
 public:
  explicit Victim(Random& random) : random_(random) {
    context_ = test::open_first_device();
    expect(context_ != nullptr, "no device");
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 4096, nullptr, nullptr, 0);
    void* mapped = mmap(nullptr, kPart * kParts, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = static_cast<uint8_t*>(mapped);
    random_.fill(memory, kPart * kParts);
    writable = reg(kWritable, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    read_only = reg(kReadOnly, IBV_ACCESS_REMOTE_READ);
    receives_ = reg(kReceives, IBV_ACCESS_LOCAL_WRITE);
    local_ = reg(kLocal, IBV_ACCESS_LOCAL_WRITE);
    datagrams = make(IBV_QPT_UD);
    connected = make(IBV_QPT_RC);
    unreliable = make(IBV_QPT_UC);
  }

  uint8_t* memory;
  ibv_mr *writable, *read_only;
  ibv_qp *connected, *unreliable, *datagrams;

  /// A queue pair that has failed is replaced; each has requests to receive, and waits for answers.
  void get_ready() {
    take_completions();
    for (ibv_qp** qp : {&connected, &unreliable, &datagrams})
      if (!works(*qp)) {
        const ibv_qp_type type = (*qp)->qp_type;
        expect(ibv_destroy_qp(*qp) == 0, "a queue pair cannot be destroyed");
        *qp = make(type);
      }
  }
  void take_completions() {
    ibv_wc done[64];
    for (int count; (count = ibv_poll_cq(cq_, 64, done)) > 0;)
      for (int i = 0; i < count; i++)
        if (done[i].wr_id != 0 && done[i].status == IBV_WC_SUCCESS)
          receive(done[i].wr_id == 1 ? connected : done[i].wr_id == 2 ? unreliable : datagrams);
  }
  /// All that was sent so far has been taken in.
  void settle() {
    const uint64_t until = now_ns() + 3'000'000;
    while (now_ns() < until) take_completions();
  }

 private:
  ibv_mr* reg(Part part, int access) {
    ibv_mr* mr = ibv_reg_mr(pd_, memory + part * kPart, kPart, access);
    expect(mr != nullptr, "memory cannot be registered");
    return mr;
  }
  ibv_qp* make(ibv_qp_type type) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap = {16, 64, 1, 1, 0};
    wanted.qp_type = type;
    ibv_qp* qp = ibv_create_qp(pd_, &wanted);
    expect(qp != nullptr, "no queue pair");
    test::Connection to;
    const Gid peer = host(kPeer);
    std::memcpy(to.gid.raw, peer.bytes.data(), 16);
    to.qpn = 0x123456;
    to.qkey = kQkey;
    to.receive_psn = to.send_psn = kPsn;
    to.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    expect(test::step_to_init(qp, to) == 0 && ready_to_receive(qp, to) == 0 && test::step_to_rts(qp, to) == 0,
           "a queue pair cannot be connected");
    for (int i = 0; i < 32; i++) receive(qp);
    if (type == IBV_QPT_RC) ask(qp);
    return qp;
  }
  static int ready_to_receive(ibv_qp* qp, const test::Connection& to) {
    if (qp->qp_type == IBV_QPT_UD) return test::step_to_rtr(qp, to);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to.qpn;
    attr.rq_psn = to.receive_psn;
    attr.max_dest_rd_atomic = to.reads;
    attr.min_rnr_timer = to.rnr_timer;
    attr.ah_attr = test::address_of(to.gid);
    attr.ah_attr.grh.sgid_index = 1;  // the first is no address that packets could come from
    const int more = qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | more);
  }
  void receive(ibv_qp* qp) {
    const uint64_t id = qp->qp_type == IBV_QPT_RC ? 1 : qp->qp_type == IBV_QPT_UC ? 2 : 3;
    ibv_sge sge{reinterpret_cast<uint64_t>(memory + kReceives * kPart), 2048, receives_->lkey};
    ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
    (void)ibv_post_recv(qp, &request, &bad);
  }
  void ask(ibv_qp* qp) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
      ibv_sge sge{reinterpret_cast<uint64_t>(memory + kLocal * kPart),
                  opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8u : 5000u, local_->lkey};
      ibv_send_wr request{}, *bad = nullptr;
      request.sg_list = &sge;
      request.num_sge = 1;
      request.opcode = opcode;
      request.send_flags = IBV_SEND_SIGNALED;
      (opcode == IBV_WR_RDMA_READ ? request.wr.rdma.remote_addr : request.wr.atomic.remote_addr) = 0x10000;
      (void)ibv_post_send(qp, &request, &bad);
    }
  }
  static bool works(ibv_qp* qp) {
    ibv_qp_attr now;
    ibv_qp_init_attr initial;
    return ibv_query_qp(qp, &now, IBV_QP_STATE, &initial) == 0 && now.qp_state == IBV_QPS_RTS;
  }

  Random& random_;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_mr *receives_, *local_;
};

/// Sends from one address of the host.
class Attacker {
 public:
  Attacker(Random& random, Victim& victim, uint8_t number)
      : random_(random),
        victim_(victim),
        source_(host(number)),
        socket_(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const int off = 0;
    setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const int dont_fragment = IP_PMTUDISC_DO;
    setsockopt(socket_, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
    sockaddr_in6 own = wire::udp::address_of(source_, 0, 0);
    socklen_t bytes = sizeof own;
    expect(bind(socket_, reinterpret_cast<sockaddr*>(&own), bytes) == 0, "an address cannot be bound");
    getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes);
    port_ = ntohs(own.sin6_port);
  }

  /// The queue pairs that answer to the port of anybody are left out.
  void send_any(bool to_datagrams) {
    roce::Headers headers = any_headers(to_datagrams);
    const size_t payload = any_payload(headers);
    std::vector<uint8_t> packet(roce::bytes_of(headers) + payload + 8);
    random_.fill(packet.data(), packet.size());
    const roce::PacketWriter writer(roce::Envelope{source_, host(kVictim), port_});
    size_t bytes = writer.seal(packet, headers, payload);
    if (random_.one_in(10) && bytes > 0)
      packet[random_.below(static_cast<uint32_t>(bytes))] ^= 1u << random_.below(8);
    if (random_.one_in(20)) bytes = random_.below(static_cast<uint32_t>(bytes + 1));
    put(packet.data(), bytes);
  }
  void send(const roce::Headers& headers, std::span<const uint8_t> payload) {
    std::vector<uint8_t> packet(roce::kPacketBytesMax);
    const roce::PacketWriter writer(roce::Envelope{source_, host(kVictim), port_});
    put(packet.data(), writer.write(packet, headers, payload));
  }

 private:
  void put(const uint8_t* packet, size_t bytes) {
    const sockaddr_in6 to = wire::udp::address_of(host(kVictim), 4791, 0);
    (void)sendto(socket_, packet, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  uint32_t near(uint32_t value) { return random_.one_in(4) ? value + random_.below(9) - 4 : value; }

  roce::Headers any_headers(bool to_datagrams) {
    roce::Headers headers;
    std::vector<uint8_t> known;
    const ibv_qp* qps[] = {victim_.connected, victim_.unreliable, victim_.datagrams};
    const uint32_t which = random_.below(to_datagrams ? 3 : 2);
    const roce::Transport transports[] = {roce::Transport::kRc, roce::Transport::kUc, roce::Transport::kUd};
    do {
      const auto code = static_cast<uint8_t>(random_.below(32) | static_cast<uint8_t>(transports[which]));
      headers.bth.opcode = static_cast<roce::Opcode>(random_.one_in(50) ? random_.below(256) : code);
    } while (!headers.info().known);
    headers.bth.destination = random_.one_in(30) ? random_.below(1 << 24) : qps[which]->qp_num;
    if (!to_datagrams && headers.bth.destination == victim_.datagrams->qp_num) headers.bth.destination = 0;
    headers.bth.psn = near(kPsn + psn_) & roce::kNumberMask;
    if (random_.one_in(2)) psn_++;
    if (random_.one_in(200)) psn_ = 0;
    headers.bth.ack_request = random_.one_in(2);
    headers.bth.solicited = random_.one_in(4);
    headers.deth = {random_.one_in(8) ? random_.below(UINT32_MAX) : kQkey, random_.below(1 << 24)};
    const ibv_mr* mr = random_.one_in(2) ? victim_.writable : victim_.read_only;
    const uint64_t base = reinterpret_cast<uint64_t>(mr->addr);
    const uint64_t address =
        random_.one_in(3) ? base - 100 + random_.below(200) : base + random_.below(kPart + 64);
    const uint32_t rkey = random_.one_in(16) ? random_.below(UINT32_MAX) : mr->rkey;
    headers.reth = {address, rkey, random_.one_in(8) ? random_.below(UINT32_MAX) : random_.below(3000)};
    headers.atomic = {address & ~uint64_t{random_.one_in(8) ? 0u : 7u}, rkey, random_.next(), random_.next()};
    headers.aeth = {static_cast<roce::AckKind>(random_.below(4)), static_cast<uint8_t>(random_.below(32)),
                    random_.below(1 << 24)};
    if (random_.one_in(2)) headers.aeth = roce::Aeth::ack(1);
    headers.atomic_ack = {random_.next()};
    headers.immediate = {random_.below(UINT32_MAX)};
    headers.invalidate = {rkey == victim_.writable->rkey && !random_.one_in(100) ? 0 : rkey};
    return headers;
  }
  size_t any_payload(const roce::Headers& headers) {
    switch (headers.info().payload) {
      case roce::PayloadRule::kNone:
        return random_.one_in(30) ? 4 : 0;
      case roce::PayloadRule::kEight:
        return 8;
      case roce::PayloadRule::kSixteen:
        return 16;
      case roce::PayloadRule::kAny:
      case roce::PayloadRule::kUnpadded:
        break;
    }
    if (random_.one_in(2)) return 1024;
    return headers.has(roce::kReth) && random_.one_in(2) ? std::min<size_t>(headers.reth.length, 4096)
                                                         : random_.below(2000);
  }

  Random& random_;
  Victim& victim_;
  const Gid source_;
  int socket_;
  uint16_t port_ = 0;
  uint32_t psn_ = 0;
};

void expect_same(const std::vector<uint8_t>& before, const Victim& victim, bool from_peer) {
  for (size_t part = 0; part < kParts; part++) {
    const bool open = part == kWritable || part == kReceives || part == kLocal;
    if (from_peer && open) continue;
    if (std::memcmp(before.data() + part * kPart, victim.memory + part * kPart, kPart) != 0)
      fail("memory part " + std::to_string(part) + " was changed by " +
           (from_peer ? "the peer" : "a stranger"));
  }
}

/// What all this is worth: a right write from the peer arrives, the same from elsewhere does not.
void expect_right_write(Victim& victim, Attacker& from, bool arrives) {
  victim.get_ready();
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(roce::Transport::kUc, roce::Operation::kWriteOnly);
  headers.bth.destination = victim.unreliable->qp_num;
  headers.reth = {reinterpret_cast<uint64_t>(victim.writable->addr), victim.writable->rkey, 64};
  std::vector<uint8_t> bytes(64);
  for (size_t i = 0; i < bytes.size(); i++)
    bytes[i] = static_cast<uint8_t>(~victim.memory[kWritable * kPart + i]);
  from.send(headers, bytes);
  for (int tries = 0; tries < 50; tries++) victim.settle();
  const bool did = std::memcmp(victim.memory + kWritable * kPart, bytes.data(), bytes.size()) == 0;
  expect(did == arrives, arrives ? "a right packet does nothing" : "a stranger's packet was obeyed");
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seconds = 5, seed = now_ns();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 0);
  }
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    return testing_support::kNotPermitted;
  expect(testing_support::set_interface("lo", IFF_UP, nullptr), "no loopback");
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  setenv("VERBATIM_WIRE", "udp", 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  Victim victim(random);
  Attacker peer(random, victim, kPeer), stranger(random, victim, kStranger);
  expect_right_write(victim, peer, true);
  expect_right_write(victim, stranger, false);
  const uint64_t until = now_ns() + seconds * 1'000'000'000;
  uint64_t sent = 0;
  while (now_ns() < until) {
    const bool from_peer = !random.one_in(4);
    victim.get_ready();
    victim.settle();
    const std::vector<uint8_t> before(victim.memory, victim.memory + kPart * kParts);
    for (uint32_t i = 0; i < kPackets; i++) {
      (from_peer ? peer : stranger).send_any(from_peer);
      if (i % 16 == 0) victim.take_completions();
    }
    victim.settle();
    expect_same(before, victim, from_peer);
    sent += kPackets;
  }
  expect_right_write(victim, stranger, false);
  expect_right_write(victim, peer, true);
  std::printf("%llu packets\n", static_cast<unsigned long long>(sent));
  return 0;
}
