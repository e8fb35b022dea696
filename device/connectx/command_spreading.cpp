// SPDX-License-Identifier: MIT
// What rules steer to by the number of a TIR.
#include "device/connectx/command_device.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/raw_queue.h"

namespace verbatim::connectx {

using prm::ObjectId;
using prm::ObjectKind;

std::shared_ptr<const SpreadTarget::Plan> CommandDevice::plan_of(const prm::Object& tir) {
  auto plan = std::make_shared<SpreadTarget::Plan>(FrameHash(prm::View<prm::Tirc>(tir.context)),
                                                   std::vector<std::shared_ptr<FrameQueue>>{});
  const auto add = [&](ObjectId id) {
    const auto* queue = static_cast<const RawQueue*>(objects_.at(id).body.get());
    plan->queues.push_back(queue ? queue->queue() : nullptr);
  };
  for (const ObjectId id : tir.references) {
    if (id.kind == ObjectKind::kReceiveQueue) add(id);
    if (id.kind != ObjectKind::kReceiveTable) continue;
    for (const ObjectId queue : objects_.at(id).references) add(queue);
  }
  return plan;
}

Expected<std::shared_ptr<engine::FrameTarget>> CommandDevice::frame_target(uint32_t tirn) {
  const auto tir = objects_.find(hw::Hca::kUserContext, {ObjectKind::kTir, tirn});
  if (!tir) return tir.error();
  auto target = spread_targets_[tirn].lock();
  if (!target) {
    target = std::make_shared<SpreadTarget>(plan_of(**tir), hca_.watched_queues());
    spread_targets_[tirn] = target;
  }
  return std::shared_ptr<engine::FrameTarget>(std::move(target));
}

void CommandDevice::forget_targets() {
  for (const auto& [tirn, weak] : spread_targets_)
    if (const auto target = weak.lock()) hca_.engine().forget_flows(target.get());
  engine::AccessGuard::wait();
}

void CommandDevice::follow_objects() {
  std::erase_if(spread_targets_, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [tirn, weak] : spread_targets_) {
    const auto target = weak.lock();
    const auto tir = objects_.find(hw::Hca::kUserContext, {ObjectKind::kTir, tirn});
    if (target && tir) target->follow(plan_of(**tir));
  }
}

}  // namespace verbatim::connectx
