// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/fake_unit_test.h"
#include "device/connectx/prm/qp_context.h"
#include "engine/status.h"
#include "engine/transitions.h"

namespace verbatim::prm {
namespace {

using hw::QpType;

struct QueuePairs : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> in, out;

  template <class Spec>
  Writer<typename Spec::In> input() {
    in = input_of(Spec::kOpcode, 0, Spec::In::kBits / 8);
    const Writer<typename Spec::In> writer(in);
    writer.set(Spec::In::qpn, FakeUnit::kQpn);
    return writer;
  }
  Status run(size_t bytes = 16) {
    out.assign(bytes, 0xa5);
    unit.mask_ = 0;
    return command_table().execute(unit, in, out).result.status;
  }
};

/// As programs write it that drive a queue pair through DEVX alone.
TEST_F(QueuePairs, ReliableFromResetToRts) {
  unit.qp_.type = QpType::kRc;
  const auto init = input<Rst2initQp>();
  init[Rst2initQpIn::qpc].set(Qpc::rre, true);
  init[Rst2initQpIn::qpc].set(Qpc::rwe, true);
  init[Rst2initQpIn::qpc][Qpc::primary_address_path].set(Ads::vhca_port_num, 1);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(engine::check_transition(QpType::kRc, hw::QpState::kReset, unit.modified_.state, unit.mask_), "");
  EXPECT_EQ(unit.modified_.access, engine::kRemoteRead | engine::kRemoteWrite);
  EXPECT_EQ(unit.modified_.port, 1);

  const auto rtr = input<Init2rtrQp>();
  const auto context = rtr[Init2rtrQpIn::qpc];
  context.set(Qpc::mtu, QpMtu::k1kBytes);
  context.set(Qpc::remote_qpn, 0xabcdef);
  context.set(Qpc::min_rnr_nak, 12);
  context.set(Qpc::next_rcv_psn, 0x112233);
  context.set(Qpc::log_rra_max, 4);
  const auto path = context[Qpc::primary_address_path];
  path.set(Ads::rgid_rip, 15, 7);
  path.set(Ads::src_addr_index, 3);
  path.set(Ads::hop_limit, 64);
  path.set(Ads::dscp, 26);
  path.set(Ads::vhca_port_num, 1);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(engine::check_transition(QpType::kRc, hw::QpState::kInit, unit.modified_.state, unit.mask_), "");
  EXPECT_EQ(engine::check_attributes(unit.modified_, unit.mask_), "");
  EXPECT_EQ(unit.modified_.path_mtu, 1024u);
  EXPECT_EQ(unit.modified_.dest_qpn, 0xabcdefu);
  EXPECT_EQ(unit.modified_.rq_psn, 0x112233u);
  EXPECT_EQ(unit.modified_.max_dest_rd_atomic, 16);
  EXPECT_EQ(unit.modified_.path.dgid.bytes[15], 7);
  EXPECT_EQ(unit.modified_.path.sgid_index, 3);
  EXPECT_EQ(unit.modified_.path.traffic_class, 26 << 2);

  const auto rts = input<Rtr2rtsQp>();
  rts[Rtr2rtsQpIn::qpc].set(Qpc::retry_count, 7);
  rts[Rtr2rtsQpIn::qpc].set(Qpc::rnr_retry, 6);
  rts[Rtr2rtsQpIn::qpc].set(Qpc::next_send_psn, 5);
  rts[Rtr2rtsQpIn::qpc][Qpc::primary_address_path].set(Ads::ack_timeout, 18);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(engine::check_transition(QpType::kRc, hw::QpState::kRtr, unit.modified_.state, unit.mask_), "");
  EXPECT_EQ(unit.modified_.timeout, 18);
  EXPECT_EQ(unit.modified_.max_rd_atomic, 1);
}

TEST_F(QueuePairs, DatagramsAndUnreliableOnesTakeTheirPart) {
  for (const QpType type : {QpType::kUd, QpType::kUc}) {
    unit.qp_.type = type;
    unit.qp_.attributes.state = hw::QpState::kReset;
    input<Rst2initQp>()[Rst2initQpIn::qpc].set(Qpc::q_key, 0x11111111);
    ASSERT_EQ(run(), Status::kOk);
    EXPECT_EQ(engine::check_transition(type, hw::QpState::kReset, hw::QpState::kInit, unit.mask_), "");
    EXPECT_EQ(unit.modified_.qkey, 0x11111111u);
    input<Init2rtrQp>()[Init2rtrQpIn::qpc].set(Qpc::mtu, QpMtu::k4kBytes);
    ASSERT_EQ(run(), Status::kOk);
    EXPECT_EQ(engine::check_transition(type, hw::QpState::kInit, hw::QpState::kRtr, unit.mask_), "");
    input<Rtr2rtsQp>();
    ASSERT_EQ(run(), Status::kOk);
    EXPECT_EQ(engine::check_transition(type, hw::QpState::kRtr, hw::QpState::kRts, unit.mask_), "");
  }
}

TEST_F(QueuePairs, OptionalFieldsChangeOnlyWhereTheyAreNamed) {
  unit.qp_.type = QpType::kRc;
  unit.qp_.attributes.access = engine::kRemoteRead | engine::kRemoteWrite;
  unit.qp_.attributes.state = hw::QpState::kRts;
  const auto run_on = input<Rts2rtsQp>();
  run_on[Rts2rtsQpIn::qpc].set(Qpc::rae, true);
  run_on[Rts2rtsQpIn::qpc].set(Qpc::min_rnr_nak, 9);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.mask_, uint32_t{engine::kQpState}) << "nothing is named";
  run_on.set(Rts2rtsQpIn::opt_param_mask, kOptRemoteAtomic | kOptRemoteWrite | kOptRnrTimeout);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.mask_, uint32_t{engine::kQpState | engine::kQpAccessFlags | engine::kQpMinRnrTimer});
  EXPECT_EQ(unit.modified_.access, engine::kRemoteRead | engine::kRemoteAtomic);
  EXPECT_EQ(unit.modified_.min_rnr_timer, 9);
}

TEST_F(QueuePairs, PortsAndLeavesChangeWhereTheyAreNamed) {
  unit.qp_.type = QpType::kRc;
  unit.qp_.attributes.state = hw::QpState::kRts;
  input<Rts2rtsQp>();
  in.resize(in.size() + QpcExt::kBits / 8);
  const Writer<Rts2rtsQpIn> run_on(in);
  run_on[Rts2rtsQpIn::qpc].set(Qpc::lag_tx_port_affinity, 2);
  run_on[Rts2rtsQpIn::qpc][Qpc::primary_address_path].set(Ads::udp_sport, 55555);
  run_on[Rts2rtsQpIn::qpc_data_ext].set(QpcExt::qos_queue_group_id_requester, 8);
  run_on[Rts2rtsQpIn::qpc_data_ext].set(QpcExt::qos_queue_group_id_responder, 9);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.extras_mask_, 0u) << "nothing is named";
  run_on.set(Rts2rtsQpIn::opt_param_mask, kOptLagPort);
  run_on.set(Rts2rtsQpIn::opt_param_mask_95_32, static_cast<uint64_t>(QpOptional32::kUdpSport));
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.extras_mask_, uint32_t{hw::Hca::kLagPort | hw::Hca::kUdpSourcePort});
  EXPECT_EQ(unit.extras_.lag_port, 2);
  EXPECT_EQ(unit.extras_.udp_source_port, 55555);
  run_on.set(Rts2rtsQpIn::opt_param_mask, 0);
  run_on.set(Rts2rtsQpIn::opt_param_mask_95_32, static_cast<uint64_t>(QpOptional32::kQosQueueGroupId));
  run_on.set(Rts2rtsQpIn::qpc_ext, true);
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.extras_mask_, uint32_t{hw::Hca::kLeaves});
  EXPECT_EQ(unit.extras_.request_leaf, 8u);
  EXPECT_EQ(unit.extras_.response_leaf, 9u);
}

TEST_F(QueuePairs, TransitionsBeginWhereTheirNamesSay) {
  unit.qp_.type = QpType::kUd;
  const auto begins = [this](hw::QpState state, auto command) {
    unit.qp_.attributes.state = state;
    input<decltype(command)>();
    return run() == Status::kOk;
  };
  for (const hw::QpState state :
       {hw::QpState::kReset, hw::QpState::kInit, hw::QpState::kRtr, hw::QpState::kRts, hw::QpState::kSqd,
        hw::QpState::kSqe, hw::QpState::kError}) {
    EXPECT_EQ(begins(state, Rst2initQp{}), state == hw::QpState::kReset);
    EXPECT_EQ(begins(state, Init2initQp{}), state == hw::QpState::kInit);
    EXPECT_EQ(begins(state, Rtr2rtsQp{}), state == hw::QpState::kRtr);
    EXPECT_EQ(begins(state, Rts2rtsQp{}), state == hw::QpState::kRts);
    EXPECT_EQ(begins(state, Sqd2rtsQp{}), state == hw::QpState::kSqd);
    EXPECT_EQ(begins(state, Sqerr2rtsQp{}), state == hw::QpState::kSqe);
  }
  EXPECT_EQ(run(), Status::kBadResStateErr);
}

TEST_F(QueuePairs, LeavingNeedsNoContext) {
  input<Qp2err>();
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.modified_.state, hw::QpState::kError);
  EXPECT_EQ(unit.mask_, uint32_t{engine::kQpState});
  input<Qp2rst>();
  ASSERT_EQ(run(), Status::kOk);
  EXPECT_EQ(unit.modified_.state, hw::QpState::kReset);
}

TEST_F(QueuePairs, MtuCodesAndUnknownNumbersAreRefused) {
  unit.qp_.type = QpType::kRc;
  unit.qp_.attributes.state = hw::QpState::kInit;
  for (const uint32_t code : {0u, 6u, 7u}) {
    input<Init2rtrQp>()[Init2rtrQpIn::qpc].set(Qpc::mtu, code);
    EXPECT_EQ(run(), Status::kBadParamErr) << code;
  }
  input<Qp2err>().set(Qp2errIn::qpn, 1);
  EXPECT_EQ(run(), Status::kBadResErr);
}

TEST_F(QueuePairs, QueryShowsWhatTransitionsSet) {
  unit.qp_.type = QpType::kRc;
  unit.qp_.pd = 5;
  unit.qp_.send_cqn = 6;
  unit.qp_.receive_cqn = 7;
  hw::QpAttributes& a = unit.qp_.attributes;
  a.state = hw::QpState::kRts;
  a.path_mtu = 4096;
  a.dest_qpn = 0x99;
  a.max_rd_atomic = 16;
  a.max_dest_rd_atomic = 3;
  a.retry_count = 7;
  a.rnr_retry = 2;
  a.timeout = 14;
  a.port = 1;
  a.access = engine::kRemoteAtomic;
  a.path.sgid_index = 2;
  a.path.is_global = true;
  a.path.dgid.bytes[0] = 0xfe;
  input<QueryQp>();
  ASSERT_EQ(run(272), Status::kOk) << "the length that released programs give";
  const auto context = View<QueryQpOut>(out)[QueryQpOut::qpc];
  EXPECT_EQ(out[24] >> 4, 3) << "state";
  EXPECT_EQ(context[Qpc::cqn_rcv], 7u);
  EXPECT_EQ(context[Qpc::log_rra_max], 2u) << "room for 3";
  const Expected<Transition> again =
      decode_transition(Rst2initQp::kOpcode, QpType::kRc, context, 0, hw::QpAttributes{}, false);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->attributes.path_mtu, 4096u);
  EXPECT_EQ(again->attributes.max_rd_atomic, 16);
  EXPECT_EQ(again->attributes.timeout, 14);
  EXPECT_EQ(again->attributes.access, uint32_t{engine::kRemoteAtomic});
  EXPECT_EQ(again->attributes.path.dgid, a.path.dgid);
  EXPECT_EQ(again->attributes.path.sgid_index, 2);
}

TEST(QpPaths, OfASubnetHaveALidAndPerhapsAHeader) {
  hw::QpAttributes a;
  a.state = hw::QpState::kInit;
  a.path.dlid = 0x123;
  a.path.service_level = 9;
  std::vector<uint8_t> box(Qpc::kBits / 8);
  const auto decoded = [&] {
    return decode_transition(Init2rtrQp::kOpcode, QpType::kUc, View<Qpc>(box), kOptPrimaryPath, a, true);
  };
  encode_attributes(QpType::kUc, a, true, Writer<Qpc>(box));
  Writer<Qpc>(box).set(Qpc::mtu, 3);
  ASSERT_TRUE(decoded()) << decoded().error().reason;
  EXPECT_EQ(decoded()->attributes.path.dlid, 0x123);
  EXPECT_EQ(decoded()->attributes.path.service_level, 9);
  EXPECT_FALSE(decoded()->attributes.path.is_global);
  a.path.is_global = true;
  encode_attributes(QpType::kUc, a, true, Writer<Qpc>(box));
  EXPECT_TRUE(decoded()->attributes.path.is_global);
}

}  // namespace
}  // namespace verbatim::prm
