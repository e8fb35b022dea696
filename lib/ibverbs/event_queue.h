// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace verbatim::verbs {

/// An event that waits to be read.
struct Event {
  void* subject = nullptr;       ///< object it is about; nullptr: the port or the device
  uint32_t* reported = nullptr;  ///< counts the events of the subject that were read; may be nullptr
  int type = 0;                  ///< ibv_event_type; unused for completions
};

/// Events behind a file descriptor that a program may poll, block on or make non-blocking: an eventfd that
/// counts the unread ones, and a queue that says what they are. Thread safe.
class EventQueue {
 public:
  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// Makes the descriptor. Returns 0 or an errno value.
  int open();
  int fd() const { return fd_; }

  /// Adds an event. Never blocks. `once`: not if an equal one is unread.
  void push(const Event& event, bool once = false);
  /// Takes the oldest event, waiting for one unless the descriptor is non-blocking. Counts it in
  /// *event.reported. Returns 0 or an errno value (EAGAIN, EINTR).
  int take(Event& event);
  bool has_unread();
  /// Drops the unread events of a subject.
  void forget(const void* subject);

 private:
  bool take_token_at_once();

  std::mutex lock_;
  std::deque<Event> events_;
  int fd_ = -1;
};

}  // namespace verbatim::verbs
