// SPDX-License-Identifier: MIT
// Registrations, and the descriptors by which the other side knows them: address, size, key and usage,
// packed, little-endian, as librpma 1.x writes them.
#include "lib/rpma/memory.h"

#include <endian.h>

#include <memory>

#include "lib/rpma/log.h"
#include "lib/rpma/peer.h"

namespace verbatim::rpma {
namespace {

constexpr int kFlushUsages = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
constexpr int kUsages = 0xff;
/// Those for which a device writes to the memory.
constexpr int kWrittenUsages = RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_RECV;

struct [[gnu::packed]] Descriptor {
  uint64_t address;
  uint64_t bytes;
  uint32_t key;
  uint8_t usage;
};
static_assert(sizeof(Descriptor) == 21);

/// Where the other side's device, or its library, has no flush, it reads instead.
int access_for_flushes(int usage, const Capabilities& can) {
  int access = (usage & kFlushUsages) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
  if (!can.flush) return access;
  if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0) access |= IBV_ACCESS_FLUSH_GLOBAL;
  if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0) access |= IBV_ACCESS_FLUSH_PERSISTENT;
  return access;
}

int access_for(int usage, const Capabilities& can) {
  int access = access_for_flushes(usage, can);
  if ((usage & RPMA_MR_USAGE_READ_SRC) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0) access |= IBV_ACCESS_REMOTE_WRITE;
  // Programs read back into what they write from.
  if ((usage & (kWrittenUsages | RPMA_MR_USAGE_WRITE_SRC)) != 0) access |= IBV_ACCESS_LOCAL_WRITE;
  return access;
}

/// As it is if it can be, for on-demand paging otherwise (files on persistent memory).
ibv_mr* register_memory(const rpma_peer& peer, void* start, size_t bytes, int access, bool& paged) {
  ibv_mr* region = ibv_reg_mr(peer.domain, start, bytes, access);
  if (region != nullptr || errno != EOPNOTSUPP || !peer.can.paging) return region;
  paged = true;
  return ibv_reg_mr(peer.domain, start, bytes, access | IBV_ACCESS_ON_DEMAND);
}

int check_descriptor(const Descriptor& from) {
  if (from.usage == 0) return fail(RPMA_E_NOSUPP, "the descriptor is of memory for no use");
  const uint64_t address = le64toh(from.address), bytes = le64toh(from.bytes);
  if (bytes == 0 || address + (bytes - 1) < address)
    return fail(RPMA_E_NOSUPP, "the descriptor is of no memory: {} bytes at {:#x}", bytes, address);
  return 0;
}

int check_advice(const rpma_mr_local& memory, size_t offset, size_t bytes, int advice, uint32_t flags) {
  const size_t all = memory.region->length;
  if (offset > all || bytes > all - offset)
    return fail(RPMA_E_INVAL, "{} bytes at offset {} are not within the registration's {}", bytes, offset,
                all);
  if (bytes > UINT32_MAX) return fail(RPMA_E_INVAL, "{} bytes are more than an advice is about", bytes);
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0)
    return fail(RPMA_E_INVAL, "flags {:#x} are not known", flags);
  if (advice < IBV_ADVISE_MR_ADVICE_PREFETCH || advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return fail(RPMA_E_NOSUPP, "there is no advice {}", advice);
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && (memory.usage & kWrittenUsages) == 0)
    return fail(RPMA_E_INVAL, "usage {:#x} lets nobody write what the advice wants writable", memory.usage);
  return 0;
}

}  // namespace
}  // namespace verbatim::rpma

using namespace verbatim::rpma;

extern "C" {

int rpma_mr_reg(rpma_peer* peer, void* ptr, size_t size, int usage, rpma_mr_local** mr_ptr) {
  if (peer == nullptr || ptr == nullptr || mr_ptr == nullptr) return fail_of_null("peer, ptr or mr_ptr");
  if (size == 0) return fail(RPMA_E_INVAL, "no memory has no bytes to register");
  if (usage == 0 || (usage & ~kUsages) != 0)
    return fail(RPMA_E_INVAL, "usage {:#x} is none of those known", usage);
  std::unique_ptr<rpma_mr_local> memory(new (std::nothrow) rpma_mr_local);
  if (memory == nullptr) return fail_of_memory();
  const int access = access_for(usage, peer->can);
  memory->usage = usage;
  memory->region = register_memory(*peer, ptr, size, access, memory->paged);
  if (memory->region == nullptr) {
    const int error = errno;
    log(RPMA_LOG_LEVEL_ERROR, "{} bytes at {} cannot be registered for access {:#x}", size, ptr, access);
    return fail_of_provider("ibv_reg_mr", error);
  }
  *mr_ptr = memory.release();
  return 0;
}

int rpma_mr_dereg(rpma_mr_local** mr_ptr) {
  if (mr_ptr == nullptr) return fail_of_null("mr_ptr");
  if (*mr_ptr == nullptr) return 0;
  // What is bound to it keeps it, and it can be tried again.
  if (const int error = ibv_dereg_mr((*mr_ptr)->region); error != 0)
    return fail_of_provider("ibv_dereg_mr", error);
  delete *mr_ptr;
  *mr_ptr = nullptr;
  return 0;
}

int rpma_mr_get_descriptor(const rpma_mr_local* mr, void* desc) {
  if (mr == nullptr || desc == nullptr) return fail_of_null("mr or desc");
  const Descriptor descriptor{htole64(reinterpret_cast<uintptr_t>(mr->region->addr)),
                              htole64(mr->region->length), htole32(mr->region->rkey),
                              static_cast<uint8_t>(mr->usage)};
  std::memcpy(desc, &descriptor, sizeof descriptor);
  return 0;
}

int rpma_mr_get_descriptor_size(const rpma_mr_local* mr, size_t* desc_size) {
  if (mr == nullptr || desc_size == nullptr) return fail_of_null("mr or desc_size");
  *desc_size = sizeof(Descriptor);
  return 0;
}

int rpma_mr_get_ptr(const rpma_mr_local* mr, void** ptr) {
  if (mr == nullptr || ptr == nullptr) return fail_of_null("mr or ptr");
  *ptr = mr->region->addr;
  return 0;
}

int rpma_mr_get_size(const rpma_mr_local* mr, size_t* size) {
  if (mr == nullptr || size == nullptr) return fail_of_null("mr or size");
  *size = mr->region->length;
  return 0;
}

int rpma_mr_advise(rpma_mr_local* mr, size_t offset, size_t len, int advice, uint32_t flags) {
  if (mr == nullptr) return fail_of_null("mr");
  if (const int result = check_advice(*mr, offset, len, advice, flags); result != 0) return result;
  // What the device found at registration it need not fetch.
  if (!mr->paged) return 0;
  ibv_sge part = part_of(*mr, offset, len);
  const int error = ibv_advise_mr(mr->region->pd, static_cast<ibv_advise_mr_advice>(advice), flags, &part, 1);
  if (error == 0) return 0;
  const int result = fail_of_provider("ibv_advise_mr", error);
  if (error == EOPNOTSUPP) return RPMA_E_NOSUPP;
  return error == EFAULT || error == EINVAL ? RPMA_E_INVAL : result;
}

int rpma_mr_remote_from_descriptor(const void* desc, size_t desc_size, rpma_mr_remote** mr_ptr) {
  if (desc == nullptr || mr_ptr == nullptr) return fail_of_null("desc or mr_ptr");
  Descriptor from;
  if (desc_size < sizeof from)
    return fail(RPMA_E_INVAL, "a descriptor of {} bytes is shorter than {}", desc_size, sizeof from);
  std::memcpy(&from, desc, sizeof from);
  if (const int result = check_descriptor(from); result != 0) return result;
  auto* memory = new (std::nothrow) rpma_mr_remote;
  if (memory == nullptr) return fail_of_memory();
  *memory = {le64toh(from.address), le64toh(from.bytes), le32toh(from.key), from.usage};
  log(RPMA_LOG_LEVEL_DEBUG, "remote memory: {} bytes at {:#x}, key {:#x}, usage {:#x}", memory->bytes,
      memory->address, memory->key, memory->usage);
  *mr_ptr = memory;
  return 0;
}

int rpma_mr_remote_delete(rpma_mr_remote** mr_ptr) {
  if (mr_ptr == nullptr) return fail_of_null("mr_ptr");
  delete *mr_ptr;
  *mr_ptr = nullptr;
  return 0;
}

int rpma_mr_remote_get_size(const rpma_mr_remote* mr, size_t* size) {
  if (mr == nullptr || size == nullptr) return fail_of_null("mr or size");
  *size = mr->bytes;
  return 0;
}

int rpma_mr_remote_get_flush_type(const rpma_mr_remote* mr, int* flush_type) {
  if (mr == nullptr || flush_type == nullptr) return fail_of_null("mr or flush_type");
  *flush_type = mr->usage & kFlushUsages;
  return 0;
}

}  // extern "C"
