// SPDX-License-Identifier: MIT
// Sockets that ask the kernel about RDMA devices, as the tool `rdma` does. Where there is a tree of devices
// such a socket is one between programs of this user (NETLINK_USERSOCK); what is sent over it is answered
// here and now, so that the answers wait in it as if they had come from the kernel.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tools/redirect/next.h"
#include "tools/redirect/paths.h"
#include "tools/redirect/rdma_answers.h"

using verbatim::redirect::answer;
using verbatim::redirect::concerns;
using verbatim::redirect::Deliver;
using verbatim::redirect::g_next;

namespace {

constexpr size_t kSocketsMax = 16;
/// Descriptors and 1; 0: free. A program has one such socket, if any.
std::atomic<int> g_sockets[kSocketsMax];
std::atomic<bool> g_any{false};

void remember(int file) {
  g_any.store(true, std::memory_order_release);
  for (std::atomic<int>& place : g_sockets)
    if (int free = 0; place.compare_exchange_strong(free, file + 1)) return;
}

/// The number may be another file's by now.
bool still_is(int file) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  return getsockopt(file, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == NETLINK_USERSOCK;
}

bool is_ours(int file) {
  if (!g_any.load(std::memory_order_acquire)) return false;
  for (std::atomic<int>& place : g_sockets) {
    int found = file + 1;
    if (place.load(std::memory_order_relaxed) != found) continue;
    if (still_is(file)) return true;
    place.compare_exchange_strong(found, 0);
  }
  return false;
}

/// Answers go from a socket of this library to the program's.
struct Sender : Deliver {
  int file;
  sockaddr_nl to;
};

void deliver(const Deliver& self, const nlmsghdr& message) {
  const auto& sender = static_cast<const Sender&>(self);
  g_next.sendto(sender.file, &message, message.nlmsg_len, MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&sender.to), sizeof sender.to);
}

/// The address of the program's socket, which has one at the latest when it sends.
sockaddr_nl address_of(int file) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  socklen_t size = sizeof address;
  for (int attempt = 0; attempt < 2; attempt++) {
    if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.nl_pid != 0) break;
    const sockaddr_nl any{AF_NETLINK, 0, 0, 0};
    bind(file, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  return address;
}

ssize_t take(int file, const char* data, size_t bytes) {
  Sender sender{};
  sender.call = deliver;
  sender.to = address_of(file);
  sender.file = g_next.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
  if (sender.file < 0) return -1;
  for (size_t at = 0; bytes - at >= NLMSG_HDRLEN;) {
    alignas(nlmsghdr) char copy[512] = {};
    nlmsghdr header;
    std::memcpy(&header, data + at, sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > bytes - at || header.nlmsg_len > sizeof copy)
      break;
    std::memcpy(copy, data + at, header.nlmsg_len);
    if ((header.nlmsg_flags & NLM_F_REQUEST) != 0) answer(*reinterpret_cast<const nlmsghdr*>(copy), sender);
    at += NLMSG_ALIGN(header.nlmsg_len);
    if (at > bytes) break;
  }
  close(sender.file);
  return static_cast<ssize_t>(bytes);
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  const bool asks = domain == AF_NETLINK && protocol == NETLINK_RDMA && concerns("/sys/class/infiniband");
  if (!asks) return g_next.socket(domain, type, protocol);
  const int file = g_next.socket(domain, type, NETLINK_USERSOCK);
  if (file >= 0) remember(file);
  return file;
}

ssize_t sendto(int file, const void* data, size_t bytes, int flags, const sockaddr* to, socklen_t size) {
  if (is_ours(file)) return take(file, static_cast<const char*>(data), bytes);
  return g_next.sendto(file, data, bytes, flags, to, size);
}
ssize_t send(int file, const void* data, size_t bytes, int flags) {
  return sendto(file, data, bytes, flags, nullptr, 0);
}
ssize_t sendmsg(int file, const msghdr* message, int flags) {
  if (!is_ours(file) || message->msg_iovlen != 1) return g_next.sendmsg(file, message, flags);
  return take(file, static_cast<const char*>(message->msg_iov->iov_base), message->msg_iov->iov_len);
}

}  // extern "C"

#pragma GCC visibility pop
