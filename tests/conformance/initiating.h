// SPDX-License-Identifier: MIT
#pragma once

// What ends that name a queue with each request do: initiators of DC, senders of XRC.

#include <arpa/inet.h>

#include <algorithm>

#include "tests/conformance/players.h"

namespace verbatim::conformance {

inline constexpr size_t kFar = 16 * 1024;  ///< offset in the peer's buffer

inline constexpr auto kSend = [](ibv_qp_ex* ex) { ibv_wr_send(ex); };

inline void expect_done(const Endpoint& self, uint64_t id, ibv_wc_opcode opcode) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.opcode, opcode);
}

/// Sends, writes, a read and atomics to `queue`, which all end well: requests 1 to 7. What is written lies at
/// kFar then, with 42 in its first word. `end.post` as DcInitiator has it.
template <class End>
void initiate_operations(Endpoint& self, End& end, uint32_t queue) {
  const uint32_t rkey = self.peer.rkey;
  const uint64_t there = self.peer.address + kFar;
  const auto send_imm = [](ibv_qp_ex* ex) { ibv_wr_send_imm(ex, htonl(7)); };
  const auto write = [=](ibv_qp_ex* ex) { ibv_wr_rdma_write(ex, rkey, there); };
  const auto write_imm = [=](ibv_qp_ex* ex) { ibv_wr_rdma_write_imm(ex, rkey, there, htonl(8)); };
  const auto read = [=](ibv_qp_ex* ex) { ibv_wr_rdma_read(ex, rkey, there); };
  EXPECT_EQ(end.post(1, queue, kSend, 1000), 0);
  EXPECT_EQ(end.post(2, queue, send_imm, 9000), 0);
  EXPECT_EQ(end.post(3, queue, write, 9000), 0);
  EXPECT_EQ(end.post(4, queue, write_imm, 64), 0);
  EXPECT_EQ(end.post(5, queue, read, 9000, 20'000), 0);
  expect_done(self, 1, IBV_WC_SEND);
  expect_done(self, 2, IBV_WC_SEND);
  expect_done(self, 3, IBV_WC_RDMA_WRITE);
  expect_done(self, 4, IBV_WC_RDMA_WRITE);
  expect_done(self, 5, IBV_WC_RDMA_READ);
  EXPECT_TRUE(std::equal(&self.buffer[0], &self.buffer[9000], &self.buffer[20'000]));
  const auto add = [=](ibv_qp_ex* ex) { ibv_wr_atomic_fetch_add(ex, rkey, there, 5); };
  EXPECT_EQ(end.post(6, queue, add, 8, 32'000), 0);
  expect_done(self, 6, IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(self, 32'000), word(self, 0));
  const uint64_t grown = word(self, 0) + 5;
  const auto swap = [=](ibv_qp_ex* ex) { ibv_wr_atomic_cmp_swp(ex, rkey, there, grown, 42); };
  EXPECT_EQ(end.post(7, queue, swap, 8, 32'000), 0);
  expect_done(self, 7, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(self, 32'000), grown);
}

}  // namespace verbatim::conformance
