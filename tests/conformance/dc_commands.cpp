// SPDX-License-Identifier: MIT
// DC by command mailboxes: a target made by one, initiators of verbs that are moved and asked by others.
#include "abi/prm/capabilities.h"
#include "abi/prm/dynamic_connections.h"
#include "abi/prm/queue_pairs.h"
#include "tests/conformance/dc_ends.h"
#include "tests/conformance/event_queue.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

const auto kSend = [](ibv_qp_ex* ex) { ibv_wr_send(ex); };

Traits with_commands() {
  Traits traits;
  traits.srq = true;
  traits.operations = IBV_QP_EX_WITH_SEND;
  traits.direct_operations = MLX5DV_QP_EX_WITH_RAW_WQE;
  return traits;
}

struct DynamicCommands : testing::Test {
  DynamicCommands() : self(with_commands()) { self.peer = self.contact(); }

  /// A mailbox for a target of the endpoint's domain and queues, with all rights.
  Mail<prm::CreateDct> wanted() {
    mlx5dv_pd pd{};
    mlx5dv_cq cq{};
    mlx5dv_srq srq{};
    srq.comp_mask = MLX5DV_SRQ_MASK_SRQN;
    mlx5dv_obj shown{};
    shown.pd = {self.pd, &pd};
    shown.cq = {self.cq, &cq};
    shown.srq = {self.srq, &srq};
    EXPECT_EQ(mlx5dv_init_obj(&shown, MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ), 0);
    Mail<prm::CreateDct> mail;
    const auto context = mail.in[prm::CreateDctIn::dct_context_entry];
    context.set(prm::Dctc::pd, pd.pdn);
    context.set(prm::Dctc::cqn, cq.cqn);
    context.set(prm::Dctc::srqn_xrqn, srq.srqn);
    context.set(prm::Dctc::dc_access_key, kDcKey);
    context.set(prm::Dctc::rre, true);
    context.set(prm::Dctc::rwe, true);
    context.set(prm::Dctc::rae, true);
    context.set(prm::Dctc::mtu, 3);
    context.set(prm::Dctc::min_rnr_nak, 1);
    context.set(prm::Dctc::hop_limit, 64);
    context.set(prm::Dctc::user_index, 0xabcdef);
    return mail;
  }
  static uint32_t violations(mlx5dv_devx_obj* target, uint32_t dctn) {
    Mail<prm::QueryDct> query;
    query.in.set(prm::QueryDctIn::dctn, dctn);
    EXPECT_EQ(query.query(target), 0);
    return query.out[prm::QueryDctOut::dct_context_entry][prm::Dctc::dc_access_key_violation_count];
  }

  Endpoint self;
};

TEST_F(DynamicCommands, ATargetMadeByOneTakesWrites) {
  Mail<prm::CreateDct> mail = wanted();
  mlx5dv_devx_obj* target = mail.create(self.context);
  ASSERT_NE(target, nullptr) << mail.syndrome();
  const uint32_t dctn = mail.out[prm::CreateDctOut::dctn];
  {
    DcInitiator dci(self), stranger(self);
    const uint64_t there = reinterpret_cast<uint64_t>(&self.buffer[8192]);
    const auto write = [&](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, self.mr->rkey, there); };
    fill(self, 0, 4096, 9);
    EXPECT_EQ(dci.post(1, dctn, write, 4096), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(self, 8192, 4096, 9));
    EXPECT_EQ(violations(target, dctn), 0u);
    EXPECT_EQ(stranger.post(2, dctn, kSend, 8, 0, kDcKey + 1), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(violations(target, dctn), 1u);
  }
  EXPECT_EQ(mlx5dv_devx_obj_destroy(target), 0);
}

// A wrong key is told once each time that the program has asked for it: in an event queue, and on a channel.
TEST_F(DynamicCommands, KeyViolationsAreToldWhereArmed) {
  EventQueue events(self.context, {prm::Event::kDctAccessKeyViolation});
  mlx5dv_devx_event_channel* channel =
      mlx5dv_devx_create_event_channel(self.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  ASSERT_NE(channel, nullptr);
  Mail<prm::CreateDct> mail = wanted();
  mlx5dv_devx_obj* target = mail.create(self.context);
  ASSERT_NE(target, nullptr) << mail.syndrome();
  const uint32_t dctn = mail.out[prm::CreateDctOut::dctn];
  uint16_t type = static_cast<uint16_t>(prm::Event::kDctAccessKeyViolation);
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, target, sizeof type, &type, 77), 0);
  Mail<prm::ArmDctForKeyViolation> arm;
  arm.in.set(prm::ArmDctIn::dct_number, dctn);
  ASSERT_EQ(arm.modify(target), 0) << arm.syndrome();
  events.tell(true);
  for (int i = 0; i < 2; i++) {
    DcInitiator stranger(self);
    EXPECT_EQ(stranger.post(2, dctn, kSend, 8, 0, kDcKey + 1), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
  }
  const std::vector<uint8_t> entry = events.wait();
  ASSERT_FALSE(entry.empty());
  const prm::View<prm::Eqe> told(entry);
  EXPECT_EQ(told[prm::Eqe::event_type], type);
  const auto about = told[prm::Eqe::event_data][prm::EventAuto::qp_events];
  EXPECT_EQ(about[prm::QpEvents::qpn_rqn_sqn], dctn);
  EXPECT_EQ(about[prm::QpEvents::type], 6u) << "a DC target";
  EXPECT_TRUE(events.take().empty()) << "it was armed once";
  ASSERT_TRUE(readable(channel->fd));
  std::vector<uint8_t> room(sizeof(mlx5dv_devx_async_event_hdr) + 64);
  auto* event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
  ASSERT_EQ(mlx5dv_devx_get_event(channel, event, room.size()), static_cast<ssize_t>(room.size()));
  EXPECT_EQ(event->cookie, 77u);
  EXPECT_EQ(event->out_data[1], type);
  EXPECT_FALSE(readable(channel->fd, 0));
  EXPECT_EQ(violations(target, dctn), 2u);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(target), 0);
  mlx5dv_devx_destroy_event_channel(channel);
}

TEST_F(DynamicCommands, WhatATargetNeedsMustBeThere) {
  for (const auto field : {prm::Dctc::pd, prm::Dctc::cqn, prm::Dctc::srqn_xrqn}) {
    Mail<prm::CreateDct> mail = wanted();
    mail.in[prm::CreateDctIn::dct_context_entry].set(field, 0xfffff0);
    EXPECT_EQ(mail.create(self.context), nullptr);
    EXPECT_EQ(errno, EREMOTEIO);
  }
  Mail<prm::CreateDct> mail = wanted();
  mail.in[prm::CreateDctIn::dct_context_entry].set(prm::Dctc::my_addr_index, 200);
  EXPECT_EQ(mail.create(self.context), nullptr) << "no such GID";
}

TEST_F(DynamicCommands, TargetsOfVerbsAreShown) {
  DcTarget dct(self, IBV_ACCESS_REMOTE_READ);
  Mail<prm::QueryDct> query;
  query.in.set(prm::QueryDctIn::dctn, dct.qp->qp_num);
  ASSERT_EQ(query.query(dct.qp), 0);
  const auto shown = query.out[prm::QueryDctOut::dct_context_entry];
  EXPECT_EQ(shown.as<prm::DctState>(prm::Dctc::state), prm::DctState::kActive);
  EXPECT_EQ(shown[prm::Dctc::dc_access_key], kDcKey);
  EXPECT_TRUE(shown[prm::Dctc::rre]);
  EXPECT_FALSE(shown[prm::Dctc::rwe]);
  Mail<prm::QueryQp> other;
  other.in.set(prm::QueryQpIn::qpn, dct.qp->qp_num);
  EXPECT_EQ(other.query(dct.qp), EINVAL) << "a target is no queue pair to commands";
}

TEST_F(DynamicCommands, InitiatorsMoveAndResetStreams) {
  DcTarget dct(self);
  DcInitiator dci(self, 1);
  Mail<prm::QueryQp> query;
  query.in.set(prm::QueryQpIn::qpn, dci.qp->qp_num);
  ASSERT_EQ(query.query(dci.qp), 0);
  EXPECT_EQ(query.out[prm::QueryQpOut::qpc].as<prm::QpService>(prm::Qpc::st), prm::QpService::kDci);
  EXPECT_EQ(query.out[prm::QueryQpOut::qpc].as<prm::QpState>(prm::Qpc::state), prm::QpState::kRts);
  ASSERT_EQ(self.receive(0, 64), 0);
  EXPECT_EQ(dci.post(1, dct.qp->qp_num, kSend, 8, 0, kDcKey, 5, self.mr->lkey ^ 1), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
  std::array<uint8_t, prm::Rts2rtsQpIn::kBits / 8 + prm::QpcExt::kBits / 8> in{};
  std::array<uint8_t, prm::Rts2rtsQpOut::kBits / 8> out{};
  const prm::Writer<prm::Rts2rtsQpIn> reset(in);
  reset.set(prm::Rts2rtsQpIn::opcode, prm::Rts2rtsQp::kOpcode);
  reset.set(prm::Rts2rtsQpIn::qpn, dci.qp->qp_num);
  reset.set(prm::Rts2rtsQpIn::qpc_ext, true);
  reset.set(prm::Rts2rtsQpIn::opt_param_mask_95_32,
            static_cast<uint64_t>(prm::QpOptional32::kDciStreamChannelId));
  const auto modify = [&](uint32_t stream) {
    reset[prm::Rts2rtsQpIn::qpc_data_ext].set(prm::QpcExt::dci_stream_channel_id, stream);
    return mlx5dv_devx_qp_modify(dci.qp, in.data(), in.size(), out.data(), out.size());
  };
  EXPECT_EQ(modify(6), EREMOTEIO) << "it has not failed";
  EXPECT_EQ(modify(5), 0);
  EXPECT_EQ(dci.post(2, dct.qp->qp_num, kSend, 8, 0, kDcKey, 5), 0);
  for (int i = 0; i < 2; i++) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
}

TEST_F(DynamicCommands, CapabilitiesTellOfDc) {
  Mail<prm::QueryHcaCap> mail;
  ASSERT_EQ(mail.general(self.context), 0);
  const auto cap = mail.out[prm::QueryHcaCapOut::capability][prm::HcaCapUnion::cmd_hca_cap];
  mlx5dv_context device{};
  device.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS | MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM;
  ASSERT_EQ(mlx5dv_query_device(self.context, &device), 0);
  EXPECT_TRUE(cap[prm::CmdHcaCap::dct]);
  EXPECT_EQ(1u << cap[prm::CmdHcaCap::log_max_ra_req_dc], device.max_dc_init_rd_atom);
  EXPECT_EQ(cap[prm::CmdHcaCap::log_max_dci_stream_channels], device.dci_streams_caps.max_log_num_concurent);
}

}  // namespace
}  // namespace verbatim::conformance
