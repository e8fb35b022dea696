// SPDX-License-Identifier: MIT
#include "lib/ibverbs/event_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace verbatim::verbs {

EventQueue::~EventQueue() {
  if (fd_ >= 0) ::close(fd_);
}

int EventQueue::open() {
  fd_ = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return fd_ < 0 ? errno : 0;
}

void EventQueue::push(const Event& event, bool once) {
  const std::lock_guard guard(lock_);
  if (once) {
    const auto equal = [&](const Event& e) { return e.subject == event.subject && e.type == event.type; };
    if (std::any_of(events_.begin(), events_.end(), equal)) return;
  }
  events_.push_back(event);
  const uint64_t one = 1;
  while (::write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

int EventQueue::take(Event& event) {
  for (;;) {
    uint64_t token = 0;
    if (::read(fd_, &token, sizeof token) < 0) return errno;
    const std::lock_guard guard(lock_);
    // Empty when the subject went away between the read and here.
    if (events_.empty()) continue;
    event = events_.front();
    events_.pop_front();
    if (event.reported != nullptr) ++*event.reported;
    return 0;
  }
}

bool EventQueue::has_unread() {
  const std::lock_guard guard(lock_);
  return !events_.empty();
}

void EventQueue::forget(const void* subject) {
  const std::lock_guard guard(lock_);
  const auto of_subject = [&](const Event& e) { return e.subject == subject; };
  const auto gone = std::remove_if(events_.begin(), events_.end(), of_subject);
  auto count = events_.end() - gone;
  events_.erase(gone, events_.end());
  while (count-- > 0 && take_token_at_once()) {
  }
}

// The descriptor may be a blocking one, and another thread may take the last token before us.
bool EventQueue::take_token_at_once() {
  uint64_t token = 0;
  iovec where{&token, sizeof token};
  const ssize_t got = ::preadv2(fd_, &where, 1, -1, RWF_NOWAIT);
  if (got >= 0 || errno == EAGAIN) return got > 0;
  // Kernels that know no such read of an eventfd.
  pollfd ready{fd_, POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1 && ::read(fd_, &token, sizeof token) > 0;
}

}  // namespace verbatim::verbs
