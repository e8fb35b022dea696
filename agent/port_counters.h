// SPDX-License-Identifier: MIT
#pragma once

// Counters of devices' ports, summed over processes: what they show in their published memory, and what those
// showed that have gone.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/published.h"

namespace verbatim::agent {

/// Of one port, by engine::PortCount.
struct PortSums {
  std::array<uint64_t, engine::kPortCounts> counts{};
  uint64_t operator[](engine::PortCount what) const { return counts[static_cast<size_t>(what)]; }
};

/// By the devices' places in the list.
using HostSums = std::array<PortSums, engine::kPortsShown>;

/// Adds what the process behind a file of published memory shows. Believes nothing: what is not in order is
/// left out.
void add_counts(int published_file, HostSums& sums);

/// A file below ports/1 of a device in /sys/class/infiniband.
struct CounterFile {
  const char* path;  ///< "counters/port_xmit_data"
  uint64_t (*value)(const PortSums& sums);
};
/// All of them. Those that count what cannot happen here are always 0.
std::span<const CounterFile> counter_files();

/// Sums that outlive the agent, in a file. Empty path: they do not.
void store_sums(const std::string& path, const HostSums& sums);
HostSums load_sums(const std::string& path);

}  // namespace verbatim::agent
