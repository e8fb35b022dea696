// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::rspreload {

inline constexpr int kDescriptors = 1 << 16;
inline bool is_possible(int descriptor) { return descriptor >= 0 && descriptor < kDescriptors; }

/// While one lives, the calls of this thread are not replaced: what the library of sockets over RDMA itself
/// calls.
class Inside {
 public:
  Inside() { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool is_active() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

/// The socket over RDMA that a descriptor of the program's means; -1: none. Several may mean the same one.
int meaning_of(int descriptor);
/// The same for a descriptor that data goes through, which may become a socket over RDMA with that.
int meaning_for_data(int descriptor);
/// The descriptor means this socket from now on.
void let_mean(int descriptor, int socket);
/// The descriptor means nothing any more. True: it was the last one for its socket.
bool forget(int descriptor);
/// How many descriptors mean some socket; 0 is the common case in other programs.
uint32_t count_of_descriptors();

}  // namespace verbatim::rspreload
