// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "device/connectx/objects.h"

namespace verbatim::connectx {

/// UAR pages by number, and the queues whose doorbells are rung on them. Thread safe; its lock is taken
/// before those of queues.
///
/// A register keeps only what was stored last, and a program may have rung for several queues meanwhile: a
/// store is taken as a hint that any queue of the page was rung. Their doorbell records tell which.
class UarTable {
 public:
  explicit UarTable(size_t most) : most_(most) {}

  /// A new page's number. ENOMEM: all are taken.
  Expected<uint32_t> take(uint16_t uid);
  /// ENOENT, or EBUSY: queues are still rung there.
  Outcome give_back(uint16_t uid, uint32_t page);

  enum class Doorbell : uint8_t { kSend, kArm };
  /// Calls `look` whenever a doorbell of this kind may have been rung for the queue, until let go. `queue`
  /// names it. ENOENT: the user has no such page.
  Outcome hold(uint16_t uid, uint32_t page, Doorbell doorbell, const void* queue, std::function<void()> look);
  /// For a queue whose doorbells somebody else takes.
  Outcome hold(uint16_t uid, uint32_t page);
  /// Returns when the queue is not touched any more. nullptr: of the second kind.
  void let_go(uint32_t page, const void* queue);

  void ring(uint32_t page, Doorbell doorbell);
  /// Whether a user context has pages.
  bool has_some_of(uint16_t uid);

 private:
  struct Bell {
    Doorbell doorbell;
    const void* queue;
    std::function<void()> look;
  };
  struct Page {
    uint16_t maker;
    uint32_t users = 0;
    std::vector<Bell> bells;
  };
  Page* own(uint16_t uid, uint32_t page);

  const size_t most_;
  std::mutex lock_;
  NumberSpace numbers_;
  std::unordered_map<uint32_t, Page> pages_;
};

}  // namespace verbatim::connectx
