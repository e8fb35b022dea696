// SPDX-License-Identifier: MIT
#pragma once

// One end of a connection as the InfiniBand connection manager sees it (chapter 12 of the specification).
//
//   active                                      passive
//   kIdle                                       (listening: not a connection yet)
//     | connect: REQ ------------------------->   admitted
//   kReqSent                                    kReqReceived
//     |   <------------------------- REP: accept  |
//   kRepReceived                                kRepSent
//     | ready: RTU --------------------------->   |
//   kEstablished                                kEstablished
//     | disconnect: DREQ --------------------->   |
//   kDreqSent                                   kDreqReceived
//     |   <-------------------- DREP: disconnect  |
//   kTimewait  (until no packet of it can be under way any more)  kTimewait
//
// Datagrams: kSidrReqSent --SIDR_REQ--> kSidrReqReceived --SIDR_REP--> kSidrAnswered (says it again when
// asked again). REQ, REP, DREQ and SIDR_REQ go out again until they are answered; an MRA asks for patience.
// A REJ ends what is being made.

#include <type_traits>

#include "wire/format/cm.h"

namespace verbatim::agent::cm {

enum class Phase : uint8_t {
  kIdle,  ///< not begun, or rejected, or given up
  kReqSent,
  kReqReceived,
  kRepSent,
  kRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
  kSidrAnswered,
};
inline constexpr Phase kLastPhase = Phase::kSidrAnswered;

/// How long a value of the messages is, as the kernel rounds it: 2^(value - 8) ms. No longer than about a
/// minute, whatever a peer asks for.
constexpr uint64_t milliseconds(uint8_t value) {
  constexpr uint8_t kLongest = 24;
  return uint64_t{1} << (value <= 8 ? 0 : (value < kLongest ? value : kLongest) - 8);
}
inline constexpr uint32_t kTimeoutMaxMs = 300'000;
inline constexpr uint8_t kRetriesMax = 15;  ///< four bits

/// Plain bytes: it goes into a testament as it is.
struct Connection {
  Phase phase = Phase::kIdle;
  bool active = false;
  bool patient = false;  ///< the peer has asked for patience
  bool srq = false;
  bool has_pending = false;
  roce::cm::TransportService service = roce::cm::TransportService::kRc;
  uint8_t retries_left = 0, max_retries = 0;
  uint8_t path_mtu = 0;                                  ///< 128 << it
  uint8_t responder_resources = 0, initiator_depth = 0;  ///< of this end
  uint8_t retry_count = 0, rnr_retry_count = 0;
  uint8_t ack_timeout = 0;
  bool flow_control = false;
  uint32_t timeout_ms = 4096;  ///< until something goes out again
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  uint64_t transaction = 0;
  uint64_t service_id = 0, remote_guid = 0;
  uint32_t local_qpn = 0, remote_qpn = 0;
  uint32_t local_psn = 0, remote_psn = 0;  ///< local: what this end's receive queue expects first
  uint16_t pkey = 0xffff;
  roce::cm::Path path;                             ///< as this end sees it
  std::array<uint8_t, roce::kMadBytes> pending{};  ///< goes out again
};
static_assert(std::is_trivially_copyable_v<Connection>);

/// A datagram of queue pair 1, with the addresses of both ends.
struct Arrival {
  Gid local, remote;
  std::span<const uint8_t> mad;
};

/// Takes the datagrams of the connection manager to where they go; they may be lost. What is for this host
/// comes back as an Arrival, later.
class MadWire {
 public:
  virtual ~MadWire() = default;
  virtual void send(const Gid& local, const Gid& remote, std::span<const uint8_t> mad) = 0;
};

}  // namespace verbatim::agent::cm
