// SPDX-License-Identifier: MIT
// Queue entries written by hand: each kind as it should be, then with something wrong about it.
#include <algorithm>
#include <cstring>

#include "tests/fuzz/raw_queues.h"

namespace verbatim::fuzz {

using connectx::kBasicBlock;
using connectx::kSegmentUnit;

namespace {

constexpr uint32_t kQkey = 0x1234;
constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint32_t kPiecesMax = 6;
constexpr uint32_t kUnitsMax = 63;

/// Those that every service offers, then those of UC, those of RC and DC.
constexpr uint8_t kOpcodes[] = {connectx::kOpSend,  connectx::kOpSendImmediate,  connectx::kOpNop,
                                connectx::kOpWrite, connectx::kOpWriteImmediate, connectx::kOpUmr,
                                connectx::kOpMmo,   connectx::kOpSetPsv,         connectx::kOpSendInvalidate,
                                connectx::kOpRead,  connectx::kOpCompareSwap,    connectx::kOpFetchAdd};

/// All others that a ConnectX knows: large sends, waits, masked atomics, signatures, dumps, tag matching,
/// flow tables; and the two that it does not. Whatever becomes of them, what follows their control segment
/// may be anything.
constexpr uint8_t kRare[] = {0x0e, 0x0f, 0x13, 0x14, 0x15, 0x18, 0x19, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
                             0x21, 0x22, 0x23, 0x24, 0x26, 0x28, 0x2a, 0x2c, 0x2d, 0x38, 0x39};

uint32_t offered(hw::QpType type) {
  return type == hw::QpType::kUd ? 3 : type == hw::QpType::kUc ? 8 : sizeof kOpcodes;
}

bool is_local(uint8_t opcode) {
  return opcode == connectx::kOpUmr || opcode == connectx::kOpMmo || opcode == connectx::kOpSetPsv;
}

bool is_atomic(uint8_t opcode) {
  return opcode == connectx::kOpCompareSwap || opcode == connectx::kOpFetchAdd;
}

bool is_remote(uint8_t opcode) {
  return is_atomic(opcode) || opcode == connectx::kOpRead || opcode == connectx::kOpWrite ||
         opcode == connectx::kOpWriteImmediate;
}

}  // namespace

Gid RawQueues::fuzz_group() {
  Gid group{};
  group.bytes[0] = 0xff;
  group.bytes[1] = 0x0e;
  group.bytes[15] = 0x77;
  return group;
}

void RawQueues::write_units(uint32_t index, uint32_t unit, const void* data, uint32_t bytes) {
  for (uint32_t done = 0; done < bytes; done += kSegmentUnit) {
    const size_t at =
        (static_cast<size_t>(index) * kBasicBlock + static_cast<size_t>(unit) * kSegmentUnit + done) %
        send_.size();
    std::memcpy(send_.data() + at, static_cast<const char*>(data) + done,
                std::min(kSegmentUnit, bytes - done));
  }
}

bool RawQueues::wrong(uint32_t often) { return noise_ != 0 && random_.one_in(often * noise_); }

connectx::DataSegment RawQueues::data_segment(Memories& memories, uint32_t most) {
  const Memory& memory = noise_ == 0 ? memories.sound() : memories.pick();
  connectx::DataSegment segment;
  const uint32_t length = 1 + random_.below(most);
  segment.byte_count = length;
  segment.lkey = memory.mr ? memory.mr->lkey : random_.below(1 << 16);
  segment.address = reinterpret_cast<uint64_t>(memory.base) + random_.below(Memory::kBytes - length + 1);
  if (wrong(4)) {
    segment.lkey = memories.list_key();
    segment.address = random_.below(2048);
  }
  if (wrong(40)) segment.byte_count = random_.one_in(2) ? 0 : static_cast<uint32_t>(random_.next());
  if (wrong(20)) segment.address = segment.address + Memory::kBytes / 2;
  if (wrong(40)) segment.address = random_.next();
  if (wrong(40)) segment.lkey = static_cast<uint32_t>(random_.next());
  return segment;
}

/// Where a datagram goes, or which DC target a request is for.
uint32_t RawQueues::build_address(uint32_t index, uint32_t unit, const Target& peer) {
  connectx::DatagramSegment to{};
  to.qkey = kQkey;
  to.dest_qpn = connectx::kExtendedAv | peer.qpn;
  to.hop_limit = 1;
  to.gid_flow = connectx::kGrhPresent;
  Gid gid = hca_.gid(0).gid;
  if (target_) {
    to.qkey = static_cast<uint32_t>(kAccessKey >> 32);
    to.key_low = static_cast<uint32_t>(kAccessKey) + (wrong(16) ? 1 : 0);
    if (random_.one_in(16)) to.dest_qpn = connectx::kExtendedAv | qpn();
  } else if (random_.one_in(8)) {
    gid = fuzz_group();
    to.dest_qpn = connectx::kExtendedAv | kMulticastQpn;
  }
  std::memcpy(to.rgid, &gid, sizeof to.rgid);
  if (wrong(8)) to.source_gid_index = static_cast<uint8_t>(random_.next());
  if (wrong(24)) to.dest_qpn = connectx::kExtendedAv | random_.below(1 << 24);
  if (wrong(12)) random_.fill(&to, sizeof to);
  write_units(index, unit, &to, sizeof to);
  return unit + sizeof to / kSegmentUnit;
}

uint32_t RawQueues::build_remote(uint32_t index, uint32_t unit, uint8_t opcode, const Target& peer) {
  connectx::RemoteSegment to{};
  to.address = peer.address + random_.below(Memory::kBytes / 16) * (wrong(16) ? 1 : 8);
  to.rkey = peer.rkey;
  if (wrong(16)) random_.fill(&to, sizeof to);
  write_units(index, unit++, &to, sizeof to);
  if (!is_atomic(opcode)) return unit;
  const connectx::AtomicSegment operands{random_.next(), random_.next()};
  write_units(index, unit++, &operands, sizeof operands);
  return unit;
}

uint32_t RawQueues::build_list(uint32_t index, uint32_t unit, uint32_t count, Memories& memories) {
  const bool columns = count > 1 && random_.one_in(3);
  uint32_t round = 0;
  const uint32_t head = unit;
  if (columns) unit++, count--;
  for (uint32_t i = 0; i < count; i++) {
    const connectx::DataSegment range = data_segment(memories, random_.one_in(4) ? 8192 : 64);
    const auto bytes = static_cast<uint16_t>(range.byte_count);
    const connectx::StrideEntry column{static_cast<uint16_t>(bytes + random_.below(32)), bytes, range.lkey,
                                       range.address};
    const connectx::ListEntry entry{range.byte_count, range.lkey, range.address};
    if (columns)
      write_units(index, unit++, &column, sizeof column);
    else
      write_units(index, unit++, &entry, sizeof entry);
    round += bytes;
  }
  const connectx::StrideHead repeat{wrong(8) ? random_.below(100) : round,
                                    connectx::kRepeatKey,
                                    wrong(8) ? static_cast<uint32_t>(random_.next()) : 1 + random_.below(100),
                                    {},
                                    static_cast<uint16_t>(wrong(8) ? random_.below(100) : count)};
  if (columns) write_units(index, head, &repeat, sizeof repeat);
  return unit;
}

uint32_t RawQueues::build_copy(uint32_t index, uint32_t unit, Memories& memories) {
  const connectx::CopySegment head{};
  connectx::DataSegment from = data_segment(memories, 16 << 10), to = data_segment(memories, 16 << 10);
  if (!wrong(8)) from.byte_count = to.byte_count = std::min<uint32_t>(from.byte_count, to.byte_count);
  write_units(index, unit++, &head, sizeof head);
  write_units(index, unit++, &from, sizeof from);
  write_units(index, unit++, &to, sizeof to);
  return unit;
}

// Of every length that an entry holds, zero included, and now and then of one that it does not.
uint32_t RawQueues::build_inline(uint32_t index, uint32_t unit) {
  const uint32_t length = random_.below(random_.one_in(3) ? 400 : 40);
  const connectx::InlineSegment head{connectx::kInlineFlag | (wrong(16) ? random_.below(1u << 31) : length)};
  std::byte block[kSegmentUnit];
  random_.fill(block, sizeof block);
  std::memcpy(block, &head, sizeof head);
  write_units(index, unit, block, sizeof block);
  return unit + (sizeof head + length + kSegmentUnit - 1) / kSegmentUnit;
}

// Every fence, completion mode and solicited bit; the index, opcode modifier, size and queue number may be
// wrong.
void RawQueues::build_control(uint32_t index, uint8_t opcode, uint32_t units, uint32_t immediate) {
  connectx::ControlSegment control{};
  const uint32_t modifier = wrong(16)                    ? random_.below(256)
                            : opcode == connectx::kOpMmo ? connectx::kMmoDma
                                                         : 0;
  const uint32_t named = wrong(16) ? static_cast<uint32_t>(random_.next()) : index;
  control.index_opcode = modifier << 24 | (named & 0xffff) << 8 | opcode;
  control.qpn_ds = qp_->number << 8 | units;
  if (target_) control.stream[1] = static_cast<uint8_t>(random_.below(kStreams));
  control.flags = random_.one_in(4) ? static_cast<uint8_t>(random_.next()) : connectx::kCompletionAlways;
  if (random_.one_in(4)) control.flags |= static_cast<uint8_t>(random_.below(8) << connectx::kFenceShift);
  control.immediate = wrong(24) ? static_cast<uint32_t>(random_.next()) : immediate;
  if (wrong(24)) control.qpn_ds = qp_->number << 8 | random_.below(64);
  if (wrong(64)) control.qpn_ds = static_cast<uint32_t>(random_.next());
  write_units(index, 0, &control, sizeof control);
}

/// Segments of a rare entry: addresses and keys that there are among numbers that mean nothing.
uint32_t RawQueues::build_rare(uint32_t index, uint32_t unit, Memories& memories, const Target& peer) {
  for (uint32_t left = random_.below(10); left > 0; left--) {
    std::byte block[kSegmentUnit];
    random_.fill(block, sizeof block);
    const connectx::DataSegment local = data_segment(memories, 4096);
    const connectx::RemoteSegment remote{peer.address, peer.rkey, 0};
    static_assert(sizeof local == sizeof block && sizeof remote == sizeof block);
    if (random_.one_in(3))
      std::memcpy(block, &local, sizeof block);
    else if (random_.one_in(2))
      std::memcpy(block, &remote, sizeof block);
    else if (random_.one_in(2))
      std::memset(block, 0, sizeof block);
    write_units(index, unit++, block, sizeof block);
  }
  return unit;
}

uint32_t RawQueues::build_send(uint32_t index, Memories& memories, const Target& peer) {
  const uint32_t kinds = wrong(8) ? sizeof kOpcodes : offered(shape_.type);
  const bool rare = wrong(12);
  const uint8_t opcode = rare        ? kRare[random_.below(sizeof kRare)]
                         : wrong(32) ? static_cast<uint8_t>(random_.next())
                                     : kOpcodes[random_.below(kinds)];
  const uint32_t key = random_.below(Memories::kListKeys);
  uint32_t units = 1, immediate = memories.list_key(key);
  const bool stays = is_local(opcode) || opcode == connectx::kOpNop;
  if (shape_.type == hw::QpType::kUd || (target_ && !stays)) units = build_address(index, units, peer);
  if (is_remote(opcode)) units = build_remote(index, units, opcode, peer);
  if (opcode == connectx::kOpUmr) units = build_update(index, units, memories, key);
  if (opcode == connectx::kOpMmo) units = build_copy(index, units, memories);
  if (opcode == connectx::kOpSetPsv) units = build_value(index, units, memories);
  if (opcode == connectx::kOpSendInvalidate && !wrong(4)) immediate = peer.invalidatable;
  if (rare) units = build_rare(index, units, memories, peer);
  const uint32_t pieces = is_local(opcode)                 ? 0
                          : is_atomic(opcode) && !wrong(4) ? 1
                                                           : random_.below(kPiecesMax);
  for (uint32_t left = pieces; left > 0; left--) {
    if (!is_atomic(opcode) && opcode != connectx::kOpRead && random_.one_in(4)) {
      units = build_inline(index, units);
      continue;
    }
    connectx::DataSegment segment = data_segment(memories, random_.one_in(8) ? 16 << 10 : 256);
    if (is_atomic(opcode)) segment.byte_count = 8 / pieces;
    write_units(index, units++, &segment, sizeof segment);
  }
  units = std::min(units, kUnitsMax);
  build_control(index, opcode, units, immediate);
  opcodes_[index & 0xffff] = opcode;
  return units;
}

void RawQueues::post_one_receive(Memories& memories) {
  const uint32_t stride = shape_.receive_stride;
  std::byte* entry = receive_.data() + receive_counter_ % shape_.receives * stride;
  uint32_t at = 0;
  if (srq_ && !shape_.bare) {
    connectx::SharedNextSegment link{};
    link.next_index = static_cast<uint16_t>((receive_counter_ + 1) % shape_.receives);
    if (wrong(40)) random_.fill(&link, sizeof link);
    std::memcpy(entry, &link, sizeof link);
    at = sizeof link;
  }
  for (uint32_t left = 1 + random_.below(stride / kSegmentUnit); left > 0 && at < stride;
       left--, at += kSegmentUnit) {
    const connectx::DataSegment segment = data_segment(memories, Memory::kBytes / 2);
    std::memcpy(entry + at, &segment, sizeof segment);
  }
  const connectx::DataSegment end{0, connectx::kInvalidKey, 0};
  if (at < stride) std::memcpy(entry + at, &end, sizeof end);
  if (wrong(20)) random_.fill(entry, stride);
  receive_counter_++;
}

}  // namespace verbatim::fuzz
