// SPDX-License-Identifier: MIT
#pragma once

#include "base/dma_buf.h"
#include "lib/ibverbs/dma_handle.h"
#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// A memory region. The public part comes first.
struct MemoryRegion {
  ibv_mr base{};
  hw::Mr* device = nullptr;
  uint32_t access = 0;
  uint64_t iova = 0;
  std::atomic<bool> was_bound{false};  ///< a memory window was to be bound to it
  DomainUse domain_use;
  Use<DmaHandle> handle_use;
  DmaBuf dma_buf;  ///< where the memory is, unless the program has it mapped itself

  static MemoryRegion* of(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }
};

/// Drops optional flags that mean nothing here. Nullptr, or why the others, or what is not `known`, are
/// refused.
const char* check_access(uint32_t& access, uint32_t known);

/// Gives the region what the device and the domain say of it.
ibv_mr* finish_region(std::unique_ptr<MemoryRegion> region, ibv_pd* pd, hw::Mr* device);

/// A part of a DMA-buf; `call` is for the reason of a refusal.
ibv_mr* register_dma_buf(const char* call, ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                         int file, uint32_t access);
/// ibv_reg_dm_mr().
ibv_mr* register_device_memory(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, uint32_t access);

/// ibv_dm_export_dmabuf_fd().
int export_device_memory(ibv_dm* dm);

}  // namespace verbatim::verbs
