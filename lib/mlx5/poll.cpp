// SPDX-License-Identifier: MIT
// Plain polling.
#include <utility>

#include "lib/mlx5/completion.h"

namespace verbatim::mlx5 {

using connectx::Cqe;
using connectx::ErrorCqe;

ibv_wc_opcode send_opcode(uint8_t wqe_opcode) {
  switch (wqe_opcode) {
    case connectx::kOpWrite:
    case connectx::kOpWriteImmediate:
      return IBV_WC_RDMA_WRITE;
    case connectx::kOpRead:
      return IBV_WC_RDMA_READ;
    case connectx::kOpCompareSwap:
      return IBV_WC_COMP_SWAP;
    case connectx::kOpFetchAdd:
      return IBV_WC_FETCH_ADD;
    case connectx::kOpUmr:
      return IBV_WC_LOCAL_INV;
    case connectx::kOpSegmentedSend:
      return IBV_WC_TSO;
    case connectx::kOpFlush:
      return IBV_WC_FLUSH;
    case connectx::kOpAtomicWrite:
      return IBV_WC_ATOMIC_WRITE;
    default:
      return IBV_WC_SEND;
  }
}

ibv_wc_status status_of(uint8_t syndrome) {
  switch (syndrome) {
    case connectx::kSyndromeLocalLength:
      return IBV_WC_LOC_LEN_ERR;
    case connectx::kSyndromeLocalQpOperation:
      return IBV_WC_LOC_QP_OP_ERR;
    case connectx::kSyndromeLocalProtection:
      return IBV_WC_LOC_PROT_ERR;
    case connectx::kSyndromeFlushed:
      return IBV_WC_WR_FLUSH_ERR;
    case connectx::kSyndromeWindowBind:
      return IBV_WC_MW_BIND_ERR;
    case connectx::kSyndromeBadResponse:
      return IBV_WC_BAD_RESP_ERR;
    case connectx::kSyndromeLocalAccess:
      return IBV_WC_LOC_ACCESS_ERR;
    case connectx::kSyndromeRemoteInvalidRequest:
      return IBV_WC_REM_INV_REQ_ERR;
    case connectx::kSyndromeRemoteAccess:
      return IBV_WC_REM_ACCESS_ERR;
    case connectx::kSyndromeRemoteOperation:
      return IBV_WC_REM_OP_ERR;
    case connectx::kSyndromeRetryExceeded:
      return IBV_WC_RETRY_EXC_ERR;
    case connectx::kSyndromeRnrRetryExceeded:
      return IBV_WC_RNR_RETRY_EXC_ERR;
    case connectx::kSyndromeRemoteAborted:
      return IBV_WC_REM_ABORT_ERR;
    default:
      return IBV_WC_GENERAL_ERR;
  }
}

namespace {

/// Whether it is the last completion of the queue's oldest entry.
bool ends_entry(QueuePair& qp, const Cqe& cqe) {
  if (qp.strides == 0 || cqe.opcode_owner >> 4 == connectx::kCqeReceiveError) [[likely]]
    return true;
  qp.strides_used += cqe.byte_count >> connectx::kStridesUsedShift & connectx::kStridesUsedMask;
  return qp.strides_used >= qp.strides;
}

}  // namespace

uint64_t take(CompletionQueue& cq, const Cqe& cqe, QueuePair*& qp) {
  __atomic_store_n(&cq.consumed, cq.consumed + 1, __ATOMIC_RELAXED);  // read without the lock, too
  if (cqe.opcode_owner >> 4 == connectx::kCqeSignatureError) {
    note_signature_error(cq, cqe);
    qp = nullptr;
    return 0;
  }
  const uint32_t index = cqe.user_index & 0xffffff;
  if (cq.last_qp == nullptr || cq.last_index != index) {
    cq.last_qp = cq.queue_pairs->find(index);
    cq.last_index = index;
  }
  qp = cq.last_qp;
  if (qp == nullptr) return 0;
  if (is_tagged(cqe) && qp->srq != nullptr && qp->srq->tags != nullptr) [[unlikely]]
    return take_tagged(cq, cqe, *qp->srq);
  const uint16_t counter = cqe.wqe_counter;
  const bool receives = is_receive(static_cast<uint8_t>(cqe.opcode_owner >> 4));
  if (receives ? qp->srq == nullptr && qp->receive_ids == nullptr : (cqe.opcode_qpn & 0xffffff) != qp->number)
      [[unlikely]] {
    qp = nullptr;  // an overrun that the program wanted to be ignored has left it, of one that had the index
                   // before
    return 0;
  }
  if (!receives) {
    const SendSlot& slot = qp->slots[counter & (qp->blocks - 1)];
    const uint64_t wr_id = slot.wr_id;
    cq.special = slot.special;
    qp->tail.store(slot.completed, std::memory_order_release);
    return wr_id;
  }
  cq.special = 0;
  if (qp->srq != nullptr) {
    const uint32_t entry = counter & (qp->srq->entries - 1);
    const uint64_t wr_id = qp->srq->ids[entry];
    qp->srq->release(entry);
    return wr_id;
  }
  const uint32_t tail = qp->receive_tail.load(std::memory_order_relaxed);
  const uint64_t wr_id = qp->receive_ids[tail & (qp->receive_entries - 1)];
  if (ends_entry(*qp, cqe)) [[likely]] {
    qp->strides_used = 0;
    qp->receive_tail.store(tail + 1, std::memory_order_release);
  }
  return wr_id;
}

namespace {

void describe_failure(const Cqe& cqe, ibv_wc& wc) {
  const auto& error = reinterpret_cast<const ErrorCqe&>(cqe);
  wc.status = status_of(error.syndrome);
  wc.vendor_err = error.vendor_syndrome;
  wc.byte_len = 0;
  wc.wc_flags = 0;
}

void describe_receive(const CompletionQueue& cq, const Cqe& cqe, uint8_t kind, ibv_wc& wc) {
  const uint32_t flags = cqe.flags_rqpn;
  wc.byte_len = cqe.byte_count;
  wc.wc_flags = wc_flags_of(cq, cqe);
  if (kind == connectx::kCqeSendInvalidate)
    wc.invalidated_rkey = cqe.immediate;
  else
    wc.imm_data = cqe.immediate.raw();
  wc.src_qp = flags & 0xffffff;
  wc.sl = flags >> 24 & 0xf;
  wc.slid = cqe.slid;
  wc.pkey_index = 0;
  wc.dlid_path_bits = 0;
}

bool describe(CompletionQueue& cq, const Cqe& cqe, ibv_wc& wc) {
  QueuePair* qp = nullptr;
  const uint64_t wr_id = take(cq, cqe, qp);
  if (qp == nullptr) return false;
  const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
  wc.wr_id = wr_id;
  wc.status = IBV_WC_SUCCESS;
  wc.vendor_err = 0;
  wc.qp_num = qp->number_in(cqe);
  wc.opcode = opcode_of(cq, cqe);
  if (kind == connectx::kCqeRequest) {
    wc.byte_len = bytes_of(cqe);
    wc.wc_flags = 0;
  } else if (kind == connectx::kCqeRequestError || kind == connectx::kCqeReceiveError) {
    describe_failure(cqe, wc);
  } else {
    describe_receive(cq, cqe, kind, wc);
    if (is_tagged(cqe)) [[unlikely]]
      wc.status = cq.tag_status;
  }
  return true;
}

}  // namespace

int poll_cq(ibv_cq* public_cq, int count, ibv_wc* wc) {
  CompletionQueue& cq = CompletionQueue::of(public_cq);
  if (!cq.seems_written()) {
    cq.hca->poll();
    if (!cq.seems_written()) return 0;
  }
  cq.note_poll();
  const std::lock_guard guard(cq.lock);
  int found = 0;
  bool any = false;
  while (found < count) {
    const Cqe* cqe = cq.written(cq.consumed);
    if (cqe == nullptr) break;
    any = true;
    if (describe(cq, *cqe, wc[found])) found++;
  }
  if (any) cq.publish_consumed();
  return found;
}

int request_notification(ibv_cq* public_cq, int solicited_only) {
  CompletionQueue& cq = CompletionQueue::of(public_cq);
  {
    const std::lock_guard guard(cq.lock);
    const uint32_t sequence = cq.arm_sequence++ & 3;
    const connectx::Be32 word(sequence << 28 | (solicited_only != 0 ? connectx::kArmSolicitedOnly : 0) |
                              (cq.consumed & connectx::kCqIndexMask));
    __atomic_store_n(&cq.doorbell[1], word.raw(), __ATOMIC_RELEASE);
  }
  cq.hca->arm_cq(cq.device);
  return 0;
}

}  // namespace verbatim::mlx5
