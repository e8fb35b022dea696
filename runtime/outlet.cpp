// SPDX-License-Identifier: MIT
#include "runtime/outlet.h"

#include <linux/if_packet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "engine/frame_checksums.h"

namespace verbatim::runtime {

namespace {

constexpr uint32_t kAddressBytes = 12, kTagBytes = 4;
constexpr uint16_t kCustomerVlan = 0x8100;

bool is_socket(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// The kernel takes tags out of frames that come in.
uint32_t put_tag_back(uint8_t* frame, uint32_t bytes, const tpacket_auxdata& told) {
  const uint16_t kind = (told.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? told.tp_vlan_tpid : kCustomerVlan;
  uint8_t* at = frame + kAddressBytes;
  std::memmove(at + kTagBytes, at, bytes - kAddressBytes);
  const uint8_t tag[kTagBytes] = {static_cast<uint8_t>(kind >> 8), static_cast<uint8_t>(kind),
                                  static_cast<uint8_t>(told.tp_vlan_tci >> 8),
                                  static_cast<uint8_t>(told.tp_vlan_tci)};
  std::memcpy(at, tag, kTagBytes);
  return bytes + kTagBytes;
}

}  // namespace

Outlet::Outlet(int file, engine::Engine& engine)
    : file_(file), stop_(eventfd(0, EFD_CLOEXEC)), is_socket_(is_socket(file)), engine_(engine) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // runs() says so
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Outlet::~Outlet() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
  }
  close(stop_);
  close(file_);
}

void Outlet::abandon() {
  if (thread_.joinable()) thread_.detach();
  close(stop_);
  close(file_);
}

bool Outlet::send(const wire::Piece* pieces, uint32_t count) {
  iovec vector[wire::kPiecesMax];
  const uint32_t used = std::min(count, wire::kPiecesMax);
  for (uint32_t i = 0; i < used; i++) vector[i] = {pieces[i].base, pieces[i].length};
  return writev(file_, vector, static_cast<int>(used)) >= 0 || errno != EFAULT;
}

uint32_t Outlet::read(uint8_t* frame) {
  if (is_socket_) return read_packet(frame);
  const ssize_t bytes = ::read(file_, frame, engine::kFrameBytesMax);
  return bytes > 0 ? static_cast<uint32_t>(bytes) : 0;
}

uint32_t Outlet::read_packet(uint8_t* frame) {
  iovec all{frame, engine::kFrameBytesMax - kTagBytes};
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(tpacket_auxdata))];
  msghdr message{};
  message.msg_iov = &all;
  message.msg_iovlen = 1;
  message.msg_control = beside;
  message.msg_controllen = sizeof beside;
  const ssize_t got = recvmsg(file_, &message, 0);
  // Longer ones are several frames that the kernel has joined, and would have to be cut again.
  if (got <= 0 || (message.msg_flags & MSG_TRUNC) != 0) return 0;
  auto bytes = static_cast<uint32_t>(got);
  if (bytes < engine::kFrameBytesMin) return 0;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_PACKET || head->cmsg_type != PACKET_AUXDATA) return bytes;
  tpacket_auxdata told;
  std::memcpy(&told, CMSG_DATA(head), sizeof told);
  if ((told.tp_status & TP_STATUS_CSUMNOTREADY) != 0)
    engine::write_checksums(frame, bytes, engine::kTransportChecksum);
  if ((told.tp_status & TP_STATUS_VLAN_VALID) != 0) bytes = put_tag_back(frame, bytes, told);
  return bytes;
}

void Outlet::run() {
  pthread_setname_np(pthread_self(), "verbatim frames");
  uint8_t frame[engine::kFrameBytesMax];
  for (;;) {
    pollfd watched[] = {{file_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(watched, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (watched[1].revents != 0) return;
    // A socket tells once that its interface has gone down, and waits for it to come back; a TAP device that
    // is gone does not.
    const int events = watched[0].revents & (is_socket_ ? POLLIN | POLLERR : POLLIN);
    if (events == 0) return;
    if (const uint32_t bytes = read(frame)) engine_.take_outside_frame(frame, bytes);
  }
}

}  // namespace verbatim::runtime
