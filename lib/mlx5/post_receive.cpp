// SPDX-License-Identifier: MIT
// Posting receives.
#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/receive_entry.h"

namespace verbatim::mlx5 {

namespace {

/// Elements begin at an offset of each entry.
int post(QueuePair& qp, uint32_t offset, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const std::lock_guard guard(qp.receive_lock);
  uint32_t head = qp.receive_head;
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    if (!qp.takes_receives)
      error = EINVAL;
    else if (head - qp.receive_tail.load(std::memory_order_acquire) >= qp.receive_entries)
      error = ENOMEM;
    else if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > qp.max_receive_sge)
      error = EINVAL;
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    const uint32_t index = head & (qp.receive_entries - 1);
    std::byte* entry = qp.receive_ring + static_cast<size_t>(index) * qp.receive_stride + offset;
    write_elements(reinterpret_cast<connectx::DataSegment*>(entry), qp.max_receive_sge, *wr);
    qp.receive_ids[index] = wr->wr_id;
    head++;
  }
  if (head != qp.receive_head) {
    qp.receive_head = head;
    const connectx::Be32 word(head & 0xffff);
    __atomic_store_n(&qp.doorbell[connectx::kReceiveDoorbell], word.raw(), __ATOMIC_RELEASE);
  }
  return error;
}

}  // namespace

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return post(QueuePair::of(qp), 0, wr, bad_wr);
}

int post_wq_recv(ibv_wq* public_wq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  WorkQueue& wq = WorkQueue::of(public_wq);
  return post(wq.receives, wq.entry_offset, wr, bad_wr);
}

int post_srq_recv(ibv_srq* public_srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(public_srq);
  const std::lock_guard guard(srq.lock);
  const uint16_t before = srq.counter;
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > srq.max_sge)
      error = EINVAL;
    else if (srq.head == srq.tail)
      error = ENOMEM;
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    connectx::SharedNextSegment* link = srq.link_at(srq.head);
    srq.ids[srq.head] = wr->wr_id;
    write_elements(reinterpret_cast<connectx::DataSegment*>(link + 1), srq.max_sge, *wr);
    srq.head = link->next_index & (srq.entries - 1);
    srq.counter++;
  }
  if (srq.counter != before) {
    const connectx::Be32 word(srq.counter);
    __atomic_store_n(&srq.doorbell[0], word.raw(), __ATOMIC_RELEASE);
  }
  return error;
}

}  // namespace verbatim::mlx5
