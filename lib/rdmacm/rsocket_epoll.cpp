// SPDX-License-Identifier: MIT
// Sets of descriptors that may hold sockets over RDMA. Those of the kernel are in an epoll set of its own,
// whose descriptor names the whole; the sockets are looked at one by one.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_poll.h"

namespace verbatim::rdmacm {
namespace {

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP);

struct Member {
  std::weak_ptr<Socket> socket;  ///< closing it is leaving
  epoll_event wanted;
  uint64_t told = 0;  ///< of an edge-triggered one: its edges when it was told of
};

using Members = std::map<int, Member>;

std::mutex lock;
std::map<int, Members>& sets() {
  // Never destroyed: threads may still use it while the process ends.
  static std::map<int, Members>& all = *new std::map<int, Members>;
  return all;
}

/// The members of a set, null: it is not one of these.
Members* members_of(int set) {
  const auto found = sets().find(set);
  return found != sets().end() ? &found->second : nullptr;
}

int change(Members& members, int op, int fd, const epoll_event* event) {
  auto found = members.find(fd);
  if (found != members.end() && found->second.socket.expired()) {
    members.erase(found);
    found = members.end();
  }
  if (op != EPOLL_CTL_ADD && found == members.end()) return fail(ENOENT);
  if (op == EPOLL_CTL_ADD && found != members.end()) return fail(EEXIST);
  if (op == EPOLL_CTL_DEL) {
    members.erase(found);
    return 0;
  }
  if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD) return fail(EINVAL);
  if (event == nullptr) return fail(EFAULT);
  members[fd] = {find_socket(fd), *event, 0};
  return 0;
}

/// One that was told of.
void note(Member& member) {
  if (const auto socket = member.socket.lock()) member.told = socket->edges();
  if ((member.wanted.events & EPOLLONESHOT) != 0) member.wanted.events = EPOLLONESHOT;
}

/// Puts what the sockets of a set have to tell into `events`.
int collect(int set, const std::vector<pollfd>& wanted, epoll_event* events, int events_max) {
  const std::scoped_lock guard(lock);
  Members* members = members_of(set);
  int count = 0;
  for (const pollfd& each : wanted) {
    const auto found = members != nullptr ? members->find(each.fd) : Members::iterator();
    if (members == nullptr || found == members->end() || count == events_max) continue;
    if (each.revents == 0) continue;
    events[count++] = {static_cast<uint16_t>(each.revents), found->second.wanted.data};
    note(found->second);
  }
  return count;
}

/// Everything in a set that holds sockets: them, then the kernel's set itself.
struct Wanted {
  std::vector<pollfd> polled;
  std::vector<Watched> watched;
  std::vector<uint64_t> told;
};

bool list(int set, Wanted& wanted) {
  constexpr uint32_t kPolled = EPOLLIN | EPOLLOUT;
  const std::scoped_lock guard(lock);
  const Members* members = members_of(set);
  if (members == nullptr || members->empty()) return false;
  wanted.polled.reserve(members->size() + 1);
  wanted.told.reserve(members->size());
  for (const auto& [fd, member] : *members) {
    const std::shared_ptr<Socket> socket = member.socket.lock();
    if (member.wanted.events == EPOLLONESHOT || socket == nullptr) continue;
    wanted.polled.push_back({fd, static_cast<short>(member.wanted.events & kPolled), 0});
    wanted.told.push_back(member.told);
    const bool edges = (member.wanted.events & EPOLLET) != 0;
    wanted.watched.push_back({socket, &wanted.polled.back(), edges ? &wanted.told.back() : nullptr});
  }
  wanted.polled.push_back({set, POLLIN, 0});
  wanted.watched.push_back({nullptr, &wanted.polled.back(), nullptr});
  return true;
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int repoll_create(int flags) {
  const int set = ::epoll_create1(flags);
  if (set < 0) return -1;
  const std::scoped_lock guard(lock);
  sets()[set] = {};
  return set;
}

int repoll_ctl(int epfd, int op, int fd, epoll_event* event) {
  if (find_socket(fd) == nullptr) {
    // One that was closed in the meantime is still a member.
    const std::scoped_lock guard(lock);
    Members* members = members_of(epfd);
    if (members != nullptr && op == EPOLL_CTL_DEL && members->erase(fd) > 0) return 0;
    return ::epoll_ctl(epfd, op, fd, event);
  }
  const std::scoped_lock guard(lock);
  Members* members = members_of(epfd);
  return members == nullptr ? fail(EBADF) : change(*members, op, fd, event);
}

int repoll_wait(int epfd, epoll_event* events, int maxevents, int timeout) {
  if (maxevents <= 0) return fail(EINVAL);
  for (;;) {
    Wanted wanted;
    if (!list(epfd, wanted)) return ::epoll_wait(epfd, events, maxevents, timeout);
    if (wait_for(wanted.watched, timeout) < 0) return -1;
    int count = collect(epfd, wanted.polled, events, maxevents);
    if (wanted.polled.back().revents != 0 && count < maxevents) {
      const int more = ::epoll_wait(epfd, events + count, maxevents - count, 0);
      count += std::max(more, 0);
    }
    if (count > 0 || timeout >= 0) return count;
  }
}

}  // extern "C"
