// SPDX-License-Identifier: MIT
#include "tests/fuzz/verbs_arguments.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace verbatim::fuzz {

namespace {

constexpr size_t kReserved = size_t{1} << 34;
constexpr size_t kPage = 4096;

}  // namespace

Arena::Arena() {
  void* at = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  begin_ = static_cast<std::byte*>(at);
  if (at == MAP_FAILED || mprotect(at, kBytes, PROT_READ | PROT_WRITE) != 0 ||
      mprotect(begin_ + kBytes, kReadOnlyBytes, PROT_READ) != 0) {
    std::perror("memory for the arguments");
    std::abort();
  }
}

Arena::~Arena() { munmap(begin_, kReserved); }

uint32_t Arguments::entries() {
  if (!odd()) return random.between(1, 64);
  return random.one_in(3) ? random.below(3) : edge<uint32_t>() | 1 << 28;
}

void* Arguments::address() {
  std::byte* const usual = arena_.begin() + random.below(Arena::kBytes / 2);
  if (!odd()) return usual;
  switch (random.below(5)) {
    case 0:
      return nullptr;
    case 1:
      return arena_.read_only() + random.below(kPage);
    case 2:
      return arena_.hole();
    case 3:
      return arena_.begin() + Arena::kBytes - random.below(64);
    default:
      return reinterpret_cast<void*>(~uintptr_t{0} - random.below(2 * kPage));
  }
}

size_t Arguments::length() {
  const size_t usual = random.one_in(3) ? Arena::kBytes / 2 : random.between(1, 4 * kPage);
  if (!odd()) return usual;
  return random.one_in(4) ? size_t{random.below(3)} : edge<size_t>();
}

// Equal within a page, or it would not be a region; and never far from its memory, so that wrong addresses
// lead to where nothing is.
uint64_t Arguments::iova(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  if (random.one_in(2)) return at;
  return odd() ? random.below(kPage) : at % kPage + kPage * random.below(4);
}

}  // namespace verbatim::fuzz
