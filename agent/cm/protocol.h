// SPDX-License-Identifier: MIT
#pragma once

// What librdmacm and the agent say to each other: the part of the kernel's rdma_cm that a library cannot do.
//
// A control connection: a fresh connection to the agent, on which Ask::kConnectionManager is asked once. From
// then on it carries these records: a Request of the process, an Answer of the agent, in order, one each. All
// ids and channels belong to the connection and go with it: established ones are disconnected (the peer sees
// it), pending ones rejected, listeners vanish.
//
// Channels. For every rdma_event_channel the process hands over an eventfd in semaphore mode. The agent adds
// one to it for every event; the process takes one off (blocking as the program wants it) and asks for the
// event (kGetEvent). An answer with `events_dropped` tells that events were taken back (their id was
// destroyed or moved): the process takes that many off; another thread may be quicker, so that kGetEvent may
// find none (EAGAIN), which means: wait again.
//
// Death of the agent. The control connection hangs up (EPOLLHUP on its socket). The process makes another
// one, opens its channels again with the same eventfds and numbers (what they counted is void: drain them
// before), and gives back every id with kRestore and the newest testament that an answer brought for it. It
// is what the program knows: what the agent had done beyond it happens again, events that nobody fetched
// come again. Memberships of groups are joined again with `again` set, which gives no event.
//
// Errors are errno values as the kernel gives them; `text` says why. State names below are those of an id.

#include <cstdint>
#include <type_traits>

#include "agent/cm/socket_address.h"
#include "base/gid.h"

namespace verbatim::agent::cm {

enum class Do : uint32_t {
  /// One descriptor: an eventfd (EFD_SEMAPHORE). `channel` 0: a new one, else that number, as under the last
  /// agent. Answers with `channel`.
  kOpenChannel,
  kCloseChannel,  ///< `channel`. The ids on it go, too.
  kGetEvent,      ///< `channel`. Answers with `event` and, but for multicast events, its id's testament.
  /// `channel`, `context`, `port_space`, `qp_type`. Answers with `id`. EINVAL: no such port space.
  kCreateId,
  /// `id`. Answers with `events_reported`: how many of the id's events were fetched (a connect request counts
  /// for its listener), and `events_dropped`.
  kDestroyId,
  /// `source`; for AF_IB also `port_space`, that of its service id. EADDRINUSE, EADDRNOTAVAIL, ENODEV,
  /// EAFNOSUPPORT, EINVAL (bound already).
  kBindAddress,
  /// `source` (AF_UNSPEC: the route decides), `destination`, `timeout_ms`. Then ADDR_RESOLVED or ADDR_ERROR.
  kResolveAddress,
  kResolveRoute,  ///< `timeout_ms`. Then ROUTE_RESOLVED or ROUTE_ERROR.
  kQuery,         ///< Answers with `view`.
  kListen,        ///< `backlog`; <= 0 or too much: the most there is
  /// `parameters`, `ece`: REQ or SIDR_REQ. Then CONNECT_RESPONSE (call kEstablish), for datagrams
  /// ESTABLISHED;
  /// or REJECTED, UNREACHABLE, CONNECT_ERROR.
  kConnect,
  /// `parameters`, `ece`, `context` (the child's from now on): REP or SIDR_REP. Then ESTABLISHED (not for
  /// datagrams) or CONNECT_ERROR, UNREACHABLE, REJECTED.
  kAccept,
  kEstablish,  ///< active side, after CONNECT_RESPONSE and when the queue pair is ready: RTU
  /// `reason` (28 by the program, 35 ECE; 0: 28), `parameters.private_data`. Also ends what is not accepted.
  kReject,
  kDisconnect,  ///< DREQ, or DREP where the peer asked. Then DISCONNECTED, TIMEWAIT_EXIT.
  /// `qp_state`: answers with `qp` for the change to it. EINVAL: not known yet.
  kQpAttributes,
  kSetOption,  ///< `option`, `value` (kPath: `path`)
  /// `value`: enum ibv_event_type. IBV_EVENT_COMM_EST stands for a lost RTU.
  kNotify,
  /// `destination` the group, `context` its own, `value` the rdma_cm_mc_join_flags, `again`. Answers with
  /// `id` of the membership. Then MULTICAST_JOIN (its `param.ud`) or MULTICAST_ERROR.
  kJoinMulticast,
  kLeaveMulticast,  ///< `id`: the membership's. Answers with its `events_reported` and `events_dropped`.
  /// To `channel`, its events that were not fetched, too. Answers with `events_reported` and
  /// `events_dropped`.
  kMigrate,
  kWriteEvent,  ///< `value` the type (RDMA_CM_EVENT_USER, _INTERNAL), `status`, `argument`
  /// `id`, `channel`, `context`, `testament`. EINVAL: not one; EADDRINUSE: somebody else has the port now.
  kRestore,
};

enum class Option : uint32_t {
  kTypeOfService,
  kReuseAddress,
  kAddressFamilyOnly,
  kAckTimeout,
  kPath,  ///< the route, instead of kResolveRoute; then ROUTE_RESOLVED
};

/// Most private data that a record carries; what a message takes is less and checked (EINVAL).
inline constexpr uint32_t kPrivateDataMax = 256;

/// struct rdma_conn_param. `qkey` is for datagrams: 0: the port space's.
struct Parameters {
  uint32_t qp_num;
  uint32_t qkey;
  uint8_t valid;  ///< 0: none given (kAccept: as the request asked)
  uint8_t private_data_bytes;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t flow_control;
  uint8_t retry_count;
  uint8_t rnr_retry_count;
  uint8_t srq;
  uint8_t private_data[kPrivateDataMax];
};

struct Ece {
  uint32_t vendor_id;
  uint32_t options;
};

/// struct ibv_ah_attr, always with a global route.
struct AddressVector {
  Gid destination;
  uint32_t flow_label;
  uint16_t destination_lid;
  uint8_t gid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
  uint8_t service_level;
  uint8_t static_rate;
  uint8_t port;
};

/// A path record; the enumerations are those of verbs.
struct PathRecord {
  Gid source, destination;
  uint32_t flow_label;
  uint16_t source_lid, destination_lid, pkey;
  uint8_t hop_limit, traffic_class, service_level, mtu, rate, packet_life_time;
};

/// What is known of an id: where it is and the way to its peer.
struct View {
  SocketAddress source, destination;
  Gid source_gid, destination_gid;  ///< zero: not bound to a device yet
  uint32_t gid_index;
  uint16_t pkey;
  uint8_t port;        ///< 0: not bound to a device yet
  uint8_t path_count;  ///< 1: `path` is known
  /// Every device of a process has the host's GID table: the library takes the first one of Ethernet.
  PathRecord path;
};

/// struct ibv_qp_attr: what `mask` (IBV_QP_*) names. Access flags are those for a connection of peers that
/// may read and write.
struct QpAttributes {
  uint32_t mask;
  uint32_t state;
  uint32_t qkey, rq_psn, sq_psn, dest_qp_num, access_flags;
  uint16_t pkey_index, alternate_pkey_index;
  uint8_t path_mtu, path_mig_state, max_rd_atomic, max_dest_rd_atomic;
  uint8_t min_rnr_timer, port, timeout, retry_count;
  uint8_t rnr_retry, alternate_port, alternate_timeout, reserved;
  AddressVector path, alternate;
};

/// struct rdma_cm_event.
struct Event {
  uint32_t type;      ///< enum rdma_cm_event_type
  int32_t status;     ///< negative errno, or a reason of CM
  uint32_t id;        ///< the child of a connect request, the membership of a multicast event, else the id
  uint32_t listener;  ///< of a connect request
  uint64_t context;   ///< the program's for the id, the membership, the listener
  uint64_t argument;  ///< of an event that was written
  /// Connected: as in struct rdma_conn_param. Datagrams: qp_num, qkey, private data, with `datagram`.
  Parameters parameters;
  AddressVector datagram;
  Ece ece;
};

/// All that brings an id back under another agent. Of no meaning to the library.
struct Testament {
  uint32_t bytes;  ///< 0: none
  uint32_t reserved;
  uint8_t state[1272];
};

struct Request {
  uint32_t serial;  ///< comes back in the answer
  Do what;
  uint32_t id;
  uint32_t channel;
  uint64_t context;
  uint64_t argument;
  uint16_t port_space;  ///< enum rdma_port_space
  uint8_t qp_type;      ///< enum ibv_qp_type, for the port space of InfiniBand
  uint8_t again;        ///< of kJoinMulticast: no event
  uint32_t timeout_ms;
  int32_t backlog;
  uint32_t qp_state;  ///< enum ibv_qp_state
  uint32_t reason;
  Option option;
  uint32_t value;
  int32_t status;
  SocketAddress source, destination;
  Parameters parameters;
  Ece ece;
  PathRecord path;
  Testament testament;
};

struct Answer {
  uint32_t serial;
  int32_t error;  ///< errno value, 0: done
  uint32_t id;
  uint32_t channel;
  uint32_t events_reported;
  uint32_t events_dropped;  ///< of the id's channel (kMigrate: of the former one)
  /// Of kCreateId, kBindAddress, kResolveAddress, kQuery, kListen, kConnect, kAccept, and of an event's id.
  View view;
  QpAttributes qp;
  Event event;
  Testament testament;  ///< of `id`, else of the event's id; replaces the former one where it is not empty
  char text[160];       ///< why not
};

static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Answer>);

}  // namespace verbatim::agent::cm
