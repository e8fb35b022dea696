// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "base/expected.h"

namespace verbatim {

/// Who is called for stores to trapped pages.
class StoreSink {
 public:
  virtual ~StoreSink() = default;
  /// A thread has stored `value` at `offset` of the page (of more than 8 bytes, the first 8); memory keeps
  /// what it was. Runs on that thread, where the program itself could have called: locks may be taken.
  virtual void on_store(std::byte* page, size_t offset, uint64_t value) = 0;
  /// A thread is about to store there in a way that cannot be carried out here. After this call it tries
  /// again: the pages must be writable then.
  virtual void on_opaque_store() = 0;
};

/// Most pages that can be trapped at a time.
inline constexpr size_t kStoreTrapsMax = 1024;

/// Makes every store to the page of 4096 bytes call `sink`; loads see memory. ENOSPC: too many are trapped.
/// The page must be mapped, and is read-only from then on. Thread safe.
Outcome trap_stores(std::byte* page, StoreSink& sink);

/// Ends it; returns when no thread is in a call for the page. It stays read-only. Not to be called by a sink.
void end_store_trap(std::byte* page);

/// In a forked child: forgets all traps, and makes the pages writable. What is stored goes nowhere.
void forget_store_traps();

/// For the handler of SIGSEGV: true when the fault was a store to a trapped page, and the thread goes on.
bool carry_out_store(const siginfo_t& info, void* context);

}  // namespace verbatim
