// SPDX-License-Identifier: MIT
#pragma once

// The reading side of a capture: the shared memory (wire/link/tap/capture_file.h) and what processes write
// there, in the order of time.

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "tools/capture/pcapng.h"
#include "wire/link/tap/capture_file.h"

namespace verbatim::capture {

/// A frame, and the device of the process that has sent or got it.
struct Captured {
  std::string device;  ///< empty: the process has not said
  Frame frame;
};

/// What was lost for want of room, by device.
using Losses = std::map<std::string, uint64_t>;

class Rings {
 public:
  struct Wishes {
    uint32_t ring_bytes, snap_bytes, qpn;
  };
  static Expected<std::unique_ptr<Rings>> create(const Wishes& wishes);
  ~Rings();

  /// The memory, for the agent.
  int file() const { return file_; }
  /// How many processes write.
  uint32_t writers() const;
  bool writes(uint32_t slot) const;
  /// Frames up to that time, oldest first. What a process writes later may be older than the last.
  std::vector<Captured> take(uint64_t until_ns);
  Losses losses();

 private:
  /// Of a slot.
  struct Ring {
    wire::tap::RingHeader* header;
    const uint8_t* bytes;
    uint64_t tail = 0;
    uint64_t broken = 0;  ///< times that it made no sense
  };
  Rings(int file, const Wishes& wishes) : file_(file), wishes_(wishes) {}
  void meet();
  Ring* map(uint32_t slot);
  bool take_one(Ring& ring, uint64_t until_ns, std::vector<Captured>& out) const;
  std::string name_of(const Ring& ring, uint32_t device) const;

  const int file_;
  const Wishes wishes_;
  wire::tap::CaptureHeader* header_ = nullptr;
  std::map<uint32_t, Ring> rings_;
};

}  // namespace verbatim::capture
