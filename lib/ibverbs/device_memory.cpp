// SPDX-License-Identifier: MIT
// Regions of device memory.
#include "lib/ibverbs/device_memory.h"

#include <fcntl.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/memory_region.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;

}  // namespace

ibv_mr* register_device_memory(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, uint32_t access) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const DeviceMemory& memory = *DeviceMemory::of(dm);
  const char* refusal = check_access(access, kAccess);
  if (refusal == nullptr && (access & IBV_ACCESS_ZERO_BASED) == 0)
    refusal = "device memory is addressed from 0: IBV_ACCESS_ZERO_BASED is missing";
  if (refusal == nullptr && memory.context != context) refusal = "the memory is another context's";
  if (refusal != nullptr) return refuse_pointer(*context, EINVAL, std::string("ibv_reg_dm_mr: ") + refusal);
  auto region = std::unique_ptr<MemoryRegion>(new (std::nothrow) MemoryRegion);
  if (region == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  hw::MrSpec spec;
  spec.pd = ProtectionDomain::of(pd)->device;
  spec.dm = memory.device;
  spec.address = offset;
  spec.length = length;
  spec.access = access;
  const auto device = context->hca->create_mr(spec);
  if (!device) return refuse_pointer(*context, device.error());
  region->base.length = length;
  region->access = access;
  return finish_region(std::move(region), pd, *device);
}

int export_device_memory(ibv_dm* dm) {
  Context* context = usable(dm->context);
  if (context == nullptr) return -1;
  const DeviceMemory& memory = *DeviceMemory::of(dm);
  if (memory.kind == hw::DmKind::kMemic && memory.device->file >= 0)
    return ::fcntl(memory.device->file, F_DUPFD_CLOEXEC, 0);
  errno = refuse(*context, EOPNOTSUPP, "ibv_dm_export_dmabuf_fd: no file is behind this device memory");
  return -1;
}

}  // namespace verbatim::verbs

extern "C" int ibv_dm_export_dmabuf_fd(ibv_dm* dm) { return verbatim::verbs::export_device_memory(dm); }
