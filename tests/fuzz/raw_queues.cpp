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
constexpr size_t kIndices = 1 << 16;
constexpr uint32_t kAllRights =
    engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;

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

/// Entries that no lap has written yet.
std::vector<std::byte> fresh_completions(uint32_t entries, uint32_t stride) {
  return std::vector<std::byte>(static_cast<size_t>(entries) * stride, std::byte{0xf1});
}

}  // namespace

Taken& Taken::operator+=(const Taken& more) {
  for (size_t i = 0; i < std::size(kinds); i++) kinds[i] += more.kinds[i];
  for (size_t i = 0; i < kOpcodes; i++) {
    sends[i].done += more.sends[i].done;
    sends[i].failed += more.sends[i].failed;
    sends[i].flushed += more.sends[i].flushed;
  }
  return *this;
}

Shape Shape::any(hw::QpType type, Random& random) {
  Shape shape;
  shape.type = type;
  shape.shared_receive = type == hw::QpType::kDci || random.one_in(3);
  shape.cyclic = random.one_in(3);
  shape.bare = shape.cyclic && random.one_in(2);
  shape.revocable = random.one_in(4);
  static constexpr uint32_t kNoises[] = {0, 1, 4, 16};
  shape.noise = kNoises[random.below(4)];
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
      completion_entries_(shape.completions),
      opcodes_(kIndices) {
  make_queues(pd);
  if (shape.type == hw::QpType::kUd) sound(hca.attach_multicast(qp_, fuzz_group()), "attach_multicast");
  if (shape.type == hw::QpType::kDci) make_target(pd);
}

hw::QueueMemory RawQueues::memory_of(std::vector<std::byte>& bytes, uint32_t stride) const {
  hw::QueueMemory memory{bytes.data(), bytes.size(), static_cast<uint32_t>(bytes.size() / stride), stride};
  memory.revocable = shape_.revocable;
  return memory;
}

void RawQueues::make_queues(hw::Pd* pd) {
  hw::CqSpec cq;
  cq.ring = memory_of(completions_, shape_.completion_stride);
  cq.doorbell = cq_doorbell_;
  cq.ignore_overrun = shape_.ignore_overrun;
  cq_ = made(hca_.create_cq(cq), "create_cq");
  if (shape_.shared_receive) {
    hw::SrqSpec srq;
    srq.pd = pd;
    srq.ring = memory_of(receive_, shape_.receive_stride);
    srq.doorbell = srq_doorbell_;
    srq.sge_max = shape_.receive_stride / connectx::kSegmentUnit - 1;
    srq.limit = random_.below(4);
    srq.cyclic = shape_.cyclic;
    srq.bare = shape_.bare;
    srq_ = made(hca_.create_srq(srq), "create_srq");
  }
  const bool initiates = shape_.type == hw::QpType::kDci;
  hw::QpSpec qp;
  qp.type = shape_.type;
  qp.pd = pd;
  qp.send_cq = qp.receive_cq = cq_;
  if (!initiates) qp.srq = srq_;
  qp.send = memory_of(send_, kBasicBlock);
  if (!shape_.shared_receive) qp.receive = memory_of(receive_, shape_.receive_stride);
  qp.doorbell = qp_doorbell_;
  if (initiates) qp.errored_streams_max = 1u << random_.below(3);
  qp_ = made(hca_.create_qp(qp), "create_qp");
}

// As ready as it will ever be.
void RawQueues::make_target(hw::Pd* pd) {
  using namespace engine;
  hw::QpSpec spec;
  spec.type = hw::QpType::kDct;
  spec.pd = pd;
  spec.send_cq = spec.receive_cq = cq_;
  spec.srq = srq_;
  spec.access_key = kAccessKey;
  target_ = made(hca_.create_qp(spec), "create_qp of a DC target");
  hw::QpAttributes to;
  to.state = hw::QpState::kInit;
  to.port = 1;
  to.access = noise_ != 0 && random_.one_in(4) ? random_.below(16) : kAllRights;
  sound(hca_.modify_qp(target_, to, kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags),
        "RESET to INIT of a DC target");
  to.state = hw::QpState::kRtr;
  to.path.is_global = true;
  to.path.port = 1;
  to.path.hop_limit = 1;
  to.min_rnr_timer = 1;
  sound(hca_.modify_qp(target_, to, kQpState | kQpAv | kQpPathMtu | kQpMinRnrTimer),
        "INIT to RTR of a DC target");
}

RawQueues::~RawQueues() {
  sound(hca_.destroy_qp(qp_), "destroy_qp");
  if (target_) sound(hca_.destroy_qp(target_), "destroy_qp of a DC target");
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
  // What the peer has sent meanwhile, or a completion queue that overruns, may have ended it already.
  const auto expect = [&](const Outcome& result, const char* what) {
    if (!odd && hca_.query_qp(qp_).state != QpState::kError) sound(result, what);
  };
  QpAttributes to;
  to.state = QpState::kInit;
  to.port = 1;
  to.qkey = kQkey;
  to.access = odd ? random_.below(16) : kAllRights;
  const bool datagrams = shape_.type == QpType::kUd, initiates = shape_.type == QpType::kDci;
  const bool reliable = shape_.type == QpType::kRc;
  const uint32_t own = initiates ? 0 : datagrams ? uint32_t{kQpQkey} : uint32_t{kQpAccessFlags};
  Outcome done = hca_.modify_qp(qp_, to, kQpState | kQpPkeyIndex | kQpPort | own);
  expect(done, "RESET to INIT");
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
  const uint32_t to_peer = initiates ? uint32_t{kQpPathMtu} : connection | (reliable ? ready : 0);
  done = hca_.modify_qp(qp_, to, kQpState | (datagrams ? 0 : to_peer));
  expect(done, "INIT to RTR");
  to.state = QpState::kRts;
  const uint32_t patience = kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;
  done = hca_.modify_qp(qp_, to, kQpState | kQpSqPsn | (reliable || initiates ? patience : 0));
  expect(done, "RTR to RTS");
}

void RawQueues::shove() {
  if (target_ && random_.one_in(2))
    return (void)hca_.reset_stream(qp_, static_cast<uint16_t>(random_.below(kStreams)));
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
    taken_.kinds[last >> 4]++;
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
    note_send(kind, last_byte + 1 - sizeof cqe);
  else if (receive_done_ != receive_counter_)
    receive_done_++;
}

// What was done is what the device says; an entry that failed may not have been understood.
void RawQueues::note_send(uint8_t kind, const std::byte* entry) {
  connectx::ErrorCqe cqe;
  std::memcpy(&cqe, entry, sizeof cqe);
  send_done_ = cqe.wqe_counter + 1u;
  if (kind == connectx::kCqeRequest)
    taken_.sends[(cqe.opcode_qpn >> 24) % Taken::kOpcodes].done++;
  else if (cqe.syndrome == connectx::kSyndromeFlushed)
    taken_.sends[opcodes_[cqe.wqe_counter] % Taken::kOpcodes].flushed++;
  else
    taken_.sends[opcodes_[cqe.wqe_counter] % Taken::kOpcodes].failed++;
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
