// SPDX-License-Identifier: MIT
#pragma once

// What the agent shows every process of its user read-only: who has which slot, the GID table, multicast
// groups. One writer; parts that change as a whole are sequence locked (odd while being written).

#include <atomic>
#include <cstdint>

#include "base/gid.h"
#include "engine/host.h"
#include "engine/published.h"
#include "wire/link/shm/neighborhood.h"

namespace verbatim::agent {

inline constexpr uint32_t kGidsMax = 256;
inline constexpr uint32_t kGroupsMax = 1024;

struct DirectorySlot {
  std::atomic<uint64_t> generation;   ///< 0: free
  std::atomic<uint32_t> pid;          ///< as the agent sees it
  std::atomic<uint32_t> primary;      ///< first slot of the same process
  std::atomic<uint32_t> wire_number;  ///< of its socket on the port of RoCEv2, if it has one
};

struct DirectoryGroup {
  Gid group;
  uint64_t members[wire::kSlotsMax / 64];  ///< by primary slot
};

/// What has been done to the port of a device on purpose (port_service.h).
struct DirectoryPort {
  std::atomic<uint32_t> down;
  std::atomic<uint32_t> lid, sm_lid;                 ///< of the InfiniBand subnet; 0: as always
  std::atomic<uint32_t> pkeys[engine::kPkeysGiven];  ///< from entry 1 on; 0: none
};

inline engine::PortSetting setting_of(const DirectoryPort& port) {
  engine::PortSetting setting{
      port.down != 0, static_cast<uint16_t>(port.lid), static_cast<uint16_t>(port.sm_lid), {}};
  for (size_t i = 0; i < setting.pkeys.size(); i++) setting.pkeys[i] = static_cast<uint16_t>(port.pkeys[i]);
  return setting;
}

struct Directory {
  static constexpr uint64_t kMagic = 0x5645524449523031;
  uint64_t magic;
  std::atomic<uint32_t> link_up;
  DirectoryPort ports[engine::kPortsShown];
  DirectorySlot slots[wire::kSlotsMax];
  std::atomic<uint32_t> gid_sequence;
  std::atomic<uint32_t> gid_count;  ///< entries in use or once used
  engine::GidEntry gids[kGidsMax];
  std::atomic<uint32_t> group_sequence;
  std::atomic<uint32_t> group_count;
  DirectoryGroup groups[kGroupsMax];
};

}  // namespace verbatim::agent
