// SPDX-License-Identifier: MIT
#include "device/connectx/scheduling.h"

#include <cerrno>
#include <string>
#include <utility>

namespace verbatim::connectx {

namespace {

Error no_element(uint32_t number) {
  return {ENOENT, "the device has no scheduling element " + std::to_string(number)};
}

}  // namespace

SchedulingTree::Element* SchedulingTree::find(uint32_t number) {
  const auto found = elements_.find(number);
  return found == elements_.end() ? nullptr : &found->second;
}

Expected<uint32_t> SchedulingTree::create(const hw::SchedulingSpec& spec) {
  const std::lock_guard hold(lock_);
  Element* parent = spec.parent == 0 ? nullptr : find(spec.parent);
  if (spec.parent != 0 && parent == nullptr) return no_element(spec.parent);
  if (parent != nullptr && parent->spec.leaf)
    return Error{EINVAL, "a leaf of the scheduling tree has nothing below it"};
  if (parent == nullptr && spec.leaf) return Error{EINVAL, "a leaf of the scheduling tree needs a parent"};
  if (parent == nullptr && (spec.share != 0 || spec.max_mbps != 0))
    return Error{EINVAL, "the root of a scheduling tree has neither share nor limit"};
  if (spec.leaf && leaves_ >= 1u << limits_.log_max_scheduling_leaves)
    return Error{ENOMEM, "all leaves of scheduling trees are in use"};
  Element made{spec, std::make_shared<engine::RateLimit>(parent != nullptr ? parent->limit : nullptr)};
  made.limit->set_mbps(spec.max_mbps);
  while (++last_ == 0 || find(last_) != nullptr) {
  }
  elements_.emplace(last_, std::move(made));
  if (parent != nullptr) parent->users++;
  leaves_ += spec.leaf;
  return last_;
}

Outcome SchedulingTree::modify(uint32_t number, uint32_t mask, const hw::SchedulingSpec& spec) {
  const std::lock_guard hold(lock_);
  Element* element = find(number);
  if (element == nullptr) return no_element(number);
  if (element->spec.parent == 0 && mask != 0)
    return Error{EINVAL, "the root of a scheduling tree has neither share nor limit"};
  if ((mask & hw::Hca::kShare) != 0) element->spec.share = spec.share;
  if ((mask & hw::Hca::kRate) != 0) element->limit->set_mbps(element->spec.max_mbps = spec.max_mbps);
  return Done{};
}

Outcome SchedulingTree::destroy(uint32_t number) {
  const std::lock_guard hold(lock_);
  const Element* element = find(number);
  if (element == nullptr) return no_element(number);
  if (element->users != 0) return Error{EBUSY, "elements or queue pairs are below the scheduling element"};
  release(element->spec.parent);
  leaves_ -= element->spec.leaf;
  elements_.erase(number);
  return Done{};
}

void SchedulingTree::release(uint32_t number) {
  if (Element* element = find(number)) element->users--;
}

Expected<SchedulingTree::Element*> SchedulingTree::leaf(uint32_t number) {
  Element* element = number == 0 ? nullptr : find(number);
  if (number != 0 && element == nullptr) return no_element(number);
  if (element != nullptr && !element->spec.leaf)
    return Error{EINVAL, "queue pairs are attached to leaves of the scheduling tree only"};
  return element;
}

Outcome SchedulingTree::attach(QpObject& qp, uint32_t request_leaf, uint32_t response_leaf) {
  std::unique_lock hold(lock_);
  const Expected<Element*> requests = leaf(request_leaf), responses = leaf(response_leaf);
  if (!requests) return requests.error();
  if (!responses) return responses.error();
  for (Element* each : {*requests, *responses})
    if (each != nullptr) each->users++;
  release(qp.request_leaf);
  release(qp.response_leaf);
  qp.request_leaf = request_leaf;
  qp.response_leaf = response_leaf;
  apply(qp, std::move(hold));
  return Done{};
}

void SchedulingTree::pace(QpObject& qp, const hw::QpAttributes& attributes) {
  std::unique_lock hold(lock_);
  qp.rate_kbps = attributes.rate_limit;
  qp.burst_bytes = attributes.burst_bytes;
  apply(qp, std::move(hold));
}

// The queue pair's own limit, if it has one, is below that of its leaf.
void SchedulingTree::apply(QpObject& qp, std::unique_lock<std::mutex> hold) {
  const Element* element = qp.request_leaf == 0 ? nullptr : find(qp.request_leaf);
  auto limit = element != nullptr ? element->limit : nullptr;
  if (qp.rate_kbps != 0) {
    limit = std::make_shared<engine::RateLimit>(std::move(limit));
    limit->set_kbps(qp.rate_kbps);
    limit->set_burst(qp.burst_bytes);
  }
  hold.unlock();  // a lock of the device is taken after the requester's, never before
  qp.queue_pair->requester().pace(std::move(limit));
}

void SchedulingTree::detach(QpObject& qp) {
  const std::lock_guard hold(lock_);
  release(qp.request_leaf.exchange(0));
  release(qp.response_leaf.exchange(0));
}

Expected<uint16_t> PacingTable::take(const hw::PacingSpec& spec, bool dedicated) {
  if (spec.rate_kbps < limits_.pacing_min_kbps || spec.rate_kbps > limits_.pacing_max_kbps)
    return Error{EINVAL, "the device paces from " + std::to_string(limits_.pacing_min_kbps) + " to " +
                             std::to_string(limits_.pacing_max_kbps) + " kbit/s"};
  if (spec.burst_bytes != 0 || spec.packet_bytes != 0)
    return Error{EINVAL, "the device takes neither a bound of bursts nor a typical packet size"};
  const std::lock_guard hold(lock_);
  for (auto& [index, entry] : entries_) {
    if (dedicated || entry.dedicated || entry.spec != spec) continue;
    entry.users++;
    return index;
  }
  for (uint16_t index = 1; index <= limits_.pacing_entries; index++)
    if (entries_.try_emplace(index, Entry{spec, dedicated, 1}).second) return index;
  return Error{ENOSPC, "all entries of the table of rates are in use"};
}

bool PacingTable::has(uint16_t index) {
  const std::lock_guard hold(lock_);
  return entries_.contains(index);
}

Outcome PacingTable::give_back(uint16_t index) {
  const std::lock_guard hold(lock_);
  const auto found = entries_.find(index);
  if (found == entries_.end()) return Error{ENOENT, "the table of rates has no such entry"};
  if (--found->second.users == 0) entries_.erase(found);
  return Done{};
}

}  // namespace verbatim::connectx
