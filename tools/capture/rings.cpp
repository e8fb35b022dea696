// SPDX-License-Identifier: MIT
#include "tools/capture/rings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace verbatim::capture {

using wire::tap::CaptureHeader;
using wire::tap::CaptureRecord;
using wire::tap::kCapturePage;
using wire::tap::RingHeader;

namespace {

constexpr size_t kTakenMax = 1 << 14;  ///< frames of one process at a time

template <size_t size>
std::string text_of(const char (&field)[size]) {
  char copy[size];
  std::memcpy(copy, field, size);  // the process may be writing
  return std::string(copy, strnlen(copy, size));
}

}  // namespace

Expected<std::unique_ptr<Rings>> Rings::create(const Wishes& wishes) {
  const int file = memfd_create("verbatim-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return Error{errno, "no memory for a capture"};
  std::unique_ptr<Rings> made(new Rings(file, wishes));
  const auto bytes = static_cast<off_t>(wire::tap::capture_bytes(wishes.ring_bytes));
  if (ftruncate(file, bytes) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return Error{errno, "no memory for a capture"};
  void* memory = mmap(nullptr, kCapturePage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return Error{errno, "no memory for a capture"};
  made->header_ = new (memory) CaptureHeader{};
  while (made->header_->number == 0)
    if (getrandom(&made->header_->number, sizeof made->header_->number, 0) < 0)
      made->header_->number = static_cast<uint64_t>(getpid());
  made->header_->ring_bytes = wishes.ring_bytes;
  made->header_->snap_bytes = wishes.snap_bytes;
  made->header_->qpn = wishes.qpn;
  made->header_->magic = CaptureHeader::kMagic;
  return made;
}

Rings::~Rings() {
  for (auto& [slot, ring] : rings_) munmap(ring.header, kCapturePage + wishes_.ring_bytes);
  if (header_) munmap(header_, kCapturePage);
  close(file_);
}

bool Rings::writes(uint32_t slot) const {
  return slot < wire::kSlotsMax &&
         header_->writers[slot / 64].load(std::memory_order_acquire) >> (slot % 64) & 1;
}

uint32_t Rings::writers() const {
  uint32_t count = 0;
  for (const auto& word : header_->writers) count += static_cast<uint32_t>(__builtin_popcountll(word.load()));
  return count;
}

void Rings::meet() {
  for (uint32_t slot = 0; slot < wire::kSlotsMax; slot++)
    if (writes(slot)) (void)map(slot);
}

Rings::Ring* Rings::map(uint32_t slot) {
  const auto known = rings_.find(slot);
  if (known != rings_.end()) return &known->second;
  const size_t bytes = kCapturePage + wishes_.ring_bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                      static_cast<off_t>(kCapturePage + bytes * slot));
  if (memory == MAP_FAILED) return nullptr;
  auto* header = static_cast<RingHeader*>(memory);
  return &rings_.emplace(slot, Ring{header, static_cast<uint8_t*>(memory) + kCapturePage}).first->second;
}

std::string Rings::name_of(const Ring& ring, uint32_t device) const {
  return text_of(ring.header->names[std::min(device, wire::tap::kNamesMax - 1)]);
}

// False: nothing more is there. A ring that makes no sense is emptied.
bool Rings::take_one(Ring& ring, uint64_t until_ns, std::vector<Captured>& out) const {
  const uint64_t ready = ring.header->head.load(std::memory_order_acquire) - ring.tail;
  const uint32_t at = static_cast<uint32_t>(ring.tail % wishes_.ring_bytes), left = wishes_.ring_bytes - at;
  if (ready == 0) return false;
  CaptureRecord record{};
  std::memcpy(&record, ring.bytes + at, std::min<size_t>(sizeof record, left));
  const bool rest = left < sizeof record || record.captured == 0;
  if (rest) record.bytes = left;
  const bool whole =
      ready <= wishes_.ring_bytes && record.bytes <= ready && record.bytes <= left && record.bytes % 8 == 0 &&
      (rest || (record.captured <= record.original && record.bytes >= sizeof record + record.captured));
  if (!whole) {
    ring.broken++;
    ring.tail += ready;
  } else if (rest) {
    ring.tail += left;
  } else {
    if (record.time_ns > until_ns) return false;
    const uint8_t* bytes = ring.bytes + at + sizeof record;
    out.push_back({name_of(ring, record.device),
                   {record.time_ns, record.inbound != 0, record.original, {bytes, bytes + record.captured}}});
    ring.tail += record.bytes;
  }
  ring.header->tail.store(ring.tail, std::memory_order_release);
  return true;
}

std::vector<Captured> Rings::take(uint64_t until_ns) {
  meet();
  std::vector<Captured> taken;
  for (auto& [slot, ring] : rings_) {
    const size_t most = taken.size() + kTakenMax;
    while (taken.size() < most && take_one(ring, until_ns, taken)) {
    }
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [](const Captured& a, const Captured& b) { return a.frame.time_ns < b.frame.time_ns; });
  return taken;
}

Losses Rings::losses() {
  Losses losses;
  for (const auto& [slot, ring] : rings_) {
    for (uint32_t device = 0; device < wire::tap::kNamesMax; device++)
      if (const uint64_t lost = ring.header->lost[device].load(std::memory_order_relaxed); lost > 0)
        losses[name_of(ring, device)] += lost;
    if (ring.broken > 0) losses[name_of(ring, 0)] += ring.broken;
  }
  return losses;
}

}  // namespace verbatim::capture
