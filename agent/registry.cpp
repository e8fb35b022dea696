// SPDX-License-Identifier: MIT
#include "agent/registry.h"

#include <algorithm>
#include <cerrno>

#include "engine/published.h"

namespace verbatim::agent {

namespace {

// A few more than a process can use: one that it could not prove its own is lost to it.
constexpr long kSlotsPerProcess = engine::kQpBlocksMax + 4;
// What a process may claim to have had; leaves room for all that will be given out.
constexpr uint64_t kClaimMax = UINT64_MAX / 2;

}  // namespace

Registry::Registry(Directory& directory, uint64_t first_generation,
                   std::function<bool(uint32_t)> slot_is_owned)
    : directory_(directory),
      next_generation_(std::max<uint64_t>(first_generation, 1)),
      slot_is_owned_(std::move(slot_is_owned)) {}

// Round robin: a slot rests as long as possible, so that nobody mistakes its next owner for the last one.
Expected<uint32_t> Registry::free_slot() {
  for (uint32_t tries = 1; tries < wire::kSlotsMax; tries++) {
    last_slot_ = last_slot_ % (wire::kSlotsMax - 1) + 1;
    if (directory_.slots[last_slot_].generation != 0 || slot_is_owned_(last_slot_)) continue;
    return last_slot_;
  }
  return Error{ENOMEM, "all process slots of this user are taken"};
}

void Registry::take(uint32_t slot, uint32_t primary, uint32_t pid, uint64_t generation) {
  DirectorySlot& entry = directory_.slots[slot];
  entry.pid = pid;
  entry.primary = primary;
  entry.generation.store(generation, std::memory_order_release);
}

Expected<Registry::Grant> Registry::join(uint32_t pid) {
  Expected<uint32_t> slot = free_slot();
  if (!slot) return slot.error();
  const Grant grant{*slot, next_generation_++};
  take(grant.slot, grant.slot, pid, grant.generation);
  return grant;
}

Expected<Registry::Grant> Registry::rejoin(uint32_t pid, uint32_t slot, uint64_t generation) {
  if (slot == 0 || slot >= wire::kSlotsMax || generation == 0 || generation > kClaimMax)
    return Error{EINVAL, "no such slot"};
  if (directory_.slots[slot].generation != 0) return Error{EBUSY, "another process has the slot"};
  next_generation_ = std::max(next_generation_, generation + 1);
  take(slot, slot, pid, generation);
  return Grant{slot, generation};
}

Expected<Registry::Grant> Registry::extra(uint32_t primary, uint32_t wanted) {
  if (wanted >= wire::kSlotsMax) return Error{EINVAL, "no such slot"};
  const long had = std::count_if(
      std::begin(directory_.slots), std::end(directory_.slots),
      [&](const DirectorySlot& slot) { return slot.generation != 0 && slot.primary == primary; });
  if (had >= kSlotsPerProcess) return Error{ENOSPC, "the process has all the slots that one may have"};
  uint32_t slot = wanted;
  if (slot == 0) {
    Expected<uint32_t> found = free_slot();
    if (!found) return found.error();
    slot = *found;
  } else if (directory_.slots[slot].generation != 0) {
    return Error{EBUSY, "another process has the slot"};
  }
  const uint64_t generation = directory_.slots[primary].generation;
  take(slot, primary, directory_.slots[primary].pid, generation);
  return Grant{slot, generation};
}

void Registry::leave(uint32_t primary) {
  for (DirectorySlot& slot : directory_.slots)
    if (slot.generation != 0 && slot.primary == primary) slot.generation.store(0, std::memory_order_release);
  change_groups([&] {
    for (uint32_t i = 0; i < directory_.group_count; i++)
      directory_.groups[i].members[primary / 64] &= ~(1ull << (primary % 64));
  });
}

template <class Change>
void Registry::change_groups(Change change) {
  directory_.group_sequence.fetch_add(1, std::memory_order_acq_rel);
  change();
  directory_.group_sequence.fetch_add(1, std::memory_order_acq_rel);
}

Outcome Registry::join_group(uint32_t primary, const Gid& group) {
  DirectoryGroup* entry = nullptr;
  for (uint32_t i = 0; i < directory_.group_count; i++) {
    DirectoryGroup& each = directory_.groups[i];
    const bool empty = std::all_of(std::begin(each.members), std::end(each.members),
                                   [](uint64_t bits) { return bits == 0; });
    if (each.group == group) {
      entry = &each;
      break;
    }
    if (empty && !entry) entry = &each;
  }
  if (!entry && directory_.group_count == kGroupsMax)
    return Error{ENOSPC, "the table of multicast groups is full"};
  change_groups([&] {
    if (!entry) entry = &directory_.groups[directory_.group_count++];
    entry->group = group;
    entry->members[primary / 64] |= 1ull << (primary % 64);
  });
  return Done{};
}

void Registry::leave_group(uint32_t primary, const Gid& group) {
  change_groups([&] {
    for (uint32_t i = 0; i < directory_.group_count; i++)
      if (directory_.groups[i].group == group)
        directory_.groups[i].members[primary / 64] &= ~(1ull << (primary % 64));
  });
}

}  // namespace verbatim::agent
