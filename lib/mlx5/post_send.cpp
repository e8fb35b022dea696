// SPDX-License-Identifier: MIT
// ibv_post_send: one work queue entry for each request of the list, then one doorbell.
#include "lib/mlx5/send_entry.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint8_t kWqeOpcodes[] = {
    connectx::kOpWrite, connectx::kOpWriteImmediate, connectx::kOpSend,         connectx::kOpSendImmediate,
    connectx::kOpRead,  connectx::kOpCompareSwap,    connectx::kOpFetchAdd,     connectx::kOpUmr,
    connectx::kOpUmr,   connectx::kOpSendInvalidate, connectx::kOpSegmentedSend};

constexpr unsigned int kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
constexpr uint32_t kMayInline = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM |
                                1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV;

constexpr uint32_t kNamesMemory =
    1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ;
constexpr uint32_t kNamesNothing =
    1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV;

bool updates_key(ibv_wr_opcode opcode) { return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW; }

uint32_t immediate_of(const ibv_send_wr& wr) {
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND_WITH_IMM:
      return wr.imm_data;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      return connectx::Be32(wr.invalidate_rkey).raw();
    case IBV_WR_BIND_MW:
      return connectx::Be32(wr.bind_mw.mw->rkey).raw();
    default:
      return 0;
  }
}

/// 0, or the errno value that libmlx5's users know.
int refusal(const QueuePair& qp, const ibv_send_wr& wr) {
  if (static_cast<uint32_t>(wr.opcode) >= sizeof kWqeOpcodes || (qp.opcodes >> wr.opcode & 1) == 0)
    return EINVAL;
  const bool in_line = (wr.send_flags & IBV_SEND_INLINE) != 0;
  const unsigned int known = qp.frames ? kSendFlags | IBV_SEND_IP_CSUM : kSendFlags;
  if (wr.num_sge < 0 || (wr.send_flags & ~known) != 0) return EINVAL;
  if (in_line && (kMayInline >> wr.opcode & 1) == 0) return EINVAL;
  return static_cast<uint32_t>(wr.num_sge) > qp.max_send_sge ? ENOMEM : 0;
}

/// Units of the data, or -1: more than may be inline.
int write_payload(QueuePair& qp, std::byte* at, const ibv_send_wr& wr) {
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    int units = 0;
    for (int i = 0; i < wr.num_sge; i++) {
      const ibv_sge& sge = wr.sg_list[i];
      if (sge.length == 0) continue;
      at = write_data(qp, at, sge.addr, sge.length, sge.lkey);
      units++;
    }
    return units;
  }
  InlineWriter data(qp, at);
  for (int i = 0; i < wr.num_sge; i++) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length > qp.max_inline - data.length()) return -1;
    data.append(reinterpret_cast<const void*>(sge.addr), sge.length);
  }
  return static_cast<int>(data.close());
}

/// What stands between the control segment and the data, of requests that have more there than the address of
/// memory. 0, or an errno value.
int write_operation(QueuePair& qp, std::byte*& at, const ibv_send_wr& wr, uint32_t& units) {
  uint32_t more = 0;
  if (qp.xrc && !updates_key(wr.opcode)) {
    at = write_xrc(qp, at, wr.qp_type.xrc.remote_srqn);
    units++;
  }
  if (qp.addressed) {
    if (wr.wr.ud.ah == nullptr) return EINVAL;
    write_datagram(at, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    at = advance(qp, at, sizeof(connectx::DatagramSegment));
    more = sizeof(connectx::DatagramSegment) / kUnit;
  } else if (wr.opcode == IBV_WR_TSO) {
    if (!fits_header(qp, wr.tso.hdr_sz) || wr.tso.mss == 0) return EINVAL;
    at = write_headers(qp, at, wr.send_flags, wr.tso.hdr, wr.tso.hdr_sz, wr.tso.mss, more);
  } else if (qp.frames) {
    at = write_ethernet(qp, at, wr.send_flags);
    more = 1;
  } else if (wr.opcode == IBV_WR_LOCAL_INV) {
    more = write_invalidate(qp, at);
  } else if (wr.opcode == IBV_WR_BIND_MW) {
    if (wr.bind_mw.mw == nullptr) return EINVAL;
    if (const int error = write_bind(qp, at, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, more))
      return error;
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    const auto& atomic = wr.wr.atomic;
    const bool swap = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    at = write_remote(qp, at, atomic.remote_addr, atomic.rkey);
    at = write_atomic(qp, at, swap ? atomic.swap : atomic.compare_add, swap ? atomic.compare_add : 0);
    more = 2;
  } else if ((kNamesMemory >> wr.opcode & 1) != 0) {
    at = write_remote(qp, at, wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
    more = 1;
  }
  units += more;
  return 0;
}

/// Returns 0 with the request written at `qp.block`, which then stands behind it; or an errno value, and
/// nothing has changed.
int write_entry(QueuePair& qp, const ibv_send_wr& wr, uint32_t waiting) {
  if (qp.send_full(waiting)) return ENOMEM;
  if (const int error = refusal(qp, wr)) return error;
  std::byte* const start = qp.block_at(qp.block);
  std::byte* at = advance(qp, start, sizeof(connectx::ControlSegment));
  uint32_t units = 1;
  const bool local = updates_key(wr.opcode);
  if (!qp.has_way() && (kNamesMemory >> wr.opcode & 1) != 0) {
    at = write_remote(qp, at, wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
    units++;
  } else if (qp.has_way() || (kNamesNothing >> wr.opcode & 1) == 0) {
    if (const int error = write_operation(qp, at, wr, units)) return error;
  }
  if (!local) {
    const int data = write_payload(qp, at, wr);
    if (data < 0) return ENOMEM;
    units += static_cast<uint32_t>(data);
  }
  write_control(qp, start, kWqeOpcodes[wr.opcode], immediate_of(wr), control_flags(qp, wr.send_flags));
  qp.fence_next = local;
  SendSlot& slot = qp.slots[qp.block & (qp.blocks - 1)];
  slot.wr_id = wr.wr_id;
  slot.completed = qp.head + waiting + 1;
  slot.special = local && wr.opcode == IBV_WR_BIND_MW ? IBV_WC_BIND_MW : 0;
  finish_entry(qp, units);
  return 0;
}

}  // namespace

uint32_t write_invalidate(const QueuePair& qp, std::byte* at) {
  auto& control = *reinterpret_cast<connectx::UmrControlSegment*>(at);
  std::memset(static_cast<void*>(&control), 0, sizeof control);
  control.flags = connectx::kUmrInline;
  control.key_mask = connectx::kUmrMaskFree;
  at = advance(qp, at, sizeof control);
  auto& key = *reinterpret_cast<connectx::UmrKeySegment*>(at);
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  key.free = connectx::kUmrKeyFree;
  return (sizeof control + sizeof key) / kUnit;
}

int post_send(ibv_qp* public_qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  QueuePair& qp = QueuePair::of(public_qp);
  uint32_t posted = 0;
  int error = 0;
  {
    const std::lock_guard guard(qp.send_lock);
    for (; wr != nullptr; wr = wr->next, posted++) {
      error = write_entry(qp, *wr, posted);
      if (error == 0) continue;
      *bad_wr = wr;
      break;
    }
    if (posted != 0) {
      qp.head += posted;
      qp.publish_send();
    }
  }
  if (posted != 0) qp.hca->ring_send(qp.device);
  return error;
}

}  // namespace verbatim::mlx5
