// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "device/connectx/formats.h"
#include "device/connectx/key_list.h"
#include "engine/memory_keys.h"
#include "engine/work.h"

namespace verbatim::connectx {

class ProtectionDevice;

/// What send queue entries ask of the device itself: changes of memory keys (UMR) and copies (MMO). An entry
/// may hold anything.
class LocalOperations {
 public:
  /// `domain`: of the queue pair.
  LocalOperations(engine::KeyTable& keys, const ProtectionDevice& protection, uint32_t domain)
      : keys_(keys), protection_(protection), domain_(domain) {}

  /// As engine::SendQueue::perform, for the bytes of an entry.
  engine::SendQueue::Performed perform(std::span<const std::byte> entry, bool outstanding,
                                       engine::Status& status, const char*& reason);

 private:
  const char* update_key(std::span<const std::byte> entry, bool outstanding, bool& later);
  const char* read_list(std::span<const std::byte> rest, const UmrControlSegment& control,
                        const engine::KeyShape& shape, uint32_t queue, KeyList& list);
  const char* copy(std::span<const std::byte> entry, engine::Status& status);

  const char* change_protection(const UmrControlSegment& control, const UmrKeySegment& key,
                                std::span<const std::byte> bsf, const engine::KeyShape& shape,
                                std::shared_ptr<engine::DataTransform>& transform) const;
  const char* set_psv(std::span<const std::byte> entry) const;

  engine::KeyTable& keys_;
  const ProtectionDevice& protection_;
  const uint32_t domain_;
};

}  // namespace verbatim::connectx
