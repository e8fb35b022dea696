// SPDX-License-Identifier: MIT
#include "device/connectx/prm/raw_queue.h"

#include "device/connectx/prm/object_limits.h"

namespace verbatim::prm {

namespace {

Result bad(const char* reason) { return refuse(Status::kBadParamErr, reason); }

constexpr uint32_t kPageOffsetUnit = 64;
constexpr uint32_t kDoorbellBytes = 8;

Result check_kind(View<Wq> context, bool receives) {
  const auto type = context.as<WqType>(Wq::wq_type);
  const bool striding = type == WqType::kCyclicStridingRq;
  if (type != WqType::kCyclic && !(striding && receives)) return bad("the work queue is not a cyclic one");
  if (context[Wq::wq_signature]) return bad("entries carry no signatures");
  if (context[Wq::shampo_enable]) return bad("the device splits no headers");
  return {};
}

/// What an entry of a receive queue is cut into.
Result read_strides(View<Wq> context, RawQueueSpec& spec) {
  if (context.as<WqType>(Wq::wq_type) != WqType::kCyclicStridingRq) return {};
  const uint32_t log_bytes = context[Wq::log_wqe_stride_size] + kLogStrideBytesMin;
  const uint32_t log_strides = log_strides_of(context[Wq::log_wqe_num_of_strides]);
  if (log_bytes > kLogStrideBytesMax) return bad("there is no such stride");
  if (log_strides > kLogStridesMax) return bad("an entry has not so many strides");
  if (context[Wq::log_wq_stride] < kLogStridedEntryMin) return bad("an entry has no room for its memory");
  spec.strides = 1u << log_strides;
  spec.stride_bytes = 1u << log_bytes;
  spec.pads_strides = context[Wq::two_byte_shift_en];
  return {};
}

}  // namespace

Result read_raw_queue(View<Wq> context, bool receives, RawQueueSpec& spec) {
  if (Result kind = check_kind(context, receives); !kind.ok()) return kind;
  if (!context[Wq::wq_umem_valid] || !context[Wq::dbr_umem_valid])
    return bad("a work queue and its doorbell record lie in umems");
  const uint32_t log_stride = context[Wq::log_wq_stride];
  if (Result strides = read_strides(context, spec); !strides.ok()) return strides;
  spec.log_entries = context[Wq::log_wq_sz];
  if (spec.log_entries > kLogWorkEntriesMax) return bad("the work queue has too many entries");
  if (receives ? log_stride < kLogRawStrideMin || log_stride > kLogRawStrideMax : log_stride != kLogSendBlock)
    return bad("the work queue's entries have not such a size");
  if (context[Wq::dbr_addr] % kDoorbellBytes != 0) return bad("the doorbell record is not aligned");
  spec.pd = context[Wq::pd];
  spec.umem = context[Wq::wq_umem_id];
  spec.offset = context[Wq::wq_umem_offset];
  const uint64_t more = uint64_t{context[Wq::page_offset]} * kPageOffsetUnit;
  if (spec.offset > UINT64_MAX - more) return bad("the work queue lies beyond its umem");
  spec.offset += more;
  spec.bytes = uint64_t{1} << (spec.log_entries + log_stride);
  spec.doorbell_umem = context[Wq::dbr_umem_id];
  spec.doorbell_offset = context[Wq::dbr_addr];
  return {};
}

}  // namespace verbatim::prm
