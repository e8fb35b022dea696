// SPDX-License-Identifier: MIT
#include "engine/null_region.h"

#include <sys/mman.h>
#include <unistd.h>

namespace verbatim::engine {

namespace {

constexpr size_t kSinkChunk = 4u << 20;

// One small file mapped over and over: writes land somewhere, nobody reads them.
void* make_sink() {
  void* area = mmap(nullptr, kNullBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  const int file = memfd_create("verbatim-null", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kSinkChunk) != 0) {
    if (file >= 0) close(file);
    munmap(area, kNullBytes);
    return nullptr;
  }
  for (size_t at = 0; at < kNullBytes; at += kSinkChunk) {
    const size_t bytes = kNullBytes - at < kSinkChunk ? kNullBytes - at : kSinkChunk;
    void* piece =
        mmap(static_cast<char*>(area) + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    if (piece == MAP_FAILED) {
      close(file);
      munmap(area, kNullBytes);
      return nullptr;
    }
  }
  close(file);
  return area;
}

void* make_source() {
  void* area = mmap(nullptr, kNullBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return area == MAP_FAILED ? nullptr : area;
}

}  // namespace

void* null_source() {
  static void* const area = make_source();
  return area;
}

void* null_sink() {
  static void* const area = make_sink();
  return area;
}

}  // namespace verbatim::engine
