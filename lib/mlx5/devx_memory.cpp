// SPDX-License-Identifier: MIT
// What commands name besides objects: memory and doorbell pages.
#include <new>

#include "abi/prm/domains.h"
#include "base/dma_buf.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5::devx {
namespace {

/// Pages that the device can map, from 4096 bytes on.
constexpr uint64_t kPageSizes = ~uint64_t{0xfff};
constexpr size_t kRegister = 0x800;  ///< offset of the doorbell register in its page

struct Umem {
  mlx5dv_devx_umem shown{};
  verbs::Context* context = nullptr;
  hw::Umem* device = nullptr;
  DmaBuf dma_buf;  ///< where the memory is, unless the program has it mapped itself
};

struct Uar {
  mlx5dv_devx_uar shown{};
  verbs::Context* context = nullptr;
  std::byte* page = nullptr;
};

/// Where the memory lies in this process.
Expected<uint64_t> locate(const mlx5dv_devx_umem_in& wanted, DmaBuf& dma_buf) {
  const auto address = reinterpret_cast<uint64_t>(wanted.addr);
  if ((wanted.comp_mask & MLX5DV_UMEM_MASK_DMABUF) == 0) return address;
  const bool writable = (wanted.access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) != 0;
  auto mapped = DmaBuf::map(wanted.dmabuf_fd, address, wanted.size, writable);
  if (!mapped) return mapped.error();
  dma_buf = std::move(*mapped);
  return reinterpret_cast<uint64_t>(dma_buf.base());
}

mlx5dv_devx_umem* register_memory(ibv_context* public_context, const mlx5dv_devx_umem_in& wanted) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  if ((wanted.comp_mask & ~uint64_t{MLX5DV_UMEM_MASK_DMABUF}) != 0)
    return verbs::refuse_pointer(*context, EOPNOTSUPP, "mlx5dv_devx_umem_reg_ex: unknown bits in comp_mask");
  if ((wanted.pgsz_bitmap & kPageSizes) == 0)
    return verbs::refuse_pointer(*context, EINVAL,
                                 "mlx5dv_devx_umem_reg_ex: pgsz_bitmap has no page size from 4096 on");
  auto umem = std::unique_ptr<Umem>(new (std::nothrow) Umem);
  if (umem == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto address = locate(wanted, umem->dma_buf);
  if (!address) return verbs::refuse_pointer(*context, address.error());
  const auto device = context->hca->create_umem({*address, wanted.size, wanted.access});
  if (!device) return verbs::refuse_pointer(*context, device.error());
  umem->context = context;
  umem->device = *device;
  umem->shown.umem_id = (*device)->number;
  return &umem.release()->shown;
}

mlx5dv_devx_uar* alloc_uar(verbs::Context& context, uint32_t flags) {
  // Every page is one of its own.
  if (flags != MLX5DV_UAR_ALLOC_TYPE_BF && flags != MLX5DV_UAR_ALLOC_TYPE_NC &&
      flags != MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED)
    return verbs::refuse_pointer(context, EOPNOTSUPP, "mlx5dv_devx_alloc_uar: unknown kind of page");
  auto uar = std::unique_ptr<Uar>(new (std::nothrow) Uar);
  if (uar == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto number = take_page_number(context);
  if (!number) {
    errno = number.error().code;
    return nullptr;
  }
  hw::RawDoorbells& doorbells = context.opened->doorbells();
  uar->page = doorbells.take_page();
  if (uar->page == nullptr) {
    static_cast<void>(give_page_number_back(context, *number));
    errno = ENOMEM;
    return nullptr;
  }
  doorbells.watch_registers(uar->page, connectx::kDoorbellRegisters, *context.hca, *number);
  uar->context = &context;
  uar->shown.page_id = *number;
  uar->shown.base_addr = uar->page;
  uar->shown.reg_addr = uar->page + kRegister;
  return &uar.release()->shown;
}

/// Queues that still ring there keep page and number until the device is closed.
void free_uar(Uar& uar) {
  verbs::Context& context = *uar.context;
  if (give_page_number_back(context, uar.shown.page_id) == 0)
    return context.opened->doorbells().give_back(uar.page);
  ContextState& state = ContextState::of(context);
  const std::lock_guard hold(state.lock);
  state.kept_pages.push_back(uar.page);
}

}  // namespace

Expected<uint32_t> take_page_number(verbs::Context& context) {
  uint8_t in[prm::AllocUarIn::kBits / 8] = {}, out[prm::AllocUarOut::kBits / 8] = {};
  prm::Writer<prm::AllocUarIn>(in).set(prm::AllocUarIn::opcode, prm::AllocUar::kOpcode);
  if (const int error = send(context, in, out)) return Error{error, "the device has no UAR left"};
  return prm::View<prm::AllocUarOut>(out)[prm::AllocUarOut::uar];
}

int give_page_number_back(verbs::Context& context, uint32_t number) {
  uint8_t in[prm::DeallocUarIn::kBits / 8] = {};
  const prm::Writer<prm::DeallocUarIn> box(in);
  box.set(prm::DeallocUarIn::opcode, prm::DeallocUar::kOpcode);
  box.set(prm::DeallocUarIn::uar, number);
  return destroy(context, in);
}

}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_devx_umem* mlx5dv_devx_umem_reg(ibv_context* context, void* addr, size_t size, uint32_t access) {
  return devx::register_memory(context, {addr, size, access, devx::kPageSizes, 0, -1});
}

mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context* context, mlx5dv_devx_umem_in* umem_in) {
  return devx::register_memory(context, *umem_in);
}

int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* shown) {
  auto* umem = reinterpret_cast<devx::Umem*>(shown);
  if (!umem->context->abandoned)
    if (const int error = verbs::settle(*umem->context, umem->context->hca->destroy_umem(umem->device)))
      return error;
  delete umem;
  return 0;
}

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context* public_context, uint32_t flags) {
  verbs::Context* context = working(public_context);
  return context != nullptr ? devx::alloc_uar(*context, flags) : nullptr;
}

void mlx5dv_devx_free_uar(mlx5dv_devx_uar* shown) {
  auto* uar = reinterpret_cast<devx::Uar*>(shown);
  if (!uar->context->abandoned) devx::free_uar(*uar);
  delete uar;
}

}  // extern "C"
