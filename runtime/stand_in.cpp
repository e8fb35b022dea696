// SPDX-License-Identifier: MIT
#include "runtime/stand_in.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace verbatim::runtime {

/// Peers wake whoever sleeps here as long as one of these lives; a thread that is cancelled leaves, too.
class StandIn::Place {
 public:
  explicit Place(StandIn& of) : of_(of) {
    of_.thread_.note_stand_in();
    of_.standing_.fetch_add(1, std::memory_order_seq_cst);
    // Should it have been on without making sure, what is missed is seen after 1 ms.
    of_.fabric_.want_wake(true);
  }
  ~Place() {
    const bool last = of_.standing_.fetch_sub(1, std::memory_order_seq_cst) == 1;
    if (last) of_.fabric_.want_wake_loosely(false);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  StandIn& of_;
};

int StandIn::wait(pollfd* files, uint32_t count, int timeout_ms) {
  if (count > kFilesMax) return ::poll(files, count, timeout_ms);
  if (fabric_.pending()) return ::poll(files, count, 0);
  std::array<pollfd, kFilesMax + 2> all;
  std::copy_n(files, count, all.begin());
  pollfd& woken = all[count] = {fabric_.wake_fd(), POLLIN, 0};
  pollfd& packets = all[count + 1] = {udp_.file(), POLLIN, 0};
  const Place place(*this);
  if (fabric_.pending() || udp_.busy()) return ::poll(files, count, 0);
  const int ready = ::poll(all.data(), count + 2, timeout_ms);
  if (ready < 0) return ready;
  for (uint32_t i = 0; i < count; i++) files[i].revents = all[i].revents;
  // Another thread may be quicker: it takes in what there is, then.
  uint64_t wakes;
  if (woken.revents != 0) (void)!::read(fabric_.wake_fd(), &wakes, sizeof wakes);
  if (packets.revents != 0) udp_.look_soon();
  return ready - (woken.revents != 0 ? 1 : 0) - (packets.revents != 0 ? 1 : 0);
}

}  // namespace verbatim::runtime
