// SPDX-License-Identifier: MIT
// DMA handles: hints for the bus, which there is none of here. They are kept with the regions that name them.
#include "lib/ibverbs/dma_handle.h"

#include <sched.h>
#include <unistd.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kTarget = IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;
constexpr uint8_t kHintMax = 3;

bool may_run_on(uint32_t processor) {
  if (processor >= CPU_SETSIZE) return true;  // more than can be asked about
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_ISSET(processor, &allowed);
}

/// Code 0, or why the hints are refused.
Error check(const ibv_dmah_init_attr& hints) {
  if ((hints.comp_mask & ~(kTarget | IBV_DMAH_INIT_ATTR_MASK_PH)) != 0)
    return {EOPNOTSUPP, "unknown bits in comp_mask"};
  if ((hints.comp_mask & IBV_DMAH_INIT_ATTR_MASK_PH) == 0) return {EINVAL, "the processing hint is missing"};
  if (hints.ph > kHintMax) return {EINVAL, "processing hints are 0 to 3"};
  const uint32_t target = hints.comp_mask & kTarget;
  if (target == 0) return {};
  if (target != kTarget) return {EINVAL, "processor and kind of memory are given together or not at all"};
  if (hints.tph_mem_type > IBV_TPH_MEM_TYPE_PM) return {EINVAL, "there is no such kind of memory"};
  if (hints.cpu_id >= static_cast<uint32_t>(::sysconf(_SC_NPROCESSORS_CONF)))
    return {EINVAL, "there is no such processor"};
  if (!may_run_on(hints.cpu_id)) return {EPERM, "this thread may not run on that processor"};
  return {};
}

ibv_dmah* allocate(ibv_context* public_context, ibv_dmah_init_attr* hints) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (const Error why = check(*hints); why.code != 0)
    return refuse_pointer(*context, why.code, "ibv_alloc_dmah: " + why.reason);
  auto* handle = new (std::nothrow) DmaHandle;
  if (handle == nullptr) return refuse_pointer(*context, ENOMEM, "ibv_alloc_dmah: no memory");
  handle->base.context = public_context;
  return &handle->base;
}

int release(ibv_dmah* dmah) {
  auto* handle = DmaHandle::of(dmah);
  if (handle->users != 0)
    return refuse(*Context::of(dmah->context), EBUSY, "ibv_dealloc_dmah: a memory region uses the handle");
  delete handle;
  return 0;
}

}  // namespace

void install_dma_handle_operations(verbs_context& verbs) {
  verbs.alloc_dmah = allocate;
  verbs.dealloc_dmah = release;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr) { return allocate(context, attr); }

int ibv_dealloc_dmah(ibv_dmah* dmah) { return release(dmah); }

}  // extern "C"
