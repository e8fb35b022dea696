// SPDX-License-Identifier: MIT
// What commands and raw queues say of a port that is InfiniBand, and of the link of a device that is taken
// over.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cstring>

#include "abi/prm/capabilities.h"
#include "abi/prm/ports.h"
#include "tests/conformance/devx_parts.h"
#include "tests/conformance/mail.h"
#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr const char* kDevices = "mlx5_0:mlx5:infiniband";
constexpr uint16_t kManager = 1, kFirstLid = 2;
constexpr uint32_t kQkeyOfDevx = 0x1234;

TEST(InfinibandCommands, KnowTheKindOfPort) {
  with_devices(kDevices, [] {
    DevxDevice device;
    ASSERT_TRUE(device.good());
    Mail<prm::QueryHcaCap> mail;
    mail.in.set(prm::QueryHcaCapIn::op_mod, 1);
    ASSERT_EQ(mail.general(device.context), 0);
    const auto cap = mail.out[prm::QueryHcaCapOut::capability][prm::HcaCapUnion::cmd_hca_cap];
    EXPECT_EQ(cap[prm::CmdHcaCap::port_type], 0u);
    EXPECT_FALSE(cap[prm::CmdHcaCap::roce]);
    EXPECT_TRUE(cap[prm::CmdHcaCap::compact_address_vector]);
  });
}

TEST(InfinibandCommands, ShowTheVirtualPort) {
  with_devices(kDevices, [] {
    DevxDevice device;
    ASSERT_TRUE(device.good());
    Mail<prm::QueryHcaVportContext> mail;
    ASSERT_EQ(mail.general(device.context), 0);
    const auto port = mail.out[prm::QueryHcaVportContextOut::hca_vport_context];
    EXPECT_EQ(port[prm::HcaVportContext::lid], kFirstLid);
    EXPECT_EQ(port[prm::HcaVportContext::sm_lid], kManager);
    EXPECT_EQ(port[prm::HcaVportContext::lmc], 0u);
    EXPECT_FALSE(port[prm::HcaVportContext::grh_required]);
    Mail<prm::QueryHcaVportPkey> keys(64);
    ASSERT_EQ(keys.general(device.context), 0);
    EXPECT_EQ(keys.out.at(prm::QueryHcaVportPkeyOut::pkey, 0)[prm::Pkey::pkey], 0xffffu);
    Mail<prm::QueryNicVportContext> ethernet;
    EXPECT_NE(ethernet.general(device.context), 0) << "it is no Ethernet port";
    EXPECT_EQ(ethernet.status(), static_cast<uint32_t>(prm::Status::kBadParamErr));
    Mail<prm::QueryRoceAddress> roce;
    EXPECT_NE(roce.general(device.context), 0);
  });
}

/// Asks the port's management agent for an attribute; the data of its answer begin at byte 64.
std::vector<uint8_t> ask(ibv_context* context, uint8_t attribute) {
  Mail<prm::MadIfc> mail;
  mail.in.set(prm::MadIfcIn::port, 1);
  mail.in.set(prm::MadIfcIn::op_mod, 3);
  const uint8_t head[] = {1, 1, 1, 1};  // version, subnet management by LID, version, get
  for (size_t i = 0; i < sizeof head; i++) mail.in.set(prm::MadIfcIn::mad, i, head[i]);
  mail.in.set(prm::MadIfcIn::mad, 17, attribute);
  EXPECT_EQ(mail.general(context), 0);
  std::vector<uint8_t> answer(256);
  for (size_t i = 0; i < answer.size(); i++)
    answer[i] = static_cast<uint8_t>(mail.out.at(prm::MadIfcOut::response_mad_packet, i));
  return answer;
}

TEST(InfinibandCommands, CarryManagementDatagrams) {
  with_devices(kDevices, [] {
    DevxDevice device;
    ASSERT_TRUE(device.good());
    const __be64 guid = ibv_get_device_guid(device.context->device);
    const auto node = ask(device.context, 0x11);
    EXPECT_EQ(node[3], 0x81);
    EXPECT_EQ(node[64 + 2], 1) << "a channel adapter";
    EXPECT_EQ(std::memcmp(node.data() + 64 + 12, &guid, 8), 0);
    const auto port = ask(device.context, 0x15);
    EXPECT_EQ(port[64 + 8], 0xfe);
    EXPECT_EQ(port[64 + 17], kFirstLid);
    EXPECT_EQ(port[64 + 19], kManager);
    EXPECT_EQ(port[64 + 32] & 0xf, 4) << "active";
    EXPECT_EQ(port[64 + 34] & 7, 0) << "LMC";
    const auto guids = ask(device.context, 0x14);
    EXPECT_EQ(std::memcmp(guids.data() + 64, &guid, 8), 0);
    const auto keys = ask(device.context, 0x16);
    EXPECT_EQ(keys[64], 0xff);
    EXPECT_EQ(keys[66], 0);
    EXPECT_NE(ask(device.context, 0x20)[5], 0) << "no subnet manager runs on the port";
  });
}

TEST(InfinibandCommands, ConnectQueuePairsByLid) {
  with_devices(kDevices, [] {
    DevxDevice device;
    ASSERT_TRUE(device.good());
    DevxCq cq(device, 6, device.eqn);
    DevxQp left(device, cq), right(device, cq);
    ASSERT_TRUE(left.good() && right.good());
    EXPECT_EQ(left.connect(right.number), 0);
    EXPECT_EQ(right.connect(left.number), 0);
    Mail<prm::QueryQp> mail;
    mail.in.set(prm::QueryQpIn::qpn, left.number);
    ASSERT_EQ(mail.query(left.object), 0);
    const auto path = mail.out[prm::QueryQpOut::qpc][prm::Qpc::primary_address_path];
    EXPECT_EQ(path[prm::Ads::rlid], kFirstLid);
    EXPECT_FALSE(path[prm::Ads::grh]);
    EXPECT_EQ(right.destroy(), 0);
    Mail<prm::Init2rtrQp> nowhere;
    nowhere.in.set(prm::Init2rtrQpIn::qpn, left.number);
    EXPECT_NE(nowhere.modify(left.object), 0);
  });
}

TEST(InfinibandCommands, TakeAddressVectorsWithoutAHeader) {
  with_devices(kDevices, [] {
    DevxDevice device;
    ASSERT_TRUE(device.good());
    DevxCq cq(device, 6, device.eqn);
    const DevxQpTraits datagrams{.service = prm::QpService::kUd};
    DevxQp left(device, cq, datagrams), right(device, cq, datagrams);
    ASSERT_TRUE(left.good() && right.good());
    EXPECT_EQ(left.connect(0), 0);
    EXPECT_EQ(right.connect(0), 0);
    Mail<prm::QuerySpecialContexts> keys;
    ASSERT_EQ(keys.general(device.context), 0);
    const uint32_t nothing = keys.out[prm::QuerySpecialContextsOut::null_mkey];
    right.receive({connectx::Be32(64), connectx::Be32(nothing), connectx::Be64(0)});
    // The vector is 16 bytes; an inline payload follows.
    struct {
      connectx::Be32 qkey, key_low, qpn;
      uint8_t rate_sl, path_bits;
      connectx::Be16 lid;
      connectx::Be32 inline_bytes;
      char payload[12];
    } segments{kQkeyOfDevx, 0, right.number, 0, 0, kFirstLid, connectx::kInlineFlag | 12, "twelve byte"};
    static_assert(sizeof segments == 32);
    left.post_segments(connectx::kOpSend, std::as_bytes(std::span(&segments, 1)));
    for (int i = 0; i < 2; i++) {
      const auto told = cq.wait();
      ASSERT_TRUE(told);
      if (told->opcode_owner >> 4 == connectx::kCqeRequest) continue;
      EXPECT_EQ(told->opcode_owner >> 4, connectx::kCqeSend);
      EXPECT_EQ(told->byte_count, 40u + 12u);
      EXPECT_EQ(told->slid, kFirstLid);
      EXPECT_EQ(told->flags_rqpn, left.number) << "no header, service level 0";
    }
  });
}

TEST(InfinibandLinks, ComeUpWhenTheProgramSaysSo) {
  with_devices(kDevices, [] {
    DevxDevice device(take_over(MLX5DV_VFIO_CTX_FLAGS_INIT_LINK_DOWN));
    ASSERT_TRUE(device.good());
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_DOWN);
    DevxCq cq(device, 6, device.eqn);
    DevxQp left(device, cq), right(device, cq);
    EXPECT_EQ(left.connect(right.number), 0);
    EXPECT_EQ(right.connect(left.number), 0);
    left.post(connectx::kOpNop, {});
    EXPECT_TRUE(cq.wait()) << "what stays at home does not need the link";
    using Paos = prm::PaosReg;
    Mail<prm::AccessRegister> mail(Paos::kBits / 8);
    mail.in.set(prm::AccessRegisterIn::register_id, 0x5006);
    const auto wanted = mail.in.overlay<Paos>(prm::AccessRegisterIn::register_data);
    wanted.set(Paos::local_port, 1);
    wanted.set(Paos::admin_status, 1);
    wanted.set(Paos::ase, true);
    EXPECT_EQ(mail.general(device.context), 0);
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
    ibv_ack_async_event(&event);
  });
}

}  // namespace
}  // namespace verbatim::conformance
