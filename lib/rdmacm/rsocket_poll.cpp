// SPDX-License-Identifier: MIT
// Waiting for sockets over RDMA and other descriptors together.
#include "lib/rdmacm/rsocket_poll.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_defaults.h"
#include "lib/rdmacm/rsocket_spin.h"

namespace verbatim::rdmacm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What is ready now.
int look(std::vector<Watched>& all) {
  int found = 0;
  for (Watched& each : all) {
    if (each.socket != nullptr) {
      each.wanted->revents = each.socket->ready(each.wanted->events);
      if (each.told != nullptr && *each.told == each.socket->edges()) each.wanted->revents = 0;
    } else {
      each.wanted->revents = 0;
      ::poll(each.wanted, 1, 0);
    }
    found += each.wanted->revents != 0 ? 1 : 0;
  }
  return found;
}

/// Watches all of them as long as it lives.
class WatchOfAll {
 public:
  explicit WatchOfAll(const std::vector<Watched>& all) : all_(all), bell_(bell_of_thread()) {
    for (const Watched& each : all_)
      if (each.socket != nullptr) each.socket->watchers.add(bell_);
  }
  ~WatchOfAll() {
    for (const Watched& each : all_)
      if (each.socket != nullptr) each.socket->watchers.remove(bell_);
  }
  WatchOfAll(const WatchOfAll&) = delete;
  WatchOfAll& operator=(const WatchOfAll&) = delete;
  int bell() const { return bell_; }

 private:
  const std::vector<Watched>& all_;
  const int bell_;
};

/// What the kernel waits on for them, the bell first.
std::vector<pollfd> waits_of(std::vector<Watched>& all, int bell) {
  std::vector<pollfd> waits;
  waits.reserve(2 * all.size() + 1);
  waits.push_back({bell, POLLIN, 0});
  for (Watched& each : all) {
    if (each.socket == nullptr) {
      waits.push_back({each.wanted->fd, each.wanted->events, 0});
      continue;
    }
    for (const int descriptor : each.socket->prepare_to_wait().descriptors)
      if (descriptor >= 0) waits.push_back({descriptor, POLLIN, 0});
  }
  return waits;
}

void tell_of_waking(std::vector<Watched>& all) {
  for (Watched& each : all)
    if (each.socket != nullptr) each.socket->woken();
}

}  // namespace

int wait_for(std::vector<Watched>& all, int timeout_ms) {
  const SocketDefaults& defaults = socket_defaults();
  int found = look(all);
  if (found > 0 || timeout_ms == 0) return found;
  const auto begin = Clock::now();
  const auto end = begin + milliseconds(std::max(timeout_ms, 0));
  static thread_local Spin spin;
  const auto is_any_ready = [&] { return (found = look(all)) > 0; };
  if (spin.until(is_any_ready)) return found;
  const WatchOfAll watch(all);
  for (;;) {
    std::vector<pollfd> waits = waits_of(all, watch.bell());
    // What came before the waits were prepared rings no more.
    found = look(all);
    if (found > 0) return found;
    milliseconds pause = defaults.wake_up_interval;
    if (timeout_ms > 0) {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      if (left.count() <= 0) return 0;
      pause = std::min(pause, left);
    }
    if (::poll(waits.data(), waits.size(), static_cast<int>(pause.count())) < 0) return -1;
    if (waits[0].revents != 0) silence(watch.bell());
    tell_of_waking(all);
    found = look(all);
    if (found > 0) return found;
  }
}

namespace {

/// The sets of select() as what to poll for.
std::vector<pollfd> from_sets(int count, const fd_set* to_read, const fd_set* to_write,
                              const fd_set* exceptions) {
  std::vector<pollfd> wanted;
  for (int fd = 0; fd < count; ++fd) {
    const bool reads = to_read != nullptr && FD_ISSET(fd, to_read);
    const bool writes = to_write != nullptr && FD_ISSET(fd, to_write);
    const bool exceptional = exceptions != nullptr && FD_ISSET(fd, exceptions);
    if (!reads && !writes && !exceptional) continue;
    const int events = (reads ? POLLIN : 0) | (writes ? POLLOUT : 0) | (exceptional ? POLLPRI : 0);
    wanted.push_back({fd, static_cast<short>(events), 0});
  }
  return wanted;
}

int put(const std::vector<pollfd>& found, short events, fd_set* before, fd_set* set) {
  int count = 0;
  for (const pollfd& each : found) {
    if ((each.revents & events) == 0 || !FD_ISSET(each.fd, before)) continue;
    FD_SET(each.fd, set);
    ++count;
  }
  return count;
}

/// Leaves in a set what is ready.
int keep_ready(const std::vector<pollfd>& found, short events, fd_set* set) {
  if (set == nullptr) return 0;
  fd_set before = *set;
  FD_ZERO(set);
  return put(found, events, &before, set);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rpoll(pollfd* fds, nfds_t nfds, int timeout) {
  std::vector<Watched> all;
  bool any = false;
  for (nfds_t i = 0; i < nfds; ++i) {
    all.push_back({find_socket(fds[i].fd), &fds[i], nullptr});
    any = any || all.back().socket != nullptr;
  }
  return any ? wait_for(all, timeout) : ::poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set* readfds, fd_set* writefds, fd_set* exceptfds, timeval* timeout) {
  std::vector<pollfd> wanted = from_sets(nfds, readfds, writefds, exceptfds);
  int timeout_ms = -1;
  if (timeout != nullptr)
    timeout_ms = static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
  const int found = rpoll(wanted.data(), wanted.size(), timeout_ms);
  if (found < 0) return found;
  for (const pollfd& each : wanted)
    if ((each.revents & POLLNVAL) != 0) return fail(EBADF);
  return keep_ready(wanted, POLLIN | POLLHUP | POLLERR, readfds) +
         keep_ready(wanted, POLLOUT | POLLERR, writefds) + keep_ready(wanted, POLLPRI, exceptfds);
}

}  // extern "C"
