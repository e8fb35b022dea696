// SPDX-License-Identifier: MIT
// Waiting for the program's sockets.
#include <rdma/rsocket.h>

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

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int poll(pollfd* wanted, nfds_t count, int timeout_ms) {
  std::vector<pollfd> all;
  if (Inside::is_active() || !translate(wanted, count, all)) return next().poll(wanted, count, timeout_ms);
  const Inside inside;
  const int found = rpoll(all.data(), count, timeout_ms);
  for (nfds_t i = 0; i < count; ++i) wanted[i].revents = all[i].revents;
  return found;
}

int __poll_chk(pollfd* wanted, nfds_t count, int timeout_ms, size_t room) {
  if (count * sizeof *wanted > room) return next().poll_chk(wanted, count, timeout_ms, room);
  return poll(wanted, count, timeout_ms);
}

int select(int count, fd_set* to_read, fd_set* to_write, fd_set* exceptions, timeval* timeout) {
  if (Inside::is_active() || count_of_descriptors() == 0)
    return next().select(count, to_read, to_write, exceptions, timeout);
  const std::vector<pollfd> wanted = from_sets(count, {to_read, to_write, exceptions});
  std::vector<pollfd> found;
  if (!translate(wanted.data(), wanted.size(), found))
    return next().select(count, to_read, to_write, exceptions, timeout);
  const Inside inside;
  const int ready = rpoll(found.data(), found.size(), milliseconds(timeout));
  if (ready < 0) return ready;
  return keep(wanted, found, POLLIN, POLLIN | POLLHUP | POLLERR, to_read) +
         keep(wanted, found, POLLOUT, POLLOUT | POLLERR, to_write) +
         keep(wanted, found, POLLPRI, POLLPRI, exceptions);
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

}  // extern "C"
