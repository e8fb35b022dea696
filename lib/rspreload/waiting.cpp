// SPDX-License-Identifier: MIT
// Waiting for the program's sockets.
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>

#include <vector>

#include "lib/rspreload/descriptors.h"
#include "lib/rspreload/next.h"

using verbatim::rspreload::count_of_descriptors;
using verbatim::rspreload::Inside;
using verbatim::rspreload::meaning_of;
using verbatim::rspreload::next;

namespace {

/// The same with what the descriptors mean. False: none of them means a socket over RDMA.
bool translate(const pollfd* wanted, nfds_t count, std::vector<pollfd>& to) {
  if (count_of_descriptors() == 0) return false;
  bool any = false;
  to.assign(wanted, wanted + count);
  for (pollfd& each : to) {
    const int socket = meaning_of(each.fd);
    if (socket < 0) continue;
    each.fd = socket;
    any = true;
  }
  return any;
}

struct Sets {
  fd_set *to_read, *to_write, *exceptions;
};

std::vector<pollfd> from_sets(int count, const Sets& sets) {
  const auto in = [](int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); };
  std::vector<pollfd> wanted;
  for (int fd = 0; fd < count; ++fd) {
    const int events = (in(fd, sets.to_read) ? POLLIN : 0) | (in(fd, sets.to_write) ? POLLOUT : 0) |
                       (in(fd, sets.exceptions) ? POLLPRI : 0);
    if (events != 0) wanted.push_back({fd, static_cast<short>(events), 0});
  }
  return wanted;
}

/// Leaves in a set what is ready; how many that are.
int keep(const std::vector<pollfd>& wanted, const std::vector<pollfd>& found, short asked, short ready,
         fd_set* set) {
  if (set == nullptr) return 0;
  FD_ZERO(set);
  int count = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if ((wanted[i].events & asked) == 0 || (found[i].revents & ready) == 0) continue;
    FD_SET(wanted[i].fd, set);
    ++count;
  }
  return count;
}

int milliseconds(const timeval* timeout) {
  return timeout == nullptr ? -1 : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
}

int milliseconds(const timespec* timeout) {
  if (timeout == nullptr) return -1;
  return static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000);
}

/// Other signals are blocked as long as it lives. Unlike the kernel's, not in one step with the wait.
class SignalMask {
 public:
  explicit SignalMask(const sigset_t* mask) : changes_(mask != nullptr) {
    if (changes_) pthread_sigmask(SIG_SETMASK, mask, &before_);
  }
  ~SignalMask() {
    if (changes_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  const bool changes_;
  sigset_t before_;
};

int poll_translated(pollfd* wanted, std::vector<pollfd>& all, int timeout_ms) {
  const Inside inside;
  const int found = rpoll(all.data(), all.size(), timeout_ms);
  for (size_t i = 0; i < all.size(); ++i) wanted[i].revents = all[i].revents;
  return found;
}

/// `any`: whether sockets over RDMA are among them; otherwise nothing is done.
int select_translated(int count, const Sets& sets, int timeout_ms, bool& any) {
  const std::vector<pollfd> wanted = from_sets(count, sets);
  std::vector<pollfd> found;
  any = translate(wanted.data(), wanted.size(), found);
  if (!any) return 0;
  const Inside inside;
  const int ready = rpoll(found.data(), found.size(), timeout_ms);
  if (ready < 0) return ready;
  return keep(wanted, found, POLLIN, POLLIN | POLLHUP | POLLERR, sets.to_read) +
         keep(wanted, found, POLLOUT, POLLOUT | POLLERR, sets.to_write) +
         keep(wanted, found, POLLPRI, POLLPRI, sets.exceptions);
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int poll(pollfd* wanted, nfds_t count, int timeout_ms) {
  std::vector<pollfd> all;
  if (Inside::is_active() || !translate(wanted, count, all)) return next().poll(wanted, count, timeout_ms);
  return poll_translated(wanted, all, timeout_ms);
}

int __poll_chk(pollfd* wanted, nfds_t count, int timeout_ms, size_t room) {
  if (count * sizeof *wanted > room) return next().poll_chk(wanted, count, timeout_ms, room);
  return poll(wanted, count, timeout_ms);
}

int ppoll(pollfd* wanted, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  std::vector<pollfd> all;
  if (Inside::is_active() || !translate(wanted, count, all))
    return next().ppoll(wanted, count, timeout, mask);
  const SignalMask masked(mask);
  return poll_translated(wanted, all, milliseconds(timeout));
}

int __ppoll_chk(pollfd* wanted, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t room) {
  if (count * sizeof *wanted > room) return next().ppoll_chk(wanted, count, timeout, mask, room);
  return ppoll(wanted, count, timeout, mask);
}

int select(int count, fd_set* to_read, fd_set* to_write, fd_set* exceptions, timeval* timeout) {
  bool any = false;
  if (!Inside::is_active() && count_of_descriptors() > 0) {
    const int ready = select_translated(count, {to_read, to_write, exceptions}, milliseconds(timeout), any);
    if (any) return ready;
  }
  return next().select(count, to_read, to_write, exceptions, timeout);
}

int pselect(int count, fd_set* to_read, fd_set* to_write, fd_set* exceptions, const timespec* timeout,
            const sigset_t* mask) {
  bool any = false;
  if (!Inside::is_active() && count_of_descriptors() > 0) {
    const SignalMask masked(mask);
    const int ready = select_translated(count, {to_read, to_write, exceptions}, milliseconds(timeout), any);
    if (any) return ready;
  }
  return next().pselect(count, to_read, to_write, exceptions, timeout, mask);
}

int epoll_create1(int flags) {
  if (Inside::is_active()) return next().epoll_create1(flags);
  const Inside inside;
  return repoll_create(flags);
}

int epoll_create(int /*size*/) { return epoll_create1(0); }

int epoll_ctl(int set, int operation, int descriptor, epoll_event* event) {
  const int socket = meaning_of(descriptor);
  if (Inside::is_active()) return next().epoll_ctl(set, operation, descriptor, event);
  const Inside inside;
  return repoll_ctl(set, operation, socket >= 0 ? socket : descriptor, event);
}

int epoll_wait(int set, epoll_event* events, int events_max, int timeout_ms) {
  if (Inside::is_active()) return next().epoll_wait(set, events, events_max, timeout_ms);
  const Inside inside;
  return repoll_wait(set, events, events_max, timeout_ms);
}

int epoll_pwait(int set, epoll_event* events, int events_max, int timeout_ms, const sigset_t* mask) {
  if (Inside::is_active()) return next().epoll_pwait(set, events, events_max, timeout_ms, mask);
  const SignalMask masked(mask);
  const Inside inside;
  return repoll_wait(set, events, events_max, timeout_ms);
}

}  // extern "C"
