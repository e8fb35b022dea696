// SPDX-License-Identifier: MIT
#include "device/connectx/memory_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "base/process_map.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::connectx {

namespace {

Error unmapped(uint64_t address, bool mapped) {
  char text[96];
  std::snprintf(text, sizeof text, "memory at 0x%" PRIx64 " %s", address,
                mapped ? "does not have the rights that the region asks for" : "is not mapped");
  return Error{EFAULT, text};
}

}  // namespace

Outcome check_range(uint64_t address, uint64_t length, bool write) {
  if (length == 0) return Done{};
  const uint64_t end = address + length;
  if (end < address) return Error{EINVAL, "the range wraps around the address space"};
  const ProcessMap map;
  Mapping mapping;
  auto answer = ProcessMap::Answer::kMapped;
  for (uint64_t at = address; at < end; at = mapping.end) {
    answer = map.find(at, mapping);
    if (answer == ProcessMap::Answer::kUnknown) break;
    if (answer == ProcessMap::Answer::kUnmapped) return unmapped(at, false);
    if (!mapping.readable || (write && !mapping.writable)) return unmapped(at, true);
  }
  if (answer != ProcessMap::Answer::kUnknown) return Done{};
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = address & ~(page - 1);
  if (madvise(reinterpret_cast<void*>(first), end - first,
              write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
    return unmapped(address, errno == EFAULT);
  return Done{};
}

}  // namespace verbatim::connectx
