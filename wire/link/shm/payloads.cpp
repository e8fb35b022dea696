// SPDX-License-Identifier: MIT
#include "wire/link/shm/payloads.h"

#include <algorithm>

#include "base/fault_copy.h"
#include "wire/link/shm/cross_memory.h"
#include "wire/link/shm/peer_channel.h"

namespace verbatim::wire::shm {

namespace {

size_t bytes_of(const Piece* pieces, uint32_t count) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < count; i++) bytes += pieces[i].length;
  return bytes;
}

char* at(const Piece& piece, size_t offset) { return static_cast<char*>(piece.base) + offset; }

/// Cuts [offset, offset + length) out of a list.
uint32_t cut(const Piece* pieces, uint32_t count, size_t offset, size_t length, Piece* out) {
  uint32_t made = 0;
  for (uint32_t i = 0; i < count && length > 0; i++) {
    if (offset >= pieces[i].length) {
      offset -= pieces[i].length;
      continue;
    }
    const size_t take = std::min(pieces[i].length - offset, length);
    out[made++] = {at(pieces[i], offset), take};
    length -= take;
    offset = 0;
  }
  return made;
}

// A failed copy does not say which side is to blame: one byte of every page of the source tells.
bool readable(const char* from, size_t length) {
  constexpr size_t kStep = 4096;
  char probe;
  for (size_t done = 0; done < length; done += kStep)
    if (!fault_copy(&probe, from + done, 1)) return false;
  return length == 0 || fault_copy(&probe, from + length - 1, 1);
}

}  // namespace

CopyResult GatheredPayload::copy_to(size_t offset, const Piece* pieces, uint32_t count) {
  uint32_t source = 0;
  while (source < count_ && offset >= pieces_[source].length) offset -= pieces_[source++].length;
  for (uint32_t i = 0; i < count; i++) {
    for (size_t done = 0; done < pieces[i].length;) {
      if (source == count_) return CopyResult::kSourceFault;
      const size_t chunk = std::min(pieces[i].length - done, pieces_[source].length - offset);
      const char* from = at(pieces_[source], offset);
      if (!fault_copy(at(pieces[i], done), from, chunk))
        return readable(from, chunk) ? CopyResult::kDestinationFault : CopyResult::kSourceFault;
      done += chunk;
      offset += chunk;
      if (offset == pieces_[source].length) source++, offset = 0;
    }
  }
  return CopyResult::kDone;
}

CopyResult PulledPayload::copy_to(size_t offset, const Piece* pieces, uint32_t count) {
  Piece there[kPiecesMax];
  const uint32_t there_count = cut(there_, count_, offset, bytes_of(pieces, count), there);
  if (!peer_.cross_memory()) return CopyResult::kForbidden;
  switch (read_from(peer_.pid(), pieces, count, there, there_count)) {
    case CrossResult::kDone:
      return CopyResult::kDone;
    case CrossResult::kForbidden:
      return CopyResult::kForbidden;
    case CrossResult::kFault:
      break;
  }
  return find_fault(there, there_count);
}

CopyResult PulledPayload::find_fault(const Piece* there, uint32_t there_count) {
  constexpr size_t kPage = 4096;
  for (uint32_t i = 0; i < there_count; i++)
    for (size_t done = 0; done < there[i].length;
         done += kPage - (reinterpret_cast<uintptr_t>(there[i].base) + done) % kPage) {
      char probe;
      const Piece mine{&probe, 1}, theirs{at(there[i], done), 1};
      const CrossResult result = read_from(peer_.pid(), &mine, 1, &theirs, 1);
      if (result == CrossResult::kForbidden) return CopyResult::kForbidden;
      if (result == CrossResult::kFault) return CopyResult::kSourceFault;
    }
  return CopyResult::kDestinationFault;
}

}  // namespace verbatim::wire::shm
