// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <map>
#include <type_traits>

#include "agent/cm/connection.h"
#include "agent/cm/protocol.h"
#include "base/expected.h"

namespace verbatim::agent::cm {

/// Where an id is on its way, as in the kernel (routes are found at once here).
enum class Step : uint8_t {
  kIdle,
  kBound,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  ///< and connected
  kDisconnected,
  kResolvingAddress,
};
inline constexpr Step kLastStep = Step::kResolvingAddress;

/// What is known of an id. Plain bytes: it goes into a testament as it is.
struct IdState {
  Step step = Step::kIdle;
  uint8_t qp_type = 0;    ///< enum ibv_qp_type
  uint16_t space = 0;     ///< enum rdma_port_space
  uint8_t owns_port = 0;  ///< those of a connect request do not
  uint8_t reuse_address = 0, family_only = 0, family_only_given = 0;
  uint8_t type_of_service = 0;
  uint8_t ack_timeout = 0, ack_timeout_given = 0;
  uint8_t has_path = 0;
  uint8_t bound = 0;     ///< to a device: `local` is known
  uint8_t accepted = 0;  ///< or made by the program: its context is known
  uint16_t reserved = 0;
  uint32_t gid_index = 0;
  uint32_t mtu = 0;
  uint32_t listener = 0;  ///< of the id that a connect request made
  uint32_t qp_num = 0, qkey = 0;
  uint32_t first_psn = 0;
  int32_t backlog = 0;
  uint32_t comm_id = 0;  ///< of its connection
  Gid local;
  SocketAddress source, destination;
  PathRecord path{};

  bool is_datagram() const { return qp_type == 4; }  ///< IBV_QPT_UD
};
static_assert(std::is_trivially_copyable_v<IdState>);

/// A multicast group that an id has joined.
struct Membership {
  SocketAddress group;
  uint64_t context = 0;
  uint32_t events_reported = 0;
};

struct Identifier {
  IdState s;
  uint32_t client = 0, number = 0, channel = 0;
  uint64_t context = 0;
  uint32_t events_reported = 0;
  int32_t backlog_left = 0;
  uint32_t untold = 0;  ///< of its own events: queued, not fetched
  std::map<uint32_t, Membership> memberships;
};

/// What a testament holds: the id, its connection, and what it has not been told yet.
struct Will {
  static constexpr uint32_t kMagic = 0x434d5731;
  static constexpr size_t kUntoldMax = 4;
  struct Untold {
    uint32_t type;
    int32_t status;
  };
  uint32_t magic = kMagic;
  uint32_t untold_count = 0;
  std::array<Untold, kUntoldMax> untold{};
  IdState id;
  Connection connection;
};
static_assert(std::is_trivially_copyable_v<Will>);
static_assert(sizeof(Will) <= sizeof(Testament::state));

Testament testament_of(const Will& will);
/// Whatever the bytes are, what comes out can be used. False: not one.
bool read_testament(const Testament& testament, Will& will);

/// The attributes for a change to `state` (enum ibv_qp_state). EINVAL: not known (yet).
Expected<QpAttributes> qp_attributes(const IdState& id, const Connection* connection, uint32_t state);

/// How packets of a path are addressed.
AddressVector address_vector(const PathRecord& path, uint32_t gid_index);

/// The Q_Key of an id's queue pair; `wanted` 0: that of the port space. EINVAL: it has another one already.
Expected<uint32_t> set_qkey(IdState& id, uint32_t wanted);

}  // namespace verbatim::agent::cm
