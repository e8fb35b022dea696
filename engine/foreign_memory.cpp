// SPDX-License-Identifier: MIT
#include "engine/foreign_memory.h"

namespace verbatim::engine {

namespace {

/// While it exists, the other process ends no key of its own.
class ForeignAccess {
 public:
  explicit ForeignAccess(wire::Channel& process) : process_(process), ticket_(process.enter_access()) {}
  ~ForeignAccess() { process_.leave_access(ticket_); }
  ForeignAccess(const ForeignAccess&) = delete;
  ForeignAccess& operator=(const ForeignAccess&) = delete;

 private:
  wire::Channel& process_;
  const uint32_t ticket_;
};

const Published* tables_of(const wire::Channel& process) {
  return reinterpret_cast<const Published*>(process.testament());
}

}  // namespace

bool read_foreign_key(wire::Channel& process, uint32_t index, KeyView& view) {
  if (index >= kKeysMax || !process.alive()) return false;
  const ForeignAccess access(process);
  const Published* tables = tables_of(process);
  if (!tables) return false;
  const uint32_t key = tables->keys[index].key.load(std::memory_order_relaxed);
  return key >> 8 == index && read_key(*tables, key, view);
}

// A range that the key at hand allows lies in what was registered; whether that is still so is looked up each
// time, because the other process's program decides.
const char* ForeignMemory::move(uint64_t offset, const wire::Piece& here, bool write) {
  const ForeignAccess access(process_);
  const Published* tables = tables_of(process_);
  KeyView now;
  if (!tables || !process_.alive()) return "the process whose memory region was imported has ended";
  if (!read_key(*tables, original_.key, now))
    return "the process whose memory region was imported has deregistered it";
  if (check_key(now, original_.domain, write ? static_cast<uint32_t>(kLocalWrite) : 0, now.start + offset,
                here.length))
    return "the process whose memory region was imported has changed it";
  const uint64_t there = now.address + offset;
  return (write ? process_.write_direct(there, &here, 1) : process_.read_direct(there, &here, 1))
             ? nullptr
             : "the memory behind the imported region is not mapped there, or the kernel forbids to reach it";
}

}  // namespace verbatim::engine
