// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <atomic>

#include "base/clock.h"
#include "engine/engine.h"
#include "runtime/engine_thread.h"
#include "runtime/process.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::runtime {

/// Where a program's thread waits for an event and takes in itself what other hosts send meanwhile: the
/// engine thread, which would have to wake it once more, leaves packets to it. What peers on this host send
/// stays the engine thread's.
class StandIn {
 public:
  StandIn(engine::Engine& engine, wire::udp::UdpFabric& udp, EngineThread& thread, const Clock& clock)
      : engine_(engine), udp_(udp), thread_(thread), clock_(clock) {}

  /// Returns when `file` is readable, or why it does not wait (any longer).
  Waited wait(int file);

 private:
  class Place;
  int look(pollfd* files, nfds_t count);
  bool take_in();

  engine::Engine& engine_;
  wire::udp::UdpFabric& udp_;
  EngineThread& thread_;
  const Clock& clock_;
  std::atomic<int32_t> soon_{0};  ///< waits that were short, in a row; a guess
};

}  // namespace verbatim::runtime
