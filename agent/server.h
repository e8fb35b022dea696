// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/capture_service.h"
#include "agent/connection_service.h"
#include "agent/counter_service.h"
#include "agent/history.h"
#include "agent/outlets.h"
#include "agent/port_service.h"
#include "agent/protocol.h"
#include "agent/registry.h"
#include "agent/rule_service.h"
#include "agent/wire_ports.h"
#include "agent/xrc_domains.h"
#include "base/clock.h"
#include "wire/link/tap/tap.h"

namespace verbatim::agent {

/// The agent's socket loop. One thread. Believes no client: a record that is not in order ends its
/// connection.
class Server {
 public:
  /// Binds the name and listens; peers see the calling process as the agent. EADDRINUSE: another agent runs
  /// already; ENAMETOOLONG.
  static Expected<std::unique_ptr<Server>> open(const std::string& name);
  ~Server();

  /// Serves until nobody has been there for a while. 0: done.
  int run();

 private:
  struct Client {
    uint64_t id = 0;
    int socket = -1;
    int process = -1;  ///< pidfd: a forked child may keep the socket open, but not the process
    uint32_t pid = 0;
    uint32_t slot = 0;                ///< 0: has not joined
    bool returned = false;            ///< it had joined an agent before this one
    int files[4] = {-1, -1, -1, -1};  ///< published, inbound, wake, notices
    char program[32] = {};
    uint32_t connections = 0;  ///< its number in the connection manager; 0: this is no control connection
  };
  /// What came with a request, and what goes with its answer. Closes what nobody took.
  struct Attached {
    int files[kFilesMax];
    int count = 0;
    int reply[kFilesMax];  ///< stay the server's
    int reply_count = 0;
    ~Attached() { close_files(files, count); }
  };
  Server(std::string name, int listener)
      : name_(std::move(name)), listener_(listener), history_(history_path(name_)) {}

  Outcome prepare();
  void watch(int file, uint64_t id);
  int wait_ms(uint64_t leave_at) const;
  void accept_client();
  void refuse_for_want_of_files();
  void happened(uint64_t id);
  void serve(Client& client);
  void serve_connections(Client& client);
  void drop(uint64_t id);
  Answer answer(Client& client, const Request& request, Attached& attached);
  Answer join(Client& client, const Request& request, Attached& attached);
  Answer extra_slot(Client& client, const Request& request, const Attached& attached);
  Answer introduce(const Request& request, Attached& attached);
  Answer wire(Client& client, const Request& request, Attached& attached);
  Answer outlet(const Client& client, const Request& request, Attached& attached);
  Outcome open_own_wire();
  Answer capture(const Client& client, Attached& attached);
  Answer change_rules(const Client& client, const Request& request, const Attached& attached);
  void watch_wire();
  Answer open_xrc_domain(const Client& client, const Request& request);
  Answer serve_counters(const Request& request);
  Answer raise_event(const Request& request);
  Answer return_port(const Request& request);
  void tell_newcomers(uint32_t device, const engine::PortSetting& setting);
  bool may_leave() const;
  Answer list(const Request& request, Attached& attached);
  Answer history(const Request& request);
  Answer become_control_connection(Client& client);
  bool has_predecessor() const;
  Client* owner_of(uint32_t slot);
  bool slot_is_owned(uint32_t slot) const;
  void notify(const Notice& notice);
  void refresh_addresses();
  void drain_netlink();

  const std::string name_;
  const int listener_;
  int poller_ = -1, netlink_ = -1, directory_file_ = -1;
  int spare_ = -1;  ///< given up for a moment when there are no descriptors left
  Directory* directory_ = nullptr;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<XrcDomains> xrc_domains_;
  Outlets outlets_;
  std::unique_ptr<WirePorts> ports_;
  RuleService rules_;
  uint64_t watched_wire_ = 0;                     ///< which of the sockets of ports_ the poller has
  std::unordered_map<uint64_t, Client> clients_;  ///< by a number that is never used twice
  uint64_t next_client_ = 1;
  History history_;
  SystemClock clock_;
  wire::tap::Switch active_;
  wire::tap::Tap tap_{active_, clock_};
  std::unique_ptr<CaptureService> captures_;
  std::unique_ptr<CounterService> counters_;
  std::unique_ptr<PortService> port_service_;
  bool counters_watched_ = false;
  std::unique_ptr<ConnectionService> connections_;
};

}  // namespace verbatim::agent
