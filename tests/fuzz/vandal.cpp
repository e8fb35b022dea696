// SPDX-License-Identifier: MIT
#include "tests/fuzz/vandal.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/published_objects.h"

namespace verbatim::fuzz {

using wire::shm::Inbound;
using wire::shm::kRingSlots;
using wire::shm::kSlotBytes;

namespace {

// A program here has few objects; these are the table entries that are looked at.
constexpr uint32_t kLiveKeys = 16;
constexpr uint32_t kFirstQp = 16, kLiveQps = 16;
constexpr uint32_t kSlotsLookedAt = 64;

}  // namespace

Vandal::Vandal(Random& random)
    : random_(random),
      published_(own_mappings("memfd:verbatim-published")),
      own_inbound_(own_mappings("memfd:verbatim-inbound")) {
  for (std::byte* memory : own_inbound_) inboxes_.push_back({reinterpret_cast<Inbound*>(memory), {}});
}

void Vandal::aim_at_peers(bool only) {
  if (only) published_.clear(), inboxes_.clear();
  for (std::byte* memory : own_mappings("memfd:verbatim-inbound"))
    if (std::find(own_inbound_.begin(), own_inbound_.end(), memory) == own_inbound_.end())
      inboxes_.push_back({reinterpret_cast<Inbound*>(memory), {}});
}

// Noise, a bit, a step, or an end of the range: checks fail at their edges.
template <class T>
void Vandal::spoil(T& place) {
  auto* word = reinterpret_cast<volatile uint32_t*>(&place) + random_.below((sizeof(T) + 3) / 4);
  switch (random_.below(5)) {
    case 0:
      *word = static_cast<uint32_t>(random_.next());
      return;
    case 1:
      *word = *word ^ (1u << random_.below(32));
      return;
    case 2:
      *word = *word + random_.below(9) - 4;
      return;
    case 3:
      *word = random_.below(64);
      return;
    default:
      *word = random_.one_in(2) ? 0 : ~0u;
  }
}

void Vandal::spoil_words(void* from, size_t bytes) {
  auto* words = static_cast<uint32_t*>(from);
  spoil(words[random_.below(static_cast<uint32_t>(bytes / 4))]);
}

void Vandal::strike_published(std::byte* file) {
  auto& tables = *reinterpret_cast<engine::Published*>(file + wire::shm::kPage);
  if (random_.one_in(64)) return spoil_words(file, wire::shm::kPage + sizeof tables);
  switch (random_.below(5)) {
    case 0:
      return spoil(*reinterpret_cast<wire::shm::PublishedPrefix*>(file));
    case 1:
      return spoil(tables.header);
    case 2:
      return spoil(tables.reasons[random_.below(engine::kReasonsMax)]);
    case 3:
      return spoil(tables.qps[kFirstQp + random_.below(kLiveQps)]);
    default:
      return spoil(tables.keys[random_.below(kLiveKeys)]);
  }
}

// An entry that its reader takes for one, of fields that make sense one by one.
void Vandal::forge_entry(const Inbox& inbox, uint32_t sender) {
  wire::shm::Slot(&ring)[kRingSlots] = inbox.memory->rings[sender];
  const uint32_t head = inbox.memory->controls[sender].head.load(std::memory_order_relaxed);
  const uint32_t position = head + random_.below(kRingSlots / 4);
  wire::shm::Slot& slot = ring[position % kRingSlots];
  wire::shm::EntryHeader header;
  std::memcpy(&header, &slot, sizeof header);
  if (random_.one_in(2)) random_.fill(&header, sizeof header);
  header.slots = static_cast<uint16_t>(1 + random_.below(random_.one_in(4) ? kRingSlots : 4));
  header.operation = random_.one_in(16) ? wire::shm::kPad : static_cast<uint8_t>(random_.below(9));
  if (random_.one_in(2)) header.form = static_cast<uint8_t>(random_.next());
  if (random_.one_in(2)) header.flags = static_cast<uint16_t>(random_.next() & 0xff);
  if (random_.one_in(2)) header.length = random_.below(random_.one_in(4) ? 1u << 31 : 9000);
  if (random_.one_in(2)) header.psn += random_.below(5) - 2;
  std::memcpy(slot.rest, &header.slots, sizeof header - sizeof header.stamp);
  slot.stamp.store(wire::shm::stamp_of(position), std::memory_order_release);
}

void Vandal::strike_inbound(Inbox& inbox) {
  Inbound& inbound = *inbox.memory;
  if (inbox.senders.empty() || random_.one_in(1000)) {
    inbox.senders.clear();
    for (uint32_t slot = 0; slot < kSlotsLookedAt; slot++)
      if (inbound.controls[slot].owner.load(std::memory_order_relaxed) != 0) inbox.senders.push_back(slot);
    if (inbox.senders.empty()) inbox.senders.push_back(1);
  }
  if (random_.one_in(64)) return spoil_words(&inbound, sizeof inbound);
  const uint32_t sender = inbox.senders[random_.below(static_cast<uint32_t>(inbox.senders.size()))];
  switch (random_.below(7)) {
    case 0:
      return spoil(inbound.header);
    case 1:
      return spoil(inbound.access[sender]);
    case 2:
      return spoil(inbound.controls[sender]);
    case 3:
    case 4:
      return spoil(inbound.rings[sender][random_.below(kRingSlots)]);
    default:
      return forge_entry(inbox, sender);
  }
}

void Vandal::strike() {
  const size_t targets = published_.size() + inboxes_.size();
  if (targets == 0) return;
  const size_t which = random_.below(static_cast<uint32_t>(targets));
  which < published_.size() ? strike_published(published_[which])
                            : strike_inbound(inboxes_[which - published_.size()]);
}

}  // namespace verbatim::fuzz
