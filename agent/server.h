// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/history.h"
#include "agent/protocol.h"
#include "agent/registry.h"
#include "base/clock.h"

namespace verbatim::agent {

/// The agent's socket loop. One thread.
class Server {
 public:
  /// Binds the name. EADDRINUSE: another agent runs already.
  static Expected<std::unique_ptr<Server>> open(const std::string& name);
  ~Server();

  /// Serves until nobody has been there for a while. 0: done.
  int run();

 private:
  struct Client {
    int socket = -1;
    uint32_t pid = 0;
    uint32_t slot = 0;                ///< 0: has not joined
    int files[4] = {-1, -1, -1, -1};  ///< published, inbound, wake, notices
    char program[32] = {};
  };
  Server(std::string name, int listener) : name_(std::move(name)), listener_(listener) {}

  Outcome prepare();
  void watch(int file);
  void accept_client();
  void serve(Client& client);
  void drop(int socket);
  Answer answer(Client& client, const Request& request, int* files, int& count, int* reply_files,
                int& reply_count);
  Answer join(Client& client, const Request& request, int* files, int& count, int* reply_files,
              int& reply_count);
  Answer list(const Request& request, int* reply_files, int& reply_count);
  Answer history(const Request& request);
  Client* owner_of(uint32_t slot);
  void notify(const Notice& notice, const Client* except);
  void refresh_addresses();
  void drain_netlink();

  const std::string name_;
  const int listener_;
  int poller_ = -1, netlink_ = -1, directory_file_ = -1;
  Directory* directory_ = nullptr;
  std::unique_ptr<Registry> registry_;
  std::unordered_map<int, Client> clients_;
  History history_;
  SystemClock clock_;
};

}  // namespace verbatim::agent
