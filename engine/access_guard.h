// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/asymmetric_fence.h"

namespace verbatim::engine {

/// Lets an owner wait until every reader that might still hold an old value has finished (read-copy-update in
/// user space). A reader pays a few plain stores and never blocks; it may nest. A wait costs some
/// microseconds.
///
/// A thread is a reader of all guards of its process at once, so a wait may last a little longer than it
/// must.
class AccessGuard {
 public:
  // Without the null checks of the undefined behaviour sanitizer: of the address of a thread's own variable
  // GCC takes the verdict from the flags of an addition, which the linker turns into one that sets none.
  __attribute__((no_sanitize("null"))) static void enter() {
    Reader& reader = mine ? *mine : admit();
    if (reader.depth++ != 0) return;
    reader.since.store(epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
    light_fence(false);
  }
  __attribute__((no_sanitize("null"))) static void leave() {
    if (--mine->depth == 0) mine->since.store(0, std::memory_order_release);
  }

  /// Returns when all readers that entered before the call have left. Must not be called by a reader.
  static void wait();

  /// The same in two steps, for a reader: what it hands over with `begin` is done with once `passed`.
  static uint64_t begin();
  /// Whether all readers that entered before that `begin` have left, its caller included. Never blocks; may
  /// say no too often.
  static bool passed(uint64_t begun);
  /// For a reader: waits a little while for all others that entered before the call. False: some are still
  /// inside.
  static bool wait_for_others();

  /// In the child of a fork, whose only thread is the caller and no reader: the parent's other threads are
  /// not here.
  static void after_fork_child();

 private:
  struct alignas(64) Reader {
    std::atomic<uint64_t> since{0};  ///< epoch in which it entered, 0: outside
    uint32_t depth = 0;
  };
  struct Membership;
  struct Members;
  static Members& members();
  static Reader& admit();
  static bool inside_since(const Reader& reader, uint64_t period);

  static std::atomic<uint64_t> epoch;
  static constinit thread_local Reader* mine __attribute__((tls_model("initial-exec")));
};

/// A reader's section.
class AccessScope {
 public:
  AccessScope() { AccessGuard::enter(); }
  ~AccessScope() { AccessGuard::leave(); }
  AccessScope(const AccessScope&) = delete;
  AccessScope& operator=(const AccessScope&) = delete;
};

}  // namespace verbatim::engine
