// SPDX-License-Identifier: MIT
#pragma once

// How to know that a process has taken in all that was sent to its port so far: what is sent last comes last.

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "base/gid.h"
#include "wire/format/packet.h"

namespace verbatim::fuzz {

/// A datagram queue pair for marks alone, and the socket that sends them.
class Marker {
 public:
  static constexpr uint64_t kWorkRequest = 1000;  ///< of its completions

  /// `host`: the process's. Its queue pair completes into `cq`.
  Marker(ibv_pd* pd, ibv_cq* cq, const Gid& host);
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker();

  uint32_t number() const { return qp_->qp_num; }
  /// Sends the next one.
  void mark();
  /// Sends it again: it may be lost.
  void mark_again();
  void take(const ibv_wc& completion);
  bool is_here() const { return seen_ == sent_; }

 private:
  void receive();

  std::array<uint8_t, 64> memory_{};
  ibv_mr* region_;
  ibv_qp* qp_;
  const Gid host_;
  int socket_;
  uint16_t port_;
  uint32_t sent_ = 0, seen_ = 0;
};

}  // namespace verbatim::fuzz
