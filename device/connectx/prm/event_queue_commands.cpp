// SPDX-License-Identifier: MIT
// Event queues. The host side gives their memory, in one piece.
#include "abi/prm/events.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/sizes.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kEntryBytes = 64, kPageMin = 4096, kMaskWords = 4;

Result create_eq(Command<CreateEq>& c) {
  const auto context = c.in[CreateEqIn::eq_context_entry];
  const uint32_t log_size = context[Eqc::log_eq_size];
  if (log_size > kLogEventQueueMax)
    return refuse(Status::kBadParamErr, "an event queue has at most 2^" + std::to_string(kLogEventQueueMax) +
                                            " entries, not 2^" + std::to_string(log_size));
  EqContext wanted;
  wanted.entries = 1u << log_size;
  if (uint64_t{kPageMin} << context[Eqc::log_page_size] < uint64_t{wanted.entries} * kEntryBytes)
    return refuse(Status::kBadParamErr, "an event queue lies in one page of any size");
  wanted.address = c.in.at(CreateEqIn::pas, 0);
  wanted.ignore_overrun = context[Eqc::oi];
  wanted.vector = context[Eqc::intr];
  wanted.uar = context[Eqc::uar_page];
  for (size_t i = 0; i < kMaskWords; i++) wanted.events[i] = c.in.at(CreateEqIn::event_bitmask, i);
  const Expected<uint32_t> eqn = c.unit.create_eq(c.uid, wanted);
  if (!eqn) return refuse(eqn.error());
  c.out.set(CreateEqOut::eq_number, *eqn);
  return {};
}

Result query_eq(Command<QueryEq>& c) {
  const Expected<EqFacts> facts = c.unit.query_eq(c.uid, c.in[QueryEqIn::eq_number]);
  if (!facts) return refuse(facts.error());
  const EqContext& is = facts->context;
  const auto context = c.out[QueryEqOut::eq_context_entry];
  context.set(Eqc::status, facts->failed ? EqStatus::kEqWriteFailure : EqStatus::kOk);
  context.set(Eqc::st, facts->armed ? EqState::kArmed : EqState::kFired);
  context.set(Eqc::oi, is.ignore_overrun);
  context.set(Eqc::log_eq_size, log2_of(is.entries));
  context.set(Eqc::uar_page, is.uar);
  context.set(Eqc::intr, is.vector);
  context.set(Eqc::consumer_counter, facts->consumed);
  context.set(Eqc::producer_counter, facts->produced);
  c.out.set(QueryEqOut::event_bitmask, is.events[0]);
  return {};
}

Result destroy_eq(Command<DestroyEq>& c) {
  return result_of(c.unit.destroy_eq(c.uid, c.in[DestroyEqIn::eq_number]));
}

}  // namespace

std::span<const Entry> event_queue_commands() {
  static constexpr Entry kEntries[] = {entry<create_eq>(), entry<query_eq>(), entry<destroy_eq>()};
  return kEntries;
}

}  // namespace verbatim::prm
