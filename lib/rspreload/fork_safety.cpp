// SPDX-License-Identifier: MIT
#include "lib/rspreload/fork_safety.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "lib/rspreload/descriptors.h"
#include "lib/rspreload/next.h"

namespace verbatim::rspreload {
namespace {

enum class State : unsigned char { kNone, kPlain, kListening, kActive, kPassive, kTurning };

std::array<std::atomic<State>, kDescriptors> states;
std::atomic<unsigned> used;  ///< how many are not kNone

State state_of(int descriptor) {
  if (used.load(std::memory_order_relaxed) == 0 || !is_possible(descriptor)) return State::kNone;
  return states[static_cast<size_t>(descriptor)].load(std::memory_order_acquire);
}

/// The state before.
State set(int descriptor, State state) {
  if (!is_possible(descriptor)) return State::kNone;
  const State before = states[static_cast<size_t>(descriptor)].exchange(state);
  if (before == State::kNone && state != State::kNone) used++;
  if (before != State::kNone && state == State::kNone) used--;
  return before;
}

void copy_option(int from, int to, int level, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  if (next().getsockopt(from, level, name, &value, &bytes) == 0 && value != 0)
    rsetsockopt(to, level, name, &value, bytes);
}

/// The descriptor means the socket over RDMA from now on; the kernel's connection ends.
void replace(int descriptor, int socket) {
  copy_option(descriptor, socket, SOL_SOCKET, SO_REUSEADDR);
  copy_option(descriptor, socket, IPPROTO_TCP, TCP_NODELAY);
  rfcntl(socket, F_SETFL, next().fcntl(descriptor, F_GETFL) & O_NONBLOCK);
  next().shutdown(descriptor, SHUT_RDWR);
  let_mean(descriptor, socket);
}

/// Listens at an address that another child may be using just now; false: it stays in use.
bool listen_at(int socket, const sockaddr_storage& address, socklen_t bytes) {
  constexpr int kTries = 10'000;
  constexpr timespec kPause{0, 1'000'000};
  for (int tries = 0; tries < kTries; ++tries) {
    if (rbind(socket, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 && rlisten(socket, 1) == 0)
      return true;
    if (errno != EADDRINUSE && errno != EADDRNOTAVAIL) return false;
    ::nanosleep(&kPause, nullptr);
  }
  return false;
}

/// The same with whatever address the peer came to.
void forget_address(sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = INADDR_ANY;
    return;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  v6.sin6_flowinfo = v6.sin6_scope_id = 0;
  v6.sin6_addr = in6addr_any;
}

int accept_over_rdma(int descriptor) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (next().getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return -1;
  forget_address(address);
  const int listening = rsocket(address.ss_family, SOCK_STREAM, 0);
  if (listening < 0) return -1;
  const uint32_t come = 0;
  const int accepted = listen_at(listening, address, bytes) &&
                               next().send(descriptor, &come, sizeof come, MSG_NOSIGNAL) == sizeof come
                           ? raccept(listening, nullptr, nullptr)
                           : -1;
  rclose(listening);
  return accepted;
}

int connect_over_rdma(int descriptor) {
  const int flags = next().fcntl(descriptor, F_GETFL);
  next().fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
  uint32_t come = 1;
  const ssize_t got = next().recv(descriptor, &come, sizeof come, MSG_PEEK | MSG_WAITALL);
  next().fcntl(descriptor, F_SETFL, flags);
  if (got != sizeof come || come != 0) return -1;
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (next().getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return -1;
  const int made = rsocket(peer.ss_family, SOCK_STREAM, 0);
  if (made < 0 || rconnect(made, reinterpret_cast<sockaddr*>(&peer), bytes) == 0) return made;
  rclose(made);
  return -1;
}

}  // namespace

bool is_fork_safety_wanted() {
  static const bool wanted = [] {
    const char* text = std::getenv("RDMAV_FORK_SAFE");
    return text != nullptr && std::atoi(text) != 0;
  }();
  return wanted;
}

void begin_as_plain(int descriptor) { set(descriptor, State::kPlain); }

void note_listening(int descriptor) {
  if (state_of(descriptor) == State::kPlain) set(descriptor, State::kListening);
}

void note_connecting(int descriptor) {
  if (state_of(descriptor) == State::kPlain) set(descriptor, State::kActive);
}

void note_accepted(int listening, int descriptor) {
  if (state_of(listening) == State::kListening) set(descriptor, State::kPassive);
}

void forget_plain(int descriptor) {
  if (state_of(descriptor) != State::kNone) set(descriptor, State::kNone);
}

void turn_over(int descriptor) {
  State state = state_of(descriptor);
  if (state < State::kActive || Inside::is_active()) return;
  std::atomic<State>& held = states[static_cast<size_t>(descriptor)];
  // One thread does it; others that want to send or receive wait for that.
  if (state == State::kTurning || !held.compare_exchange_strong(state, State::kTurning)) {
    held.wait(State::kTurning);
    return;
  }
  const Inside inside;
  const int error = errno;
  const int socket = state == State::kPassive ? accept_over_rdma(descriptor) : connect_over_rdma(descriptor);
  if (socket >= 0) replace(descriptor, socket);
  set(descriptor, State::kNone);
  held.notify_all();
  errno = error;
}

}  // namespace verbatim::rspreload
