// SPDX-License-Identifier: MIT
#include "tests/fuzz/memories.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/prm/memory.h"
#include "device/connectx/prm/view.h"
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
  make_list_keys();
}

// One with entries of their own lengths, two with pages; free until a queue entry says otherwise.
void Memories::make_list_keys() {
  using prm::CreateMkeyIn;
  using prm::Mkc;
  for (uint32_t i = 0; i < kListKeys; i++) {
    uint8_t in[CreateMkeyIn::kBits / 8] = {}, out[prm::CreateMkeyOut::kBits / 8] = {};
    const prm::Writer<CreateMkeyIn> box(in);
    box.set(CreateMkeyIn::opcode, prm::CreateMkey::kOpcode);
    box.set(CreateMkeyIn::uid, hw::Hca::kUserContext);
    const auto key = box[CreateMkeyIn::memory_key_mkey_entry];
    key.set(Mkc::access_mode_1_0, i < 2 ? prm::MkeyAccessMode::kKlms : prm::MkeyAccessMode::kKsm);
    key.set(Mkc::log_page_size, 12);
    key.set(Mkc::free, true);
    key.set(Mkc::umr_en, true);
    key.set(Mkc::en_rinval, i == 1);
    key.set(Mkc::pd, pd_->number);
    key.set(Mkc::qpn, 0xffffff);
    key.set(Mkc::translations_octword_size, kListRoom);
    hca_.execute(in, out);
    if (out[0] != 0) std::abort();
    list_keys_.push_back(prm::View<prm::CreateMkeyOut>(out)[prm::CreateMkeyOut::mkey_index]);
  }
}

Memories::~Memories() {
  using prm::DestroyMkeyIn;
  for (const uint32_t index : list_keys_) {
    uint8_t in[DestroyMkeyIn::kBits / 8] = {}, out[prm::DestroyMkeyOut::kBits / 8] = {};
    const prm::Writer<DestroyMkeyIn> box(in);
    box.set(DestroyMkeyIn::opcode, prm::DestroyMkey::kOpcode);
    box.set(DestroyMkeyIn::uid, hw::Hca::kUserContext);
    box.set(DestroyMkeyIn::mkey_index, index);
    hca_.execute(in, out);
    if (out[0] != 0) std::abort();
  }
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
  if (which == kCount - 1) return {0, list_keys_[0] << 8, qpn};
  const Memory& memory = all_[which];
  return {reinterpret_cast<uint64_t>(memory.base), memory.mr ? memory.mr->rkey : 0x1200, qpn};
}

bool Memories::surroundings_intact() const {
  for (const Memory& memory : all_)
    if (!is_canary(memory.base - kPage) || !is_canary(memory.base + Memory::kBytes)) return false;
  return true;
}

}  // namespace verbatim::fuzz
