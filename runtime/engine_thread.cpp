// SPDX-License-Identifier: MIT
#include "runtime/engine_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <system_error>

#include "base/asymmetric_fence.h"

namespace verbatim::runtime {

namespace {

constexpr uint64_t kLingerNs = 30'000;        ///< keep looking this long after work was found
constexpr uint64_t kWireLingerNs = 60'000;    ///< and while packets come: their sender waits for answers
constexpr uint64_t kCrowdedYieldNs = 50'000;  ///< a yield that took longer ran somebody who does not sleep
constexpr uint64_t kStoreNs = 10'000;         ///< in which a program gets its stores to a page done
constexpr unsigned long kTimerSlackNs = 1'000;
constexpr uint64_t kShortSliceNs = 100'000;  ///< the shortest that the kernel takes
constexpr uint64_t kWatchMinNs = 1'000'000;  ///< first look after program threads polled
constexpr uint64_t kWatchMaxNs = 4'000'000;
constexpr uint64_t kWireWatchNs = 200'000;       ///< while packets come and go: they wait meanwhile
constexpr uint64_t kWireWatchMaxNs = 2'000'000;  ///< where the program takes them in without pause
constexpr uint32_t kBusyPolls = 50;              ///< in kWireWatchNs, of such a program
constexpr uint64_t kNapNs = 20'000;  ///< in which a thread that polls would have taken in a packet
constexpr uint32_t kLingersPaidMax = 8;
constexpr uint64_t kLingerWatchNs = 1'000'000;
constexpr uint64_t kOutsideNs = 5'000'000;         ///< how long work may keep it from looking at the agent
constexpr uint64_t kSweepNs = 20'000'000;          ///< how often dead peers are looked for at most
constexpr uint64_t kDoubtfulSleepNs = 50'000'000;  ///< where a wake-up may be missed
constexpr uint64_t kAgentRetryNs = 200'000'000;    ///< between tries to find a lost agent

/// What sched_setattr(2) takes; the C library of Debian 12 does not have it, and the kernel's header clashes
/// with it.
struct SchedulingAttributes {
  uint32_t bytes = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

/// Threads with short slices preempt those with longer ones when they wake, which is what keeps a program
/// that spins on its memory from waiting for the end of its own slice. Since Linux 6.12; others take no
/// notice.
void ask_for_short_slices() {
  SchedulingAttributes wanted;
  if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0) != 0 || wanted.policy != SCHED_OTHER) return;
  wanted.runtime_ns = kShortSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace

void let_go_of_the_dead(engine::Engine& engine, const Clock& clock) {
  engine.step(clock.now_ns());
  engine::AccessGuard::wait();
}

EngineThread::EngineThread(engine::Engine& engine, wire::shm::ShmFabric& fabric, wire::udp::UdpFabric& udp,
                           agent::AgentClient& agent, agent::NoticeSink& notices, DoorbellWatch& doorbells,
                           const Clock& clock)
    : engine_(engine),
      fabric_(fabric),
      udp_(udp),
      agent_(agent),
      notices_(notices),
      doorbells_(doorbells),
      clock_(clock) {
  // Signals belong to the program's threads; faults must reach the guard of fault_copy.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "verbatim");
  } catch (const std::system_error&) {  // `runs` tells: the program around this goes on
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EngineThread::~EngineThread() {
  if (!thread_.joinable()) return;
  stop_ = true;
  wake();
  thread_.join();
}

void EngineThread::wake() {
  wanted_.store(true, std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  (void)!write(fabric_.wake_fd(), &one, sizeof one);
}

void EngineThread::run() {
  register_for_heavy_fences();  // here, because it may take the kernel a while
  ask_for_short_slices();
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  uint32_t polls_seen = engine_.program_polls();
  uint64_t watch_ns = kWatchMinNs, worked_ns = 0, rung_ns = 0;
  bool called = true;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t now = clock_.now_ns();
    const uint32_t polls = engine_.program_polls();
    if (doorbells_.look()) worked_ns = rung_ns = now;
    const bool program_looks = polls != polls_seen || program_takes_packets();
    if (!called && program_looks && now >= rung_ns + kLingerNs && !absent_.holds(now)) {
      const bool busy = polls - polls_seen >= kBusyPolls || program_takes_packets();
      polls_seen = polls;
      lingered_ = false;
      called = sleep(std::min(engine_.tick(now), now + watch_ns), now, Wire::kLeave) || packets_wait();
      watch_ns = !udp_.is_warm() ? std::clamp(watch_ns * 2, kWatchMinNs, kWatchMaxNs)
                 : busy          ? std::min(watch_ns * 2, kWireWatchMaxNs)
                                 : kWireWatchNs;
      continue;
    }
    called = false;
    const uint64_t next = engine_.step(now);
    if (next <= now) {
      worked_ns = now;
      if (lingered_) note_linger_paid();
      lingered_ = false;
    }
    if (now - outside_ns_ > kOutsideNs) {
      look_outside(0, now, Wire::kLeave);
    } else if (next <= now && udp_.is_warm()) {
      continue;  // packets are taken in until none is left: their sender's window is full otherwise
    } else if (now < std::max(worked_ns + linger_ns(now), rung_ns + kLingerNs) && !crowded_.holds(now)) {
      lingered_ = udp_.is_warm();
      give_way(now);
    } else if (next <= now) {
      continue;
    } else {
      if (lingered_) note_vain_linger(now);
      lingered_ = false;
      watch_ns = kWatchMinNs;
      called = rest(next, now);
    }
  }
}

// Who is to send the next packet may need this processor for it, which sched_yield() does not tell of where
// he belongs to another session or container: he is then late for as long as this thread lingers.
uint64_t EngineThread::linger_ns(uint64_t now_ns) const {
  if (!udp_.is_warm()) return kLingerNs;
  return vain_.holds(now_ns) ? 0 : kWireLingerNs;
}

void EngineThread::note_linger_paid() {
  vain_.forget();
  lingers_paid_ = std::min(lingers_paid_ + 1, kLingersPaidMax);
}

// A pause among many packets says nothing yet.
void EngineThread::note_vain_linger(uint64_t now_ns) {
  lingers_paid_ /= 2;
  if (lingers_paid_ == 0) vain_.begin(now_ns);
}

void EngineThread::note_linger() {
  lingers_.fetch_add(1, std::memory_order_seq_cst);
  if (relies_on_wakes_.load(std::memory_order_seq_cst)) wake();
}

void EngineThread::note_waiter(bool begins) {
  waiters_.fetch_add(begins ? 1 : UINT32_MAX, std::memory_order_seq_cst);
  if (!begins && relies_on_waiters_.load(std::memory_order_seq_cst)) wake();
}

// Who hears the wire while this thread sleeps. Threads that wait again and again are not to wake it each
// time.
EngineThread::Wire EngineThread::leave_wire_to_waiters(uint64_t& until_ns, uint64_t now_ns) {
  if (program_takes_packets() && !absent_.holds(now_ns)) {
    until_ns = std::min(until_ns, now_ns + kWireWatchNs);
    return Wire::kLeave;
  }
  relies_on_waiters_.store(true, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) return Wire::kLeave;
  relies_on_waiters_.store(false, std::memory_order_relaxed);
  return Wire::kHear;
}

// There is nothing to do. True: something called for this thread.
bool EngineThread::rest(uint64_t next_ns, uint64_t now_ns) {
  next_ns = std::min(next_ns, udp_.held_until_ns());
  relies_on_wakes_.store(true, std::memory_order_seq_cst);
  const uint32_t lingers = lingers_.load(std::memory_order_seq_cst);
  if (lingers != lingers_seen_) {
    lingers_seen_ = lingers;
    relies_on_wakes_.store(false, std::memory_order_relaxed);
    if (!fabric_.lingers()) fabric_.want_wake_loosely(true);
    next_ns = std::min(next_ns, now_ns + kLingerWatchNs);
  } else {
    // On since the last rest, wakes are certain without another fence, unless a thread that lingered turned
    // them on.
    if (lingers != 0) fabric_.want_wake(false);
    fabric_.want_wake(true);
  }
  const Wire wire = leave_wire_to_waiters(next_ns, now_ns);
  const bool called = fabric_.pending() || udp_.busy() || sleep(next_ns, now_ns, wire) ||
                      (wire == Wire::kLeave && packets_wait());
  relies_on_waiters_.store(false, std::memory_order_relaxed);
  relies_on_wakes_.store(false, std::memory_order_relaxed);
  return called;
}

// Program threads are about to look at the wire, or do so. Who has the lock sends what acknowledgements make
// room for, for longer than this thread sleeps.
bool EngineThread::program_takes_packets() const {
  return engine_.program_sends() || engine_.progress_lock().is_held() ||
         (waiters_.load(std::memory_order_relaxed) != 0 && udp_.is_warm());
}

// Packets have come from other hosts, and the program that polled some time ago does not any more: it looks
// at its memory, perhaps.
bool EngineThread::packets_wait() {
  pollfd file = {udp_.file(), POLLIN, 0};
  if (file.fd < 0 || program_takes_packets() || ::poll(&file, 1, 0) <= 0) return false;
  const uint32_t polls = engine_.program_polls();
  const timespec nap = {0, kNapNs};
  nanosleep(&nap, nullptr);
  if (engine_.program_polls() != polls || program_takes_packets() || ::poll(&file, 1, 0) <= 0) {
    absent_.forget();
    return false;
  }
  absent_.begin(clock_.now_ns());
  udp_.note_unheard();
  udp_.look_soon();
  return true;
}

// Where somebody spins on this processor, each look would cost one of its slices: sleeping gets this thread
// back sooner.
void EngineThread::give_way(uint64_t now_ns) {
  sched_yield();
  const uint64_t back_ns = clock_.now_ns();
  if (back_ns - now_ns > kCrowdedYieldNs)
    crowded_.begin(back_ns);
  else
    crowded_.forget();
}

// A thread that waited in a store has been let go on, and may have more stores to do before its doorbell is
// rung. Were the page protected again before it ran, it would only fault once more.
// True: something else called for this thread.
bool EngineThread::let_stores_through() {
  store_waited_ = false;
  pollfd files[2] = {{fabric_.wake_fd(), POLLIN, 0}, {agent_.fd(), POLLIN, 0}};
  const timespec wait = {0, kStoreNs};
  return ppoll(files, 2, &wait, nullptr) > 0;
}

// True when something called for this thread, false when time is up.
bool EngineThread::sleep(uint64_t until_ns, uint64_t now_ns, Wire wire) {
  if (agent_.fd() < 0) until_ns = std::min(until_ns, now_ns + kAgentRetryNs);
  if (!fabric_.wakes_are_certain()) until_ns = std::min(until_ns, now_ns + kDoubtfulSleepNs);
  bool called = true;
  udp_.leave_unheard(wire == Wire::kLeave);
  asleep_.store(true, std::memory_order_seq_cst);
  if (!wanted_.exchange(false, std::memory_order_seq_cst)) called = sleep_watching(until_ns, now_ns, wire);
  asleep_.store(false, std::memory_order_relaxed);
  udp_.leave_unheard(false);
  return called;
}

bool EngineThread::sleep_watching(uint64_t until_ns, uint64_t now_ns, Wire wire) {
  if (store_waited_ && let_stores_through()) return true;
  if (!doorbells_.protect()) until_ns = std::min(until_ns, now_ns + DoorbellWatch::kUnguardedSleepNs);
  const bool called = doorbells_.look() || look_outside(until_ns, now_ns, wire);
  doorbells_.unprotect();
  return called;
}

// Deals with what the agent tells and with peers that died; waits for that or a wake-up. True: there was one.
bool EngineThread::look_outside(uint64_t until_ns, uint64_t now_ns, Wire wire) {
  pollfd files[4] = {{fabric_.wake_fd(), POLLIN, 0},
                     {agent_.fd(), POLLIN, 0},
                     {doorbells_.fd(), POLLIN, 0},
                     {wire == Wire::kHear ? udp_.file() : -1, POLLIN, 0}};
  const uint64_t span = until_ns > now_ns && until_ns != kNever ? until_ns - now_ns : 0;
  const timespec wait = {static_cast<time_t>(span / 1'000'000'000), static_cast<long>(span % 1'000'000'000)};
  const int ready = ppoll(files, 4, until_ns == kNever ? nullptr : &wait, nullptr);
  asleep_.store(false, std::memory_order_relaxed);
  store_waited_ = ready > 0 && files[2].revents != 0;
  if (ready > 0 && files[3].revents) udp_.look_soon();
  uint64_t count;
  if (ready > 0 && files[0].revents) (void)!read(fabric_.wake_fd(), &count, sizeof count);
  if ((ready > 0 && files[1].revents) || files[1].fd < 0) agent_.handle_notices(notices_);
  outside_ns_ = clock_.now_ns();
  if (outside_ns_ - swept_ns_ > kSweepNs && ready > 0) {
    swept_ns_ = outside_ns_;
    {
      std::lock_guard<SpinLock> hold(engine_.progress_lock());
      fabric_.sweep(engine_);
    }
    fabric_.reclaim([this] { let_go_of_the_dead(engine_, clock_); });
  }
  return ready > 0;
}

}  // namespace verbatim::runtime
