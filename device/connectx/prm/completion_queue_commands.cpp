// SPDX-License-Identifier: MIT
// Completion queues. A user's memory is always in umems: whether the flags say so (cq_umem_valid) does not
// matter, and released programs leave them out.
#include "abi/prm/completion_queues.h"
#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/sizes.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kNarrow = 64, kWide = 128;
/// The table ends before this one.
constexpr uint32_t kPeriodMode = 1 << 4;
/// Placement in a page list, which umems do not have.
constexpr uint32_t kPlacement =
    static_cast<uint32_t>(ResizeCqField::kPageOffset) | static_cast<uint32_t>(ResizeCqField::kLogPageSize);

/// What the device would have to do that it cannot, or nullptr.
const char* beyond_us(View<Cqc> context) {
  if (context[Cqc::apu_cq]) return "completion queues of an APU are not offered";
  if (context[Cqc::cc]) return "collapsed completion queues are not offered";
  if (context[Cqc::cqe_comp_en]) return "compressed completions are not offered";
  if (context[Cqc::as_notify]) return "waking by notification is not offered";
  if (context.as<CqeSize>(Cqc::cqe_sz) > CqeSize::k128Bytes) return "entries have 64 or 128 bytes";
  return nullptr;
}

Result too_large(uint32_t log_size) {
  return refuse(Status::kBadParamErr, "a completion queue has at most 2^" +
                                          std::to_string(kLogCompletionQueueMax) + " entries, not 2^" +
                                          std::to_string(log_size));
}

/// What a change may set, too.
void read_changeable(View<Cqc> context, uint32_t fields, CqContext& to) {
  const auto named = [fields](ModifyCqField field) { return (fields & static_cast<uint32_t>(field)) != 0; };
  if (named(ModifyCqField::kCqPeriod)) to.period_us = static_cast<uint16_t>(context[Cqc::cq_period]);
  if (named(ModifyCqField::kCqMaxCount)) to.count = static_cast<uint16_t>(context[Cqc::cq_max_count]);
  if (named(ModifyCqField::kOi)) to.ignore_overrun = context[Cqc::oi];
  if (named(ModifyCqField::kCEqn)) to.eqn = context[Cqc::c_eqn_or_apu_element] & 0xff;
  if (fields & kPeriodMode) to.period_mode = context[Cqc::cq_period_mode];
}

Result create_cq(Command<CreateCq>& c) {
  const auto context = c.in[CreateCqIn::cq_context];
  if (const char* reason = beyond_us(context)) return refuse(Status::kBadParamErr, reason);
  const uint32_t log_size = context[Cqc::log_cq_size];
  if (log_size > kLogCompletionQueueMax) return too_large(log_size);
  CqContext wanted;
  wanted.ring = {c.in[CreateCqIn::cq_umem_id], c.in[CreateCqIn::cq_umem_offset]};
  wanted.doorbell = {context[Cqc::dbr_umem_id], context[Cqc::dbr_addr]};
  wanted.entries = 1u << log_size;
  wanted.stride = context.as<CqeSize>(Cqc::cqe_sz) == CqeSize::k128Bytes ? kWide : kNarrow;
  wanted.uar = context[Cqc::uar_page];
  wanted.real_time = context.as<QpTimestamp>(Cqc::cq_timestamp_format) == QpTimestamp::kRealTime;
  read_changeable(context, UINT32_MAX, wanted);
  const Expected<uint32_t> cqn = c.unit.create_cq(c.uid, wanted);
  if (!cqn) return refuse(cqn.error());
  c.out.set(CreateCqOut::cqn, *cqn);
  return {};
}

Result query_cq(Command<QueryCq>& c) {
  const Expected<CqFacts> facts = c.unit.query_cq(c.uid, c.in[QueryCqIn::cqn]);
  if (!facts) return refuse(facts.error());
  const CqContext& is = facts->context;
  const auto context = c.out[QueryCqOut::cq_context];
  context.set(Cqc::status, facts->status);
  context.set(Cqc::st, facts->state);
  context.set(Cqc::cqe_sz, is.stride == kWide ? CqeSize::k128Bytes : CqeSize::k64Bytes);
  context.set(Cqc::oi, is.ignore_overrun);
  if (is.real_time) context.set(Cqc::cq_timestamp_format, QpTimestamp::kRealTime);
  context.set(Cqc::log_cq_size, log2_of(is.entries));
  context.set(Cqc::uar_page, is.uar);
  context.set(Cqc::c_eqn_or_apu_element, is.eqn);
  context.set(Cqc::cq_period, is.period_us);
  context.set(Cqc::cq_max_count, is.count);
  context.set(Cqc::cq_period_mode, is.period_mode);
  context.set(Cqc::consumer_counter, facts->consumed);
  context.set(Cqc::producer_counter, facts->produced);
  context.set(Cqc::dbr_umem_valid, is.doorbell.umem != 0);
  context.set(Cqc::dbr_umem_id, is.doorbell.umem);
  context.set(Cqc::dbr_addr, is.doorbell.offset);
  return {};
}

Result resize(Command<ModifyCq>& c) {
  const auto context = c.in[ModifyCqIn::cq_context];
  const uint32_t fields = c.in[ModifyCqIn::modify_field_select_resize_field_select]
                              [ModifyFieldSelectResizeFieldSelectAuto::resize_field_select]
                              [ResizeFieldSelect::resize_field_select];
  if (!(fields & static_cast<uint32_t>(ResizeCqField::kLogCqSize)))
    return refuse(Status::kBadParamErr, "a new ring needs its size: log_cq_size is not selected");
  if (fields & ~(static_cast<uint32_t>(ResizeCqField::kLogCqSize) | kPlacement))
    return refuse(Status::kBadParamErr, "unknown fields are selected");
  const uint32_t log_size = context[Cqc::log_cq_size];
  if (log_size > kLogCompletionQueueMax) return too_large(log_size);
  return result_of(c.unit.resize_cq(c.uid, c.in[ModifyCqIn::cqn],
                                    {c.in[ModifyCqIn::cq_umem_id], c.in[ModifyCqIn::cq_umem_offset]},
                                    1u << log_size));
}

Result modify_cq(Command<ModifyCq>& c) {
  if (c.in[ModifyCqIn::op_mod] == static_cast<uint32_t>(ModifyCqMode::kResizeCq)) return resize(c);
  if (c.in[ModifyCqIn::op_mod] != static_cast<uint32_t>(ModifyCqMode::kModifyCq))
    return refuse(Status::kBadParamErr, "op_mod is neither modify nor resize");
  const uint32_t cqn = c.in[ModifyCqIn::cqn];
  const Expected<CqFacts> facts = c.unit.query_cq(c.uid, cqn);
  if (!facts) return refuse(facts.error());
  CqContext wanted = facts->context;
  const uint32_t fields = c.in[ModifyCqIn::modify_field_select_resize_field_select]
                              [ModifyFieldSelectResizeFieldSelectAuto::modify_field_select]
                              [ModifyFieldSelect::modify_field_select];
  read_changeable(c.in[ModifyCqIn::cq_context], fields, wanted);
  return result_of(c.unit.modify_cq(c.uid, cqn, wanted));
}

Result destroy_cq(Command<DestroyCq>& c) {
  return result_of(c.unit.destroy_cq(c.uid, c.in[DestroyCqIn::cqn]));
}

}  // namespace

std::span<const Entry> completion_queue_commands() {
  static constexpr Entry kEntries[] = {entry<create_cq>(), entry<query_cq>(), entry<modify_cq>(),
                                       entry<destroy_cq>()};
  return kEntries;
}

}  // namespace verbatim::prm
