// SPDX-License-Identifier: MIT
#include "tests/fuzz/memories.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/status.h"

namespace verbatim::fuzz {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRoom = Memory::kBytes + 2 * kPage;
constexpr int kCanary = 0x6b;
constexpr uint32_t kAllRights =
    engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;

bool is_canary(const std::byte* page) {
  for (size_t i = 0; i < kPage; i++)
    if (page[i] != std::byte{kCanary}) return false;
  return true;
}

}  // namespace

Memories::Memories(hw::Hca& hca, hw::Pd* pd, Random& random) : hca_(hca), pd_(pd), random_(random) {
  for (uint32_t i = 0; i < kCount; i++) {
    Memory memory;
    void* room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) std::abort();
    std::memset(room, kCanary, kPage);
    memory.base = static_cast<std::byte*>(room) + kPage;
    std::memset(memory.base + Memory::kBytes, kCanary, kPage);
    if (i == 0) {
      if (auto made = hca_.create_mr(spec_of(memory, kAllRights))) memory.mr = *made;
      if (!memory.mr) std::abort();
    } else {
      enroll(memory);
    }
    all_.push_back(memory);
  }
}

Memories::~Memories() {
  // A region that was changed may name another's memory.
  for (const Memory& memory : all_)
    if (memory.mr) (void)hca_.destroy_mr(memory.mr);
  for (const Memory& memory : all_) munmap(memory.base - kPage, kRoom);
}

hw::MrSpec Memories::spec_of(const Memory& memory, uint32_t access) const {
  hw::MrSpec spec;
  spec.pd = pd_;
  spec.address = spec.start = reinterpret_cast<uint64_t>(memory.base);
  spec.length = Memory::kBytes;
  spec.access = access;
  return spec;
}

// Rights, address and kind at random; it need not succeed.
void Memories::enroll(Memory& memory) {
  if (random_.one_in(8)) {
    if (auto made = hca_.create_null_mr(pd_)) memory.mr = *made;
    return;
  }
  hw::MrSpec spec = spec_of(memory, random_.one_in(3) ? random_.below(16) : kAllRights);
  if (random_.one_in(4)) spec.access |= engine::kOnDemand;
  if (random_.one_in(4)) spec.start = random_.next();
  if (random_.one_in(4)) spec.length = 1 + random_.below(Memory::kBytes);
  if (auto made = hca_.create_mr(spec)) memory.mr = *made;
}

const Memory& Memories::pick() { return all_[random_.one_in(3) ? 0 : random_.below(kCount)]; }

void Memories::disturb() {
  Memory& memory = all_[1 + random_.below(kCount - 1)];
  if (memory.whole && random_.one_in(2)) {
    mprotect(memory.base + random_.below(8) * kPage, 8 * kPage, random_.one_in(2) ? PROT_NONE : PROT_READ);
    memory.whole = false;
  } else if (memory.mr && random_.one_in(6)) {
    (void)hca_.destroy_mr(memory.mr);
    memory.mr = nullptr;
  } else if (memory.mr && random_.one_in(3)) {
    const Memory& other = pick();
    (void)hca_.modify_mr(memory.mr, random_.below(8), spec_of(other, random_.below(16)));
  } else {
    mprotect(memory.base, Memory::kBytes, PROT_READ | PROT_WRITE);
    memory.whole = true;
    if (!memory.mr) enroll(memory);
  }
}

Target Memories::target(uint32_t which, uint32_t qpn) const {
  const Memory& memory = all_[which];
  return {reinterpret_cast<uint64_t>(memory.base), memory.mr ? memory.mr->rkey : 0x1200, qpn};
}

bool Memories::surroundings_intact() const {
  for (const Memory& memory : all_)
    if (!is_canary(memory.base - kPage) || !is_canary(memory.base + Memory::kBytes)) return false;
  return true;
}

}  // namespace verbatim::fuzz
