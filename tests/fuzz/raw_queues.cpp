// SPDX-License-Identifier: MIT
// Life, doorbells and completions of raw queues; raw_entries.cpp writes what is in them.
#include "tests/fuzz/raw_queues.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/status.h"

namespace verbatim::fuzz {

using connectx::Be32;
using connectx::kBasicBlock;

namespace {

constexpr uint32_t kQkey = 0x1234;

/// A sound command is carried out.
template <class T>
void sound(const Expected<T>& result, const char* what) {
  if (result) return;
  std::fprintf(stderr, "FAILED %s: %s\n", what, result.error().reason.c_str());
  std::abort();
}
template <class T>
T made(const Expected<T>& result, const char* what) {
  sound(result, what);
  return *result;
}

void store(uint32_t& word, uint32_t value) { __atomic_store_n(&word, Be32(value).raw(), __ATOMIC_RELEASE); }

hw::QueueMemory memory_of(std::vector<std::byte>& bytes, uint32_t stride) {
  return {bytes.data(), bytes.size(), static_cast<uint32_t>(bytes.size() / stride), stride};
}

/// Entries that no lap has written yet.
std::vector<std::byte> fresh_completions(uint32_t entries, uint32_t stride) {
  return std::vector<std::byte>(static_cast<size_t>(entries) * stride, std::byte{0xf1});
}

}  // namespace

Shape Shape::any(hw::QpType type, Random& random) {
  Shape shape;
  shape.type = type;
  shape.shared_receive = random.one_in(3);
  shape.noise = random.below(4);
  if (random.one_in(2)) return shape;
  shape.blocks = 1u << random.below(9);
  shape.receives = 1u << random.below(7);
  shape.receive_stride = (shape.shared_receive ? 32u : 16u) << random.below(5);
  shape.completions = 1u << random.below(9);
  shape.completion_stride = random.one_in(2) ? 64 : 128;
  shape.ignore_overrun = random.one_in(2);
  return shape;
}

RawQueues::RawQueues(hw::Hca& hca, hw::Pd* pd, const Shape& shape, Random& random)
    : hca_(hca),
      random_(random),
      shape_(shape),
      noise_(shape.noise),
      send_(shape.blocks * kBasicBlock),
      receive_(shape.receives * shape.receive_stride),
      completions_(fresh_completions(shape.completions, shape.completion_stride)),
      completion_entries_(shape.completions) {
  hw::CqSpec cq;
  cq.ring = memory_of(completions_, shape.completion_stride);
  cq.doorbell = cq_doorbell_;
  cq.ignore_overrun = shape.ignore_overrun;
  cq_ = made(hca.create_cq(cq), "create_cq");
  if (shape.shared_receive) {
    hw::SrqSpec srq;
    srq.pd = pd;
    srq.ring = memory_of(receive_, shape.receive_stride);
    srq.doorbell = srq_doorbell_;
    srq.sge_max = shape.receive_stride / connectx::kSegmentUnit - 1;
    srq.limit = random_.below(4);
    srq_ = made(hca.create_srq(srq), "create_srq");
  }
  hw::QpSpec qp;
  qp.type = shape.type;
  qp.pd = pd;
  qp.send_cq = qp.receive_cq = cq_;
  qp.srq = srq_;
  qp.send = memory_of(send_, kBasicBlock);
  if (!shape.shared_receive) qp.receive = memory_of(receive_, shape.receive_stride);
  qp.doorbell = qp_doorbell_;
  qp_ = made(hca.create_qp(qp), "create_qp");
  if (shape.type == hw::QpType::kUd) sound(hca.attach_multicast(qp_, fuzz_group()), "attach_multicast");
}

RawQueues::~RawQueues() {
  sound(hca_.destroy_qp(qp_), "destroy_qp");
  if (srq_) sound(hca_.destroy_srq(srq_), "destroy_srq");
  sound(hca_.destroy_cq(cq_), "destroy_cq");
}

void RawQueues::reset() {
  hw::QpAttributes to;
  to.state = hw::QpState::kReset;
  sound(hca_.modify_qp(qp_, to, engine::kQpState), "a queue pair can always be reset");
  store(qp_doorbell_[0], 0);
  store(qp_doorbell_[1], 0);
  take_completions();
  send_counter_ = send_done_ = 0;
  if (!srq_) receive_counter_ = receive_done_ = 0;
}

void RawQueues::connect(uint32_t peer_qpn, bool odd) {
  using namespace engine;
  reset();
  QpAttributes to;
  to.state = QpState::kInit;
  to.port = 1;
  to.qkey = kQkey;
  to.access = odd ? random_.below(16) : kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
  const bool datagrams = shape_.type == QpType::kUd;
  const bool reliable = shape_.type == QpType::kRc;
  Outcome done =
      hca_.modify_qp(qp_, to, kQpState | kQpPkeyIndex | kQpPort | (datagrams ? kQpQkey : kQpAccessFlags));
  if (!odd) sound(done, "RESET to INIT");
  to.state = QpState::kRtr;
  to.dest_qpn = peer_qpn;
  to.path.dgid = hca_.gid(0).gid;
  to.path.is_global = true;
  to.max_dest_rd_atomic = 4;
  to.min_rnr_timer = 1;
  to.timeout = 8;
  to.retry_count = 1;
  to.rnr_retry = 1;
  to.max_rd_atomic = 4;
  if (odd) {
    to.dest_qpn = random_.one_in(2) ? random_.below(1 << 24) : to.dest_qpn;
    to.rq_psn = random_.below(1 << 24);
    to.sq_psn = random_.below(1 << 24);
    to.path_mtu = 256u << random_.below(5);
    to.max_rd_atomic = static_cast<uint8_t>(random_.below(17));
    to.max_dest_rd_atomic = static_cast<uint8_t>(random_.below(17));
    to.rnr_retry = static_cast<uint8_t>(random_.below(8));
  }
  const uint32_t connection = kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
  const uint32_t ready = kQpMaxDestRdAtomic | kQpMinRnrTimer;
  done = hca_.modify_qp(qp_, to, kQpState | (datagrams ? 0 : connection | (reliable ? ready : 0)));
  if (!odd) sound(done, "INIT to RTR");
  to.state = QpState::kRts;
  const uint32_t patience = kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;
  done = hca_.modify_qp(qp_, to, kQpState | kQpSqPsn | (reliable ? patience : 0));
  // What the peer has sent meanwhile may have ended it already.
  if (!odd && hca_.query_qp(qp_).state != QpState::kError) sound(done, "RTR to RTS");
}

void RawQueues::shove() {
  static constexpr hw::QpState kStates[] = {hw::QpState::kSqd, hw::QpState::kRts, hw::QpState::kError,
                                            hw::QpState::kInit};
  hw::QpAttributes to;
  to.state = kStates[random_.below(4)];
  to.en_sqd_async_notify = 1;
  to.access = random_.below(16);
  const uint32_t notify = to.state == hw::QpState::kSqd ? uint32_t{engine::kQpEnSqdAsyncNotify} : 0;
  (void)hca_.modify_qp(
      qp_, to, engine::kQpState | notify | (random_.one_in(8) ? uint32_t{engine::kQpAccessFlags} : 0));
  (void)hca_.query_qp(qp_);
}

void RawQueues::post_sends(uint32_t count, Memories& memories, const Target& peer) {
  constexpr uint32_t kEntryBlocksMax = 16;
  const uint32_t spared = shape_.blocks - std::min(shape_.blocks, kEntryBlocksMax);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t used = (send_counter_ - send_done_) & 0xffff;
    if (used > spared && used <= shape_.blocks && !wrong(16)) break;
    uint32_t units = 1 + random_.below(63);
    if (wrong(16)) {
      random_.fill(send_.data() + send_counter_ % shape_.blocks * kBasicBlock, kBasicBlock);
    } else {
      units = build_send(send_counter_, memories, peer);
      if (wrong(16)) send_[random_.below(static_cast<uint32_t>(send_.size()))] = std::byte(random_.next());
    }
    send_counter_ += (units + 3) / 4;
  }
  store(qp_doorbell_[1], send_counter_ & 0xffff);
  hca_.ring_send(qp_);
}

void RawQueues::post_receives(uint32_t count, Memories& memories) {
  for (uint32_t i = 0; i < count; i++)
    if (receive_counter_ - receive_done_ < shape_.receives || wrong(32)) post_one_receive(memories);
  store(srq_ ? srq_doorbell_[0] : qp_doorbell_[0], receive_counter_ & 0xffff);
  if (srq_ && random_.one_in(4)) (void)hca_.arm_srq(srq_, random_.below(shape_.receives + 2));
  if (srq_) (void)hca_.srq_limit(srq_);
}

void RawQueues::damage_doorbells() {
  uint32_t* const words[] = {&qp_doorbell_[0], &qp_doorbell_[1],  &cq_doorbell_[0],
                             &cq_doorbell_[1], &srq_doorbell_[0], &srq_doorbell_[1]};
  uint32_t& word = *words[random_.below(6)];
  const uint32_t now = Be32::from_raw(__atomic_load_n(&word, __ATOMIC_RELAXED));
  const uint32_t steps[] = {
      1, shape_.blocks, shape_.blocks + 1, shape_.receives + 1, completion_entries_ + 1, 0x8000};
  const uint32_t step = steps[random_.below(6)];
  if (random_.one_in(3))
    store(word, static_cast<uint32_t>(random_.next()));
  else
    store(word, random_.one_in(2) ? now + step : now - step);
  hca_.ring_send(qp_);
}

void RawQueues::damage_queues() {
  std::vector<std::byte>* const queues[] = {&send_, &receive_, &completions_};
  std::vector<std::byte>& queue = *queues[random_.below(3)];
  const uint32_t from = random_.below(static_cast<uint32_t>(queue.size()));
  random_.fill(queue.data() + from, std::min<size_t>(queue.size() - from, 1 + random_.below(512)));
  hca_.ring_send(qp_);
}

uint32_t RawQueues::take_completions() {
  uint32_t taken = 0;
  for (; taken < 2 * completion_entries_; taken++) {
    const std::byte* last_byte =
        completions_.data() + (consumed_ % completion_entries_ + 1) * shape_.completion_stride - 1;
    const auto last = __atomic_load_n(reinterpret_cast<const uint8_t*>(last_byte), __ATOMIC_ACQUIRE);
    if ((last & 1) != (consumed_ / completion_entries_ & 1) || last >> 4 == connectx::kCqeInvalid) break;
    taken_[last >> 4]++;
    consumed_++;
    note_completion(last_byte);
  }
  store(cq_doorbell_[0], consumed_ & connectx::kCqIndexMask);
  return taken;
}

void RawQueues::note_completion(const std::byte* last_byte) {
  connectx::Cqe cqe;
  std::memcpy(&cqe, last_byte + 1 - sizeof cqe, sizeof cqe);
  const uint8_t kind = cqe.opcode_owner >> 4;
  if (kind == connectx::kCqeRequest || kind == connectx::kCqeRequestError)
    send_done_ = cqe.wqe_counter + 1u;
  else if (receive_done_ != receive_counter_)
    receive_done_++;
}

void RawQueues::arm() {
  store(cq_doorbell_[1], random_.one_in(2) ? static_cast<uint32_t>(random_.next()) : consumed_ & 0xffffff);
  hca_.arm_cq(cq_);
  if (random_.one_in(8))
    (void)hca_.moderate_cq(cq_, static_cast<uint16_t>(random_.below(8)),
                           static_cast<uint16_t>(random_.below(2)));
}

void RawQueues::resize() {
  const uint32_t entries = 1u << random_.below(10);
  std::vector<std::byte> ring = fresh_completions(entries, shape_.completion_stride);
  if (!hca_.resize_cq(cq_, memory_of(ring, shape_.completion_stride))) return;
  completions_.swap(ring);
  completion_entries_ = entries;
}

bool RawQueues::exchange(RawQueues& from, RawQueues& to, const Memory& memory) {
  constexpr uint32_t kBytes = 100;
  std::byte* source = memory.base;
  std::byte* target = memory.base + 4096;
  std::memset(source, 0x5a, kBytes);
  std::memset(target, 0, kBytes + 1);
  const connectx::DataSegment out{kBytes, memory.mr->lkey, reinterpret_cast<uint64_t>(source)};
  const connectx::DataSegment in[2] = {{kBytes, memory.mr->lkey, reinterpret_cast<uint64_t>(target)},
                                       {0, connectx::kInvalidKey, 0}};
  std::memcpy(to.receive_.data(), in, sizeof in);
  store(to.qp_doorbell_[0], 1);
  connectx::ControlSegment control{};
  control.index_opcode = connectx::kOpSend;
  control.qpn_ds = from.qp_->number << 8 | 2;
  control.flags = connectx::kCompletionAlways;
  from.write_units(0, 0, &control, sizeof control);
  from.write_units(0, 1, &out, sizeof out);
  store(from.qp_doorbell_[1], 1);
  from.hca_.ring_send(from.qp_);
  for (int polls = 0; polls < 100000; polls++) {
    to.hca_.poll();
    if (from.take_completions() > 0) break;
  }
  return std::memcmp(source, target, kBytes) == 0 && target[kBytes] == std::byte{0};
}

}  // namespace verbatim::fuzz
