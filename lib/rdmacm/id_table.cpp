// SPDX-License-Identifier: MIT
// Which ids there are, and which of their events the program still has.
#include <cstring>

#include "lib/rdmacm/id.h"

namespace verbatim::rdmacm {

IdTable& IdTable::of_process() {
  // Never destroyed: threads may still use it while the process ends.
  static IdTable& table = *new IdTable;
  return table;
}

void IdTable::add(Id& id) {
  const std::scoped_lock guard(lock_);
  ids_[id.number] = &id;
}

Id* IdTable::deliver(uint32_t number) {
  const std::scoped_lock guard(lock_);
  const auto found = ids_.find(number);
  if (found == ids_.end()) return nullptr;
  ++found->second->events.delivered;
  return found->second;
}

Membership* IdTable::deliver_to_membership(uint64_t key) {
  const std::scoped_lock guard(lock_);
  const auto found = memberships_.find(key);
  if (found == memberships_.end()) return nullptr;
  ++found->second->events.delivered;
  ++found->second->id->events.delivered;
  return found->second;
}

void IdTable::acknowledge(Id& id, Membership* membership) {
  const std::scoped_lock guard(lock_);
  if (membership != nullptr) ++membership->events.acknowledged;
  ++id.events.acknowledged;
  acknowledged_.notify_all();
}

bool IdTable::is_untouched(uint32_t number) {
  const std::scoped_lock guard(lock_);
  const auto found = ids_.find(number);
  return found != ids_.end() && !found->second->touched.load(std::memory_order_relaxed);
}

void IdTable::remove(Id& id) {
  const std::scoped_lock guard(lock_);
  ids_.erase(id.number);
  for (const Membership& each : id.memberships) memberships_.erase(each.key);
}

void IdTable::wait_for_acknowledgements(Id& id) {
  std::unique_lock guard(lock_);
  acknowledged_.wait(guard, [&] { return id.events.all_returned(); });
}

Membership& IdTable::add_membership(Id& id, const Membership& membership) {
  const std::scoped_lock guard(lock_);
  Membership& added = id.memberships.emplace_back(membership);
  added.id = &id;
  added.key = next_key_++;
  memberships_[added.key] = &added;
  return added;
}

Membership* IdTable::take_membership(Id& id, const sockaddr* group, socklen_t bytes) {
  const std::scoped_lock guard(lock_);
  for (Membership& each : id.memberships)
    if (std::memcmp(&each.address, group, bytes) == 0 && memberships_.erase(each.key) != 0) return &each;
  return nullptr;
}

void IdTable::wait_and_forget(Id& id, Membership& membership) {
  std::unique_lock guard(lock_);
  memberships_.erase(membership.key);
  acknowledged_.wait(guard, [&] { return membership.events.all_returned(); });
  id.memberships.remove_if([&](const Membership& each) { return &each == &membership; });
}

}  // namespace verbatim::rdmacm
