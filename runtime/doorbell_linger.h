// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "engine/engine.h"
#include "runtime/doorbell_watch.h"
#include "runtime/engine_thread.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::runtime {

/// What a program's thread does after it has rung a doorbell by a plain store.
///
/// Such a program looks for completions in memory, so that the engine thread has to take in what arrives, and
/// where threads that spin have all processors it gets one late. A thread that has just rung runs here
/// anyhow: it takes in what has arrived, and, as long as that has been worth it, stays for a little while
/// until an answer to what it has sent comes. Answers are receives that complete; between threads that take
/// turns they come at once, in a stream they do not.
///
///   trying   waits longer, because the other end may not linger yet; an answer in time -> steady,
///            none several times, or too many late ones -> off
///   steady   no answer in time, because the other end was interrupted, say -> trying
///   off      after some doorbells, more each time -> trying
class DoorbellLinger final : public StoreCompany {
 public:
  DoorbellLinger(engine::Engine& engine, wire::shm::ShmFabric& fabric, EngineThread& thread,
                 const Clock& clock)
      : engine_(engine), fabric_(fabric), thread_(thread), clock_(clock), pause_(kPauseMin) {}

  // StoreCompany. Thread safe; takes 20 us at most, rarely 200 us, besides what has arrived.
  uint32_t before_ring() override { return engine_.receives(); }
  void after_ring(uint32_t received) override;

 private:
  static constexpr uint32_t kPauseMin = 64, kPauseMax = 4096;
  enum class Mode : uint8_t { kTrying, kSteady, kOff };
  bool is_off();
  uint64_t await_receive(uint32_t received, uint64_t span_ns);
  void learn(uint64_t took_ns);

  engine::Engine& engine_;
  wire::shm::ShmFabric& fabric_;
  EngineThread& thread_;
  const Clock& clock_;
  // Threads may lose each other's counts, which are guesses anyhow.
  std::atomic<Mode> mode_{Mode::kTrying};
  std::atomic<uint32_t> late_{0};      ///< waits in a row that were not answered in time
  std::atomic<uint32_t> vain_{0};      ///< long ones in a row that were not answered at all
  std::atomic<uint32_t> left_out_{0};  ///< doorbells since it is off
  std::atomic<uint32_t> pause_;        ///< doorbells to leave out next time
  std::atomic<uint32_t> sent_{0};      ///< requests at the last doorbell
};

}  // namespace verbatim::runtime
