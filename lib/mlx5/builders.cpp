// SPDX-License-Identifier: MIT
// The ibv_wr_ calls: a batch of work requests is built in place.
//
// wr_start locks the send queue and remembers where it stands. A builder ends the request before it, if any,
// and begins one: control segment and the segments of its operation. Setters append data. wr_complete ends
// the last one, moves the doorbell record and rings. The first error makes the rest of the batch do nothing;
// then, and on wr_abort, the queue goes back to where it stood.
#include "lib/mlx5/builders.h"

namespace verbatim::mlx5 {

using connectx::Be32;

void end_request(QueuePair& qp) {
  if (qp.batch.units == 0) return;
  if (qp.batch.setters != 0 && qp.batch.error == 0) qp.batch.error = EINVAL;
  qp.batch.key = nullptr;
  finish_entry(qp, qp.batch.units);
  qp.batch.units = 0;
}

namespace {

// What stands between the control segment and the segments of the operation.
void begin_way(QueuePair& qp, uint8_t opcode) {
  QueuePair::Batch& batch = qp.batch;
  if (qp.frames) {
    batch.at = write_ethernet(qp, batch.at, qp.ex.wr_flags);
    batch.units++;
  }
  const bool stays = opcode == connectx::kOpUmr || opcode == connectx::kOpMmo ||
                     opcode == connectx::kOpSetPsv || opcode == connectx::kOpNop;
  if (qp.xrc && !stays) {
    // Its number is written by wr_set_xrc_srqn.
    batch.at = write_xrc(qp, batch.at, 0);
    batch.units++;
  }
  if (qp.addressed && opcode != connectx::kOpUmr && opcode != connectx::kOpMmo) {
    // Written by wr_set_ud_addr or wr_set_dc_addr, before or after the data.
    batch.at = advance(qp, batch.at, sizeof(connectx::DatagramSegment));
    batch.units += sizeof(connectx::DatagramSegment) / kUnit;
  }
}

}  // namespace

bool begin_request(QueuePair& qp, uint8_t opcode, uint32_t immediate) {
  QueuePair::Batch& batch = qp.batch;
  if (batch.error != 0) return false;
  end_request(qp);
  if (batch.error != 0) return false;
  if (qp.send_full(batch.count)) {
    batch.error = ENOMEM;
    return false;
  }
  std::byte* start = qp.block_at(qp.block);
  write_control(qp, start, opcode, immediate, control_flags(qp, qp.ex.wr_flags));
  SendSlot& slot = current_slot(qp);
  slot.wr_id = qp.ex.wr_id;
  slot.completed = qp.head + ++batch.count;
  slot.special = 0;
  batch.at = advance(qp, start, sizeof(connectx::ControlSegment));
  batch.units = 1;
  if (qp.has_way()) begin_way(qp, opcode);
  return true;
}

namespace {

void begin_remote(ibv_qp_ex* ex, uint8_t opcode, uint32_t immediate, uint64_t address, uint32_t rkey) {
  QueuePair& qp = QueuePair::of(ex);
  if (!begin_request(qp, opcode, immediate)) return;
  qp.batch.at = write_remote(qp, qp.batch.at, address, rkey);
  qp.batch.units++;
}

void begin_atomic(ibv_qp_ex* ex, uint8_t opcode, uint64_t address, uint32_t rkey, uint64_t swap_or_add,
                  uint64_t compare) {
  QueuePair& qp = QueuePair::of(ex);
  if (!begin_request(qp, opcode, 0)) return;
  qp.batch.at = write_remote(qp, qp.batch.at, address, rkey);
  qp.batch.at = write_atomic(qp, qp.batch.at, swap_or_add, compare);
  qp.batch.units += 2;
}

void wr_send(ibv_qp_ex* ex) { begin_request(QueuePair::of(ex), connectx::kOpSend, 0); }
void wr_send_imm(ibv_qp_ex* ex, __be32 immediate) {
  begin_request(QueuePair::of(ex), connectx::kOpSendImmediate, immediate);
}
void wr_send_inv(ibv_qp_ex* ex, uint32_t rkey) {
  begin_request(QueuePair::of(ex), connectx::kOpSendInvalidate, Be32(rkey).raw());
}
void wr_rdma_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
  begin_remote(ex, connectx::kOpWrite, 0, address, rkey);
}
void wr_rdma_write_imm(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, __be32 immediate) {
  begin_remote(ex, connectx::kOpWriteImmediate, immediate, address, rkey);
}
void wr_rdma_read(ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
  begin_remote(ex, connectx::kOpRead, 0, address, rkey);
}
void wr_atomic_cmp_swp(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
  begin_atomic(ex, connectx::kOpCompareSwap, address, rkey, swap, compare);
}
void wr_atomic_fetch_add(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t add) {
  begin_atomic(ex, connectx::kOpFetchAdd, address, rkey, add, 0);
}
void wr_atomic_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, const void* value) {
  QueuePair& qp = QueuePair::of(ex);
  begin_remote(ex, connectx::kOpAtomicWrite, 0, address, rkey);
  if (qp.batch.error != 0) return;
  InlineWriter data(qp, qp.batch.at);
  data.append(value, sizeof(uint64_t));
  const uint32_t units = data.close();
  qp.batch.at = advance(qp, qp.batch.at, size_t{units} * kUnit);
  qp.batch.units += units;
}
void wr_flush(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level) {
  constexpr uint32_t kLevelShift = 4;
  QueuePair& qp = QueuePair::of(ex);
  const bool known = (type & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)) == 0 && type != 0 &&
                     level <= IBV_FLUSH_MR && length <= UINT32_MAX;
  const uint32_t wanted = static_cast<uint32_t>(level) << kLevelShift | type;
  if (!begin_request(qp, connectx::kOpFlush, Be32(wanted).raw())) return;
  if (!known) qp.batch.error = EINVAL;
  auto& segment = *reinterpret_cast<connectx::FlushSegment*>(qp.batch.at);
  segment.address = address;
  segment.rkey = rkey;
  segment.bytes = static_cast<uint32_t>(length);
  qp.batch.at = advance(qp, qp.batch.at, sizeof segment);
  qp.batch.units++;
}
void wr_send_tso(ibv_qp_ex* ex, void* headers, uint16_t bytes, uint16_t segment_bytes) {
  QueuePair& qp = QueuePair::of(ex);
  if (!begin_request(qp, connectx::kOpSegmentedSend, 0)) return;
  if (!fits_header(qp, bytes) || segment_bytes == 0) {
    qp.batch.error = EINVAL;
    return;
  }
  std::byte* const segment = qp.block_at(qp.block) + sizeof(connectx::ControlSegment);
  qp.batch.at = write_headers(qp, segment, qp.ex.wr_flags, headers, bytes, segment_bytes, qp.batch.units);
  qp.batch.units++;  // the control segment
}
void wr_local_inv(ibv_qp_ex* ex, uint32_t rkey) {
  QueuePair& qp = QueuePair::of(ex);
  if (!begin_request(qp, connectx::kOpUmr, Be32(rkey).raw())) return;
  qp.batch.units += write_invalidate(qp, qp.batch.at);
  end_request(qp);
  qp.fence_next = true;
}

void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info* info) {
  QueuePair& qp = QueuePair::of(ex);
  const uint32_t old_key = window != nullptr ? window->rkey : 0;
  if (!begin_request(qp, connectx::kOpUmr, Be32(old_key).raw())) return;
  if (window == nullptr) {
    qp.batch.error = EINVAL;
    return;
  }
  current_slot(qp).special = IBV_WC_BIND_MW;
  uint32_t units = 0;
  qp.batch.error = write_bind(qp, qp.batch.at, *window, rkey, *info, units);
  qp.batch.units += units;
  end_request(qp);
  qp.fence_next = true;
}

void wr_set_ud_addr(ibv_qp_ex* ex, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  if (ah == nullptr) {
    qp.batch.error = EINVAL;
    return;
  }
  write_datagram(qp.block_at(qp.block) + sizeof(connectx::ControlSegment), ah, remote_qpn, remote_qkey);
}

void wr_set_xrc_srqn(ibv_qp_ex* ex, uint32_t srqn) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  write_xrc(qp, qp.block_at(qp.block) + sizeof(connectx::ControlSegment), srqn);
}

void wr_set_dc_addr(mlx5dv_qp_ex* ex, ibv_ah* ah, uint32_t target, uint64_t access_key) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  if (ah == nullptr) {
    qp.batch.error = EINVAL;
    return;
  }
  write_target(qp.block_at(qp.block) + sizeof(connectx::ControlSegment), ah, target, access_key);
}

void wr_set_dc_addr_stream(mlx5dv_qp_ex* ex, ibv_ah* ah, uint32_t target, uint64_t access_key,
                           uint16_t stream) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  auto& control = *reinterpret_cast<connectx::ControlSegment*>(qp.block_at(qp.block));
  control.stream[0] = static_cast<uint8_t>(stream >> 8);
  control.stream[1] = static_cast<uint8_t>(stream);
  wr_set_dc_addr(ex, ah, target, access_key);
}

void append_element(QueuePair& qp, uint64_t address, uint32_t length, uint32_t lkey) {
  if (length == 0) return;
  qp.batch.at = write_data(qp, qp.batch.at, address, length, lkey);
  qp.batch.units++;
}

void wr_set_sge(ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t length) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  if (qp.max_send_sge == 0) {
    qp.batch.error = ENOMEM;
    return;
  }
  append_element(qp, address, length, lkey);
}

void wr_set_sge_list(ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  if (count > qp.max_send_sge) {
    qp.batch.error = ENOMEM;
    return;
  }
  for (size_t i = 0; i < count; i++) append_element(qp, list[i].addr, list[i].length, list[i].lkey);
}

void wr_set_inline_data_list(ibv_qp_ex* ex, size_t count, const ibv_data_buf* list) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error != 0 || qp.batch.units == 0) return;
  InlineWriter data(qp, qp.batch.at);
  for (size_t i = 0; i < count; i++) {
    if (list[i].length > qp.max_inline - data.length()) {
      qp.batch.error = ENOMEM;
      return;
    }
    data.append(list[i].addr, list[i].length);
  }
  const uint32_t units = data.close();
  qp.batch.at = advance(qp, qp.batch.at, size_t{units} * kUnit);
  qp.batch.units += units;
}

void wr_set_inline_data(ibv_qp_ex* ex, void* address, size_t length) {
  const ibv_data_buf piece{address, length};
  wr_set_inline_data_list(ex, 1, &piece);
}

void wr_start(ibv_qp_ex* ex) {
  QueuePair& qp = QueuePair::of(ex);
  qp.send_lock.lock();
  qp.batch = {};
  // Nothing may be posted before RTS.
  if (!qp.started) qp.batch.error = EINVAL;
  qp.batch.first_block = qp.block;
  qp.batch.fence_next = qp.fence_next;
}

void roll_back(QueuePair& qp) {
  qp.block = qp.batch.first_block;
  qp.fence_next = qp.batch.fence_next;
}

int wr_complete(ibv_qp_ex* ex) {
  QueuePair& qp = QueuePair::of(ex);
  if (qp.batch.error == 0) end_request(qp);
  const int error = qp.batch.error;
  if (error != 0) {
    roll_back(qp);
    qp.send_lock.unlock();
    return error;
  }
  const bool any = qp.batch.count != 0;
  qp.head += qp.batch.count;
  if (any) qp.publish_send();
  qp.send_lock.unlock();
  if (any) qp.hca->ring_send(qp.device);
  return 0;
}

void wr_abort(ibv_qp_ex* ex) {
  QueuePair& qp = QueuePair::of(ex);
  roll_back(qp);
  qp.send_lock.unlock();
}

}  // namespace

void install_builders(QueuePair& qp, uint64_t flags) {
  ibv_qp_ex& ex = qp.ex;
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  if ((flags & IBV_QP_EX_WITH_SEND) != 0) ex.wr_send = wr_send;
  if ((flags & IBV_QP_EX_WITH_SEND_WITH_IMM) != 0) ex.wr_send_imm = wr_send_imm;
  if ((flags & IBV_QP_EX_WITH_SEND_WITH_INV) != 0) ex.wr_send_inv = wr_send_inv;
  if ((flags & IBV_QP_EX_WITH_TSO) != 0) ex.wr_send_tso = wr_send_tso;
  if ((flags & IBV_QP_EX_WITH_RDMA_WRITE) != 0) ex.wr_rdma_write = wr_rdma_write;
  if ((flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0) ex.wr_rdma_write_imm = wr_rdma_write_imm;
  if ((flags & IBV_QP_EX_WITH_RDMA_READ) != 0) ex.wr_rdma_read = wr_rdma_read;
  if ((flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) != 0) ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  if ((flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) != 0) ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
  if ((flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) ex.wr_atomic_write = wr_atomic_write;
  if ((flags & IBV_QP_EX_WITH_FLUSH) != 0) ex.wr_flush = wr_flush;
  if ((flags & IBV_QP_EX_WITH_LOCAL_INV) != 0) ex.wr_local_inv = wr_local_inv;
  if ((flags & IBV_QP_EX_WITH_BIND_MW) != 0) ex.wr_bind_mw = wr_bind_mw;
  if (qp.dc == DcRole::kInitiator) {
    mlx5dv_qp_ex& direct = qp.need_direct()->ex;
    direct.wr_set_dc_addr = wr_set_dc_addr;
    direct.wr_set_dc_addr_stream = wr_set_dc_addr_stream;
  } else if (qp.addressed) {
    ex.wr_set_ud_addr = wr_set_ud_addr;
  }
  if (qp.xrc) ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
  ex.wr_set_sge = wr_set_sge;
  ex.wr_set_sge_list = wr_set_sge_list;
  ex.wr_set_inline_data = wr_set_inline_data;
  ex.wr_set_inline_data_list = wr_set_inline_data_list;
}

}  // namespace verbatim::mlx5
