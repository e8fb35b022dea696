// SPDX-License-Identifier: MIT
// Ids as programs use them: addresses, ports, options, events, groups, and another agent.
#include "agent/cm/manager.h"

#include <set>

#include "agent/cm/test_world.h"

namespace verbatim::agent::cm {
namespace {

class ManagerTest : public ::testing::Test {
 protected:
  int resolve(uint32_t id, const SocketAddress& destination, const SocketAddress& source = {}) {
    Request request = client_.on(id, Do::kResolveAddress);
    request.destination = destination;
    request.source = source;
    return client_.error_of(request);
  }
  int set(uint32_t id, Option option, uint32_t value) {
    Request request = client_.on(id, Do::kSetOption);
    request.option = option;
    request.value = value;
    return client_.error_of(request);
  }
  View view(uint32_t id) { return client_.ask(client_.on(id, Do::kQuery)).view; }
  /// Another agent takes over on machine a.
  void replace_agent() {
    world_.a.start();
    client_.start();
  }
  int restore(uint32_t id, uint64_t context = 0x1000) {
    Request request = client_.on(id, Do::kRestore);
    request.testament = client_.testaments.at(id);
    request.context = context;
    return client_.error_of(request);
  }
  World world_;
  Program client_{world_, world_.a}, server_{world_, world_.b};
};

TEST_F(ManagerTest, IdsAreOfPortSpaces) {
  Request request = client_.on(0, Do::kCreateId);
  request.port_space = 1;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  request.port_space = RDMA_PS_TCP;
  request.channel = 99;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  EXPECT_EQ(ENOENT, client_.run(77, Do::kQuery));
  EXPECT_EQ(ENOENT, client_.run(77, Do::kDestroyId));
  const uint32_t id = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(0, client_.run(id, Do::kDestroyId));
  EXPECT_EQ(ENOENT, client_.run(id, Do::kQuery));
  EXPECT_EQ(0u, world_.a.manager->id_count());
}

TEST_F(ManagerTest, BindingFindsTheDevice) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(0, view(id).port);
  EXPECT_EQ(EADDRNOTAVAIL, client_.bind(id, ip("10.9.9.9", 80)));
  SocketAddress odd = ip("10.0.0.1");
  odd.family = AF_UNIX;
  EXPECT_EQ(EAFNOSUPPORT, client_.bind(id, odd));
  EXPECT_EQ(EINVAL, client_.bind(id, ip("fe80::1", 80))) << "on which interface?";
  EXPECT_EQ(0, client_.bind(id, ip("10.0.0.1", 80)));
  EXPECT_EQ(EINVAL, client_.bind(id, ip("10.0.0.1", 80)));
  EXPECT_EQ(1, view(id).port);
  EXPECT_EQ(ip("10.0.0.1").address, view(id).source_gid);
  const uint32_t any = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(0, client_.bind(any, ip("0.0.0.0")));
  EXPECT_NE(0, view(any).source.port);
  EXPECT_EQ(0, view(any).port) << "no device yet";
  EXPECT_EQ(EADDRINUSE, client_.bind(client_.create(RDMA_PS_TCP), ip("10.0.0.1", 80)));
}

TEST_F(ManagerTest, ResolvingNeedsOrder) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(EINVAL, client_.run(id, Do::kResolveRoute));
  EXPECT_EQ(EINVAL, client_.connect(id));
  EXPECT_EQ(EINVAL, client_.accept(id));
  EXPECT_EQ(EINVAL, client_.run(id, Do::kDisconnect));
  EXPECT_EQ(EINVAL, client_.run(id, Do::kReject));
  EXPECT_EQ(EINVAL, client_.run(id, Do::kEstablish));
  EXPECT_EQ(0, resolve(id, ip("10.0.0.2", 7000)));
  const Event event = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, event.type);
  EXPECT_EQ(id, event.id);
  EXPECT_EQ(0x1000u, event.context);
  EXPECT_EQ(EINVAL, resolve(id, ip("10.0.0.2", 7000)));
  EXPECT_EQ(ip("10.0.0.1").address, view(id).source.address);
  EXPECT_NE(0, view(id).source.port);
  EXPECT_EQ(0, view(id).path_count);
  EXPECT_EQ(EINVAL, client_.connect(id));
  EXPECT_EQ(0, client_.run(id, Do::kResolveRoute));
  EXPECT_EQ(1, view(id).path_count);
  EXPECT_EQ(IBV_MTU_1024, view(id).path.mtu);
  EXPECT_EQ(EINVAL, client_.run(id, Do::kResolveRoute));
}

TEST_F(ManagerTest, AddressesThatLeadNowhere) {
  EXPECT_EQ(EINVAL, resolve(client_.create(RDMA_PS_TCP), ip("fd00::2", 1), ip("10.0.0.1")));
  EXPECT_EQ(EADDRNOTAVAIL, resolve(client_.create(RDMA_PS_TCP), ip("10.0.0.2", 1), ip("10.7.7.7")));
  const uint32_t own = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(0, resolve(own, ip("0.0.0.0", 7000)));
  EXPECT_EQ(ip("127.0.0.1", 7000), view(own).destination);
  EXPECT_EQ(ip("127.0.0.1").address, view(own).source_gid);
}

TEST_F(ManagerTest, Options) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  EXPECT_EQ(0, set(id, Option::kTypeOfService, 0x2a));
  EXPECT_EQ(0, set(id, Option::kAckTimeout, 14));
  EXPECT_EQ(EINVAL, set(id, Option::kAckTimeout, 32));
  EXPECT_EQ(EINVAL, set(client_.create(RDMA_PS_UDP), Option::kAckTimeout, 14));
  EXPECT_EQ(0, set(id, Option::kReuseAddress, 1));
  EXPECT_EQ(0, set(id, Option::kReuseAddress, 0));
  EXPECT_EQ(0, set(id, Option::kAddressFamilyOnly, 1));
  EXPECT_EQ(ENOSYS, set(id, static_cast<Option>(99), 1));
  ASSERT_EQ(0, resolve(id, ip("10.0.0.2", 7000)));
  EXPECT_EQ(EINVAL, set(id, Option::kReuseAddress, 0));
  EXPECT_EQ(EINVAL, set(id, Option::kAddressFamilyOnly, 1));
  ASSERT_EQ(0, client_.run(id, Do::kResolveRoute));
  EXPECT_EQ(0x2a, view(id).path.traffic_class);
}

TEST_F(ManagerTest, AProgramMayGiveTheRoute) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  Request request = client_.on(id, Do::kSetOption);
  request.option = Option::kPath;
  request.path.mtu = IBV_MTU_512;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  ASSERT_EQ(0, resolve(id, ip("10.0.0.2", 7000)));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, client_.type());
  request.path.mtu = 77;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  request.path.mtu = IBV_MTU_512;
  EXPECT_EQ(0, client_.error_of(request));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ROUTE_RESOLVED}, client_.type());
  EXPECT_EQ(IBV_MTU_512, view(id).path.mtu);
}

TEST_F(ManagerTest, PrivateDataHasLimits) {
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  EXPECT_EQ(EINVAL, client_.connect(id, std::string(57, 'x')));
  EXPECT_EQ(0, client_.connect(id, std::string(56, 'x')));
  world_.settle();
  const uint32_t child = server_.event().id;
  EXPECT_EQ(EINVAL, server_.accept(child, std::string(197, 'y')));
  EXPECT_EQ(EINVAL, server_.reject(child, std::string(149, 'z')));
  EXPECT_EQ(0, server_.accept(child, std::string(196, 'y')));
  const uint32_t datagram = client_.routed(RDMA_PS_UDP, ip("10.0.0.2", 7000));
  EXPECT_EQ(EINVAL, client_.connect(datagram, std::string(181, 'x')));
  EXPECT_EQ(0, client_.connect(datagram, std::string(180, 'x')));
}

TEST_F(ManagerTest, BothEndsOnOneHost) {
  Program here(world_, world_.a);
  for (const char* address : {"10.0.0.1", "::1", "127.0.0.1"}) {
    here.listening(RDMA_PS_TCP, ip(address, 7000));
    const uint32_t id = client_.routed(RDMA_PS_TCP, ip(address, 7000));
    ASSERT_EQ(0, client_.connect(id, address));
    world_.settle();
    const Event request = here.event();
    EXPECT_EQ(address, Program::data_of(request));
    ASSERT_EQ(0, here.accept(request.id));
    world_.settle();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
    ASSERT_EQ(0, client_.run(id, Do::kEstablish));
    world_.settle();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, here.type());
    ASSERT_EQ(0, client_.run(id, Do::kDestroyId));
    world_.settle();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, here.type());
    ASSERT_EQ(0, here.run(request.id, Do::kDestroyId));
    world_.settle();
  }
}

TEST_F(ManagerTest, AWildcardTakesBothFamilies) {
  server_.listening(RDMA_PS_TCP, ip("::", 7000));
  for (const char* address : {"10.0.0.2", "fd00::2"}) {
    const uint32_t id = client_.routed(RDMA_PS_TCP, ip(address, 7000));
    ASSERT_EQ(0, client_.connect(id, "", 0x100 + id));
    world_.settle();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, server_.type());
    EXPECT_EQ(ip(address, 7000), server_.last_view.source);
  }
}

TEST_F(ManagerTest, EventsGoWithTheirId) {
  const uint32_t listener = server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(id));
  world_.settle();
  const Answer gone = server_.ask(server_.on(listener, Do::kDestroyId));
  EXPECT_EQ(0u, gone.events_reported);
  EXPECT_EQ(1u, gone.events_dropped);
  EXPECT_EQ(kNoEvent, server_.type());
  EXPECT_EQ(0u, world_.b.manager->id_count());
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, client_.type());
  EXPECT_EQ(3u, client_.ask(client_.on(id, Do::kDestroyId)).events_reported);
}

TEST_F(ManagerTest, EventsMoveWithTheirId) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  ASSERT_EQ(0, resolve(id, ip("10.0.0.2", 7000)));
  Request open = client_.on(0, Do::kOpenChannel);
  open.channel = 0;
  const uint32_t other = client_.ask(open).channel;
  Request migrate = client_.on(id, Do::kMigrate);
  const uint32_t former = migrate.channel;
  migrate.channel = 99;
  EXPECT_EQ(EINVAL, client_.error_of(migrate));
  migrate.channel = other;
  const Answer moved = client_.ask(migrate);
  EXPECT_EQ(0, moved.error);
  EXPECT_EQ(former, moved.channel);
  EXPECT_EQ(1u, moved.events_dropped);
  EXPECT_EQ(kNoEvent, client_.type());
  Request get = client_.on(0, Do::kGetEvent);
  get.channel = other;
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, client_.ask(get).event.type);
  Request close = client_.on(0, Do::kCloseChannel);
  close.channel = other;
  EXPECT_EQ(0, client_.error_of(close));
  EXPECT_EQ(ENOENT, client_.run(id, Do::kQuery));
}

TEST_F(ManagerTest, RequestsGoWithAnIdThatWasMovedAwayFromThem) {
  const uint32_t listener = server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000), 1);
  const auto ask_for_connection = [&] {
    const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
    EXPECT_EQ(0, client_.connect(id));
    world_.settle();
    return listener + 1;  // the number that the request's id gets, which nobody has been told of
  };
  Request open = server_.on(0, Do::kOpenChannel);
  open.channel = 0;
  for (const Do end : {Do::kDestroyId, Do::kCloseChannel}) {
    uint32_t child = ask_for_connection();
    while (server_.run(child, Do::kQuery) != 0) ASSERT_LT(child++, listener + 8);
    Request migrate = server_.on(child, Do::kMigrate);
    migrate.channel = server_.ask(open).channel;
    ASSERT_EQ(0, server_.error_of(migrate));
    Request ends = server_.on(child, end);
    ends.channel = migrate.channel;
    EXPECT_EQ(0, server_.error_of(ends));
    EXPECT_EQ(kNoEvent, server_.type());
    world_.settle();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, client_.type());
  }
  // And the listener has room again.
  ask_for_connection();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, server_.type());
}

TEST_F(ManagerTest, ProgramsWriteEvents) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  Request write = client_.on(id, Do::kWriteEvent);
  write.value = RDMA_CM_EVENT_USER;
  write.status = -7;
  write.argument = 0x123456789a;
  ASSERT_EQ(0, client_.error_of(write));
  const Event event = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_USER}, event.type);
  EXPECT_EQ(-7, event.status);
  EXPECT_EQ(0x123456789au, event.argument);
  write.value = RDMA_CM_EVENT_ESTABLISHED;
  EXPECT_EQ(EINVAL, client_.error_of(write));
}

TEST_F(ManagerTest, Groups) {
  const uint32_t id = client_.create(RDMA_PS_UDP);
  Request join = client_.on(id, Do::kJoinMulticast);
  join.destination = ip("239.1.2.3");
  join.context = 0x55;
  EXPECT_EQ(EINVAL, client_.error_of(join)) << "not bound";
  ASSERT_EQ(0, client_.bind(id, ip("10.0.0.1")));
  const Answer joined = client_.ask(join);
  ASSERT_EQ(0, joined.error);
  const Event event = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_MULTICAST_JOIN}, event.type);
  EXPECT_EQ(joined.id, event.id);
  EXPECT_EQ(0x55u, event.context);
  EXPECT_EQ(0xffffffu, event.parameters.qp_num);
  EXPECT_EQ(0x01234567u, event.parameters.qkey);
  EXPECT_EQ(ip("239.1.2.3").address, event.datagram.destination);
  join.again = 1;
  const uint32_t second = client_.ask(join).id;
  EXPECT_EQ(kNoEvent, client_.type());
  EXPECT_NE(joined.id, second);
  EXPECT_EQ(1u, client_.ask(client_.on(joined.id, Do::kLeaveMulticast)).events_reported);
  EXPECT_EQ(ENOENT, client_.run(joined.id, Do::kLeaveMulticast));
  join.destination = ip("10.0.0.2");
  EXPECT_EQ(EINVAL, client_.error_of(join));
  const Answer gone = client_.ask(client_.on(id, Do::kDestroyId));
  EXPECT_EQ(1u, gone.events_reported);
  EXPECT_EQ(ENOENT, client_.run(second, Do::kLeaveMulticast));
}

TEST_F(ManagerTest, AProcessThatEndsTellsItsPeers) {
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t first = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t second = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(first, "", 1));
  world_.settle();
  ASSERT_EQ(0, server_.accept(server_.event().id));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
  ASSERT_EQ(0, client_.run(first, Do::kEstablish));
  ASSERT_EQ(0, client_.connect(second, "", 2));
  world_.settle();
  server_.end();
  world_.settle();
  EXPECT_EQ(0u, world_.b.manager->id_count());
  const Event one = client_.event(), other = client_.event();
  EXPECT_EQ((std::set<uint32_t>{RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED}),
            (std::set<uint32_t>{one.type, other.type}));
  const uint32_t late = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(late, "", 3));
  world_.pass(kSecond);
  EXPECT_EQ(8, client_.event().status) << "the listener went, too";
}

TEST_F(ManagerTest, AnotherAgentGoesOn) {
  const uint32_t listener = client_.listening(RDMA_PS_TCP, ip("10.0.0.1", 7000));
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(id));
  world_.settle();
  const uint32_t child = server_.event().id;
  ASSERT_EQ(0, server_.accept(child, "yes"));
  world_.settle();  // the reply has come, nobody has fetched it
  replace_agent();
  EXPECT_EQ(0, restore(listener));
  EXPECT_EQ(0, restore(id));
  EXPECT_EQ(EBUSY, restore(id));
  world_.pass(kSecond);
  const Event response = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, response.type);
  EXPECT_EQ("yes", Program::data_of(response));
  EXPECT_EQ(kNoEvent, server_.type());
  ASSERT_EQ(0, client_.run(id, Do::kEstablish));
  world_.settle();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, server_.type());

  replace_agent();  // established: neither end sees it
  ASSERT_EQ(0, restore(id));
  ASSERT_EQ(0, restore(listener));
  world_.pass(60 * kSecond);
  EXPECT_EQ(kNoEvent, client_.type());
  ASSERT_EQ(0, server_.run(child, Do::kDisconnect));
  world_.settle();
  const Event end = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, end.type);
  EXPECT_EQ(0x1000u, end.context);
  const uint32_t to_us = server_.routed(RDMA_PS_TCP, ip("10.0.0.1", 7000));
  ASSERT_EQ(0, server_.connect(to_us, "still there?", 9));
  world_.settle();
  EXPECT_EQ("still there?", Program::data_of(client_.event()));
}

TEST_F(ManagerTest, WhatComesBeforeItsOwnerIsBackWaits) {
  server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
  ASSERT_EQ(0, client_.connect(id));
  world_.settle();
  const uint32_t child = server_.event().id;
  ASSERT_EQ(0, server_.accept(child));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client_.type());
  ASSERT_EQ(0, client_.run(id, Do::kEstablish));
  world_.settle();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, server_.type());
  replace_agent();
  world_.a.manager->expect_returns(world_.now_ns);
  ASSERT_EQ(0, server_.run(child, Do::kDisconnect));
  world_.settle();
  EXPECT_EQ(kNoEvent, server_.type()) << "nobody has answered for the client";
  ASSERT_EQ(0, restore(id));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client_.type());
  // Who never comes back is answered for in the end.
  const uint32_t to_nobody = server_.routed(RDMA_PS_TCP, ip("10.0.0.1", 7009));
  ASSERT_EQ(0, server_.connect(to_nobody, "", 9));
  world_.settle();
  EXPECT_EQ(kNoEvent, server_.type());
  world_.pass(11 * kSecond);
  EXPECT_EQ(8, server_.event().status);
}

TEST_F(ManagerTest, SilentHostsAreNotFound) {
  world_.a.silent = ip("10.0.0.2").address;
  const uint32_t id = client_.create(RDMA_PS_TCP);
  Request request = client_.on(id, Do::kResolveAddress);
  request.destination = ip("10.0.0.2", 7000);
  request.timeout_ms = 2000;
  ASSERT_EQ(0, client_.error_of(request));
  EXPECT_EQ(EINVAL, client_.error_of(request)) << "it is at it";
  EXPECT_EQ(EINVAL, client_.run(id, Do::kResolveRoute));
  world_.pass(kSecond);
  EXPECT_EQ(kNoEvent, client_.type());
  world_.pass(2 * kSecond);
  const Event gone = client_.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_ERROR}, gone.type);
  EXPECT_EQ(-ETIMEDOUT, gone.status);
  EXPECT_EQ(kNever, world_.a.manager->deadline_ns());
  ASSERT_EQ(0, client_.error_of(request)) << "it may be tried again";
  world_.pass(kSecond);
  world_.a.silent.reset();
  world_.pass(kSecond / 2);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, client_.type());
  EXPECT_EQ(0, client_.run(id, Do::kResolveRoute));
}

TEST_F(ManagerTest, ASearchEndsWithItsId) {
  world_.a.silent = ip("10.0.0.2").address;
  const uint32_t id = client_.create(RDMA_PS_TCP), other = client_.create(RDMA_PS_TCP);
  Request request = client_.on(id, Do::kResolveAddress);
  request.destination = ip("10.0.0.2", 7000);
  request.timeout_ms = 2000;
  ASSERT_EQ(0, client_.error_of(request));
  request.id = other;
  ASSERT_EQ(0, client_.error_of(request));
  ASSERT_EQ(0, client_.run(id, Do::kDestroyId));
  replace_agent();
  ASSERT_EQ(0, restore(other));
  EXPECT_NE(kNever, world_.a.manager->deadline_ns());
  world_.pass(3 * kSecond);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_ERROR}, client_.type());
  EXPECT_EQ(kNoEvent, client_.type());
}

TEST_F(ManagerTest, EventsThatNobodyFetchedComeAgain) {
  const uint32_t id = client_.create(RDMA_PS_TCP);
  ASSERT_EQ(0, resolve(id, ip("10.0.0.2", 7000)));
  replace_agent();
  ASSERT_EQ(0, restore(id));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, client_.type());
  EXPECT_EQ(kNoEvent, client_.type());
  EXPECT_EQ(0, client_.run(id, Do::kResolveRoute));
}

TEST_F(ManagerTest, TestamentsAreNotBelieved) {
  const uint32_t id = client_.listening(RDMA_PS_TCP, ip("10.0.0.1", 7000));
  EXPECT_EQ(EBUSY, restore(id));
  Request request = client_.on(50, Do::kRestore);
  request.testament = client_.testaments.at(id);
  EXPECT_EQ(EADDRINUSE, client_.error_of(request)) << "somebody has the port";
  request.testament.bytes--;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  request.testament = client_.testaments.at(id);
  request.testament.state[0] ^= 1;
  EXPECT_EQ(EINVAL, client_.error_of(request));
  EXPECT_EQ(ENOENT, client_.run(50, Do::kQuery));
}

}  // namespace
}  // namespace verbatim::agent::cm
