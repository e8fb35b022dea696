// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "agent/client.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "runtime/doorbell_watch.h"
#include "wire/link/shm/shm_fabric.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::runtime {

/// What was found out is believed for a while, and for longer when it is found out again and again.
class BackOff {
 public:
  void begin(uint64_t now_ns) {
    span_ns_ = std::clamp(2 * span_ns_, kMinNs, kMaxNs);
    until_ns_ = now_ns + span_ns_;
  }
  /// It has been found not to be so.
  void forget() { span_ns_ = 0; }
  bool holds(uint64_t now_ns) const { return now_ns < until_ns_; }

 private:
  static constexpr uint64_t kMinNs = 20'000'000, kMaxNs = 1'000'000'000;
  uint64_t span_ns_ = 0, until_ns_ = 0;
};

/// Runs the engine when no program thread does, and sleeps when there is nothing to run.
///
///  work found            -> again at once, and for a short while after
///  program threads poll  -> stay away but for the slow timers, look again after a while (1 to 4 ms): what it
///                           took in would use up receive requests faster than the program posts them
///  packets waited then   -> the program has turned to something else: hear the wire for a while
///  raw doorbells         -> look at them every time round, and for a while after one was rung
///  a busy processor      -> sleep at once instead: whoever spins there would keep it for a whole slice
///  waited in vain        -> sleep at once for a while, too: others may need this processor to send something
///                           (not after a single time, where waiting has mostly paid of late)
///  threads that linger   -> sleep for 1 ms at most: they turn being woken off and on without a fence
///  threads wait          -> leave packets of other hosts to them (stand_in.h), or see that they have ended
///  to wait nobody polls          -> ask peers to wake this thread when they send, sleep until then or the
///  next timer
///
/// All signals are blocked in it but those that a fault raises.
class EngineThread {
 public:
  EngineThread(engine::Engine& engine, wire::shm::ShmFabric& fabric, wire::udp::UdpFabric& udp,
               agent::AgentClient& agent, agent::NoticeSink& notices, DoorbellWatch& doorbells,
               const Clock& clock);
  ~EngineThread();
  /// False: the process may have no more threads.
  bool runs() const { return thread_.joinable(); }

  /// Makes it look for work if it sleeps. Thread safe, cheap when it is awake.
  void wake();
  /// A program thread is going to take in what arrives, and says with the fabric's want_wake_loosely() when
  /// it has ended: this thread doesn't rely on being woken for a while. Any thread; cheap.
  void note_linger();
  /// A program thread waits for packets of other hosts from now on, or has ended to: meanwhile they are not
  /// this thread's. Any thread; cheap.
  void note_waiter(bool begins);
  /// In a forked child the thread does not exist: forgets it.
  void abandon() { thread_.detach(); }

 private:
  void run();
  uint64_t linger_ns(uint64_t now_ns) const;
  void note_linger_paid();
  void note_vain_linger(uint64_t now_ns);
  void give_way(uint64_t now_ns);
  bool rest(uint64_t next_ns, uint64_t now_ns);
  bool packets_wait();
  bool program_takes_packets() const;
  bool let_stores_through();
  enum class Wire : bool { kLeave, kHear };  ///< whether what arrives from other hosts calls for this thread
  Wire leave_wire_to_waiters(uint64_t& until_ns, uint64_t now_ns);
  bool sleep(uint64_t until_ns, uint64_t now_ns, Wire wire);
  bool sleep_watching(uint64_t until_ns, uint64_t now_ns, Wire wire);
  bool look_outside(uint64_t until_ns, uint64_t now_ns, Wire wire);

  engine::Engine& engine_;
  wire::shm::ShmFabric& fabric_;
  wire::udp::UdpFabric& udp_;
  agent::AgentClient& agent_;
  agent::NoticeSink& notices_;
  DoorbellWatch& doorbells_;
  const Clock& clock_;
  std::atomic<bool> stop_{false}, asleep_{false}, wanted_{false};
  std::atomic<bool> relies_on_wakes_{false};  ///< asleep until somebody wakes it
  std::atomic<uint32_t> lingers_{0}, waiters_{0};
  std::atomic<bool> relies_on_waiters_{false};  ///< asleep, and does not hear the wire
  uint32_t lingers_seen_ = 0;
  uint64_t swept_ns_ = 0, outside_ns_ = 0;
  BackOff crowded_;            ///< a yield ran somebody who does not sleep
  BackOff vain_;               ///< nothing came while it lingered
  BackOff absent_;             ///< nobody but this thread takes packets in
  bool lingered_ = false;      ///< since there was work
  uint32_t lingers_paid_ = 0;  ///< of late, more or less
  bool store_waited_ = false;  ///< in the last sleep: a thread stored to a protected page
  std::thread thread_;
};

/// On the engine thread. When it returns, queue pairs have read what a dead peer left, and no access to it
/// goes on.
void let_go_of_the_dead(engine::Engine& engine, const Clock& clock);

}  // namespace verbatim::runtime
