// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/link/segment.h"
#include "wire/link/shm/layout.h"

namespace verbatim::wire::shm {

/// How a segment lies in a ring: a 32-byte header, the extensions it needs, the payload (or, when pulled, the
/// list of where it lies). An entry of `length` up to 32 bytes without extensions takes one slot.
struct EntryHeader {
  uint32_t stamp;
  uint16_t slots;
  uint8_t operation;  ///< Operation, and the transport above it; or kPad
  uint8_t form;       ///< EntryForm bits
  uint16_t flags;
  uint8_t syndrome;
  uint8_t service_level;
  uint32_t dest_qpn;
  uint32_t src_qpn;
  uint32_t psn;
  uint32_t length;
  uint32_t immediate;  ///< MSN in answers, a PSN with kAcknowledges
};
static_assert(sizeof(EntryHeader) == 32);

inline constexpr uint8_t kPad = 0xff;
inline constexpr uint8_t kTransportShift = 5, kOperationMask = (1 << kTransportShift) - 1;

enum EntryForm : uint8_t {
  kHasSharedQueue = 0x01,
  kHasSequence = 0x04,
  kHasRemote = 0x08,
  kHasAtomic = 0x10,
  kHasDatagram = 0x20,
  kPulled = 0x40,
  kHasConnection = 0x80,
};
inline constexpr uint8_t kExtensions =
    kHasSharedQueue | kHasSequence | kHasRemote | kHasAtomic | kHasDatagram | kHasConnection;

struct SequenceExt {
  uint32_t base_psn, packets;
  uint16_t other_pkey;  ///< its bits that are not the default's
  uint16_t reserved[3];
};
struct RemoteExt {
  uint64_t address;
  uint32_t rkey, total_length;
};
struct AtomicExt {
  uint64_t swap_or_add, compare;
};
struct DatagramExt {
  uint32_t qkey, flow_label_kinds;  ///< above the label its GID's type, and whether there is a GRH
  uint8_t traffic_class, hop_limit;
  uint16_t pkey;
  uint16_t source_lid, dest_lid;
  Gid source_gid, dest_gid;
};
struct SharedQueueExt {
  uint32_t number, reserved[3];
};
struct ConnectionExt {
  uint64_t access_key;
  uint32_t connection, reserved;
};
static_assert(sizeof(SharedQueueExt) == 16 && sizeof(ConnectionExt) == 16 && sizeof(SequenceExt) == 16 &&
              sizeof(RemoteExt) == 16 && sizeof(AtomicExt) == 16 && sizeof(DatagramExt) == 48);

/// A piece of the sender's memory in a pulled entry.
struct PulledPiece {
  uint64_t address, length;
};

/// Which extensions a segment needs.
uint8_t form_of(const Segment& segment);
/// Bytes of header and extensions of an entry of this form.
constexpr uint32_t sum_of_head(uint8_t form) {
  uint32_t bytes = sizeof(EntryHeader);
  if (form & kHasSequence) bytes += sizeof(SequenceExt);
  if (form & kHasRemote) bytes += sizeof(RemoteExt);
  if (form & kHasAtomic) bytes += sizeof(AtomicExt);
  if (form & kHasDatagram) bytes += sizeof(DatagramExt);
  if (form & kHasConnection) bytes += sizeof(ConnectionExt);
  if (form & kHasSharedQueue) bytes += sizeof(SharedQueueExt);
  return bytes;
}
inline constexpr auto kHeadBytes = [] {
  std::array<uint8_t, 256> bytes{};
  for (size_t form = 0; form < bytes.size(); form++)
    bytes[form] = static_cast<uint8_t>(sum_of_head(static_cast<uint8_t>(form)));
  return bytes;
}();
static_assert(sum_of_head(0xff) <= UINT8_MAX);
inline uint32_t head_bytes(uint8_t form) { return kHeadBytes[form]; }
/// Writes everything but the stamp; `at` has room for head_bytes(form).
void write_head(const Segment& segment, uint8_t form, uint16_t slots, std::byte* at);
/// Reads an entry's head out of memory that a peer may change meanwhile; `header` is the private copy of its
/// first 32 bytes. The fields are checked for sense, not for truth: false when they have none.
bool read_head(const EntryHeader& header, const std::byte* at, Segment& segment);

}  // namespace verbatim::wire::shm
