// SPDX-License-Identifier: MIT
#pragma once

// Reading completion queue entries: shared by plain and extended polling.

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/tag_list.h"

namespace verbatim::mlx5 {

inline bool is_receive(uint8_t cqe_opcode) {
  return (cqe_opcode >= connectx::kCqeWriteImmediate && cqe_opcode <= connectx::kCqeSendInvalidate) ||
         cqe_opcode == connectx::kCqeReceiveError;
}

/// What a send work request with that opcode is called when it completes.
ibv_wc_opcode send_opcode(uint8_t wqe_opcode);
ibv_wc_status status_of(uint8_t syndrome);

/// Consumes the entry at the head of the queue, whose lock is held: finds its queue pair, gives back the
/// place of the work request and returns its wr_id. Nullptr queue pair: the entry names none that exists,
/// skip it.
uint64_t take(CompletionQueue& cq, const connectx::Cqe& cqe, QueuePair*& qp);

/// Keeps an error of a memory key's signatures for mlx5dv_mkey_check.
void note_signature_error(CompletionQueue& cq, const connectx::Cqe& cqe);

/// Of the entry that was taken last.
inline ibv_wc_opcode opcode_of(const CompletionQueue& cq, const connectx::Cqe& cqe) {
  if (cq.special != 0) return static_cast<ibv_wc_opcode>(cq.special);
  const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
  if (kind == connectx::kCqeWriteImmediate) return IBV_WC_RECV_RDMA_WITH_IMM;
  if (is_receive(kind)) return IBV_WC_RECV;
  return send_opcode(static_cast<uint8_t>(cqe.opcode_qpn >> 24));
}

/// Whether it is about tag matching.
inline bool is_tagged(const connectx::Cqe& cqe) {
  return uint32_t{cqe.application} >> 24 == connectx::kApplicationTags;
}

/// Of the entry that was taken last.
inline unsigned int wc_flags_of(const CompletionQueue& cq, const connectx::Cqe& cqe) {
  const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
  if (is_tagged(cqe)) [[unlikely]]
    return cq.tag_flags | (kind == connectx::kCqeSendImmediate ? unsigned{IBV_WC_WITH_IMM} : 0u);
  if (!is_receive(kind) || kind == connectx::kCqeReceiveError) return 0;
  unsigned int flags = (cqe.flags_rqpn >> 28 & 3) != 0 ? IBV_WC_GRH : 0;
  if (kind == connectx::kCqeWriteImmediate || kind == connectx::kCqeSendImmediate) flags |= IBV_WC_WITH_IMM;
  if (kind == connectx::kCqeSendInvalidate) flags |= IBV_WC_WITH_INV;
  // Told of IPv4 alone, as by every ConnectX.
  constexpr uint32_t kRight = connectx::kFrameNetworkRight | connectx::kFrameTransportRight;
  const uint32_t frame = cqe.frame;
  if ((frame & kRight) == kRight && (frame >> connectx::kFrameNetworkShift & 3) == connectx::kFrameIpv4)
    flags |= IBV_WC_IP_CSUM_OK;
  return flags;
}

inline uint32_t bytes_of(const connectx::Cqe& cqe) {
  const auto kind = static_cast<uint8_t>(cqe.opcode_owner >> 4);
  if (kind != connectx::kCqeRequest) return cqe.byte_count;
  const auto operation = static_cast<uint8_t>(cqe.opcode_qpn >> 24);
  if (operation == connectx::kOpRead) return cqe.byte_count;
  return operation == connectx::kOpCompareSwap || operation == connectx::kOpFetchAdd ? 8 : 0;
}

}  // namespace verbatim::mlx5
