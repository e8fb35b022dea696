// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "base/expected.h"
#include "base/gid.h"

namespace verbatim::engine {

struct GidEntry {
  Gid gid;  ///< zero: empty entry
  GidType type = GidType::kRoceV2;
  uint32_t interface_index = 0;
  uint32_t mtu = 0;  ///< of that interface, bytes
};

/// P_Keys that a port can be given beside the first.
inline constexpr uint32_t kPkeysGiven = 4;

/// What has been done to a port on purpose.
struct PortSetting {
  bool down = false;
  uint16_t lid = 0, sm_lid = 0;  ///< of an InfiniBand port; 0: as always
  std::array<uint16_t, kPkeysGiven> pkeys{};
  friend bool operator==(const PortSetting&, const PortSetting&) = default;
};

/// What the engine and the device models need of the machine around them: implemented over the agent. Thread
/// safe.
class Host {
 public:
  virtual ~Host() = default;
  /// Entries of the GID table, empty ones included. Never blocks.
  virtual uint32_t gid_count() const = 0;
  virtual GidEntry gid(uint32_t index) const = 0;
  /// Some interface is up.
  virtual bool link_up() const = 0;
  /// Of the port of the device at this place in the list. Never blocks.
  virtual PortSetting port_setting(uint32_t /*device*/) const { return {}; }
  /// Tells the others that this process wants a multicast group's datagrams; counted.
  virtual Outcome join(const Gid& group) = 0;
  virtual Outcome leave(const Gid& group) = 0;
  /// The slot that queue pair numbers of this process start with; `block` 0 is given at start, further ones
  /// on demand. Errors: ENOMEM all slots are taken; EAGAIN the agent is away.
  virtual Expected<uint32_t> qpn_slot(uint32_t block) = 0;
  /// Wakes the engine thread, when it sleeps, so that it calls Engine::step.
  virtual void wake_engine_thread() = 0;
};

}  // namespace verbatim::engine
