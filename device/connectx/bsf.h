// SPDX-License-Identifier: MIT
#pragma once

// What a program wrote as byte stream formats is turned into an engine::Protection.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "device/connectx/bsf_format.h"
#include "engine/protection/protection.h"

namespace verbatim::connectx {

class ProtectionDevice;

/// What a key of protection domain `pd` does to its bytes according to the BSF in front of a program's
/// update. Nullptr and `made`, or what is wrong with it.
const char* decode_bsf(std::span<const std::byte> bsf, const ProtectionDevice& device, uint32_t pd,
                       std::shared_ptr<engine::DataTransform>& made);

/// The signature error that a key has recorded, once.
std::optional<engine::SignatureFault> take_fault(engine::DataTransform& transform);
/// The next signature error is recorded even if there has been one.
void expect_signature_error(engine::DataTransform& transform);

/// For a key that was made for encryption and says no more: every access fails.
std::shared_ptr<engine::DataTransform> unconfigured_crypto();

}  // namespace verbatim::connectx
