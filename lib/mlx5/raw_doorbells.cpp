// SPDX-License-Identifier: MIT
#include "lib/mlx5/raw_doorbells.h"

namespace verbatim::mlx5 {
namespace {

/// What no program writes first: a program's first arm word may well be 0.
constexpr uint32_t kNeverArmed = 0xffff'ffff;

std::byte* shared_page(verbs::Context& context) {
  ContextState& state = ContextState::of(context);
  const std::lock_guard guard(state.lock);
  if (state.doorbell_page == nullptr) state.doorbell_page = context.opened->doorbells().take_page();
  return state.doorbell_page;
}

}  // namespace

std::byte* expose(QueuePair& qp) {
  std::byte* page = shared_page(*qp.context);
  if (page == nullptr || qp.blocks == 0 || qp.exposed.exchange(true)) return page;
  (void)qp.context->opened->doorbells().watch(&qp.doorbell[connectx::kSendDoorbell], *qp.hca, qp.device);
  return page;
}

std::byte* expose(CompletionQueue& cq) {
  cq.device->timed.store(true, std::memory_order_relaxed);
  std::byte* page = shared_page(*cq.context);
  if (page == nullptr || cq.exposed.exchange(true)) return page;
  {
    const std::lock_guard guard(cq.lock);
    if (cq.arm_sequence == 0) __atomic_store_n(&cq.doorbell[1], kNeverArmed, __ATOMIC_RELEASE);
  }
  (void)cq.context->opened->doorbells().watch(&cq.doorbell[1], *cq.hca, cq.device);
  return page;
}

bool conceal(QueuePair& qp) {
  if (!qp.exposed.exchange(false)) return false;
  qp.context->opened->doorbells().forget(&qp.doorbell[connectx::kSendDoorbell]);
  return true;
}

bool conceal(CompletionQueue& cq) {
  if (!cq.exposed.exchange(false)) return false;
  cq.context->opened->doorbells().forget(&cq.doorbell[1]);
  return true;
}

}  // namespace verbatim::mlx5
