// SPDX-License-Identifier: MIT
#include "agent/connection_service.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace verbatim::agent {

namespace {

constexpr uint16_t kAnyPort = 4791;  ///< nothing is sent to it

void set_interface_of_groups(int socket, uint16_t family, uint32_t interface) {
  const int index = static_cast<int>(interface);
  ip_mreqn by_index{};
  by_index.imr_ifindex = index;
  if (family == AF_INET)
    (void)setsockopt(socket, IPPROTO_IP, IP_MULTICAST_IF, &by_index, sizeof by_index);
  else
    (void)setsockopt(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index);
}

}  // namespace

ConnectionService::ConnectionService(const Directory& directory, const Clock& clock, wire::tap::Tap& tap,
                                     std::function<Outcome()> open_port)
    : directory_(directory),
      clock_(clock),
      open_port_(std::move(open_port)),
      services_(tap),
      tap_(tap),
      manager_(*this, *this, *this) {}

ConnectionService::~ConnectionService() {
  for (const auto& [key, bell] : bells_) close(bell);
}

uint32_t ConnectionService::open_client() {
  if (client_count_++ == 0 && manager_.deadline_ns() == kNever) reaches_out_ = false;
  return manager_.open_client();
}

void ConnectionService::close_client(uint32_t client) {
  manager_.close_client(client, clock_.now_ns());
  client_count_--;
  const auto first = bells_.lower_bound({client, 0}), last = bells_.lower_bound({client + 1, 0});
  for (auto each = first; each != last; ++each) close(each->second);
  bells_.erase(first, last);
  deliver();
}

cm::Answer ConnectionService::handle(uint32_t client, const cm::Request& request, int& file) {
  if (request.what == cm::Do::kOpenChannel && file < 0)
    return refusal(request, {EINVAL, "opening a channel takes an eventfd"});
  if (request.what == cm::Do::kConnect) {
    cm::Request query = request;
    query.what = cm::Do::kQuery;
    const cm::Answer known = manager_.handle(client, query, clock_.now_ns());
    if (known.error == 0 && reaches_out(known.view))
      if (const Outcome open = reach_out(); !open) return refusal(request, open.error());
  }
  const cm::Answer answer = manager_.handle(client, request, clock_.now_ns());
  if (answer.error == 0 && request.what == cm::Do::kOpenChannel) {
    bells_[{client, answer.channel}] = std::exchange(file, -1);
  } else if (answer.error == 0 && request.what == cm::Do::kCloseChannel) {
    const auto bell = bells_.find({client, request.channel});
    if (bell != bells_.end()) {
      close(bell->second);
      bells_.erase(bell);
    }
  } else if (answer.error == 0 && (request.what == cm::Do::kListen || request.what == cm::Do::kRestore) &&
             reaches_out(answer.view)) {
    (void)reach_out();  // this host may be all that it wants
  }
  deliver();
  return answer;
}

cm::Answer ConnectionService::refusal(const cm::Request& request, const Error& why) const {
  cm::Answer no{};
  no.serial = request.serial;
  no.id = request.id;
  no.channel = request.channel;
  no.error = why.code;
  std::strncpy(no.text, why.reason.c_str(), sizeof no.text - 1);
  return no;
}

// Whether an id with these addresses has to do with other hosts, or may have.
bool ConnectionService::reaches_out(const cm::View& view) const {
  if (view.destination.is_set()) return !is_local(view.destination.address);
  return view.source.is_set() && !view.source.is_loopback();
}

Outcome ConnectionService::reach_out() {
  reaches_out_ = true;
  return open_port_();
}

void ConnectionService::receive(int socket) {
  services_.receive(socket, [this](const cm::Arrival& arrival) {
    // What this host has to say to itself does not come this way.
    if (!is_local(arrival.local) || is_local(arrival.remote)) return;
    Datagram datagram{arrival.local, arrival.remote, {}};
    std::copy_n(arrival.mad.begin(), std::min(arrival.mad.size(), datagram.mad.size()), datagram.mad.begin());
    put_under_way(datagram, wire::tap::Direction::kIn);
  });
  deliver();
}

void ConnectionService::expect_returns() { manager_.expect_returns(clock_.now_ns()); }

void ConnectionService::step() {
  const uint64_t now = clock_.now_ns();
  if (deadline_ns() > now) return;
  tap_.release();
  for (const Datagram& each : held_.take_due(now)) under_way_.push_back(each);
  if (manager_.deadline_ns() <= now) manager_.step(now);
  deliver();
}

// What one datagram causes comes after it, not inside of it.
void ConnectionService::deliver() {
  while (!under_way_.empty()) {
    const Datagram next = under_way_.front();
    under_way_.pop_front();
    manager_.on_mad({next.local, next.remote, next.mad}, clock_.now_ns());
  }
}

void ConnectionService::send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) {
  if (!is_local(remote)) return services_.send(local, interface_of(local), remote, mad);
  Datagram datagram{remote, local, {}};  // as who gets it sees it
  std::copy_n(mad.begin(), std::min(mad.size(), datagram.mad.size()), datagram.mad.begin());
  put_under_way(datagram, wire::tap::Direction::kOut);
}

// Rules may lose it, double it or hold it back.
void ConnectionService::put_under_way(const Datagram& datagram, wire::tap::Direction direction) {
  wire::tap::Fate fate;
  if (direction == wire::tap::Direction::kOut ? tap_.injects_out() : tap_.injects_in()) {
    const auto opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnly);
    fate = tap_.fate({direction, opcode, roce::kGeneralServicesQpn, roce::kGeneralServicesQpn});
  }
  if (fate.drop || fate.corrupt) return;
  for (uint32_t copy = 0; copy < fate.copies; copy++) {
    if (direction == wire::tap::Direction::kOut)
      services_.note(datagram.remote, datagram.local, datagram.mad);
    if (fate.hold_ns == 0)
      under_way_.push_back(datagram);
    else
      held_.add(clock_.now_ns() + fate.hold_ns, fate.overtakers, datagram);
  }
  if (fate.hold_ns == 0) held_.note_passed(1);
}

// An eventfd that somebody has filled up would make this thread wait.
void ConnectionService::ring(uint32_t client, uint32_t channel) {
  const auto bell = bells_.find({client, channel});
  if (bell == bells_.end()) return;
  pollfd room{bell->second, POLLOUT, 0};
  if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell->second, &one, sizeof one);
}

bool ConnectionService::is_local(const Gid& gid) const {
  const uint32_t count = std::min(directory_.gid_count.load(), kGidsMax);
  return !gid.is_zero() && std::any_of(directory_.gids, directory_.gids + count,
                                       [&](const engine::GidEntry& entry) { return entry.gid == gid; });
}

uint32_t ConnectionService::interface_of(const Gid& gid) const {
  const uint32_t count = std::min(directory_.gid_count.load(), kGidsMax);
  const auto* end = directory_.gids + count;
  const auto* found =
      std::find_if(directory_.gids, end, [&](const engine::GidEntry& entry) { return entry.gid == gid; });
  return found == end ? 0 : found->interface_index;
}

std::optional<cm::LocalAddress> ConnectionService::find(const cm::SocketAddress& address) const {
  const uint32_t count = std::min(directory_.gid_count.load(), kGidsMax);
  for (uint32_t i = 0; i < count; i++) {
    const engine::GidEntry& entry = directory_.gids[i];
    if (!(entry.gid == address.address) || entry.type != GidType::kRoceV2) continue;
    if (address.is_link_local() && address.scope != 0 && address.scope != entry.interface_index) continue;
    return cm::LocalAddress{entry.gid, i, entry.interface_index, entry.mtu};
  }
  return std::nullopt;
}

// A datagram socket that is connected knows where it would send from.
Expected<cm::SocketAddress> ConnectionService::source_for(const cm::SocketAddress& destination,
                                                          const cm::SocketAddress& own,
                                                          uint32_t interface) const {
  const int asked = socket(destination.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (asked < 0) return Error{errno, "no socket to ask for a route with"};
  if (interface != 0 && destination.address.is_multicast())
    set_interface_of_groups(asked, destination.family, interface);
  cm::SocketAddress from = own, to = destination;
  from.port = 0;
  to.port = kAnyPort;
  sockaddr_storage address{};
  socklen_t length = cm::to_sockaddr(from, address);
  int error = 0;
  if (own.is_set() && bind(asked, reinterpret_cast<const sockaddr*>(&address), length) != 0) error = errno;
  length = cm::to_sockaddr(to, address);
  if (error == 0 && connect(asked, reinterpret_cast<const sockaddr*>(&address), length) != 0) error = errno;
  length = sizeof address;
  if (error == 0 && getsockname(asked, reinterpret_cast<sockaddr*>(&address), &length) != 0) error = errno;
  close(asked);
  if (error != 0) return Error{error, "no route to the address: " + std::string(std::strerror(error))};
  cm::SocketAddress source = cm::socket_address(reinterpret_cast<const sockaddr*>(&address), length);
  source.port = 0;
  return source;
}

bool ConnectionService::knows_way(const cm::SocketAddress& destination) {
  return is_local(destination.address) || destination.is_loopback() || neighbors_.is_known(destination);
}

cm::PortTable::Range ConnectionService::ports() const {
  cm::PortTable::Range range;
  std::FILE* file = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  if (!file) return range;
  unsigned first = 0, last = 0;
  if (std::fscanf(file, "%u %u", &first, &last) == 2 && first >= 1 && first <= last && last <= UINT16_MAX)
    range = {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
  std::fclose(file);
  return range;
}

// That of the first device.
uint64_t ConnectionService::guid() const {
  uint64_t guid = 0;
  for (size_t i = 8; i < 16; i++) guid = guid << 8 | directory_.gids[0].gid.bytes[i];
  return guid;
}

uint32_t ConnectionService::random() {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) value = static_cast<uint32_t>(clock_.now_ns());
  return value;
}

}  // namespace verbatim::agent
