// SPDX-License-Identifier: MIT
#pragma once

// The two shared memory files of a process, as its peers map them.
//
//  published  (sealed: peers can only read it)   prefix page | the engine's tables
//  inbound    (peers write)                      header | access counters, one line per sender | ring
//  controls | rings
//
// A ring is an array of 64-byte slots with one producing process. An entry takes consecutive slots; the first
// begins with a stamp that is stored last and names the entry's position, so that a consumer touches one
// cache line for a small message. Before an entry is stamped, the slot behind it is made sure not to
// look stamped: payload bytes of an earlier lap are cleared there. One slot therefore always stays free.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/link/shm/neighborhood.h"

namespace verbatim::wire::shm {

inline constexpr size_t kPage = 4096;
inline constexpr uint32_t kSlotBytes = 64;
inline constexpr uint32_t kRingSlots = 2048;
inline constexpr uint32_t kEagerBytesMax = 8192;

struct PublishedPrefix {
  static constexpr uint64_t kMagic = 0x5645525055423032;
  uint64_t magic;
  uint32_t slot, reserved;
  uint64_t generation;
  uint64_t probe_address;  ///< where `probe_nonce` also lies in the process's private memory
  uint64_t probe_nonce;
  std::atomic<uint32_t> access_epoch;  ///< parity that new accesses count under
  std::atomic<uint32_t> polled_on;  ///< 1 + the processor on which a thread last polled in vain, 0: none yet
  std::atomic<uint32_t> lingers;    ///< threads that stay for an answer after they have rung
};
static_assert(sizeof(PublishedPrefix) <= kPage);

struct InboundHeader {
  static constexpr uint64_t kMagic = 0x564552494e423031;
  uint64_t magic;
  alignas(64) std::atomic<uint32_t> attention;  ///< 1: wake me after a push
  std::atomic<uint32_t> fences_alone;           ///< 1: the owner cannot run heavy fences, senders must fence
  alignas(64) std::atomic<uint32_t> changes;    ///< grows when `senders` changes
  std::atomic<uint64_t> senders[kSlotsMax / 64];
};

struct alignas(64) AccessCounters {
  std::atomic<uint32_t> count[2];
};

struct alignas(64) RingControl {
  std::atomic<uint64_t> owner;             ///< generation of the sending process, 0: free
  alignas(64) std::atomic<uint32_t> head;  ///< slots consumed, published lazily
  std::atomic<uint32_t> wants_room;        ///< the sender waits: wake it when `head` moves
};
static_assert(sizeof(RingControl) == 128);

struct alignas(64) Slot {
  std::atomic<uint32_t> stamp;
  std::byte rest[kSlotBytes - 4];
};
static_assert(sizeof(Slot) == kSlotBytes);

struct Inbound {
  InboundHeader header;
  alignas(kPage) AccessCounters access[kSlotsMax];
  alignas(kPage) RingControl controls[kSlotsMax];
  alignas(kPage) Slot rings[kSlotsMax][kRingSlots];
};

/// The stamp of the entry that begins at running slot position `position`; never 0.
inline uint32_t stamp_of(uint32_t position) { return position * 2 + 1; }

}  // namespace verbatim::wire::shm
