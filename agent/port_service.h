// SPDX-License-Identifier: MIT
#pragma once

// What happens to devices and their ports because somebody asks for it (`verbatim inject event`): it changes
// what the directory says of the port, and every process raises the event on its devices.

#include <array>
#include <optional>
#include <string>

#include "agent/directory.h"
#include "base/expected.h"
#include "engine/qp_types.h"

namespace verbatim::agent {

/// The name of an event as people write it: "port-down". Nothing: it is none that can be asked for.
std::optional<engine::AsyncEvent> event_of(const std::string& name);
/// All such names, in a sentence.
std::string event_names();

class PortService {
 public:
  explicit PortService(Directory& directory) : directory_(directory) {}

  /// Lets it happen to the device at this place in the list. `value`: the new LID, that of the subnet's
  /// manager, or the P_Key that comes, or goes when it is there; 0: the usual one again, of P_Keys all go.
  /// EINVAL: nobody can let that happen.
  Outcome raise(uint32_t device, engine::AsyncEvent event, uint32_t value);
  /// Makes the port what an agent before had made of it, unless something has happened to it since.
  /// Whether it is that now. EINVAL: nobody can have made that of it.
  Expected<bool> take_back(uint32_t device, const engine::PortSetting& setting);
  /// Some port is not as always.
  bool any_set() const;

 private:
  static Outcome change_pkey(DirectoryPort& port, uint32_t value);

  Directory& directory_;
  std::array<bool, engine::kPortsShown> changed_{};
};

}  // namespace verbatim::agent
