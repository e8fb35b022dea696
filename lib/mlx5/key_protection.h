// SPDX-License-Identifier: MIT
#pragma once

// What the library knows of a memory key's signatures and encryption: the settings, so that an update can say
// them again beside new ones, and the error that the device has reported last.

#include <optional>

#include "device/connectx/formats.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5 {

/// How far settings have come. An update says what is new; what was set stays on the device.
enum class Setting : uint8_t {
  kNone,
  kDropped,  ///< by the update under construction
  kSet,
  kNew,  ///< by the update under construction
};

/// mlx5dv_sig_block_domain, without pointers into the program's memory.
struct SignatureSettings {
  enum class Kind : uint8_t { kNone, kT10Dif, kCrc };
  Kind kind = Kind::kNone;
  mlx5dv_sig_t10dif dif{};
  mlx5dv_sig_crc crc{};
  mlx5dv_block_size block_size{};
};

struct KeySignatures {
  uint32_t memory_psv = 0, wire_psv = 0;
  Setting setting = Setting::kNone;
  SignatureSettings memory, wire;
  uint32_t flags = 0;
  uint8_t check_mask = 0, copy_mask = 0;
  // Guarded by ContextState::signature_lock.
  uint32_t error_count = 1;   ///< the device compares its lowest bit
  bool count_changed = true;  ///< and has to be told
  std::optional<connectx::SignatureErrorCqe> error;
};

struct KeyEncryption {
  Setting setting = Setting::kNone;
  mlx5dv_crypto_attr attributes{};
};

}  // namespace verbatim::mlx5
