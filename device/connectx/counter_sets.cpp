// SPDX-License-Identifier: MIT
#include "device/connectx/counter_sets.h"

namespace verbatim::connectx {

namespace {

/// What queue pairs of a set counted that have left it, less what was cleared: sums may wrap around below 0.
struct LeftBehind final : prm::ObjectBody {
  prm::QueueCounts counts;
};

void add(prm::QueueCounts& to, const prm::QueueCounts& more) {
  to.rnr_naks += more.rnr_naks;
  to.ack_timeouts += more.ack_timeouts;
}

void subtract(prm::QueueCounts& from, const prm::QueueCounts& less) {
  from.rnr_naks -= less.rnr_naks;
  from.ack_timeouts -= less.ack_timeouts;
}

uint64_t now(const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

prm::QueueCounts counts_of(QpObject& qp) {
  const engine::PublishedQp& shown = qp.queue_pair->published();
  return {now(shown.rnr_naks), now(shown.retries)};
}

void add_traffic(prm::PortCounts& to, QpObject& qp) {
  const engine::PublishedQp& shown = qp.queue_pair->published();
  to.sent_packets += now(shown.send_messages);
  to.sent_bytes += now(shown.send_bytes);
  to.received_packets += now(shown.receive_messages);
  to.received_bytes += now(shown.receive_bytes);
}

}  // namespace

uint32_t CounterSets::set_of(const QpObject& qp) const {
  const auto found = attachments_.find(&qp);
  return found == attachments_.end() ? 0 : found->second.set;
}

prm::QueueCounts CounterSets::counted(QpObject& qp) const {
  prm::QueueCounts counts = counts_of(qp);
  const auto found = attachments_.find(&qp);
  if (found != attachments_.end()) subtract(counts, found->second.before);
  return counts;
}

prm::QueueCounts& CounterSets::left_behind(uint32_t set) {
  if (set == 0) return default_left_;
  auto& body = objects_.at({prm::ObjectKind::kQCounter, set}).body;
  if (!body) body = std::make_unique<LeftBehind>();
  return static_cast<LeftBehind&>(*body).counts;
}

void CounterSets::leave(QpObject& qp) {
  const uint32_t set = set_of(qp);
  add(left_behind(set), counted(qp));
  if (set != 0) objects_.let_go({prm::ObjectKind::kQCounter, set});
}

Outcome CounterSets::attach(uint16_t uid, QpObject& qp, uint32_t set) {
  if (set == set_of(qp)) return Done{};
  if (set != 0)
    if (Outcome held = objects_.hold(uid, {prm::ObjectKind::kQCounter, set}); !held) return held;
  leave(qp);
  attachments_[&qp] = {set, counts_of(qp)};
  return Done{};
}

void CounterSets::retire(QpObject& qp) {
  leave(qp);
  attachments_.erase(&qp);
  add_traffic(port_left_, qp);
}

Expected<prm::QueueCounts> CounterSets::of_set(uint16_t uid, uint32_t set, bool clear) {
  if (set != 0)
    if (const auto found = objects_.find(uid, {prm::ObjectKind::kQCounter, set}); !found)
      return found.error();
  prm::QueueCounts& left = left_behind(set);
  prm::QueueCounts sum = left;
  for (const auto& [number, qp] : numbers_.qps)
    if (set_of(*qp) == set) add(sum, counted(*qp));
  if (clear) subtract(left, sum);
  return sum;
}

prm::PortCounts CounterSets::port(bool clear) {
  prm::PortCounts sum = port_left_;
  for (const auto& [number, qp] : numbers_.qps) add_traffic(sum, *qp);
  if (!clear) return sum;
  port_left_.sent_packets -= sum.sent_packets;
  port_left_.sent_bytes -= sum.sent_bytes;
  port_left_.received_packets -= sum.received_packets;
  port_left_.received_bytes -= sum.received_bytes;
  return sum;
}

}  // namespace verbatim::connectx
