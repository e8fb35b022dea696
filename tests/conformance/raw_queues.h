// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

/// The queues of an endpoint, driven by hand.
class RawQueues {
 public:
  explicit RawQueues(Endpoint& self) : self_(self) {
    mlx5dv_obj objects{};
    objects.qp = {self.qp, &qp};
    objects.cq = {self.cq, &cq};
    EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
  }

  /// Writes a signalled RDMA write of `bytes` from the start of the buffer to that of the peer's, without
  /// ringing.
  mlx5_wqe_ctrl_seg* put_write(uint32_t bytes, uint8_t opcode = MLX5_OPCODE_RDMA_WRITE) {
    auto* at = static_cast<std::byte*>(qp.sq.buf) + size_t{posted_ % qp.sq.wqe_cnt} * qp.sq.stride;
    auto* control = reinterpret_cast<mlx5_wqe_ctrl_seg*>(at);
    auto* remote = reinterpret_cast<mlx5_wqe_raddr_seg*>(at + 16);
    mlx5dv_set_ctrl_seg(control, static_cast<uint16_t>(posted_), opcode, 0, self_.qp->qp_num,
                        MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, 0);
    *remote = {htobe64(self_.peer.address), htobe32(self_.peer.rkey), 0};
    mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg*>(at + 32), bytes, self_.mr->lkey,
                        reinterpret_cast<uintptr_t>(self_.buffer.data()));
    posted_++;
    return control;
  }
  /// The same with a send of the first bytes of the buffer.
  mlx5_wqe_ctrl_seg* put_send(uint32_t bytes, bool signaled) {
    auto* at = static_cast<std::byte*>(qp.sq.buf) + size_t{posted_ % qp.sq.wqe_cnt} * qp.sq.stride;
    auto* control = reinterpret_cast<mlx5_wqe_ctrl_seg*>(at);
    mlx5dv_set_ctrl_seg(control, static_cast<uint16_t>(posted_), MLX5_OPCODE_SEND, 0, self_.qp->qp_num,
                        signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 2, 0, 0);
    mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg*>(at + 16), bytes, self_.mr->lkey,
                        reinterpret_cast<uintptr_t>(self_.buffer.data()));
    posted_++;
    return control;
  }
  /// Posts a receive of one piece of the buffer.
  void receive(size_t offset, uint32_t bytes) {
    auto* at = static_cast<std::byte*>(qp.rq.buf) + size_t{received_ % qp.rq.wqe_cnt} * qp.rq.stride;
    auto* data = reinterpret_cast<mlx5_wqe_data_seg*>(at);
    mlx5dv_set_data_seg(data, bytes, self_.mr->lkey,
                        reinterpret_cast<uintptr_t>(self_.buffer.data() + offset));
    if (qp.rq.stride > 16) mlx5dv_set_data_seg(data + 1, 0, 0x100, 0);  // the list ends
    received_++;
    __atomic_store_n(&qp.dbrec[MLX5_RCV_DBR], htobe32(received_ & 0xffff), __ATOMIC_RELEASE);
  }
  /// The doorbell record, then eight bytes of the register.
  void ring(const mlx5_wqe_ctrl_seg* control) {
    __atomic_store_n(&qp.dbrec[MLX5_SND_DBR], htobe32(posted_ & 0xffff), __ATOMIC_RELEASE);
    uint64_t first;
    std::memcpy(&first, control, sizeof first);
    __atomic_store_n(static_cast<uint64_t*>(qp.bf.reg), first, __ATOMIC_RELEASE);
  }
  void write(uint32_t bytes) { ring(put_write(bytes)); }

  /// The next completion of the ring, or nullptr after ten seconds.
  mlx5_cqe64* next() {
    mlx5_cqe64* cqe = await();
    if (cqe == nullptr) return nullptr;
    consumed_++;
    __atomic_store_n(&cq.dbrec[0], htobe32(consumed_ & 0xffffff), __ATOMIC_RELEASE);
    return cqe;
  }
  /// The same, but leaves it unread.
  mlx5_cqe64* await() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    do {
      auto* entry = static_cast<std::byte*>(cq.buf) + size_t{consumed_ % cq.cqe_cnt} * cq.cqe_size;
      auto* cqe = reinterpret_cast<mlx5_cqe64*>(entry + cq.cqe_size - sizeof(mlx5_cqe64));
      const uint8_t last = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
      const unsigned lap = consumed_ / cq.cqe_cnt & 1;
      if (last >> 4 != MLX5_CQE_INVALID && (last & MLX5_CQE_OWNER_MASK) == lap) return cqe;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return nullptr;
  }
  /// Asks for an event for completions that next() has not read; `sequence` counts the events.
  void arm(uint32_t sequence) {
    const uint32_t word = htobe32(sequence << 28 | MLX5_CQ_DB_REQ_NOT | (consumed_ & 0xffffff));
    __atomic_store_n(&cq.dbrec[1], word, __ATOMIC_RELEASE);
    const uint64_t rung = uint64_t{htobe32(cq.cqn)} << 32 | word;
    auto* page = static_cast<std::byte*>(cq.cq_uar);
    __atomic_store_n(reinterpret_cast<uint64_t*>(page + MLX5_CQ_DOORBELL), rung, __ATOMIC_RELEASE);
  }

  mlx5dv_qp qp{};
  mlx5dv_cq cq{};

 private:
  Endpoint& self_;
  uint32_t posted_ = 0, received_ = 0, consumed_ = 0;
};

}  // namespace verbatim::conformance
