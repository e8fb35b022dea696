// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_victim.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "testing/queue_pair_steps.h"

namespace verbatim::fuzz {

void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::exit(1);
}

Gid host(uint8_t number) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 127;
  gid.bytes[15] = number;
  return gid;
}

Victim::Victim(Random& random) : random_(random) {
  context_ = test::open_first_device();
  expect(context_ != nullptr, "no device");
  pd_ = ibv_alloc_pd(context_);
  cq_ = ibv_create_cq(context_, 4096, nullptr, nullptr, 0);
  void* mapped = mmap(nullptr, kPart * kParts, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memory = static_cast<uint8_t*>(mapped);
  scramble();
  writable = reg(kWritable, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  read_only = reg(kReadOnly, IBV_ACCESS_REMOTE_READ);
  receives = reg(kReceives, IBV_ACCESS_LOCAL_WRITE);
  local = reg(kLocal, IBV_ACCESS_LOCAL_WRITE);
  datagrams = make(IBV_QPT_UD);
  connected = make(IBV_QPT_RC);
  unreliable = make(IBV_QPT_UC);
}

void Victim::replace(ibv_qp*& qp) {
  const ibv_qp_type type = qp->qp_type;
  expect(ibv_destroy_qp(qp) == 0, "a queue pair cannot be destroyed");
  qp = make(type);
}

void Victim::renew() {
  for (ibv_qp** qp : {&connected, &unreliable, &datagrams}) replace(*qp);
}

void Victim::get_ready() {
  take_completions();
  for (ibv_qp** qp : {&connected, &unreliable, &datagrams}) {
    ibv_qp_attr now;
    ibv_qp_init_attr initial;
    const bool works = ibv_query_qp(*qp, &now, IBV_QP_STATE, &initial) == 0 && now.qp_state == IBV_QPS_RTS;
    if (!works) replace(*qp);
  }
}

void Victim::take_completions() {
  ibv_wc done[64];
  for (int count; (count = ibv_poll_cq(cq_, 64, done)) > 0;)
    for (int i = 0; i < count; i++)
      if (done[i].wr_id != 0 && done[i].status == IBV_WC_SUCCESS)
        receive(done[i].wr_id == 1 ? connected : done[i].wr_id == 2 ? unreliable : datagrams);
}

void Victim::settle() {
  constexpr uint64_t kLongNs = 3'000'000;
  const SystemClock clock;
  const uint64_t until = clock.now_ns() + kLongNs;
  while (clock.now_ns() < until) take_completions();
}

ibv_mr* Victim::reg(Part part, int access) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory + part * kPart, kPart, access);
  expect(mr != nullptr, "memory cannot be registered");
  return mr;
}

ibv_qp* Victim::make(ibv_qp_type type) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.cap = {16, 64, 1, 1, 0};
  wanted.qp_type = type;
  ibv_qp* qp = ibv_create_qp(pd_, &wanted);
  expect(qp != nullptr, "no queue pair");
  test::Connection to;
  const Gid peer = host(kPeer);
  std::memcpy(to.gid.raw, peer.bytes.data(), 16);
  to.gid_index = 1;  // the first is no address that packets could come from
  to.qpn = 0x123456;
  to.qkey = kQkey;
  to.receive_psn = to.send_psn = kPsn;
  to.access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  expect(test::step_to_init(qp, to) == 0 && test::step_to_rtr(qp, to) == 0 && test::step_to_rts(qp, to) == 0,
         "a queue pair cannot be connected");
  for (int i = 0; i < 32; i++) receive(qp);
  if (type == IBV_QPT_RC) ask(qp);
  return qp;
}

void Victim::receive(ibv_qp* qp) {
  const uint64_t id = qp->qp_type == IBV_QPT_RC ? 1 : qp->qp_type == IBV_QPT_UC ? 2 : 3;
  ibv_sge sge{reinterpret_cast<uint64_t>(memory + kReceives * kPart), 2048, receives->lkey};
  ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
  (void)ibv_post_recv(qp, &request, &bad);
}

void Victim::ask(ibv_qp* qp) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory + kLocal * kPart),
                opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8u : 5000u, local->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    (opcode == IBV_WR_RDMA_READ ? request.wr.rdma.remote_addr : request.wr.atomic.remote_addr) = 0x10000;
    (void)ibv_post_send(qp, &request, &bad);
  }
}

Listener::Listener(Random& random) : random_(random), channel_(rdma_create_event_channel()) {
  expect(channel_ != nullptr, "no event channel");
  fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
  for (const rdma_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP}) {
    rdma_cm_id* id = nullptr;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(kListenPort);
    expect(rdma_create_id(channel_, &id, nullptr, space) == 0 &&
               rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) == 0 && rdma_listen(id, 64) == 0,
           "an id cannot listen");
  }
}

uint32_t Listener::take_events() {
  constexpr size_t kChildrenMax = 24;
  uint32_t requests = 0;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    rdma_cm_id* child = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : nullptr;
    if (event->event == RDMA_CM_EVENT_DISCONNECTED && random_.one_in(2)) (void)rdma_disconnect(event->id);
    rdma_ack_cm_event(event);
    if (child == nullptr) continue;
    requests++;
    answer(child);
  }
  while (children_.size() > kChildrenMax || (!children_.empty() && random_.one_in(8))) {
    const auto which = children_.begin() + random_.below(static_cast<uint32_t>(children_.size()));
    if (random_.one_in(2)) (void)rdma_disconnect(*which);
    rdma_destroy_id(*which);
    children_.erase(which);
  }
  return requests;
}

void Listener::answer(rdma_cm_id* child) {
  rdma_conn_param agree{};
  agree.qp_num = 0x777;
  agree.responder_resources = agree.initiator_depth = 1;
  if (random_.one_in(3)) (void)rdma_reject(child, "no", 2);
  if (!random_.one_in(3)) (void)rdma_accept(child, &agree);
  children_.push_back(child);
}

}  // namespace verbatim::fuzz
