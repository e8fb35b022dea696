// SPDX-License-Identifier: MIT
// Connections of the connection manager, with events.
#include <infiniband/ib.h>

#include <atomic>
#include <future>
#include <semaphore>
#include <thread>

#include "tests/conformance/cm_ends.h"

namespace verbatim::conformance {
namespace {

TEST(Ids, BelongToPortSpaces) {
  const Events events;
  for (const auto& [ps, type] :
       {std::pair{RDMA_PS_TCP, IBV_QPT_RC}, {RDMA_PS_UDP, IBV_QPT_UD}, {RDMA_PS_IPOIB, IBV_QPT_UD}}) {
    int context = 0;
    rdma_cm_id* id = events.make(ps, &context);
    EXPECT_EQ(id->ps, ps);
    EXPECT_EQ(id->qp_type, type);
    EXPECT_EQ(id->context, &context);
    EXPECT_EQ(id->channel, events.get());
    EXPECT_EQ(id->verbs, nullptr);
    destroy(id);
  }
  rdma_cm_id* none = nullptr;
  EXPECT_EQ(rdma_create_id(events.get(), &none, nullptr, static_cast<rdma_port_space>(7)), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Addresses, BindToADevice) {
  const Events events;
  rdma_cm_id* id = events.make();
  sockaddr_in address = v4("127.0.0.1", 0);
  ASSERT_EQ(rdma_bind_addr(id, generic(address)), 0) << strerror(errno);
  ASSERT_NE(id->verbs, nullptr);
  EXPECT_NE(id->pd, nullptr);
  EXPECT_EQ(id->port_num, 1);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_EQ(rdma_get_dst_port(id), 0);
  const auto* local = reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(id));
  EXPECT_EQ(local->sin_family, AF_INET);
  EXPECT_EQ(local->sin_addr.s_addr, address.sin_addr.s_addr);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(id->route.addr.addr.ibaddr.sgid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(rdma_bind_addr(id, generic(address)), -1);
  EXPECT_EQ(errno, EINVAL);
  destroy(id);
}

TEST(Addresses, AreOfEveryDeviceOrOfNone) {
  const Events events;
  rdma_cm_id* id = events.make();
  sockaddr_in any = v4("0.0.0.0", 0);
  EXPECT_EQ(rdma_bind_addr(id, generic(any)), 0) << strerror(errno);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_NE(rdma_get_src_port(id), 0);
  destroy(id);
  id = events.make();
  sockaddr_in foreign = v4("203.0.113.9", 0);
  EXPECT_EQ(rdma_bind_addr(id, generic(foreign)), -1);
  EXPECT_TRUE(errno == EADDRNOTAVAIL || errno == ENODEV) << strerror(errno);
  sockaddr_in unknown{};
  unknown.sin_family = AF_APPLETALK;
  EXPECT_EQ(rdma_bind_addr(id, generic(unknown)), -1);
  EXPECT_EQ(errno, EINVAL);
  destroy(id);
}

sockaddr_ib native(uint64_t service) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(service);
  address.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK | RDMA_IB_IP_PORT_MASK);
  return address;
}

TEST(Addresses, OfInfiniBandNameNoEthernetPort) {
  const Events events;
  rdma_cm_id* id = events.make();
  sockaddr_ib own = native(RDMA_IB_IP_PS_TCP);
  own.sib_addr.sib_raw[15] = 1;
  EXPECT_EQ(rdma_bind_addr(id, generic(own)), -1);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(own), 1000), -1);
  EXPECT_EQ(errno, ENODEV);
  sockaddr_ib other = native(RDMA_IB_IP_PS_UDP);
  EXPECT_EQ(rdma_bind_addr(id, generic(other)), -1);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
  destroy(id);
}

TEST(Addresses, OfInfiniBandMayBeOfEveryDevice) {
  const Events passive, active;
  rdma_cm_id* heard = passive.make();
  sockaddr_ib any = native(RDMA_IB_IP_PS_TCP);
  ASSERT_EQ(rdma_bind_addr(heard, generic(any)), 0) << strerror(errno);
  ASSERT_EQ(rdma_listen(heard, 1), 0) << strerror(errno);
  sockaddr_in address = v4("127.0.0.1", ntohs(rdma_get_src_port(heard)));
  rdma_cm_id* id = resolved(active, address);
  make_queues(id);
  const std::string question = "by IP";
  rdma_conn_param ask = parameters(question);
  ASSERT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
  rdma_cm_id* child = nullptr;
  {
    const Happening request = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    child = request->id;
    constexpr size_t kAddresses = 36;  // which an address of InfiniBand's leaves to the program
    EXPECT_EQ(request.private_data().substr(kAddresses, question.size()), question);
  }
  const auto* peer = reinterpret_cast<sockaddr_ib*>(rdma_get_peer_addr(child));
  EXPECT_EQ(peer->sib_family, AF_IB);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(peer->sib_addr.sib_raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(rdma_get_src_port(child), address.sin_port);
  EXPECT_EQ(rdma_reject(child, nullptr, 0), 0);
  active.next(RDMA_CM_EVENT_REJECTED, 28);
  for (rdma_cm_id* each : {id, child, heard}) destroy(each);
}

TEST(Ports, BelongToOneListener) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* first = listener(events, address);
  rdma_cm_id* second = events.make();
  EXPECT_EQ(rdma_bind_addr(second, generic(address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  // The kernel has another errno for an address that covers one in use.
  sockaddr_in any = v4("0.0.0.0", ntohs(address.sin_port));
  EXPECT_EQ(rdma_bind_addr(second, generic(any)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  rdma_cm_id* other_space = events.make(RDMA_PS_UDP);
  EXPECT_EQ(rdma_bind_addr(other_space, generic(address)), 0) << strerror(errno);
  destroy(other_space);
  destroy(first);
  EXPECT_EQ(rdma_bind_addr(second, generic(address)), 0) << strerror(errno);
  destroy(second);
}

TEST(Ports, AreSharedByThoseWhoAgree) {
  const Events events;
  sockaddr_in address = v4("127.0.0.1", 7471);
  rdma_cm_id *first = events.make(), *second = events.make();
  int yes = 1;
  for (rdma_cm_id* each : {first, second})
    EXPECT_EQ(rdma_set_option(each, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes), 0)
        << strerror(errno);
  EXPECT_EQ(rdma_bind_addr(first, generic(address)), 0) << strerror(errno);
  EXPECT_EQ(rdma_bind_addr(second, generic(address)), 0) << strerror(errno);
  // But not for listening.
  EXPECT_EQ(rdma_listen(first, 1), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  destroy(second);
  EXPECT_EQ(rdma_listen(first, 1), 0) << strerror(errno);
  destroy(first);
}

TEST(Options, AreCheckedForNameAndSize) {
  const Events events;
  rdma_cm_id* id = events.make();
  uint8_t small = 14;
  int number = 1;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &small, sizeof small), 0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &small, sizeof small), 0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, sizeof number), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, 17, &number, sizeof number), -1);
  EXPECT_EQ(errno, ENOSYS);
  destroy(id);
}

TEST(Routes, AreFoundInTwoSteps) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* heard = listener(events, address);
  rdma_cm_id* id = events.make();
  EXPECT_EQ(rdma_resolve_route(id, 100), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 2000), 0) << strerror(errno);
  EXPECT_EQ(events.next(RDMA_CM_EVENT_ADDR_RESOLVED)->id, id);
  ASSERT_NE(id->verbs, nullptr);
  EXPECT_EQ(rdma_get_dst_port(id), address.sin_port);
  EXPECT_EQ(id->route.num_paths, 0);
  ASSERT_EQ(rdma_resolve_route(id, 2000), 0);
  events.next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_EQ(id->route.num_paths, 1);
  const ibv_sa_path_rec& path = *id->route.path_rec;
  EXPECT_EQ(std::memcmp(path.sgid.raw, id->route.addr.addr.ibaddr.sgid.raw, 16), 0);
  EXPECT_EQ(std::memcmp(path.dgid.raw, id->route.addr.addr.ibaddr.dgid.raw, 16), 0);
  EXPECT_GT(path.hop_limit, 1);
  EXPECT_EQ(path.mtu, IBV_MTU_4096);
  destroy(id);
  destroy(heard);
}

TEST(Connections, CarryPrivateDataBothWays) {
  const Connected pair;
  // As long as the message has room: what is behind the text is zero.
  EXPECT_EQ(pair.asked.substr(0, 7), std::string("may I?\0", 7));
  EXPECT_EQ(pair.answered.substr(0, 8), std::string("you may\0", 8));
  EXPECT_EQ(rdma_get_src_port(pair.active), rdma_get_dst_port(pair.passive));
  EXPECT_EQ(rdma_get_dst_port(pair.active), rdma_get_src_port(pair.passive));
}

TEST(Connections, CarryMessages) {
  const Connected pair;
  EXPECT_EQ(Connected::pass(pair.active, pair.passive, "there"), "there");
  EXPECT_EQ(Connected::pass(pair.passive, pair.active, "and back"), "and back");
}

TEST(Connections, HaveTheDepthsThatWereAgreed) {
  const Connected pair;
  for (const rdma_cm_id* each : {pair.active, pair.passive}) {
    ibv_qp_attr attributes;
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp(each->qp, &attributes,
                           IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
              0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attributes.max_rd_atomic, 4);
    EXPECT_EQ(attributes.max_dest_rd_atomic, 4);
  }
}

TEST(Connections, EndForBothSides) {
  const Connected pair;
  ASSERT_EQ(rdma_disconnect(pair.active), 0) << strerror(errno);
  pair.passive_events.next(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(pair.passive), 0) << strerror(errno);
  pair.active_events.next(RDMA_CM_EVENT_DISCONNECTED);
  ibv_qp_attr attributes;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(pair.active->qp, &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
}

TEST(Connections, EndWithTheirId) {
  auto pair = std::make_unique<Connected>();
  rdma_destroy_qp(pair->active);
  EXPECT_EQ(rdma_destroy_id(pair->active), 0);
  pair->passive_events.next(RDMA_CM_EVENT_DISCONNECTED);
  pair->active = pair->active_events.make();
}

TEST(Requests, AreRejectedWithData) {
  const Asked pair;
  const std::string why = "not today";
  EXPECT_EQ(rdma_reject(pair.passive, why.data(), static_cast<uint8_t>(why.size())), 0) << strerror(errno);
  constexpr int kByConsumer = 28;
  const Happening rejected = pair.active_events.next(RDMA_CM_EVENT_REJECTED, kByConsumer);
  EXPECT_EQ(rejected.private_data().substr(0, why.size()), why);
  destroy(pair.passive);
  rdma_destroy_qp(pair.active);
  std::thread later([&] { EXPECT_EQ(rdma_destroy_id(pair.active), 0); });
  EXPECT_EQ(rdma_ack_cm_event(rejected.get()), 0);
  later.join();
  // Acknowledged already.
  new (const_cast<Happening*>(&rejected)) Happening(nullptr);
  destroy(pair.heard);
}

TEST(Requests, AreRejectedForTheirOptions) {
  const Asked pair;
  EXPECT_EQ(rdma_reject_ece(pair.passive, nullptr, 0), 0) << strerror(errno);
  constexpr int kOptionsNotSupported = 35;
  pair.active_events.next(RDMA_CM_EVENT_REJECTED, kOptionsNotSupported);
  for (rdma_cm_id* each : {pair.passive, pair.active, pair.heard}) destroy(each);
}

TEST(Connections, HaveOptionsInCommon) {
  const Connected pair;
  for (const rdma_cm_id* each : {pair.active, pair.passive}) {
    ibv_ece agreed{};
    EXPECT_EQ(ibv_query_ece(each->qp, &agreed), 0);
    EXPECT_EQ(agreed.vendor_id, 0x15b3u);
    EXPECT_EQ(agreed.options, 0x10000000u);
  }
}

TEST(Notifications, AreOfConnections) {
  const Connected pair;
  EXPECT_EQ(rdma_notify(pair.passive, IBV_EVENT_COMM_EST), -1);
  EXPECT_EQ(errno, EISCONN);
  EXPECT_EQ(rdma_notify(pair.heard, IBV_EVENT_COMM_EST), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Requests, ToNobodyAreRejected) {
  const Events events;
  sockaddr_in address = v4("127.0.0.1", 9);
  rdma_cm_id* id = resolved(events, address);
  make_queues(id);
  rdma_conn_param ask = parameters();
  ASSERT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
  constexpr int kInvalidServiceId = 8;
  events.next(RDMA_CM_EVENT_REJECTED, kInvalidServiceId);
  destroy(id);
}

// Programs hand requests from the thread that takes events to another one, and have a single place for that.
TEST(Requests, AreTakenOverOneByOne) {
  constexpr int kCount = 12;
  const Events passive, active;
  sockaddr_in address;
  rdma_cm_id* heard = listener(passive, address, RDMA_PS_TCP, kCount);
  std::vector<rdma_cm_id*> asking;
  rdma_conn_param ask = parameters();
  for (int i = 0; i < kCount; i++) {
    asking.push_back(resolved(active, address));
    make_queues(asking.back());
    EXPECT_EQ(rdma_connect(asking.back(), &ask), 0) << strerror(errno);
  }
  std::atomic<rdma_cm_id*> place{nullptr};
  std::counting_semaphore<kCount> shown{0};
  std::thread taker([&] {
    for (int i = 0; i < kCount; i++) {
      place = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
      shown.release();
    }
  });
  for (int i = 0; i < kCount; i++) {
    ASSERT_TRUE(shown.try_acquire_for(std::chrono::milliseconds(kWaitMs)));
    rdma_cm_id* id = place.exchange(nullptr);
    EXPECT_NE(id, nullptr) << "one came before the last was taken over";
    if (id == nullptr) continue;
    EXPECT_EQ(rdma_reject(id, nullptr, 0), 0) << strerror(errno);
    destroy(id);
  }
  taker.join();
  constexpr int kByConsumer = 28;
  for (rdma_cm_id* each : asking) {
    active.next(RDMA_CM_EVENT_REJECTED, kByConsumer);
    destroy(each);
  }
  destroy(heard);
}

TEST(Requests, HaveLimits) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* heard = listener(events, address);
  rdma_cm_id* id = resolved(events, address);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  make_queues(id);
  const std::string much(57, 'x');
  rdma_conn_param ask = parameters(much);
  EXPECT_EQ(rdma_connect(id, &ask), -1);
  EXPECT_EQ(errno, EINVAL);
  ask = parameters();
  ask.responder_resources = 254;
  EXPECT_EQ(rdma_connect(id, &ask), -1);
  EXPECT_EQ(errno, EINVAL);
  destroy(id);
  destroy(heard);
}

TEST(Requests, OfIdsWithoutQueuePairAreEstablishedByHand) {
  const Events passive, active;
  sockaddr_in address;
  rdma_cm_id* heard = listener(passive, address);
  rdma_cm_id* id = resolved(active, address);
  ibv_ece ece{0x15b3, 0x10000000, 0};
  EXPECT_EQ(rdma_set_local_ece(id, &ece), 0);
  rdma_conn_param ask = parameters();
  ask.qp_num = 0x123;
  ASSERT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
  rdma_cm_id* child;
  {
    const Happening request = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request->param.conn.qp_num, 0x123u);
    child = request->id;
  }
  EXPECT_EQ(rdma_get_remote_ece(child, &ece), 0);
  EXPECT_EQ(ece.vendor_id, 0x15b3u);
  EXPECT_EQ(ece.options, 0x10000000u);
  rdma_conn_param agree = parameters();
  agree.qp_num = 0x456;
  ASSERT_EQ(rdma_accept(child, &agree), 0) << strerror(errno);
  EXPECT_EQ(active.next(RDMA_CM_EVENT_CONNECT_RESPONSE)->param.conn.qp_num, 0x456u);
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(rdma_init_qp_attr(id, &attributes, &mask), 0) << strerror(errno);
  EXPECT_EQ(attributes.dest_qp_num, 0x456u);
  EXPECT_NE(mask & IBV_QP_AV, 0);
  EXPECT_EQ(rdma_establish(id), 0) << strerror(errno);
  passive.next(RDMA_CM_EVENT_ESTABLISHED);
  destroy(id);
  passive.next(RDMA_CM_EVENT_DISCONNECTED);
  destroy(child);
  destroy(heard);
}

TEST(Events, AreWaitedForByDestroy) {
  const Connected* pair = new Connected;
  ASSERT_EQ(rdma_disconnect(pair->active), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_TRUE(pair->passive_events.has_one(kWaitMs));
  ASSERT_EQ(rdma_get_cm_event(pair->passive_events.get(), &event), 0);
  rdma_destroy_qp(pair->passive);
  auto destroyed = std::async(std::launch::async, [&] { return rdma_destroy_id(pair->passive); });
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  ASSERT_EQ(destroyed.wait_for(std::chrono::milliseconds(kWaitMs)), std::future_status::ready);
  EXPECT_EQ(destroyed.get(), 0);
  const_cast<Connected*>(pair)->passive = pair->passive_events.make();
  delete pair;
}

TEST(Events, GoWithTheirId) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* heard = listener(events, address);
  rdma_cm_id* id = events.make();
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 2000), 0);
  ASSERT_TRUE(events.has_one(kWaitMs));
  destroy(id);
  EXPECT_FALSE(events.has_one());
  destroy(heard);
}

TEST(Events, DoNotBlockWhereTheProgramSaysSo) {
  const Events events;
  fcntl(events.get()->fd, F_SETFL, O_NONBLOCK);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(events.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Events, MayBeThePrograms) {
  const Events events;
  rdma_cm_id* id = events.make();
  EXPECT_EQ(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, -7, 0x123456789abc), 0) << strerror(errno);
  {
    const Happening own = events.next(RDMA_CM_EVENT_USER, -7);
    EXPECT_EQ(own->id, id);
    EXPECT_EQ(own->param.arg, 0x123456789abcu);
  }
  destroy(id);
}

TEST(Events, MoveWithTheirId) {
  const Events before, after;
  rdma_cm_id* id = before.make();
  ASSERT_EQ(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1), 0);
  ASSERT_EQ(rdma_migrate_id(id, after.get()), 0) << strerror(errno);
  EXPECT_FALSE(before.has_one());
  after.next(RDMA_CM_EVENT_USER);
  EXPECT_EQ(id->channel, after.get());
  destroy(id);
}

}  // namespace
}  // namespace verbatim::conformance
