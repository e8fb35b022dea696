// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi/prm/ports.h"
#include "device/connectx/prm/fake_unit_test.h"

namespace verbatim::prm {
namespace {

struct Ports : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in, out;

  void SetUp() override {
    unit.limits_.node_guid = 0x1122334455667788;
    unit.limits_.max_pkeys = 1;
    Gid local{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55}};
    Gid mapped{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}};
    unit.gids_ = {{local, GidType::kRoceV1, 3, 1500}, {mapped, GidType::kRoceV2, 3, 1500}, {}};
    unit.port_.gid_entries = 3;
  }
  template <class Spec>
  Writer<typename Spec::In> input(size_t more = 0) {
    in = input_of(Spec::kOpcode, 0, Spec::In::kBits / 8 + more);
    return Writer<typename Spec::In>(in);
  }
  template <class Spec>
  Status run(size_t more = 0) {
    out.assign(Spec::Out::kBits / 8 + more, 0xa5);
    return command_table().execute(unit, in, out).result.status;
  }
  template <class Spec>
  View<typename Spec::Out> output() const {
    return View<typename Spec::Out>(out);
  }
};

TEST_F(Ports, StateOfTheVirtualPort) {
  input<QueryVportState>();
  ASSERT_EQ(run<QueryVportState>(), Status::kOk);
  EXPECT_EQ(out[15], 0x11) << "administratively and really up";
  unit.port_.active = false;
  ASSERT_EQ(run<QueryVportState>(), Status::kOk);
  EXPECT_EQ(out[15], 0x10);
  input<QueryVportState>().set(QueryVportStateIn::other_vport, true);
  EXPECT_EQ(run<QueryVportState>(), Status::kBadParamErr);
}

TEST_F(Ports, EthernetContext) {
  input<QueryNicVportContext>();
  ASSERT_EQ(run<QueryNicVportContext>(), Status::kOk);
  const auto context = output<QueryNicVportContext>()[QueryNicVportContextOut::nic_vport_context];
  EXPECT_EQ(context[NicVportContext::node_guid], 0x1122334455667788u);
  EXPECT_EQ(context[NicVportContext::mtu], 1500u);
  EXPECT_TRUE(context[NicVportContext::roce_en]);
  EXPECT_EQ(context[NicVportContext::permanent_address][MacAddressLayout::mac_addr_47_32], 0x0211u);
  EXPECT_EQ(context[NicVportContext::permanent_address][MacAddressLayout::mac_addr_31_0], 0x22334455u);
}

TEST_F(Ports, RoceAddresses) {
  const auto query = input<QueryRoceAddress>();
  query.set(QueryRoceAddressIn::roce_address_index, 1);
  ASSERT_EQ(run<QueryRoceAddress>(), Status::kOk);
  const auto address = output<QueryRoceAddress>()[QueryRoceAddressOut::roce_address];
  EXPECT_EQ(out[16 + 11], 0) << "no mapping prefix";
  EXPECT_EQ(out[16 + 12], 192);
  EXPECT_EQ(address[RoceAddrLayout::roce_version], 2u);
  EXPECT_EQ(address[RoceAddrLayout::roce_l3_type], 0u);
  EXPECT_EQ(address[RoceAddrLayout::source_mac_31_0], 0x22334455u);
  query.set(QueryRoceAddressIn::roce_address_index, 0);
  ASSERT_EQ(run<QueryRoceAddress>(), Status::kOk);
  EXPECT_EQ(out[16], 0xfe);
  EXPECT_EQ(address[RoceAddrLayout::roce_l3_type], 1u);
  query.set(QueryRoceAddressIn::roce_address_index, 3);
  EXPECT_EQ(run<QueryRoceAddress>(), Status::kBadParamErr);
}

TEST_F(Ports, GidsOneByOneAndAll) {
  const auto query = input<QueryHcaVportGid>();
  query.set(QueryHcaVportGidIn::gid_index, 1);
  ASSERT_EQ(run<QueryHcaVportGid>(16), Status::kOk);
  EXPECT_EQ(output<QueryHcaVportGid>()[QueryHcaVportGidOut::gids_num], 1u);
  EXPECT_EQ(out[16 + 15], 1);
  query.set(QueryHcaVportGidIn::gid_index, 0xffff);
  ASSERT_EQ(run<QueryHcaVportGid>(32), Status::kOk);
  EXPECT_EQ(output<QueryHcaVportGid>()[QueryHcaVportGidOut::gids_num], 2u) << "as many as there is room for";
  EXPECT_EQ(out[16], 0xfe);
  EXPECT_EQ(out[32 + 12], 192);
  query.set(QueryHcaVportGidIn::gid_index, 3);
  EXPECT_EQ(run<QueryHcaVportGid>(16), Status::kBadParamErr);
}

TEST_F(Ports, PartitionKeys) {
  const auto query = input<QueryHcaVportPkey>();
  ASSERT_EQ(run<QueryHcaVportPkey>(4), Status::kOk);
  EXPECT_EQ(out[18] << 8 | out[19], 0xffff);
  query.set(QueryHcaVportPkeyIn::pkey_index, 1);
  EXPECT_EQ(run<QueryHcaVportPkey>(4), Status::kBadParamErr);
}

TEST_F(Ports, InfinibandContextAndLag) {
  input<QueryHcaVportContext>();
  ASSERT_EQ(run<QueryHcaVportContext>(), Status::kOk);
  const auto context = output<QueryHcaVportContext>()[QueryHcaVportContextOut::hca_vport_context];
  EXPECT_EQ(context[HcaVportContext::port_state], 4u);
  EXPECT_EQ(context[HcaVportContext::port_physical_state], 5u);
  input<QueryLag>();
  ASSERT_EQ(run<QueryLag>(), Status::kOk);
  EXPECT_EQ(out, std::vector<uint8_t>(16, 0));
}

TEST_F(Ports, OfASubnetHaveNoEthernetContext) {
  unit.port_.lid = 7;
  unit.port_.sm_lid = 1;
  input<QueryHcaVportContext>();
  ASSERT_EQ(run<QueryHcaVportContext>(), Status::kOk);
  const auto context = output<QueryHcaVportContext>()[QueryHcaVportContextOut::hca_vport_context];
  EXPECT_EQ(context[HcaVportContext::lid], 7u);
  EXPECT_EQ(context[HcaVportContext::sm_lid], 1u);
  EXPECT_FALSE(context[HcaVportContext::grh_required]);
  input<QueryNicVportContext>();
  EXPECT_EQ(run<QueryNicVportContext>(), Status::kBadParamErr);
  input<QueryRoceAddress>();
  EXPECT_EQ(run<QueryRoceAddress>(), Status::kBadParamErr);
}

TEST_F(Ports, StateRegister) {
  const auto access = input<AccessRegister>(PaosReg::kBits / 8);
  access.set(AccessRegisterIn::register_id, 0x5006);
  const auto asked = access.overlay<PaosReg>(AccessRegisterIn::register_data);
  asked.set(PaosReg::local_port, 1);
  asked.set(PaosReg::ase, true);
  asked.set(PaosReg::admin_status, 1);
  ASSERT_EQ(run<AccessRegister>(PaosReg::kBits / 8), Status::kOk) << "up it is";
  EXPECT_EQ(out[17] << 16 | out[18] << 8 | out[19], 0x010101);
  EXPECT_EQ(unit.trained_, 1u);
  asked.set(PaosReg::admin_status, 2);
  EXPECT_EQ(run<AccessRegister>(PaosReg::kBits / 8), Status::kBadParamErr);
  access.set(AccessRegisterIn::op_mod, RegisterAccess::kRead);
  unit.port_.active = false;
  ASSERT_EQ(run<AccessRegister>(PaosReg::kBits / 8), Status::kOk);
  EXPECT_EQ(out[19], 2);
  EXPECT_EQ(run<AccessRegister>(PaosReg::kBits / 8 - 4), Status::kBadOutpLenErr);
  in.resize(in.size() - 4);
  EXPECT_EQ(run<AccessRegister>(PaosReg::kBits / 8), Status::kBadInpLenErr);
}

TEST_F(Ports, MtuRegisterAndUnknownOnes) {
  const auto access = input<AccessRegister>(PmtuReg::kBits / 8);
  access.set(AccessRegisterIn::op_mod, RegisterAccess::kRead);
  access.set(AccessRegisterIn::register_id, 0x5003);
  access.overlay<PmtuReg>(AccessRegisterIn::register_data).set(PmtuReg::local_port, 1);
  ASSERT_EQ(run<AccessRegister>(PmtuReg::kBits / 8), Status::kOk);
  EXPECT_EQ(output<AccessRegister>().overlay<PmtuReg>(AccessRegisterOut::register_data)[PmtuReg::oper_mtu],
            1500u);
  access.set(AccessRegisterIn::register_id, 0x1234);
  EXPECT_EQ(run<AccessRegister>(PmtuReg::kBits / 8), Status::kBadParamErr);
}

TEST_F(Ports, ManagementDatagramTellsThePortsState) {
  const auto query = input<MadIfc>();
  const std::vector<uint8_t> head = {1, 1, 1, 1};
  for (size_t i = 0; i < head.size(); i++) query.set(MadIfcIn::mad, i, head[i]);
  query.set(MadIfcIn::mad, 17, 0x15);
  ASSERT_EQ(run<MadIfc>(), Status::kOk);
  EXPECT_EQ(out[16 + 3], 0x81);
  EXPECT_EQ(out[16 + 64 + 32] & 0xf, 4);
  query.set(MadIfcIn::mad, 17, 0x20);
  ASSERT_EQ(run<MadIfc>(), Status::kOk);
  EXPECT_EQ(out[16 + 5], 0x0c) << "unsupported attribute";
}

}  // namespace
}  // namespace verbatim::prm
