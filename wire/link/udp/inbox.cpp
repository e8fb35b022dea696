// SPDX-License-Identifier: MIT
#include "wire/link/udp/inbox.h"

#include <algorithm>
#include <cstring>

#include "wire/link/udp/port_socket.h"

namespace verbatim::wire::udp {

namespace {

constexpr int kUdpGro = 104;  // linux/udp.h clashes with netinet/udp.h
constexpr size_t kLargeBytes = 16 << 10;
constexpr uint32_t kLargeMessages = 2;

template <class T>
T value_of(const cmsghdr* control) {
  T value{};
  std::memcpy(&value, CMSG_DATA(control), std::min(sizeof value, control->cmsg_len - CMSG_LEN(0)));
  return value;
}

}  // namespace

Inbox::Inbox() : bytes_(new uint8_t[kBytes * kMessages]) {  // pages that nothing fills stay untouched
  for (uint32_t i = 0; i < kMessages; i++) {
    vectors_[i] = {bytes_.get() + i * kBytes, kBytes};
    msghdr& message = messages_[i].msg_hdr;
    message = {};
    message.msg_name = &from_[i];
    message.msg_iov = &vectors_[i];
    message.msg_iovlen = 1;
    message.msg_control = controls_[i].bytes;
  }
}

// Of large ones few at a time: they are in the cache still when they are dealt with, and what is sent for
// them does not wait for all. Where one comes at a time, as questions and answers do, the kernel is not asked
// whether there is another.
uint32_t Inbox::receive(int socket, bool& more) {
  for (uint32_t i = 0; i < filled_; i++) {
    messages_[i].msg_hdr.msg_namelen = sizeof from_[i];
    messages_[i].msg_hdr.msg_controllen = kControlBytes;
  }
  const int count = recvmmsg(socket, messages_.data(), most_, MSG_DONTWAIT, nullptr);
  filled_ = count > 0 ? static_cast<uint32_t>(count) : 0;
  more = filled_ == most_ && most_ > 1;
  if (filled_ > 0)
    most_ = messages_[0].msg_len > kLargeBytes ? kLargeMessages : filled_ == 1 && vain_ ? 1 : kMessages;
  vain_ = filled_ == 0;
  return filled_;
}

bool Inbox::read(uint32_t index, Arrival& arrival) const {
  const mmsghdr& got = messages_[index];
  if (got.msg_hdr.msg_flags & MSG_TRUNC || got.msg_hdr.msg_namelen < sizeof(sockaddr_in6)) return false;
  arrival.source = gid_of(from_[index].sin6_addr);
  arrival.source_port = ntohs(from_[index].sin6_port);
  arrival.bytes = {bytes_.get() + index * kBytes, got.msg_len};
  arrival.packet_bytes = got.msg_len;
  bool addressed = false;
  msghdr header = got.msg_hdr;
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at; at = CMSG_NXTHDR(&header, at)) {
    const int kind = at->cmsg_type;
    if (at->cmsg_level == IPPROTO_IPV6 && kind == IPV6_PKTINFO) {
      const auto info = value_of<in6_pktinfo>(at);
      arrival.destination = gid_of(info.ipi6_addr);
      arrival.interface = info.ipi6_ifindex;
      addressed = true;
    } else if (at->cmsg_level == IPPROTO_IP && kind == IP_TOS) {
      arrival.traffic_class = value_of<uint8_t>(at);
    } else if (at->cmsg_level == IPPROTO_IPV6 && kind == IPV6_TCLASS) {
      arrival.traffic_class = static_cast<uint8_t>(value_of<int>(at));
    } else if ((at->cmsg_level == IPPROTO_IP && kind == IP_TTL) ||
               (at->cmsg_level == IPPROTO_IPV6 && kind == IPV6_HOPLIMIT)) {
      arrival.hop_limit = static_cast<uint8_t>(value_of<int>(at));
    } else if (at->cmsg_level == IPPROTO_UDP && kind == kUdpGro) {
      arrival.packet_bytes = static_cast<size_t>(std::max(value_of<int>(at), 1));
    }
  }
  return addressed;
}

}  // namespace verbatim::wire::udp
