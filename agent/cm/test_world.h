// SPDX-License-Identifier: MIT
#pragma once

// Hosts with a connection manager each, a wire between them that loses what the test says, and one clock.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cm/manager.h"

namespace verbatim::agent::cm {

inline constexpr uint64_t kSecond = 1'000'000'000;

inline SocketAddress ip(const std::string& text, uint16_t port = 0) {
  SocketAddress address;
  address.port = port;
  address.family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (address.family == AF_INET6) {
    inet_pton(AF_INET6, text.c_str(), address.address.bytes.data());
  } else {
    address.address.bytes[10] = address.address.bytes[11] = 0xff;
    inet_pton(AF_INET, text.c_str(), &address.address.bytes[12]);
  }
  return address;
}

class World;

/// A machine with an agent's connection manager, which can be replaced by the next agent's.
class Machine final : public HostView, public MadWire, public Bell {
 public:
  Machine(World& world, std::vector<std::string> addresses, uint64_t guid)
      : world_(world), addresses_(std::move(addresses)), guid_(guid) {
    start();
  }
  void start() { manager = std::make_unique<Manager>(*this, *this, *this); }
  bool has(const Gid& gid) const {
    return std::any_of(addresses_.begin(), addresses_.end(),
                       [&](const std::string& each) { return ip(each).address == gid; });
  }
  std::optional<LocalAddress> find(const SocketAddress& address) const override {
    for (size_t i = 0; i < addresses_.size(); i++)
      if (ip(addresses_[i]).address == address.address)
        return LocalAddress{address.address, static_cast<uint32_t>(i), 1, mtu};
    return std::nullopt;
  }
  Expected<SocketAddress> source_for(const SocketAddress& destination, const SocketAddress&,
                                     uint32_t) const override {
    if (has(destination.address)) {
      SocketAddress same = destination;
      same.port = 0;
      return same;
    }
    for (const std::string& each : addresses_)
      if (const SocketAddress own = ip(each); own.family == destination.family && !own.is_loopback())
        return own;
    return Error{ENETUNREACH, "no route"};
  }
  bool knows_way(const SocketAddress& destination) override {
    return !silent || !(destination.address == *silent);
  }
  PortTable::Range ports() const override { return {}; }
  uint64_t guid() const override { return guid_; }
  uint32_t random() override { return random_ = random_ * 1664525 + 1013904223; }
  void send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) override;
  void ring(uint32_t, uint32_t) override { rung++; }

  std::unique_ptr<Manager> manager;
  int rung = 0;
  uint32_t mtu = 1500;
  std::optional<Gid> silent;  ///< does not say where it is

 private:
  World& world_;
  const std::vector<std::string> addresses_;
  const uint64_t guid_;
  uint32_t random_ = 7;
};

class World {
 public:
  /// What the wire does: false loses the message, by its name ("REQ") and how often that was sent before.
  std::function<bool(const std::string&, int)> passes = [](const std::string&, int) { return true; };
  /// How often a message arrives, and which of those under way is the next to.
  std::function<int()> copies = [] { return 1; };
  std::function<size_t(size_t)> next = [](size_t) { return size_t{0}; };
  std::function<void(const Arrival&)> sees;  ///< all that is sent, as it would arrive
  Machine a{*this, {"10.0.0.1", "fd00::1", "127.0.0.1", "::1", "10.77.0.2", "fd77::2"}, 0xa};
  Machine b{*this, {"10.0.0.2", "fd00::2", "10.77.0.3", "fd77::3"}, 0xb};
  uint64_t now_ns = kSecond;
  std::vector<std::string> sent;  ///< names, lost ones too

  void send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) {
    const auto message = roce::cm::Message::parse(mad);
    ASSERT_TRUE(message);
    const std::string name = roce::cm::name_of(message->body);
    const auto before = static_cast<int>(std::count(sent.begin(), sent.end(), name));
    sent.push_back(name);
    if (sees) sees({remote, local, mad});
    if (!passes(name, before)) return;
    for (int left = copies(); left > 0; left--)
      under_way_.push_back({local, remote, {mad.begin(), mad.end()}});
  }
  /// Everything that is under way arrives, and what that causes.
  void settle() {
    while (!under_way_.empty()) {
      const auto chosen = under_way_.begin() + static_cast<ptrdiff_t>(next(under_way_.size()));
      const Datagram arriving = *chosen;
      under_way_.erase(chosen);
      for (Machine* machine : {&a, &b})
        if (machine->has(arriving.to))
          machine->manager->on_mad({arriving.to, arriving.from, arriving.mad}, now_ns);
    }
  }
  /// Time passes, with all that falls due.
  void pass(uint64_t ns) {
    const uint64_t until = now_ns + ns;
    settle();
    for (;;) {
      const uint64_t next = std::min(a.manager->deadline_ns(), b.manager->deadline_ns());
      if (next > until) break;
      now_ns = std::max(now_ns, next);
      a.manager->step(now_ns);
      b.manager->step(now_ns);
      settle();
    }
    now_ns = until;
  }
  int count(const std::string& name) const {
    return static_cast<int>(std::count(sent.begin(), sent.end(), name));
  }

 private:
  struct Datagram {
    Gid from, to;
    std::vector<uint8_t> mad;
  };
  std::deque<Datagram> under_way_;
};

inline void Machine::send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) {
  world_.send(local, remote, mad);
}

/// A process with one channel.
class Program {
 public:
  Program(World& world, Machine& machine) : world_(world), machine_(machine) { start(); }
  void start() {
    client_ = machine_.manager->open_client();
    Request request{};
    request.what = Do::kOpenChannel;
    request.channel = channel_;
    channel_ = ask(request).channel;
  }
  Answer ask(Request request) {
    request.serial = ++serial_;
    Answer answer = machine_.manager->handle(client_, request, world_.now_ns);
    EXPECT_EQ(serial_, answer.serial);
    if (answer.testament.bytes != 0) testaments[answer.id] = answer.testament;
    return answer;
  }
  int error_of(const Request& request) { return ask(request).error; }
  Request on(uint32_t id, Do what) const {
    Request request{};
    request.what = what;
    request.id = id;
    request.channel = channel_;
    return request;
  }
  int run(uint32_t id, Do what) { return error_of(on(id, what)); }
  uint32_t create(uint16_t space, uint8_t type = IBV_QPT_RC) {
    Request request = on(0, Do::kCreateId);
    request.port_space = space;
    request.qp_type = type;
    request.context = 0x1000;
    return ask(request).id;
  }
  int bind(uint32_t id, const SocketAddress& address) {
    Request request = on(id, Do::kBindAddress);
    request.source = address;
    return error_of(request);
  }
  int listen(uint32_t id, const SocketAddress& address, int backlog = 0) {
    if (const int error = bind(id, address)) return error;
    Request request = on(id, Do::kListen);
    request.backlog = backlog;
    return error_of(request);
  }
  uint32_t listening(uint16_t space, const SocketAddress& address, int backlog = 0) {
    const uint32_t id = create(space);
    EXPECT_EQ(0, listen(id, address, backlog));
    return id;
  }
  /// An id with its route found; the two events are taken.
  uint32_t routed(uint16_t space, const SocketAddress& destination) {
    const uint32_t id = create(space);
    Request request = on(id, Do::kResolveAddress);
    request.destination = destination;
    EXPECT_EQ(0, error_of(request));
    EXPECT_EQ(RDMA_CM_EVENT_ADDR_RESOLVED, event().type);
    EXPECT_EQ(0, run(id, Do::kResolveRoute));
    EXPECT_EQ(RDMA_CM_EVENT_ROUTE_RESOLVED, event().type);
    return id;
  }
  int connect(uint32_t id, const std::string& data = "", uint32_t qpn = 0x100) {
    return error_of(with_parameters(on(id, Do::kConnect), data, qpn));
  }
  int accept(uint32_t id, const std::string& data = "", uint32_t qpn = 0x200) {
    Request request = with_parameters(on(id, Do::kAccept), data, qpn);
    request.context = 0x2000 + id;
    return error_of(request);
  }
  int reject(uint32_t id, const std::string& data) {
    return error_of(with_parameters(on(id, Do::kReject), data, 0));
  }
  /// The next event; type UINT32_MAX: there is none.
  Event event() {
    const Answer answer = ask(on(0, Do::kGetEvent));
    if (answer.error == EAGAIN) return Event{UINT32_MAX, 0, 0, 0, 0, 0, {}, {}, {}};
    EXPECT_EQ(0, answer.error);
    last_view = answer.view;
    return answer.event;
  }
  uint32_t type() { return event().type; }
  static std::string data_of(const Event& event) {
    return std::string(reinterpret_cast<const char*>(event.parameters.private_data));
  }
  void end() { machine_.manager->close_client(client_, world_.now_ns); }

  std::map<uint32_t, Testament> testaments;
  View last_view{};

 private:
  static Request with_parameters(Request request, const std::string& data, uint32_t qpn) {
    Parameters& to = request.parameters;
    to.valid = 1;
    to.qp_num = qpn;
    to.responder_resources = 4;
    to.initiator_depth = 3;
    to.retry_count = 6;
    to.rnr_retry_count = 5;
    to.private_data_bytes = static_cast<uint8_t>(data.size());
    std::copy(data.begin(), data.end(), to.private_data);
    return request;
  }
  World& world_;
  Machine& machine_;
  uint32_t client_ = 0, channel_ = 0, serial_ = 0;
};

inline constexpr uint32_t kNoEvent = UINT32_MAX;

}  // namespace verbatim::agent::cm
