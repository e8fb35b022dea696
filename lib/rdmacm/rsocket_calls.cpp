// SPDX-License-Identifier: MIT
// The interface of sockets over RDMA.
#include <cstdarg>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_socket.h"

namespace verbatim::rdmacm {
namespace {

/// Calls something of the socket with this descriptor.
template <class Result = int, class Call>
Result with(int descriptor, Call call) {
  const std::shared_ptr<Socket> socket = find_socket(descriptor);
  return socket == nullptr ? static_cast<Result>(fail(EBADF)) : static_cast<Result>(call(*socket));
}

/// No addresses may be given for no memory: sizes without pointers are the caller's mistake.
bool is_ancillary(const msghdr& message) {
  return message.msg_control != nullptr && message.msg_controllen > 0;
}

bool speaks(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB) return false;
  if (type == SOCK_STREAM) return protocol == 0 || protocol == IPPROTO_TCP;
  return type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rsocket(int domain, int type, int protocol) {
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (!speaks(domain, kind, protocol)) return fail(ENOTSUP);
  std::shared_ptr<Socket> socket =
      kind == SOCK_STREAM ? make_stream_socket(domain) : make_datagram_socket(domain);
  if (socket == nullptr) return -1;
  socket->descriptor_flags = (type & SOCK_CLOEXEC) != 0 ? FD_CLOEXEC : 0;
  socket->status_flags = (type & SOCK_NONBLOCK) != 0 ? O_NONBLOCK : 0;
  const int descriptor = socket->descriptor();
  add_socket(std::move(socket));
  return descriptor;
}

int rbind(int socket, const sockaddr* addr, socklen_t addrlen) {
  return with(socket, [&](Socket& own) { return own.bind(addr, addrlen); });
}

int rlisten(int socket, int backlog) {
  return with(socket, [&](Socket& own) { return own.listen(backlog); });
}

int raccept(int socket, sockaddr* addr, socklen_t* addrlen) {
  return with(socket, [&](Socket& own) {
    std::shared_ptr<Socket> accepted = own.accept();
    if (accepted == nullptr) return -1;
    if (addr != nullptr && addrlen != nullptr) accepted->peer_name(addr, addrlen);
    const int descriptor = accepted->descriptor();
    add_socket(std::move(accepted));
    return descriptor;
  });
}

int rconnect(int socket, const sockaddr* addr, socklen_t addrlen) {
  return with(socket, [&](Socket& own) { return own.connect(addr, addrlen); });
}

int rshutdown(int socket, int how) {
  return with(socket, [&](Socket& own) { return own.shutdown(how); });
}

int rclose(int socket) {
  const std::shared_ptr<Socket> own = remove_socket(socket);
  if (own == nullptr) return fail(EBADF);
  own->close();
  return 0;
}

ssize_t rrecvfrom(int socket, void* buf, size_t len, int flags, sockaddr* src_addr, socklen_t* addrlen) {
  const iovec piece{buf, len};
  return with<ssize_t>(socket, [&](Socket& own) { return own.receive(&piece, 1, flags, src_addr, addrlen); });
}

ssize_t rrecv(int socket, void* buf, size_t len, int flags) {
  return rrecvfrom(socket, buf, len, flags, nullptr, nullptr);
}

ssize_t rread(int socket, void* buf, size_t count) { return rrecv(socket, buf, count, 0); }

ssize_t rreadv(int socket, const iovec* iov, int iovcnt) {
  return with<ssize_t>(socket, [&](Socket& own) { return own.receive(iov, iovcnt, 0, nullptr, nullptr); });
}

ssize_t rrecvmsg(int socket, msghdr* msg, int flags) {
  if (is_ancillary(*msg)) return fail(ENOTSUP);
  msg->msg_controllen = 0;
  msg->msg_flags = 0;
  auto* from = static_cast<sockaddr*>(msg->msg_name);
  const int count = static_cast<int>(msg->msg_iovlen);
  return with<ssize_t>(
      socket, [&](Socket& own) { return own.receive(msg->msg_iov, count, flags, from, &msg->msg_namelen); });
}

ssize_t rsendto(int socket, const void* buf, size_t len, int flags, const sockaddr* dest_addr,
                socklen_t addrlen) {
  const iovec piece{const_cast<void*>(buf), len};
  return with<ssize_t>(socket, [&](Socket& own) { return own.send(&piece, 1, flags, dest_addr, addrlen); });
}

ssize_t rsend(int socket, const void* buf, size_t len, int flags) {
  return rsendto(socket, buf, len, flags, nullptr, 0);
}

ssize_t rwrite(int socket, const void* buf, size_t count) { return rsend(socket, buf, count, 0); }

ssize_t rwritev(int socket, const iovec* iov, int iovcnt) {
  return with<ssize_t>(socket, [&](Socket& own) { return own.send(iov, iovcnt, 0, nullptr, 0); });
}

ssize_t rsendmsg(int socket, const msghdr* msg, int flags) {
  if (is_ancillary(*msg)) return fail(ENOTSUP);
  const auto* to = static_cast<const sockaddr*>(msg->msg_name);
  const int count = static_cast<int>(msg->msg_iovlen);
  const socklen_t bytes = to != nullptr ? msg->msg_namelen : 0;
  return with<ssize_t>(socket, [&](Socket& own) { return own.send(msg->msg_iov, count, flags, to, bytes); });
}

int rgetpeername(int socket, sockaddr* addr, socklen_t* addrlen) {
  return with(socket, [&](Socket& own) { return own.peer_name(addr, addrlen); });
}

int rgetsockname(int socket, sockaddr* addr, socklen_t* addrlen) {
  return with(socket, [&](Socket& own) { return own.own_name(addr, addrlen); });
}

int rsetsockopt(int socket, int level, int optname, const void* optval, socklen_t optlen) {
  return with(socket, [&](Socket& own) { return own.set_option(level, optname, optval, optlen); });
}

int rgetsockopt(int socket, int level, int optname, void* optval, socklen_t* optlen) {
  return with(socket, [&](Socket& own) { return own.get_option(level, optname, optval, optlen); });
}

int rfcntl(int socket, int cmd, ...) {
  va_list arguments;
  va_start(arguments, cmd);
  const int value = cmd == F_SETFL || cmd == F_SETFD ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return with(socket, [&](Socket& own) {
    switch (cmd) {
      case F_GETFL:
        return own.status_flags.load();
      case F_SETFL:
        own.status_flags = value;
        return 0;
      case F_GETFD:
        return own.descriptor_flags.load();
      case F_SETFD:
        own.descriptor_flags = value;
        return 0;
      default:
        return fail(ENOTSUP);
    }
  });
}

off_t riomap(int socket, void* buf, size_t len, int prot, int /*flags*/, off_t offset) {
  return with<off_t>(socket, [&](Socket& own) { return own.map(buf, len, prot, offset); });
}

int riounmap(int socket, void* buf, size_t len) {
  return with(socket, [&](Socket& own) { return own.unmap(buf, len); });
}

size_t riowrite(int socket, const void* buf, size_t count, off_t offset, int flags) {
  return with<size_t>(socket, [&](Socket& own) { return own.write_to_mapping(buf, count, offset, flags); });
}

}  // extern "C"
