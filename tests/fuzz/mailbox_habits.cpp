// SPDX-License-Identifier: MIT
#include "tests/fuzz/mailbox_habits.h"

#include <algorithm>
#include <iterator>

#include "abi/prm/crypto.h"
#include "abi/prm/scheduling.h"

namespace verbatim::fuzz {

namespace {

constexpr uint64_t kAesXts = static_cast<uint64_t>(prm::DekPurpose::kAesXts);
constexpr uint64_t kNicHierarchy = 3;
constexpr uint64_t kQueueGroup = static_cast<uint64_t>(prm::SchedulingType::kQueueGroup);

constexpr Habit reference(std::string_view field, std::string_view kind, std::string_view layout = "") {
  return {layout, field, kind, 0, 0, 1};
}
constexpr Habit range(std::string_view field, uint64_t least, uint64_t most, uint64_t step = 1,
                      std::string_view layout = "") {
  return {layout, field, "", least, most, step};
}

/// The first one that fits counts: those of one layout come first.
constexpr Habit kHabits[] = {
    range("wq_type", 1, 1, 1, "create_sq_in"),
    range("log_wq_stride", 6, 6, 1, "create_sq_in"),
    range("wq_type", 1, 3, 2, "create_rq_in"),
    range("wq_type", 0, 1, 1, "create_rmp_in"),
    range("log_wq_stride", 5, 6, 1, "create_rmp_in"),
    range("topology", 1, 1, 1, "create_xrq_in"),
    range("rlkey", 0, 0, 1, "create_xrq_in"),
    range("log_matching_list_sz", 1, 4, 1, "create_xrq_in"),
    range("wq_type", 0, 1, 1, "create_xrq_in"),
    range("log_wq_stride", 5, 6, 1, "create_xrq_in"),
    range("ctx.state", 1, 1, 1, "modify_rmp_in"),
    range("op_mod", 1, 1, 1, "arm_rq_in"),
    range("st", 0, 0, 1, "create_eq_in"),
    range("scheduling_hierarchy", kNicHierarchy, kNicHierarchy),
    range("element_type", 0, kQueueGroup, kQueueGroup),
    reference("parent_element_id", "SCHED_ELEM"),
    range("bw_share", 0, 100),
    range("max_average_bw", 0, 10000),
    range("modify_field_select", 0, 3, 1, "create_sched_elem_in"),
    range("has_keytag", 0, 1),
    range("key", 0, UINT8_MAX, 1, "create_encryption_key_obj_in"),
    reference("pd", "PD"),
    reference("cqn", "CQ"),
    reference("cqn_snd", "CQ"),
    reference("cqn_rcv", "CQ"),
    reference("c_eqn", "EQ"),
    reference("c_eqn_or_apu_element", "EQ"),
    reference("eqn", "EQ"),
    reference("eq_number", "EQ"),
    reference("uar", "UAR"),
    reference("uar_page", "UAR"),
    reference("srqn_rmpn_xrqn", "RMP"),
    reference("srqn", "RMP"),
    reference("srqn_xrqn", "RMP"),
    reference("dctn", "DCT"),
    reference("dct_number", "DCT"),
    reference("rmpn", "RMP"),
    reference("xrqn", "XRQ"),
    reference("rqn", "RQ"),
    reference("inline_rqn", "RQ"),
    reference("sqn", "SQ"),
    reference("tis_num_0", "TIS"),
    reference("indirect_table", "RQT"),
    reference("transport_domain", "TRANSPORT_DOMAIN"),
    reference("xrcd", "XRCD"),
    reference("counter_set_id", "Q_COUNTER"),
    reference("remote_qpn", "QP"),
    reference("qpn", "QP"),
    reference("translations_mkey", "MKEY"),
    reference("wq_umem_id", "UMEM"),
    reference("dbr_umem_id", "UMEM"),
    reference("cq_umem_id", "UMEM"),
    reference("eq_umem_id", "UMEM"),
    reference("mkey_umem_id", "UMEM"),
    range("wq_umem_valid", 1, 1),
    range("dbr_umem_valid", 1, 1),
    range("cq_umem_valid", 1, 1),
    range("eq_umem_valid", 1, 1),
    range("mkey_umem_valid", 1, 1),
    range("wq_umem_offset", 0, 8192, 64),
    range("cq_umem_offset", 0, 8192, 4096),
    range("eq_umem_offset", 0, 8192, 4096),
    range("mkey_umem_offset", 0, 8192),
    range("dbr_addr", 0, 16000, 8),
    range("log_wq_stride", 4, 6),
    range("log_wq_sz", 0, 7),
    range("log_wqe_stride_size", 0, 7),
    range("log_wqe_num_of_strides", 0, 7),
    range("log_rq_size", 0, 5),
    range("log_rq_stride", 0, 2),
    range("log_sq_size", 0, 6),
    range("log_cq_size", 0, 6),
    range("log_eq_size", 4, 7),
    range("wq_type", 0, 3),
    range("rq_type", 0, 1),
    range("st", 0, 3),
    range("pm_state", 3, 3),
    range("mtu", 1, 5),
    range("vhca_port_num", 1, 1),
    range("hop_limit", 1, 64),
    range("retry_count", 0, 7),
    range("rnr_retry", 0, 7),
    range("log_sra_max", 0, 4),
    range("log_rra_max", 0, 4),
    range("disp_type", 0, 1),
    range("rx_hash_fn", 0, 2),
    range("rqt_max_size", 4, 8),
    range("rqt_actual_size", 1, 4),
    range("state", 0, 3),
    range("rq_state", 0, 3),
    range("sq_state", 0, 3),
    range("rmp_state", 0, 1),
    range("intr", 0, 3),
    range("log_page_size", 1, 2),
    range("cqe_sz", 0, 1),
    range("no_sq", 0, 1),
    range("oi", 0, 1),
    range("event_bitmask", 0, UINT32_MAX),
    range("opt_param_mask", 0, 0xffff, 0xffff),
    range("access_mode_1_0", 0, 3),
    range("umr_en", 0, 1),
    range("lw", 0, 1),
    range("lr", 0, 1),
    range("rw", 0, 1),
    range("rr", 0, 1),
    range("a", 0, 1),
    range("len", 0, 16384),
    range("tis_lst_sz", 0, 1),
    range("user_index", 0, 0xffffff),
    range("flush_in_error_en", 0, 1),
    range("num_psv", 1, 4),
    range("key_size", 0, 1),
    range("key_purpose", kAesXts, kAesXts),
};

bool fits(const Habit& habit, std::string_view layout, std::string_view path) {
  if (!habit.layout.empty() && habit.layout != layout) return false;
  if (!path.ends_with(habit.field)) return false;
  return path.size() == habit.field.size() || path[path.size() - habit.field.size() - 1] == '.';
}

}  // namespace

const Habit* habit_of(std::string_view layout, std::string_view path) {
  const auto* found =
      std::ranges::find_if(kHabits, [&](const Habit& habit) { return fits(habit, layout, path); });
  return found == std::end(kHabits) ? nullptr : found;
}

}  // namespace verbatim::fuzz
