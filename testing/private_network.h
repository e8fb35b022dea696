// SPDX-License-Identifier: MIT
#pragma once

// A network of the test's own: an empty network namespace, in which interfaces may be changed.

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace verbatim::testing_support {

/// What the body returns when the machine does not let it do what it needs.
inline constexpr int kNotPermitted = 77;

/// Runs `body` in a child process within a network namespace of its own; it returns 0, or the number of the
/// step that failed. Skips the test where no such namespace may be made.
template <class Body>
void run_in_private_network(Body body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool moved = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    ::_exit(moved ? body() : kNotPermitted);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPermitted) GTEST_SKIP() << "no network namespace may be made here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "step that failed";
}

/// Sets an interface's flags and, unless nullptr, the four bytes of its IPv4 address.
inline bool set_interface(const char* name, short flags, const uint8_t* address) {
  const int made = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  bool done = true;
  if (address != nullptr) {
    auto* wanted = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    wanted->sin_family = AF_INET;
    std::memcpy(&wanted->sin_addr, address, 4);
    done = ::ioctl(made, SIOCSIFADDR, &request) == 0;
  }
  request.ifr_flags = flags;
  done = done && ::ioctl(made, SIOCSIFFLAGS, &request) == 0;
  ::close(made);
  return done;
}

}  // namespace verbatim::testing_support
