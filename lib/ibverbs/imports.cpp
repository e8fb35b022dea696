// SPDX-License-Identifier: MIT
// Objects of a context that another process has opened, or this one, found by its command descriptor and
// their handles.
//
// The kernel would make both processes users of one object. Here each process has an engine of its own, so
// that an import is an object of this process that stands for the original: a domain of its own, a region
// whose key leads to the memory of the process that registered it, the same pages of device memory. Ending an
// import, in whatever way, leaves the original alone.
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/device_memory.h"
#include "lib/ibverbs/memory_region.h"

namespace verbatim::verbs {
namespace {

/// The board that imports into the context are looked up on; nullptr: it is none that was imported.
const DeviceBoard* board_of(const Context& context) { return context.board.get(); }

/// Where objects of the board come from.
Expected<hw::Origin> origin_of(Context& context, uint32_t pd) {
  const auto process = context.opened->find_process(board_of(context)->place());
  if (!process) return process.error();
  return hw::Origin{*process, pd};
}

Expected<hw::Dm*> import_memory(Context& context, uint32_t handle) {
  const DeviceBoard& board = *board_of(context);
  const auto memory = board.find_memory(handle);
  if (!memory) return Error{ENOENT, "the context has no device memory of that handle"};
  const auto file = context.opened->borrow_file(board.place(), memory->file);
  if (!file) return file.error();
  struct stat about {};
  if (fstat(*file, &about) != 0 || about.st_ino != memory->inode) {
    ::close(*file);
    return Error{ENOENT, "the device memory of that handle has been freed"};
  }
  return context.hca->import_dm(*file, memory->bytes);
}

}  // namespace

extern "C" void verbatim_show_device_memory(ibv_dm* dm) {
  DeviceMemory& memory = *DeviceMemory::of(dm);
  Context& context = *memory.context;
  struct stat about {};
  if (context.board == nullptr || context.imported || memory.device->file < 0 ||
      fstat(memory.device->file, &about) != 0)
    return;
  dm->handle = context.board->show_memory({memory.device->file, memory.device->bytes, about.st_ino});
  memory.shown = dm->handle != 0;
}

extern "C" void verbatim_hide_device_memory(ibv_dm* dm) {
  DeviceMemory& memory = *DeviceMemory::of(dm);
  if (memory.shown) memory.context->board->hide_memory(dm->handle);
}

}  // namespace verbatim::verbs

using namespace verbatim;
using namespace verbatim::verbs;

extern "C" {

ibv_pd* ibv_import_pd(ibv_context* public_context, uint32_t handle) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (board_of(*context) == nullptr || !board_of(*context)->has_domain(handle))
    return refuse_pointer(*context, ENOENT,
                          "ibv_import_pd: the context has no protection domain of that handle");
  // A domain needs nothing of a process that has ended meanwhile.
  const auto origin = origin_of(*context, handle);
  const bool here = origin && origin->process == nullptr;
  const auto device = here ? context->hca->import_pd(*origin) : context->hca->create_pd();
  if (!device) return refuse_pointer(*context, device.error());
  auto* domain = new (std::nothrow) ProtectionDomain;
  if (domain == nullptr) {
    static_cast<void>(context->hca->destroy_pd(*device));
    return refuse_pointer(*context, ENOMEM, "no memory for a protection domain");
  }
  domain->base = {public_context, handle};
  domain->context = context;
  domain->device = *device;
  domain->imported = true;
  return &domain->base;
}

void ibv_unimport_pd(ibv_pd* pd) { static_cast<void>(ibv_dealloc_pd(pd)); }

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const ProtectionDomain& domain = *ProtectionDomain::of(pd)->real();
  if (board_of(*context) == nullptr)
    return refuse_pointer(*context, ENOENT, "ibv_import_mr: nothing is known of the context's regions");
  const auto origin = origin_of(*context, domain.base.handle);
  if (!origin) return refuse_pointer(*context, ENOENT, "ibv_import_mr: " + origin.error().reason);
  auto region = std::unique_ptr<MemoryRegion>(new (std::nothrow) MemoryRegion);
  if (region == nullptr) return refuse_pointer(*context, ENOMEM, "no memory for a region");
  const auto imported = context->hca->import_mr(domain.device, *origin, handle);
  if (!imported)
    return refuse_pointer(*context, imported.error().code, "ibv_import_mr: " + imported.error().reason);
  region->base.length = imported->length;
  region->access = imported->access;
  region->iova = imported->start;
  ibv_mr* made = finish_region(std::move(region), pd, imported->mr);
  made->handle = handle;
  return made;
}

void ibv_unimport_mr(ibv_mr* mr) { static_cast<void>(ibv_dereg_mr(mr)); }

ibv_dm* ibv_import_dm(ibv_context* public_context, uint32_t handle) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (board_of(*context) == nullptr)
    return refuse_pointer(*context, ENOENT, "ibv_import_dm: nothing is known of the context's device memory");
  const auto device = import_memory(*context, handle);
  if (!device)
    return refuse_pointer(*context, device.error().code, "ibv_import_dm: " + device.error().reason);
  ibv_dm* made = context->provider->wrap_dm(*context, *device);
  if (made == nullptr) {
    static_cast<void>(context->hca->destroy_dm(*device));
    return refuse_pointer(*context, ENOMEM, "no memory for device memory");
  }
  made->handle = handle;
  return made;
}

void ibv_unimport_dm(ibv_dm* dm) { static_cast<void>(Context::of(dm->context)->verbs.free_dm(dm)); }

}  // extern "C"
