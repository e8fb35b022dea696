// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_victim.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "testing/queue_pair_steps.h"

namespace verbatim::fuzz {

namespace {

/// What receive requests are for: in the order of the queue pairs, the last of the shared queue.
enum Receiver : uint64_t { kOfConnected = 1, kOfUnreliable, kOfDatagrams, kOfTarget, kOfExtended };
constexpr int kReceivesOfEach = 32;
constexpr uint32_t kPeerNumber = 0x123456;
constexpr unsigned int kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

bool works(ibv_qp* qp) {
  ibv_qp_attr now;
  ibv_qp_init_attr initial;
  return ibv_query_qp(qp, &now, IBV_QP_STATE, &initial) == 0 && now.qp_state == IBV_QPS_RTS;
}

}  // namespace

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
  ibv_srq_init_attr shared{};
  shared.attr.max_wr = 2 * kReceivesOfEach;
  shared.attr.max_sge = 1;
  srq_ = ibv_create_srq(pd_, &shared);
  expect(srq_ != nullptr, "no shared queue");
  for (int i = 0; i < kReceivesOfEach; i++) receive(kOfTarget);
  dynamic = make_target();
  open_extended();
  extended = make_extended();
  datagrams = make(IBV_QPT_UD);
  connected = make(IBV_QPT_RC);
  unreliable = make(IBV_QPT_UC);
  marker_ = std::make_unique<Marker>(pd_, cq_, host(kVictim));
}

Victim::~Victim() {
  marker_.reset();
  for (ibv_qp* qp : {connected, unreliable, datagrams, dynamic, extended})
    expect(ibv_destroy_qp(qp) == 0, "a queue pair cannot be destroyed");
  expect(ibv_destroy_srq(extended_srq_) == 0 && ibv_close_xrcd(domain_) == 0 && ibv_destroy_srq(srq_) == 0,
         "a shared queue cannot be destroyed");
  for (ibv_mr* mr : {writable, read_only, receives, local})
    expect(ibv_dereg_mr(mr) == 0, "memory cannot be deregistered");
  expect(ibv_destroy_cq(cq_) == 0 && ibv_dealloc_pd(pd_) == 0 && ibv_close_device(context_) == 0,
         "the device cannot be closed");
  munmap(memory, kPart * kParts);
}

void Victim::replace(ibv_qp*& qp) {
  const ibv_qp_type type = qp->qp_type;
  expect(ibv_destroy_qp(qp) == 0, "a queue pair cannot be destroyed");
  qp = make(type);
}

void Victim::renew() {
  for (ibv_qp** qp : {&connected, &unreliable, &datagrams}) replace(*qp);
  expect(ibv_destroy_qp(dynamic) == 0, "a target cannot be destroyed");
  dynamic = make_target();
  expect(ibv_destroy_qp(extended) == 0, "a receiver cannot be destroyed");
  extended = make_extended();
}

void Victim::get_ready() {
  take_completions();
  for (ibv_qp** qp : {&connected, &unreliable, &datagrams})
    if (!works(*qp)) replace(*qp);
  if (works(extended)) return;
  expect(ibv_destroy_qp(extended) == 0, "a receiver cannot be destroyed");
  extended = make_extended();
}

void Victim::take_completions() {
  ibv_wc done[64];
  for (int count; (count = ibv_poll_cq(cq_, 64, done)) > 0;)
    for (int i = 0; i < count; i++)
      if (done[i].wr_id == Marker::kWorkRequest)
        marker_->take(done[i]);
      else if (done[i].wr_id == kOfTarget || done[i].wr_id == kOfExtended ||
               (done[i].wr_id != 0 && done[i].status == IBV_WC_SUCCESS))
        receive(done[i].wr_id);
}

void Victim::settle() {
  constexpr uint64_t kAgainNs = 100'000'000, kLongNs = 10'000'000'000;
  const SystemClock clock;
  const uint64_t begun = clock.now_ns();
  marker_->mark();
  for (uint64_t again = begun + kAgainNs; !marker_->is_here();) {
    take_completions();
    const uint64_t now = clock.now_ns();
    if (now < again) continue;
    expect(now < begun + kLongNs, "the victim hears nothing any more");
    marker_->mark_again();
    again = now + kAgainNs;
  }
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
  to.qpn = kPeerNumber;
  to.qkey = kQkey;
  to.receive_psn = to.send_psn = kPsn;
  to.access = kRights;
  expect(test::step_to_init(qp, to) == 0 && test::step_to_rtr(qp, to) == 0 && test::step_to_rts(qp, to) == 0,
         "a queue pair cannot be connected");
  ibv_qp*& place = type == IBV_QPT_RC ? connected : type == IBV_QPT_UC ? unreliable : datagrams;
  place = qp;
  for (int i = 0; i < kReceivesOfEach; i++)
    receive(type == IBV_QPT_RC ? kOfConnected : type == IBV_QPT_UC ? kOfUnreliable : kOfDatagrams);
  if (type == IBV_QPT_RC) ask(qp);
  return qp;
}

ibv_qp* Victim::make_target() {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.srq = srq_;
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd_;
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  special.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
  special.dc_init_attr.dct_access_key = kAccessKey;
  ibv_qp* qp = mlx5dv_create_qp(context_, &wanted, &special);
  expect(qp != nullptr, "no target");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kRights;
  const bool begun =
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.sgid_index = 1;
  expect(begun &&
             ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER) == 0,
         "a target does not get ready");
  return qp;
}

void Victim::open_extended() {
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  domain_ = ibv_open_xrcd(context_, &domain);
  expect(domain_ != nullptr, "no XRC domain");
  ibv_srq_init_attr_ex shared{};
  shared.attr = {2 * kReceivesOfEach, 1, 0};
  shared.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  shared.srq_type = IBV_SRQT_XRC;
  shared.pd = pd_;
  shared.xrcd = domain_;
  shared.cq = cq_;
  extended_srq_ = ibv_create_srq_ex(context_, &shared);
  expect(extended_srq_ != nullptr && ibv_get_srq_num(extended_srq_, &extended_queue) == 0, "no queue of XRC");
  for (int i = 0; i < kReceivesOfEach; i++) receive(kOfExtended);
}

ibv_qp* Victim::make_extended() {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = domain_;
  ibv_qp* qp = ibv_create_qp_ex(context_, &wanted);
  expect(qp != nullptr, "no receiver of XRC");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kRights | IBV_ACCESS_FLUSH_GLOBAL;
  const bool begun =
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = kPeerNumber;
  attr.rq_psn = attr.sq_psn = kPsn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  ibv_gid peer;
  const Gid gid = host(kPeer);
  std::memcpy(peer.raw, gid.bytes.data(), 16);
  attr.ah_attr = test::address_of(peer);
  attr.ah_attr.grh.sgid_index = 1;
  const int receives_too = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  expect(begun && ibv_modify_qp(qp, &attr, receives_too) == 0, "a receiver of XRC does not get ready");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT) == 0,
         "a receiver of XRC does not get ready to send");
  return qp;
}

void Victim::receive(uint64_t id) {
  ibv_sge sge{reinterpret_cast<uint64_t>(memory + kReceives * kPart), 2048, receives->lkey};
  ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
  if (id == kOfTarget || id == kOfExtended)
    (void)ibv_post_srq_recv(id == kOfTarget ? srq_ : extended_srq_, &request, &bad);
  else
    (void)ibv_post_recv(id == kOfConnected    ? connected
                        : id == kOfUnreliable ? unreliable
                                              : datagrams,
                        &request, &bad);
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
    listening_.push_back(id);
  }
}

Listener::~Listener() {
  for (const auto* ids : {&children_, &listening_})
    for (rdma_cm_id* id : *ids) expect(rdma_destroy_id(id) == 0, "an id cannot be destroyed");
  rdma_destroy_event_channel(channel_);
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
