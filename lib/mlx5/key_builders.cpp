// SPDX-License-Identifier: MIT
// The mlx5dv_wr_ calls: what a memory key stands for, copies within the device, and entries that the program
// wrote.
//
// A memory key update is begun by wr_mkey_configure and filled by setters, each at most once; with the last
// one it is complete. Its entry: control segment, which members of the key change, the key's context, its
// list.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "lib/mlx5/builders.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/key_update.h"

namespace verbatim::mlx5 {
namespace {

using connectx::Be32;
using connectx::UmrControlSegment;
using connectx::UmrKeySegment;

constexpr uint32_t kUpdateUnits = (sizeof(UmrControlSegment) + sizeof(UmrKeySegment)) / kUnit;
constexpr uint32_t kListStep = 4;  ///< lists are padded to so many entries
constexpr uint64_t kRightsMask = connectx::kUmrMaskLocalWrite | connectx::kUmrMaskRemoteRead |
                                 connectx::kUmrMaskRemoteWrite | connectx::kUmrMaskAtomic;

void wr_mkey_configure(mlx5dv_qp_ex* direct, mlx5dv_mkey* public_key, uint8_t setters,
                       mlx5dv_mkey_conf_attr* wanted) {
  QueuePair& qp = QueuePair::of(direct);
  constexpr uint32_t kFlags = MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR;
  const bool known = (wanted->conf_flags & ~kFlags) == 0 && wanted->comp_mask == 0;
  if (!known || (qp.ex.wr_flags & IBV_SEND_INLINE) == 0) return fail(qp, EOPNOTSUPP);
  if (!begin_request(qp, connectx::kOpUmr, Be32(public_key->lkey).raw())) return;
  current_slot(qp).special = MLX5DV_WC_UMR;
  auto* control = new (&control_of(qp)) UmrControlSegment{};
  control->flags = connectx::kUmrInline;
  control->key_mask = connectx::kUmrMaskFree | connectx::kUmrMaskVariant;
  auto* context = new (&own(qp)) UmrKeySegment{};
  context->qpn_variant = connectx::kUmrAnyQp << 8 | (public_key->lkey & 0xff);
  qp.batch.at = qp.block_at(qp.block + 2);
  qp.batch.units += kUpdateUnits;
  qp.batch.key = MemoryKey::of(public_key);
  qp.batch.setters = setters;
  qp.fence_next = true;
  begin_protection(*qp.batch.key, *wanted);
  if (setters == 0) finish_protection(qp);
}

void wr_set_mkey_access_flags(mlx5dv_qp_ex* direct, uint32_t access) {
  QueuePair& qp = QueuePair::of(direct);
  constexpr uint32_t kKnown =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (!takes_setter(qp)) return;
  UmrControlSegment& control = control_of(qp);
  if ((access & ~kKnown) != 0 || (control.key_mask & kRightsMask) != 0) return fail(qp, EINVAL);
  control.key_mask = control.key_mask | kRightsMask;
  uint8_t& rights = own(qp).access;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) rights |= connectx::kUmrKeyLocalWrite;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights |= connectx::kUmrKeyRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights |= connectx::kUmrKeyRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights |= connectx::kUmrKeyAtomic;
  note_setter(qp);
}

/// Whether a list of so many entries, its head included, can be set.
bool takes_list(QueuePair& qp, uint32_t entries) {
  if (!takes_setter(qp)) return false;
  if (control_of(qp).klm_octowords != 0) {
    fail(qp, EINVAL);
    return false;
  }
  if (entries > qp.batch.key->room || entries > units_max(qp) - qp.batch.units) {
    fail(qp, ENOMEM);
    return false;
  }
  return true;
}

void finish_list(QueuePair& qp, uint32_t entries, uint64_t length) {
  const uint32_t units_left = units_max(qp) - qp.batch.units;
  const uint32_t padding = std::min((kListStep - entries % kListStep) % kListStep, units_left);
  for (uint32_t i = 0; i < padding; i++) append(qp, connectx::ListEntry{});
  UmrControlSegment& control = control_of(qp);
  control.klm_octowords = static_cast<uint16_t>(entries + padding);
  control.key_mask = control.key_mask | connectx::kUmrMaskLength;
  own(qp).length = length;
  note_setter(qp);
}

void wr_set_mkey_layout_list(mlx5dv_qp_ex* direct, uint16_t count, const ibv_sge* list) {
  QueuePair& qp = QueuePair::of(direct);
  if (!takes_list(qp, count)) return;
  uint64_t length = 0;
  for (uint32_t i = 0; i < count; i++) {
    append(qp, connectx::ListEntry{list[i].length, list[i].lkey, list[i].addr});
    length += list[i].length;
  }
  finish_list(qp, count, length);
}

void wr_set_mkey_layout_interleaved(mlx5dv_qp_ex* direct, uint32_t rounds, uint16_t count,
                                    const mlx5dv_mr_interleaved* columns) {
  QueuePair& qp = QueuePair::of(direct);
  if (!takes_list(qp, count + 1u)) return;
  uint32_t round = 0;
  for (uint32_t i = 0; i < count; i++) {
    // Both are 16 bits in the entry.
    if (uint64_t{columns[i].bytes_count} + columns[i].bytes_skip > UINT16_MAX) return fail(qp, EINVAL);
    round += columns[i].bytes_count;
  }
  append(qp, connectx::StrideHead{round, connectx::kRepeatKey, rounds, {}, count});
  for (uint32_t i = 0; i < count; i++)
    append(qp, connectx::StrideEntry{static_cast<uint16_t>(columns[i].bytes_count + columns[i].bytes_skip),
                                     static_cast<uint16_t>(columns[i].bytes_count), columns[i].lkey,
                                     columns[i].addr});
  finish_list(qp, count + 1u, uint64_t{round} * rounds);
}

void wr_mr_list(mlx5dv_qp_ex* direct, mlx5dv_mkey* key, uint32_t access, uint16_t count, ibv_sge* list) {
  mlx5dv_mkey_conf_attr plain{};
  wr_mkey_configure(direct, key, 2, &plain);
  wr_set_mkey_access_flags(direct, access);
  wr_set_mkey_layout_list(direct, count, list);
}

void wr_mr_interleaved(mlx5dv_qp_ex* direct, mlx5dv_mkey* key, uint32_t access, uint32_t rounds,
                       uint16_t count, mlx5dv_mr_interleaved* columns) {
  mlx5dv_mkey_conf_attr plain{};
  wr_mkey_configure(direct, key, 2, &plain);
  wr_set_mkey_access_flags(direct, access);
  wr_set_mkey_layout_interleaved(direct, rounds, count, columns);
}

void wr_memcpy(mlx5dv_qp_ex* direct, uint32_t to_key, uint64_t to, uint32_t from_key, uint64_t from,
               size_t length) {
  QueuePair& qp = QueuePair::of(direct);
  if (length == 0 || length > size_t{1} << connectx::kLogCopyBytesMax) return fail(qp, EINVAL);
  if (!begin_request(qp, connectx::kOpMmo, 0)) return;
  current_slot(qp).special = MLX5DV_WC_MEMCPY;
  auto& head = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(qp.block));
  head.index_opcode = head.index_opcode | uint32_t{connectx::kMmoDma} << 24;
  append(qp, connectx::CopySegment{});
  append(qp, connectx::DataSegment{static_cast<uint32_t>(length), from_key, from});
  append(qp, connectx::DataSegment{static_cast<uint32_t>(length), to_key, to});
  end_request(qp);
}

void wr_raw_wqe(mlx5dv_qp_ex* direct, const void* entry) {
  QueuePair& qp = QueuePair::of(direct);
  connectx::ControlSegment wanted;
  std::memcpy(&wanted, entry, sizeof wanted);
  const uint32_t units = wanted.qpn_ds & 0x3f;
  if (units == 0 || units > units_max(qp)) return fail(qp, EINVAL);
  if (!begin_request(qp, connectx::kOpNop, 0)) return;
  current_slot(qp).special = MLX5DV_WC_RAW_WQE;
  std::byte* at = qp.block_at(qp.block);
  for (uint32_t unit = 0; unit < units; unit++) {
    std::memcpy(at, static_cast<const std::byte*>(entry) + unit * kUnit, kUnit);
    at = advance(qp, at, kUnit);
  }
  auto& head = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(qp.block));
  head.index_opcode = (head.index_opcode & 0xff0000ff) | (qp.block & 0xffff) << 8;
  head.signature = 0;
  qp.batch.units = units;
  end_request(qp);
}

}  // namespace

// Threads may ask at the same time: one of theirs stays.
QueuePair::Direct* QueuePair::need_direct() {
  Direct* made = direct.load(std::memory_order_acquire);
  if (made != nullptr) return made;
  auto fresh = std::unique_ptr<Direct>(new (std::nothrow) Direct);
  if (fresh == nullptr) return nullptr;
  fresh->owner = this;
  return direct.compare_exchange_strong(made, fresh.get()) ? fresh.release() : made;
}

void install_key_builders(QueuePair& qp, uint64_t flags) {
  mlx5dv_qp_ex& ex = qp.need_direct()->ex;
  if ((flags & MLX5DV_QP_EX_WITH_RAW_WQE) != 0) ex.wr_raw_wqe = wr_raw_wqe;
  if ((flags & MLX5DV_QP_EX_WITH_MEMCPY) != 0) ex.wr_memcpy = wr_memcpy;
  if ((flags & MLX5DV_QP_EX_WITH_MR_LIST) != 0) ex.wr_mr_list = wr_mr_list;
  if ((flags & MLX5DV_QP_EX_WITH_MR_INTERLEAVED) != 0) ex.wr_mr_interleaved = wr_mr_interleaved;
  if ((flags & MLX5DV_QP_EX_WITH_MKEY_CONFIGURE) == 0) return;
  ex.wr_mkey_configure = wr_mkey_configure;
  ex.wr_set_mkey_access_flags = wr_set_mkey_access_flags;
  ex.wr_set_mkey_layout_list = wr_set_mkey_layout_list;
  ex.wr_set_mkey_layout_interleaved = wr_set_mkey_layout_interleaved;
  install_protection_builders(ex);
}

}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) {
  if (qp == nullptr) return nullptr;  // programs hand on what ibv_qp_to_qp_ex gave
  QueuePair::Direct* direct = QueuePair::of(qp).need_direct();
  if (direct == nullptr) errno = ENOMEM;
  return direct != nullptr ? &direct->ex : nullptr;
}

int mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex* direct, uint64_t wr_id) {
  QueuePair& qp = QueuePair::of(direct);
  const std::lock_guard guard(qp.send_lock);
  const auto position = qp.hca->resting_send_position(qp.device);
  if (!position) return -verbs::refuse(*qp.context, position.error(), qp.number);
  int cancelled = 0;
  for (uint32_t block = *position & 0xffff; block != (qp.block & 0xffff);) {
    auto& control = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(block));
    const uint32_t units = control.qpn_ds & 0x3f;
    if (qp.slots[block & (qp.blocks - 1)].wr_id == wr_id) {
      control.index_opcode = (control.index_opcode & 0xffff00) | connectx::kOpNop;
      cancelled++;
    }
    block = (block + std::max(1u, (units * kUnit + kBlock - 1) / kBlock)) & 0xffff;
  }
  return cancelled;
}

}  // extern "C"
