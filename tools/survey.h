// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/history.h"
#include "base/expected.h"

namespace verbatim::tools {

/// A queue pair as its process publishes it.
struct QpRow {
  uint32_t qpn, remote_qpn, path_mtu;
  std::string type, state;
  uint64_t send_messages, send_bytes, receive_messages, receive_bytes, rnr_naks, retries, errors;
};

/// Objects of one kind that a process has made by commands.
struct ObjectRow {
  std::string kind;  ///< "MKEY"
  std::vector<uint32_t> numbers;
};

/// A live process with open devices.
struct ProcessRow {
  uint32_t slot = 0, pid = 0;
  std::string program;
  uint32_t contexts = 0, domains = 0, regions = 0, completion_queues = 0, queue_pair_count = 0,
           shared_queues = 0, address_handles = 0, channels = 0;
  std::vector<QpRow> queue_pairs;
  std::vector<ObjectRow> command_objects;  ///< by kind
};

/// All live processes of this user that the agent knows. An empty list when no agent runs. Believes nothing
/// that a process publishes: what is not in order is left out. Errors: EACCES the agent's name is somebody
/// else's; EPROTO it is of another version; EAGAIN it does not answer.
Expected<std::vector<ProcessRow>> survey();

/// Error reasons of live and gone processes, oldest first; without an agent, of gone ones. Errors as above.
Expected<std::vector<agent::Explanation>> explanations();

/// Words for the status of a reason: an engine::Status, or the errno value of a refused command.
std::string status_name(uint32_t status);

/// Text of a program that is safe to show on a terminal: control characters become '?'.
std::string printable(std::string text);

}  // namespace verbatim::tools
