// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"

namespace verbatim::agent {

/// A device that the environment asks for.
struct DeviceConfig {
  std::string name;               ///< "mlx5_0": a letter, then letters, digits and any of _-.
  std::string kind;               ///< "mlx5"
  bool data_direct = false;       ///< with a function that reaches memory of other devices directly
  bool lag = false;               ///< its two physical ports form one
  bool infiniband = false;        ///< its port is one of the host's InfiniBand subnet, not Ethernet
  std::vector<uint16_t> pkeys{};  ///< of an InfiniBand port, behind the first
  std::string outlet{};           ///< where Ethernet frames go, too: "tap=NAME", "interface=NAME" (outlets.h)
};

/// Understands VERBATIM_DEVICES: nothing: mlx5_0; a number: that many mlx5 devices; else a list of
/// name[:kind[:option...]], separated by commas; the options of mlx5 are data-direct, lag,
/// infiniband, pkeys=NUMBER+NUMBER..., tap=NAME and interface=NAME. EINVAL: the reason says what is wrong and
/// which kinds and options there are.
Expected<std::vector<DeviceConfig>> parse_devices(const std::string& text);
Expected<std::vector<DeviceConfig>> configured_devices();

}  // namespace verbatim::agent
