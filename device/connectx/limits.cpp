// SPDX-License-Identifier: MIT
#include "device/connectx/limits.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "device/connectx/device_memory.h"
#include "device/connectx/hardware_clock.h"
#include "device/connectx/prm/object_limits.h"
#include "device/connectx/tag_list.h"
#include "engine/frame_headers.h"
#include "engine/frame_segments.h"
#include "engine/memory_keys.h"
#include "wire/link/segment.h"

namespace verbatim::connectx {

namespace {

constexpr uint32_t kCompletionVectorsMax = 64;

}  // namespace

hw::Limits connectx7_limits(uint64_t node_guid) {
  hw::Limits limits;
  limits.firmware = "28.39.1002";
  limits.node_guid = node_guid;
  limits.vendor_id = 0x02c9;
  limits.vendor_part_id = 4129;
  limits.ece_vendor_id = 0x15b3;
  limits.ece_options = 0x10000000;  // the options' format alone: no option of it changes anything here
  limits.hardware_version = 0;
  limits.max_mr_bytes = UINT64_MAX;
  describe_device_memory(limits);
  limits.max_qp = 131072 - 8 * 16;  // number blocks less the numbers kept free in each
  limits.max_qp_wr = 32768;
  limits.max_sge = 30;
  limits.max_sge_rd = 30;
  limits.max_inline = 960;
  limits.max_cq = 1u << 24;
  limits.max_cqe = 4194303;
  limits.max_cq_count = 0xffff;
  limits.max_cq_period_us = 4095;
  limits.max_mr = engine::kKeysMax - engine::KeyTable::kFirstIndex;
  limits.max_mw = limits.max_mr;
  limits.max_pd = 1u << 23;
  limits.max_ah = INT32_MAX;
  limits.max_srq = 1u << 23;
  limits.max_srq_wr = 32767;
  limits.max_srq_sge = 31;
  limits.max_qp_rd_atomic = 16;
  limits.max_qp_init_rd_atomic = 16;
  limits.max_res_rd_atomic = 16 * limits.max_qp;
  limits.max_mcast_grp = 1024;
  limits.max_mcast_qp_attach = 240;
  limits.max_total_mcast_qp_attach = 1024 * 240;
  limits.max_wq = 1u << prm::kLogWorkQueuesMax;
  limits.max_wq_tables = 1u << prm::kLogReceiveTablesMax;
  limits.max_wq_table_size = 1u << prm::kLogReceiveTableEntriesMax;
  limits.max_pkeys = 1;
  limits.log_max_dci_streams = limits.log_max_dci_errored_streams = 6;
  limits.timestamp_khz = hardware_clock_khz();
  limits.max_send_message_bytes = wire::kMessageBytesMax;
  limits.local_ack_delay = 16;
  limits.max_tags = kTagsMax;
  limits.max_tag_operations = kTagOperationsMax;
  limits.max_rendezvous_header_bytes = engine::MessageHead::kBytesMax;
  limits.max_completion_counters = 1u << 16;
  limits.counted_operations = (1u << hw::kCountedOperations) - 1;
  limits.log_max_scheduling_leaves = 10;
  limits.pacing_entries = 127;
  limits.pacing_min_kbps = 1;
  limits.pacing_max_kbps = 100'000'000;
  limits.completion_vectors = std::clamp(std::thread::hardware_concurrency(), 1u, kCompletionVectorsMax);
  limits.interrupt_vectors = 256;
  return limits;
}

void describe_frames(hw::Limits& limits) {
  limits.max_frame_bytes = engine::kFrameBytesMax;
  limits.log_segmented_bytes_max = static_cast<uint32_t>(std::countr_zero(engine::kSegmentedBytesMax));
}

}  // namespace verbatim::connectx
