// SPDX-License-Identifier: MIT
#include "lib/mlx5/qp_sizes.h"

#include <algorithm>
#include <bit>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t round_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

/// What a work request needs besides its data: the most of any operation of that type.
uint32_t overhead(ibv_qp_type type, uint32_t header) {
  constexpr uint32_t kControl = sizeof(connectx::ControlSegment);
  constexpr uint32_t kUpdate = sizeof(connectx::UmrControlSegment) + sizeof(connectx::UmrKeySegment);
  constexpr uint32_t kAtomic = sizeof(connectx::RemoteSegment) + sizeof(connectx::AtomicSegment);
  // The first bytes of a frame's headers lie within the segment.
  if (type == IBV_QPT_RAW_PACKET)
    return kControl + std::max(static_cast<uint32_t>(sizeof(connectx::EthernetSegment)),
                               round_up(offsetof(connectx::EthernetSegment, inline_start) + header, kUnit));
  if (type == IBV_QPT_UD) return kControl + sizeof(connectx::DatagramSegment);
  const uint32_t address = type == IBV_QPT_DRIVER ? sizeof(connectx::DatagramSegment) : 0;
  const uint32_t queue = type == IBV_QPT_XRC_SEND ? sizeof(connectx::XrcSegment) : 0;
  return kControl + queue + std::max(kUpdate, address + kAtomic);
}

Outcome plan_send(ibv_qp_type type, const ibv_qp_cap& cap, uint32_t header, QueueSizes& sizes) {
  if (cap.max_send_wr == 0) return Done{};
  const uint32_t fixed = overhead(type, header);
  if (cap.max_inline_data > kDescriptorBytesMax || cap.max_send_sge > kDescriptorBytesMax / kUnit)
    return Error{EINVAL,
                 "ibv_create_qp: no send work request holds that much inline data or that many elements"};
  const uint32_t with_inline =
      cap.max_inline_data == 0 ? 0 : round_up(sizeof(connectx::InlineSegment) + cap.max_inline_data, kUnit);
  const uint32_t with_elements = cap.max_send_sge * kUnit;
  const uint32_t entry = round_up(fixed + std::max(with_inline, with_elements), kBlock);
  if (entry > kDescriptorBytesMax || fixed + std::max(with_inline, with_elements) > kUnitsMax * kUnit)
    return Error{EINVAL, "ibv_create_qp: a send work request of that size would be longer than 1024 bytes"};
  const uint64_t ring = std::bit_ceil(uint64_t{cap.max_send_wr} * entry);
  if (ring / kBlock > kSendBlocksMax)
    return Error{EINVAL, "ibv_create_qp: the send queue would be longer than 32768 blocks of 64 bytes"};
  sizes.send_blocks = static_cast<uint32_t>(ring / kBlock);
  sizes.send_depth = static_cast<uint32_t>(ring / entry);
  sizes.send_sge = cap.max_send_sge;
  // The longest entry has one unit more than its size field can say.
  const uint32_t usable = std::min(entry, kUnitsMax * kUnit);
  constexpr uint32_t kSegment = sizeof(connectx::InlineSegment);
  sizes.inline_bytes = usable > fixed + kSegment ? usable - fixed - kSegment : 0;
  return Done{};
}

}  // namespace

Expected<QueueSizes> plan_queues(ibv_qp_type type, const ibv_qp_cap& cap, bool shared_receive,
                                 uint32_t header) {
  QueueSizes sizes;
  if (type == IBV_QPT_XRC_RECV) return sizes;
  if (Outcome outcome = plan_send(type, cap, header, sizes); !outcome) return outcome.error();
  if (shared_receive || cap.max_recv_wr == 0 || type == IBV_QPT_XRC_SEND) return sizes;
  sizes.receive_stride = std::bit_ceil(std::max(cap.max_recv_sge, 1u) * kUnit);
  sizes.receive_entries = std::bit_ceil(cap.max_recv_wr);
  sizes.receive_sge = sizes.receive_stride / kUnit;
  return sizes;
}

uint32_t shared_receive_stride(uint32_t sge) {
  const auto head = static_cast<uint32_t>(sizeof(connectx::SharedNextSegment));
  return std::bit_ceil(head + std::max(sge, 1u) * kUnit);
}

}  // namespace verbatim::mlx5
