// SPDX-License-Identifier: MIT
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "tests/conformance/rpma_faults.h"

#undef ibv_reg_mr

namespace verbatim::conformance {
namespace {

std::string failing;
int failing_with = 0, calls_to_go = 0, next_event_type = -1;
bool struck = false;
ibv_cq *next_queue = nullptr, *lent = nullptr, *owed = nullptr;  // the last: whose event it was
std::atomic<bool> memory_is_out = false;
ibv_qp_ex* pretended = nullptr;
uint64_t operations_asked = 0;

/// Whether this call of that name is the one that fails. Sets errno.
bool fails(const char* call) {
  if (failing != call || struck || calls_to_go-- > 0) return false;
  struck = true;
  errno = failing_with;
  return true;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// A call that gives 0 or an errno value, or -1 with errno, and does what it is for in any case.
template <class Call>
int then_fail(const char* name, bool by_errno, Call call) {
  const bool fail = fails(name);
  const int result = call();
  if (!fail) return result;
  errno = failing_with;
  return by_errno ? -1 : failing_with;
}

}  // namespace

Fault::Fault(std::string call, int error, int calls_before) {
  failing = std::move(call);
  failing_with = error;
  calls_to_go = calls_before;
  struck = false;
}
Fault::~Fault() { failing.clear(); }
bool Fault::has_struck() { return struck; }

PretendedOperations::PretendedOperations(ibv_qp_ex& as) { pretended = &as; }
PretendedOperations::~PretendedOperations() { pretended = nullptr; }
uint64_t PretendedOperations::asked() { return operations_asked; }

void turn_next_event_into(int type) { next_event_type = type; }
void turn_next_completion_event_into(ibv_cq* cq) { next_queue = cq; }

NoMemory::NoMemory() { memory_is_out = true; }
NoMemory::~NoMemory() { memory_is_out = false; }
bool NoMemory::works() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

}  // namespace verbatim::conformance

using namespace verbatim::conformance;

#pragma GCC visibility push(default)
extern "C" {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* __libc_malloc(size_t bytes);

void* malloc(size_t bytes) {
  Dl_info caller;
  if (memory_is_out && dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr &&
      std::strstr(caller.dli_fname, "librpma.so") != nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}
#endif

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return fails("ibv_alloc_pd") ? nullptr : real<decltype(ibv_alloc_pd)>("ibv_alloc_pd")(context);
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return fails("ibv_reg_mr") ? nullptr : real<decltype(ibv_reg_mr)>("ibv_reg_mr")(pd, addr, length, access);
}
int ibv_dereg_mr(ibv_mr* mr) {
  return fails("ibv_dereg_mr") ? errno : real<decltype(ibv_dereg_mr)>("ibv_dereg_mr")(mr);
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (fails("ibv_create_comp_channel")) return nullptr;
  return real<decltype(ibv_create_comp_channel)>("ibv_create_comp_channel")(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return then_fail("ibv_destroy_comp_channel", false, [&] {
    return real<decltype(ibv_destroy_comp_channel)>("ibv_destroy_comp_channel")(channel);
  });
}
ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
  if (fails("ibv_create_cq")) return nullptr;
  return real<decltype(ibv_create_cq)>("ibv_create_cq")(context, cqe, cq_context, channel, vector);
}
int ibv_destroy_cq(ibv_cq* cq) {
  return then_fail("ibv_destroy_cq", false,
                   [&] { return real<decltype(ibv_destroy_cq)>("ibv_destroy_cq")(cq); });
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  const int result = real<decltype(ibv_get_cq_event)>("ibv_get_cq_event")(channel, cq, cq_context);
  if (result != 0 || next_queue == nullptr) return result;
  owed = std::exchange(*cq, std::exchange(next_queue, nullptr));
  lent = *cq;
  return 0;
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) {
  const bool is_lent = cq == lent;
  if (is_lent) lent = nullptr;
  real<decltype(ibv_ack_cq_events)>("ibv_ack_cq_events")(is_lent ? owed : cq, events);
}
ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return fails("ibv_create_srq") ? nullptr : real<decltype(ibv_create_srq)>("ibv_create_srq")(pd, attributes);
}
int ibv_destroy_srq(ibv_srq* srq) {
  return then_fail("ibv_destroy_srq", false,
                   [&] { return real<decltype(ibv_destroy_srq)>("ibv_destroy_srq")(srq); });
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return pretended != nullptr ? pretended : real<decltype(ibv_qp_to_qp_ex)>("ibv_qp_to_qp_ex")(qp);
}
int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  const bool extended = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  operations_asked = extended ? attributes->send_ops_flags : 0;
  if (pretended != nullptr) attributes->comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};
  return real<decltype(rdma_create_qp_ex)>("rdma_create_qp_ex")(id, attributes);
}

rdma_event_channel* rdma_create_event_channel() {
  if (fails("rdma_create_event_channel")) return nullptr;
  return real<decltype(rdma_create_event_channel)>("rdma_create_event_channel")();
}
int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
  return fails("rdma_create_id") ? -1
                                 : real<decltype(rdma_create_id)>("rdma_create_id")(channel, id, context, ps);
}
int rdma_destroy_id(rdma_cm_id* id) {
  return fails("rdma_destroy_id") ? -1 : real<decltype(rdma_destroy_id)>("rdma_destroy_id")(id);
}
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return fails("rdma_migrate_id") ? -1 : real<decltype(rdma_migrate_id)>("rdma_migrate_id")(id, channel);
}
int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
  if (fails("rdma_getaddrinfo")) return -1;
  return real<decltype(rdma_getaddrinfo)>("rdma_getaddrinfo")(node, service, hints, res);
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return fails("rdma_bind_addr") ? -1 : real<decltype(rdma_bind_addr)>("rdma_bind_addr")(id, address);
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
  if (fails("rdma_resolve_addr")) return -1;
  return real<decltype(rdma_resolve_addr)>("rdma_resolve_addr")(id, from, to, timeout_ms);
}
int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return fails("rdma_resolve_route")
             ? -1
             : real<decltype(rdma_resolve_route)>("rdma_resolve_route")(id, timeout_ms);
}
int rdma_listen(rdma_cm_id* id, int backlog) {
  return fails("rdma_listen") ? -1 : real<decltype(rdma_listen)>("rdma_listen")(id, backlog);
}
int rdma_connect(rdma_cm_id* id, rdma_conn_param* with) {
  return fails("rdma_connect") ? -1 : real<decltype(rdma_connect)>("rdma_connect")(id, with);
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* with) {
  return fails("rdma_accept") ? -1 : real<decltype(rdma_accept)>("rdma_accept")(id, with);
}
int rdma_reject(rdma_cm_id* id, const void* data, uint8_t bytes) {
  return then_fail("rdma_reject", true,
                   [&] { return real<decltype(rdma_reject)>("rdma_reject")(id, data, bytes); });
}
int rdma_disconnect(rdma_cm_id* id) {
  return fails("rdma_disconnect") ? -1 : real<decltype(rdma_disconnect)>("rdma_disconnect")(id);
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (fails("rdma_get_cm_event")) return -1;
  const int result = real<decltype(rdma_get_cm_event)>("rdma_get_cm_event")(channel, event);
  if (result == 0 && next_event_type >= 0)
    (*event)->event = static_cast<rdma_cm_event_type>(std::exchange(next_event_type, -1));
  return result;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  return then_fail("rdma_ack_cm_event", true,
                   [&] { return real<decltype(rdma_ack_cm_event)>("rdma_ack_cm_event")(event); });
}

}  // extern "C"
#pragma GCC visibility pop
