// SPDX-License-Identifier: MIT
#include "tests/stress/traffic.h"

#include <poll.h>
#include <sys/mman.h>

#include <cstdio>

namespace verbatim::stress {

namespace {

constexpr size_t kMemoryBytes = 4 << 20;
constexpr uint32_t kSendsMax = 8, kReceivesMax = 16;
constexpr uint64_t kReceiveBit = 1ull << 32;
/// About a millisecond, three tries, and for ever where no receive is posted.
constexpr Patience kShort{8, 3, 7, 4};

}  // namespace

Traffic::Traffic(const Device& device, uint64_t seed) : device_(device), random_(seed) {
  memory_ = map_memory(kMemoryBytes);
  region_ = ibv_reg_mr(
      device.pd, memory_, kMemoryBytes,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  require(region_, "ibv_reg_mr");
  require(channel_ = ibv_create_comp_channel(device.context), "ibv_create_comp_channel");
  require(cq_ = ibv_create_cq(device.context, 512, nullptr, channel_, 0), "ibv_create_cq");
  for (Lane& lane : lanes_) lane.qp = make_qp(device, cq_, cq_, {16, 32, 2, 0});
}

Traffic::~Traffic() {
  for (const Lane& lane : lanes_) require(ibv_destroy_qp(lane.qp) == 0, "ibv_destroy_qp");
  require(ibv_destroy_cq(cq_) == 0, "ibv_destroy_cq");
  require(ibv_destroy_comp_channel(channel_) == 0, "ibv_destroy_comp_channel");
  require(ibv_dereg_mr(region_) == 0, "ibv_dereg_mr");
  munmap(memory_, kMemoryBytes + 4096);
}

uint32_t Traffic::below(uint32_t bound) {
  random_ = random_ * 6364136223846793005 + 1442695040888963407;
  return static_cast<uint32_t>(random_ >> 33) % bound;
}

bool Traffic::meet(int socket) {
  Card mine{};
  for (uint32_t i = 0; i < kQueuePairs; i++) mine.addresses[i] = address_of(device_, lanes_[i].qp);
  mine.memory = reinterpret_cast<uint64_t>(memory_);
  mine.rkey = region_->rkey;
  if (!send_record(socket, mine) || !receive_record(socket, peer_)) return false;
  for (uint32_t i = 0; i < kQueuePairs; i++) {
    require(connect_qp(lanes_[i].qp, mine.addresses[i], peer_.addresses[i], kShort), "connect_qp");
    post_receives(i);
  }
  char ready = 1;
  return send_record(socket, ready) && receive_record(socket, ready);
}

void Traffic::post_receives(uint32_t index) {
  Lane& lane = lanes_[index];
  for (; lane.receives < kReceivesMax && !lane.failed; lane.receives++) {
    ibv_sge element{reinterpret_cast<uint64_t>(memory_), static_cast<uint32_t>(kMemoryBytes), region_->lkey};
    ibv_recv_wr work{}, *bad = nullptr;
    work.wr_id = index | kReceiveBit;
    work.sg_list = &element;
    work.num_sge = 1;
    require(ibv_post_recv(lane.qp, &work, &bad) == 0, "ibv_post_recv");
  }
}

bool Traffic::post_operation(uint32_t index) {
  static constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM};
  ibv_send_wr work{}, *bad = nullptr;
  work.opcode = kOpcodes[below(5)];
  const bool atomic = work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const uint32_t length = atomic ? 8 : below(3) == 0 ? below(1 << 20) : below(4096);
  ibv_sge element{reinterpret_cast<uint64_t>(memory_) + below(1024) * 8, length, region_->lkey};
  work.wr_id = index;
  work.sg_list = &element;
  work.num_sge = 1;
  work.send_flags = IBV_SEND_SIGNALED;
  const uint64_t remote = peer_.memory + below(1024) * 8;
  if (atomic)
    work.wr.atomic = {remote, 1, 0, peer_.rkey};
  else
    work.wr.rdma = {remote, peer_.rkey};
  if (ibv_post_send(lanes_[index].qp, &work, &bad) != 0) return false;
  lanes_[index].sends++;
  return true;
}

int Traffic::take() {
  ibv_wc done[32];
  const int count = ibv_poll_cq(cq_, 32, done);
  if (count < 0) fail("ibv_poll_cq says %d", count);
  for (int i = 0; i < count; i++) {
    Lane& lane = lanes_[done[i].wr_id & (kQueuePairs - 1)];
    (done[i].wr_id & kReceiveBit ? lane.receives : lane.sends)--;
    if (done[i].status == IBV_WC_SUCCESS) {
      if (lane.failed) fail("a work request succeeds after one before it has failed");
      completed_++;
      continue;
    }
    const bool expected = done[i].status == IBV_WC_RETRY_EXC_ERR || done[i].status == IBV_WC_WR_FLUSH_ERR;
    if (!expected && !any_end_) fail("the peer's end shows as %s", ibv_wc_status_str(done[i].status));
    lane.failed = true;
  }
  return count;
}

void Traffic::turn() {
  for (uint32_t i = 0; i < kQueuePairs; i++) {
    post_receives(i);
    while (!lanes_[i].failed && lanes_[i].sends < kSendsMax && post_operation(i)) {
    }
  }
  take();
}

void Traffic::probe() {
  for (uint32_t i = 0; i < kQueuePairs; i++)
    if (!lanes_[i].failed && lanes_[i].sends == 0) post_operation(i);
}

void Traffic::listen(int wait_ms) {
  if (take() > 0 || wait_ms == 0) return;
  require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
  if (take() > 0) return;
  pollfd event{channel_->fd, POLLIN, 0};
  if (poll(&event, 1, wait_ms) <= 0) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  require(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
}

bool Traffic::all_ended() const {
  for (const Lane& lane : lanes_)
    if (!lane.failed || lane.sends != 0 || lane.receives != 0) return false;
  return true;
}

bool Traffic::any_failed() const {
  for (const Lane& lane : lanes_)
    if (lane.failed) return true;
  return false;
}

const char* Traffic::state_text() {
  int at = 0;
  for (const Lane& lane : lanes_)
    at += std::snprintf(text_ + at, sizeof text_ - static_cast<size_t>(at), " %s: %u sends, %u receives;",
                        lane.failed ? "failed" : "fine", lane.sends, lane.receives);
  return text_;
}

}  // namespace verbatim::stress
