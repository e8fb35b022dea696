// SPDX-License-Identifier: MIT
// What librpma says where the libraries under it fail, and where there is no memory.
#include <rdma/rdma_cma.h>

#include "tests/conformance/rpma_ends.h"
#include "tests/conformance/rpma_faults.h"

namespace verbatim::conformance {
namespace {

/// One call under it fails: the result, what the log says, and that it was that call.
#define EXPECT_PASSED_ON(fault, error, call, expected, cause)           \
  do {                                                                  \
    const verbatim::conformance::Fault one(fault, error);               \
    EXPECT_REFUSED(call, expected, cause);                              \
    EXPECT_TRUE(verbatim::conformance::Fault::has_struck()) << (fault); \
  } while (false)

TEST(RpmaFailures, OfFindingDevices) {
  const Log log;
  ibv_context* none = nullptr;
  const auto find = [&](rpma_util_ibv_context_type type) {
    return rpma_utils_get_ibv_context(kAddress, type, &none);
  };
  EXPECT_PASSED_ON("rdma_getaddrinfo", ENOMEM, find(RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_NOMEM,
                   "out of memory");
  EXPECT_PASSED_ON("rdma_getaddrinfo", EIO, find(RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_PROVIDER,
                   "Input/output error");
  EXPECT_PASSED_ON("rdma_create_id", EIO, find(RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_PROVIDER,
                   "rdma_create_id failed: Input");
  EXPECT_PASSED_ON("rdma_bind_addr", EIO, find(RPMA_UTIL_IBV_CONTEXT_LOCAL), RPMA_E_PROVIDER,
                   "rdma_bind_addr failed");
  EXPECT_PASSED_ON("rdma_resolve_addr", EIO, find(RPMA_UTIL_IBV_CONTEXT_REMOTE), RPMA_E_PROVIDER,
                   "rdma_resolve_addr failed");
  EXPECT_EQ(none, nullptr);
}

TEST(RpmaFailures, OfMakingPeers) {
  const Log log;
  const Peer good;
  rpma_peer* none = nullptr;
  EXPECT_PASSED_ON("ibv_alloc_pd", ENOMEM, rpma_peer_new(good.device, &none), RPMA_E_NOMEM, "out of memory");
  EXPECT_PASSED_ON("ibv_alloc_pd", EIO, rpma_peer_new(good.device, &none), RPMA_E_PROVIDER,
                   "ibv_alloc_pd failed");
  EXPECT_PASSED_ON("ibv_alloc_pd", 0, rpma_peer_new(good.device, &none), RPMA_E_UNKNOWN, "does not say why");
  const Replaced mute(
      verbs_get_ctx(good.device)->query_device_ex,
      +[](ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t) { return EIO; });
  EXPECT_REFUSED(rpma_peer_new(good.device, &none), RPMA_E_PROVIDER, "ibv_query_device_ex failed");
  int capable = 0;
  EXPECT_REFUSED(rpma_utils_ibv_context_is_odp_capable(good.device, &capable), RPMA_E_PROVIDER,
                 "ibv_query_device_ex failed");
  EXPECT_EQ(none, nullptr);
}

TEST(RpmaFailures, OfRegistrationsThatNeedPaging) {
  const Log log;
  const Peer peer;
  char place[64];
  rpma_mr_local* memory = nullptr;
  EXPECT_PASSED_ON("ibv_reg_mr", EIO, rpma_mr_reg(peer, place, 64, kEveryUsage, &memory), RPMA_E_PROVIDER,
                   "ibv_reg_mr failed");
  {
    // As of files on persistent memory, which cannot be pinned.
    const Fault pinned("ibv_reg_mr", EOPNOTSUPP);
    ASSERT_EQ(rpma_mr_reg(peer, place, 64, kEveryUsage, &memory), 0);
  }
  const auto advise = [&] { return rpma_mr_advise(memory, 8, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 0); };
  auto& operation = verbs_get_ctx(peer.device)->advise_mr;
  using Advise = std::remove_reference_t<decltype(operation)>;
  for (const auto& [by, expected] :
       {std::pair<Advise, int>{[](auto...) { return EOPNOTSUPP; }, RPMA_E_NOSUPP},
        {[](auto...) { return EFAULT; }, RPMA_E_INVAL},
        {[](auto...) { return EINVAL; }, RPMA_E_INVAL},
        {[](auto...) { return EIO; }, RPMA_E_PROVIDER}}) {
    const Replaced replaced(operation, by);
    EXPECT_REFUSED(advise(), expected, "ibv_advise_mr failed");
  }
  EXPECT_PASSED_ON("ibv_dereg_mr", EIO, rpma_mr_dereg(&memory), RPMA_E_PROVIDER, "ibv_dereg_mr failed");
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(rpma_mr_dereg(&memory), 0);
  EXPECT_EQ(memory, nullptr);
}

TEST(RpmaFailures, OfListening) {
  const Log log;
  const Peer peer;
  rpma_ep* endpoint = nullptr;
  for (const char* call : {"rdma_create_event_channel", "rdma_create_id", "rdma_bind_addr", "rdma_listen"})
    EXPECT_PASSED_ON(call, EIO, rpma_ep_listen(peer, kAddress, kPort, &endpoint), RPMA_E_PROVIDER,
                     std::string(call) + " failed: Input");
  ASSERT_EQ(endpoint, nullptr);
  ASSERT_EQ(rpma_ep_listen(peer, kAddress, kPort, &endpoint), 0);
  rpma_conn_req* none = nullptr;
  EXPECT_PASSED_ON("rdma_get_cm_event", EIO, rpma_ep_next_conn_req(endpoint, nullptr, &none), RPMA_E_PROVIDER,
                   "rdma_get_cm_event failed");
  EXPECT_PASSED_ON("rdma_destroy_id", EIO, rpma_ep_shutdown(&endpoint), RPMA_E_PROVIDER,
                   "rdma_destroy_id failed");
  ASSERT_NE(endpoint, nullptr);
  EXPECT_EQ(rpma_ep_shutdown(&endpoint), 0);
}

TEST(RpmaFailures, OfTakingRequestsRejectThem) {
  const Log log;
  const Peer peer;
  const Listener listener(peer);
  rpma_conn_req* none = nullptr;
  const auto take = [&] { return rpma_ep_next_conn_req(listener.endpoint, nullptr, &none); };
  for (const char* call : {"rdma_ack_cm_event", "ibv_create_comp_channel", "ibv_create_cq",
                           "rdma_create_event_channel", "rdma_migrate_id"}) {
    rpma_conn* conn = connect(ask(peer));
    EXPECT_PASSED_ON(call, EIO, take(), RPMA_E_PROVIDER, std::string(call) + " failed");
    expect_event(conn, RPMA_CONN_REJECTED);
    EXPECT_EQ(rpma_conn_delete(&conn), 0);
  }
  EXPECT_EQ(none, nullptr);
}

TEST(RpmaFailures, OfOtherEventsThanRequests) {
  const Log log;
  const Peer peer;
  const Listener listener(peer);
  rpma_conn* conn = connect(ask(peer));
  rpma_conn_req* none = nullptr;
  turn_next_event_into(RDMA_CM_EVENT_DEVICE_REMOVAL);
  EXPECT_REFUSED(rpma_ep_next_conn_req(listener.endpoint, nullptr, &none), RPMA_E_INVAL,
                 "RDMA_CM_EVENT_DEVICE_REMOVAL is no");
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaFailures, OfMakingRequests) {
  const Log log;
  const Peer peer;
  rpma_conn_req* request = nullptr;
  for (const char* call : {"rdma_create_id", "rdma_resolve_addr", "rdma_resolve_route",
                           "ibv_create_comp_channel", "ibv_create_cq", "rdma_migrate_id"})
    EXPECT_PASSED_ON(call, EIO, rpma_conn_req_new(peer, kAddress, kPort, nullptr, &request), RPMA_E_PROVIDER,
                     std::string(call) + " failed");
  {
    const Fault second("rdma_create_event_channel", EIO, 1);  // the first is the id's own
    EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, nullptr, &request), RPMA_E_PROVIDER,
                   "rdma_create_event_channel failed");
  }
  const Settings shared = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(shared.get(), true), 0);
  EXPECT_PASSED_ON("ibv_create_comp_channel", EIO,
                   rpma_conn_req_new(peer, kAddress, kPort, shared.get(), &request), RPMA_E_PROVIDER,
                   "ibv_create_comp_channel");
  {
    const Replaced deaf(
        peer.device->ops.req_notify_cq, +[](ibv_cq*, int) { return EIO; });
    EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, nullptr, &request), RPMA_E_PROVIDER,
                   "ibv_req_notify_cq failed");
  }
  EXPECT_EQ(request, nullptr);
  for (const char* call : {"ibv_destroy_cq", "ibv_destroy_comp_channel"}) {
    request = ask(peer);
    EXPECT_PASSED_ON(call, EIO, rpma_conn_req_delete(&request), RPMA_E_PROVIDER,
                     std::string(call) + " failed");
    EXPECT_EQ(request, nullptr);
  }
}

TEST(RpmaFailures, OfConnecting) {
  const Log log;
  const Peer peer;
  rpma_conn* none = nullptr;
  for (const char* call : {"ibv_reg_mr", "rdma_connect"}) {
    rpma_conn_req* request = ask(peer);
    const Fault one(call);
    Log::drain();
    const int result = rpma_conn_req_connect(&request, nullptr, &none);
    EXPECT_EQ(request, nullptr);
    // A device that flushes by itself needs no memory for it.
    if (!Fault::has_struck()) {
      expect_event(none, RPMA_CONN_REJECTED);
      EXPECT_EQ(rpma_conn_delete(&none), 0);
      continue;
    }
    EXPECT_EQ(result, RPMA_E_PROVIDER);
    EXPECT_NE(Log::drain().find(std::string(call) + " failed"), std::string::npos);
  }
  const Listener listener(peer);
  rpma_conn* conn = connect(ask(peer));
  rpma_conn_req* request = listener.next();
  EXPECT_PASSED_ON("rdma_accept", EIO, rpma_conn_req_connect(&request, nullptr, &none), RPMA_E_PROVIDER,
                   "rdma_accept failed");
  EXPECT_EQ(request, nullptr);
  expect_event(conn, RPMA_CONN_REJECTED);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
  conn = connect(ask(peer));
  request = listener.next();
  EXPECT_PASSED_ON("rdma_reject", EIO, rpma_conn_req_delete(&request), RPMA_E_PROVIDER, "rdma_reject failed");
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaFailures, OfConnectionsEvents) {
  const Log log;
  const Peer peer;
  Pair pair(peer);
  rpma_conn_event event = RPMA_CONN_ESTABLISHED;
  EXPECT_PASSED_ON("rdma_get_cm_event", EIO, rpma_conn_next_event(pair.active, &event), RPMA_E_PROVIDER,
                   "rdma_get_cm_event failed");
  EXPECT_PASSED_ON("rdma_disconnect", EIO, rpma_conn_disconnect(pair.active), RPMA_E_PROVIDER,
                   "rdma_disconnect failed");
  ASSERT_EQ(rpma_conn_disconnect(pair.active), 0);
  EXPECT_PASSED_ON("rdma_ack_cm_event", EIO, rpma_conn_next_event(pair.passive, &event), RPMA_E_PROVIDER,
                   "rdma_ack_cm_event failed");
  ASSERT_EQ(rpma_conn_disconnect(pair.passive), 0);
  turn_next_event_into(RDMA_CM_EVENT_ADDR_CHANGE);
  EXPECT_REFUSED(rpma_conn_next_event(pair.active, &event), RPMA_E_UNKNOWN,
                 "RDMA_CM_EVENT_ADDR_CHANGE is not expected");
  EXPECT_EQ(event, RPMA_CONN_UNDEFINED);
}

TEST(RpmaFailures, OfConnectionsHaveEvents) {
  const Peer peer;
  for (const auto& [type, expected] : {std::pair{RDMA_CM_EVENT_CONNECT_ERROR, RPMA_CONN_LOST},
                                       {RDMA_CM_EVENT_DEVICE_REMOVAL, RPMA_CONN_LOST},
                                       {RDMA_CM_EVENT_TIMEWAIT_EXIT, RPMA_CONN_CLOSED},
                                       {RDMA_CM_EVENT_UNREACHABLE, RPMA_CONN_UNREACHABLE}}) {
    rpma_conn* conn = connect(ask(peer));
    turn_next_event_into(type);  // the rejection: nobody listens
    expect_event(conn, expected);
    EXPECT_EQ(rpma_conn_delete(&conn), 0);
  }
}

TEST(RpmaFailures, OfWaiting) {
  const Log log;
  const Peer peer;
  const Settings shared = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(shared.get(), true), 0);
  Pair pair(peer, shared.get());
  const auto complete = [](rpma_conn* conn) {
    EXPECT_EQ(rpma_write(conn, nullptr, 0, nullptr, 0, 0, RPMA_F_COMPLETION_ALWAYS, nullptr), 0);
  };
  rpma_cq* cq = nullptr;
  // An event of another queue: the device's own way to wait is the same.
  ibv_comp_channel* channel = ibv_create_comp_channel(peer.device);
  ibv_cq* foreign = ibv_create_cq(peer.device, 1, nullptr, channel, 0);
  turn_next_completion_event_into(foreign);
  complete(pair.active);
  EXPECT_REFUSED(rpma_conn_wait(pair.active, 0, &cq, nullptr), RPMA_E_UNKNOWN, "not the connection's");
  {
    const Replaced deaf(
        peer.device->ops.req_notify_cq, +[](ibv_cq*, int) { return EIO; });
    complete(pair.passive);
    EXPECT_REFUSED(rpma_cq_wait(queue_of(pair.passive)), RPMA_E_PROVIDER, "ibv_req_notify_cq failed");
  }
  ibv_wc done[2];
  int got = 0;
  {
    const Replaced broken(
        peer.device->ops.poll_cq, +[](ibv_cq*, int, ibv_wc*) { return -1; });
    EXPECT_REFUSED(rpma_cq_get_wc(queue_of(pair.active), 2, done, &got), RPMA_E_PROVIDER,
                   "ibv_poll_cq failed");
  }
  {
    const Replaced lying(
        peer.device->ops.poll_cq, +[](ibv_cq*, int, ibv_wc*) { return 3; });
    EXPECT_REFUSED(rpma_cq_get_wc(queue_of(pair.active), 2, done, &got), RPMA_E_UNKNOWN, "3 entries of 2");
  }
  ibv_destroy_cq(foreign);
  ibv_destroy_comp_channel(channel);
}

TEST(RpmaFailures, OfWaitingOnASharedChannel) {
  const Log log;
  const Peer peer;
  const Settings shared = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(shared.get(), true), 0);
  Pair pair(peer, shared.get());
  EXPECT_EQ(rpma_write(pair.active, nullptr, 0, nullptr, 0, 0, RPMA_F_COMPLETION_ALWAYS, nullptr), 0);
  const Replaced deaf(
      peer.device->ops.req_notify_cq, +[](ibv_cq*, int) { return EIO; });
  rpma_cq* cq = nullptr;
  EXPECT_REFUSED(rpma_conn_wait(pair.active, 0, &cq, nullptr), RPMA_E_PROVIDER, "ibv_req_notify_cq failed");
}

TEST(RpmaFailures, OfDeletingConnections) {
  const Log log;
  const Peer peer;
  const Settings shared = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(shared.get(), true), 0);
  for (const char* call : {"ibv_destroy_cq", "ibv_destroy_comp_channel"}) {
    rpma_conn* conn = connect(ask(peer, shared.get()));
    expect_event(conn, RPMA_CONN_REJECTED);  // nobody listens
    EXPECT_PASSED_ON(call, EIO, rpma_conn_delete(&conn), RPMA_E_PROVIDER, std::string(call) + " failed");
    EXPECT_EQ(conn, nullptr);
  }
}

TEST(RpmaFailures, OfSharedQueues) {
  const Log log;
  const Peer peer;
  rpma_srq* queue = nullptr;
  for (const char* call : {"ibv_create_srq", "ibv_create_comp_channel", "ibv_create_cq"})
    EXPECT_PASSED_ON(call, EIO, rpma_srq_new(peer, nullptr, &queue), RPMA_E_PROVIDER,
                     std::string(call) + " failed");
  {
    const Replaced deaf(
        peer.device->ops.req_notify_cq, +[](ibv_cq*, int) { return EIO; });
    EXPECT_REFUSED(rpma_srq_new(peer, nullptr, &queue), RPMA_E_PROVIDER, "ibv_req_notify_cq failed");
  }
  for (const char* call : {"ibv_destroy_cq", "ibv_destroy_comp_channel", "ibv_destroy_srq"}) {
    ASSERT_EQ(rpma_srq_new(peer, nullptr, &queue), 0);
    EXPECT_PASSED_ON(call, EIO, rpma_srq_delete(&queue), RPMA_E_PROVIDER, std::string(call) + " failed");
    EXPECT_EQ(queue, nullptr);
  }
}

/// There is no memory in librpma during the call.
#define EXPECT_NO_MEMORY(call)                                         \
  do {                                                                 \
    verbatim::conformance::Log::drain();                               \
    int result = 0;                                                    \
    {                                                                  \
      const verbatim::conformance::NoMemory out;                       \
      result = (call);                                                 \
    }                                                                  \
    EXPECT_EQ(result, RPMA_E_NOMEM) << #call;                          \
    EXPECT_EQ(verbatim::conformance::Log::drain(), "out of memory\n"); \
  } while (false)

TEST(RpmaFailures, OfMemory) {
  if (!NoMemory::works()) GTEST_SKIP() << "a sanitizer has malloc";
  const Log log;
  const Peer peer;
  const Memory memory(peer);
  rpma_conn_cfg* cfg = nullptr;
  rpma_srq_cfg* srq_cfg = nullptr;
  rpma_peer_cfg* peer_cfg = nullptr;
  rpma_peer* other = nullptr;
  rpma_mr_local* local = nullptr;
  rpma_mr_remote* remote = nullptr;
  rpma_ep* endpoint = nullptr;
  rpma_conn_req* request = nullptr;
  rpma_srq* queue = nullptr;
  char place[8];
  uint8_t descriptor[21] = {};
  EXPECT_EQ(rpma_mr_get_descriptor(memory.local, descriptor), 0);
  EXPECT_NO_MEMORY(rpma_conn_cfg_new(&cfg));
  EXPECT_NO_MEMORY(rpma_srq_cfg_new(&srq_cfg));
  EXPECT_NO_MEMORY(rpma_peer_cfg_new(&peer_cfg));
  EXPECT_NO_MEMORY(rpma_peer_cfg_from_descriptor(descriptor, 1, &peer_cfg));
  EXPECT_NO_MEMORY(rpma_peer_new(peer.device, &other));
  EXPECT_NO_MEMORY(rpma_mr_reg(peer, place, sizeof place, kEveryUsage, &local));
  EXPECT_NO_MEMORY(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote));
  EXPECT_NO_MEMORY(rpma_ep_listen(peer, kAddress, kPort, &endpoint));
  EXPECT_NO_MEMORY(rpma_conn_req_new(peer, kAddress, kPort, nullptr, &request));
  EXPECT_NO_MEMORY(rpma_srq_new(peer, nullptr, &queue));
  request = ask(peer);
  rpma_conn *conn = nullptr, *none = nullptr;
  EXPECT_NO_MEMORY(rpma_conn_req_connect(&request, nullptr, &conn));
  EXPECT_EQ(request, nullptr);
  const Listener listener(peer);
  conn = connect(ask(peer));
  EXPECT_NO_MEMORY(rpma_ep_next_conn_req(listener.endpoint, nullptr, &request));
  expect_event(conn, RPMA_CONN_REJECTED);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
  EXPECT_TRUE(cfg == nullptr && srq_cfg == nullptr && peer_cfg == nullptr && other == nullptr &&
              local == nullptr && remote == nullptr && endpoint == nullptr && request == nullptr &&
              queue == nullptr && none == nullptr);
}

}  // namespace
}  // namespace verbatim::conformance
