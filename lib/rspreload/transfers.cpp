// SPDX-License-Identifier: MIT
// Data of the program's sockets.
#include <rdma/rsocket.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>

#include "lib/rspreload/descriptors.h"
#include "lib/rspreload/next.h"

using verbatim::rspreload::Inside;
using verbatim::rspreload::meaning_for_data;
using verbatim::rspreload::next;

namespace {

/// Through a buffer: the kernel does not know the socket.
ssize_t copy_file(int socket, int file, off_t* offset, size_t count) {
  constexpr size_t kAtOnce = 1 << 16;
  char bytes[kAtOnce];
  size_t done = 0;
  while (done < count) {
    const size_t wanted = std::min(count - done, kAtOnce);
    const ssize_t got =
        offset != nullptr ? pread(file, bytes, wanted, *offset) : next().read(file, bytes, wanted);
    if (got <= 0) return done > 0 ? static_cast<ssize_t>(done) : got;
    const ssize_t sent = rsend(socket, bytes, static_cast<size_t>(got), 0);
    const ssize_t taken = std::max<ssize_t>(sent, 0);
    if (offset != nullptr)
      *offset += taken;
    else if (taken < got)
      lseek(file, taken - got, SEEK_CUR);
    done += static_cast<size_t>(taken);
    if (taken < got) return done > 0 ? static_cast<ssize_t>(done) : sent;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

ssize_t recv(int descriptor, void* to, size_t bytes, int flags) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().recv(descriptor, to, bytes, flags);
  const Inside inside;
  return rrecv(socket, to, bytes, flags);
}

ssize_t recvfrom(int descriptor, void* to, size_t bytes, int flags, sockaddr* from, socklen_t* length) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().recvfrom(descriptor, to, bytes, flags, from, length);
  const Inside inside;
  return rrecvfrom(socket, to, bytes, flags, from, length);
}

ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().recvmsg(descriptor, message, flags);
  const Inside inside;
  return rrecvmsg(socket, message, flags);
}

ssize_t read(int descriptor, void* to, size_t bytes) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().read(descriptor, to, bytes);
  const Inside inside;
  return rread(socket, to, bytes);
}

ssize_t readv(int descriptor, const iovec* pieces, int count) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().readv(descriptor, pieces, count);
  const Inside inside;
  return rreadv(socket, pieces, count);
}

// What a compiler makes of these calls where it knows the size of the buffer. Too much is the C library's
// affair.
ssize_t __recv_chk(int descriptor, void* to, size_t bytes, size_t room, int flags) {
  if (bytes > room || meaning_for_data(descriptor) < 0)
    return next().recv_chk(descriptor, to, bytes, room, flags);
  return recv(descriptor, to, bytes, flags);
}

ssize_t __recvfrom_chk(int descriptor, void* to, size_t bytes, size_t room, int flags, sockaddr* from,
                       socklen_t* length) {
  if (bytes > room || meaning_for_data(descriptor) < 0)
    return next().recvfrom_chk(descriptor, to, bytes, room, flags, from, length);
  return recvfrom(descriptor, to, bytes, flags, from, length);
}

ssize_t __read_chk(int descriptor, void* to, size_t bytes, size_t room) {
  if (bytes > room || meaning_for_data(descriptor) < 0) return next().read_chk(descriptor, to, bytes, room);
  return read(descriptor, to, bytes);
}

ssize_t send(int descriptor, const void* from, size_t bytes, int flags) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().send(descriptor, from, bytes, flags);
  const Inside inside;
  return rsend(socket, from, bytes, flags);
}

ssize_t sendto(int descriptor, const void* from, size_t bytes, int flags, const sockaddr* to,
               socklen_t length) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().sendto(descriptor, from, bytes, flags, to, length);
  const Inside inside;
  return rsendto(socket, from, bytes, flags, to, length);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().sendmsg(descriptor, message, flags);
  const Inside inside;
  return rsendmsg(socket, message, flags);
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().write(descriptor, from, bytes);
  const Inside inside;
  return rwrite(socket, from, bytes);
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().writev(descriptor, pieces, count);
  const Inside inside;
  return rwritev(socket, pieces, count);
}

ssize_t sendfile(int descriptor, int file, off_t* offset, size_t count) {
  const int socket = meaning_for_data(descriptor);
  if (socket < 0) return next().sendfile(descriptor, file, offset, count);
  const Inside inside;
  return copy_file(socket, file, offset, count);
}

ssize_t sendfile64(int descriptor, int file, off64_t* offset, size_t count) {
  return sendfile(descriptor, file, offset, count);
}

}  // extern "C"
