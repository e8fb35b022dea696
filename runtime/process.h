// SPDX-License-Identifier: MIT
#pragma once

// What a process that uses devices has once: its place among the others (agent), its wire, its engine and the
// engine's thread. Made when the first device is opened, taken down when the last one is closed, abandoned in
// the child of a fork.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/xrc_domains.h"
#include "base/expected.h"
#include "device/hw/hca.h"
#include "device/hw/raw_doorbells.h"

namespace verbatim::runtime {

/// A device that may be opened.
struct DeviceEntry {
  std::string name;                                           ///< "mlx5_0"
  std::string provider;                                       ///< library of its host side: "mlx5"
  uint32_t index = 0;                                         ///< position in the list, 0 first
  uint64_t guid = 0;                                          ///< node GUID, host order
  bool data_direct = false, lag = false, infiniband = false;  ///< as agent::DeviceConfig
  std::vector<uint16_t> pkeys;                                ///< as agent::DeviceConfig
  std::string outlet;                                         ///< as agent::DeviceConfig
  std::string pci_address;  ///< of the function that it seems to be: "5642:01:00.0"
};

/// The devices that VERBATIM_DEVICES names, by default one. Does not need the agent. Error: EINVAL the
/// variable makes no sense.
Expected<std::vector<DeviceEntry>> list_devices();

/// A process among those of its host and user, as others find it.
struct ProcessPlace {
  uint32_t slot = 0;
  uint64_t generation = 0;
  bool operator==(const ProcessPlace&) const = default;
};

/// Why a wait has ended.
enum class Waited : uint8_t {
  kReadable,
  kInterrupted,  ///< by a signal
  kNoPackets,    ///< nothing can come from other hosts: wait as usual
};

/// An opened device and its hold on the process's engine. Destroying it takes its remaining objects down; in
/// the child of a fork one that came from the parent is forgotten instead, and must not be used before
/// either.
class OpenDevice {
 public:
  virtual ~OpenDevice() = default;
  virtual hw::Hca& hca() = 0;
  /// Where its raw doorbells are seen.
  virtual hw::RawDoorbells& doorbells() = 0;
  /// Waits for a file to become readable, and takes in what other hosts send meanwhile.
  virtual Waited wait(int file) = 0;
  /// The identity of a file's XRC domain on this device, never 0. EAGAIN: there is none, and none is to be
  /// made, or the agent is away; EINVAL: there is one, and it was to be `exclusive`.
  virtual Expected<uint64_t> open_xrc_domain(const agent::XrcFile& file, bool create, bool exclusive) = 0;
  virtual void close_xrc_domain(uint64_t identity) = 0;
  /// This process.
  virtual ProcessPlace place() const = 0;
  /// The way to another's memory; nullptr: it is this one. ESRCH: it has ended.
  virtual Expected<wire::Channel*> find_process(const ProcessPlace& place) = 0;
  /// A descriptor of a file that the process of that place has open as `file`, for this one to close. ESRCH:
  /// it has ended; EOPNOTSUPP: the kernel does not allow it.
  virtual Expected<int> borrow_file(const ProcessPlace& place, int file) = 0;
};

/// Opens a device. Errors: whatever kept the process from joining the agent, ENOMEM.
/// `sink` takes its events until the result is destroyed. Thread safe.
Expected<std::unique_ptr<OpenDevice>> open_device(const DeviceEntry& device, hw::EventSink& sink);

}  // namespace verbatim::runtime
