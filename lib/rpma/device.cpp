// SPDX-License-Identifier: MIT
// Which device belongs to an address, and what it can do.
#include "lib/rpma/device.h"

#include "lib/rpma/address.h"
#include "lib/rpma/log.h"

namespace verbatim::rpma {
namespace {

// Bits of device_cap_flags_ex.
constexpr uint64_t kFlushes = 1ULL << 38 | 1ULL << 39;  // makes visible, makes persistent
constexpr uint64_t kAtomicWrites = 1ULL << 40;

constexpr uint32_t kPagedOperations = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

/// An id of this call's own, whose calls return when they are done.
class Probe {
 public:
  ~Probe() {
    if (id_ != nullptr) rdma_destroy_id(id_);
  }
  int find(const Address& address, End end) {
    if (rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_TCP) != 0)
      return fail_of_provider("rdma_create_id", errno);
    return end == End::kListening ? address.bind(id_) : address.resolve(id_, RPMA_DEFAULT_TIMEOUT_MS);
  }
  ibv_context* device() const { return id_->verbs; }

 private:
  rdma_cm_id* id_ = nullptr;
};

}  // namespace

int query(ibv_context* verbs, Capabilities& to) {
  ibv_device_attr_ex attributes{};
  if (const int error = ibv_query_device_ex(verbs, nullptr, &attributes); error != 0)
    return fail_of_provider("ibv_query_device_ex", error);
  const ibv_odp_caps& paging = attributes.odp_caps;
  to.paging = (paging.general_caps & IBV_ODP_SUPPORT) != 0 &&
              (paging.per_transport_caps.rc_odp_caps & kPagedOperations) == kPagedOperations;
  to.flush = (attributes.device_cap_flags_ex & kFlushes) == kFlushes;
  to.atomic_write = (attributes.device_cap_flags_ex & kAtomicWrites) != 0;
  return 0;
}

}  // namespace verbatim::rpma

using namespace verbatim::rpma;

extern "C" {

int rpma_utils_get_ibv_context(const char* addr, rpma_util_ibv_context_type type, ibv_context** ibv_ctx_ptr) {
  if (addr == nullptr || ibv_ctx_ptr == nullptr) return fail_of_null("addr or ibv_ctx_ptr");
  if (type != RPMA_UTIL_IBV_CONTEXT_LOCAL && type != RPMA_UTIL_IBV_CONTEXT_REMOTE)
    return fail(RPMA_E_INVAL, "there is no type {} of devices", int{type});
  const End end = type == RPMA_UTIL_IBV_CONTEXT_LOCAL ? End::kListening : End::kConnecting;
  Address address;
  if (const int result = address.find(addr, nullptr, end); result != 0) return result;
  Probe probe;
  if (const int result = probe.find(address, end); result != 0) return result;
  if (probe.device() == nullptr) return fail(RPMA_E_PROVIDER, "{} is no address of one device", addr);
  // Opened devices outlive the ids that use them.
  *ibv_ctx_ptr = probe.device();
  return 0;
}

int rpma_utils_ibv_context_is_odp_capable(ibv_context* ibv_ctx, int* is_odp_capable) {
  if (ibv_ctx == nullptr || is_odp_capable == nullptr) return fail_of_null("ibv_ctx or is_odp_capable");
  Capabilities capabilities;
  if (const int result = query(ibv_ctx, capabilities); result != 0) return result;
  *is_odp_capable = capabilities.paging ? 1 : 0;
  return 0;
}

}  // extern "C"
