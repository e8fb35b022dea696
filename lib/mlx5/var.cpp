// SPDX-License-Identifier: MIT
// Doorbell pages of emulated devices: pages with numbers, which the program maps from the command descriptor.
// Nobody emulates a device here, so that nobody looks at what is written there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "lib/mlx5/devx.h"
#include "lib/mlx5/direct.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t kPage = 4096;

struct Var {
  mlx5dv_var shown{};
  verbs::Context* context = nullptr;
};

/// Lets the program map the page; the descriptor's file is as long as it must be.
int open_page(verbs::Context& context, off_t offset) {
  const int file = context.verbs.context.cmd_fd;
  const std::lock_guard guard(ContextState::of(context).lock);
  struct stat about {};
  if (::fstat(file, &about) != 0) return errno;
  return about.st_size > offset || ::ftruncate(file, offset + kPage) == 0 ? 0 : errno;
}

mlx5dv_var* allocate(verbs::Context& context) {
  auto var = std::unique_ptr<Var>(new (std::nothrow) Var);
  if (var == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto number = devx::take_page_number(context);
  if (!number) return verbs::refuse_pointer(context, ENOSPC, "mlx5dv_alloc_var: " + number.error().reason);
  var->context = &context;
  var->shown.page_id = *number;
  var->shown.length = kPage;
  var->shown.mmap_off = off_t{*number} * kPage;
  if (const int error = open_page(context, var->shown.mmap_off)) {
    devx::give_page_number_back(context, *number);
    return verbs::refuse_pointer(context, error, "mlx5dv_alloc_var: there is no memory for the page");
  }
  return &var.release()->shown;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_var* mlx5dv_alloc_var(ibv_context* public_context, uint32_t flags) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  if (flags == 0) return allocate(*context);
  return verbs::refuse_pointer(*context, EOPNOTSUPP, "mlx5dv_alloc_var: there are pages for virtio only");
}

void mlx5dv_free_var(mlx5dv_var* shown) {
  auto* var = reinterpret_cast<Var*>(shown);
  verbs::Context& context = *var->context;
  if (!context.abandoned) {
    // The next one with this number finds zeros.
    static_cast<void>(::fallocate(context.verbs.context.cmd_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  shown->mmap_off, kPage));
    devx::give_page_number_back(context, shown->page_id);
  }
  delete var;
}

}  // extern "C"
