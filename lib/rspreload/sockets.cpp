// SPDX-License-Identifier: MIT
// Sockets of the program: which become ones over RDMA, and all that is not data.
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "lib/rspreload/descriptors.h"
#include "lib/rspreload/fork_safety.h"
#include "lib/rspreload/next.h"

using verbatim::rspreload::begin_as_plain;
using verbatim::rspreload::forget;
using verbatim::rspreload::forget_plain;
using verbatim::rspreload::Inside;
using verbatim::rspreload::is_fork_safety_wanted;
using verbatim::rspreload::let_mean;
using verbatim::rspreload::meaning_for_data;
using verbatim::rspreload::meaning_of;
using verbatim::rspreload::next;
using verbatim::rspreload::note_accepted;
using verbatim::rspreload::note_connecting;
using verbatim::rspreload::note_listening;

namespace {

constexpr uint16_t kNameService = 53;

bool is_wanted(int domain, int type) {
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  return !Inside::is_active() && (domain == AF_INET || domain == AF_INET6) && kind == SOCK_STREAM;
}

/// Sizes that the person who runs the program chose.
void set_sizes(int socket) {
  const struct {
    const char* variable;
    int option;
  } sizes[] = {{"RS_SQ_SIZE", RDMA_SQSIZE}, {"RS_RQ_SIZE", RDMA_RQSIZE}, {"RS_INLINE", RDMA_INLINE}};
  for (const auto& each : sizes) {
    const char* text = std::getenv(each.variable);
    const int value = text != nullptr ? std::atoi(text) : 0;
    if (value > 0) rsetsockopt(socket, SOL_RDMA, each.option, &value, sizeof value);
  }
}

/// A descriptor of the program's for a socket over RDMA. It is not the socket's own, which its library uses.
int offer(int socket, int flags) {
  const int descriptor = next().fcntl(socket, (flags & SOCK_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
  if (descriptor < 0) {
    const int error = errno;
    rclose(socket);
    errno = error;
    return -1;
  }
  let_mean(descriptor, socket);
  return descriptor;
}

/// Only the kernel's sockets lead to where this leads.
bool is_for_the_kernel(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port) == kNameService;
  return address->sa_family == AF_INET6 &&
         ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port) == kNameService;
}

/// Puts a socket of the kernel's in the place of one over RDMA that could not connect.
int fall_back(int descriptor, int socket, const sockaddr* address, socklen_t bytes) {
  const int flags = rfcntl(socket, F_GETFL);
  const int plain =
      next().socket(address->sa_family, SOCK_STREAM | ((flags & O_NONBLOCK) != 0 ? SOCK_NONBLOCK : 0), 0);
  if (plain < 0) return -1;
  if (forget(descriptor)) {
    const Inside inside;
    rclose(socket);
  }
  const int moved = next().dup2(plain, descriptor);
  next().close(plain);
  return moved < 0 ? -1 : next().connect(descriptor, address, bytes);
}

constexpr mode_t kModeOfSockets = S_IFSOCK | S_IRWXU | S_IRWXG | S_IRWXO;

/// How much can be read without waiting, as far as a look at it goes.
int count_readable(int socket, int& count) {
  constexpr size_t kMost = 1 << 16;
  char bytes[kMost];
  const ssize_t found = rrecv(socket, bytes, kMost, MSG_PEEK | MSG_DONTWAIT);
  if (found < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
  count = found > 0 ? static_cast<int>(found) : 0;
  return 0;
}

}  // namespace

// The library exports what its version script names.
#pragma GCC visibility push(default)

extern "C" {

int socket(int domain, int type, int protocol) {
  if (!is_wanted(domain, type)) return next().socket(domain, type, protocol);
  if (is_fork_safety_wanted()) {
    const int plain = next().socket(domain, type, protocol);
    if (plain >= 0) begin_as_plain(plain);
    return plain;
  }
  const Inside inside;
  const int made = rsocket(domain, type, protocol);
  if (made < 0) return next().socket(domain, type, protocol);
  set_sizes(made);
  return offer(made, type);
}

int bind(int descriptor, const sockaddr* address, socklen_t bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().bind(descriptor, address, bytes);
  const Inside inside;
  return rbind(socket, address, bytes);
}

int listen(int descriptor, int backlog) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) {
    const int result = next().listen(descriptor, backlog);
    if (result == 0) note_listening(descriptor);
    return result;
  }
  const Inside inside;
  return rlisten(socket, backlog);
}

int accept4(int descriptor, sockaddr* address, socklen_t* bytes, int flags) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) {
    const int plain = next().accept4(descriptor, address, bytes, flags);
    if (plain >= 0) note_accepted(descriptor, plain);
    return plain;
  }
  const Inside inside;
  const int accepted = raccept(socket, address, bytes);
  if (accepted < 0) return -1;
  rfcntl(accepted, F_SETFL, (flags & SOCK_NONBLOCK) != 0 ? O_NONBLOCK : 0);
  return offer(accepted, flags);
}

int accept(int descriptor, sockaddr* address, socklen_t* bytes) {
  return accept4(descriptor, address, bytes, 0);
}

int connect(int descriptor, const sockaddr* address, socklen_t bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) {
    if (!is_for_the_kernel(address)) note_connecting(descriptor);
    return next().connect(descriptor, address, bytes);
  }
  const Inside inside;
  if (is_for_the_kernel(address)) return fall_back(descriptor, socket, address, bytes);
  const int result = rconnect(socket, address, bytes);
  if (result == 0 || errno == EINPROGRESS || errno == EISCONN || errno == EINTR) return result;
  return fall_back(descriptor, socket, address, bytes);
}

int shutdown(int descriptor, int how) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().shutdown(descriptor, how);
  const Inside inside;
  return rshutdown(socket, how);
}

int close(int descriptor) {
  const int socket = meaning_of(descriptor);
  forget_plain(descriptor);
  if (socket < 0) return next().close(descriptor);
  const Inside inside;
  if (forget(descriptor)) rclose(socket);
  return next().close(descriptor);
}

int dup(int descriptor) {
  const int socket = meaning_for_data(descriptor);
  const int copy = next().dup(descriptor);
  if (socket >= 0 && copy >= 0) let_mean(copy, socket);
  return copy;
}

int dup2(int descriptor, int copy) {
  if (descriptor == copy) return next().dup2(descriptor, copy);
  const int socket = meaning_for_data(descriptor), replaced = meaning_of(copy);
  forget_plain(copy);
  const Inside inside;
  if (replaced >= 0 && forget(copy)) rclose(replaced);
  const int made = next().dup2(descriptor, copy);
  if (socket >= 0 && made >= 0) let_mean(made, socket);
  return made;
}

int getpeername(int descriptor, sockaddr* address, socklen_t* bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().getpeername(descriptor, address, bytes);
  const Inside inside;
  return rgetpeername(socket, address, bytes);
}

int getsockname(int descriptor, sockaddr* address, socklen_t* bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().getsockname(descriptor, address, bytes);
  const Inside inside;
  return rgetsockname(socket, address, bytes);
}

int getsockopt(int descriptor, int level, int name, void* value, socklen_t* bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().getsockopt(descriptor, level, name, value, bytes);
  const Inside inside;
  return rgetsockopt(socket, level, name, value, bytes);
}

int setsockopt(int descriptor, int level, int name, const void* value, socklen_t bytes) {
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().setsockopt(descriptor, level, name, value, bytes);
  const Inside inside;
  return rsetsockopt(socket, level, name, value, bytes);
}

int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  const int socket = copies ? meaning_for_data(descriptor) : meaning_of(descriptor);
  if (socket < 0) return next().fcntl(descriptor, command, argument);
  const Inside inside;
  if (copies) {
    const int copy = next().fcntl(descriptor, command, argument);
    if (copy >= 0) let_mean(copy, socket);
    return copy;
  }
  if (command == F_GETFD || command == F_SETFD) return next().fcntl(descriptor, command, argument);
  return rfcntl(socket, command, static_cast<int>(reinterpret_cast<intptr_t>(argument)));
}

int ioctl(int descriptor, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const int socket = meaning_of(descriptor);
  if (socket < 0) return next().ioctl(descriptor, request, argument);
  const Inside inside;
  switch (request) {
    case FIONBIO: {
      const int flags = rfcntl(socket, F_GETFL);
      const bool on = *static_cast<const int*>(argument) != 0;
      return rfcntl(socket, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
    }
    case FIONREAD:
      return count_readable(socket, *static_cast<int*>(argument));
    default:
      errno = ENOTTY;
      return -1;
  }
}

int fstat(int descriptor, struct stat* status) {
  const int result = next().fstat(descriptor, status);
  if (result == 0 && meaning_of(descriptor) >= 0) status->st_mode = kModeOfSockets;
  return result;
}

int fstat64(int descriptor, struct stat64* status) {
  const int result = next().fstat64(descriptor, status);
  if (result == 0 && meaning_of(descriptor) >= 0) status->st_mode = kModeOfSockets;
  return result;
}

int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(descriptor, command, argument);
}

}  // extern "C"
