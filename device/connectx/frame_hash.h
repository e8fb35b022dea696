// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/prm/receive_steering.h"
#include "device/connectx/prm/view.h"
#include "engine/frame_headers.h"

namespace verbatim::connectx {

inline constexpr size_t kToeplitzKeyBytes = 40;

/// The Toeplitz hash of so many bytes, kToeplitzKeyBytes - 4 at most.
uint32_t toeplitz(const std::array<uint8_t, kToeplitzKeyBytes>& key, const uint8_t* bytes, size_t count);

/// How frames are spread over receive queues: what a TIR's context says of it.
class FrameHash {
 public:
  struct Result {
    uint32_t value = 0;
    uint8_t kind = 0;  ///< Cqe's kHash*: which fields it is of
  };
  explicit FrameHash(prm::View<prm::Tirc> context);
  /// 0 for a frame that does not have the headers.
  Result of(const engine::FrameHeaders& frame) const;
  /// Whether completions tell of the packet in a tunnel.
  bool looks_into_tunnels() const { return looks_into_tunnels_; }

 private:
  bool has_fields(const engine::FrameHeaders& frame, const engine::PacketHeaders& packet) const;
  uint8_t kind() const;

  prm::RxHash function_;
  bool symmetric_;  ///< both directions of a connection give the same
  bool looks_into_tunnels_;
  bool inner_;  ///< the fields are those of the packet in a tunnel
  bool ipv6_, udp_;
  uint32_t fields_;
  std::array<uint8_t, kToeplitzKeyBytes> key_;
};

}  // namespace verbatim::connectx
