// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/directory.h"
#include "base/expected.h"
#include "wire/link/udp/steering.h"

namespace verbatim::agent {

/// The sockets on UDP port 4791: one of each process that talks to other hosts, then the agent's, which gets
/// all else.
///
/// The kernel numbers them in the order of binding, and gives the number of a closed one to the last. So the
/// agent opens them, keeps each as long as its process has it, and has its own last: when the agent is
/// killed, no other number changes, and the program that gives each process its packets goes on to be right.
/// A packet that comes to the wrong process while numbers change is passed on by it (wire/link/udp).
///
/// The number of each socket is in the directory (wire_number), where its process reads it to tell the next
/// agent.
class WirePorts {
 public:
  /// `name`: of the agent. There is one that has the port in a network namespace for each user.
  /// `arrived`: takes what has come to the agent's socket, which is about to be closed or a process's
  /// sometimes.
  WirePorts(std::string name, Directory& directory, std::function<void(int socket)> arrived);
  ~WirePorts();

  /// The socket of the process with this primary slot, which stays this object's. Errors: EADDRINUSE somebody
  /// else has the port; EAGAIN processes of an earlier agent have not come back yet.
  Expected<int> open(uint32_t slot, uint64_t now_ns);
  /// A process of an earlier agent has this socket, which is taken over, with this number.
  Outcome take_back(uint32_t slot, int socket, uint32_t number, uint64_t now_ns);
  /// When settle has something to do, 0: never.
  uint64_t settle_at_ns() const { return settle_at_ns_; }
  /// Gives up to wait for processes of an earlier agent.
  void settle(uint64_t now_ns);
  /// The process has gone.
  void leave(uint32_t slot);
  /// Its slots are others now.
  void refresh(uint32_t slot);

  /// The agent itself expects something from other hosts: its socket is open from now on, whoever else has
  /// one, until it expects nothing any more. Errors as of `open`; tried again now and then.
  Outcome expect(uint64_t now_ns);
  void expect_nothing();

  /// Readable when something came to the agent; -1: nothing is open.
  int own() const { return own_; }
  /// Another one each time that another socket is the agent's.
  uint64_t own_number() const { return own_number_; }
  void drain();

 private:
  struct Member {
    uint32_t slot;
    int socket;
  };
  Outcome claim();
  Outcome open_own();
  void close_own();
  void rest();
  Member* find(uint32_t slot);
  void steer();

  const std::string name_;
  Directory& directory_;
  const std::function<void(int)> arrived_;
  int claim_ = -1;  ///< an abstract name: this agent has the port
  int own_ = -1;
  uint64_t own_number_ = 0;
  bool expected_ = false;
  uint64_t retry_at_ns_ = 0;                           ///< not to be opened before
  Error obstacle_;                                     ///< why it was not
  std::vector<Member> members_;                        ///< by number
  std::vector<std::pair<uint32_t, Member>> returned_;  ///< of an earlier agent, with the numbers they had
  uint64_t settle_at_ns_ = 0;                          ///< 0: nobody is waited for
};

}  // namespace verbatim::agent
