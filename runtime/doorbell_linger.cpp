// SPDX-License-Identifier: MIT
#include "runtime/doorbell_linger.h"

#include <sched.h>

#include <algorithm>

namespace verbatim::runtime {

namespace {

constexpr uint64_t kSteadyNs = 20'000, kTryingNs = 200'000, kYieldAfterNs = 4'000;
constexpr uint32_t kVainMax = 3, kLateMax = 256;
constexpr uint32_t kPauseShort = 16;  ///< when the other end lingers

uint32_t load(const std::atomic<uint32_t>& guess) { return guess.load(std::memory_order_relaxed); }
void store(std::atomic<uint32_t>& guess, uint32_t value) { guess.store(value, std::memory_order_relaxed); }

}  // namespace

void DoorbellLinger::after_ring(uint32_t received) {
  (void)engine_.progress();
  const uint32_t sent = fabric_.requests_sent();
  const bool spoke = sent != load(sent_);
  store(sent_, sent);
  if (!spoke || engine_.receives() != received || is_off()) return;
  thread_.note_linger();
  fabric_.linger(true);
  learn(await_receive(received, mode_ == Mode::kSteady ? kSteadyNs : kTryingNs));
  fabric_.linger(false);
  if (fabric_.pending()) thread_.wake();
}

bool DoorbellLinger::is_off() {
  if (mode_ != Mode::kOff) return false;
  store(left_out_, load(left_out_) + 1);
  const bool called = load(left_out_) >= kPauseShort && fabric_.peer_lingers();
  if (load(left_out_) < load(pause_) && !called) return true;
  store(left_out_, 0);
  store(pause_, std::min(2 * load(pause_), kPauseMax));
  mode_ = Mode::kTrying;
  return false;
}

// How long it took, kNever: in vain.
uint64_t DoorbellLinger::await_receive(uint32_t received, uint64_t span_ns) {
  const uint64_t began_ns = clock_.now_ns();
  uint64_t took_ns = 0;
  do {
    (void)engine_.progress();
    took_ns = clock_.now_ns() - began_ns;
    if (engine_.receives() != received) return took_ns;
    if (took_ns > kYieldAfterNs) sched_yield();  // to the other end's engine thread
  } while (took_ns < span_ns);
  return kNever;
}

void DoorbellLinger::learn(uint64_t took_ns) {
  if (took_ns <= kSteadyNs) {
    store(late_, 0);
    store(vain_, 0);
    store(pause_, kPauseMin);
    mode_ = Mode::kSteady;
    return;
  }
  store(late_, load(late_) + 1);
  if (took_ns == kNever && mode_ == Mode::kTrying) store(vain_, load(vain_) + 1);
  if (took_ns != kNever) store(vain_, 0);
  if (load(vain_) < kVainMax && load(late_) < kLateMax) {
    mode_ = Mode::kTrying;
    return;
  }
  store(late_, 0);
  store(vain_, 0);
  store(left_out_, 0);
  mode_ = Mode::kOff;
}

}  // namespace verbatim::runtime
