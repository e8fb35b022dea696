// SPDX-License-Identifier: MIT
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>

#include "agent/cm/connections.h"
#include "agent/cm/host_view.h"
#include "agent/cm/identifier.h"

namespace verbatim::agent::cm {

/// What the kernel's rdma_cm is to programs: ids, their addresses, routes and events, over the connections of
/// the host. No sockets, no clock, no threads. Believes no client.
class Manager final : private ConnectionUser {
 public:
  Manager(HostView& host, MadWire& wire, Bell& bell);

  /// A process; the number is never used twice.
  uint32_t open_client();
  /// What it had goes: established connections are disconnected, pending ones rejected.
  void close_client(uint32_t client, uint64_t now_ns);
  Answer handle(uint32_t client, const Request& request, uint64_t now_ns);
  void on_mad(const Arrival& arrival, uint64_t now_ns);
  void step(uint64_t now_ns);
  /// When `step` has something to do; kNever.
  uint64_t deadline_ns() const;
  /// Processes of an agent before this will come back, in some seconds at most. Also known from the first
  /// that does.
  void expect_returns(uint64_t now_ns);
  size_t id_count() const { return ids_.size(); }

 private:
  using Key = uint64_t;  ///< client << 32 | number
  static Key key_of(uint32_t client, uint32_t number) { return Key{client} << 32 | number; }
  static Key key_of(const Identifier& id) { return key_of(id.client, id.number); }
  static uint32_t client_of(Key key) { return static_cast<uint32_t>(key >> 32); }

  struct Queued {
    Event event;
    Key id = 0;               ///< whose event it is; of a connect request: the listener
    Key child = 0;            ///< of a connect request
    uint32_t membership = 0;  ///< of a multicast event
  };
  /// For the way to an id's destination.
  struct Search {
    uint64_t begin_ns, next_ns, until_ns;
  };
  struct Channel {
    std::deque<Queued> events;
  };
  struct Client {
    uint32_t next_channel = 1, next_id = 1;
    std::map<uint32_t, Channel> channels;
    std::map<uint32_t, Key> memberships;
  };

  void set_time(uint64_t now_ns);
  // manager.cpp: requests, ids, channels
  Outcome perform(uint32_t client, const Request& request, Answer& answer);
  Outcome perform_on(Identifier& id, const Request& request, Answer& answer);
  Outcome open_channel(uint32_t client, const Request& request, Answer& answer);
  Outcome close_channel(uint32_t client, const Request& request);
  Outcome get_event(uint32_t client, const Request& request, Answer& answer);
  Outcome create_id(uint32_t client, const Request& request, Answer& answer);
  Outcome destroy_id(Identifier& id, Answer& answer);
  Outcome migrate(Identifier& id, const Request& request, Answer& answer);
  Outcome write_event(Identifier& id, const Request& request);
  Identifier* find(Key key);
  Expected<Identifier*> add_id(uint32_t client, uint32_t wanted, uint32_t channel);
  uint32_t new_number(uint32_t client);
  bool number_is_free(uint32_t client, uint32_t number);
  uint32_t remove_id(Key key);
  uint32_t drop_events(uint32_t client, uint32_t channel, const std::function<bool(const Queued&)>& match);
  void queue(Identifier& id, Queued queued);
  void tell(Identifier& id, uint32_t type, int32_t status = 0);
  Testament testament(const Identifier& id);
  Outcome restore(uint32_t client, const Request& request, Answer& answer);
  Outcome take_back(Identifier& id, const Will& will);

  // addressing.cpp: addresses and routes
  Outcome bind(Identifier& id, SocketAddress source);
  void attach(Identifier& id, const LocalAddress& local);
  Outcome resolve_address(Identifier& id, const Request& request);
  Outcome choose_source(Identifier& id, const SocketAddress& destination);
  void begin_search(Identifier& id, uint32_t timeout_ms);
  void search(Identifier& id);
  Outcome resolve_route(Identifier& id);
  Outcome set_path(Identifier& id, const PathRecord& path);
  Outcome listen(Identifier& id, int32_t backlog);
  Outcome set_option(Identifier& id, const Request& request);
  Outcome join(Identifier& id, const Request& request, Answer& answer);
  Outcome leave(uint32_t client, const Request& request, Answer& answer);
  View view(const Identifier& id) const;

  // connecting.cpp: connections
  Outcome connect(Identifier& id, const Request& request);
  Outcome connect_datagram(Identifier& id, const Request& request);
  Outcome accept(Identifier& id, const Request& request);
  Outcome accept_datagram(Identifier& id, const Request& request);
  Outcome reject(Identifier& id, const Request& request);
  Expected<QpAttributes> attributes(Identifier& id, uint32_t state);
  Outcome disconnect(Identifier& id);
  Outcome notify(Identifier& id, uint32_t event);
  Admission admit(const Proposal& proposal, uint64_t& owner) override;
  void happened(uint64_t owner, const Connection& connection, const Happening& what) override;
  Identifier* child_of(const Identifier& listener, const Proposal& proposal,
                       const roce::cm::ServiceHeader& header);
  void replied(Identifier& id, const Connection& connection, const Happening& what);
  void datagram_replied(Identifier& id, const Happening& what);

  HostView& host_;
  Bell& bell_;
  Connections connections_;
  PortTable ports_;
  std::unordered_map<Key, Identifier> ids_;
  std::map<uint32_t, Client> clients_;
  std::map<Key, Search> searches_;
  uint64_t now_ns_ = 0;
  uint32_t next_client_ = 1;
  bool returns_expected_ = false;
};

}  // namespace verbatim::agent::cm
