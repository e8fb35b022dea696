// SPDX-License-Identifier: MIT
// Regions of DMA-bufs.
#include <unistd.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/memory_region.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

const char* check(uint64_t offset, size_t length, uint64_t iova, uint32_t& access) {
  static const uint64_t in_page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) - 1;
  if (const char* refusal = check_access(access, kAccess)) return refusal;
  if (((offset ^ iova) & in_page) != 0) return "iova and offset lie differently within a page";
  return iova + length < iova ? "the range runs past the end of the address space" : nullptr;
}

}  // namespace

ibv_mr* register_dma_buf(const char* call, ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                         int file, uint32_t access) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const auto refuse = [&](const Error& why) {
    return refuse_pointer(*context, why.code, std::string(call) + ": " + why.reason);
  };
  if (const char* refusal = check(offset, length, iova, access)) return refuse({EINVAL, refusal});
  auto memory = DmaBuf::map(file, offset, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (!memory) return refuse(memory.error());
  auto region = std::unique_ptr<MemoryRegion>(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  hw::MrSpec spec;
  spec.pd = ProtectionDomain::of(pd)->device;
  spec.address = reinterpret_cast<uint64_t>(memory->base());
  spec.length = length;
  spec.start = iova;
  spec.access = access;
  const auto device = context->hca->create_mr(spec);
  if (!device) return refuse(device.error());
  region->base.addr = reinterpret_cast<void*>(offset);
  region->base.length = length;
  region->access = access;
  region->iova = iova;
  region->dma_buf = std::move(*memory);
  return finish_region(std::move(region), pd, *device);
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  return register_dma_buf("ibv_reg_dmabuf_mr", pd, offset, length, iova, fd, static_cast<uint32_t>(access));
}

}  // extern "C"
