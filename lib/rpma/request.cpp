// SPDX-License-Identifier: MIT
// Connection requests.
#include "lib/rpma/request.h"

#include "lib/rpma/address.h"
#include "lib/rpma/connection.h"
#include "lib/rpma/posting.h"

namespace verbatim::rpma {

const rpma_conn_cfg& settings_or_default(const rpma_conn_cfg* given) {
  static const rpma_conn_cfg defaults;
  return given != nullptr ? *given : defaults;
}

std::unique_ptr<rpma_conn_req> make_request(rpma_peer* peer) {
  std::unique_ptr<rpma_conn_req> request(new (std::nothrow) rpma_conn_req);
  if (request == nullptr) return nullptr;
  request->link.reset(new (std::nothrow) Link);
  if (request->link == nullptr) return nullptr;
  request->link->peer = peer;
  return request;
}

namespace {

constexpr uint8_t kRetriesWithoutEnd = 7;

/// Finds the way to an address on an id of its own.
int find_way(Link& link, const char* address, const char* port, int timeout_ms) {
  Address to;
  if (const int result = to.find(address, port, End::kConnecting); result != 0) return result;
  if (rdma_create_id(nullptr, &link.id, nullptr, RDMA_PS_TCP) != 0)
    return fail_of_provider("rdma_create_id", errno);
  if (const int result = to.resolve(link.id, timeout_ms); result != 0) return result;
  return rdma_resolve_route(link.id, timeout_ms) == 0 ? 0 : fail_of_provider("rdma_resolve_route", errno);
}

rdma_conn_param parameters(const rpma_conn_private_data* data) {
  rdma_conn_param to{};
  if (data != nullptr) {
    to.private_data = data->ptr;
    to.private_data_len = data->len;
  }
  to.responder_resources = RDMA_MAX_RESP_RES;
  to.initiator_depth = RDMA_MAX_INIT_DEPTH;
  to.flow_control = 1;
  to.retry_count = to.rnr_retry_count = kRetriesWithoutEnd;
  return to;
}

int check_private_data(const rpma_conn_private_data* data) {
  if (data == nullptr || (data->ptr != nullptr && data->len > 0)) return 0;
  return fail(RPMA_E_INVAL, "private data is given, and there are {} bytes at {}", data->len, data->ptr);
}

int ask_or_agree(const rpma_conn_req& request, rdma_conn_param with) {
  Link& link = *request.link;
  if (!request.is_incoming)
    return rdma_connect(link.id, &with) == 0 ? 0 : fail_of_provider("rdma_connect", errno);
  if (rdma_accept(link.id, &with) != 0) return fail_of_provider("rdma_accept", errno);
  link.is_asked = false;
  return 0;
}

}  // namespace
}  // namespace verbatim::rpma

using namespace verbatim::rpma;

extern "C" {

int rpma_conn_req_new(rpma_peer* peer, const char* addr, const char* port, const rpma_conn_cfg* cfg,
                      rpma_conn_req** req_ptr) {
  if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr)
    return fail_of_null("peer, addr, port or req_ptr");
  const rpma_conn_cfg& settings = settings_or_default(cfg);
  std::unique_ptr<rpma_conn_req> request = make_request(peer);
  if (request == nullptr) return fail_of_memory();
  if (const int result = find_way(*request->link, addr, port, settings.timeout_ms); result != 0)
    return result;
  if (const int result = request->link->build(settings); result != 0) return result;
  log(RPMA_LOG_LEVEL_NOTICE, "a connection to {} port {} is asked for", addr, port);
  *req_ptr = request.release();
  return 0;
}

int rpma_conn_req_delete(rpma_conn_req** req_ptr) {
  if (req_ptr == nullptr) return fail_of_null("req_ptr");
  const std::unique_ptr<rpma_conn_req> request(*req_ptr);
  *req_ptr = nullptr;
  return request != nullptr ? request->link->close() : 0;
}

int rpma_conn_req_connect(rpma_conn_req** req_ptr, const rpma_conn_private_data* pdata,
                          rpma_conn** conn_ptr) {
  if (req_ptr == nullptr || *req_ptr == nullptr) return fail_of_null("req_ptr or *req_ptr");
  // Ends here in any case.
  const std::unique_ptr<rpma_conn_req> request(*req_ptr);
  *req_ptr = nullptr;
  if (conn_ptr == nullptr) return fail_of_null("conn_ptr");
  if (const int result = check_private_data(pdata); result != 0) return result;
  std::unique_ptr<rpma_conn> conn(new (std::nothrow) rpma_conn);
  if (conn == nullptr) return fail_of_memory();
  if (const int result = conn->prepare(*request->link); result != 0) return result;
  if (const int result = ask_or_agree(*request, parameters(pdata)); result != 0) return result;
  conn->link = std::move(request->link);
  *conn_ptr = conn.release();
  return 0;
}

int rpma_conn_req_recv(rpma_conn_req* req, rpma_mr_local* dst, size_t offset, size_t len,
                       const void* op_context) {
  if (req == nullptr || dst == nullptr) return fail_of_null("req or dst");
  return post_receive(*req->link->id->qp, dst, offset, len, op_context);
}

int rpma_conn_req_get_private_data(const rpma_conn_req* req, rpma_conn_private_data* pdata) {
  if (req == nullptr || pdata == nullptr) return fail_of_null("req or pdata");
  *pdata = req->link->data.view();
  return 0;
}

}  // extern "C"
