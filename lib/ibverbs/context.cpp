// SPDX-License-Identifier: MIT
// Opening and closing a device.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/device_list.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

void fill_public_part(Context& context, Device& device) {
  verbs_context& verbs = context.verbs;
  verbs.sz = sizeof(verbs_context);
  verbs.priv = reinterpret_cast<verbs_ex_private*>(&context);
  ibv_context& base = verbs.context;
  base.device = &device.base;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.async_fd = context.async_events.fd();
  base.num_comp_vectors = static_cast<int>(context.hca->limits().completion_vectors);
  pthread_mutex_init(&base.mutex, nullptr);
  install_refusals(verbs);
  install_device_operations(verbs);
  install_domain_operations(verbs);
  install_memory_operations(verbs);
  install_buffer_operations(verbs);
  install_dma_handle_operations(verbs);
  install_cq_operations(verbs);
  install_qp_operations(verbs);
  install_srq_operations(verbs);
  install_xrc_operations(verbs);
  install_work_queue_operations(verbs);
}

/// Programs pass the command descriptor around, and map pages of devices from it. It takes no commands; what
/// it leads to tells who imports it what there is. Without a board there is nothing to import.
void make_command_file(Context& context) {
  int& commands = context.verbs.context.cmd_fd;
  commands = ::memfd_create("verbatim-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (commands < 0) {
    commands = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return;
  }
  auto board = DeviceBoard::make(commands, context.device->base.name, context.opened->place());
  if (board) context.board = std::move(*board);
}

/// `commands`: those of the context that it is imported from, which are left alone if it fails; -1: it is the
/// opener's own.
int open_parts(Context& context, Device& device, int commands = -1) {
  context.device = &device;
  context.provider = find_provider(device.entry.provider);
  if (context.provider == nullptr) return ENOSYS;
  if (const int error = context.async_events.open()) return error;
  auto opened = runtime::open_device(device.entry, context);
  if (!opened) {
    explain_aloud(opened.error().reason);
    return opened.error().code;
  }
  context.opened = std::move(*opened);
  context.hca = &context.opened->hca();
  fill_public_part(context, device);
  context.verbs.context.cmd_fd = commands;
  if (commands < 0) make_command_file(context);
  return context.provider->open(context);
}

void close_parts(Context& context) {
  remove_context(context);
  context.provider->close(context);
  context.opened.reset();
  context.provider->release(context);
}

ibv_context* finish_opening(std::unique_ptr<Context> context, int error) {
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  add_context(*context);
  return &context.release()->verbs.context;
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_context* ibv_open_device(ibv_device* public_device) {
  auto context = std::unique_ptr<Context>(new (std::nothrow) Context);
  const int error =
      context == nullptr ? ENOMEM : open_parts(*context, *reinterpret_cast<Device*>(public_device));
  return finish_opening(std::move(context), error);
}

ibv_context* ibv_import_device(int cmd_fd) {
  auto board = DeviceBoard::of(cmd_fd);
  if (!board) {
    explain_aloud(board.error().reason);
    errno = board.error().code;
    return nullptr;
  }
  Device* device = find_device((*board)->device());
  if (device == nullptr) {
    explain_aloud("ibv_import_device: VERBATIM_DEVICES has no " + (*board)->device() + " here");
    errno = ENODEV;
    return nullptr;
  }
  auto context = std::unique_ptr<Context>(new (std::nothrow) Context);
  if (context != nullptr) {
    context->board = std::move(*board);
    context->imported = true;
  }
  const int error = context == nullptr ? ENOMEM : open_parts(*context, *device, cmd_fd);
  return finish_opening(std::move(context), error);
}

int ibv_close_device(ibv_context* public_context) {
  std::unique_ptr<Context> context(Context::of(public_context));
  if (context->abandoned) {
    // Everything behind it is the parent's.
    static_cast<void>(context->opened.release());
  } else {
    close_parts(*context);
  }
  if (public_context->cmd_fd >= 0) ::close(public_context->cmd_fd);
  pthread_mutex_destroy(&public_context->mutex);
  return 0;
}

}  // extern "C"
