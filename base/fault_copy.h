// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim {

/// Copies between memory of this process where either side may be a program's buffer that is no longer
/// mapped.
///
/// A device reports a bad buffer as an error completion; a plain memcpy would kill the program. The copy runs
/// in a known range of instructions; a SIGSEGV/SIGBUS handler that was installed by `install_fault_guard`
/// turns a fault there into a false result and hands every other fault to the handler that was there before.
/// Where the program has put its own handler in the place since (checked by `refresh_fault_guard`), the
/// kernel does the copy instead (process_vm_readv on ourselves): slower, equally safe.
///
/// All functions are thread safe and async-signal-safe, except install/refresh which take a lock.

/// Installs the handlers once per process; later calls do nothing. Called when a device is opened.
void install_fault_guard();

/// Notices a replaced handler; called on control paths (memory registration, queue creation) and now and
/// then.
void refresh_fault_guard();

/// Whether the handlers were in their place at the last look.
bool fault_guard_works();

/// Whether faults come here first whatever handlers the program installs, now or later.
bool sees_faults_first();

/// Copies `length` bytes. Returns false when either side cannot be accessed; part may then have been copied.
bool fault_copy(void* to, const void* from, size_t length);

#if defined(__x86_64__)
/// Four polynomials of as many times 128 bits as a register holds, and the two factors that move such a one
/// on.
struct alignas(64) FoldedSums {
  uint8_t sum[4][64];   ///< the result
  uint8_t factors[64];  ///< the same two, for each 128 bits
  uint32_t start;       ///< is added to the first bytes
};
/// Copies so many blocks of 256 bytes, 1 at least, and adds them up on the way: the sums are multiplied by
/// the factors before each block but the first (wire/format/crc32_x86.cpp). For processors with AVX-512 and
/// VPCLMULQDQ, and only where `fault_guard_works`.
bool fault_copy_folding_wide(void* to, const void* from, size_t blocks, FoldedSums& sums);
/// The same by blocks of 128 bytes, for processors with AVX2 and VPCLMULQDQ; of each sum half is used.
bool fault_copy_folding_double(void* to, const void* from, size_t blocks, FoldedSums& sums);
#endif

/// Adds to / compares and swaps the naturally aligned 64-bit word at `address` atomically; `*old` receives
/// the value before. Host byte order. False when the word cannot be read and written.
bool fault_fetch_add(uint64_t* address, uint64_t add, uint64_t* old);
bool fault_compare_swap(uint64_t* address, uint64_t compare, uint64_t swap, uint64_t* old);

}  // namespace verbatim
