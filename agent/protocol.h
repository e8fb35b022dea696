// SPDX-License-Identifier: MIT
#pragma once

// What processes and the agent say to each other: fixed-size records over a SOCK_SEQPACKET socket in the
// abstract name space, descriptors beside them. A process asks, the agent answers each request once, in
// order. Notices come over a second socket that the process hands over when it joins.

#include <cstdint>
#include <string>

#include "base/gid.h"
#include "wire/link/shm/neighborhood.h"

namespace verbatim::agent {

inline constexpr uint32_t kVersion = 6;

enum class Ask : uint32_t {
  /// Descriptors: published, inbound, wake, notices. `slot` and `generation` non-zero: take mine back, with
  /// the
  /// slot's proof (see slot_name) as a fifth descriptor.
  kJoin,
  kExtraSlot,  ///< another slot for queue pair numbers; `slot` non-zero: take it back, with its proof
  kIntroduce,  ///< handles of the owner of `slot`
  kJoinGroup,
  kLeaveGroup,
  kList,       ///< the next live process with a slot above `slot`; answers with its published memory
  kHistory,    ///< the error reason number `index` of processes that have gone, oldest first
  kDirectory,  ///< the directory, for whoever only looks
  kWire,       ///< a socket on the port of RoCEv2; with a descriptor: take mine back, whose number is `index`
  kAddRules,   ///< rules that damage packets, as `text` (wire/link/tap/rule.h); answers with the first one's
               ///< number
  kListRules,  ///< the rule after number `index`; answers with its number in `slot`, counts in `matched` and
               ///< `picked`
  kRemoveRules,  ///< the one with number `index`, 0: all
  kCapture,      ///< with a descriptor, memory to write captured packets to: as long as this connection lasts
  kCaptureFile,  ///< the same memory, for who has joined
  kReturnRules,  ///< with a descriptor: the board of rules of the agent before
  /// What the agent before had made of the port of device `index`: `slot`: it is down; `generation`: its LID,
  /// and above
  /// 16 bits that of the manager; `text`: P_Keys.
  kReturnPort,
  /// The XRC domain of a file (XrcWish in `program`): its identity is the answer's generation. With
  /// `generation`: take mine back, which had that identity.
  kOpenXrcDomain,
  kCloseXrcDomain,  ///< that of identity `generation`
  /// The open file of an outlet, named by `text` (outlets.h); with a descriptor: take mine back.
  kOutlet,
  kServeCounters,      ///< keep those in the tree for /sys at `text` true (counter_service.h)
  kRaiseEvent,         ///< something happens to ports (port_service.h)
  kConnectionManager,  ///< from now on this connection carries the records of agent/cm/protocol.h
};

struct Request {
  uint32_t version;
  Ask ask;
  uint32_t slot;
  uint32_t index;
  uint64_t generation;
  Gid group;
  char program[32];
  uint32_t serial;  ///< comes back in the answer, so that a late one is not taken for another's
  uint32_t reserved;
  char text[512];
};

/// In the place of Request::program.
struct XrcWish {
  uint64_t file_device, inode;
  uint32_t device;  ///< index of the RDMA device
  uint8_t create, exclusive;
};
static_assert(sizeof(XrcWish) <= sizeof(Request::program));

struct Answer {
  uint32_t version;
  int32_t error;  ///< errno value, 0: done
  uint32_t slot;
  uint32_t primary;
  uint64_t generation;
  uint32_t pid;
  uint32_t qpn;
  uint32_t status;
  uint32_t serial;
  uint64_t time_ns;
  char program[32];
  uint64_t matched, picked;
  char text[512];  ///< why not, or what was asked for
};

enum class Event : uint32_t {
  kGone,
  kGidsChanged,
  kLinkUp,
  kLinkDown,
  kTapsChanged,
  kRaised,  ///< `generation` is an engine::AsyncEvent of the device whose place in the list is `slot`
};

struct Notice {
  Event event;
  uint32_t slot;
  uint64_t generation;
};

/// Most descriptors beside one record.
inline constexpr int kFilesMax = 5;

/// Sends one record with `count` descriptors. Never raises SIGPIPE. `wait`: as long as the socket's own
/// timeout says when there is no room, else not at all. False: errno tells.
bool send_record(int socket, const void* record, size_t bytes, const int* files, int count, bool wait = true);

enum class Received : uint8_t {
  kRecord,
  kNothing,    ///< none came in time
  kClosed,     ///< the other end has gone
  kMalformed,  ///< something else came
  kTruncated,  ///< one came, but without all that was beside it: too many descriptors are open here
};
/// Receives one record of exactly `bytes`; the descriptors that came (at most kFilesMax, close-on-exec)
/// belong to the caller, whatever is returned.
Received receive_record(int socket, void* record, size_t bytes, int* files, int& count);
void close_files(int* files, int count);

/// Longest name of an agent: those of its slots, which start with it, must fit a socket's address too.
inline constexpr size_t kAgentNameMax = 96;
/// "verbatim/<uid>", or what VERBATIM_AGENT_SOCKET says.
std::string agent_name();
/// The name whose binding proves that a living process owns a slot.
std::string slot_name(const std::string& agent, uint32_t slot);
/// True when `socket` is what holds an abstract name.
bool is_bound_to(int socket, const std::string& name);
/// Binds a socket of `type` to an abstract name; -1 with errno (EADDRINUSE: somebody has it).
int bind_name(const std::string& name, int type);
/// Connects to an abstract name; -1 with errno (ECONNREFUSED: nobody is there). The call itself, and every
/// send and receive on the socket, takes `timeout_ms` at most.
int connect_name(const std::string& name, int timeout_ms);

}  // namespace verbatim::agent
