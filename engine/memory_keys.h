// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/expected.h"
#include "base/spinlock.h"
#include "engine/access_guard.h"
#include "engine/key_errors.h"
#include "engine/key_layout.h"
#include "engine/published.h"
#include "engine/status.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

/// A consistent copy of a published key.
struct KeyView {
  uint32_t key = 0, access = 0, domain = 0, queue = 0;
  uint64_t start = 0, length = 0, address = 0;
};

/// Why an access is refused in one clause, or nullptr when it is allowed.
using Refusal = const char*;

/// Reads the entry of `key` out of another process's published tables. False: no such key now.
bool read_key(const Published& published, uint32_t key, KeyView& view);

/// The one place where a key is checked: domain, rights, range. A `length` of 0 always passes the range
/// check.
Refusal check_key(const KeyView& view, uint32_t domain, uint32_t need, uint64_t address, uint64_t length);

/// Domain of a null region that all domains may use.
inline constexpr uint32_t kEveryDomain = 0;

/// How many keys an access may lead through, one standing for ranges of the next.
inline constexpr uint32_t kIndirectionMax = 4;

/// What a work request changes about a key. What is not given stays as it is.
struct KeyChange {
  enum class Must : uint8_t { kAny, kBeFree, kBeInUse };
  Must must = Must::kAny;            ///< else it is refused
  bool exact = false;                ///< the key's low byte must fit, too
  std::optional<uint32_t> bound_to;  ///< it must be this queue pair's, or nobody's
  std::optional<uint32_t> queue;     ///< whose it becomes; 0: everybody's
  std::optional<bool> free;
  std::optional<uint8_t> variant;
  std::optional<uint64_t> start, length;
  uint32_t access_mask = 0, access = 0;  ///< which rights change, and to what
  std::unique_ptr<const KeyLayout> layout;
};

/// The memory keys of this process. Thread safe. Look-ups happen inside an AccessScope.
class KeyTable {
 public:
  /// `first`: the index to begin with, so that keys of different processes seldom have the same number.
  KeyTable(Published& published, wire::Fabric& fabric, uint32_t first = kFirstIndex);
  ~KeyTable();

  struct Spec {
    uint32_t domain = 0;
    uint32_t access = 0;  ///< engine::Access, and kNullRegion and the like
    uint64_t start = 0, length = 0, address = 0;
    uint32_t queue = 0;  ///< with kBound
  };
  /// Makes a key (index << 8 | variant; indices below kFirstIndex are never given). ENOMEM: all are taken.
  /// The variant is the caller's if it gives one, else another than the index had before.
  Expected<uint32_t> create(const Spec& spec, std::optional<uint8_t> variant = {});
  /// The same for a key over ranges of others; `layout` may be empty, but has to be there.
  Expected<uint32_t> create_indirect(Spec spec, std::unique_ptr<const KeyLayout> layout,
                                     std::optional<uint8_t> variant = {});
  /// The same with the number `wanted`, if nobody here has it: a key that another process has made keeps its
  /// number if it can.
  Expected<uint32_t> create_namesake(uint32_t wanted, Spec spec, std::unique_ptr<const KeyLayout> layout);
  /// Replaces what the key stands for; returns when no access under the old meaning runs anywhere.
  void replace(uint32_t key, const Spec& spec);
  /// Ends it; returns when no access runs anywhere. Must not be called inside an AccessScope. The key's low
  /// byte does not matter.
  void destroy(uint32_t key);

  /// Changes a key as a work request of `domain` asks; nullptr, or the refusal.
  /// Called inside an AccessScope. Accesses of other threads under the old meaning have ended soon after.
  Refusal update(uint32_t key, uint32_t domain, KeyChange& change);
  /// Frees a key that a peer names.
  Refusal invalidate_for_peer(uint32_t key, uint32_t domain, uint32_t queue);
  /// What is published of the key with that index. False: there is none.
  bool look(uint32_t index, KeyView& view) const;
  /// The layout of an indirect key, nullptr: none. Inside an AccessScope.
  static const KeyLayout* layout_of(const KeyView& view) {
    return view.access & kIndirect ? reinterpret_cast<const KeyLayout*>(view.address) : nullptr;
  }

  /// Turns an element of a work request into memory of this process: nullptr and `piece`, or the refusal.
  /// `need`: rights besides reading. A null region gives memory of zeroes, or a sink when `need` has a write
  /// right.
  ///
  /// An indirect key gives the first piece of the range: it is shorter than `length` if more follow, and
  /// empty if the bytes are not in memory as the wire has them (DataTransform).
  /// `queue`: the queue pair that asks, which keys may be bound to.
  Refusal translate(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, uint64_t length,
                    wire::Piece& piece, uint32_t queue = 0) const;

  /// Copies bytes out of the memory of an element, whatever the key is. `need`: rights besides reading.
  /// `errors` hears of those that a transform records.
  Refusal load(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, void* to, uint64_t length,
               KeyErrors* errors = nullptr, uint32_t queue = 0) const;
  /// Copies bytes into it. `last`: the transfer ends with them.
  Refusal store(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, const void* from,
                uint64_t length, bool last, KeyErrors* errors = nullptr, uint32_t queue = 0) const;

  /// Reads as zero and swallows writes, for every domain's own requests.
  static constexpr uint32_t kNullKey = 0x200;
  static constexpr uint32_t kFirstIndex = 16;  ///< smaller keys mean something of their own in queue entries

 private:
  /// An access on its way through indirect keys.
  struct Step {
    uint32_t key, domain, need;
    uint64_t address, length;
    uint32_t queue;
    KeyErrors* errors = nullptr;
  };
  class TransformedMemory;
  using Layouts = std::vector<std::unique_ptr<const KeyLayout>>;

  uint32_t take_number(std::optional<uint32_t> wanted);
  bool take_free(uint32_t wanted);
  uint32_t turn_of(uint32_t index) const {
    return index >= first_ ? index - first_ : index - kFirstIndex + kKeysMax - first_;
  }
  bool read(uint32_t key, KeyView& view) const;
  void write(uint32_t index, uint32_t key, const Spec& spec);
  void wait_for_users();
  Refusal translate_special(KeyView& view, Step step, wire::Piece& piece) const;
  Refusal follow(const KeyView& view, Step& step) const;
  Refusal copy(Step step, std::byte* to, const std::byte* from, bool last, uint32_t depth) const;
  Refusal copy_special(Step& step, std::byte* to, const std::byte* from, bool last, uint32_t depth) const;
  Layouts retire(const KeyLayout* layout);

  Published& published_;
  wire::Fabric& fabric_;
  SpinLock lock_;
  std::vector<uint32_t> free_;  ///< full keys of free entries, so that the next variant is known
  const uint32_t first_;
  uint32_t given_ = 0;                  ///< indices given out, from first_ on and around
  std::unordered_set<uint32_t> early_;  ///< given before their turn
  // Layouts that work requests have replaced, until no access can be using them.
  Layouts retired_;  ///< the newest
  Layouts waiting_;  ///< for the readers that were there at `waiting_since_`
  uint64_t waiting_since_ = 0;
};

}  // namespace verbatim::engine
