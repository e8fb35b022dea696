// SPDX-License-Identifier: MIT
// What objects that are contexts with references refer to: the device's own objects, by number.
#include <algorithm>
#include <cerrno>

#include "device/connectx/command_device.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/raw_queue.h"

namespace verbatim::connectx {

namespace {

using prm::ObjectId;
using prm::ObjectKind;

template <class T>
bool any_of(const std::unordered_map<uint32_t, T*>& objects, uint16_t uid) {
  return std::ranges::any_of(objects, [uid](const auto& entry) { return entry.second->is_by(uid); });
}

/// The bytes in a umem, or nullptr: they reach beyond it.
std::byte* memory_in(const UmemObject& umem, uint64_t offset, uint64_t bytes) {
  if (offset > umem.spec.length || bytes > umem.spec.length - offset) return nullptr;
  return reinterpret_cast<std::byte*>(umem.spec.address + offset);
}

}  // namespace

Outcome CommandDevice::hold(uint16_t uid, ObjectId id) {
  switch (id.kind) {
    case ObjectKind::kPd:
      if (PdObject* pd = visible(numbers_.pds, uid, id.number)) return pd->users++, Done{};
      break;
    case ObjectKind::kCq:
      if (CqObject* cq = visible(numbers_.cqs, uid, id.number)) return cq->work_queues++, Done{};
      break;
    case ObjectKind::kUmem:
      if (UmemObject* umem = visible(numbers_.umems, uid, id.number)) return umem->users++, Done{};
      break;
    case ObjectKind::kUar:
      return hca_.uars().hold(uid, id.number);
    case ObjectKind::kRmp:
      if (SrqObject* srq = visible(numbers_.srqs, uid, id.number)) return srq->users++, Done{};
      break;
    default:
      break;
  }
  return prm::no_such(id);
}

void CommandDevice::let_go(ObjectId id) {
  switch (id.kind) {
    case ObjectKind::kPd:
      numbers_.pds.at(id.number)->users--;
      break;
    case ObjectKind::kCq:
      numbers_.cqs.at(id.number)->work_queues--;
      break;
    case ObjectKind::kUmem:
      numbers_.umems.at(id.number)->users--;
      break;
    case ObjectKind::kUar:
      hca_.uars().let_go(id.number, nullptr);
      break;
    case ObjectKind::kRmp:
      numbers_.srqs.at(id.number)->users--;
      break;
    default:
      break;
  }
}

bool CommandDevice::has_user_context(uint16_t uid) {
  return uid <= hw::Hca::kUserContext || objects_.find(0, {ObjectKind::kUserContext, uid}).ok();
}

bool CommandDevice::has_objects_of(uint16_t uid) {
  return any_of(numbers_.pds, uid) || any_of(numbers_.umems, uid) || any_of(numbers_.cqs, uid) ||
         any_of(numbers_.qps, uid) || any_of(numbers_.dcts, uid) || any_of(numbers_.srqs, uid) ||
         hca_.uars().has_some_of(uid) || hca_.events().has_some_of(uid) || protection_.has_some_of(uid) ||
         std::ranges::any_of(scheduling_makers_, [uid](const auto& entry) { return entry.second == uid; }) ||
         std::ranges::any_of(mkeys_, [uid](const auto& entry) { return entry.second.maker == uid; });
}

Expected<uint32_t> CommandDevice::create_umem(uint16_t uid, const hw::UmemSpec& spec) {
  const Expected<hw::Umem*> made = hca_.create_umem(spec);
  if (!made) return made.error();
  UmemObject* umem = static_cast<UmemObject*>(*made);
  umem->maker = uid;
  umem->by_command = true;
  return umem->number;
}

Outcome CommandDevice::destroy_umem(uint16_t uid, uint32_t number) {
  UmemObject* umem = visible(numbers_.umems, uid, number);
  if (!umem || !umem->is_by(uid)) return prm::no_such({ObjectKind::kUmem, number});
  return hca_.destroy_umem(umem);
}

Expected<std::unique_ptr<prm::RawQueueBody>> CommandDevice::make_raw_queue(const prm::RawQueueSpec& spec) {
  constexpr uint64_t kDoorbellBytes = 8;
  std::byte* ring = memory_in(*numbers_.umems.at(spec.umem), spec.offset, spec.bytes);
  if (!ring) return Error{EINVAL, "the work queue reaches beyond its umem"};
  const std::byte* doorbell =
      memory_in(*numbers_.umems.at(spec.doorbell_umem), spec.doorbell_offset, kDoorbellBytes);
  if (!doorbell) return Error{EINVAL, "the doorbell record reaches beyond its umem"};
  WatchedQueues& watched = hca_.watched_queues();
  auto queue = std::make_shared<FrameQueue>(
      spec, ring, reinterpret_cast<const uint32_t*>(doorbell), *numbers_.cqs.at(spec.cqn),
      FrameQueue::Host{hca_.engine(), hca_.events(), watched.waiting_room(), hca_.place()});
  return std::unique_ptr<prm::RawQueueBody>(std::make_unique<RawQueue>(std::move(queue), watched));
}

Outcome CommandDevice::count_in(uint16_t uid, uint32_t qpn, uint32_t set) {
  const auto found = numbers_.qps.find(qpn);
  if (found == numbers_.qps.end() || !found->second->is_for(uid))
    return Error{ENOENT, "there is no such queue pair"};
  return counters_.attach(uid, *found->second, set);
}

Expected<prm::QueueCounts> CommandDevice::queue_counts(uint16_t uid, uint32_t set, bool clear) {
  return counters_.of_set(uid, set, clear);
}

}  // namespace verbatim::connectx
