// SPDX-License-Identifier: MIT
// mlx5dv: devices that a program takes over through VFIO and drives alone, by commands.
//
// The functions are those that /sys/bus/pci shows of the devices here. Nothing has to be unbound from a
// driver: the same device goes on serving verbs, and a context of this kind serves them, too. What the
// program's thread must do for such a device is to take the events that are the driver's own; here these are
// the port's, which the context's asynchronous events hold.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "lib/mlx5/direct.h"
#include "lib/mlx5/vfio.h"

namespace verbatim::mlx5 {
namespace {

/// Domain, bus, device and function in one number; nothing if that is not what the name says.
Expected<uint64_t> parse_address(const char* name) {
  unsigned domain, bus, device, function;
  if (name == nullptr || std::sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return Error{ENODEV, "not a PCI address"};
  return uint64_t{domain} << 32 | bus << 16 | device << 8 | function;
}

/// Of the devices that are listed, the one behind this function; nullptr: none.
const verbs::Device* find_device(const char* name) {
  const auto wanted = parse_address(name);
  if (!wanted) return nullptr;
  const verbs::Device* found = nullptr;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** each = list; each != nullptr && *each != nullptr; each++) {
    const auto* device = reinterpret_cast<const verbs::Device*>(*each);
    if (device->entry.provider == kProvider.name &&
        *parse_address(device->entry.pci_address.c_str()) == *wanted)
      found = device;
  }
  if (list != nullptr) ibv_free_device_list(list);
  return found;
}

/// A function as a device of its own. They live as long as the library, as all devices do.
struct Function {
  verbs::Device device;
  uint32_t flags;
};

struct Functions {
  std::mutex lock;
  std::vector<Function*> all;
};

Functions& functions() {
  static Functions* const kept = new Functions;
  return *kept;
}

Function* function_of(const verbs::Device& device, const char* name, uint32_t flags) {
  Functions& known = functions();
  const std::lock_guard guard(known.lock);
  for (Function* each : known.all)
    if (each->device.entry.index == device.entry.index && each->flags == flags) return each;
  auto* made = new (std::nothrow) Function{device, flags};
  if (made == nullptr) return nullptr;
  std::snprintf(made->device.base.name, sizeof made->device.base.name, "%s", name);
  known.all.push_back(made);
  return made;
}

/// The context if it is one of these; nullptr otherwise.
verbs::Context* taken_over(ibv_context* public_context) {
  verbs::Context* context = own(public_context);
  return context != nullptr && is_taken_over(*context->device) ? context : nullptr;
}

}  // namespace

bool is_taken_over(const verbs::Device& device) {
  Functions& known = functions();
  const std::lock_guard guard(known.lock);
  for (const Function* each : known.all)
    if (&each->device == &device) return true;
  return false;
}

void take_over(verbs::Context& context) {
  const auto& function = *reinterpret_cast<const Function*>(context.device);
  context.hca->take_over_port((function.flags & MLX5DV_VFIO_CTX_FLAGS_INIT_LINK_DOWN) != 0);
  const int file = context.async_events.fd();
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

ibv_device** mlx5dv_get_vfio_device_list(mlx5dv_vfio_context_attr* attributes) {
  constexpr uint32_t kFlags = MLX5DV_VFIO_CTX_FLAGS_INIT_LINK_DOWN;
  if (attributes == nullptr || (attributes->flags & ~kFlags) != 0 || attributes->comp_mask != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const verbs::Device* device = find_device(attributes->pci_name);
  if (device == nullptr) {
    errno = ENODEV;
    return nullptr;
  }
  Function* function = function_of(*device, attributes->pci_name, attributes->flags);
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (function == nullptr || list == nullptr) {
    std::free(list);
    errno = ENOMEM;
    return nullptr;
  }
  list[0] = &function->device.base;
  return list;
}

int mlx5dv_vfio_get_events_fd(ibv_context* public_context) {
  verbs::Context* context = taken_over(public_context);
  return context != nullptr ? context->async_events.fd() : -EOPNOTSUPP;
}

int mlx5dv_vfio_process_events(ibv_context* public_context) {
  if (taken_over(public_context) == nullptr) return EOPNOTSUPP;
  ibv_async_event event;
  while (ibv_get_async_event(public_context, &event) == 0) ibv_ack_async_event(&event);
  return errno == EAGAIN ? 0 : errno;
}

}  // extern "C"
