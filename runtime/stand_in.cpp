// SPDX-License-Identifier: MIT
#include "runtime/stand_in.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/spinlock.h"

namespace verbatim::runtime {

namespace {

constexpr uint64_t kSoonNs = 40'000;   ///< a wait was short: most of it, the thread was being woken
constexpr uint64_t kAwakeNs = 30'000;  ///< for so long a thread stays awake, at most
constexpr long kNapNs = 10'000;        ///< in which another thread gets on
constexpr int32_t kSoonWanted = 3;     ///< short waits in a row before threads do
constexpr int32_t kVain = -16;         ///< and as many more when one has done so in vain

}  // namespace

/// As long as one lives, packets are its thread's; one that is cancelled leaves, too.
class StandIn::Place {
 public:
  explicit Place(EngineThread& thread) : thread_(thread) { thread_.note_waiter(true); }
  ~Place() { thread_.note_waiter(false); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  EngineThread& thread_;
};

// Where answers come sooner than a thread can be woken, it stays awake. poll(2)'s result, or a negative
// errno.
int StandIn::look(pollfd* files, nfds_t count) {
  const Place place(thread_);
  const uint64_t began_ns = clock_.now_ns();
  int32_t soon = soon_.load(std::memory_order_relaxed);
  if (soon >= kSoonWanted) {
    do {
      if (const int ready = ::poll(files, count, 0); ready != 0) return ready;
      spin_pause();
    } while (clock_.now_ns() - began_ns < kAwakeNs);
    soon = kVain;
  }
  int ready = ::poll(files, count, -1);
  if (ready < 0) ready = -errno;
  const bool was_soon = clock_.now_ns() - began_ns < kSoonNs;
  soon_.store(was_soon ? std::min(soon + 1, kSoonWanted) : std::min(soon, 0), std::memory_order_relaxed);
  return ready;
}

// False: another thread is just taking in what there is.
bool StandIn::take_in() {
  udp_.look_soon();
  engine_.note_program_poll();
  return engine_.progress() > 0;
}

Waited StandIn::wait(int file) {
  for (;;) {
    pollfd files[2] = {{file, POLLIN, 0}, {udp_.file(), POLLIN, 0}};
    if (files[1].fd < 0) return Waited::kNoPackets;
    udp_.note_heard_in_place();
    if (const int ready = look(files, 2); ready < 0)
      return ready == -EINTR ? Waited::kInterrupted : Waited::kNoPackets;
    const bool taken_in = files[1].revents == 0 || take_in();
    if (files[0].revents != 0) return Waited::kReadable;
    if (taken_in) continue;
    const timespec nap = {0, kNapNs};  // that thread may need this processor
    nanosleep(&nap, nullptr);
  }
}

}  // namespace verbatim::runtime
