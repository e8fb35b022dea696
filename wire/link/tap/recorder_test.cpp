// SPDX-License-Identifier: MIT
#include "wire/link/tap/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "wire/format/datagram.h"
#include "wire/format/packet.h"

namespace verbatim::wire::tap {
namespace {

constexpr uint32_t kSlot = 5, kRingBytes = kRingBytesMin;

Gid ipv4(uint8_t last) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 10;
  gid.bytes[15] = last;
  return gid;
}

Gid ipv6(uint8_t last) {
  Gid gid;
  gid.bytes[0] = 0xfd;
  gid.bytes[15] = last;
  return gid;
}

struct Seen {
  CaptureRecord record;
  std::vector<uint8_t> frame;
};

/// The memory of a capture, and what a process has written there.
struct Memory {
  explicit Memory(uint32_t snap_bytes = 65535, uint32_t qpn = kAnyQpn) {
    file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(0, ftruncate(file, static_cast<off_t>(capture_bytes(kRingBytes))));
    EXPECT_EQ(0, fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    header = static_cast<CaptureHeader*>(map(0, kCapturePage));
    header->number = 77;
    header->ring_bytes = kRingBytes;
    header->snap_bytes = snap_bytes;
    header->qpn = qpn;
    header->magic = CaptureHeader::kMagic;
    ring = static_cast<RingHeader*>(map(ring_offset(*header, kSlot), kCapturePage + kRingBytes));
  }
  ~Memory() {
    munmap(header, kCapturePage);
    munmap(ring, kCapturePage + kRingBytes);
    close(file);
  }
  void* map(size_t offset, size_t bytes) const {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  }
  int copy() const { return fcntl(file, F_DUPFD_CLOEXEC, 0); }
  /// Takes everything.
  std::vector<Seen> take() {
    std::vector<Seen> seen;
    const auto* bytes = reinterpret_cast<const uint8_t*>(ring) + kCapturePage;
    uint64_t tail = ring->tail;
    while (tail < ring->head) {
      const uint64_t at = tail % kRingBytes, left = kRingBytes - at;
      CaptureRecord record{};
      if (left >= sizeof record) std::memcpy(&record, bytes + at, sizeof record);
      tail += record.captured == 0 ? left : record.bytes;
      if (record.captured != 0)
        seen.push_back({record, {bytes + at + sizeof record, bytes + at + sizeof record + record.captured}});
    }
    ring->tail = tail;
    return seen;
  }
  int file;
  CaptureHeader* header;
  RingHeader* ring;
};

struct RecorderTest : ::testing::Test {
  RecorderTest() { recorder.set_slot(kSlot); }
  SystemClock clock;
  Recorder recorder{clock};
  std::vector<uint8_t> payload = std::vector<uint8_t>(10'000);

  Segment message(Operation operation, uint32_t length, const Gid& from, const Gid& to) const {
    Segment segment;
    segment.operation = operation;
    segment.transport = Transport::kRc;
    segment.flags = kFirst | kLast | kAckRequest | kAddressed;
    segment.src_qpn = 0x4010;
    segment.dest_qpn = 0x8020;
    segment.psn = 0xfffffe;
    segment.path_mtu = 4096;
    segment.length = segment.total_length = length;
    segment.remote_address = 0x1000;
    segment.rkey = 7;
    segment.source_gid = from;
    segment.dest_gid = to;
    segment.gid_type = GidType::kRoceV2;
    segment.flow_label = 5;
    segment.traffic_class = 0x68;
    segment.hop_limit = 0;
    return segment;
  }
  void record(const Segment& segment) {
    const Piece pieces[2] = {{payload.data(), 100}, {payload.data() + 100, payload.size() - 100}};
    recorder.record(segment, pieces, 2, 0);
  }
};

/// The packet in a frame, checked.
roce::Packet packet_in(const std::vector<uint8_t>& frame) {
  const auto datagram = roce::Datagram::parse(std::span(frame).subspan(14));
  EXPECT_TRUE(datagram.ok()) << datagram.reason();
  EXPECT_EQ(64, datagram->hop_limit);
  EXPECT_EQ(0x68, datagram->traffic_class);
  EXPECT_EQ(4791, datagram->envelope.destination_port);
  EXPECT_GE(datagram->envelope.source_port, 0xc000);
  const auto packet = roce::Packet::parse(datagram->payload, datagram->envelope, true);
  EXPECT_TRUE(packet.ok()) << packet.reason();
  return *packet;
}

TEST_F(RecorderTest, WritesSegmentsAsPackets) {
  std::iota(payload.begin(), payload.end(), uint8_t{0});
  for (const auto& [from, to] : {std::pair{ipv4(1), ipv4(2)}, std::pair{ipv6(1), ipv6(2)}}) {
    Memory memory;
    recorder.name_device(0, "mlx5_0");
    ASSERT_TRUE(recorder.open(memory.copy()));
    EXPECT_EQ(77u, recorder.number());
    EXPECT_STREQ("mlx5_0", memory.ring->names[0]);
    EXPECT_EQ(1ull << kSlot, memory.header->writers[0].load());
    record(message(Operation::kWrite, 9'001, from, to));
    const std::vector<Seen> seen = memory.take();
    ASSERT_EQ(3u, seen.size());
    std::vector<uint8_t> bytes;
    for (uint32_t i = 0; i < 3; i++) {
      EXPECT_EQ(seen[i].frame.size(), seen[i].record.original);
      EXPECT_EQ(0, seen[i].record.inbound);
      const roce::Packet packet = packet_in(seen[i].frame);
      EXPECT_EQ(psn_add(0xfffffe, i), packet.headers.bth.psn);
      EXPECT_EQ(0x8020u, packet.headers.bth.destination);
      EXPECT_EQ(i == 2, packet.headers.bth.ack_request);
      bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
    }
    EXPECT_EQ(9'001u, bytes.size());
    EXPECT_EQ(0, std::memcmp(bytes.data(), payload.data(), bytes.size()));
    recorder.close();
    record(message(Operation::kWrite, 1, from, to));
    EXPECT_TRUE(memory.take().empty());
  }
}

TEST_F(RecorderTest, WritesAnAcknowledgementThatARequestCarries) {
  Memory memory;
  ASSERT_TRUE(recorder.open(memory.copy()));
  Segment segment = message(Operation::kSend, 10, ipv4(1), ipv4(2));
  segment.flags |= kAcknowledges;
  segment.ack_psn = 0x123;
  segment.msn = 9;
  record(segment);
  const std::vector<Seen> seen = memory.take();
  ASSERT_EQ(2u, seen.size());
  const roce::Packet ack = packet_in(seen[0].frame), send = packet_in(seen[1].frame);
  EXPECT_EQ(roce::opcode(roce::Transport::kRc, roce::Operation::kAcknowledge), ack.headers.bth.opcode);
  EXPECT_EQ(0x123u, ack.headers.bth.psn);
  EXPECT_EQ(9u, ack.headers.aeth.msn);
  EXPECT_EQ(roce::opcode(roce::Transport::kRc, roce::Operation::kSendOnly), send.headers.bth.opcode);
}

TEST_F(RecorderTest, LeavesOutWhatIsNotWanted) {
  Memory memory(100, 0x8020);
  ASSERT_TRUE(recorder.open(memory.copy()));
  Segment segment = message(Operation::kSend, 1'000, ipv4(1), ipv4(2));
  record(segment);
  segment.dest_qpn = 0x4011;
  record(segment);
  segment.src_qpn = 0x8020;
  record(segment);
  segment.flags &= static_cast<uint16_t>(~kAddressed);
  record(segment);
  segment.flags |= kAddressed;
  segment.gid_type = GidType::kInfiniband;
  record(segment);
  const std::vector<Seen> seen = memory.take();
  ASSERT_EQ(2u, seen.size());
  EXPECT_EQ(100u, seen[0].frame.size());
  EXPECT_EQ(14 + 20 + 8 + 12 + 1'000 + 4u, seen[0].record.original);
}

TEST_F(RecorderTest, CountsWhatFindsNoRoomAndGoesRound) {
  Memory memory;
  ASSERT_TRUE(recorder.open(memory.copy()));
  const Segment segment = message(Operation::kSend, 4'000, ipv4(1), ipv4(2));
  for (int i = 0; i < 100; i++) record(segment);
  const size_t held = memory.take().size();
  EXPECT_GT(held, 50u);
  EXPECT_EQ(100 - held, memory.ring->lost[0].load());
  for (int i = 0; i < 1'000; i++) {
    record(segment);
    const std::vector<Seen> seen = memory.take();
    ASSERT_EQ(1u, seen.size());
    packet_in(seen[0].frame);
  }
  EXPECT_EQ(100 - held, memory.ring->lost[0].load());
}

TEST_F(RecorderTest, RefusesWhatIsNoCapture) {
  Memory memory;
  memory.header->ring_bytes = kRingBytesMax;
  EXPECT_FALSE(recorder.open(memory.copy()));
  memory.header->ring_bytes = kRingBytes;
  memory.header->magic = 1;
  EXPECT_FALSE(recorder.open(memory.copy()));
  const int unsealed = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(0, ftruncate(unsealed, 1 << 20));
  EXPECT_FALSE(recorder.open(unsealed));
  EXPECT_EQ(0u, recorder.number());
}

}  // namespace
}  // namespace verbatim::wire::tap
