// SPDX-License-Identifier: MIT
#include "agent/protocol.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace verbatim::agent {

namespace {

socklen_t fill_address(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  const size_t length = name.size() < sizeof address.sun_path - 1 ? name.size() : sizeof address.sun_path - 1;
  std::memcpy(address.sun_path + 1, name.data(), length);  // the leading zero makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace

bool send_record(int socket, const void* record, size_t bytes, const int* files, int count, bool wait) {
  iovec data{const_cast<void*>(record), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFilesMax)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * static_cast<size_t>(count));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<size_t>(count));
    std::memcpy(CMSG_DATA(header), files, sizeof(int) * static_cast<size_t>(count));
  }
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes);
}

Received receive_record(int socket, void* record, size_t bytes, int* files, int& count) {
  iovec data{record, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFilesMax)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  count = 0;
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) {
    const bool nothing = errno == EAGAIN || errno == EWOULDBLOCK;
    return nothing ? Received::kNothing : Received::kClosed;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t given = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < given; i++) {
      int file;
      std::memcpy(&file, CMSG_DATA(header) + i * sizeof(int), sizeof file);
      if (count < kFilesMax)
        files[count++] = file;
      else
        close(file);
    }
  }
  if (got == 0) return Received::kClosed;
  if (got != static_cast<ssize_t>(bytes) || (message.msg_flags & MSG_TRUNC)) return Received::kMalformed;
  return message.msg_flags & MSG_CTRUNC ? Received::kTruncated : Received::kRecord;
}

void close_files(int* files, int count) {
  for (int i = 0; i < count; i++) {
    if (files[i] >= 0) close(files[i]);
    files[i] = -1;
  }
}

std::string agent_name() {
  const char* set = std::getenv("VERBATIM_AGENT_SOCKET");
  return set && *set ? set : "verbatim/" + std::to_string(geteuid());
}

std::string slot_name(const std::string& agent, uint32_t slot) {
  return agent + "/slot/" + std::to_string(slot);
}

bool is_bound_to(int socket, const std::string& name) {
  sockaddr_un wanted, actual{};
  const socklen_t wanted_length = fill_address(name, wanted);
  socklen_t length = sizeof actual;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&actual), &length) == 0 && length == wanted_length &&
         std::memcmp(&wanted, &actual, length) == 0;
}

int bind_name(const std::string& name, int type) {
  const int made = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  sockaddr_un address;
  const socklen_t length = fill_address(name, address);
  if (bind(made, reinterpret_cast<sockaddr*>(&address), length) == 0) return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

int connect_name(const std::string& name, int timeout_ms) {
  const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const timeval wait{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  sockaddr_un address;
  const socklen_t length = fill_address(name, address);
  int connected;
  do connected = connect(made, reinterpret_cast<sockaddr*>(&address), length);
  while (connected != 0 && errno == EINTR);
  if (connected == 0) return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

}  // namespace verbatim::agent
