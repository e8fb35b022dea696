// SPDX-License-Identifier: MIT
#pragma once

// The memory between who captures and the processes that are captured: one sparse, sealed file, in which each
// process has a ring of its own by its slot. The capturing tool makes it, and believes nothing that it finds
// there.
//
// A ring is bytes, and records in them whole words, one behind the other; one that would not fit before the
// end begins at the start, behind a record without a frame. `head` and `tail` count bytes and never go back.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/link/shm/neighborhood.h"

namespace verbatim::wire::tap {

inline constexpr size_t kCapturePage = 4096;
inline constexpr uint32_t kNamesMax = 16;  ///< devices of a process that are told apart

struct CaptureHeader {
  static constexpr uint64_t kMagic = 0x5645524243415031;
  uint64_t magic;
  uint64_t number;                                ///< of this capture, not 0
  uint32_t ring_bytes;                            ///< of each process, a multiple of 8
  uint32_t snap_bytes;                            ///< of a packet that are wanted
  uint32_t qpn;                                   ///< of either end; kAnyQpn: all
  std::atomic<uint64_t> writers[kSlotsMax / 64];  ///< slots whose rings are in use
};

struct RingHeader {
  std::atomic<uint64_t> head;                         ///< bytes written so far
  alignas(64) std::atomic<uint64_t> tail;             ///< bytes read so far
  alignas(64) std::atomic<uint64_t> lost[kNamesMax];  ///< packets that found no room, by device
  char names[kNamesMax][32];                          ///< of devices
};
static_assert(sizeof(CaptureHeader) <= kCapturePage && sizeof(RingHeader) <= kCapturePage);

struct CaptureRecord {
  uint32_t bytes;     ///< of this record, its frame included
  uint32_t captured;  ///< bytes of the frame that are here; 0: only the rest of the ring
  uint32_t original;  ///< bytes of the frame
  uint8_t device;     ///< whose name is at that place
  uint8_t inbound;    ///< 1: came in; 0: was sent
  uint16_t reserved;
  uint64_t time_ns;  ///< CLOCK_REALTIME
};
static_assert(sizeof(CaptureRecord) == 24);

inline constexpr size_t kRecordBytesMax = sizeof(CaptureRecord) + 65536 + 64;
inline constexpr uint32_t kRingBytesMin = 1 << 18, kRingBytesMax = 1u << 30;

/// Of a slot's ring: its header, and a page behind that the bytes.
inline size_t ring_offset(const CaptureHeader& header, uint32_t slot) {
  return kCapturePage + (kCapturePage + header.ring_bytes) * size_t{slot};
}
inline size_t capture_bytes(uint32_t ring_bytes) {
  return kCapturePage + (kCapturePage + size_t{ring_bytes}) * kSlotsMax;
}

}  // namespace verbatim::wire::tap
