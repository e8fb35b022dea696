// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/gid.h"
#include "engine/host.h"
#include "engine/qp_types.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

/// The way of frames from an Ethernet port to a network outside this host's programs. Thread safe.
class FrameOutlet {
 public:
  virtual ~FrameOutlet() = default;
  /// What does not fit is lost, as on any network. False: the memory is not mapped.
  virtual bool send(const wire::Piece* pieces, uint32_t count) = 0;
};

/// P_Keys of a port: those that it was made with and those that it was given, behind the first.
inline constexpr uint32_t kPkeysMade = 8, kPkeysKept = kPkeysMade + kPkeysGiven;
inline constexpr uint16_t kDefaultPkey = 0xffff;
/// Entries of the tables of an InfiniBand port, most of them empty.
inline constexpr uint32_t kSubnetGids = 8, kSubnetPkeys = 128;

/// Whether two members of partitions may talk: it is the same one, and one of them is a full member.
inline bool same_partition(uint16_t one, uint16_t other) {
  constexpr uint16_t kPartition = 0x7fff;
  return (one & kPartition) != 0 && ((one ^ other) & kPartition) == 0 && ((one | other) & ~kPartition) != 0;
}

/// What queue pairs send and receive through. An Ethernet port has the addresses of the host; one of an
/// InfiniBand subnet has a LID, by which the subnet finds it, and a single GID.
struct Port {
  std::atomic<uint16_t> lid = 0;   ///< 0: the port is Ethernet
  Gid gid;                         ///< of an InfiniBand port
  uint32_t device = 0;             ///< whose it is: a number of the process's
  std::atomic<bool> down = false;  ///< nothing is sent, and what comes is lost
  FrameOutlet* outlet = nullptr;   ///< outlives the port; nullptr: frames stay among programs
  /// Of an InfiniBand port, from entry 1 on; 0: nothing is there.
  std::array<std::atomic<uint16_t>, kPkeysKept> pkeys{};

  bool is_infiniband() const { return lid != 0; }
  uint32_t pkey_entries() const { return is_infiniband() ? kSubnetPkeys : 1; }
  uint16_t pkey(uint32_t index) const {
    if (index == 0) return kDefaultPkey;
    return index <= pkeys.size() ? pkeys[index - 1].load(std::memory_order_relaxed) : uint16_t{0};
  }
};

/// The port of queue pairs that name none.
inline const Port kEthernetPort;

/// LIDs of single ports; the ones above are of multicast groups.
inline constexpr uint16_t kUnicastLidMax = 0xbfff;

/// Where a packet is sent: an Ethernet port looks at the GID, an InfiniBand port at the LID.
struct Place {
  Gid gid;
  uint16_t lid = 0;
  uint32_t qpn = 0;
  uint16_t pkey = kDefaultPkey;  ///< of the sender
  friend bool operator==(const Place&, const Place&) = default;
};

/// The way from a port towards a queue pair, whose end sees whether a datagram is for its port (is_for);
/// nullptr: none now.
wire::Channel* way_of_datagram(wire::Fabric& fabric, const Port& from, const Place& to);
/// Whether a datagram that has come this way was sent to this port; its partition is another matter.
bool is_for(const Port& port, const wire::Segment& segment);
/// The way from a port to a queue pair for a connection; nullptr: none now.
wire::Channel* find_way(wire::Fabric& fabric, const Port& from, const Place& to);
/// Why there is none, in words; empty: nobody is there, as far as is known.
std::string way_obstacle(wire::Fabric& fabric, const Port& from, const Place& to);

/// What is wrong with a path that starts at this port, as a queue pair of this type uses it; empty: nothing.
std::string check_path(const Port& port, const Host& host, const AddressAttributes& path, QpType type);

}  // namespace verbatim::engine
