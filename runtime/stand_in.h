// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>

#include "engine/engine.h"
#include "runtime/engine_thread.h"
#include "wire/link/shm/shm_fabric.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::runtime {

/// What a program's thread does when it waits in the kernel inside this library: it lets peers wake it
/// itself, and takes in what they send, so that a message costs one thread's wake-up and not the engine
/// thread's, too.
///
/// The engine thread leaves wakes alone while threads come and go here. It sleeps for 1 ms at most meanwhile,
/// which is as long as something may go unseen when such a thread is busy with something else.
class StandIn {
 public:
  StandIn(wire::shm::ShmFabric& fabric, wire::udp::UdpFabric& udp, EngineThread& thread)
      : fabric_(fabric), udp_(udp), thread_(thread) {}

  /// poll(). 0 before the time is over: something has arrived, or may have; the caller takes it in (as
  /// polling a completion queue does), looks, and waits again. Thread safe.
  int wait(pollfd* files, uint32_t count, int timeout_ms);

 private:
  class Place;
  static constexpr uint32_t kFilesMax = 14;

  wire::shm::ShmFabric& fabric_;
  wire::udp::UdpFabric& udp_;
  EngineThread& thread_;
  std::atomic<uint32_t> standing_{0};
};

}  // namespace verbatim::runtime
