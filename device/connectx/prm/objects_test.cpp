// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi/prm/counters.h"
#include "abi/prm/domains.h"
#include "abi/prm/memory.h"
#include "abi/prm/receive_steering.h"
#include "device/connectx/prm/fake_unit_test.h"
#include "device/connectx/prm/object_limits.h"

namespace verbatim::prm {
namespace {

/// The mailboxes of one command.
template <class Spec>
struct Mail {
  using In = typename Spec::In;
  using Out = typename Spec::Out;
  std::vector<uint8_t> sent = input_of(Spec::kOpcode, Spec::kMod, In::kBits / 8);
  std::vector<uint8_t> got = std::vector<uint8_t>(Out::kBits / 8);
  Writer<In> in() { return Writer<In>(sent); }
  View<Out> out() const { return View<Out>(got); }
};

struct Objects : ::testing::Test {
  FakeUnit unit;
  std::string reason;  ///< of the last refusal
  uint16_t uid = 3;

  template <class Spec>
  Status run(Mail<Spec>& mail) {
    Writer<MboxIn>(mail.sent).set(MboxIn::uid, uid);
    const Reply reply = command_table().execute(unit, mail.sent, mail.got);
    reason = reply.result.reason;
    return reply.result.status;
  }
  template <class Spec, unsigned kWidth>
  Status about(Field<typename Spec::In, kWidth> field, uint32_t number) {
    Mail<Spec> mail;
    mail.in().set(field, number);
    return run(mail);
  }
  uint32_t domain() {
    Mail<AllocTransportDomain> mail;
    EXPECT_EQ(run(mail), Status::kOk);
    return mail.out()[AllocTransportDomainOut::transport_domain];
  }
  uint32_t pd() { return *unit.alloc_pd(uid); }

  Mail<CreateRq> rq_mail() {
    Mail<CreateRq> mail;
    const auto context = mail.in()[CreateRqIn::ctx];
    context.set(Rqc::cqn, FakeUnit::kCqn);
    context.set(Rqc::user_index, 0x1234);
    fill(context[Rqc::wq], 4);
    return mail;
  }
  void fill(Writer<Wq> wq, uint32_t log_stride) {
    wq.set(Wq::wq_type, WqType::kCyclic);
    wq.set(Wq::pd, pd());
    wq.set(Wq::log_wq_sz, 6);
    wq.set(Wq::log_wq_stride, log_stride);
    wq.set(Wq::wq_umem_valid, true);
    wq.set(Wq::dbr_umem_valid, true);
    wq.set(Wq::wq_umem_id, FakeUnit::kUmem);
    wq.set(Wq::dbr_umem_id, FakeUnit::kUmem);
    wq.set(Wq::wq_umem_offset, 0x1000);
    wq.set(Wq::dbr_addr, 0x40);
  }
  uint32_t rq() {
    auto mail = rq_mail();
    EXPECT_EQ(run(mail), Status::kOk) << reason;
    return mail.out()[CreateRqOut::rqn];
  }
  Status step(uint32_t rqn, RqState from, RqState to) {
    Mail<ModifyRq> mail;
    mail.in().set(ModifyRqIn::rqn, rqn);
    mail.in().set(ModifyRqIn::rq_state, from);
    mail.in()[ModifyRqIn::ctx].set(Rqc::state, to);
    return run(mail);
  }
  Mail<CreateRqt> table_mail(const std::vector<uint32_t>& queues, uint32_t most) {
    Mail<CreateRqt> mail;
    mail.sent.resize(CreateRqtIn::kBits / 8 + 4 * queues.size());
    const auto context = mail.in()[CreateRqtIn::rqt_context];
    context.set(Rqtc::rqt_max_size, most);
    context.set(Rqtc::rqt_actual_size, queues.size());
    for (size_t i = 0; i < queues.size(); i++) context.at(Rqtc::rq_num, i).set(RqNum::rq_num, queues[i]);
    return mail;
  }
};

TEST_F(Objects, ADomainStaysWhileSomethingRefersToIt) {
  const uint32_t number = domain();
  Mail<CreateTis> tis;
  tis.in()[CreateTisIn::ctx].set(Tisc::transport_domain, number);
  tis.in()[CreateTisIn::ctx].set(Tisc::prio, 5);
  ASSERT_EQ(run(tis), Status::kOk);
  const uint32_t tisn = tis.out()[CreateTisOut::tisn];
  EXPECT_EQ(about<DeallocTransportDomain>(DeallocTransportDomainIn::transport_domain, number),
            Status::kBadResStateErr);
  EXPECT_EQ(reason, "DEALLOC_TRANSPORT_DOMAIN: others refer to the transport domain");
  Mail<QueryTis> query;
  query.in().set(QueryTisIn::tisn, tisn);
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QueryTisOut::tis_context][Tisc::prio], 5u);
  EXPECT_EQ(about<DestroyTis>(DestroyTisIn::tisn, tisn), Status::kOk);
  EXPECT_EQ(about<DeallocTransportDomain>(DeallocTransportDomainIn::transport_domain, number), Status::kOk);
  EXPECT_EQ(run(query), Status::kBadResErr);
  EXPECT_EQ(run(tis), Status::kBadResErr) << "the domain is gone";
}

TEST_F(Objects, BelongToTheirUserContext) {
  const uint32_t number = domain();
  uid = 4;
  EXPECT_EQ(about<DeallocTransportDomain>(DeallocTransportDomainIn::transport_domain, number),
            Status::kBadResErr);
  Mail<CreateTis> tis;
  tis.in()[CreateTisIn::ctx].set(Tisc::transport_domain, number);
  EXPECT_EQ(run(tis), Status::kBadResErr);
  uid = 0;
  const uint32_t shared = domain();
  uid = 4;
  tis.in()[CreateTisIn::ctx].set(Tisc::transport_domain, shared);
  EXPECT_EQ(run(tis), Status::kOk) << "what the host side made is for all";
  EXPECT_EQ(about<DeallocTransportDomain>(DeallocTransportDomainIn::transport_domain, shared),
            Status::kBadResErr)
      << "and only the host side destroys it";
}

TEST_F(Objects, ATisIsModifiedWhereTheMaskSays) {
  Mail<CreateTis> tis;
  tis.in()[CreateTisIn::ctx].set(Tisc::transport_domain, domain());
  ASSERT_EQ(run(tis), Status::kOk);
  Mail<ModifyTis> modify;
  modify.in().set(ModifyTisIn::tisn, tis.out()[CreateTisOut::tisn]);
  modify.in()[ModifyTisIn::bitmask].set(ModifyTisBitmask::prio, true);
  modify.in()[ModifyTisIn::ctx].set(Tisc::prio, 9);
  modify.in()[ModifyTisIn::ctx].set(Tisc::lag_tx_port_affinity, 1);
  ASSERT_EQ(run(modify), Status::kOk);
  Mail<QueryTis> query;
  query.in().set(QueryTisIn::tisn, tis.out()[CreateTisOut::tisn]);
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QueryTisOut::tis_context][Tisc::prio], 9u);
  EXPECT_EQ(query.out()[QueryTisOut::tis_context][Tisc::lag_tx_port_affinity], 0u);
}

TEST_F(Objects, AReceiveQueueLiesInUmemsAndGoesItsWay) {
  const uint32_t number = rq();
  EXPECT_EQ(unit.queue_.offset, 0x1000u);
  EXPECT_EQ(unit.queue_.bytes, 64u * 16);
  EXPECT_EQ(unit.queue_.doorbell_offset, 0x40u);
  EXPECT_EQ(unit.queue_.user_index, 0x1234u);
  EXPECT_EQ((unit.held_[{ObjectKind::kUmem, FakeUnit::kUmem}]), 2);
  EXPECT_EQ((unit.held_[{ObjectKind::kCq, FakeUnit::kCqn}]), 1);
  EXPECT_EQ(step(number, RqState::kRst, RqState::kErr), Status::kBadResStateErr);
  EXPECT_EQ(step(number, RqState::kRdy, RqState::kErr), Status::kBadResStateErr) << "it is not in RDY";
  EXPECT_EQ(step(number, RqState::kRst, RqState::kRdy), Status::kOk);
  EXPECT_EQ(step(number, RqState::kRdy, RqState::kErr), Status::kOk);
  EXPECT_EQ(step(number, RqState::kErr, RqState::kRdy), Status::kBadResStateErr);
  EXPECT_EQ(step(number, RqState::kErr, RqState::kRst), Status::kOk);
  EXPECT_EQ(unit.states_, (std::vector<RqState>{RqState::kRdy, RqState::kErr, RqState::kRst}));
  Mail<QueryRq> query;
  query.in().set(QueryRqIn::rqn, number);
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QueryRqOut::rq_context][Rqc::wq][Wq::log_wq_sz], 6u);
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, number), Status::kOk);
  EXPECT_EQ((unit.held_[{ObjectKind::kUmem, FakeUnit::kUmem}]), 0);
  EXPECT_EQ((unit.held_[{ObjectKind::kCq, FakeUnit::kCqn}]), 0);
}

TEST_F(Objects, AReceiveQueueThatCannotBeIsRefused) {
  const auto refused = [this](auto change) {
    auto mail = rq_mail();
    change(mail.in()[CreateRqIn::ctx]);
    return run(mail);
  };
  EXPECT_EQ(refused([](Writer<Rqc> c) { c.set(Rqc::state, RqState::kRdy); }), Status::kBadParamErr);
  EXPECT_EQ(refused([](Writer<Rqc> c) { c.set(Rqc::hairpin, true); }), Status::kBadParamErr);
  EXPECT_EQ(refused([](Writer<Rqc> c) { c.set(Rqc::mem_rq_type, 9); }), Status::kBadParamErr);
  EXPECT_EQ(refused([](Writer<Rqc> c) { c.set(Rqc::cqn, 1); }), Status::kBadResErr);
  EXPECT_EQ(refused([](Writer<Rqc> c) { c.set(Rqc::counter_set_id, 9); }), Status::kBadResErr);
  const auto wrong = [&](auto field, uint64_t value) {
    return refused([&](Writer<Rqc> c) { c[Rqc::wq].set(field, value); });
  };
  EXPECT_EQ(wrong(Wq::wq_type, 0), Status::kBadParamErr);
  EXPECT_EQ(wrong(Wq::wq_umem_valid, 0), Status::kBadParamErr);
  EXPECT_EQ(wrong(Wq::log_wq_sz, kLogWorkEntriesMax + 1), Status::kBadParamErr);
  EXPECT_EQ(wrong(Wq::log_wq_stride, 3), Status::kBadParamErr);
  EXPECT_EQ(wrong(Wq::dbr_addr, 4), Status::kBadParamErr);
  EXPECT_EQ(wrong(Wq::wq_umem_offset, UINT64_MAX), Status::kOk) << "the device looks into its umems";
  EXPECT_EQ(wrong(Wq::pd, 1), Status::kBadResErr);
  EXPECT_EQ(wrong(Wq::wq_umem_id, 1), Status::kBadResErr);
  unit.umem_bytes_ = 1023;
  EXPECT_EQ(wrong(Wq::log_wq_sz, 6), Status::kBadParamErr);
  EXPECT_EQ(reason, "CREATE_RQ: the work queue reaches beyond its umem");
  EXPECT_EQ(unit.objects().count(ObjectKind::kReceiveQueue), 1u);
  EXPECT_EQ((unit.held_[{ObjectKind::kCq, FakeUnit::kCqn}]), 1) << "what is refused holds nothing";
}

TEST_F(Objects, AStridingReceiveQueueHasStridesWithinLimits) {
  auto mail = rq_mail();
  const auto wq = mail.in()[CreateRqIn::ctx][Rqc::wq];
  wq.set(Wq::wq_type, WqType::kCyclicStridingRq);
  wq.set(Wq::log_wq_stride, kLogStridedEntryMin);
  for (uint32_t code = 0; code < 16; code++) {
    wq.set(Wq::log_wqe_num_of_strides, code);
    // 2^9 to 2^16, two that nothing has, then 2^3 to 2^8.
    EXPECT_EQ(run(mail), code == 8 || code == 9 ? Status::kBadParamErr : Status::kOk) << code << reason;
  }
  wq.set(Wq::log_wqe_num_of_strides, 0);
  wq.set(Wq::log_wq_stride, kLogStridedEntryMin - 1);
  EXPECT_EQ(run(mail), Status::kBadParamErr) << "no room for link and element";
}

TEST_F(Objects, AReceiveQueueCountsElsewhere) {
  Mail<AllocQCounter> set;
  ASSERT_EQ(run(set), Status::kOk);
  const uint32_t number = rq(), counter = set.out()[AllocQCounterOut::counter_set_id];
  Mail<ModifyRq> modify;
  modify.in().set(ModifyRqIn::rqn, number);
  modify.in().set(ModifyRqIn::modify_bitmask, ModifyRqField::kRqCounterSetId);
  modify.in()[ModifyRqIn::ctx].set(Rqc::counter_set_id, counter);
  ASSERT_EQ(run(modify), Status::kOk) << reason;
  EXPECT_EQ(about<DeallocQCounter>(DeallocQCounterIn::counter_set_id, counter), Status::kBadResStateErr);
  modify.in()[ModifyRqIn::ctx].set(Rqc::counter_set_id, 0);
  ASSERT_EQ(run(modify), Status::kOk);
  EXPECT_EQ(about<DeallocQCounter>(DeallocQCounterIn::counter_set_id, counter), Status::kOk);
}

TEST_F(Objects, ASendQueueHasATisAndAUar) {
  Mail<CreateTis> tis;
  tis.in()[CreateTisIn::ctx].set(Tisc::transport_domain, domain());
  ASSERT_EQ(run(tis), Status::kOk);
  Mail<CreateSq> sq;
  const auto context = sq.in()[CreateSqIn::ctx];
  fill(context[Sqc::wq], kLogSendBlock);
  context.set(Sqc::cqn, FakeUnit::kCqn);
  context.set(Sqc::tis_lst_sz, 1);
  context.set(Sqc::tis_num_0, tis.out()[CreateTisOut::tisn]);
  EXPECT_EQ(run(sq), Status::kBadResErr) << "no UAR";
  const uint32_t uar = *unit.alloc_uar(uid);
  context[Sqc::wq].set(Wq::uar_page, uar);
  ASSERT_EQ(run(sq), Status::kOk) << reason;
  EXPECT_EQ((unit.held_[{ObjectKind::kUar, uar}]), 1);
  EXPECT_EQ(about<DestroyTis>(DestroyTisIn::tisn, tis.out()[CreateTisOut::tisn]), Status::kBadResStateErr);
  Mail<ModifySq> modify;
  modify.in().set(ModifySqIn::sqn, sq.out()[CreateSqOut::sqn]);
  modify.in()[ModifySqIn::ctx].set(Sqc::state, SqState::kRdy);
  EXPECT_EQ(run(modify), Status::kOk);
  Mail<QuerySq> query;
  query.in().set(QuerySqIn::sqn, sq.out()[CreateSqOut::sqn]);
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QuerySqOut::sq_context].as<SqState>(Sqc::state), SqState::kRdy);
  modify.in().set(ModifySqIn::sq_state, SqState::kRdy);
  modify.in().set(ModifySqIn::modify_bitmask, 1);
  modify.in()[ModifySqIn::ctx].set(Sqc::packet_pacing_rate_limit_index, FakeUnit::kRate);
  EXPECT_EQ(run(modify), Status::kOk) << reason;
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QuerySqOut::sq_context][Sqc::packet_pacing_rate_limit_index], FakeUnit::kRate);
  modify.in()[ModifySqIn::ctx].set(Sqc::packet_pacing_rate_limit_index, FakeUnit::kRate + 1);
  EXPECT_EQ(run(modify), Status::kBadParamErr) << "the table has no such rate";
  EXPECT_EQ(about<DestroySq>(DestroySqIn::sqn, sq.out()[CreateSqOut::sqn]), Status::kOk);
  context.set(Sqc::packet_pacing_rate_limit_index, FakeUnit::kRate);
  EXPECT_EQ(run(sq), Status::kOk) << reason;
  context.set(Sqc::packet_pacing_rate_limit_index, FakeUnit::kRate + 1);
  EXPECT_EQ(run(sq), Status::kBadParamErr);
}

TEST_F(Objects, ATableNamesReceiveQueuesAndChanges) {
  const uint32_t one = rq(), two = rq();
  auto mail = table_mail({one, two, one, one}, 8);
  ASSERT_EQ(run(mail), Status::kOk) << reason;
  const uint32_t table = mail.out()[CreateRqtOut::rqtn];
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, two), Status::kBadResStateErr);
  Mail<QueryRqt> query;
  query.got.resize(query.got.size() + 16);
  query.in().set(QueryRqtIn::rqtn, table);
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QueryRqtOut::rqt_context].at(Rqtc::rq_num, 1)[RqNum::rq_num], two);
  EXPECT_EQ(query.out()[QueryRqtOut::rqt_context].at(Rqtc::rq_num, 3)[RqNum::rq_num], one);

  Mail<ModifyRqt> modify;
  modify.sent.resize(modify.sent.size() + 4);
  modify.in().set(ModifyRqtIn::rqtn, table);
  modify.in()[ModifyRqtIn::bitmask].set(RqtBitmask::rqn_list, true);
  modify.in()[ModifyRqtIn::ctx].set(Rqtc::rqt_actual_size, 1);
  modify.in()[ModifyRqtIn::ctx].at(Rqtc::rq_num, 0).set(RqNum::rq_num, one);
  ASSERT_EQ(run(modify), Status::kOk) << reason;
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, two), Status::kOk);
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, one), Status::kBadResStateErr);
  modify.in()[ModifyRqtIn::ctx].at(Rqtc::rq_num, 0).set(RqNum::rq_num, two);
  EXPECT_EQ(run(modify), Status::kBadResErr);
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, one), Status::kBadResStateErr) << "nothing has changed";
  EXPECT_EQ(about<DestroyRqt>(DestroyRqtIn::rqtn, table), Status::kOk);
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, one), Status::kOk);
}

TEST_F(Objects, ATableThatCannotBeIsRefused) {
  const uint32_t one = rq();
  const auto refused = [this](Mail<CreateRqt> mail) { return run(mail); };
  EXPECT_EQ(refused(table_mail({}, 8)), Status::kBadParamErr);
  EXPECT_EQ(refused(table_mail({one, one}, 1)), Status::kBadParamErr);
  EXPECT_EQ(refused(table_mail({one}, (1u << kLogReceiveTableEntriesMax) + 1)), Status::kBadParamErr);
  EXPECT_EQ(refused(table_mail({one, one + 1}, 8)), Status::kBadResErr);
  auto shortened = table_mail({one, one}, 8);
  shortened.sent.pop_back();
  EXPECT_EQ(run(shortened), Status::kBadInpLenErr);
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, one), Status::kOk) << "what was refused holds nothing";
}

TEST_F(Objects, ATirLeadsToAQueueOrATable) {
  const uint32_t queue = rq(), transport = domain();
  Mail<CreateTir> mail;
  const auto context = mail.in()[CreateTirIn::ctx];
  context.set(Tirc::disp_type, TirDispatch::kDirect);
  context.set(Tirc::inline_rqn, queue);
  context.set(Tirc::transport_domain, transport);
  ASSERT_EQ(run(mail), Status::kOk) << reason;
  const uint32_t direct = mail.out()[CreateTirOut::tirn];
  EXPECT_EQ(about<DestroyRq>(DestroyRqIn::rqn, queue), Status::kBadResStateErr);
  EXPECT_EQ(about<DestroyTir>(DestroyTirIn::tirn, direct), Status::kOk);
  context.set(Tirc::disp_type, TirDispatch::kIndirect);
  EXPECT_EQ(run(mail), Status::kBadResErr) << "there is no table 0";
  auto table = table_mail({queue}, 1);
  ASSERT_EQ(run(table), Status::kOk);
  context.set(Tirc::indirect_table, table.out()[CreateRqtOut::rqtn]);
  context.set(Tirc::rx_hash_fn, RxHash::kToeplitz);
  ASSERT_EQ(run(mail), Status::kOk) << reason;
  Mail<ModifyTir> modify;
  modify.in().set(ModifyTirIn::tirn, mail.out()[CreateTirOut::tirn]);
  modify.in()[ModifyTirIn::bitmask].set(ModifyTirBitmask::hash, true);
  modify.in()[ModifyTirIn::ctx].set(Tirc::rx_hash_fn, RxHash::kInvertedXor8);
  modify.in()[ModifyTirIn::ctx].set(Tirc::rx_hash_toeplitz_key, 9, 0xabcd);
  ASSERT_EQ(run(modify), Status::kOk);
  Mail<QueryTir> query;
  query.in().set(QueryTirIn::tirn, mail.out()[CreateTirOut::tirn]);
  ASSERT_EQ(run(query), Status::kOk);
  const auto shown = query.out()[QueryTirOut::tir_context];
  EXPECT_EQ(shown.as<RxHash>(Tirc::rx_hash_fn), RxHash::kInvertedXor8);
  EXPECT_EQ(shown.at(Tirc::rx_hash_toeplitz_key, 9), 0xabcdu);
  EXPECT_EQ(shown[Tirc::transport_domain], transport);
  context.set(Tirc::rx_hash_fn, 7);
  EXPECT_EQ(run(mail), Status::kBadParamErr);
}

TEST_F(Objects, CounterSetsRunOut) {
  Mail<AllocQCounter> mail;
  for (int i = 0; i < 255; i++) ASSERT_EQ(run(mail), Status::kOk) << i;
  EXPECT_EQ(run(mail), Status::kLimErr);
  EXPECT_EQ(about<DeallocQCounter>(DeallocQCounterIn::counter_set_id, 77), Status::kOk);
  ASSERT_EQ(run(mail), Status::kOk);
  EXPECT_EQ(mail.out()[AllocQCounterOut::counter_set_id], 77u);
}

TEST_F(Objects, CountersShowWhatTheDeviceCounts) {
  unit.counts_ = {3, 4};
  unit.port_counts_ = {1, 2, 3, 1ull << 40};
  Mail<QueryQCounter> query;
  ASSERT_EQ(run(query), Status::kOk);
  EXPECT_EQ(query.out()[QueryQCounterOut::rnr_nak_retry_err], 3u);
  EXPECT_EQ(query.out()[QueryQCounterOut::local_ack_timeout_err], 4u);
  query.in().set(QueryQCounterIn::counter_set_id, 9);
  EXPECT_EQ(run(query), Status::kBadResErr);
  Mail<QueryVportCounter> port;
  ASSERT_EQ(run(port), Status::kOk);
  EXPECT_EQ(port.out()[QueryVportCounterOut::received_ib_unicast][TrafficCounter::octets], 1ull << 40);
  EXPECT_EQ(port.out()[QueryVportCounterOut::transmitted_ib_unicast][TrafficCounter::packets], 1u);
  port.in().set(QueryVportCounterIn::other_vport, true);
  EXPECT_EQ(run(port), Status::kBadParamErr);
}

TEST_F(Objects, AUserContextGoesWhenItHasNothingLeft) {
  Mail<CreateUctx> mail;
  ASSERT_EQ(run(mail), Status::kOk);
  const uint32_t made = mail.out()[CreateUctxOut::uid];
  EXPECT_GT(made, hw::Hca::kUserContext);
  uid = static_cast<uint16_t>(made);
  const uint32_t number = domain();
  EXPECT_EQ(about<DestroyUctx>(DestroyUctxIn::uid, made), Status::kBadResStateErr);
  EXPECT_EQ(about<DeallocTransportDomain>(DeallocTransportDomainIn::transport_domain, number), Status::kOk);
  EXPECT_EQ(about<DestroyUctx>(DestroyUctxIn::uid, made), Status::kOk);
  EXPECT_EQ(about<DestroyUctx>(DestroyUctxIn::uid, made), Status::kBadResErr);
}

TEST_F(Objects, AUmemIsOfPagesThatFollowEachOther) {
  Mail<CreateUmem> mail;
  mail.sent.resize(mail.sent.size() + 24);
  const auto umem = mail.in()[CreateUmemIn::umem];
  umem.set(Umem::num_of_mtt, 3);
  umem.set(Umem::page_offset, 0x100);
  const auto page = [&](size_t i, uint64_t address) {
    const auto entry = umem.at(Umem::mtt, i);
    entry.set(Mtt::ptag_63_32, address >> 32);
    entry.set(Mtt::ptag_31_8, (address & 0xffffffff) >> 8);
    entry.set(Mtt::wr_en, true);
  };
  for (size_t i = 0; i < 3; i++) page(i, 0x7fff00000000 + i * 4096);
  ASSERT_EQ(run(mail), Status::kOk) << reason;
  EXPECT_EQ(unit.umem_.address, 0x7fff00000100u);
  EXPECT_EQ(unit.umem_.length, 3u * 4096 - 0x100);
  EXPECT_EQ(about<DestroyUmem>(DestroyUmemIn::umem_id, mail.out()[CreateUmemOut::umem_id]), Status::kOk);
  page(2, 0x7fff00003000);
  EXPECT_EQ(run(mail), Status::kBadParamErr);
  umem.set(Umem::num_of_mtt, 4);
  EXPECT_EQ(run(mail), Status::kBadInpLenErr);
  umem.set(Umem::num_of_mtt, 0);
  EXPECT_EQ(run(mail), Status::kBadInpLenErr);
}

}  // namespace
}  // namespace verbatim::prm
