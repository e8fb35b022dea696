// SPDX-License-Identifier: MIT
#include "agent/wire_ports.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/protocol.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::agent {

namespace {

constexpr uint64_t kReturnNs = 1'000'000'000;  ///< in which processes notice that they have a new agent
constexpr uint64_t kRetryNs = 1'000'000'000;

}  // namespace

WirePorts::WirePorts(std::string name, Directory& directory, std::function<void(int)> arrived)
    : name_(std::move(name)), directory_(directory), arrived_(std::move(arrived)) {}

WirePorts::~WirePorts() {
  if (own_ >= 0) close(own_);
  for (const Member& member : members_) close(member.socket);
  for (const auto& [number, member] : returned_) close(member.socket);
  if (claim_ >= 0) close(claim_);
}

// Sockets of one user share the port whatever agent they are of, and two would steer against each other.
Outcome WirePorts::claim() {
  if (claim_ >= 0) return Done{};
  claim_ = bind_name("verbatim-port/" + std::to_string(geteuid()), SOCK_DGRAM);
  if (claim_ >= 0) return Done{};
  return Error{errno, "UDP port 4791 belongs to another agent of this user"};
}

WirePorts::Member* WirePorts::find(uint32_t slot) {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [slot](const Member& m) { return m.slot == slot; });
  return found == members_.end() ? nullptr : &*found;
}

Outcome WirePorts::open_own() {
  if (own_ >= 0) return Done{};
  Expected<int> opened = wire::udp::open_port_socket();
  if (!opened) return opened.error();
  own_ = *opened;
  own_number_++;
  return Done{};
}

void WirePorts::close_own() {
  drain();
  if (own_ >= 0) close(own_);
  own_ = -1;
}

Outcome WirePorts::expect(uint64_t now_ns) {
  expected_ = true;
  if (own_ >= 0) return Done{};
  if (now_ns < retry_at_ns_) return obstacle_;
  Outcome opened = claim();
  if (opened) opened = open_own();
  if (!opened) {
    retry_at_ns_ = now_ns + kRetryNs;
    obstacle_ = opened.error();
  } else if (settle_at_ns_ == 0) {
    steer();
  }
  return opened;
}

void WirePorts::expect_nothing() {
  if (!expected_) return;
  expected_ = false;
  if (members_.empty() && returned_.empty()) close_own();
  rest();
}

// Another agent may have the port now, if nobody here does.
void WirePorts::rest() {
  if (claim_ < 0 || own_ >= 0 || !members_.empty() || !returned_.empty()) return;
  close(claim_);
  claim_ = -1;
}

// The agent's socket, which is the last one, becomes the process's, and the agent opens another. What has
// come to it until then is still for the agent.
Expected<int> WirePorts::open(uint32_t slot, uint64_t now_ns) {
  settle(now_ns);
  if (settle_at_ns_ != 0) return Error{EAGAIN, "the agent has just been started again"};
  if (const Member* known = find(slot)) return known->socket;
  if (Outcome claimed = claim(); !claimed) return claimed.error();
  if (Outcome opened = open_own(); !opened) return opened.error();
  members_.push_back({slot, own_});
  const int given = own_;
  own_ = -1;
  (void)open_own();  // without one, what nobody has goes to anybody
  steer();
  arrived_(given);
  return given;
}

Outcome WirePorts::take_back(uint32_t slot, int socket, uint32_t number, uint64_t now_ns) {
  if (Outcome claimed = claim(); !claimed) return claimed;
  const bool here = std::any_of(returned_.begin(), returned_.end(),
                                [slot](const auto& each) { return each.second.slot == slot; });
  if (here || find(slot) || number >= wire::kSlotsMax) return Error{EINVAL, "no such socket"};
  returned_.push_back({number, {slot, socket}});
  if (settle_at_ns_ == 0) settle_at_ns_ = now_ns + kReturnNs;
  return Done{};
}

// Those that have come back keep their numbers. Where one is missing its process has ended meanwhile, and the
// last has got its number.
void WirePorts::settle(uint64_t now_ns) {
  if (settle_at_ns_ == 0 || now_ns < settle_at_ns_) return;
  settle_at_ns_ = 0;
  std::sort(returned_.begin(), returned_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t first = 0;
  while (first < returned_.size()) {
    const bool missing = returned_[first].first > members_.size();
    members_.push_back(missing ? returned_.back().second : returned_[first].second);
    missing ? returned_.pop_back() : static_cast<void>(first++);
  }
  returned_.clear();
  close_own();  // it may have got the number of one that was missing
  (void)open_own();
  steer();
}

// The sockets behind it move up as the kernel moves them: the agent's out of the way first, then the last
// into the gap.
void WirePorts::leave(uint32_t slot) {
  std::erase_if(returned_, [slot](const auto& each) {
    if (each.second.slot == slot) close(each.second.socket);
    return each.second.slot == slot;
  });
  Member* gone = find(slot);
  if (!gone) return;
  close_own();
  close(gone->socket);
  *gone = members_.back();
  members_.pop_back();
  if (!members_.empty() || expected_) (void)open_own();
  steer();
  rest();
}

void WirePorts::refresh(uint32_t slot) {
  if (find(slot)) steer();
}

// Where the kernel does not do it, packets come to anybody, who passes them on.
void WirePorts::steer() {
  std::vector<wire::udp::Route> routes;
  for (uint32_t number = 0; number < members_.size(); number++) {
    directory_.slots[members_[number].slot].wire_number = number;
    for (uint32_t slot = 1; slot < wire::kSlotsMax; slot++)
      if (directory_.slots[slot].generation != 0 && directory_.slots[slot].primary == members_[number].slot)
        routes.push_back({slot, number});
  }
  const auto others = static_cast<uint32_t>(members_.size());
  if (!members_.empty())
    (void)wire::udp::steer(members_[0].socket, wire::udp::steering_program(routes, others));
}

void WirePorts::drain() {
  if (own_ >= 0) arrived_(own_);
}

}  // namespace verbatim::agent
