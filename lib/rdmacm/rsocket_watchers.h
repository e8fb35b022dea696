// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace verbatim::rdmacm {

/// Threads that wait in the kernel for news of a socket. One that uses the socket meanwhile may take away
/// what another is waiting for, and has to tell it: each has an eventfd for that, its bell. Thread safe.
class Watchers {
 public:
  void add(int bell);
  void remove(int bell);
  /// Rings the bells of all threads but this one. Cheap when nobody waits.
  void tell();

 private:
  std::atomic<uint32_t> count_{0};
  std::mutex lock_;
  std::vector<int> bells_;
};

/// This thread's bell, which doesn't block; -1: there is none, with errno set.
int bell_of_thread();
/// Makes a bell that has been rung silent.
void silence(int bell);

/// Watches one socket as long as it lives.
class Watch {
 public:
  explicit Watch(Watchers& watchers) : watchers_(watchers), bell_(bell_of_thread()) { watchers_.add(bell_); }
  ~Watch() { watchers_.remove(bell_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  int bell() const { return bell_; }

 private:
  Watchers& watchers_;
  const int bell_;
};

}  // namespace verbatim::rdmacm
