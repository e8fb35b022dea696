// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <cerrno>

#include "agent/client.h"

namespace verbatim::tools {

/// A connection to the agent that closes itself.
class AgentConnection {
 public:
  explicit AgentConnection(int socket) : socket_(socket) {}
  ~AgentConnection() { close(socket_); }
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  /// Asks and calls `use(answer, first descriptor or -1)`. ENOENT: there is no (more) such thing.
  template <class Use>
  Outcome ask(const agent::Request& request, Use use) const {
    agent::Answer answer{};
    int files[agent::kFilesMax], count = 0;
    Outcome asked = agent::ask_agent(socket_, request, answer, files, count);
    if (asked) use(answer, count > 0 ? files[0] : -1);
    agent::close_files(files, count);
    return asked;
  }

 private:
  int socket_;
};

/// Calls `visit(answer)` for every rule that damages packets, in the order of their numbers.
template <class Visit>
Outcome for_each_rule(const AgentConnection& connection, uint32_t after, Visit visit) {
  agent::Request request{};
  request.ask = agent::Ask::kListRules;
  request.index = after;
  for (;;) {
    Outcome asked = connection.ask(request, [&](const agent::Answer& answer, int) {
      visit(answer);
      request.index = answer.slot;
    });
    if (!asked) return asked.error().code == ENOENT ? Outcome(Done{}) : asked;
  }
}

}  // namespace verbatim::tools
