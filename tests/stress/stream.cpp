// SPDX-License-Identifier: MIT
#include "tests/stress/stream.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace verbatim::stress {

namespace {

constexpr uint32_t kInlineBytes = 64;
constexpr uint32_t kNoteSlot = kBatchMax;  ///< memory of the small messages that pace both sides
constexpr size_t kMemoryBytes = kBatchMax * kSlotBytes + 4096;
constexpr uint32_t kNoteBytes = 8;
constexpr uint64_t kReceiveId = 1ull << 32;
constexpr uint64_t kNoteId = 1000;
constexpr uint64_t kPatienceNs = 60 * kSecondNs;
constexpr uint32_t kCellOffset = 64;  ///< where an atomic's word lies in its slot

bool is_atomic(Kind kind) { return kind == Kind::kFetchAdd || kind == Kind::kCompareSwap; }
bool is_read(Kind kind) { return kind == Kind::kRead || kind == Kind::kReadBack; }
bool is_send(Kind kind) { return kind == Kind::kSend || kind == Kind::kSendImmediate; }
bool takes_receive(Kind kind) { return is_send(kind) || kind == Kind::kWriteImmediate; }

ibv_wr_opcode opcode_of(Kind kind) {
  switch (kind) {
    case Kind::kSend:
      return IBV_WR_SEND;
    case Kind::kSendImmediate:
      return IBV_WR_SEND_WITH_IMM;
    case Kind::kWrite:
    case Kind::kOverwrite:
      return IBV_WR_RDMA_WRITE;
    case Kind::kWriteImmediate:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Kind::kRead:
    case Kind::kReadBack:
      return IBV_WR_RDMA_READ;
    case Kind::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Kind::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
  }
  return IBV_WR_SEND;
}

/// The first `length` bytes of a list.
std::vector<Part> front_of(std::vector<Part> parts, uint32_t length) {
  for (size_t i = 0; i < parts.size(); i++) {
    parts[i].length = std::min(parts[i].length, length);
    length -= parts[i].length;
  }
  std::erase_if(parts, [](const Part& part) { return part.length == 0; });
  return parts;
}

void fill(const Step& step, std::byte* slot, const std::vector<Part>& parts) {
  uint64_t at = 0;
  for (const Part& part : parts) {
    fill_pattern(step.pattern, at, slot + part.offset, part.length);
    at += part.length;
  }
}

bool holds(const Step& step, const std::byte* slot, const std::vector<Part>& parts) {
  uint64_t at = 0;
  for (const Part& part : parts) {
    if (check_pattern(step.pattern, at, slot + part.offset, part.length) != part.length) return false;
    at += part.length;
  }
  return true;
}

}  // namespace

Stream::Stream(const Device& device, uint32_t number, uint64_t seed, bool sleeps)
    : device_(device), number_(number), sleeps_(sleeps), plan_(seed, kInlineBytes) {
  memory_ = map_memory(kMemoryBytes);
  for (ibv_mr*& region : regions_) {
    region = ibv_reg_mr(
        device.pd, memory_, kMemoryBytes,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    require(region, "ibv_reg_mr");
  }
  if (sleeps) require(channel_ = ibv_create_comp_channel(device.context), "ibv_create_comp_channel");
  require(cq_ = ibv_create_cq(device.context, 128, nullptr, channel_, 0), "ibv_create_cq");
  qp_ = make_qp(device, cq_, cq_, {32, 32, kElementsMax, kInlineBytes});
}

Stream::~Stream() {
  require(ibv_destroy_qp(qp_) == 0, "ibv_destroy_qp");
  require(ibv_destroy_cq(cq_) == 0, "ibv_destroy_cq");
  if (channel_) require(ibv_destroy_comp_channel(channel_) == 0, "ibv_destroy_comp_channel");
  for (ibv_mr* region : regions_) require(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
  munmap(memory_, kMemoryBytes);
}

Stream::Card Stream::card() const {
  return {address_of(device_, qp_), reinterpret_cast<uint64_t>(memory_), regions_[number_ % 2]->rkey};
}

void Stream::connect(const Card& peer) {
  peer_ = peer;
  require(connect_qp(qp_, address_of(device_, qp_), peer.address), "connect_qp");
}

uint64_t Stream::remote(const Step& step) const {
  const uint32_t offset = is_atomic(step.kind) ? kCellOffset : step.remote_skew;
  return peer_.memory + step.slot * kSlotBytes + offset;
}

uint32_t Stream::elements(uint32_t index, const std::vector<Part>& parts, ibv_sge* out) const {
  uint32_t count = 0;
  for (const Part& part : parts) {
    out[count] = {reinterpret_cast<uint64_t>(slot(index) + part.offset), part.length,
                  regions_[count % 2]->lkey};
    count++;
  }
  return count;
}

void Stream::sort_completions() {
  ibv_wc done[16];
  const int count = ibv_poll_cq(cq_, 16, done);
  if (count < 0) fail("stream %u: ibv_poll_cq says %d", number_, count);
  for (int i = 0; i < count; i++) {
    if (done[i].status != IBV_WC_SUCCESS)
      fail("stream %u, batch %u: work request %llx ended with %s (vendor 0x%x)", number_, batch_,
           static_cast<unsigned long long>(done[i].wr_id), ibv_wc_status_str(done[i].status),
           done[i].vendor_err);
    (done[i].wr_id & kReceiveId ? received_ : sent_).push_back(done[i]);
  }
}

ibv_wc Stream::next_completion(bool receive) {
  std::deque<ibv_wc>& queue = receive ? received_ : sent_;
  const uint64_t began = now_ns();
  for (sort_completions(); queue.empty(); sort_completions()) {
    if (now_ns() - began > kPatienceNs)
      fail("stream %u, batch %u: no %s completion comes any more", number_, batch_,
           receive ? "receive" : "send");
    if (!sleeps_) {
      sched_yield();
      continue;
    }
    require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    sort_completions();
    if (!queue.empty()) break;
    pollfd event{channel_->fd, POLLIN, 0};
    if (poll(&event, 1, static_cast<int>(kPatienceNs / kMillisecondNs)) <= 0) continue;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    require(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
  }
  const ibv_wc done = queue.front();
  queue.pop_front();
  return done;
}

void Stream::post_receive(uint64_t id, uint32_t index, const std::vector<Part>& parts) {
  ibv_sge list[kElementsMax];
  ibv_recv_wr work{}, *bad = nullptr;
  work.wr_id = id | kReceiveId;
  work.sg_list = list;
  work.num_sge = static_cast<int>(elements(index, parts, list));
  require(ibv_post_recv(qp_, &work, &bad) == 0, "ibv_post_recv");
}

void Stream::send_note(uint64_t id, uint32_t number) {
  std::memcpy(slot(kNoteSlot), &number, sizeof number);
  ibv_sge list{reinterpret_cast<uint64_t>(slot(kNoteSlot)), kNoteBytes, regions_[0]->lkey};
  ibv_send_wr work{}, *bad = nullptr;
  work.wr_id = id;
  work.sg_list = &list;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND_WITH_IMM;
  // Fenced: what comes after a read may overtake it (IBA table 79), and the responder reuses what was read.
  work.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE;
  work.imm_data = htonl(number);
  require(ibv_post_send(qp_, &work, &bad) == 0, "ibv_post_send of a note");
}

void Stream::expect(bool fine, const Step& step, const char* what) const {
  if (!fine)
    fail("stream %u, batch %u: %s (kind %d, %u bytes, slot %u)", number_, batch_, what,
         static_cast<int>(step.kind), step.length, step.slot);
}

// --- the requester ---

void Stream::request_step(const Step& step, uint32_t position) {
  lay_canary(slot(position), step.length);
  if (!is_read(step.kind) && !is_atomic(step.kind)) fill(step, slot(position), step.local);
  ibv_sge list[kElementsMax];
  ibv_send_wr work{}, *bad = nullptr;
  work.wr_id = position;
  work.sg_list = list;
  work.num_sge = static_cast<int>(elements(position, step.local, list));
  work.opcode = opcode_of(step.kind);
  if (step.signaled) work.send_flags |= IBV_SEND_SIGNALED;
  if (step.inline_data) work.send_flags |= IBV_SEND_INLINE;
  if (step.fence) work.send_flags |= IBV_SEND_FENCE;
  work.imm_data = htonl(step.immediate);
  if (is_atomic(step.kind)) {
    work.wr.atomic = {remote(step), step.operand, step.operand, peer_.rkey};
    if (step.kind == Kind::kCompareSwap)
      work.wr.atomic.compare_add = step.matches ? step.pattern : ~step.pattern;
  } else {
    work.wr.rdma = {remote(step), peer_.rkey};
  }
  require(ibv_post_send(qp_, &work, &bad) == 0, "ibv_post_send");
}

void Stream::check_request(const Step& step, uint32_t position) const {
  const std::byte* mine = slot(position);
  if (is_atomic(step.kind)) {
    uint64_t original;
    std::memcpy(&original, mine + step.local[0].offset, sizeof original);
    expect(original == step.pattern, step, "an atomic returned another value");
  } else {
    expect(holds(step, mine, step.local), step, "wrong bytes at the requester");
  }
  expect(find_trespass(mine, step.length, step.local) < 0, step,
         "bytes beside the requester's elements changed");
}

void Stream::request(uint64_t bytes, Totals& totals) {
  post_receive(kNoteId, kNoteSlot, {{64, 64}});
  for (uint64_t moved = 0; moved < bytes; batch_++) {
    const Batch batch = plan_.next();
    const ibv_wc go = next_completion(true);
    if (ntohl(go.imm_data) != batch_)
      fail("stream %u: go for batch %u, not %u", number_, ntohl(go.imm_data), batch_);
    post_receive(kNoteId, kNoteSlot, {{64, 64}});
    for (uint32_t i = 0; i < batch.steps.size(); i++) request_step(batch.steps[i], i);
    send_note(kNoteId, batch_);
    for (uint32_t i = 0; i < batch.steps.size(); i++) {
      if (!batch.steps[i].signaled) continue;
      const ibv_wc done = next_completion(false);
      expect(done.wr_id == i, batch.steps[i], "send completions out of order");
      if (is_read(batch.steps[i].kind) || is_atomic(batch.steps[i].kind))
        expect(done.byte_len == batch.steps[i].length, batch.steps[i],
               "a read's completion counts other bytes");
    }
    if (next_completion(false).wr_id != kNoteId) fail("stream %u: a completion too many", number_);
    for (uint32_t i = 0; i < batch.steps.size(); i++) check_request(batch.steps[i], i);
    for (const Step& step : batch.steps) totals.operations[static_cast<size_t>(step.kind)]++;
    totals.bytes += batch.bytes;
    moved += batch.bytes;
  }
}

// --- the responder ---

void Stream::prepare(const Batch& batch) {
  for (const Step& step : batch.steps) {
    if (step.kind == Kind::kReadBack || step.kind == Kind::kOverwrite) continue;
    lay_canary(slot(step.slot), step.length);
    if (step.kind == Kind::kRead)
      fill_pattern(step.pattern, 0, slot(step.slot) + step.remote_skew, step.length);
    if (is_atomic(step.kind)) std::memcpy(slot(step.slot) + kCellOffset, &step.pattern, 8);
  }
}

void Stream::post_receives(const Batch& batch) {
  for (uint32_t i = 0; i < batch.steps.size(); i++)
    if (takes_receive(batch.steps[i].kind)) post_receive(i, i, batch.steps[i].posted);
  post_receive(kNoteId, kNoteSlot, {{64, 64}});
}

void Stream::take_receives(const Batch& batch) {
  for (uint32_t i = 0; i < batch.steps.size(); i++) {
    const Step& step = batch.steps[i];
    if (!takes_receive(step.kind)) continue;
    const ibv_wc done = next_completion(true);
    expect(done.wr_id == (i | kReceiveId), step, "receive completions out of order");
    expect(done.opcode == (is_send(step.kind) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM), step,
           "a receive completion of another kind");
    expect(done.byte_len == step.length, step, "a receive completion counts other bytes");
    const bool immediate = step.kind != Kind::kSend;
    expect(((done.wc_flags & IBV_WC_WITH_IMM) != 0) == immediate, step, "immediate data where none was sent");
    expect(!immediate || ntohl(done.imm_data) == step.immediate, step, "other immediate data");
  }
  const ibv_wc end = next_completion(true);
  if (end.wr_id != (kNoteId | kReceiveId) || ntohl(end.imm_data) != batch_)
    fail("stream %u: batch %u does not end with its note", number_, batch_);
}

void Stream::judge(const Batch& batch) const {
  for (size_t i = 0; i < batch.steps.size(); i++) {
    const Step& step = batch.steps[i];
    const bool overwritten = std::any_of(
        batch.steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, batch.steps.end(),
        [&](const Step& later) { return later.kind == Kind::kOverwrite && later.slot == step.slot; });
    if (overwritten || step.kind == Kind::kReadBack) continue;
    const std::byte* mine = slot(step.slot);
    std::vector<Part> touched{{step.remote_skew, step.length}};
    if (is_send(step.kind)) touched = front_of(step.posted, step.length);
    if (is_atomic(step.kind)) {
      touched = {{kCellOffset, 8}};
      const uint64_t sum = step.pattern + step.operand;
      const uint64_t expected = step.kind == Kind::kFetchAdd ? sum
                                : step.matches               ? step.operand
                                                             : step.pattern;
      uint64_t cell;
      std::memcpy(&cell, mine + kCellOffset, sizeof cell);
      expect(cell == expected, step, "an atomic left another value");
    } else {
      expect(holds(step, mine, touched), step, "wrong bytes at the responder");
    }
    expect(find_trespass(mine, step.length, touched) < 0, step,
           "bytes beside the responder's memory changed");
  }
}

void Stream::respond(uint64_t bytes, Totals& totals) {
  for (uint64_t moved = 0; moved < bytes; batch_++) {
    const Batch batch = plan_.next();
    prepare(batch);
    if (!batch.late_receives) post_receives(batch);
    send_note(kNoteId, batch_);
    if (batch.late_receives) {
      for (int i = 0; i < 20; i++) sched_yield();
      post_receives(batch);
    }
    if (next_completion(false).wr_id != kNoteId) fail("stream %u: a completion too many", number_);
    take_receives(batch);
    judge(batch);
    moved += batch.bytes;
    totals.bytes += batch.bytes;
  }
}

}  // namespace verbatim::stress
