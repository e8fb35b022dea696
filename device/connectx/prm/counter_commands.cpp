// SPDX-License-Identifier: MIT
// Counters. What the device does not count is 0, and no capability says that it is counted.
#include "abi/prm/counters.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/object_commands.h"

namespace verbatim::prm {

namespace {

Result refuse_other_port() {
  return refuse(Status::kBadParamErr, "the device has no virtual port but the caller's own");
}

Result alloc_q_counter(Command<AllocQCounter>& c) {
  return make(c, ObjectKind::kQCounter, {}, AllocQCounterOut::counter_set_id);
}

Result query_q_counter(Command<QueryQCounter>& c) {
  if (c.in[QueryQCounterIn::other_vport]) return refuse_other_port();
  if (c.in[QueryQCounterIn::aggregate])
    return refuse(Status::kBadParamErr, "the device adds up no counter sets");
  const Expected<QueueCounts> counts =
      c.unit.queue_counts(c.uid, c.in[QueryQCounterIn::counter_set_id], c.in[QueryQCounterIn::clear]);
  if (!counts) return refuse(counts.error());
  c.out.set(QueryQCounterOut::rnr_nak_retry_err, counts->rnr_naks);
  c.out.set(QueryQCounterOut::local_ack_timeout_err, counts->ack_timeouts);
  return {};
}

Result dealloc_q_counter(Command<DeallocQCounter>& c) {
  return destroy(c, {ObjectKind::kQCounter, c.in[DeallocQCounterIn::counter_set_id]});
}

Result query_vnic_env(Command<QueryVnicEnv>& c) {
  return c.in[QueryVnicEnvIn::other_vport] ? refuse_other_port() : Result{};
}

Result query_vport_counter(Command<QueryVportCounter>& c) {
  if (c.in[QueryVportCounterIn::other_vport] || c.in[QueryVportCounterIn::port_num] > 1)
    return refuse_other_port();
  const PortCounts counts = c.unit.port_counts(c.in[QueryVportCounterIn::clear]);
  const auto sent = c.out[QueryVportCounterOut::transmitted_ib_unicast];
  sent.set(TrafficCounter::packets, counts.sent_packets);
  sent.set(TrafficCounter::octets, counts.sent_bytes);
  const auto received = c.out[QueryVportCounterOut::received_ib_unicast];
  received.set(TrafficCounter::packets, counts.received_packets);
  received.set(TrafficCounter::octets, counts.received_bytes);
  return {};
}

// Nothing slows queue pairs down, so that nothing is enabled, set or counted.
Result query_cong_status(Command<QueryCongStatus>&) { return {}; }
Result query_cong_params(Command<QueryCongParams>&) { return {}; }
Result query_cong_statistics(Command<QueryCongStatistics>&) { return {}; }

}  // namespace

std::span<const Entry> counter_commands() {
  static constexpr Entry kEntries[] = {
      entry<alloc_q_counter>(),   entry<query_q_counter>(),       entry<dealloc_q_counter>(),
      entry<query_vnic_env>(),    entry<query_vport_counter>(),   entry<query_cong_status>(),
      entry<query_cong_params>(), entry<query_cong_statistics>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
