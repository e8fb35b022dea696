// SPDX-License-Identifier: MIT
#include "device/connectx/prm/capabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device/connectx/prm/fake_unit_test.h"

namespace verbatim::prm {
namespace {

struct Capabilities : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> out;

  void SetUp() override {
    hw::Limits& limits = unit.limits_;
    limits.vendor_id = 0x2c9;
    limits.max_qp = 131072 - 128;
    limits.max_qp_wr = 32768;
    limits.max_sge = 30;
    limits.max_inline = 960;
    limits.max_cq = 1u << 24;
    limits.max_cqe = (1u << 22) - 1;
    limits.max_srq_wr = 32767;
    limits.max_srq_sge = 31;
    limits.max_qp_init_rd_atomic = 16;
    limits.max_mr_bytes = UINT64_MAX;
    limits.max_send_message_bytes = 1u << 30;
    limits.timestamp_khz = 1000000;
    unit.port_.gid_entries = 16;
  }
  Status query(uint32_t group, bool current = true, size_t bytes = QueryHcaCapOut::kBits / 8) {
    out.assign(bytes, 0xa5);
    return command_table()
        .execute(unit, input_of(QueryHcaCap::kOpcode, group << 1 | current, 16), out)
        .result.status;
  }
  View<HcaCapUnion> capability() const { return View<QueryHcaCapOut>(out)[QueryHcaCapOut::capability]; }
  size_t bytes_set() const {
    return static_cast<size_t>(std::ranges::count_if(out, [](uint8_t b) { return b != 0; }));
  }
};

TEST_F(Capabilities, GeneralFollowsTheLimits) {
  ASSERT_EQ(query(0), Status::kOk);
  const auto cap = capability()[HcaCapUnion::cmd_hca_cap];
  EXPECT_EQ(cap[CmdHcaCap::log_max_qp], 16u) << "never more than there are";
  EXPECT_EQ(cap[CmdHcaCap::log_max_qp_sz], 15u);
  EXPECT_EQ(cap[CmdHcaCap::log_max_cq_sz], 22u);
  EXPECT_EQ(cap[CmdHcaCap::log_max_srq_sz], 15u);
  EXPECT_EQ(cap[CmdHcaCap::log_max_msg], 30u);
  EXPECT_EQ(cap[CmdHcaCap::log_max_ra_req_qp], 4u);
  EXPECT_EQ(cap[CmdHcaCap::max_wqe_sz_sq], 1024u);
  EXPECT_EQ(cap[CmdHcaCap::max_wqe_sz_rq], 512u);
  EXPECT_EQ(cap[CmdHcaCap::gid_table_size], 1u);
  EXPECT_EQ(cap[CmdHcaCap::port_type], 1u);
  EXPECT_EQ(cap[CmdHcaCap::num_ports], 1u);
  EXPECT_TRUE(cap[CmdHcaCap::rc]);
  EXPECT_TRUE(cap[CmdHcaCap::dct]);
  EXPECT_FALSE(cap[CmdHcaCap::xrc]);
  EXPECT_FALSE(cap[CmdHcaCap::null_mkey]);
  EXPECT_EQ(out[16 + 438 / 8] & 3, 1) << "the port's type, by its byte";
  EXPECT_EQ(out[16 + 55], 1) << "ports";
}

TEST_F(Capabilities, SpecialKeysAreReportedWhereThereAreAny) {
  unit.keys_.null_mkey = 0x1234;
  ASSERT_EQ(query(0), Status::kOk);
  EXPECT_TRUE(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::null_mkey]);
  out.assign(QuerySpecialContextsOut::kBits / 8, 0xa5);
  ASSERT_TRUE(command_table().execute(unit, input_of(QuerySpecialContexts::kOpcode, 0, 16), out).result.ok());
  EXPECT_EQ(View<QuerySpecialContextsOut>(out)[QuerySpecialContextsOut::null_mkey], 0x1234u);
  EXPECT_EQ(bytes_set(), 2u);
}

TEST_F(Capabilities, OnDemandPagingAtomicsAndRoce) {
  ASSERT_EQ(query(2), Status::kOk);
  const auto odp = capability()[HcaCapUnion::odp_cap];
  EXPECT_TRUE(odp[OdpCap::rc_odp_caps][OdpPerTransportServiceCap::atomic]);
  EXPECT_TRUE(odp[OdpCap::ud_odp_caps][OdpPerTransportServiceCap::send]);
  EXPECT_FALSE(odp[OdpCap::ud_odp_caps][OdpPerTransportServiceCap::write]);
  EXPECT_TRUE(odp[OdpCap::dc_odp_caps][OdpPerTransportServiceCap::atomic]);
  EXPECT_FALSE(odp[OdpCap::xrc_odp_caps][OdpPerTransportServiceCap::send]);
  ASSERT_EQ(query(3), Status::kOk);
  EXPECT_EQ(capability()[HcaCapUnion::atomic_caps][AtomicCaps::atomic_size_qp], 8u);
  ASSERT_EQ(query(4), Status::kOk);
  EXPECT_EQ(capability()[HcaCapUnion::roce_cap][RoceCap::roce_version], 5u);
  EXPECT_EQ(capability()[HcaCapUnion::roce_cap][RoceCap::roce_address_table_size], 16u);
}

TEST_F(Capabilities, DeviceMemory) {
  ASSERT_EQ(query(15), Status::kOk);
  EXPECT_EQ(bytes_set(), 0u) << "the device has none";
  hw::Limits& limits = unit.limits_;
  limits.dm[static_cast<size_t>(hw::DmKind::kMemic)] = {0x1000000, 18, 6};
  limits.dm[static_cast<size_t>(hw::DmKind::kSteering)] = {0x2000000, 26, 12};
  limits.log_dm_alignment_max = 12;
  limits.dm_operations = 3;
  limits.dm_operation_sizes = 15;
  ASSERT_EQ(query(15), Status::kOk);
  const auto cap = capability()[HcaCapUnion::device_mem_cap];
  EXPECT_TRUE(cap[DeviceMemCap::memic]);
  EXPECT_EQ(cap[DeviceMemCap::max_memic_size], 1u << 18);
  EXPECT_EQ(cap[DeviceMemCap::log_max_memic_addr_alignment], 6u) << "in units of 64 bytes";
  EXPECT_EQ(cap[DeviceMemCap::steering_sw_icm_start_address], 0x2000000u);
  EXPECT_EQ(cap[DeviceMemCap::log_steering_sw_icm_size], 26u);
  // Where programs look for them, by their bytes.
  EXPECT_EQ(out[83], 3) << "operations";
  EXPECT_EQ(out[20], 15) << "sizes of increments";
  EXPECT_EQ(out[22], 15) << "sizes of test and set";
  ASSERT_EQ(query(0), Status::kOk);
  EXPECT_TRUE(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::device_memory]);
}

TEST_F(Capabilities, SchedulingPacingAndLag) {
  hw::Limits& limits = unit.limits_;
  limits.log_max_scheduling_leaves = 10;
  limits.pacing_entries = 127;
  limits.pacing_min_kbps = 1;
  limits.pacing_max_kbps = 1000;
  limits.lag_ports = 2;
  ASSERT_EQ(query(12), Status::kOk);
  const auto cap = capability()[HcaCapUnion::qos_cap];
  EXPECT_TRUE(cap[QosCap::packet_pacing]);
  EXPECT_EQ(cap[QosCap::packet_pacing_rate_table_size], 128u);
  EXPECT_FALSE(cap[QosCap::packet_pacing_burst_bound]);
  EXPECT_EQ(cap[QosCap::nic_element_type], 17u);
  EXPECT_TRUE(cap[QosCap::nic_qp_scheduling]);
  EXPECT_FALSE(cap[QosCap::nic_sq_scheduling]);
  ASSERT_EQ(query(0), Status::kOk);
  EXPECT_TRUE(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::qos]);
  EXPECT_EQ(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::num_lag_ports], 2u);
}

TEST_F(Capabilities, EventsThatProgramsMaySubscribeTo) {
  ASSERT_EQ(query(20), Status::kOk);
  const auto cap = capability()[HcaCapUnion::device_event_cap];
  // Completions, 1 to 5, 7, 0x10 to 0x14, and those of DC targets: 0x1c, 0x1d.
  EXPECT_EQ(cap.at(DeviceEventCap::user_affiliated_events, 0), 0x301f00bfu);
  EXPECT_EQ(cap.at(DeviceEventCap::user_unaffiliated_events, 0), 1u << 9) << "the port";
  for (size_t word = 1; word < 4; word++) EXPECT_EQ(cap.at(DeviceEventCap::user_affiliated_events, word), 0u);
}

TEST_F(Capabilities, FramesAreOfEthernetPorts) {
  unit.limits_.max_frame_bytes = 8192;
  ASSERT_EQ(query(1), Status::kOk);
  const auto cap = capability()[HcaCapUnion::per_protocol_networking_offload_caps];
  EXPECT_TRUE(cap[PerProtocolNetworkingOffloadCaps::csum_cap]);
  EXPECT_EQ(cap[PerProtocolNetworkingOffloadCaps::wqe_inline_mode], 2u) << "not required";
  EXPECT_TRUE(cap[PerProtocolNetworkingOffloadCaps::vlan_cap]);
  ASSERT_EQ(query(0), Status::kOk);
  EXPECT_TRUE(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::eth_net_offloads]);
}

TEST_F(Capabilities, CurrentAndMaximalValuesAreTheSame) {
  for (uint32_t group = 0; group < 0x30; group++) {
    const Status current = query(group, true);
    const std::vector<uint8_t> values = out;
    EXPECT_EQ(query(group, false), current);
    if (current == Status::kOk) {
      EXPECT_EQ(out, values);
    }
  }
}

TEST_F(Capabilities, GroupsWithoutAnythingAreZeroAndOthersRefused) {
  for (const uint32_t group : {1u, 7u, 12u, 26u, 32u}) {
    ASSERT_EQ(query(group), Status::kOk) << group;
    EXPECT_EQ(bytes_set(), 0u) << group;
  }
  EXPECT_EQ(query(10), Status::kBadParamErr);
  EXPECT_EQ(query(0x7fff), Status::kBadParamErr);
  EXPECT_EQ(out[0], 3);
}

TEST_F(Capabilities, AShortOutputGetsTheBeginning) {
  ASSERT_EQ(query(0, true, 272), Status::kOk);
  EXPECT_TRUE(capability()[HcaCapUnion::cmd_hca_cap][CmdHcaCap::rc]);
  EXPECT_EQ(query(0, true, 271), Status::kBadOutpLenErr);
}

TEST_F(Capabilities, AnotherFunctionIsRefused) {
  std::vector<uint8_t> in = input_of(QueryHcaCap::kOpcode, 1, 16);
  Writer<QueryHcaCapIn>(in).set(QueryHcaCapIn::other_function, true);
  out.assign(QueryHcaCapOut::kBits / 8, 0);
  EXPECT_EQ(command_table().execute(unit, in, out).result.status, Status::kBadParamErr);
}

TEST_F(Capabilities, AdapterAndInterface) {
  out.assign(QueryAdapterOut::kBits / 8, 0xa5);
  ASSERT_TRUE(command_table().execute(unit, input_of(QueryAdapter::kOpcode, 0, 16), out).result.ok());
  EXPECT_EQ(out[16 + 25] << 16 | out[16 + 26] << 8 | out[16 + 27], 0x2c9);
  EXPECT_EQ(std::string(out.end() - 16, out.end() - 8), "VERBATIM");
  out.assign(QueryIssiOut::kBits / 8, 0xa5);
  ASSERT_TRUE(command_table().execute(unit, input_of(QueryIssi::kOpcode, 0, 16), out).result.ok());
  EXPECT_EQ(View<QueryIssiOut>(out)[QueryIssiOut::current_issi], 1u);
  out.assign(16, 0xa5);
  ASSERT_TRUE(command_table().execute(unit, input_of(Nop::kOpcode, 0, 16), out).result.ok());
  EXPECT_EQ(bytes_set(), 0u);
}

}  // namespace
}  // namespace verbatim::prm
