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

void add_target(std::vector<Steering::Target>& targets, Steering::Target added) {
  const auto found = std::find_if(targets.begin(), targets.end(),
                                  [&](const Steering::Target& target) { return target.to == added.to; });
  if (found == targets.end())
    targets.push_back(std::move(added));
  else if (found->tag == 0)
    found->tag = added.tag;
}

void note(const FlowRule& rule, uint32_t length) {
  if (rule.count) rule.count->add(length);
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

uint32_t Steering::add(FrameTarget* to, const FlowRule& rule, std::shared_ptr<FrameTarget> hold) {
  const std::lock_guard guard(lock_);
  if (++last_number_ == 0) last_number_ = 1;
  const auto place =
      std::upper_bound(entries_.begin(), entries_.end(), rule,
                       [](const FlowRule& added, const Entry& entry) { return before(added, entry.rule); });
  entries_.insert(place, {last_number_, to, rule, std::move(hold)});
  if (rule.leaves) leaving_.fetch_add(1, std::memory_order_relaxed);
  return last_number_;
}

template <class Which>
uint32_t Steering::erase(Which which) {
  std::vector<Entry> gone;  // released without the lock
  const std::lock_guard guard(lock_);
  const auto rest = std::stable_partition(entries_.begin(), entries_.end(),
                                          [&](const Entry& entry) { return !which(entry); });
  std::move(rest, entries_.end(), std::back_inserter(gone));
  entries_.erase(rest, entries_.end());
  for (const Entry& entry : gone)
    if (entry.rule.leaves) leaving_.fetch_sub(1, std::memory_order_relaxed);
  return static_cast<uint32_t>(gone.size());
}

bool Steering::remove(uint32_t number) {
  return erase([number](const Entry& entry) { return entry.number == number; }) != 0;
}

uint32_t Steering::forget(const FrameTarget* target) {
  return erase([target](const Entry& entry) { return entry.to == target; });
}

std::vector<Steering::Target> Steering::match(const FrameHeaders& frame, uint32_t length) const {
  std::vector<Target> targets;
  const std::lock_guard guard(lock_);
  const FlowRule* taken = nullptr;
  for (const auto& [number, to, rule, hold] : entries_) {
    if (rule.leaves) continue;
    if (taken && !same_place(*taken, rule)) break;
    if (taken ? !asks_the_same(*taken, rule) : !rule.matches(frame)) continue;
    note(rule, length);
    if (rule.drops) break;
    add_target(targets, {to, rule.tag, rule.action, hold});
    if (rule.kind != FlowRule::Kind::kSniffer && !rule.passes_on) taken = &rule;
  }
  return targets;
}

Steering::Exit Steering::match_exit(const FrameHeaders& frame, uint32_t length) const {
  const std::lock_guard guard(lock_);
  for (const auto& [number, to, rule, hold] : entries_) {
    if (!rule.leaves || !rule.matches(frame)) continue;
    note(rule, length);
    if (rule.drops) return {true, nullptr};
    if (rule.passes_on) continue;
    return {false, rule.action};
  }
  return {};
}

}  // namespace verbatim::engine
