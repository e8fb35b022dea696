// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "agent/cm/manager.h"
#include "agent/directory.h"
#include "agent/general_services.h"
#include "agent/neighbors.h"
#include "base/clock.h"
#include "wire/link/tap/tap.h"

namespace verbatim::agent {

/// The agent's connection manager with what it needs of the host: addresses out of the directory, routes, a
/// clock, the processes' channels. Datagrams between processes of this host go round in here, others over the
/// network.
class ConnectionService final : private cm::HostView, private cm::MadWire, private cm::Bell {
 public:
  /// `directory` has the host's addresses in it already. `open_port`: is called before something is expected
  /// from other hosts, which need the port of RoCEv2 to be open here. `tap`: what its datagrams pass.
  ConnectionService(const Directory& directory, const Clock& clock, wire::tap::Tap& tap,
                    std::function<Outcome()> open_port);
  ~ConnectionService() override;
  ConnectionService(const ConnectionService&) = delete;
  ConnectionService& operator=(const ConnectionService&) = delete;

  uint32_t open_client();
  void close_client(uint32_t client);
  /// `file`: an eventfd that came with the request, -1: none; taken (and set to -1) where it is needed.
  cm::Answer handle(uint32_t client, const cm::Request& request, int& file);
  /// Processes of an agent before this are still there.
  void expect_returns();
  /// Takes what other hosts have sent to this socket.
  void receive(int socket);
  /// Somebody waits for other hosts, or they may want something.
  bool expects_hosts() const {
    return reaches_out_ && (client_count_ > 0 || manager_.deadline_ns() != kNever);
  }
  void step();
  /// When `step` has something to do; kNever.
  uint64_t deadline_ns() const { return std::min({manager_.deadline_ns(), held_.next_ns(), tap_.next_ns()}); }

 private:
  using ChannelKey = std::pair<uint32_t, uint32_t>;  ///< client, channel
  /// As who gets it sees it.
  struct Datagram {
    Gid local, remote;
    std::array<uint8_t, roce::kMadBytes> mad;
  };

  std::optional<cm::LocalAddress> find(const cm::SocketAddress& address) const override;
  Expected<cm::SocketAddress> source_for(const cm::SocketAddress& destination, const cm::SocketAddress& own,
                                         uint32_t interface) const override;
  bool knows_way(const cm::SocketAddress& destination) override;
  cm::PortTable::Range ports() const override;
  uint64_t guid() const override;
  uint32_t random() override;
  void send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) override;
  void ring(uint32_t client, uint32_t channel) override;

  bool is_local(const Gid& gid) const;
  uint32_t interface_of(const Gid& gid) const;
  bool reaches_out(const cm::View& view) const;
  Outcome reach_out();
  cm::Answer refusal(const cm::Request& request, const Error& why) const;
  void put_under_way(const Datagram& datagram, wire::tap::Direction direction);
  void deliver();

  const Directory& directory_;
  const Clock& clock_;
  const std::function<Outcome()> open_port_;
  GeneralServices services_;
  Neighbors neighbors_;
  uint32_t client_count_ = 0;
  bool reaches_out_ = false;  ///< some client has, of those that there are
  wire::tap::Tap& tap_;
  std::deque<Datagram> under_way_;
  wire::tap::Delayed<Datagram> held_;
  std::map<ChannelKey, int> bells_;  ///< eventfds
  cm::Manager manager_;
};

}  // namespace verbatim::agent
