// SPDX-License-Identifier: MIT
#include "tests/fuzz/memories.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/prm/crypto.h"
#include "abi/prm/general.h"
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

struct ListKind {
  prm::MkeyAccessMode mode;
  uint32_t room;
  bool invalidatable, protects, encrypts;
};
/// With entries of their own lengths, and with pages; the last one is what a memory window is.
constexpr ListKind kListKinds[Memories::kListKeys] = {
    {prm::MkeyAccessMode::kKlms, 64, false, false, false},
    {prm::MkeyAccessMode::kKlms, 64, true, false, false},
    {prm::MkeyAccessMode::kKsm, 64, false, false, false},
    {prm::MkeyAccessMode::kKlms, 16, false, true, false},
    {prm::MkeyAccessMode::kKlms, 16, false, true, true},
    {prm::MkeyAccessMode::kKlms, 1, true, false, false},
};

/// A command that is carried out.
template <class Spec>
struct Mail {
  uint8_t sent[Spec::In::kBits / 8] = {}, got[Spec::Out::kBits / 8] = {};
  const prm::Writer<typename Spec::In> in{sent};
  const prm::View<typename Spec::Out> out{got};

  void send(hw::Hca& hca) {
    const prm::Writer<prm::MboxIn> head(sent);
    head.set(prm::MboxIn::opcode, Spec::kOpcode);
    head.set(prm::MboxIn::uid, hw::Hca::kUserContext);
    hca.execute(sent, got);
    if (got[0] != 0) std::abort();
  }
};

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
  make_protection();
}

// Free until a queue entry says otherwise.
void Memories::make_list_keys() {
  using prm::CreateMkeyIn;
  using prm::Mkc;
  for (const ListKind& kind : kListKinds) {
    Mail<prm::CreateMkey> mail;
    const auto key = mail.in[CreateMkeyIn::memory_key_mkey_entry];
    key.set(Mkc::access_mode_1_0, kind.mode);
    if (kind.mode == prm::MkeyAccessMode::kKsm) key.set(Mkc::log_page_size, 12);
    key.set(Mkc::free, true);
    key.set(Mkc::umr_en, true);
    key.set(Mkc::en_rinval, kind.invalidatable);
    key.set(Mkc::bsf_en, kind.protects);
    key.set(Mkc::crypto_en, kind.encrypts);
    key.set(Mkc::pd, pd_->number);
    key.set(Mkc::qpn, 0xffffff);
    key.set(Mkc::translations_octword_size, kind.room);
    mail.send(hca_);
    list_keys_.push_back(mail.out[prm::CreateMkeyOut::mkey_index]);
  }
}

void Memories::make_protection() {
  Mail<prm::CreatePsv> values;
  values.in.set(prm::CreatePsvIn::pd, pd_->number);
  values.in.set(prm::CreatePsvIn::num_psv, kValues);
  values.send(hca_);
  values_ = {values.out[prm::CreatePsvOut::psv0_index], values.out[prm::CreatePsvOut::psv1_index]};
  Mail<prm::CreateDek> mail;
  mail.in[prm::CreateEncryptionKeyObjIn::hdr].set(prm::GeneralObjInCmdHdr::obj_type, prm::CreateDek::kMod);
  const auto key = mail.in[prm::CreateEncryptionKeyObjIn::key_obj];
  key.set(prm::EncryptionKeyObj::key_purpose, prm::DekPurpose::kAesXts);
  key.set(prm::EncryptionKeyObj::key_size, prm::DekSize::k128);
  key.set(prm::EncryptionKeyObj::pd, pd_->number);
  for (size_t i = 0; i < 32; i++) key.set(prm::EncryptionKeyObj::key, i, random_.next());
  mail.send(hca_);
  encryption_key_ = mail.out[prm::GeneralObjOutCmdHdr::obj_id];
}

void Memories::end_protection() {
  for (const uint32_t value : values_) {
    Mail<prm::DestroyPsv> mail;
    mail.in.set(prm::DestroyPsvIn::psvn, value);
    mail.send(hca_);
  }
  Mail<prm::DestroyDek> mail;
  mail.in.set(prm::GeneralObjInCmdHdr::obj_type, prm::DestroyDek::kMod);
  mail.in.set(prm::GeneralObjInCmdHdr::obj_id, encryption_key_);
  mail.send(hca_);
}

Memories::~Memories() {
  for (const uint32_t index : list_keys_) {
    Mail<prm::DestroyMkey> mail;
    mail.in.set(prm::DestroyMkeyIn::mkey_index, index);
    mail.send(hca_);
  }
  end_protection();
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
  const uint32_t invalidatable = list_key(random_.one_in(2) ? kInvalidatable : kWindow);
  if (which >= kCount) return {0, list_key(which - kCount), qpn, invalidatable};
  const Memory& memory = all_[which];
  return {reinterpret_cast<uint64_t>(memory.base), memory.mr ? memory.mr->rkey : 0x1200, qpn, invalidatable};
}

bool Memories::surroundings_intact() const {
  for (const Memory& memory : all_)
    if (!is_canary(memory.base - kPage) || !is_canary(memory.base + Memory::kBytes)) return false;
  return true;
}

}  // namespace verbatim::fuzz
