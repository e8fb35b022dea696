// SPDX-License-Identifier: MIT
// Event queues that programs read, and their interrupts.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <string>

#include "abi/prm/events.h"
#include "device/connectx/prm/sizes.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5::devx {
namespace {

constexpr size_t kEntryBytes = 64, kPageBytes = 4096, kPageShift = 12;
/// The owner bit of an entry that the device has not written: that of the lap before the first.
constexpr uint8_t kNotWritten = 1;
/// Taken by the device's own events, as on a machine with a ConnectX.
constexpr uint32_t kFirstVector = 1;

struct Interrupt {
  mlx5dv_devx_msi_vector shown{};
  verbs::Context* context = nullptr;
  static Interrupt& of(mlx5dv_devx_msi_vector* shown) { return *reinterpret_cast<Interrupt*>(shown); }
};

struct Memory {
  void operator()(void* pages) const { std::free(pages); }
};

struct EventQueue {
  mlx5dv_devx_eq shown{};
  verbs::Context* context = nullptr;
  uint32_t eqn = 0;
  std::unique_ptr<void, Memory> pages;
  static EventQueue& of(mlx5dv_devx_eq* shown) { return *reinterpret_cast<EventQueue*>(shown); }
};

mlx5dv_devx_msi_vector* allocate_vector(verbs::Context& context) {
  auto interrupt = std::unique_ptr<Interrupt>(new (std::nothrow) Interrupt);
  const int fd = interrupt == nullptr ? -1 : ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    if (interrupt == nullptr) errno = ENOMEM;
    return nullptr;
  }
  Interrupts& interrupts = ContextState::of(context).interrupts;
  const uint32_t vector = interrupts.take(fd, context.hca->limits().interrupt_vectors);
  if (vector == 0) {
    ::close(fd);
    return verbs::refuse_pointer(context, ENOSPC, "mlx5dv_devx_alloc_msi_vector: all vectors are in use");
  }
  interrupt->shown = {static_cast<int>(vector), fd};
  interrupt->context = &context;
  return &interrupt.release()->shown;
}

/// A page for each small queue, a page as large as it for others; all entries as not written.
bool allocate_pages(EventQueue& queue, size_t bytes) {
  queue.pages.reset(std::aligned_alloc(kPageBytes, bytes));
  auto* base = static_cast<uint8_t*>(queue.pages.get());
  if (base == nullptr) return false;
  std::fill_n(base, bytes, uint8_t{0});
  for (size_t last = kEntryBytes - 1; last < bytes; last += kEntryBytes) base[last] = kNotWritten;
  queue.shown.vaddr = base;
  return true;
}

Outcome sound(const Boxes& boxes) {
  const prm::View<prm::CreateEqIn> in(boxes.in);
  if (boxes.in.size() < prm::CreateEqIn::kBits / 8 || boxes.out.size() < prm::CreateEqOut::kBits / 8)
    return Error{EINVAL, "mlx5dv_devx_create_eq: a mailbox is shorter than the command's"};
  if (in[prm::CreateEqIn::opcode] != prm::CreateEq::kOpcode)
    return Error{EINVAL, "mlx5dv_devx_create_eq: the mailbox holds another command"};
  if (in[prm::CreateEqIn::eq_context_entry][prm::Eqc::intr] < kFirstVector)
    return Error{EINVAL, "mlx5dv_devx_create_eq: eqc.intr 0 is the device's own"};
  return Done{};
}

mlx5dv_devx_eq* create(verbs::Context& context, const Boxes& boxes) {
  if (Outcome good = sound(boxes); !good) return verbs::refuse_pointer(context, good.error());
  std::vector<uint8_t> box(prm::CreateEqIn::kBits / 8 + sizeof(uint64_t));
  std::copy_n(boxes.in.begin(), prm::CreateEqIn::kBits / 8, box.begin());
  const prm::Writer<prm::CreateEqIn> in(box);
  const auto eqc = in[prm::CreateEqIn::eq_context_entry];
  // Larger ones are the device's to refuse.
  const uint32_t log_size = std::min(eqc[prm::Eqc::log_eq_size], prm::kLogEventQueueMax);
  const size_t bytes = std::max(kEntryBytes << log_size, kPageBytes);
  auto queue = std::unique_ptr<EventQueue>(new (std::nothrow) EventQueue);
  if (queue == nullptr || !allocate_pages(*queue, bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  eqc.set(prm::Eqc::log_page_size, static_cast<uint32_t>(std::countr_zero(bytes)) - kPageShift);
  in.set(prm::CreateEqIn::pas, 0, reinterpret_cast<uint64_t>(queue->shown.vaddr));
  if (const int error = send(context, box, boxes.out)) {
    errno = error;
    return nullptr;
  }
  queue->context = &context;
  queue->eqn = prm::View<prm::CreateEqOut>(boxes.out)[prm::CreateEqOut::eq_number];
  return &queue.release()->shown;
}

int end(EventQueue& queue) {
  uint8_t in[prm::DestroyEqIn::kBits / 8] = {};
  const prm::Writer<prm::DestroyEqIn> box(in);
  box.set(prm::DestroyEqIn::opcode, prm::DestroyEq::kOpcode);
  box.set(prm::DestroyEqIn::eq_number, queue.eqn);
  return destroy(*queue.context, in);
}

}  // namespace

uint32_t Interrupts::take(int fd, uint32_t vectors) {
  const std::lock_guard hold(lock_);
  for (uint32_t vector = kFirstVector; vector < vectors; vector++)
    if (descriptors_.try_emplace(vector, fd).second) return vector;
  return 0;
}

bool Interrupts::give_back(uint32_t vector) {
  const std::lock_guard hold(lock_);
  const auto found = descriptors_.find(vector);
  if (found == descriptors_.end()) return false;
  ::close(found->second);
  descriptors_.erase(found);
  return true;
}

void Interrupts::raise(uint32_t vector) {
  const std::lock_guard hold(lock_);
  if (const auto found = descriptors_.find(vector); found != descriptors_.end())
    static_cast<void>(::eventfd_write(found->second, 1));
}

void raise_interrupt(verbs::Context& context, uint32_t vector) {
  if (ContextState* state = ContextState::find(context)) state->interrupts.raise(vector);
}

}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_devx_msi_vector* mlx5dv_devx_alloc_msi_vector(ibv_context* public_context) {
  verbs::Context* context = working(public_context);
  return context != nullptr ? devx::allocate_vector(*context) : nullptr;
}

int mlx5dv_devx_free_msi_vector(mlx5dv_devx_msi_vector* msi) {
  devx::Interrupt* interrupt = &devx::Interrupt::of(msi);
  verbs::Context& context = *interrupt->context;
  if (!context.abandoned &&
      !ContextState::of(context).interrupts.give_back(static_cast<uint32_t>(msi->vector)))
    return verbs::refuse(context, EINVAL, "mlx5dv_devx_free_msi_vector: the vector is not allocated");
  delete interrupt;
  return 0;
}

mlx5dv_devx_eq* mlx5dv_devx_create_eq(ibv_context* public_context, const void* in, size_t inlen, void* out,
                                      size_t outlen) {
  verbs::Context* context = working(public_context);
  return context != nullptr ? devx::create(*context, devx::Boxes(in, inlen, out, outlen)) : nullptr;
}

int mlx5dv_devx_destroy_eq(mlx5dv_devx_eq* shown) {
  devx::EventQueue* queue = &devx::EventQueue::of(shown);
  if (!queue->context->abandoned)
    if (const int error = devx::end(*queue)) return error;
  delete queue;
  return 0;
}

int mlx5dv_devx_query_eqn(ibv_context* public_context, uint32_t vector, uint32_t* eqn) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  const auto number = context->hca->event_queue(vector);
  if (!number) return verbs::refuse(*context, number.error());
  *eqn = *number;
  return 0;
}

}  // extern "C"
