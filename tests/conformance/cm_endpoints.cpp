// SPDX-License-Identifier: MIT
// The connection manager without channels, names, datagrams and groups.
#include <netdb.h>

#include <thread>

#include "tests/conformance/cm_ends.h"

namespace verbatim::conformance {
namespace {

/// The result of rdma_getaddrinfo, freed at the end.
class Names {
 public:
  Names(const char* node, const char* service, const rdma_addrinfo& hints) {
    result_ = rdma_getaddrinfo(node, service, &hints, &info_);
  }
  ~Names() {
    if (result_ == 0) rdma_freeaddrinfo(info_);
  }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  int result() const { return result_; }
  rdma_addrinfo* operator->() const { return info_; }
  rdma_addrinfo* get() const { return info_; }

 private:
  int result_;
  rdma_addrinfo* info_ = nullptr;
};

rdma_addrinfo hints(int flags = 0, int ps = RDMA_PS_TCP) {
  rdma_addrinfo with{};
  with.ai_flags = flags;
  with.ai_port_space = ps;
  return with;
}

/// Serves one request of an endpoint: takes a message, sends it back, waits for the end.
void serve(rdma_cm_id* listening) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_get_request(listening, &id), 0) << strerror(errno);
  ASSERT_NE(id->qp, nullptr);
  char place[32];
  ibv_mr* memory = rdma_reg_msgs(id, place, sizeof place);
  ASSERT_EQ(rdma_post_recv(id, nullptr, place, sizeof place, memory), 0);
  ASSERT_EQ(rdma_accept(id, nullptr), 0) << strerror(errno);
  ibv_wc done{};
  ASSERT_EQ(rdma_get_recv_comp(id, &done), 1);
  ASSERT_EQ(rdma_post_send(id, nullptr, place, done.byte_len, memory, 0), 0);
  ASSERT_EQ(rdma_get_send_comp(id, &done), 1);
  EXPECT_EQ(rdma_disconnect(id), 0) << strerror(errno);
  rdma_dereg_mr(memory);
  rdma_destroy_ep(id);
}

TEST(Endpoints, ConnectInOneGo) {
  const Names passive("127.0.0.1", "7472", hints(RAI_PASSIVE)), active("127.0.0.1", "7472", hints());
  ASSERT_EQ(passive.result(), 0);
  ASSERT_EQ(active.result(), 0);
  ibv_qp_init_attr queues = small_queues();
  rdma_cm_id *listening = nullptr, *id = nullptr;
  ASSERT_EQ(rdma_create_ep(&listening, passive.get(), nullptr, &queues), 0) << strerror(errno);
  ASSERT_EQ(rdma_listen(listening, 0), 0) << strerror(errno);
  std::thread server([&] { serve(listening); });
  queues = small_queues();
  ASSERT_EQ(rdma_create_ep(&id, active.get(), nullptr, &queues), 0) << strerror(errno);
  EXPECT_GE(queues.cap.max_send_wr, 8u);
  char place[32];
  ibv_mr* memory = rdma_reg_msgs(id, place, sizeof place);
  ASSERT_EQ(rdma_post_recv(id, nullptr, place, sizeof place, memory), 0);
  ASSERT_EQ(rdma_connect(id, nullptr), 0) << strerror(errno);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
  char text[] = "to and fro";
  ASSERT_EQ(rdma_post_send(id, nullptr, text, sizeof text, nullptr, IBV_SEND_INLINE), 0);
  ibv_wc done{};
  ASSERT_EQ(rdma_get_recv_comp(id, &done), 1);
  EXPECT_EQ(done.byte_len, sizeof text);
  EXPECT_STREQ(place, text);
  EXPECT_EQ(rdma_disconnect(id), 0) << strerror(errno);
  server.join();
  rdma_dereg_mr(memory);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listening);
}

TEST(Endpoints, SayThatNobodyListens) {
  const Names active("127.0.0.1", "9", hints());
  ASSERT_EQ(active.result(), 0);
  ibv_qp_init_attr queues = small_queues();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_ep(&id, active.get(), nullptr, &queues), 0) << strerror(errno);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_ep(id);
}

TEST(Endpoints, ShareReceiveQueues) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0) << strerror(errno);
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = 16;
  attributes.attr.max_sge = 1;
  EXPECT_EQ(rdma_create_srq(id, nullptr, &attributes), -1);
  EXPECT_EQ(errno, EINVAL);
  sockaddr_in address = v4("127.0.0.1", 0);
  ASSERT_EQ(rdma_bind_addr(id, generic(address)), 0);
  ASSERT_EQ(rdma_create_srq(id, nullptr, &attributes), 0) << strerror(errno);
  ASSERT_NE(id->srq, nullptr);
  ibv_srq_init_attr_ex extended{};
  EXPECT_EQ(rdma_create_srq_ex(id, &extended), -1);
  EXPECT_EQ(errno, EINVAL);
  make_queues(id);
  EXPECT_EQ(id->qp->srq, id->srq);
  ibv_qp_init_attr more = small_queues();
  EXPECT_EQ(rdma_create_qp(id, nullptr, &more), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_qp(id);
  EXPECT_EQ(id->send_cq, nullptr);
  rdma_destroy_srq(id);
  EXPECT_EQ(id->srq, nullptr);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST(NamesOfHosts, BecomeAddresses) {
  const Names active("127.0.0.1", "4711", hints());
  ASSERT_EQ(active.result(), 0);
  EXPECT_EQ(active->ai_family, AF_INET);
  EXPECT_EQ(active->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(active->ai_src_addr, nullptr);
  ASSERT_NE(active->ai_dst_addr, nullptr);
  EXPECT_EQ(reinterpret_cast<sockaddr_in*>(active->ai_dst_addr)->sin_port, htons(4711));
  const Names passive("::1", nullptr, hints(RAI_PASSIVE | RAI_NUMERICHOST, RDMA_PS_UDP));
  ASSERT_EQ(passive.result(), 0);
  EXPECT_EQ(passive->ai_flags, RAI_PASSIVE);
  EXPECT_EQ(passive->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(passive->ai_src_addr->sa_family, AF_INET6);
  EXPECT_EQ(Names("no.number", nullptr, hints(RAI_NUMERICHOST)).result(), EAI_NONAME);
  EXPECT_EQ(Names(nullptr, "service", hints(RAI_SA)).result(), -1);
  EXPECT_EQ(errno, ENOENT);
  rdma_addrinfo* none = nullptr;
  EXPECT_EQ(rdma_getaddrinfo(nullptr, nullptr, nullptr, &none), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(NamesOfHosts, ArriveAsEvents) {
  const Events events;
  rdma_cm_id* id = events.make();
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(rdma_query_addrinfo(id, &found), -1);
  EXPECT_EQ(errno, ENOENT);
  const rdma_addrinfo wanted = hints();
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7", &wanted), 0) << strerror(errno);
  EXPECT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7", &wanted), -1);
  EXPECT_EQ(errno, EBUSY);
  events.next(RDMA_CM_EVENT_ADDRINFO_RESOLVED);
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  rdma_freeaddrinfo(found);
  const rdma_addrinfo numeric = hints(RAI_NUMERICHOST);
  ASSERT_EQ(rdma_resolve_addrinfo(id, "no.number", "7", &numeric), 0);
  events.next(RDMA_CM_EVENT_ADDRINFO_ERROR, -ENOENT);
  EXPECT_EQ(rdma_query_addrinfo(id, &found), -1);
  destroy(id);
}

TEST(NamesOfEvents, AreThoseOfTheHeader) {
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
  EXPECT_STREQ(rdma_event_str(static_cast<rdma_cm_event_type>(99)), "UNKNOWN EVENT");
}

TEST(DevicesOfIds, AreListedOpened) {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  ASSERT_NE(list, nullptr) << strerror(errno);
  ASSERT_GE(count, 1);
  EXPECT_STREQ(ibv_get_device_name(list[0]->device), "mlx5_0");
  EXPECT_EQ(list[count], nullptr);
  rdma_free_devices(list);
}

/// Two ids with queue pairs that know each other's numbers.
struct KnownDatagrams {
  KnownDatagrams() {
    heard = listener(passive_events, address, RDMA_PS_UDP);
    active = resolved(active_events, address, RDMA_PS_UDP);
    make_queues(active);
    const std::string question = "who?", answer = "me";
    rdma_conn_param ask = parameters(question);
    EXPECT_EQ(rdma_connect(active, &ask), 0) << strerror(errno);
    {
      const Happening request = passive_events.next(RDMA_CM_EVENT_CONNECT_REQUEST);
      passive = request->id;
      asked = {static_cast<const char*>(request->param.ud.private_data), 4};
    }
    make_queues(passive);
    rdma_conn_param agree = parameters(answer);
    agree.qp_num = passive->qp->qp_num;
    EXPECT_EQ(rdma_accept(passive, &agree), 0) << strerror(errno);
    const Happening known = active_events.next(RDMA_CM_EVENT_ESTABLISHED);
    peer = known->param.ud;
    answered = {static_cast<const char*>(peer.private_data), 2};
  }
  ~KnownDatagrams() {
    destroy(active);
    destroy(passive);
    destroy(heard);
  }
  Events active_events, passive_events;
  sockaddr_in address{};
  rdma_cm_id *heard = nullptr, *active = nullptr, *passive = nullptr;
  rdma_ud_param peer{};
  std::string asked, answered;
};

/// Sends a text through an address handle and sees it arrive.
void pass_datagram(rdma_cm_id* from, rdma_cm_id* to, const rdma_ud_param& peer) {
  std::vector<char> place(128);
  ibv_mr* into = rdma_reg_msgs(to, place.data(), place.size());
  ASSERT_EQ(rdma_post_recv(to, nullptr, place.data(), place.size(), into), 0);
  ibv_ah_attr attributes = peer.ah_attr;
  ibv_ah* way = ibv_create_ah(from->pd, &attributes);
  ASSERT_NE(way, nullptr) << strerror(errno);
  char text[] = "datagram";
  ASSERT_EQ(rdma_post_ud_send(from, nullptr, text, sizeof text, nullptr, IBV_SEND_INLINE, way, peer.qp_num),
            0);
  ibv_wc done{};
  EXPECT_EQ(rdma_get_recv_comp(to, &done), 1);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(place.data() + sizeof(ibv_grh), text);
  ibv_destroy_ah(way);
  rdma_dereg_mr(into);
}

TEST(Datagrams, FindTheirQueuePair) {
  const KnownDatagrams pair;
  EXPECT_EQ(pair.asked, "who?");
  EXPECT_EQ(pair.answered, "me");
  EXPECT_EQ(pair.peer.qp_num, pair.passive->qp->qp_num);
  EXPECT_EQ(pair.peer.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  pass_datagram(pair.active, pair.passive, pair.peer);
}

TEST(Datagrams, FindNobody) {
  const Events events;
  sockaddr_in address = v4("127.0.0.1", 9);
  rdma_cm_id* id = resolved(events, address, RDMA_PS_UDP);
  make_queues(id);
  rdma_conn_param ask = parameters();
  ASSERT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
  constexpr int kUnsupportedService = 1;
  events.next(RDMA_CM_EVENT_UNREACHABLE, kUnsupportedService);
  destroy(id);
}

/// An id of datagrams that is a member of a group.
struct Member {
  explicit Member(sockaddr_in group) {
    id = events.make(RDMA_PS_UDP);
    sockaddr_in here = v4("127.0.0.1", 0);
    EXPECT_EQ(rdma_bind_addr(id, generic(here)), 0) << strerror(errno);
    make_queues(id);
    EXPECT_EQ(rdma_join_multicast(id, generic(group), this), 0) << strerror(errno);
    const Happening joined = events.next(RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT_EQ(joined->param.ud.private_data, this);
    way = joined->param.ud;
  }
  ~Member() { destroy(id); }
  Events events;
  rdma_cm_id* id;
  rdma_ud_param way{};
};

TEST(Groups, ReachTheirMembers) {
  sockaddr_in group = v4("239.7.7.7", 0);
  Member sender(group), receiver(group);
  EXPECT_EQ(sender.way.qp_num, 0xffffffu);
  pass_datagram(sender.id, receiver.id, sender.way);
  EXPECT_EQ(rdma_leave_multicast(receiver.id, generic(group)), 0) << strerror(errno);
  EXPECT_EQ(rdma_leave_multicast(receiver.id, generic(group)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST(Groups, AreJoinedInKnownWays) {
  const Events events;
  rdma_cm_id* id = events.make(RDMA_PS_UDP);
  sockaddr_in group = v4("239.7.7.8", 0);
  rdma_cm_join_mc_attr_ex attributes{};
  attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
  EXPECT_EQ(rdma_join_multicast_ex(id, &attributes, nullptr), -1);
  EXPECT_EQ(errno, ENOTSUP);
  attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attributes.addr = generic(group);
  attributes.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
  EXPECT_EQ(rdma_join_multicast_ex(id, &attributes, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  sockaddr_in here = v4("127.0.0.1", 0);
  ASSERT_EQ(rdma_bind_addr(id, generic(here)), 0);
  attributes.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  EXPECT_EQ(rdma_join_multicast_ex(id, &attributes, nullptr), 0) << strerror(errno);
  events.next(RDMA_CM_EVENT_MULTICAST_JOIN);
  destroy(id);
}

}  // namespace
}  // namespace verbatim::conformance
