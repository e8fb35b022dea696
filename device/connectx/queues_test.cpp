// SPDX-License-Identifier: MIT
// The queues alone, on raw memory: no engine, no peers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "device/connectx/completion_ring.h"
#include "device/connectx/memory_range.h"
#include "device/connectx/receive_ring.h"
#include "device/connectx/send_ring.h"

namespace verbatim::connectx {
namespace {

using Fetch = engine::SendQueue::Fetch;
using Take = engine::ReceiveQueue::Take;
constexpr uint32_t kQpn = 0x1234;

struct Events final : hw::EventSink {
  void on_completion(hw::Cq&) override { completions++; }
  void on_async(hw::AsyncEvent event, void*) override { last = event, asyncs++; }
  int completions = 0, asyncs = 0;
  hw::AsyncEvent last{};
};

hw::QueueMemory memory_of(std::vector<std::byte>& bytes, uint32_t entries, uint32_t stride) {
  return {bytes.data(), bytes.size(), entries, stride};
}

struct Queues : ::testing::Test {
  static constexpr uint32_t kEntries = 4;
  std::vector<std::byte> send_bytes = std::vector<std::byte>(kEntries * 64, std::byte{0xa5});
  std::vector<std::byte> cq_bytes = std::vector<std::byte>(kEntries * 64, std::byte{0xf1});
  uint32_t doorbell[2] = {}, cq_doorbell[2] = {};
  Events events;
  hw::Cq face;
  int overruns = 0;
  hw::CqSpec cq_spec = [this] {
    hw::CqSpec spec;
    spec.ring = memory_of(cq_bytes, kEntries, 64);
    spec.doorbell = cq_doorbell;
    return spec;
  }();
  CompletionRing completions{cq_spec, face, events, [this] { overruns++; }};
  SendRing send{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kRc, &completions, 7};
  engine::SendWork work;
  uint32_t next = 0;
  const char* reason = nullptr;

  void SetUp() override { send.set_qpn(kQpn); }
  template <class T>
  void put(uint32_t offset, const T& value) {
    for (size_t i = 0; i < sizeof value; i++)
      send_bytes[(offset + i) % send_bytes.size()] = reinterpret_cast<const std::byte*>(&value)[i];
  }
  void control(uint32_t block, uint8_t opcode, uint32_t units, uint32_t qpn = kQpn, uint8_t flags = 8) {
    ControlSegment segment{};
    segment.index_opcode = block << 8 | opcode;
    segment.qpn_ds = qpn << 8 | units;
    segment.flags = flags;
    segment.immediate = 0x11223344;
    put(block * 64, segment);
  }
  Fetch fetch(uint32_t index, uint32_t rung) {
    doorbell[1] = Be32(rung).raw();
    work = {};
    return send.fetch(index, work, next, reason);
  }
  const Cqe& cqe(uint32_t slot) { return reinterpret_cast<const Cqe*>(cq_bytes.data())[slot]; }
};

/// A ring whose completions are told together.
struct CompressedRing {
  static constexpr uint32_t kEntries = 32;
  void receive(uint16_t counter, uint32_t length, uint8_t opcode = kCqeSend) {
    ring.push_receive({opcode, false, 0x99, 7, 0, length, kQpn, counter, 0});
  }
  Cqe cqe(uint32_t slot) const {
    Cqe read;
    std::memcpy(static_cast<void*>(&read), bytes.data() + slot * sizeof read, sizeof read);
    return read;
  }
  MiniCqe mini(uint32_t slot, uint32_t index) const {
    MiniCqe read;
    std::memcpy(static_cast<void*>(&read), bytes.data() + slot * sizeof(Cqe) + index * sizeof read,
                sizeof read);
    return read;
  }
  std::vector<std::byte> bytes = std::vector<std::byte>(kEntries * 64, std::byte{0xf1});
  uint32_t doorbell[2] = {};
  Events events;
  hw::Cq face;
  hw::CqSpec spec = [this] {
    hw::CqSpec made;
    made.ring = memory_of(bytes, kEntries, 64);
    made.ring.compressed = true;
    made.doorbell = doorbell;
    return made;
  }();
  CompletionRing ring{spec, face, events, [] {}};
};

TEST_F(Queues, WhatStaysAtADcInitiatorNamesNoTarget) {
  SendRing initiator{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kDci, &completions, 7};
  initiator.set_qpn(kQpn);
  doorbell[1] = Be32(1).raw();
  const struct {
    uint8_t opcode;
    engine::Opcode meant;
  } local[] = {{kOpNop, engine::Opcode::kNop},
               {kOpUmr, engine::Opcode::kKeyUpdate},
               {kOpSetPsv, engine::Opcode::kSignatureValue},
               {kOpMmo, engine::Opcode::kMemoryCopy}};
  for (const auto& [opcode, meant] : local) {
    control(0, opcode, 2);
    work = {};
    ASSERT_EQ(initiator.fetch(0, work, next, reason), Fetch::kWork) << reason;
    EXPECT_EQ(work.opcode, meant);
    initiator.complete({0, meant, engine::Status::kSuccess, 0, true});
    EXPECT_EQ(cqe(opcode == kOpNop      ? 0
                  : opcode == kOpUmr    ? 1
                  : opcode == kOpSetPsv ? 2
                                        : 3)
                  .opcode_qpn,
              static_cast<uint32_t>(opcode) << 24 | kQpn);
  }
  control(0, kOpSend, 2);
  EXPECT_EQ(initiator.fetch(0, work, next, reason), Fetch::kBad) << "without its target's address";
}

TEST_F(Queues, RequestsOfAnXrcSenderNameASharedQueueFirst) {
  SendRing sender{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kXrcSend, &completions, 7};
  sender.set_qpn(kQpn);
  doorbell[1] = Be32(1).raw();
  const auto fetched = [&](uint8_t opcode, uint32_t units) {
    control(0, opcode, units);
    work = {};
    return sender.fetch(0, work, next, reason);
  };
  put(16, XrcSegment{0xff123456u, {}});
  put(32, RemoteSegment{0x1000u, 0x500u, 0});
  put(48, DataSegment{8u, 0x600u, 0x2000u});
  ASSERT_EQ(fetched(kOpWrite, 4), Fetch::kWork) << reason;
  EXPECT_EQ(work.destination.srqn, 0x123456u);
  EXPECT_EQ(work.remote_address, 0x1000u);
  ASSERT_EQ(work.sge_count, 1u);
  EXPECT_EQ(work.sges[0].lkey, 0x600u);
  EXPECT_EQ(fetched(kOpSend, 1), Fetch::kBad) << "without the queue";
  ASSERT_EQ(fetched(kOpNop, 1), Fetch::kWork) << "which what stays here does not need";
}

TEST_F(Queues, FlushesAndAtomicWrites) {
  put(16, FlushSegment{0x1122334455667788u, 0x500u, 0x12345u});
  control(0, kOpFlush, 2);
  ASSERT_EQ(fetch(0, 1), Fetch::kWork) << reason;
  EXPECT_EQ(work.opcode, engine::Opcode::kFlush);
  EXPECT_EQ(work.remote_address, 0x1122334455667788u);
  EXPECT_EQ(work.rkey, 0x500u);
  EXPECT_EQ(work.reach, 0x12345u);
  EXPECT_EQ(work.immediate, 0x44u) << "the low byte of the immediate";
  EXPECT_EQ(work.sge_count, 0u);
  control(0, kOpFlush, 1);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad);
  put(32, DataSegment{8u, 0x600u, 0x2000u});
  control(0, kOpFlush, 3);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad) << "it has no data";
  control(0, kOpAtomicWrite, 3);
  ASSERT_EQ(fetch(0, 1), Fetch::kWork) << reason;
  EXPECT_EQ(work.opcode, engine::Opcode::kAtomicWrite);
  EXPECT_EQ(work.remote_address, 0x1122334455667788u);
  ASSERT_EQ(work.sge_count, 1u);
  EXPECT_EQ(work.sges[0].length, 8u);
  send.complete({0, engine::Opcode::kAtomicWrite, engine::Status::kSuccess, 8, true});
  EXPECT_EQ(cqe(0).opcode_qpn, static_cast<uint32_t>(kOpAtomicWrite) << 24 | kQpn);
}

TEST_F(Queues, FramesBeginInTheirEthernetSegment) {
  SendRing frames{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kRaw, &completions, 7};
  frames.set_qpn(kQpn);
  doorbell[1] = Be32(4).raw();
  const auto fetched = [&](uint32_t index, uint16_t in_line, uint32_t units) {
    EthernetSegment segment{};
    segment.checksums = kFrameNetworkChecksum | kFrameTransportChecksum;
    segment.inline_bytes = in_line;
    put(index * 64 + 16, segment);
    control(index, kOpSend, units);
    work = {};
    return frames.fetch(index, work, next, reason);
  };
  put(48, DataSegment{46u, 0x500u, 0x1000u});
  ASSERT_EQ(fetched(0, 18, 4), Fetch::kWork) << reason;
  EXPECT_EQ(work.checksums, 3);
  ASSERT_EQ(work.sge_count, 2u);
  EXPECT_EQ(work.inline_mask, 1u);
  EXPECT_EQ(work.sges[0].address, reinterpret_cast<uint64_t>(send_bytes.data()) + 30);
  EXPECT_EQ(work.sges[0].length, 18u);
  EXPECT_EQ(work.sges[1].lkey, 0x500u);
  put(32, DataSegment{46u, 0x501u, 0x1000u});
  ASSERT_EQ(fetched(0, 2, 3), Fetch::kWork) << "none but what has room in the segment";
  EXPECT_EQ(work.sges[1].lkey, 0x501u);
  // Around the end of the queue.
  ASSERT_EQ(fetched(3, 40, 5), Fetch::kBad) << "longer than what was rung";
  doorbell[1] = Be32(5).raw();
  ASSERT_EQ(fetched(3, 40, 5), Fetch::kWork) << reason;
  ASSERT_EQ(work.sge_count, 2u);
  EXPECT_EQ(work.sges[0].length + work.sges[1].length, 40u);
  EXPECT_EQ(work.sges[1].address, reinterpret_cast<uint64_t>(send_bytes.data()));
  doorbell[1] = Be32(4).raw();
  EXPECT_EQ(fetched(0, 19, 2), Fetch::kBad);
  EXPECT_EQ(fetched(0, 0x7fff, 4), Fetch::kBad);
  control(0, kOpSend, 1);
  EXPECT_EQ(frames.fetch(0, work, next, reason), Fetch::kBad) << "no segment";
  control(0, kOpUmr, 2);
  EXPECT_EQ(frames.fetch(0, work, next, reason), Fetch::kBad);
}

TEST_F(Queues, FramesMayHaveTagsPutInOrBeCut) {
  SendRing frames{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kRaw, &completions, 7};
  frames.set_qpn(kQpn);
  doorbell[1] = Be32(4).raw();
  EthernetSegment segment{};
  segment.inline_bytes = kInsertVlan;
  segment.inline_start[0] = 0x61;
  segment.inline_start[1] = 0x23;
  put(16, segment);
  put(32, DataSegment{46u, 0x500u, 0x1000u});
  control(0, kOpSend, 3);
  work = {};
  ASSERT_EQ(frames.fetch(0, work, next, reason), Fetch::kWork) << reason;
  EXPECT_TRUE(work.inserts_vlan);
  EXPECT_EQ(work.vlan, 0x6123);
  EXPECT_EQ(work.sge_count, 1u);
  segment.inline_bytes = 54;
  segment.segment_bytes = 1460;
  put(16, segment);
  control(0, kOpSegmentedSend, 6);
  work = {};
  ASSERT_EQ(frames.fetch(0, work, next, reason), Fetch::kWork) << reason;
  EXPECT_EQ(work.opcode, engine::Opcode::kSegmentedSend);
  EXPECT_EQ(work.segment_bytes, 1460);
  EXPECT_EQ(work.header_bytes, 54);
  frames.complete({0, work.opcode, engine::Status::kSuccess, 0, true});
  EXPECT_EQ(cqe(0).opcode_qpn, uint32_t{kOpSegmentedSend} << 24 | kQpn);
}

TEST(CompressedCompletions, OfARunAreATitleAndShortEntries) {
  CompressedRing cq;
  engine::Gathering::begin();
  for (uint16_t i = 0; i < 18; i++) cq.receive(static_cast<uint16_t>(0xfffe + i), 100u + i);
  cq.receive(0x50, 1);  // another receive request than the next
  EXPECT_EQ(cq.cqe(0).opcode_owner >> 4, kCqeSend) << "the run ends where they differ";
  EXPECT_EQ(cq.cqe(18).opcode_owner, 0xf1) << "this one is held back";
  engine::Gathering::end();
  const Cqe title = cq.cqe(0);
  EXPECT_EQ(title.opcode_owner, kCqeSend << 4 | kCqeCompressed);
  EXPECT_EQ(title.byte_count, 18u);
  EXPECT_EQ(title.wqe_counter, 0xfffe);
  EXPECT_EQ(title.user_index, 7u);
  EXPECT_EQ(title.flags_rqpn, 0x99u);
  for (uint32_t i = 0; i < 18; i++)
    EXPECT_EQ(cq.mini(i < 8 ? 1 : i / 8 * 8, i % 8).byte_count, 100u + i) << i;
  EXPECT_EQ(cq.cqe(2).opcode_owner, 0xf1) << "left as it was";
  EXPECT_EQ(cq.cqe(18).opcode_owner, kCqeSend << 4) << "one alone is an entry as any other";
  EXPECT_EQ(cq.cqe(18).byte_count, 1u);
}

TEST(CompressedCompletions, OnlyRunsAreHeldBack) {
  CompressedRing cq;
  cq.receive(0, 5);
  EXPECT_EQ(cq.cqe(0).opcode_owner, kCqeSend << 4) << "no run is under way";
  engine::Gathering::begin();
  cq.receive(1, 6);
  cq.receive(2, 7);
  cq.receive(3, 8, kCqeSendImmediate);
  EXPECT_EQ(cq.cqe(1).opcode_owner, kCqeSend << 4 | kCqeCompressed) << "order is kept";
  EXPECT_EQ(cq.cqe(3).opcode_owner, kCqeSendImmediate << 4);
  cq.receive(4, 9);
  cq.ring.push_request(kQpn, 7, 0, 0);
  EXPECT_EQ(cq.cqe(4).byte_count, 9u);
  EXPECT_EQ(cq.cqe(5).opcode_owner, kCqeRequest << 4);
  for (uint16_t i = 0; i < 27; i++) cq.receive(static_cast<uint16_t>(5 + i), i);
  engine::Gathering::end();
  EXPECT_EQ(cq.events.asyncs, 1) << "one more than fits: told one by one until the queue overruns";
  EXPECT_EQ(cq.cqe(6).opcode_owner, kCqeSend << 4);
}

TEST(CompressedCompletions, AreToldBeforeTheRingChanges) {
  CompressedRing cq;
  std::vector<std::byte> next(CompressedRing::kEntries * 64, std::byte{0xf1});
  hw::QueueMemory ring = cq.spec.ring;
  ring.base = next.data();
  engine::Gathering::begin();
  cq.receive(0, 5);
  cq.receive(1, 6);
  ASSERT_TRUE(cq.ring.go_on_in(ring).ok());
  engine::Gathering::end();
  EXPECT_EQ(cq.cqe(0).opcode_owner, kCqeSend << 4 | kCqeCompressed);
  EXPECT_EQ(cq.cqe(0).byte_count, 2u);
  EXPECT_EQ(cq.cqe(2).opcode_owner, kCqeResize << 4);
}

TEST_F(Queues, DecodesAWriteWithZeroMeaningTwoGib) {
  control(0, kOpWriteImmediate, 3);
  put(16, RemoteSegment{0x1122334455667788, 0xabcd, 0});
  put(32, DataSegment{0u, 0x77u, 0x1000u});
  ASSERT_EQ(fetch(0, 1), Fetch::kWork) << reason;
  EXPECT_EQ(next, 1u);
  EXPECT_EQ(work.opcode, engine::Opcode::kWriteImmediate);
  EXPECT_EQ(work.remote_address, 0x1122334455667788u);
  EXPECT_EQ(work.rkey, 0xabcdu);
  EXPECT_EQ(work.sges[0].length, 1u << 31);
  EXPECT_EQ(work.immediate, Be32(0x11223344).raw());
  EXPECT_TRUE(work.signaled);
}

TEST_F(Queues, DecodesAddresses) {
  SendRing datagrams{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kUd, &completions, 7};
  datagrams.set_qpn(kQpn);
  control(0, kOpSend, 4);
  DatagramSegment address{};
  address.qkey = 0x1234;
  address.dest_qpn = kExtendedAv | 0x4321;
  address.hop_limit = 9;
  address.gid_flow = kGrhPresent | 0x85u << 20 | 0x54321;
  address.rgid[15] = 6;
  put(16, address);
  doorbell[1] = Be32(1).raw();
  ASSERT_EQ(datagrams.fetch(0, work, next, reason), Fetch::kWork) << reason;
  EXPECT_EQ(work.destination.qpn, 0x4321u);
  EXPECT_EQ(work.destination.qkey, 0x1234u);
  EXPECT_EQ(work.destination.hop_limit, 9);
  EXPECT_EQ(work.destination.source_gid_index, 0x85);
  EXPECT_EQ(work.destination.flow_label, 0x54321u);
  EXPECT_EQ(work.destination.gid.bytes[15], 6);
}

TEST_F(Queues, InlineDataWrapsIntoTwoElements) {
  control(3, kOpSend, 8);
  put(3 * 64 + 16, Be32(kInlineFlag | 100));
  ASSERT_EQ(fetch(3, 5), Fetch::kWork) << reason;
  EXPECT_EQ(next, 5u);
  ASSERT_EQ(work.sge_count, 2u);
  EXPECT_EQ(work.inline_mask, 3u);
  EXPECT_EQ(work.sges[0].length, 44u);
  EXPECT_EQ(work.sges[1].length, 56u);
  EXPECT_EQ(work.sges[1].address, reinterpret_cast<uint64_t>(send_bytes.data()));
}

TEST_F(Queues, RefusesMalformedEntries) {
  EXPECT_EQ(fetch(0, 0), Fetch::kNone);
  control(0, kOpSend, 0);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad);
  control(0, kOpSend, 5);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad) << "longer than rung";
  control(0, kOpSend, 1, kQpn + 1);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad) << "another queue pair";
  control(0, 0x3f, 1);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad) << "unknown opcode";
  control(0, kOpCompareSwap, 2);
  EXPECT_EQ(fetch(0, 1), Fetch::kBad) << "too short";
  EXPECT_EQ(fetch(0, kEntries + 1), Fetch::kBad) << "more than the queue holds";
  EXPECT_EQ(fetch(0, 1), Fetch::kNone) << "stands still until reset";
}

TEST_F(Queues, GarbageNeverLeavesTheQueue) {
  std::mt19937_64 random(1);
  SendRing frames{memory_of(send_bytes, kEntries, 64), doorbell, hw::QpType::kRaw, &completions, 7};
  frames.set_qpn(kQpn);
  const auto first = reinterpret_cast<uint64_t>(send_bytes.data());
  for (int i = 0; i < 200000; i++) {
    for (auto& byte : send_bytes) byte = static_cast<std::byte>(random());
    const auto index = static_cast<uint32_t>(random() & 0xffff);
    control(index % kEntries, static_cast<uint8_t>(random() % 0x26), random() & 0x3f);
    SendRing& ring = i % 2 ? frames : send;
    ring.reset();
    doorbell[1] = Be32(index + 1 + random() % kEntries).raw();
    work = {};
    if (ring.fetch(index, work, next, reason) != Fetch::kWork) continue;
    ASSERT_LE(work.sge_count, engine::kSgeMax);
    for (uint32_t s = 0; s < work.sge_count; s++) {
      if (!(work.inline_mask >> s & 1)) continue;
      ASSERT_GE(work.sges[s].address, first);
      ASSERT_LE(work.sges[s].address + work.sges[s].length, first + send_bytes.size());
    }
  }
}

TEST_F(Queues, CompletionsCarryTheOwnerBitOfTheirLap) {
  for (uint32_t i = 0; i < 2 * kEntries; i++) {
    cq_doorbell[0] = Be32(i).raw();
    send.complete({.index = i, .opcode = engine::Opcode::kWrite, .signaled = true});
    EXPECT_EQ(cqe(i % kEntries).opcode_owner, kCqeRequest << 4 | (i / kEntries & 1));
    EXPECT_EQ(cqe(i % kEntries).opcode_qpn, uint32_t{kOpWrite} << 24 | kQpn);
    EXPECT_EQ(cqe(i % kEntries).wqe_counter, i);
  }
  send.complete({.index = 9, .opcode = engine::Opcode::kWrite, .signaled = false});
  EXPECT_EQ(cqe(0).wqe_counter, kEntries) << "unsignaled success writes nothing";
}

TEST_F(Queues, OverrunAndArming) {
  cq_doorbell[1] = Be32(kArmSolicitedOnly).raw();
  completions.arm();
  completions.push_request(kQpn, 0, 0, 0);
  EXPECT_EQ(events.completions, 0);
  completions.push_error(kCqeRequestError, engine::Status::kRemoteAccess, 0, kQpn, 0, 1);
  EXPECT_EQ(events.completions, 1);
  EXPECT_EQ(reinterpret_cast<const ErrorCqe&>(cqe(1)).syndrome, 0x13);
  for (int i = 0; i < 3; i++) completions.push_request(kQpn, 0, 0, 0);
  EXPECT_TRUE(completions.overrun());
  completions.push_request(kQpn, 0, 0, 0);
  EXPECT_EQ(overruns, 1);
  EXPECT_EQ(events.asyncs, 1);
  EXPECT_EQ(events.last, hw::AsyncEvent::kCqError);
}

TEST_F(Queues, ResizeCarriesWhatIsUnread) {
  for (uint16_t i = 0; i < 3; i++) completions.push_request(kQpn, 0, i, 0);
  cq_doorbell[0] = Be32(1).raw();
  std::vector<std::byte> small(64), bigger(8 * 64, std::byte{0xf1});
  EXPECT_FALSE(completions.resize(memory_of(small, 1, 64)));
  ASSERT_TRUE(completions.resize(memory_of(bigger, 8, 64)));
  const auto* moved = reinterpret_cast<const Cqe*>(bigger.data());
  EXPECT_EQ(moved[0].opcode_owner, 0xf1);
  EXPECT_EQ(moved[1].wqe_counter, 1);
  EXPECT_EQ(moved[2].wqe_counter, 2);
}

TEST_F(Queues, ReceiveEntriesEndAtTheInvalidKey) {
  DataSegment list[4] = {{10u, 1u, 0x100u}, {0u, kInvalidKey, 0u}, {20u, 2u, 0x200u}, {30u, 3u, 0x300u}};
  ReceiveRing ring({list, sizeof list, 2, 32}, doorbell);
  engine::ReceiveWork taken;
  EXPECT_EQ(ring.take(taken, reason), Take::kNone);
  doorbell[0] = Be32(2).raw();
  ASSERT_EQ(ring.take(taken, reason), Take::kWork);
  EXPECT_EQ(taken.sge_count, 1u);
  ASSERT_EQ(ring.take(taken, reason), Take::kWork);
  EXPECT_EQ(taken.capacity(), 50u);
  doorbell[0] = Be32(9).raw();
  EXPECT_EQ(ring.take(taken, reason), Take::kBad);
}

TEST_F(Queues, SharedChainOutsideTheQueueIsAnEvent) {
  std::vector<std::byte> bytes(2 * 32);
  SharedNextSegment link{};
  link.next_index = 1;
  std::memcpy(bytes.data(), &link, sizeof link);
  link.next_index = 5;
  std::memcpy(bytes.data() + 32, &link, sizeof link);
  std::vector<hw::AsyncEvent> seen;
  SharedRing ring(memory_of(bytes, 2, 32), doorbell, [&](hw::AsyncEvent event) { seen.push_back(event); });
  doorbell[0] = Be32(2).raw();
  ring.set_limit(2);
  engine::ReceiveWork taken;
  EXPECT_EQ(ring.take(taken, reason), Take::kWork);
  EXPECT_EQ(ring.take(taken, reason), Take::kBad);
  EXPECT_EQ(seen, (std::vector{hw::AsyncEvent::kSrqLimitReached, hw::AsyncEvent::kSrqError}));
}

TEST(MemoryRange, KnowsHolesAndRights) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* base = static_cast<std::byte*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(base, MAP_FAILED);
  const auto at = reinterpret_cast<uint64_t>(base);
  EXPECT_TRUE(check_range(at, 3 * page, true));
  ASSERT_EQ(mprotect(base + page, page, PROT_READ), 0);
  EXPECT_TRUE(check_range(at, 3 * page, false));
  EXPECT_FALSE(check_range(at, 3 * page, true));
  EXPECT_TRUE(check_range(at, page, true));
  ASSERT_EQ(munmap(base + page, page), 0);
  Outcome hole = check_range(at, 3 * page, false);
  ASSERT_FALSE(hole);
  EXPECT_EQ(hole.error().code, EFAULT);
  EXPECT_FALSE(check_range(UINT64_MAX - 10, 100, false)) << "wraps around";
  EXPECT_TRUE(check_range(at, 0, true));
  munmap(base, page);
  munmap(base + 2 * page, page);
}

}  // namespace
}  // namespace verbatim::connectx
