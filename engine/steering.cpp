// SPDX-License-Identifier: MIT
#include "engine/steering.h"

#include <algorithm>
#include <cstring>

namespace verbatim::engine {

namespace {

bool same_place(const FlowRule& a, const FlowRule& b) { return a.kind == b.kind && a.priority == b.priority; }

bool asks_the_same(const FlowRule& a, const FlowRule& b) {
  return same_place(a, b) && std::memcmp(&a.mask, &b.mask, sizeof a.mask) == 0 && a.matches(b.value);
}

bool before(const FlowRule& a, const FlowRule& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.priority < b.priority;
}

void add_target(std::vector<Steering::Target>& targets, QueuePair* qp, uint32_t tag) {
  const auto found = std::find_if(targets.begin(), targets.end(),
                                  [qp](const Steering::Target& target) { return target.qp == qp; });
  if (found == targets.end())
    targets.push_back({qp, tag});
  else if (found->tag == 0)
    found->tag = tag;
}

}  // namespace

bool FlowRule::matches(const FrameHeaders& frame) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&frame);
  const auto* values = reinterpret_cast<const uint8_t*>(&value);
  const auto* masks = reinterpret_cast<const uint8_t*>(&mask);
  uint32_t different = 0;
  for (size_t i = 0; i < sizeof frame; i++)
    different |= static_cast<uint32_t>(bytes[i] ^ values[i]) & masks[i];
  return different == 0;
}

uint32_t Steering::add(QueuePair* qp, const FlowRule& rule) {
  const std::lock_guard hold(lock_);
  if (++last_number_ == 0) last_number_ = 1;
  const auto place =
      std::upper_bound(entries_.begin(), entries_.end(), rule,
                       [](const FlowRule& added, const Entry& entry) { return before(added, entry.rule); });
  entries_.insert(place, {last_number_, qp, rule});
  return last_number_;
}

bool Steering::remove(uint32_t number) {
  const std::lock_guard hold(lock_);
  return std::erase_if(entries_, [number](const Entry& entry) { return entry.number == number; }) != 0;
}

uint32_t Steering::forget(const QueuePair* qp) {
  const std::lock_guard hold(lock_);
  return static_cast<uint32_t>(std::erase_if(entries_, [qp](const Entry& entry) { return entry.qp == qp; }));
}

std::vector<Steering::Target> Steering::match(const FrameHeaders& frame) const {
  std::vector<Target> targets;
  const std::lock_guard hold(lock_);
  const FlowRule* taken = nullptr;
  for (const auto& [number, qp, rule] : entries_) {
    if (taken && !same_place(*taken, rule)) break;
    if (taken ? !asks_the_same(*taken, rule) : !rule.matches(frame)) continue;
    if (rule.drops) break;
    add_target(targets, qp, rule.tag);
    if (rule.kind != FlowRule::Kind::kSniffer && !rule.passes_on) taken = &rule;
  }
  return targets;
}

}  // namespace verbatim::engine
