// SPDX-License-Identifier: MIT
#include "tests/fuzz/raw_queues.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/status.h"

namespace verbatim::fuzz {

using connectx::Be32;
using connectx::Be64;
using connectx::kBasicBlock;
using connectx::kSegmentUnit;

namespace {

constexpr uint32_t kUnitsMax = 63;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "FAILED %s\n", what);
  std::abort();
}

void store(uint32_t& word, uint32_t value) { __atomic_store_n(&word, Be32(value).raw(), __ATOMIC_RELEASE); }

}  // namespace

RawQueues::RawQueues(hw::Hca& hca, hw::Pd* pd, hw::QpType type, bool shared_receive, Random& random)
    : hca_(hca),
      random_(random),
      type_(type),
      send_(kBlocks * kBasicBlock),
      receive_(kReceives * kReceiveStride),
      completions_(kCompletions * kBasicBlock, std::byte{0xf1}),
      spare_completions_(2 * kCompletions * kBasicBlock) {
  hw::CqSpec cq;
  cq.ring = {completions_.data(), completions_.size(), kCompletions, kBasicBlock};
  cq.doorbell = cq_doorbell_;
  cq.ignore_overrun = random.one_in(4);
  auto made_cq = hca.create_cq(cq);
  if (!made_cq) fail("create_cq");
  cq_ = *made_cq;
  if (shared_receive) {
    hw::SrqSpec srq;
    srq.pd = pd;
    srq.ring = {receive_.data(), receive_.size(), kReceives, kReceiveStride};
    srq.doorbell = srq_doorbell_;
    srq.sge_max = 3;
    auto made_srq = hca.create_srq(srq);
    if (!made_srq) fail("create_srq");
    srq_ = *made_srq;
  }
  hw::QpSpec qp;
  qp.type = type;
  qp.pd = pd;
  qp.send_cq = qp.receive_cq = cq_;
  qp.srq = srq_;
  qp.send = {send_.data(), send_.size(), kBlocks, kBasicBlock};
  if (!shared_receive) qp.receive = {receive_.data(), receive_.size(), kReceives, kReceiveStride};
  qp.doorbell = qp_doorbell_;
  auto made_qp = hca.create_qp(qp);
  if (!made_qp) fail("create_qp");
  qp_ = *made_qp;
}

RawQueues::~RawQueues() {
  if (!hca_.destroy_qp(qp_)) fail("destroy_qp");
  if (srq_ && !hca_.destroy_srq(srq_)) fail("destroy_srq");
  if (!hca_.destroy_cq(cq_)) fail("destroy_cq");
}

void RawQueues::reset() {
  hw::QpAttributes to;
  to.state = hw::QpState::kReset;
  if (!hca_.modify_qp(qp_, to, engine::kQpState)) fail("a queue pair can always be reset");
  store(qp_doorbell_[0], 0);
  store(qp_doorbell_[1], 0);
  send_counter_ = receive_counter_ = 0;
}

void RawQueues::connect(const Target& peer, bool odd) {
  using namespace engine;
  reset();
  QpAttributes to;
  to.state = QpState::kInit;
  to.port = 1;
  to.qkey = 0x1234;
  to.access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
  const bool datagrams = type_ == QpType::kUd;
  const bool reliable = type_ == QpType::kRc;
  Outcome done =
      hca_.modify_qp(qp_, to, kQpState | kQpPkeyIndex | kQpPort | (datagrams ? kQpQkey : kQpAccessFlags));
  if (!done) fail("RESET to INIT");
  to.state = QpState::kRtr;
  to.dest_qpn = peer.qpn;
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
  if (!done && !odd) fail("INIT to RTR");
  to.state = QpState::kRts;
  const uint32_t patience = kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;
  done = hca_.modify_qp(qp_, to, kQpState | kQpSqPsn | (reliable ? patience : 0));
  if (!done && !odd) fail("RTR to RTS");
}

void RawQueues::write_units(uint32_t index, uint32_t unit, const void* data, uint32_t units) {
  for (uint32_t i = 0; i < units; i++) {
    const size_t at = (static_cast<size_t>(index) * kBasicBlock + (unit + i) * kSegmentUnit) % send_.size();
    std::memcpy(send_.data() + at, static_cast<const char*>(data) + i * kSegmentUnit, kSegmentUnit);
  }
}

connectx::DataSegment RawQueues::data_segment(const std::vector<Memory>& memories) {
  const Memory& memory = memories[random_.below(static_cast<uint32_t>(memories.size()))];
  connectx::DataSegment segment;
  const uint32_t most = random_.one_in(4) ? static_cast<uint32_t>(memory.bytes) : 256;
  const uint32_t length = 1 + random_.below(most);
  segment.byte_count = length;
  segment.lkey = memory.mr ? memory.mr->lkey : random_.below(1 << 16);
  segment.address =
      reinterpret_cast<uint64_t>(memory.base) + random_.below(static_cast<uint32_t>(memory.bytes));
  if (random_.one_in(3)) segment.address = reinterpret_cast<uint64_t>(memory.base);
  if (random_.one_in(20)) segment.byte_count = static_cast<uint32_t>(random_.next());
  if (random_.one_in(20)) segment.address = random_.next();
  if (random_.one_in(20)) segment.lkey = static_cast<uint32_t>(random_.next());
  return segment;
}

void RawQueues::build_send(uint32_t index, uint32_t& units, const std::vector<Memory>& memories,
                           const Target& peer) {
  static constexpr uint8_t kOpcodes[] = {connectx::kOpSend,           connectx::kOpSendImmediate,
                                         connectx::kOpWrite,          connectx::kOpWriteImmediate,
                                         connectx::kOpRead,           connectx::kOpCompareSwap,
                                         connectx::kOpFetchAdd,       connectx::kOpNop,
                                         connectx::kOpSendInvalidate, connectx::kOpUmr};
  const uint8_t opcode =
      random_.one_in(16) ? static_cast<uint8_t>(random_.next()) : kOpcodes[random_.below(10)];
  units = 1;
  if (type_ == hw::QpType::kUd) {
    connectx::DatagramSegment to{};
    to.qkey = 0x1234;
    to.dest_qpn = connectx::kExtendedAv | peer.qpn;
    to.hop_limit = 1;
    to.gid_flow = connectx::kGrhPresent;
    const Gid gid = hca_.gid(0).gid;
    std::memcpy(to.rgid, &gid, sizeof to.rgid);
    if (random_.one_in(8)) random_.fill(&to, sizeof to);
    write_units(index, units, &to, sizeof to / kSegmentUnit);
    units += sizeof to / kSegmentUnit;
  }
  const bool atomic = opcode == connectx::kOpCompareSwap || opcode == connectx::kOpFetchAdd;
  if (atomic || opcode == connectx::kOpRead || opcode == connectx::kOpWrite ||
      opcode == connectx::kOpWriteImmediate) {
    connectx::RemoteSegment to{};
    to.address = peer.address + (random_.below(peer.bytes) & ~7u);
    to.rkey = peer.rkey;
    if (random_.one_in(10)) random_.fill(&to, sizeof to);
    write_units(index, units++, &to, 1);
  }
  if (atomic) {
    const connectx::AtomicSegment operands{random_.next(), random_.next()};
    write_units(index, units++, &operands, 1);
  }
  for (uint32_t left = random_.below(6); left > 0; left--) {
    connectx::DataSegment segment = data_segment(memories);
    if (atomic) segment.byte_count = 8;
    if (random_.one_in(6)) {
      segment.byte_count = connectx::kInlineFlag | random_.below(random_.one_in(4) ? 1 << 20 : 64);
      units += random_.below(4);
    }
    write_units(index, units++, &segment, 1);
  }
  connectx::ControlSegment control{};
  control.index_opcode = (index & 0xffff) << 8 | opcode;
  control.qpn_ds = qp_->number << 8 | units;
  control.flags = connectx::kCompletionAlways | static_cast<uint8_t>(random_.one_in(8) ? random_.next() : 0);
  if (random_.one_in(12)) control.qpn_ds = qp_->number << 8 | random_.below(64);
  write_units(index, 0, &control, 1);
}

void RawQueues::post_sends(uint32_t count, const std::vector<Memory>& memories, const Target& peer) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t units = 1 + random_.below(kUnitsMax);
    if (random_.one_in(8)) {
      random_.fill(send_.data() + (send_counter_ % kBlocks) * kBasicBlock, kBasicBlock);
    } else {
      build_send(send_counter_, units, memories, peer);
      if (random_.one_in(8))
        send_[random_.below(static_cast<uint32_t>(send_.size()))] = std::byte(random_.next());
    }
    send_counter_ += (units + 3) / 4;
  }
  store(qp_doorbell_[1], send_counter_ & 0xffff);
  hca_.ring_send(qp_);
}

void RawQueues::post_one_receive(const std::vector<Memory>& memories) {
  std::byte* entry = receive_.data() + (receive_counter_ % kReceives) * kReceiveStride;
  uint32_t at = 0;
  if (srq_) {
    connectx::SharedNextSegment link{};
    link.next_index = static_cast<uint16_t>((receive_counter_ + 1) % kReceives);
    if (random_.one_in(20)) random_.fill(&link, sizeof link);
    std::memcpy(entry, &link, sizeof link);
    at = sizeof link;
  }
  for (uint32_t left = 1 + random_.below(3); left > 0; left--, at += kSegmentUnit) {
    const connectx::DataSegment segment = data_segment(memories);
    std::memcpy(entry + at, &segment, sizeof segment);
  }
  const connectx::DataSegment end{0, connectx::kInvalidKey, 0};
  if (at < kReceiveStride) std::memcpy(entry + at, &end, sizeof end);
  if (random_.one_in(10)) random_.fill(entry, kReceiveStride);
  receive_counter_++;
}

void RawQueues::post_receives(uint32_t count, const std::vector<Memory>& memories) {
  for (uint32_t i = 0; i < count; i++) post_one_receive(memories);
  store(srq_ ? srq_doorbell_[0] : qp_doorbell_[0], receive_counter_ & 0xffff);
}

void RawQueues::damage_doorbells() {
  uint32_t* const words[] = {&qp_doorbell_[0], &qp_doorbell_[1], &cq_doorbell_[0], &cq_doorbell_[1],
                             &srq_doorbell_[0]};
  store(*words[random_.below(5)], static_cast<uint32_t>(random_.next()));
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
    const std::byte* entry = completions_.data() + (consumed_ % completion_entries_) * kBasicBlock;
    const auto last =
        __atomic_load_n(reinterpret_cast<const uint8_t*>(entry) + kBasicBlock - 1, __ATOMIC_ACQUIRE);
    if ((last & 1) != (consumed_ / completion_entries_ & 1) || last >> 4 == connectx::kCqeInvalid) break;
    taken_[last >> 4]++;
    consumed_++;
  }
  store(cq_doorbell_[0], consumed_ & connectx::kCqIndexMask);
  return taken;
}

void RawQueues::arm() {
  store(cq_doorbell_[1], random_.one_in(2) ? static_cast<uint32_t>(random_.next()) : consumed_ & 0xffffff);
  hca_.arm_cq(cq_);
}

void RawQueues::resize() {
  const uint32_t entries = completion_entries_ == kCompletions ? 2 * kCompletions : kCompletions;
  std::fill(spare_completions_.begin(), spare_completions_.end(), std::byte{0xf0});
  spare_completions_.resize(2 * kCompletions * kBasicBlock);
  if (!hca_.resize_cq(cq_, {spare_completions_.data(), entries * kBasicBlock, entries, kBasicBlock})) return;
  completions_.swap(spare_completions_);
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
  from.write_units(0, 0, &control, 1);
  from.write_units(0, 1, &out, 1);
  store(from.qp_doorbell_[1], 1);
  from.hca_.ring_send(from.qp_);
  for (int polls = 0; polls < 100000; polls++) {
    to.hca_.poll();
    if (from.take_completions() > 0) break;
  }
  return std::memcmp(source, target, kBytes) == 0 && target[kBytes] == std::byte{0};
}

}  // namespace verbatim::fuzz
