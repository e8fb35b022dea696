// SPDX-License-Identifier: MIT
// Datagram sockets.
#include "lib/rdmacm/rsocket_datagram.h"

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_defaults.h"
#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {
namespace {

/// What stands in front of what goes over UDP: the sender's queue pair. `what` tells whether data follows.
struct UdpHeader {
  static constexpr uint32_t kTag = 0x55555555;
  static constexpr uint8_t kData = 0, kNumberOnly = 7;
  uint32_t tag;
  uint8_t version, what, length, reserved;
  uint32_t qpn;
  uint8_t address[16];  ///< 4 bytes of it for IPv4
};
static_assert(sizeof(UdpHeader) == 28);

constexpr uint8_t udp_length(uint8_t version) { return version == 4 ? 16 : 28; }

Peer sender_of(const DatagramHeader& header) {
  Peer from;
  if (header.version == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(from.address);
    v4.sin_family = AF_INET;
    v4.sin_port = header.port;
    v4.sin_addr.s_addr = header.v4;
    from.bytes = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(from.address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = header.port;
    v6.sin6_flowinfo = header.v6.flow;
    std::memcpy(v6.sin6_addr.s6_addr, header.v6.address, sizeof header.v6.address);
    from.bytes = sizeof v6;
  }
  return from;
}

/// The local address that leads to a peer, with port 0.
bool source_for(const Peer& peer, Peer& source) {
  const int probe = ::socket(peer.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  source.bytes = sizeof source.address;
  const bool found = probe >= 0 && ::connect(probe, peer.get(), peer.bytes) == 0 &&
                     ::getsockname(probe, source.get(), &source.bytes) == 0;
  const int error = errno;
  if (probe >= 0) ::close(probe);
  errno = error;
  return found;
}

void set_port(Peer& address, __be16 port) {
  if (address.get()->sa_family == AF_INET)
    reinterpret_cast<sockaddr_in&>(address.address).sin_port = port;
  else
    reinterpret_cast<sockaddr_in6&>(address.address).sin6_port = port;
}

}  // namespace

Peer::Peer(const sockaddr* from, socklen_t length) : bytes(std::min<socklen_t>(length, sizeof address)) {
  std::memcpy(&address, from, bytes);
}

bool Peer::operator<(const Peer& other) const {
  return bytes != other.bytes ? bytes < other.bytes : std::memcmp(&address, &other.address, bytes) < 0;
}

DatagramSocket::DatagramSocket(int udp, int all, int domain) : udp_(udp), all_(all), domain_(domain) {
  epoll_event event{EPOLLIN, {.ptr = nullptr}};
  ::epoll_ctl(all_, EPOLL_CTL_ADD, udp_, &event);
}

DatagramSocket::~DatagramSocket() {
  for (const auto& each : destinations_)
    if (each.second.way != nullptr) ibv_destroy_ah(each.second.way);
  ports_.clear();
  ::close(all_);
  ::close(udp_);
}

int DatagramSocket::bind(const sockaddr* address, socklen_t bytes) { return ::bind(udp_, address, bytes); }

int DatagramSocket::listen(int /*backlog*/) { return fail(EOPNOTSUPP); }

std::shared_ptr<Socket> DatagramSocket::accept() { return fail_pointer(EOPNOTSUPP); }

bool DatagramSocket::has_name() {
  if (named_) return true;
  Peer own;
  own.bytes = sizeof own.address;
  if (::getsockname(udp_, own.get(), &own.bytes) != 0) return false;
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(domain_);
  auto* name = reinterpret_cast<sockaddr*>(&any);
  named_ = port_of(own.get()) != 0 || ::bind(udp_, name, length_of(name)) == 0;
  return named_;
}

DatagramPort* DatagramSocket::port_for(const Peer& peer) {
  Peer own, source;
  own.bytes = sizeof own.address;
  if (!has_name() || ::getsockname(udp_, own.get(), &own.bytes) != 0 || !source_for(peer, source))
    return nullptr;
  set_port(source, port_of(own.get()));
  auto found = ports_.find(source);
  if (found != ports_.end()) return found->second.get();
  auto port =
      DatagramPort::make(source, send_bytes_ / DatagramPort::kSlot, receive_bytes_ / DatagramPort::kSlot);
  if (port == nullptr) return nullptr;
  port->arm();
  epoll_event event{EPOLLIN, {.ptr = port.get()}};
  if (::epoll_ctl(all_, EPOLL_CTL_ADD, port->events()->fd, &event) != 0) return nullptr;
  return (ports_[source] = std::move(port)).get();
}

DatagramSocket::Destination* DatagramSocket::destination(const Peer& peer) {
  const auto found = destinations_.find(peer);
  if (found != destinations_.end()) return &found->second;
  DatagramPort* port = port_for(peer);
  if (port == nullptr) return nullptr;
  return &(destinations_[peer] = {port, nullptr, 0});
}

int DatagramSocket::connect(const sockaddr* address, socklen_t bytes) {
  const Lock lock(lock_);
  if (length_of(address) == 0 || bytes < length_of(address)) return fail(EINVAL);
  const Peer peer(address, length_of(address));
  if (::connect(udp_, address, bytes) != 0 || destination(peer) == nullptr) return -1;
  connected_ = peer;
  return 0;
}

ssize_t DatagramSocket::send_udp(const Destination& to, const Peer& peer, const iovec* pieces, int count,
                                 uint8_t what) {
  const DatagramHeader& own = to.port->header();
  UdpHeader header{htonl(UdpHeader::kTag), own.version, what, udp_length(own.version), 0,
                   htonl(to.port->qpn()),  {}};
  if (own.version == 4)
    std::memcpy(header.address, &own.v4, sizeof own.v4);
  else
    std::memcpy(header.address, own.v6.address, sizeof own.v6.address);
  std::vector<iovec> all{{&header, header.length}};
  all.insert(all.end(), pieces, pieces + count);
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(peer.get());
  message.msg_namelen = peer.bytes;
  message.msg_iov = all.data();
  message.msg_iovlen = all.size();
  const ssize_t sent = ::sendmsg(udp_, &message, MSG_NOSIGNAL);
  return sent < 0 ? sent : sent - header.length;
}

void DatagramSocket::take_udp(const uint8_t* bytes, size_t count, const Peer& from) {
  UdpHeader header{};
  std::memcpy(&header, bytes, std::min(count, sizeof header));
  const uint8_t version = from.get()->sa_family == AF_INET ? 4 : 6;
  if (count < udp_length(version) || ntohl(header.tag) != UdpHeader::kTag || header.version != version ||
      header.length != udp_length(version))
    return;
  Destination* to = destination(from);
  if (to == nullptr) return;
  const uint32_t qpn = ntohl(header.qpn) & 0xffffff;
  if (header.what == UdpHeader::kData) {
    send_udp(*to, from, nullptr, 0, UdpHeader::kNumberOnly);
    if (waiting_.size() < waiting_max()) {
      Waiting datagram;
      datagram.bytes.assign(bytes + header.length, bytes + count);
      datagram.from = from;
      waiting_.push_back(std::move(datagram));
    }
  }
  if (to->way != nullptr && to->qpn == qpn) return;
  if (to->way != nullptr) ibv_destroy_ah(to->way);
  to->way = to->port->make_address(from);
  to->qpn = qpn;
}

void DatagramSocket::drain_udp() {
  uint8_t bytes[DatagramPort::kSlot];
  Peer from;
  for (;;) {
    from = {};
    from.bytes = sizeof from.address;
    const ssize_t count = ::recvfrom(udp_, bytes, sizeof bytes, MSG_DONTWAIT, from.get(), &from.bytes);
    if (count < 0) return;
    ++edges_;
    take_udp(bytes, static_cast<size_t>(count), from);
  }
}

void DatagramSocket::drain(Udp udp) {
  // A look at it is a system call, and little comes that way once the queue pairs are known.
  constexpr auto kBetweenLooks = std::chrono::microseconds(20);
  const auto now = std::chrono::steady_clock::now();
  if (udp == Udp::kLook || now >= looked_at_udp_ + kBetweenLooks) {
    looked_at_udp_ = now;
    drain_udp();
  }
  for (const auto& each : ports_) {
    DatagramPort::Arrival arrival;
    while (each.second->take(arrival)) {
      ++edges_;
      Waiting datagram;
      datagram.port = each.second.get();
      datagram.place = arrival;
      if (waiting_.size() < waiting_max())
        waiting_.push_back(std::move(datagram));
      else
        each.second->give_back(arrival.slot);
    }
  }
}

bool DatagramSocket::spin_until(Lock& lock, const std::function<bool()>& test) {
  return spin_.until([&] {
    lock.unlock();
    lock.lock();
    drain(Udp::kNowAndThen);
    return test();
  });
}

void DatagramSocket::take_news() {
  for (const auto& each : ports_) each.second->take_events();
  drain(Udp::kLook);
  watchers.tell();
}

int DatagramSocket::wait(Lock& lock, bool nonblocking, const std::function<bool()>& test) {
  drain(Udp::kNowAndThen);
  if (test()) return 0;
  if (nonblocking) return fail(EWOULDBLOCK);
  if (spin_until(lock, test)) return 0;
  const Watch watch(watchers);
  for (;;) {
    for (const auto& each : ports_) each.second->arm();
    drain(Udp::kNowAndThen);
    if (test()) return 0;
    lock.unlock();
    pollfd waits[2] = {{all_, POLLIN, 0}, {watch.bell(), POLLIN, 0}};
    const int woken = ::poll(waits, 2, -1);
    const int error = errno;
    lock.lock();
    if (woken > 0 && waits[1].revents != 0) silence(watch.bell());
    if (woken > 0 && waits[0].revents != 0) take_news();
    if (woken < 0) return fail(error);
  }
}

size_t DatagramSocket::hand_out(const Waiting& datagram, Gather& to, size_t bytes_max, sockaddr* from,
                                socklen_t* bytes) {
  const uint8_t* start = datagram.bytes.data();
  size_t count = datagram.bytes.size();
  Peer sender = datagram.from;
  if (datagram.port != nullptr) {
    start = datagram.port->bytes_of(datagram.place.slot);
    const auto& header = *reinterpret_cast<const DatagramHeader*>(start);
    sender = sender_of(header);
    start += header.length;
    count = datagram.place.bytes - header.length;
  }
  count = std::min(count, bytes_max);
  to.write(start, count);
  if (from != nullptr && bytes != nullptr) copy_name(sender.get(), from, bytes);
  return count;
}

ssize_t DatagramSocket::receive(const iovec* pieces, int count, int flags, sockaddr* from, socklen_t* bytes) {
  Lock lock(lock_);
  if (!has_name()) return -1;
  if (wait(lock, is_nonblocking(flags), [&] { return !waiting_.empty(); }) != 0) return -1;
  Gather to(pieces, count);
  const Waiting& datagram = waiting_.front();
  const size_t taken = hand_out(datagram, to, Gather::bytes_of(pieces, count), from, bytes);
  if ((flags & MSG_PEEK) != 0) return static_cast<ssize_t>(taken);
  if (datagram.port != nullptr) datagram.port->give_back(datagram.place.slot);
  waiting_.pop_front();
  return static_cast<ssize_t>(taken);
}

ssize_t DatagramSocket::send(const iovec* pieces, int count, int flags, const sockaddr* to, socklen_t bytes) {
  Lock lock(lock_);
  Peer peer = connected_;
  if (to != nullptr) {
    if (length_of(to) == 0 || bytes < length_of(to)) return fail(EINVAL);
    peer = Peer(to, length_of(to));
  }
  if (peer.bytes == 0) return fail(EDESTADDRREQ);
  drain(Udp::kNowAndThen);
  Destination* destined = destination(peer);
  if (destined == nullptr) return -1;
  if (destined->way == nullptr) return send_udp(*destined, peer, pieces, count, UdpHeader::kData);
  DatagramPort& port = *destined->port;
  if (!port.can_send() && wait(lock, is_nonblocking(flags), [&] { return port.can_send(); }) != 0) return -1;
  Gather from(pieces, count);
  const size_t whole = Gather::bytes_of(pieces, count);
  return port.send(destined->way, destined->qpn, from, whole) == 0 ? static_cast<ssize_t>(whole) : -1;
}

int DatagramSocket::shutdown(int /*how*/) { return fail(connected_.bytes == 0 ? ENOTCONN : EOPNOTSUPP); }

void DatagramSocket::close() {
  Lock lock(lock_);
  wait(lock, false, [&] {
    return std::all_of(ports_.begin(), ports_.end(),
                       [](const auto& each) { return each.second->all_sent(); });
  });
}

int DatagramSocket::own_name(sockaddr* address, socklen_t* bytes) {
  return ::getsockname(udp_, address, bytes);
}

int DatagramSocket::peer_name(sockaddr* address, socklen_t* bytes) {
  const Lock lock(lock_);
  if (connected_.bytes == 0) return fail(ENOTCONN);
  copy_name(connected_.get(), address, bytes);
  return 0;
}

int DatagramSocket::set_option(int level, int name, const void* value, socklen_t bytes) {
  const Lock lock(lock_);
  if (level == SOL_RDMA) return name <= RDMA_INLINE ? 0 : fail(ENOTSUP);
  return ::setsockopt(udp_, level, name, value, bytes);
}

int DatagramSocket::get_option(int level, int name, void* value, socklen_t* bytes) {
  const Lock lock(lock_);
  return level == SOL_RDMA ? fail(ENOTSUP) : ::getsockopt(udp_, level, name, value, bytes);
}

short DatagramSocket::ready(short events) {
  const Lock lock(lock_);
  drain(Udp::kNowAndThen);
  int found = 0;
  if ((events & POLLIN) != 0 && !waiting_.empty()) found |= POLLIN;
  const bool room =
      std::all_of(ports_.begin(), ports_.end(), [](const auto& each) { return each.second->can_send(); });
  if ((events & POLLOUT) != 0 && room) found |= POLLOUT;
  return static_cast<short>(found);
}

Socket::Waits DatagramSocket::prepare_to_wait() {
  const Lock lock(lock_);
  for (const auto& each : ports_) each.second->arm();
  return {{all_, -1}};
}

void DatagramSocket::woken() {
  const Lock lock(lock_);
  take_news();
}

off_t DatagramSocket::map(void* /*start*/, size_t /*bytes*/, int /*prot*/, off_t /*offset*/) {
  return fail(EINVAL);
}

int DatagramSocket::unmap(void* /*start*/, size_t /*bytes*/) { return fail(EINVAL); }

ssize_t DatagramSocket::write_to_mapping(const void* /*from*/, size_t /*bytes*/, off_t /*offset*/,
                                         int /*flags*/) {
  return fail(EINVAL);
}

std::shared_ptr<Socket> make_datagram_socket(int domain) {
  const int udp = ::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (udp < 0) return nullptr;
  const int all = ::epoll_create1(EPOLL_CLOEXEC);
  if (all >= 0) return std::make_shared<DatagramSocket>(udp, all, domain);
  const int error = errno;
  ::close(udp);
  return fail_pointer(error);
}

}  // namespace verbatim::rdmacm
