// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/expected.h"
#include "base/spinlock.h"
#include "engine/access_guard.h"
#include "engine/published.h"
#include "engine/status.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

/// A consistent copy of a published key.
struct KeyView {
  uint32_t key = 0, access = 0, domain = 0;
  uint64_t start = 0, length = 0, address = 0;
};

/// Why an access is refused in one clause, or nullptr when it is allowed.
using Refusal = const char*;

/// Reads the entry of `key` out of a process's published tables, own or foreign. False: no such key now.
bool read_key(const Published& published, uint32_t key, KeyView& view);

/// The one place where a key is checked: domain, rights, range. A `length` of 0 always passes the range
/// check.
Refusal check_key(const KeyView& view, uint32_t domain, uint32_t need, uint64_t address, uint64_t length);

/// In PublishedKey::access: the null memory region, which reads as zero and swallows writes.
inline constexpr uint32_t kNullRegion = 1u << 31;

/// The memory keys of this process. Thread safe. Look-ups happen inside an AccessScope.
class KeyTable {
 public:
  KeyTable(Published& published, wire::Fabric& fabric);

  struct Spec {
    uint32_t domain = 0;
    uint32_t access = 0;
    uint64_t start = 0, length = 0, address = 0;
  };
  /// Makes a key (index << 8 | variant; indices 0 and 1 are never given). ENOMEM: all are taken. The variant is
  /// the caller's if it gives one, else another than the index had before.
  Expected<uint32_t> create(const Spec& spec, std::optional<uint8_t> variant = {});
  /// Replaces what the key stands for; returns when no access under the old meaning runs anywhere.
  void replace(uint32_t key, const Spec& spec);
  /// Ends it; returns when no access runs anywhere. Must not be called inside an AccessScope.
  void destroy(uint32_t key);

  /// Turns an element of a work request into memory of this process: nullptr and `piece`, or the refusal.
  /// `need`: rights besides reading. A null region gives memory of zeroes, or a sink when `need` has a write
  /// right.
  Refusal translate(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, uint64_t length,
                    wire::Piece& piece) const;

 private:
  void write(uint32_t index, uint32_t key, const Spec& spec);
  void wait_for_users();

  Published& published_;
  wire::Fabric& fabric_;
  SpinLock lock_;
  std::vector<uint32_t> free_;  ///< full keys of free entries, so that the next variant is known
  uint32_t next_ = kFirstIndex;
  static constexpr uint32_t kFirstIndex = 2;
};

}  // namespace verbatim::engine
