// SPDX-License-Identifier: MIT
// Exchanges between two hosts, with what the wire may do to them.
#include "agent/cm/test_world.h"

namespace verbatim::agent::cm {
namespace {

using Names = std::vector<std::string>;

class ExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override { listener_ = server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000)); }
  /// Client asks, server has the request.
  void ask_for_it() {
    id_ = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
    ASSERT_EQ(0, client_.connect(id_, "please"));
    world_.settle();
  }
  void take_request() {
    const Event request = next(server_);
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
    EXPECT_EQ(listener_, request.listener);
    child_ = request.id;
  }
  void connect() {
    ask_for_it();
    take_request();
    ASSERT_EQ(0, server_.accept(child_, "yes"));
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, next(client_).type);
    ASSERT_EQ(0, client_.run(id_, Do::kEstablish));
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, next(server_).type);
    EXPECT_EQ(kNoEvent, client_.type());
    world_.sent.clear();
  }
  /// The next event, however long it takes.
  Event next(Program& program) {
    for (int second = 0; second < 200; second++) {
      world_.settle();
      const Event event = program.event();
      if (event.type != kNoEvent) return event;
      world_.pass(kSecond);
    }
    return Event{kNoEvent, 0, 0, 0, 0, 0, {}, {}, {}};
  }
  void lose(const std::string& name, int times) {
    world_.passes = [name, times](const std::string& sent, int before) {
      return sent != name || before >= times;
    };
  }
  World world_;
  Program client_{world_, world_.a}, server_{world_, world_.b};
  uint32_t listener_ = 0, id_ = 0, child_ = 0;
};

TEST_F(ExchangeTest, ConnectAndDisconnect) {
  ask_for_it();
  const Event request = server_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
  EXPECT_EQ("please", Program::data_of(request));
  EXPECT_EQ(56, request.parameters.private_data_bytes);
  EXPECT_EQ(0x100u, request.parameters.qp_num);
  EXPECT_EQ(3, request.parameters.responder_resources) << "what the peer begins is served here";
  EXPECT_EQ(4, request.parameters.initiator_depth);
  EXPECT_EQ(6, request.parameters.retry_count);
  EXPECT_EQ(5, request.parameters.rnr_retry_count);
  EXPECT_EQ(0x1000u, request.context) << "the listener's";
  EXPECT_EQ(ip("10.0.0.2", 7000), server_.last_view.source);
  EXPECT_TRUE(ip("10.0.0.1").same_host(server_.last_view.destination));
  child_ = request.id;
  ASSERT_EQ(0, server_.accept(child_, "yes"));
  world_.settle();
  const Event response = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, response.type);
  EXPECT_EQ("yes", Program::data_of(response));
  EXPECT_EQ(196, response.parameters.private_data_bytes);
  EXPECT_EQ(0x200u, response.parameters.qp_num);
  ASSERT_EQ(0, client_.run(id_, Do::kEstablish));
  world_.settle();
  const Event established = server_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, established.type);
  EXPECT_EQ(0x2000u + child_, established.context) << "the one it was accepted with";
  EXPECT_EQ((Names{"REQ", "REP", "RTU"}), world_.sent);

  ASSERT_EQ(0, client_.run(id_, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, server_.type());
  EXPECT_EQ(kNoEvent, client_.type());
  ASSERT_EQ(0, server_.run(child_, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client_.type());
  EXPECT_EQ((Names{"REQ", "REP", "RTU", "DREQ", "DREP"}), world_.sent);
  world_.pass(10 * kSecond);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, client_.type());
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, server_.type());
  EXPECT_EQ(kNever, world_.a.manager->deadline_ns());
  EXPECT_EQ(kNever, world_.b.manager->deadline_ns());
}

TEST_F(ExchangeTest, AttributesFollowTheMessages) {
  ask_for_it();
  take_request();
  const auto attributes = [](Program& program, uint32_t id, uint32_t state) {
    Request request = program.on(id, Do::kQpAttributes);
    request.qp_state = state;
    return program.ask(request);
  };
  EXPECT_EQ(EINVAL, attributes(client_, id_, IBV_QPS_RTR).error) << "no reply yet";
  const Answer init = attributes(client_, id_, IBV_QPS_INIT);
  EXPECT_EQ(0, init.error);
  EXPECT_EQ(uint32_t{IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS}, init.qp.mask);
  ASSERT_EQ(0, server_.accept(child_));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
  const QpAttributes active = attributes(client_, id_, IBV_QPS_RTR).qp;
  const QpAttributes passive = attributes(server_, child_, IBV_QPS_RTR).qp;
  EXPECT_EQ(0x200u, active.dest_qp_num);
  EXPECT_EQ(0x100u, passive.dest_qp_num);
  EXPECT_EQ(IBV_MTU_1024, active.path_mtu);
  EXPECT_EQ(IBV_MTU_1024, passive.path_mtu);
  EXPECT_EQ(ip("10.0.0.2").address, active.path.destination);
  EXPECT_EQ(ip("10.0.0.1").address, passive.path.destination);
  EXPECT_EQ(3, active.max_dest_rd_atomic) << "what the peer may begin";
  EXPECT_EQ(4, passive.max_dest_rd_atomic);
  const QpAttributes sends = attributes(client_, id_, IBV_QPS_RTS).qp;
  const QpAttributes replies = attributes(server_, child_, IBV_QPS_RTS).qp;
  EXPECT_EQ(sends.sq_psn, passive.rq_psn);
  EXPECT_EQ(replies.sq_psn, active.rq_psn);
  EXPECT_EQ(6, replies.retry_count);
  EXPECT_EQ(5, replies.rnr_retry);
  EXPECT_EQ(19, sends.timeout);
  EXPECT_EQ(4, sends.max_rd_atomic);
  EXPECT_EQ(3, replies.max_rd_atomic);
}

TEST_F(ExchangeTest, LostMessagesComeAgain) {
  world_.passes = [](const std::string& name, int before) {
    return before >= 3 || (name != "REQ" && name != "REP");
  };
  connect();
  lose("DREQ", 3);
  ASSERT_EQ(0, client_.run(id_, Do::kDisconnect));
  world_.pass(30 * kSecond);
  EXPECT_LE(4, world_.count("DREQ"));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, server_.type());
  ASSERT_EQ(0, server_.run(child_, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client_.type());
}

TEST_F(ExchangeTest, ALostRtuIsSaidAgain) {
  lose("RTU", 2);
  connect();
}

TEST_F(ExchangeTest, DataMayStandForALostRtu) {
  lose("RTU", 100);
  ask_for_it();
  take_request();
  Request notify = server_.on(child_, Do::kNotify);
  notify.value = IBV_EVENT_COMM_EST;
  EXPECT_EQ(EINVAL, server_.error_of(notify));
  ASSERT_EQ(0, server_.accept(child_));
  EXPECT_EQ(0, server_.error_of(notify));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, server_.type());
  EXPECT_EQ(EISCONN, server_.error_of(notify));
  notify.value = IBV_EVENT_SQ_DRAINED;
  EXPECT_EQ(EINVAL, server_.error_of(notify));
}

TEST_F(ExchangeTest, ALostDrepIsSaidAgain) {
  connect();
  lose("DREP", 1);
  ASSERT_EQ(0, client_.run(id_, Do::kDisconnect));
  world_.settle();
  ASSERT_EQ(0, server_.run(child_, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(kNoEvent, client_.type());
  world_.pass(7 * kSecond);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client_.type()) << "though the server has forgotten";
}

TEST_F(ExchangeTest, BothEndsMayAskForTheEnd) {
  connect();
  ASSERT_EQ(0, client_.run(id_, Do::kDisconnect));
  ASSERT_EQ(0, server_.run(child_, Do::kDisconnect));
  world_.settle();
  for (Program* program : {&client_, &server_}) {
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, program->type());
    EXPECT_EQ(kNoEvent, program->type());
  }
  world_.pass(10 * kSecond);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, client_.type());
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, server_.type());
  EXPECT_EQ(2, world_.count("DREQ"));
}

TEST_F(ExchangeTest, NobodyThere) {
  lose("REQ", 100);
  ask_for_it();
  world_.pass(90 * kSecond);
  EXPECT_EQ(kNoEvent, client_.type());
  world_.pass(10 * kSecond);
  const Event gone = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_UNREACHABLE}, gone.type);
  EXPECT_EQ(-ETIMEDOUT, gone.status);
  EXPECT_EQ(16, world_.count("REQ"));
  EXPECT_EQ(EINVAL, client_.connect(id_)) << "an id tries once";
}

TEST_F(ExchangeTest, APeerThatVanishesIsNoticed) {
  connect();
  lose("DREQ", 100);
  ASSERT_EQ(0, client_.run(id_, Do::kDisconnect));
  world_.pass(100 * kSecond);
  const Event gone = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, gone.type);
  EXPECT_EQ(-ETIMEDOUT, gone.status);
  EXPECT_EQ(16, world_.count("DREQ"));
}

TEST_F(ExchangeTest, PatienceIsAskedForWhenTheRequestComesAgain) {
  ask_for_it();
  take_request();
  world_.pass(8 * kSecond);
  EXPECT_EQ((Names{"REQ", "REQ", "MRA"}), world_.sent);
  world_.pass(60 * kSecond);
  EXPECT_EQ(2, world_.count("REQ"));
  ASSERT_EQ(0, server_.accept(child_));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
  EXPECT_EQ(kNoEvent, server_.type()) << "one request only";
  world_.pass(60 * kSecond);
  EXPECT_GE(world_.count("MRA"), 2) << "the client is slow now";
  ASSERT_EQ(0, client_.run(id_, Do::kEstablish));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, server_.type());
}

TEST_F(ExchangeTest, Rejections) {
  ask_for_it();
  take_request();
  ASSERT_EQ(0, server_.reject(child_, "no"));
  world_.settle();
  const Event no = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, no.type);
  EXPECT_EQ(28, no.status);
  EXPECT_EQ("no", Program::data_of(no));
  EXPECT_EQ(148, no.parameters.private_data_bytes);
  EXPECT_EQ(EINVAL, server_.accept(child_));

  const uint32_t other = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7001));
  ASSERT_EQ(0, client_.connect(other));
  world_.pass(kSecond);
  const Event nobody = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, nobody.type);
  EXPECT_EQ(8, nobody.status) << "invalid service id";
}

TEST_F(ExchangeTest, AListenerMayBeALittleLate) {
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7002));
  ASSERT_EQ(0, client_.connect(id, "early"));
  world_.pass(kSecond / 20);
  EXPECT_EQ(kNoEvent, client_.type());
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7002));
  EXPECT_EQ("early", Program::data_of(server_.event()));
  EXPECT_EQ(1, world_.count("REQ"));
  world_.pass(kSecond);
  EXPECT_EQ(kNoEvent, client_.type());
}

TEST_F(ExchangeTest, NobodyListensToWhoHasGivenUp) {
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7002));
  ASSERT_EQ(0, client_.connect(id));
  world_.settle();
  ASSERT_EQ(0, client_.run(id, Do::kDestroyId));
  world_.settle();
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7002));
  EXPECT_EQ(kNoEvent, server_.type());
  world_.pass(kSecond);
  EXPECT_EQ((Names{"REQ", "REJ"}), world_.sent);
  EXPECT_EQ(kNever, world_.b.manager->deadline_ns());
}

TEST_F(ExchangeTest, WhoAsksMayGiveUp) {
  ask_for_it();
  take_request();
  ASSERT_EQ(0, client_.run(id_, Do::kDestroyId));
  world_.settle();
  EXPECT_EQ("REJ", world_.sent.back());
  EXPECT_EQ(kNoEvent, server_.type()) << "it has not accepted, so it is not told";
  EXPECT_EQ(EINVAL, server_.accept(child_));
}

TEST_F(ExchangeTest, TheReplyMayBeRejected) {
  ask_for_it();
  take_request();
  ASSERT_EQ(0, server_.accept(child_));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
  ASSERT_EQ(0, client_.reject(id_, ""));
  world_.settle();
  const Event no = server_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, no.type);
  EXPECT_EQ(28, no.status);
}

TEST_F(ExchangeTest, AForgottenConnectionIsStale) {
  connect();
  // Another connection with the same queue pair: the client's host has lost the first one.
  world_.a.start();
  Program again(world_, world_.a);
  const uint32_t id = again.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, again.connect(id));
  world_.settle();
  const Event stale = again.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, stale.type);
  EXPECT_EQ(10, stale.status);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, server_.type()) << "the old one was ended on the way";
  world_.pass(5 * kSecond);
  const uint32_t next = again.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, again.connect(next));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, server_.type());
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, server_.type());
}

TEST_F(ExchangeTest, AQueuePairIsFreeAgainWhenItsHostHasDisconnected) {
  connect();
  ASSERT_EQ(0, server_.run(child_, Do::kDisconnect));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client_.type());
  // The client is in no hurry to answer. Meanwhile the server has another connection with the same queue
  // pair.
  Program again(world_, world_.a);
  const uint32_t id = again.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, again.connect(id, "", 0x101));
  world_.settle();
  take_request();
  ASSERT_EQ(0, server_.accept(child_));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, again.type());
}

TEST_F(ExchangeTest, StrangersChangeNothing) {
  connect();
  roce::cm::Dreq dreq;
  std::array<uint8_t, roce::kMadBytes> mad{};
  for (uint32_t guess = 0; guess < 4096; guess++) {
    dreq.local_comm_id = guess;
    dreq.remote_comm_id = guess;
    dreq.remote_qpn = 0x200;
    roce::cm::Message::of(dreq, guess).emit(mad);
    world_.b.manager->on_mad({ip("10.0.0.2").address, ip("10.0.0.9").address, mad}, world_.now_ns);
  }
  EXPECT_EQ(kNoEvent, server_.type());
  EXPECT_EQ(0, client_.run(id_, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, server_.type());
}

TEST_F(ExchangeTest, AlternatePathsAreNotSupported) {
  connect();
  roce::cm::Lap lap;
  Will will;
  ASSERT_TRUE(read_testament(server_.testaments.at(child_), will));
  lap.local_comm_id = will.connection.remote_comm_id;
  lap.remote_comm_id = will.connection.local_comm_id;
  std::array<uint8_t, roce::kMadBytes> mad{};
  roce::cm::Message::of(lap, 1).emit(mad);
  world_.b.manager->on_mad({ip("10.0.0.2").address, ip("10.0.0.1").address, mad}, world_.now_ns);
  EXPECT_EQ((Names{"APR"}), world_.sent);
}

TEST_F(ExchangeTest, DatagramsAskForAQueuePair) {
  const uint32_t listener = server_.create(RDMA_PS_UDP);
  ASSERT_EQ(0, server_.listen(listener, ip("fd00::2", 7000)));
  const uint32_t id = client_.routed(RDMA_PS_UDP, ip("fd00::2", 7000));
  lose("SIDR_REP", 1);
  ASSERT_EQ(0, client_.connect(id, "where"));
  world_.settle();
  const Event request = server_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
  EXPECT_EQ("where", Program::data_of(request));
  EXPECT_EQ(180, request.parameters.private_data_bytes);
  ASSERT_EQ(0, server_.accept(request.id, "here", 0x321));
  world_.settle();
  EXPECT_EQ(kNoEvent, client_.type());
  world_.pass(5 * kSecond);
  const Event reply = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, reply.type);
  EXPECT_EQ("here", Program::data_of(reply));
  EXPECT_EQ(0x321u, reply.parameters.qp_num);
  EXPECT_EQ(0x01234567u, reply.parameters.qkey);
  EXPECT_EQ(ip("fd00::2").address, reply.datagram.destination);
  EXPECT_EQ(kNoEvent, server_.type());
  world_.pass(30 * kSecond);
  EXPECT_EQ(kNever, world_.b.manager->deadline_ns());
}

TEST_F(ExchangeTest, DatagramRefusals) {
  const uint32_t nobody = client_.routed(RDMA_PS_UDP, ip("10.0.0.2", 7009));
  ASSERT_EQ(0, client_.connect(nobody));
  world_.pass(kSecond);
  const Event none = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_UNREACHABLE}, none.type);
  EXPECT_EQ(1, none.status) << "unsupported service";
  ASSERT_EQ(0, server_.listen(server_.create(RDMA_PS_UDP), ip("10.0.0.2", 7000)));
  const uint32_t id = client_.routed(RDMA_PS_UDP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(id));
  world_.settle();
  const Event request = server_.event();
  ASSERT_EQ(0, server_.reject(request.id, "no"));
  world_.settle();
  const Event no = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_UNREACHABLE}, no.type);
  EXPECT_EQ(2, no.status);
  EXPECT_EQ("no", Program::data_of(no));
}

TEST_F(ExchangeTest, AFullBacklogMakesThePeerAskAgain) {
  ASSERT_EQ(0, server_.listen(server_.create(RDMA_PS_TCP), ip("10.0.0.2", 7100), 1));
  const uint32_t first = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7100));
  const uint32_t second = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7100));
  ASSERT_EQ(0, client_.connect(first, "1", 0x101));
  ASSERT_EQ(0, client_.connect(second, "2", 0x102));
  world_.settle();
  EXPECT_EQ("1", Program::data_of(server_.event()));
  EXPECT_EQ(kNoEvent, server_.type());
  world_.pass(7 * kSecond);
  EXPECT_EQ("2", Program::data_of(server_.event()));
}

}  // namespace
}  // namespace verbatim::agent::cm
