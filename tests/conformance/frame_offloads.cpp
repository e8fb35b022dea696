// SPDX-License-Identifier: MIT
// What the device does with frames on their way: cutting large sends, VLAN tags, the frame check sequence,
// rates.
#include <infiniband/mlx5dv.h>

#include <chrono>

#include "device/connectx/formats.h"
#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 5, 5, 5, 5, 5};
constexpr size_t kPlace = 16384, kRoom = 2048;

uint32_t number_at(const Endpoint& self, size_t offset, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; i++) value = value << 8 | self.buffer[offset + i];
  return value;
}

size_t place_of(uint64_t frame) { return kPlace + frame * kRoom; }

/// One queue pair that sends and one that receives what goes to kTo.
class FrameOffloads : public testing::Test {
 protected:
  void prepare(const FrameOptions& sending, const FrameOptions& receiving = {}) {
    ASSERT_EQ(remake(sender, sending), 0);
    ASSERT_EQ(remake(receiver, receiving), 0);
    ASSERT_EQ(rule.to(kTo).put_in_force(receiver), 0);
    for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(receiver.receive(place_of(i), kRoom, i), 0);
  }
  /// The bytes of the next frame.
  uint32_t arrived() {
    const ibv_wc wc = receiver.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    checksums_right = (wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0;
    return wc.byte_len;
  }
  Endpoint sender{kFrames}, receiver{kFrames};
  Rule rule;
  bool checksums_right = false;
};

constexpr size_t kTcpHeaders = 14 + 20 + 20;
constexpr size_t kSequenceAt = 14 + 20 + 4, kFlagsAt = 14 + 20 + 13;

/// Headers for all frames of a large send: sequence number 1000, FIN, PSH, ACK and CWR.
std::vector<uint8_t> tcp_headers(int network = 4) {
  std::vector<uint8_t> headers = frame_of({.to = kTo, .network = network, .transport = 6, .payload = 0});
  const size_t tcp = headers.size() - 20;
  headers[tcp + 6] = 1000 >> 8;
  headers[tcp + 7] = 1000 & 0xff;
  headers[tcp + 13] = 0x01 | 0x08 | 0x10 | 0x80;
  if (network == 4) headers[14 + 5] = 7;  // identification
  return headers;
}

ibv_send_wr large_send(Endpoint& self, std::vector<uint8_t>& headers, size_t payload, uint16_t segment) {
  ibv_send_wr wr = self.request(IBV_WR_TSO, payload);
  wr.tso.hdr = headers.data();
  wr.tso.hdr_sz = static_cast<uint16_t>(headers.size());
  wr.tso.mss = segment;
  return wr;
}

TEST_F(FrameOffloads, LargeSendsAreCutIntoFrames) {
  prepare({.max_header = 64});
  fill(sender, 0, 2500, 3);
  std::vector<uint8_t> headers = tcp_headers();
  ibv_send_wr wr = large_send(sender, headers, 2500, 1000);
  wr.send_flags |= IBV_SEND_IP_CSUM;
  ASSERT_EQ(sender.post(wr), 0);
  const ibv_wc sent = sender.wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_TSO);
  const uint8_t flags[] = {0x90, 0x10, 0x19};  // what ends the stream is last, an answer to congestion first
  for (uint64_t i = 0; i < 3; i++) {
    const uint32_t payload = i < 2 ? 1000 : 500;
    EXPECT_EQ(arrived(), kTcpHeaders + payload);
    EXPECT_TRUE(checksums_right) << i;
    const size_t at = place_of(i);
    EXPECT_EQ(number_at(receiver, at + 16, 2), 40 + payload);
    EXPECT_EQ(number_at(receiver, at + 18, 2), 7 + i);
    EXPECT_EQ(number_at(receiver, at + kSequenceAt, 4), 1000 + 1000 * i);
    EXPECT_EQ(receiver.buffer[at + kFlagsAt], flags[i]);
    EXPECT_EQ(std::memcmp(&receiver.buffer[at + kTcpHeaders], &sender.buffer[1000 * i], payload), 0);
  }
  EXPECT_TRUE(receiver.quiet());
}

TEST_F(FrameOffloads, LargeSendsOfIpv6ByTheBuilders) {
  prepare({.max_header = 80, .operations = IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_SEND});
  fill(sender, 0, 900, 3);
  std::vector<uint8_t> headers = tcp_headers(6);
  ibv_qp_ex* builder = sender.builder();
  // Around the end of the queue, too.
  for (uint64_t round = 0; round < 100; round++) {
    ibv_wr_start(builder);
    builder->wr_id = round;
    builder->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
    ibv_wr_send_tso(builder, headers.data(), static_cast<uint16_t>(headers.size()), 500);
    ibv_wr_set_sge(builder, sender.mr->lkey, reinterpret_cast<uint64_t>(sender.buffer.data()), 900);
    ASSERT_EQ(ibv_wr_complete(builder), 0);
    const ibv_wc sent = sender.wait();
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, round);
    EXPECT_EQ(arrived(), headers.size() + 500);
    EXPECT_EQ(arrived(), headers.size() + 400);
    const size_t at = place_of((2 * round + 1) % 16);
    EXPECT_EQ(number_at(receiver, at + 18, 2), 420u);
    EXPECT_EQ(std::memcmp(&receiver.buffer[at + headers.size()], &sender.buffer[500], 400), 0);
    for (uint64_t i = 0; i < 2; i++)
      ASSERT_EQ(receiver.receive(place_of((2 * round + i) % 16), kRoom, (2 * round + i) % 16), 0);
  }
}

TEST_F(FrameOffloads, LargeSendsOfUdpHaveTheirLengths) {
  prepare({.max_header = 42});
  std::vector<uint8_t> headers = frame_of({.to = kTo, .payload = 0});
  ASSERT_EQ(sender.post(large_send(sender, headers, 150, 100)), 0);
  EXPECT_EQ(sender.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(arrived(), 142u);
  EXPECT_EQ(number_at(receiver, place_of(0) + 38, 2), 108u);
  EXPECT_EQ(arrived(), 92u);
  EXPECT_EQ(number_at(receiver, place_of(1) + 38, 2), 58u);
}

TEST_F(FrameOffloads, LargeSendsNeedHeadersThatFit) {
  prepare({.max_header = 54, .operations = IBV_QP_EX_WITH_TSO});
  std::vector<uint8_t> headers = tcp_headers();
  ibv_send_wr wr = large_send(sender, headers, 100, 0);
  EXPECT_EQ(sender.post(wr), EINVAL) << "segments of no bytes";
  wr.tso.mss = 100;
  wr.tso.hdr_sz = 55;
  EXPECT_EQ(sender.post(wr), EINVAL) << "longer than what was asked for";
  wr.tso.hdr_sz = 13;
  EXPECT_EQ(sender.post(wr), EINVAL) << "no Ethernet header";
  ibv_wr_start(sender.builder());
  ibv_wr_send_tso(sender.builder(), headers.data(), 55, 100);
  EXPECT_EQ(ibv_wr_complete(sender.builder()), EINVAL);
  wr.tso.hdr_sz = 54;
  wr.tso.mss = 8190;
  EXPECT_EQ(sender.post(wr), 0);
  EXPECT_EQ(sender.wait_status(), IBV_WC_LOC_LEN_ERR) << "frames longer than the port takes";
  EXPECT_EQ(receiver.quiet(), true);
}

TEST(FrameSenders, HaveNoLargeSendsUnlessAskedFor) {
  Endpoint self(kFrames);
  ASSERT_EQ(self.connect({}), 0);
  std::vector<uint8_t> headers = tcp_headers();
  EXPECT_EQ(self.post(large_send(self, headers, 100, 50)), EINVAL);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  wanted.max_tso_header = 64;
  wanted.pd = self.pd;
  EXPECT_EQ(ibv_create_qp_ex(self.context, &wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(FrameOffloads, TagsAreStrippedAndTold) {
  Traits extended = kFrames;
  extended.cq_fields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_CVLAN;
  Endpoint stripping(extended);
  ASSERT_EQ(remake(stripping, {.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING}), 0);
  prepare({});
  Rule also;
  ASSERT_EQ(also.to(kTo).put_in_force(stripping), 0);
  for (uint64_t i = 0; i < 2; i++) ASSERT_EQ(stripping.receive(place_of(i), kRoom, i), 0);
  send(sender, frame_of({.to = kTo, .vlan = 0x6123}));
  send(sender, frame_of({.to = kTo}));
  EXPECT_EQ(arrived(), frame_of({.to = kTo, .vlan = 0}).size()) << "others get the tag";
  const std::vector<uint8_t> untagged = frame_of({.to = kTo});
  for (uint64_t i = 0; i < 2; i++) {
    ibv_poll_cq_attr none{};
    while (ibv_start_poll(stripping.extended_cq(), &none) != 0) continue;
    EXPECT_EQ(stripping.extended_cq()->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_byte_len(stripping.extended_cq()), untagged.size());
    EXPECT_EQ(ibv_wc_read_cvlan(stripping.extended_cq()), i == 0 ? 0x6123 : 0);
    ibv_end_poll(stripping.extended_cq());
    EXPECT_TRUE(lies_at(stripping, place_of(i), untagged));
  }
}

// Verbs have no word for it: the queue entry is written by hand.
TEST_F(FrameOffloads, TagsArePutInByTheQueueEntry) {
  prepare({});
  mlx5dv_qp raw{};
  mlx5dv_obj objects{};
  objects.qp = {sender.qp, &raw};
  ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP), 0);
  const std::vector<uint8_t> frame = frame_of({.to = kTo});
  put(sender, 0, frame);
  struct {
    connectx::ControlSegment control{};
    connectx::EthernetSegment ethernet{};
    connectx::DataSegment data{};
  } entry;
  entry.control.index_opcode = connectx::kOpSend;
  entry.control.qpn_ds = sender.qp->qp_num << 8 | 3;
  entry.control.flags = connectx::kCompletionAlways;
  entry.ethernet.inline_bytes = connectx::kInsertVlan;
  entry.ethernet.inline_start[1] = 5;
  entry.data.byte_count = static_cast<uint32_t>(frame.size());
  entry.data.lkey = sender.mr->lkey;
  entry.data.address = reinterpret_cast<uint64_t>(sender.buffer.data());
  std::memcpy(raw.sq.buf, &entry, sizeof entry);
  __atomic_store_n(&raw.dbrec[connectx::kSendDoorbell], big32(1), __ATOMIC_RELEASE);
  __atomic_store_n(static_cast<uint64_t*>(raw.bf.reg), uint64_t{1}, __ATOMIC_RELEASE);
  const std::vector<uint8_t> tagged = frame_of({.to = kTo, .vlan = 5});
  EXPECT_EQ(arrived(), tagged.size());
  EXPECT_TRUE(lies_at(receiver, place_of(0), tagged));
  EXPECT_EQ(sender.wait_status(), IBV_WC_SUCCESS);
}

TEST_F(FrameOffloads, TheCheckSequenceFollowsTheFrame) {
  prepare({}, {.create_flags = IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_PCI_WRITE_END_PADDING});
  const std::vector<uint8_t> frame = frame_of({.to = kTo});
  send(sender, frame);
  ASSERT_EQ(arrived(), frame.size() + 4);
  EXPECT_TRUE(lies_at(receiver, place_of(0), frame));
  uint32_t crc = ~0u;  // bit by bit
  for (const uint8_t byte : frame) {
    crc ^= byte;
    for (int i = 0; i < 8; i++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  uint32_t found = 0;
  std::memcpy(&found, &receiver.buffer[place_of(0) + frame.size()], 4);
  EXPECT_EQ(found, ~crc);
}

// A second that is measured is a second of the test: a tenth has to do.
TEST_F(FrameOffloads, QueuePairsKeepToTheirRate) {
  constexpr int kCount = 10;
  prepare({});
  ibv_qp_rate_limit_attr limit{};
  limit.rate_limit = 8000;  // 1000 bytes in a millisecond
  ASSERT_EQ(ibv_modify_qp_rate_limit(sender.qp, &limit), 0);
  ibv_qp_attr shown{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(sender.qp, &shown, IBV_QP_RATE_LIMIT, &init), 0);
  EXPECT_EQ(shown.rate_limit, 8000u);
  const std::vector<uint8_t> frame = frame_of({.to = kTo, .payload = 958});
  const auto timed = [&] {
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < kCount; i++) send(sender, frame);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  };
  EXPECT_GE(timed(), 0.008);
  limit.rate_limit = 0;
  ASSERT_EQ(ibv_modify_qp_rate_limit(sender.qp, &limit), 0);
  double fastest = 1;
  for (int i = 0; i < 5; i++) fastest = std::min(fastest, timed());
  EXPECT_LT(fastest, 0.008) << "no limit any more";
}

TEST(Rates, AreOfQueuePairsThatSendFrames) {
  Endpoint self(kFrames), connected{Traits{}};
  ibv_qp_rate_limit_attr limit{};
  limit.rate_limit = 1000;
  EXPECT_EQ(ibv_modify_qp_rate_limit(connected.qp, &limit), EINVAL);
  EXPECT_EQ(ibv_modify_qp_rate_limit(self.qp, &limit), EINVAL) << "not in RTS";
  ASSERT_EQ(self.connect({}), 0);
  limit.max_burst_sz = 4000;
  limit.typical_pkt_sz = 1000;
  EXPECT_EQ(ibv_modify_qp_rate_limit(self.qp, &limit), 0);
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(self.context, nullptr, &device), 0);
  EXPECT_TRUE(ibv_is_qpt_supported(device.packet_pacing_caps.supported_qpts, IBV_QPT_RAW_PACKET));
  EXPECT_FALSE(ibv_is_qpt_supported(device.packet_pacing_caps.supported_qpts, IBV_QPT_RC));
  limit.rate_limit = device.packet_pacing_caps.qp_rate_limit_max + 1;
  EXPECT_EQ(ibv_modify_qp_rate_limit(self.qp, &limit), EINVAL);
  limit.rate_limit = 1000;
  limit.comp_mask = 1;
  EXPECT_EQ(ibv_modify_qp_rate_limit(self.qp, &limit), EINVAL);
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  ASSERT_EQ(self.connect({}), 0);
  ibv_qp_attr shown{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(self.qp, &shown, IBV_QP_RATE_LIMIT, &init), 0);
  EXPECT_EQ(shown.rate_limit, 0u);
}

}  // namespace
}  // namespace verbatim::conformance
