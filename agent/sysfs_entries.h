// SPDX-License-Identifier: MIT
#pragma once

// What Linux shows of RDMA devices below /sys and /dev, as data.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/port_counters.h"
#include "agent/port_view.h"

namespace verbatim::agent {

/// What the tree says of one device.
struct SysfsDevice {
  std::string name;  ///< "mlx5_0"
  uint32_t index = 0;
  uint64_t guid = 0;  ///< host order
  std::string firmware;
  uint32_t part_id = 0;  ///< PCI device, decimal 4129: MT4129
  uint32_t speed_mbps = 0;
  bool data_direct = false, infiniband = false;
  std::vector<uint16_t> pkeys{};  ///< as DeviceConfig
};

/// Where the Data Direct function of a device with this index lies below /sys: "/devices/pci...".
std::string data_direct_path(uint32_t index);

/// A file, a folder, a symbolic link or another name of a file or link that comes before it. A counter is a
/// file that somebody else keeps up to date once it is there.
struct SysfsEntry {
  enum class Kind : uint8_t { kFile, kFolder, kLink, kCounter, kTwin };
  std::string path;  ///< below the root of the tree, without a leading slash; its folders come before it
  Kind kind = Kind::kFile;
  std::string text;  ///< contents, where the link points, or that file's path
};

/// The PCI function that a device seems to be: "5642:01:00.0".
std::string pci_address(uint32_t device_index);

/// The tree of these devices: class/infiniband, class/infiniband_verbs, bus/pci, the PCI functions below
/// devices/, and dev/infiniband, whose entries are character devices that hold nothing.
/// Counters are as `sums` has them.
std::vector<SysfsEntry> sysfs_entries(const std::vector<SysfsDevice>& devices, const PortView& port,
                                      const HostSums& sums = {});

}  // namespace verbatim::agent
