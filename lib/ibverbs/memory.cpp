// SPDX-License-Identifier: MIT
// Memory regions.
#include <unistd.h>

#include <new>

#include "lib/ibverbs/advice.h"
#include "lib/ibverbs/buffers.h"
#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/memory_region.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {

ibv_mr* finish_region(std::unique_ptr<MemoryRegion> region, ibv_pd* pd, hw::Mr* device) {
  region->device = device;
  region->base.context = pd->context;
  region->base.pd = pd;
  region->base.handle = device->lkey >> 8;
  region->base.lkey = device->lkey;
  region->base.rkey = device->rkey;
  region->domain_use = DomainUse(*ProtectionDomain::of(pd));
  return &region.release()->base;
}

const char* check_access(uint32_t& access, uint32_t known) {
  constexpr uint32_t kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  access &= ~static_cast<uint32_t>(IBV_ACCESS_OPTIONAL_RANGE) | IBV_ACCESS_RELAXED_ORDERING;
  if ((access & ~(known | IBV_ACCESS_RELAXED_ORDERING)) != 0) return "unknown or unsupported access flags";
  if ((access & kNeedLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return "remote write and remote atomic need IBV_ACCESS_LOCAL_WRITE";
  return nullptr;
}

namespace {

constexpr uint32_t kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                             IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL |
                             IBV_ACCESS_FLUSH_PERSISTENT;

/// The whole address space, to be looked up on demand.
bool is_implicit(const void* address, size_t length, uint32_t access) {
  return (access & IBV_ACCESS_ON_DEMAND) != 0 && address == nullptr && length == SIZE_MAX;
}

const char* check_range(const void* address, size_t length, uint64_t iova, uint32_t access) {
  if (is_implicit(address, length, access)) return nullptr;
  static const uint64_t in_page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) - 1;
  const auto start = reinterpret_cast<uint64_t>(address);
  if (length == 0) return "the length is 0";
  if (start + length < start || iova + length < iova)
    return "the range runs past the end of the address space";
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 && ((start ^ iova) & in_page) != 0)
    return "iova and address lie differently within a page";
  return nullptr;
}

hw::MrSpec make_spec(ibv_pd* pd, const void* address, size_t length, uint64_t iova, uint32_t access) {
  hw::MrSpec spec;
  spec.pd = ProtectionDomain::of(pd)->device;
  spec.address = reinterpret_cast<uint64_t>(address);
  spec.length = length;
  spec.start = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  spec.access = access;
  return spec;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova, uint32_t access) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const char* refusal = check_access(access, kAccess);
  if (refusal == nullptr) refusal = check_range(address, length, iova, access);
  if (refusal != nullptr)
    return refuse_pointer(*context, EINVAL, std::string("memory registration: ") + refusal);
  auto region = std::unique_ptr<MemoryRegion>(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  auto device = context->hca->create_mr(make_spec(pd, address, length, iova, access));
  if (!device) return refuse_pointer(*context, device.error());
  region->base.addr = address;
  region->base.length = length;
  region->access = access;
  region->iova = iova;
  ibv_mr* made = finish_region(std::move(region), pd, *device);
  expect_advice(*MemoryRegion::of(made));
  return made;
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  auto region = std::unique_ptr<MemoryRegion>(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  auto device = context->hca->create_null_mr(ProtectionDomain::of(pd)->device);
  if (!device) return refuse_pointer(*context, device.error());
  region->base.length = SIZE_MAX;
  return finish_region(std::move(region), pd, *device);
}

/// With the buffer's part resolved, and without the DMA handle.
ibv_mr* register_part(Context& context, ibv_pd* pd, const ibv_mr_init_attr& attributes) {
  constexpr uint64_t kFile = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
  const uint64_t file = attributes.comp_mask & kFile;
  const bool has_address = (attributes.comp_mask & IBV_REG_MR_MASK_ADDR) != 0;
  if (file == 0 ? !has_address : has_address || file != kFile)
    return refuse_pointer(context, EINVAL,
                          "ibv_reg_mr_ex: what to register is either an address or a file with an offset");
  const bool has_iova = (attributes.comp_mask & IBV_REG_MR_MASK_IOVA) != 0;
  if (!has_address)
    return register_dma_buf("ibv_reg_mr_ex", pd, attributes.fd_offset, attributes.length,
                            has_iova ? attributes.iova : 0, attributes.fd,
                            static_cast<uint32_t>(attributes.access));
  return register_memory(pd, attributes.addr, attributes.length,
                         has_iova ? attributes.iova : reinterpret_cast<uint64_t>(attributes.addr),
                         static_cast<uint32_t>(attributes.access));
}

/// Why the DMA handle cannot go with the region, or nullptr.
const char* check_handle(const ibv_pd* pd, const ibv_mr_init_attr& attributes) {
  if ((attributes.comp_mask & IBV_REG_MR_MASK_DMAH) == 0) return nullptr;
  if (attributes.dmah == nullptr || attributes.dmah->context != pd->context)
    return "there is no DMA handle, or it is of another context";
  const bool on_demand = (attributes.access & IBV_ACCESS_ON_DEMAND) != 0;
  return on_demand ? "DMA handles are for memory that is registered without IBV_ACCESS_ON_DEMAND" : nullptr;
}

ibv_mr* register_as_described(ibv_pd* pd, ibv_mr_init_attr* wanted) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  constexpr uint64_t kKnown = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |
                              IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_BUF;
  if ((wanted->comp_mask & ~kKnown) != 0)
    return refuse_pointer(*context, EINVAL, "ibv_reg_mr_ex: unknown bits in comp_mask");
  if (const char* refusal = check_handle(pd, *wanted))
    return refuse_pointer(*context, EINVAL, std::string("ibv_reg_mr_ex: ") + refusal);
  ibv_mr_init_attr attributes = *wanted;
  if ((attributes.comp_mask & IBV_REG_MR_MASK_BUF) != 0)
    if (const char* refusal = locate_in_buffer(pd, attributes))
      return refuse_pointer(*context, EINVAL, std::string("ibv_reg_mr_ex: ") + refusal);
  ibv_mr* made = register_part(*context, pd, attributes);
  if (made != nullptr && (attributes.comp_mask & IBV_REG_MR_MASK_DMAH) != 0)
    MemoryRegion::of(made)->handle_use = Use<DmaHandle>(*DmaHandle::of(attributes.dmah));
  return made;
}

/// Why ibv_rereg_mr() refuses before anything is changed, or nullptr.
const char* check_change(const MemoryRegion& region, uint32_t flags, const ibv_pd* pd, const void* address,
                         size_t length, uint32_t& access) {
  if (flags == 0 || (flags & ~static_cast<uint32_t>(IBV_REREG_MR_FLAGS_SUPPORTED)) != 0)
    return "no flags, or unknown ones";
  if (region.dma_buf) return "a region of a DMA-buf cannot be changed";
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) return "no protection domain to change to";
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd->context != region.base.context)
    return "the protection domain is of another context";
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0 && access != 0)
    return "access without IBV_REREG_MR_CHANGE_ACCESS";
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
    if (const char* refusal = check_access(access, kAccess)) return refusal;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) == 0) return nullptr;
  if (address == nullptr) return "the new address is NULL";
  const uint32_t in_force = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : region.access;
  return check_range(address, length, reinterpret_cast<uint64_t>(address), in_force);
}

}  // namespace

void install_memory_operations(verbs_context& verbs) {
  verbs.alloc_null_mr = alloc_null_mr;
  verbs.advise_mr = advise_memory;
  verbs.reg_dm_mr = register_device_memory;
  verbs.dm_export_dmabuf_fd = export_device_memory;
  verbs.reg_mr_ex = register_as_described;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return register_memory(pd, addr, length, iova, static_cast<uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attributes) {
  return register_as_described(pd, attributes);
}

int ibv_rereg_mr(ibv_mr* mr, int signed_flags, ibv_pd* pd, void* addr, size_t length, int signed_access) {
  Context* context = usable(mr->context);
  if (context == nullptr) return IBV_REREG_MR_ERR_INPUT;
  MemoryRegion& region = *MemoryRegion::of(mr);
  const auto flags = static_cast<uint32_t>(signed_flags);
  auto access = static_cast<uint32_t>(signed_access);
  if (const char* refusal = check_change(region, flags, pd, addr, length, access)) {
    errno = refuse(*context, EINVAL, std::string("ibv_rereg_mr: ") + refusal);
    return IBV_REREG_MR_ERR_INPUT;
  }
  const bool new_range = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  ibv_pd* domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd;
  void* address = new_range ? addr : mr->addr;
  const size_t bytes = new_range ? length : mr->length;
  const uint64_t iova = new_range ? reinterpret_cast<uint64_t>(addr) : region.iova;
  const uint32_t rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : region.access;
  expect_no_advice(region);
  const auto outcome =
      context->hca->modify_mr(region.device, flags, make_spec(domain, address, bytes, iova, rights));
  if (const int error = settle(*context, outcome)) {
    errno = error;
    return IBV_REREG_MR_ERR_CMD;
  }
  region.domain_use = DomainUse(*ProtectionDomain::of(domain));
  region.access = rights;
  region.iova = iova;
  mr->pd = domain;
  mr->addr = address;
  mr->length = bytes;
  mr->lkey = region.device->lkey;
  mr->rkey = region.device->rkey;
  expect_advice(region);
  return 0;
}

int ibv_dereg_mr(ibv_mr* mr) {
  Context& context = *Context::of(mr->context);
  MemoryRegion* region = MemoryRegion::of(mr);
  if (!context.abandoned) {
    if (region->was_bound && context.provider->has_windows(context, *region))
      return refuse(context, EBUSY, "ibv_dereg_mr: a memory window is still bound to the region");
    if (const int error = settle(context, context.hca->destroy_mr(region->device))) return error;
  }
  expect_no_advice(*region);
  delete region;
  return 0;
}

}  // extern "C"
