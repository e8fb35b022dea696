// SPDX-License-Identifier: MIT
#include "engine/alarms.h"

#include <algorithm>
#include <mutex>

#include "base/clock.h"

namespace verbatim::engine {

void Alarms::set(Alarm& alarm, uint64_t at_ns) {
  const std::lock_guard<SpinLock> hold(lock_);
  const auto found = std::ranges::find(set_, &alarm, &Entry::alarm);
  if (found == set_.end())
    set_.push_back({&alarm, at_ns});
  else
    found->at_ns = at_ns;
}

void Alarms::clear(Alarm& alarm) {
  const std::scoped_lock hold(running_, lock_);
  std::erase_if(set_, [&alarm](const Entry& entry) { return entry.alarm == &alarm; });
}

Alarm* Alarms::take_due(uint64_t now_ns, uint64_t& next_ns) {
  const std::lock_guard<SpinLock> hold(lock_);
  next_ns = kNever;
  if (set_.empty()) return nullptr;
  const auto first = std::ranges::min_element(set_, {}, &Entry::at_ns);
  if (first->at_ns > now_ns) {
    next_ns = first->at_ns;
    return nullptr;
  }
  Alarm* const due = first->alarm;
  set_.erase(first);
  return due;
}

uint64_t Alarms::run(uint64_t now_ns) {
  const std::lock_guard<SpinLock> hold(running_);
  uint64_t next_ns = kNever;
  while (Alarm* due = take_due(now_ns, next_ns)) due->ring(now_ns);
  return next_ns;
}

}  // namespace verbatim::engine
