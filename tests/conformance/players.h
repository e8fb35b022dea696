// SPDX-License-Identifier: MIT
#pragma once

// Two players of a conformance case: each has a device, a queue pair and memory of its own, and meets the
// other over a socket. A case runs with both in one process (two threads) and in two (fork).

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "testing/queue_pair_steps.h"

namespace verbatim::conformance {

inline constexpr size_t kBuffer = 64 * 1024;
inline constexpr uint32_t kQkey = 0x1234;
inline constexpr int kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// What a player's objects are like.
struct Traits {
  ibv_qp_type type = IBV_QPT_RC;
  bool srq = false;
  bool channel = false;
  int signal_all = 0;
  int qp_access = kAllRights;
  int mr_access = kAllRights;
  uint32_t depth = 64;
  uint64_t operations = 0;         ///< IBV_QP_EX_WITH_*: not 0 makes a queue pair for ibv_wr_*().
  uint64_t direct_operations = 0;  ///< MLX5DV_QP_EX_WITH_*: not 0 opens the device for commands, too.
  uint32_t direct_flags = 0;       ///< MLX5DV_QP_CREATE_*, with direct_operations
  uint64_t cq_fields = 0;          ///< IBV_WC_EX_*: not 0 makes an extended completion queue.
  uint8_t timeout = 12, retries = 3, rnr_retries = 3, rnr_timer = 1;
  uint32_t sge = 4, inline_bytes = 128;
  uint32_t cq_entries = 256;
  uint32_t cq_flags = 0;  ///< IBV_CREATE_CQ_ATTR_*: not 0 makes an extended completion queue.
  int device = 0;         ///< place in the list
  int command_fd = -1;    ///< imports the device, and the protection domain with this handle
  uint32_t pd_handle = 0;
};

/// What one player tells the other.
struct Contact {
  uint32_t qpn = 0, psn = 0, rkey = 0;
  uint64_t address = 0;
  ibv_gid gid{};
  uint16_t lid = 0;  ///< on InfiniBand
};

class Endpoint {
 public:
  explicit Endpoint(const Traits& traits = {}, int socket = -1);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Contact contact() const;
  /// Tells the other player and hears from it over the socket, then goes to RTS.
  void meet();
  /// RESET to RTS towards `peer`, without a socket. The first errno, or 0.
  int connect(const Contact& peer);
  int to_init();
  int to_rtr(const Contact& peer);
  int to_rts();
  /// RESET, SQD, ERR, or RTS again: what needs no attributes.
  int move(ibv_qp_state state);
  ibv_qp_state state() const;
  /// Returns when the other player has come here, too.
  void barrier() const;

  ibv_sge piece(size_t offset, size_t bytes) const;
  int receive(size_t offset, size_t bytes, uint64_t id = 0);
  /// A signalled work request over one piece of the buffer, aimed at the same offset of the peer's.
  ibv_send_wr request(ibv_wr_opcode opcode, size_t bytes, size_t remote_offset = 0);
  /// Posts what request() gave, over a piece at `offset`.
  int post(ibv_send_wr wr, size_t offset = 0);
  /// The next completion; a failure of the test after five seconds.
  ibv_wc wait() const;
  ibv_wc_status wait_status() const { return wait().status; }
  bool quiet() const;
  ibv_cq_ex* extended_cq() const { return reinterpret_cast<ibv_cq_ex*>(cq); }
  ibv_qp_ex* builder() const { return ibv_qp_to_qp_ex(qp); }
  /// The next async event within five seconds, acknowledged. -1: none came.
  int next_event() const;
  bool no_event() const;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  ibv_ah* ah = nullptr;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBuffer);
  Contact peer;
  Traits traits;

 private:
  void make_cq();
  void make_qp();
  test::Connection connection() const;

  int socket_ = -1;
  ibv_sge sge_{};
};

/// A pattern that depends on `seed`: put into a buffer, and looked for.
void fill(Endpoint& self, size_t offset, size_t bytes, uint8_t seed);
bool holds(const Endpoint& self, size_t offset, size_t bytes, uint8_t seed);
uint64_t& word(Endpoint& self, size_t offset);

/// An opened first device. Closed with the last copy of the caller's own.
ibv_context* open_first();

using Part = std::function<void(Endpoint&)>;
enum class Players { kOneProcess, kTwoProcesses };

/// Runs both parts at once, each with a connected endpoint.
void play(Players players, const Traits& traits, const Part& active, const Part& passive);

/// A test that runs in both arrangements.
class Played : public testing::TestWithParam<Players> {
 protected:
  void play(const Traits& traits, const Part& active, const Part& passive) {
    conformance::play(GetParam(), traits, active, passive);
  }
};
std::string players_name(const testing::TestParamInfo<Players>& info);

/// Runs the present test again, in a process whose VERBATIM_DEVICES is `devices`, and there `check`.
void with_devices(const char* devices, const std::function<void()>& check);

/// Two endpoints of one thread, connected to each other.
struct Pair {
  explicit Pair(const Traits& traits = {});
  Endpoint left, right;
};

}  // namespace verbatim::conformance

#define VERBATIM_PLAY_BOTH_WAYS(suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(Both, suite,                                                    \
                           testing::Values(verbatim::conformance::Players::kOneProcess,    \
                                           verbatim::conformance::Players::kTwoProcesses), \
                           verbatim::conformance::players_name)
