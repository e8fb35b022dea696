// SPDX-License-Identifier: MIT
#include "device/connectx/uar_table.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace verbatim::connectx {

namespace {

Error nobodys(uint32_t page) { return {ENOENT, "the context has no UAR of number " + std::to_string(page)}; }

}  // namespace

UarTable::Page* UarTable::own(uint16_t uid, uint32_t page) {
  const auto found = pages_.find(page);
  return found != pages_.end() && found->second.maker == uid ? &found->second : nullptr;
}

Expected<uint32_t> UarTable::take(uint16_t uid) {
  const std::lock_guard hold(lock_);
  const uint32_t number = pages_.size() < most_ ? numbers_.take() : 0;
  if (number == 0) return Error{ENOMEM, "the device has no UAR left"};
  pages_[number].maker = uid;
  return number;
}

Outcome UarTable::give_back(uint16_t uid, uint32_t page) {
  const std::lock_guard hold(lock_);
  const Page* found = own(uid, page);
  if (found == nullptr) return nobodys(page);
  if (found->users != 0) return Error{EBUSY, "queues are still rung on the UAR"};
  pages_.erase(page);
  numbers_.give_back(page);
  return Done{};
}

Outcome UarTable::hold(uint16_t uid, uint32_t page, Doorbell doorbell, const void* queue,
                       std::function<void()> look) {
  const std::lock_guard hold(lock_);
  Page* found = own(uid, page);
  if (found == nullptr) return nobodys(page);
  found->users++;
  found->bells.push_back({doorbell, queue, std::move(look)});
  return Done{};
}

Outcome UarTable::hold(uint16_t uid, uint32_t page) {
  const std::lock_guard hold(lock_);
  Page* found = own(uid, page);
  if (found == nullptr) return nobodys(page);
  found->users++;
  return Done{};
}

void UarTable::let_go(uint32_t page, const void* queue) {
  const std::lock_guard hold(lock_);
  const auto found = pages_.find(page);
  if (found == pages_.end()) return;
  found->second.users--;
  if (queue != nullptr)
    std::erase_if(found->second.bells, [queue](const Bell& bell) { return bell.queue == queue; });
}

void UarTable::ring(uint32_t page, Doorbell doorbell) {
  const std::lock_guard hold(lock_);
  const auto found = pages_.find(page);
  if (found == pages_.end()) return;
  for (const Bell& bell : found->second.bells)
    if (bell.doorbell == doorbell) bell.look();
}

bool UarTable::has_some_of(uint16_t uid) {
  const std::lock_guard hold(lock_);
  return std::ranges::any_of(pages_, [uid](const auto& entry) { return entry.second.maker == uid; });
}

}  // namespace verbatim::connectx
