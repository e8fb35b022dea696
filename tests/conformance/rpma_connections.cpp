// SPDX-License-Identifier: MIT
// librpma's peers, registrations, endpoints, requests and connections.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/rpma_ends.h"

namespace verbatim::conformance {
namespace {

TEST(RpmaDevices, AreFoundByAddressesOfBothSides) {
  const Log log;
  ibv_context *local = nullptr, *remote = nullptr;
  ASSERT_EQ(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, &local), 0);
  ASSERT_EQ(rpma_utils_get_ibv_context("localhost", RPMA_UTIL_IBV_CONTEXT_REMOTE, &remote), 0);
  EXPECT_EQ(local, remote);
  EXPECT_STREQ(ibv_get_device_name(local->device), "mlx5_0");
  ibv_context* none = nullptr;
  EXPECT_REFUSED(rpma_utils_get_ibv_context(nullptr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &none), RPMA_E_INVAL,
                 "addr");
  EXPECT_REFUSED(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, nullptr), RPMA_E_INVAL,
                 "ibv_ctx_ptr");
  EXPECT_REFUSED(rpma_utils_get_ibv_context(kAddress, static_cast<rpma_util_ibv_context_type>(2), &none),
                 RPMA_E_INVAL, "type 2");
  EXPECT_REFUSED(rpma_utils_get_ibv_context("no/name", RPMA_UTIL_IBV_CONTEXT_LOCAL, &none), RPMA_E_PROVIDER,
                 "rdma_getaddrinfo for no/name");
  EXPECT_REFUSED(rpma_utils_get_ibv_context("203.0.113.9", RPMA_UTIL_IBV_CONTEXT_LOCAL, &none),
                 RPMA_E_PROVIDER, "rdma_bind_addr");
  EXPECT_REFUSED(rpma_utils_get_ibv_context("0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL, &none), RPMA_E_PROVIDER,
                 "no address of one device");
  EXPECT_EQ(none, nullptr);
}

TEST(RpmaDevices, TellWhetherTheyPageOnDemand) {
  const Log log;
  const Peer peer;
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(peer.device, nullptr, &attributes), 0);
  constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  const bool pages = (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                     (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
  int capable = -1;
  EXPECT_EQ(rpma_utils_ibv_context_is_odp_capable(peer.device, &capable), 0);
  EXPECT_EQ(capable, pages ? 1 : 0);
  EXPECT_REFUSED(rpma_utils_ibv_context_is_odp_capable(nullptr, &capable), RPMA_E_INVAL, "ibv_ctx");
  EXPECT_REFUSED(rpma_utils_ibv_context_is_odp_capable(peer.device, nullptr), RPMA_E_INVAL, "is_odp_capable");
}

TEST(RpmaPeers, StayWhileMemoryIsRegistered) {
  const Log log;
  rpma_peer *peer = nullptr, *none = nullptr;
  ibv_context* device = nullptr;
  ASSERT_EQ(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device), 0);
  EXPECT_REFUSED(rpma_peer_new(nullptr, &none), RPMA_E_INVAL, "ibv_ctx");
  EXPECT_REFUSED(rpma_peer_new(device, nullptr), RPMA_E_INVAL, "peer_ptr");
  EXPECT_REFUSED(rpma_peer_delete(nullptr), RPMA_E_INVAL, "peer_ptr");
  EXPECT_EQ(rpma_peer_delete(&none), 0);
  ASSERT_EQ(rpma_peer_new(device, &peer), 0);
  {
    const Memory memory(peer);
    EXPECT_REFUSED(rpma_peer_delete(&peer), RPMA_E_PROVIDER, "ibv_dealloc_pd failed");
    EXPECT_EQ(errno, EBUSY);
    EXPECT_NE(peer, nullptr);
  }
  EXPECT_EQ(rpma_peer_delete(&peer), 0);
  EXPECT_EQ(peer, nullptr);
}

TEST(RpmaMemory, IsRegisteredForItsUsage) {
  const Log log;
  const Peer peer;
  const Memory memory(peer, 100, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
  void* start = nullptr;
  size_t bytes = 0;
  int flush_type = 0;
  EXPECT_EQ(rpma_mr_get_ptr(memory.local, &start), 0);
  EXPECT_EQ(start, memory.place.data());
  EXPECT_EQ(rpma_mr_get_size(memory.local, &bytes), 0);
  EXPECT_EQ(bytes, 100u);
  EXPECT_EQ(rpma_mr_remote_get_size(memory.remote, &bytes), 0);
  EXPECT_EQ(bytes, 100u);
  EXPECT_EQ(rpma_mr_remote_get_flush_type(memory.remote, &flush_type), 0);
  EXPECT_EQ(flush_type, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
  uint8_t descriptor[21];
  EXPECT_REFUSED(rpma_mr_get_ptr(nullptr, &start), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_get_ptr(memory.local, nullptr), RPMA_E_INVAL, "ptr");
  EXPECT_REFUSED(rpma_mr_get_size(nullptr, &bytes), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_get_size(memory.local, nullptr), RPMA_E_INVAL, "size");
  EXPECT_REFUSED(rpma_mr_get_descriptor(nullptr, descriptor), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_get_descriptor(memory.local, nullptr), RPMA_E_INVAL, "desc");
  EXPECT_REFUSED(rpma_mr_get_descriptor_size(nullptr, &bytes), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_get_descriptor_size(memory.local, nullptr), RPMA_E_INVAL, "desc_size");
}

TEST(RpmaMemory, MustBeThereAndHaveAUse) {
  const Log log;
  const Peer peer;
  char place[16];
  rpma_mr_local* none = nullptr;
  EXPECT_REFUSED(rpma_mr_reg(nullptr, place, 16, kEveryUsage, &none), RPMA_E_INVAL, "peer");
  EXPECT_REFUSED(rpma_mr_reg(peer, nullptr, 16, kEveryUsage, &none), RPMA_E_INVAL, "ptr");
  EXPECT_REFUSED(rpma_mr_reg(peer, place, 16, kEveryUsage, nullptr), RPMA_E_INVAL, "mr_ptr");
  EXPECT_REFUSED(rpma_mr_reg(peer, place, 0, kEveryUsage, &none), RPMA_E_INVAL, "no bytes");
  EXPECT_REFUSED(rpma_mr_reg(peer, place, 16, 0, &none), RPMA_E_INVAL, "usage 0x0");
  EXPECT_REFUSED(rpma_mr_reg(peer, place, 16, kEveryUsage + 1, &none), RPMA_E_INVAL, "usage 0x100");
  void* unmapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(unmapped, 4096);
  EXPECT_REFUSED(rpma_mr_reg(peer, unmapped, 16, RPMA_MR_USAGE_READ_SRC, &none), RPMA_E_PROVIDER,
                 "ibv_reg_mr failed: Bad address");
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(none, nullptr);
  EXPECT_REFUSED(rpma_mr_dereg(nullptr), RPMA_E_INVAL, "mr_ptr");
  EXPECT_EQ(rpma_mr_dereg(&none), 0);
}

TEST(RpmaMemory, TakesAdviceAboutItsRange) {
  const Log log;
  const Peer peer;
  const Memory memory(peer), source(peer, 4096, RPMA_MR_USAGE_READ_SRC);
  constexpr int kRead = IBV_ADVISE_MR_ADVICE_PREFETCH, kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  EXPECT_EQ(rpma_mr_advise(memory.local, 0, 4096, kWrite, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EXPECT_EQ(rpma_mr_advise(memory.local, 4000, 96, kRead, 0), 0);
  EXPECT_EQ(rpma_mr_advise(source.local, 0, 1, kRead, 0), 0);
  EXPECT_REFUSED(rpma_mr_advise(nullptr, 0, 1, kRead, 0), RPMA_E_INVAL, "mr");
  EXPECT_REFUSED(rpma_mr_advise(memory.local, 4000, 97, kRead, 0), RPMA_E_INVAL, "not within");
  EXPECT_REFUSED(rpma_mr_advise(memory.local, 4097, 0, kRead, 0), RPMA_E_INVAL, "not within");
  EXPECT_REFUSED(rpma_mr_advise(source.local, 0, 1, kWrite, 0), RPMA_E_INVAL, "usage 0x1");
  EXPECT_REFUSED(rpma_mr_advise(memory.local, 0, 1, kRead, 2), RPMA_E_INVAL, "flags 0x2");
  EXPECT_REFUSED(rpma_mr_advise(memory.local, 0, 1, 99, 0), RPMA_E_NOSUPP, "advice 99");
}

TEST(RpmaEndpoints, ListenAtAnAddressOfThePeers) {
  const Log log;
  const Peer peer;
  rpma_ep* endpoint = nullptr;
  EXPECT_REFUSED(rpma_ep_listen(nullptr, kAddress, kPort, &endpoint), RPMA_E_INVAL, "peer");
  EXPECT_REFUSED(rpma_ep_listen(peer, nullptr, kPort, &endpoint), RPMA_E_INVAL, "addr");
  EXPECT_REFUSED(rpma_ep_listen(peer, kAddress, nullptr, &endpoint), RPMA_E_INVAL, "port");
  EXPECT_REFUSED(rpma_ep_listen(peer, kAddress, kPort, nullptr), RPMA_E_INVAL, "ep_ptr");
  EXPECT_REFUSED(rpma_ep_listen(peer, "no/name", kPort, &endpoint), RPMA_E_PROVIDER, "rdma_getaddrinfo");
  EXPECT_REFUSED(rpma_ep_listen(peer, "203.0.113.9", kPort, &endpoint), RPMA_E_PROVIDER, "rdma_bind_addr");
  const Listener first(peer);
  EXPECT_REFUSED(rpma_ep_listen(peer, kAddress, kPort, &endpoint), RPMA_E_PROVIDER, "Address already in use");
  EXPECT_EQ(endpoint, nullptr);
  EXPECT_REFUSED(rpma_ep_shutdown(nullptr), RPMA_E_INVAL, "ep_ptr");
  EXPECT_EQ(rpma_ep_shutdown(&endpoint), 0);
}

TEST(RpmaEndpoints, DoNotWaitWhereTheProgramSaysSo) {
  const Log log(RPMA_LOG_LEVEL_DEBUG);
  const Peer peer;
  const Listener listener(peer);
  int fd = -1;
  ASSERT_EQ(rpma_ep_get_fd(listener.endpoint, &fd), 0);
  make_nonblocking(fd);
  rpma_conn_req* request = nullptr;
  EXPECT_REFUSED(rpma_ep_next_conn_req(listener.endpoint, nullptr, &request), RPMA_E_NO_EVENT, "no request");
  EXPECT_REFUSED(rpma_ep_next_conn_req(nullptr, nullptr, &request), RPMA_E_INVAL, "ep");
  EXPECT_REFUSED(rpma_ep_next_conn_req(listener.endpoint, nullptr, nullptr), RPMA_E_INVAL, "req_ptr");
  EXPECT_REFUSED(rpma_ep_get_fd(nullptr, &fd), RPMA_E_INVAL, "ep");
  EXPECT_REFUSED(rpma_ep_get_fd(listener.endpoint, nullptr), RPMA_E_INVAL, "fd");
  EXPECT_EQ(request, nullptr);
}

TEST(RpmaRequests, NeedAWayToTheOtherSide) {
  const Log log;
  const Peer peer;
  rpma_conn_req* request = nullptr;
  EXPECT_REFUSED(rpma_conn_req_new(nullptr, kAddress, kPort, nullptr, &request), RPMA_E_INVAL, "peer");
  EXPECT_REFUSED(rpma_conn_req_new(peer, nullptr, kPort, nullptr, &request), RPMA_E_INVAL, "addr");
  EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, nullptr, nullptr, &request), RPMA_E_INVAL, "port");
  EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, nullptr, nullptr), RPMA_E_INVAL, "req_ptr");
  EXPECT_REFUSED(rpma_conn_req_new(peer, "no/name", kPort, nullptr, &request), RPMA_E_PROVIDER,
                 "rdma_getaddrinfo");
  const Settings cfg = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_cq_size(cfg.get(), UINT32_MAX), 0);
  EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, cfg.get(), &request), RPMA_E_PROVIDER,
                 "ibv_create_cq");
  ASSERT_EQ(rpma_conn_cfg_set_cq_size(cfg.get(), 10), 0);
  ASSERT_EQ(rpma_conn_cfg_set_sq_size(cfg.get(), UINT32_MAX), 0);
  EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, cfg.get(), &request), RPMA_E_PROVIDER,
                 "rdma_create_qp_ex");
  EXPECT_EQ(request, nullptr);
}

TEST(RpmaRequests, AreGivenUpOnBothSides) {
  const Log log;
  const Peer peer;
  const Listener listener(peer);
  EXPECT_REFUSED(rpma_conn_req_delete(nullptr), RPMA_E_INVAL, "req_ptr");
  rpma_conn_req* request = ask(peer);
  EXPECT_EQ(rpma_conn_req_delete(&request), 0);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(rpma_conn_req_delete(&request), 0);
  rpma_conn* conn = connect(ask(peer));
  request = listener.next();
  EXPECT_EQ(rpma_conn_req_delete(&request), 0);
  expect_event(conn, RPMA_CONN_REJECTED);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaRequests, EndWhereTheyAreAskedBadly) {
  const Log log;
  const Peer peer;
  rpma_conn* none = nullptr;
  char data = 'x';
  EXPECT_REFUSED(rpma_conn_req_connect(nullptr, nullptr, &none), RPMA_E_INVAL, "req_ptr");
  rpma_conn_req* request = nullptr;
  EXPECT_REFUSED(rpma_conn_req_connect(&request, nullptr, &none), RPMA_E_INVAL, "req_ptr");
  request = ask(peer);
  EXPECT_REFUSED(rpma_conn_req_connect(&request, nullptr, nullptr), RPMA_E_INVAL, "conn_ptr");
  EXPECT_EQ(request, nullptr);
  for (const rpma_conn_private_data& given :
       {rpma_conn_private_data{&data, 0}, rpma_conn_private_data{nullptr, 1}}) {
    request = ask(peer);
    EXPECT_REFUSED(rpma_conn_req_connect(&request, &given, &none), RPMA_E_INVAL, "private data");
    EXPECT_EQ(request, nullptr);
  }
  EXPECT_EQ(none, nullptr);
}

TEST(RpmaRequests, BringPrivateData) {
  const Log log;
  const Peer peer;
  const Listener listener(peer);
  rpma_conn_req* request = ask(peer);
  rpma_conn_private_data data{&data, 9};
  EXPECT_EQ(rpma_conn_req_get_private_data(request, &data), 0);
  EXPECT_EQ(data.ptr, nullptr);
  EXPECT_EQ(data.len, 0);
  rpma_conn* conn = connect(request, "may I?");
  request = listener.next();
  EXPECT_EQ(rpma_conn_req_get_private_data(request, &data), 0);
  EXPECT_EQ(std::string(static_cast<char*>(data.ptr), 6), "may I?");
  EXPECT_GE(data.len, 6);
  EXPECT_REFUSED(rpma_conn_req_get_private_data(nullptr, &data), RPMA_E_INVAL, "req");
  EXPECT_REFUSED(rpma_conn_req_get_private_data(request, nullptr), RPMA_E_INVAL, "pdata");
  EXPECT_EQ(rpma_conn_req_delete(&request), 0);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaRequests, OutliveTheirEndpoint) {
  const Peer peer;
  rpma_conn *active = nullptr, *passive = nullptr;
  rpma_conn_req* request = nullptr;
  {
    const Listener listener(peer);
    active = connect(ask(peer));
    request = listener.next();
  }
  passive = connect(request);
  expect_event(active, RPMA_CONN_ESTABLISHED);
  expect_event(passive, RPMA_CONN_ESTABLISHED);
  EXPECT_EQ(rpma_conn_delete(&active), 0);
  EXPECT_EQ(rpma_conn_delete(&passive), 0);
}

TEST(RpmaConnections, AreMadeAndClosed) {
  const Log log;
  const Peer peer;
  const Pair pair(peer);
  rpma_conn_private_data data{};
  EXPECT_EQ(rpma_conn_get_private_data(pair.active, &data), 0);
  EXPECT_EQ(std::string(static_cast<char*>(data.ptr), 7), "you may");
  EXPECT_EQ(rpma_conn_get_private_data(pair.passive, &data), 0);
  EXPECT_EQ(std::string(static_cast<char*>(data.ptr), 6), "may I?");
  uint32_t active = 0, passive = 0;
  EXPECT_EQ(rpma_conn_get_qp_num(pair.active, &active), 0);
  EXPECT_EQ(rpma_conn_get_qp_num(pair.passive, &passive), 0);
  EXPECT_NE(active, passive);
  EXPECT_EQ(receive_queue_of(pair.active), nullptr);
  EXPECT_EQ(rpma_conn_disconnect(pair.active), 0);
  expect_event(pair.passive, RPMA_CONN_CLOSED);
  EXPECT_EQ(rpma_conn_disconnect(pair.passive), 0);
  expect_event(pair.active, RPMA_CONN_CLOSED);
}

TEST(RpmaConnections, DoNotWaitWhereTheProgramSaysSo) {
  const Log log(RPMA_LOG_LEVEL_DEBUG);
  const Peer peer;
  const Pair pair(peer);
  int fd = -1;
  ASSERT_EQ(rpma_conn_get_event_fd(pair.active, &fd), 0);
  make_nonblocking(fd);
  rpma_conn_event event = RPMA_CONN_LOST;
  EXPECT_REFUSED(rpma_conn_next_event(pair.active, &event), RPMA_E_NO_EVENT, "no event");
  EXPECT_EQ(event, RPMA_CONN_LOST);
}

TEST(RpmaConnections, AreRejectedWhereNobodyListens) {
  const Peer peer;
  rpma_conn* conn = connect(ask(peer));
  expect_event(conn, RPMA_CONN_REJECTED);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
  EXPECT_EQ(conn, nullptr);
  EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaConnections, RefuseNull) {
  const Log log;
  const Peer peer;
  const Pair pair(peer);
  int fd = -1;
  rpma_conn_event event;
  rpma_conn_private_data data;
  rpma_cq* cq = nullptr;
  uint32_t number = 0;
  rpma_peer_cfg* cfg = nullptr;
  ASSERT_EQ(rpma_peer_cfg_new(&cfg), 0);
  EXPECT_REFUSED(rpma_conn_get_event_fd(nullptr, &fd), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_event_fd(pair.active, nullptr), RPMA_E_INVAL, "fd");
  EXPECT_REFUSED(rpma_conn_next_event(nullptr, &event), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_next_event(pair.active, nullptr), RPMA_E_INVAL, "event");
  EXPECT_REFUSED(rpma_conn_get_private_data(nullptr, &data), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_private_data(pair.active, nullptr), RPMA_E_INVAL, "pdata");
  EXPECT_REFUSED(rpma_conn_apply_remote_peer_cfg(nullptr, cfg), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_apply_remote_peer_cfg(pair.active, nullptr), RPMA_E_INVAL, "pcfg");
  EXPECT_REFUSED(rpma_conn_get_qp_num(nullptr, &number), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_qp_num(pair.active, nullptr), RPMA_E_INVAL, "qp_num");
  EXPECT_REFUSED(rpma_conn_get_cq(nullptr, &cq), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_cq(pair.active, nullptr), RPMA_E_INVAL, "cq_ptr");
  EXPECT_REFUSED(rpma_conn_get_rcq(nullptr, &cq), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_rcq(pair.active, nullptr), RPMA_E_INVAL, "rcq_ptr");
  EXPECT_REFUSED(rpma_conn_get_compl_fd(nullptr, &fd), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_get_compl_fd(pair.active, nullptr), RPMA_E_INVAL, "fd");
  EXPECT_REFUSED(rpma_conn_wait(nullptr, 0, &cq, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_wait(pair.active, 0, nullptr, nullptr), RPMA_E_INVAL, "cq");
  EXPECT_REFUSED(rpma_conn_disconnect(nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_conn_delete(nullptr), RPMA_E_INVAL, "conn_ptr");
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
}

}  // namespace
}  // namespace verbatim::conformance
