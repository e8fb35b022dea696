// SPDX-License-Identifier: MIT
// Device memory of all kinds, and the addresses that operate on it.
#include "lib/ibverbs/device_memory.h"

#include <cstring>
#include <new>
#include <optional>

#include "lib/mlx5/direct.h"

namespace verbatim::mlx5 {
namespace {

using verbs::DeviceMemory;

constexpr size_t kWord = 4;  ///< of which all copies are multiples

std::optional<hw::DmKind> kind_of(mlx5dv_alloc_dm_type type) {
  switch (type) {
    case MLX5DV_DM_TYPE_MEMIC:
      return hw::DmKind::kMemic;
    case MLX5DV_DM_TYPE_STEERING_SW_ICM:
      return hw::DmKind::kSteering;
    case MLX5DV_DM_TYPE_HEADER_MODIFY_SW_ICM:
      return hw::DmKind::kHeaderModify;
    case MLX5DV_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM:
      return hw::DmKind::kHeaderModifyPattern;
    case MLX5DV_DM_TYPE_ENCAP_SW_ICM:
      return hw::DmKind::kEncapsulation;
  }
  return {};
}

/// The place of a copy, or 0 or why there is none: the device copies whole words of memory that the program
/// can reach.
int locate(const DeviceMemory& memory, uint64_t offset, size_t length, uint32_t*& words) {
  if (memory.kind != hw::DmKind::kMemic) return EOPNOTSUPP;
  const uint64_t bytes = memory.device->bytes;
  if (offset > bytes || length > bytes - offset) return EFAULT;
  if (offset % kWord != 0 || length % kWord != 0) return EINVAL;
  words = reinterpret_cast<uint32_t*>(memory.device->base + offset);
  return 0;
}

int copy_to(ibv_dm* dm, uint64_t offset, const void* from, size_t length) {
  uint32_t* words = nullptr;
  if (const int error = locate(*DeviceMemory::of(dm), offset, length, words)) return error;
  for (size_t i = 0; i < length / kWord; i++) {
    uint32_t word;
    std::memcpy(&word, static_cast<const std::byte*>(from) + i * kWord, kWord);
    __atomic_store_n(&words[i], word, __ATOMIC_RELAXED);
  }
  return 0;
}

int copy_from(void* to, ibv_dm* dm, uint64_t offset, size_t length) {
  uint32_t* words = nullptr;
  if (const int error = locate(*DeviceMemory::of(dm), offset, length, words)) return error;
  for (size_t i = 0; i < length / kWord; i++) {
    const uint32_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
    std::memcpy(static_cast<std::byte*>(to) + i * kWord, &word, kWord);
  }
  return 0;
}

ibv_dm* wrap(verbs::Context& context, hw::Dm* device, hw::DmKind kind) {
  auto* memory = new (std::nothrow) DeviceMemory;
  if (memory == nullptr) return nullptr;
  memory->base.context = &context.verbs.context;
  memory->base.memcpy_to_dm = copy_to;
  memory->base.memcpy_from_dm = copy_from;
  memory->context = &context;
  memory->device = device;
  memory->kind = kind;
  return &memory->base;
}

/// The child of a fork may allocate on its parent's context, as the kernel lets it; such memory is its own.
ibv_dm* allocate(verbs::Context* context, const ibv_alloc_dm_attr& wanted, hw::DmKind kind) {
  if (wanted.comp_mask != 0)
    return verbs::refuse_pointer(*context, EINVAL, "device memory: unknown bits in comp_mask");
  const auto device =
      context->hca->create_dm({kind, wanted.length, wanted.log_align_req, context->abandoned});
  if (!device) return verbs::refuse_pointer(*context, device.error());
  ibv_dm* made = wrap(*context, *device, kind);
  if (made == nullptr) {
    static_cast<void>(context->hca->destroy_dm(*device));
    return verbs::refuse_pointer(*context, ENOMEM, "no memory for device memory");
  }
  DeviceMemory& memory = *DeviceMemory::of(made);
  if ((memory.detached = context->abandoned)) return made;
  if (kind == hw::DmKind::kMemic) verbs::verbatim_show_device_memory(made);
  return made;
}

ibv_dm* allocate_plain(ibv_context* context, ibv_alloc_dm_attr* wanted) {
  return allocate(verbs::Context::of(context), *wanted, hw::DmKind::kMemic);
}

int release(ibv_dm* dm) {
  DeviceMemory* memory = DeviceMemory::of(dm);
  verbs::Context& context = *memory->context;
  if (!context.abandoned || memory->detached)
    if (const int error = verbs::settle(context, context.hca->destroy_dm(memory->device))) return error;
  if (!context.abandoned) verbs::verbatim_hide_device_memory(dm);
  delete memory;
  return 0;
}

}  // namespace

ibv_dm* wrap_dm(verbs::Context& context, hw::Dm* device) { return wrap(context, device, hw::DmKind::kMemic); }

void install_device_memory(verbs_context& verbs) {
  verbs.alloc_dm = allocate_plain;
  verbs.free_dm = release;
}

}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

ibv_dm* mlx5dv_alloc_dm(ibv_context* context, ibv_alloc_dm_attr* dm_attr, mlx5dv_alloc_dm_attr* special) {
  const auto kind = kind_of(special->type);
  verbs::Context* mine = working(context);
  if (mine == nullptr) return nullptr;
  if (!kind) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (special->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  return allocate(mine, *dm_attr, *kind);
}

void* mlx5dv_dm_map_op_addr(ibv_dm* dm, uint8_t op) {
  verbs::Context* context = working(dm->context);
  if (context == nullptr) return nullptr;
  const auto mapped = context->hca->map_dm_operation(verbs::DeviceMemory::of(dm)->device, op);
  return mapped ? *mapped : verbs::refuse_pointer(*context, mapped.error());
}

}  // extern "C"
