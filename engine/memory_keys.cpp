// SPDX-License-Identifier: MIT
#include "engine/memory_keys.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <mutex>

namespace verbatim::engine {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kReadAttempts = 1000;
constexpr uint32_t kSpecial =
    kNullRegion | kIndirect | kFreeKey | kBound;  ///< more than an addition of addresses

/// Whose tables are read. A foreign writer that died mid-write must not hang the reader; one of this process
/// that was preempted goes on.
enum class Tables : uint8_t { kForeign, kOwn };

uint32_t index_at(uint32_t first, uint32_t turn) {
  return turn < kKeysMax - first ? first + turn : KeyTable::kFirstIndex + turn - (kKeysMax - first);
}

/// Copies what is published under that index.
template <Tables tables>
inline bool read_entry(const Published& published, uint32_t index, KeyView& view) {
  if (index >= kKeysMax) return false;
  const PublishedKey& entry = published.keys[index];
  for (int attempt = 0; attempt < kReadAttempts || tables == Tables::kOwn; attempt++) {
    const uint32_t before = entry.sequence.load(std::memory_order_acquire);
    if (before & 1) {
      attempt < kReadAttempts ? spin_pause() : static_cast<void>(sched_yield());
      continue;
    }
    view.key = entry.key.load(kRelaxed);
    view.access = entry.access.load(kRelaxed);
    view.domain = entry.domain.load(kRelaxed);
    view.start = entry.start.load(kRelaxed);
    view.length = entry.length.load(kRelaxed);
    view.address = entry.address.load(kRelaxed);
    view.queue = entry.queue.load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.sequence.load(kRelaxed) == before) return view.key != 0;
  }
  return false;
}

}  // namespace

bool read_key(const Published& published, uint32_t key, KeyView& view) {
  return read_entry<Tables::kForeign>(published, key >> 8, view) && view.key == key;
}

Refusal check_key(const KeyView& view, uint32_t domain, uint32_t need, uint64_t address, uint64_t length) {
  if (view.domain != domain) return "the key belongs to another protection domain";
  if ((view.access & need) != need) return "the key does not grant this kind of access";
  if (length == 0) return nullptr;
  if (address < view.start || length > view.length || address - view.start > view.length - length)
    return "the address range is not inside the memory region";
  return nullptr;
}

KeyTable::KeyTable(Published& published, wire::Fabric& fabric, uint32_t first)
    : published_(published), fabric_(fabric), first_(first) {
  write(kNullKey >> 8, kNullKey, {kEveryDomain, kNullRegion | kLocalWrite, 0, UINT64_MAX, 0, 0});
}

KeyTable::~KeyTable() {
  KeyView view;
  for (uint32_t turn = 0; turn < given_; turn++)
    if (const uint32_t index = index_at(first_, turn); !early_.contains(index) && look(index, view))
      delete layout_of(view);
  for (const uint32_t index : early_)
    if (look(index, view)) delete layout_of(view);
}

// With the lock held: an entry that nobody has.
bool KeyTable::take_free(uint32_t wanted) {
  const uint32_t index = wanted >> 8;
  if (index < kFirstIndex || index >= kKeysMax || early_.contains(index)) return false;
  if (turn_of(index) >= given_) {
    early_.insert(index);
    return true;
  }
  const auto found =
      std::find_if(free_.begin(), free_.end(), [index](uint32_t key) { return key >> 8 == index; });
  if (found == free_.end()) return false;
  free_.erase(found);
  return true;
}

// With the lock held; 0: all are taken.
uint32_t KeyTable::take_number(std::optional<uint32_t> wanted) {
  if (wanted && take_free(*wanted)) return *wanted;
  if (!free_.empty()) {
    // The variant byte moves on, so that a key kept too long by a peer does not fit the next owner.
    const uint32_t old = free_.back();
    free_.pop_back();
    return (old & ~0xffu) | ((old + 1) & 0xff);
  }
  while (given_ < kKeysMax - kFirstIndex)
    if (const uint32_t index = index_at(first_, given_++); !early_.contains(index)) return index << 8;
  return 0;
}

bool KeyTable::look(uint32_t index, KeyView& view) const {
  return read_entry<Tables::kOwn>(published_, index, view);
}

bool KeyTable::read(uint32_t key, KeyView& view) const { return look(key >> 8, view) && view.key == key; }

void KeyTable::write(uint32_t index, uint32_t key, const Spec& spec) {
  PublishedKey& entry = published_.keys[index];
  const uint32_t sequence = entry.sequence.load(kRelaxed);
  entry.sequence.store(sequence + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.key.store(key, kRelaxed);
  entry.access.store(spec.access, kRelaxed);
  entry.domain.store(spec.domain, kRelaxed);
  entry.start.store(spec.start, kRelaxed);
  entry.length.store(spec.length, kRelaxed);
  entry.address.store(spec.address, kRelaxed);
  entry.queue.store(spec.queue, kRelaxed);
  entry.sequence.store(sequence + 2, std::memory_order_release);
}

Expected<uint32_t> KeyTable::create(const Spec& spec, std::optional<uint8_t> variant) {
  std::lock_guard<SpinLock> hold(lock_);
  uint32_t key = take_number({});
  if (key == 0) return Error{ENOMEM, "all memory keys of this process are in use"};
  if (variant) key = (key & ~0xffu) | *variant;
  write(key >> 8, key, spec);
  return key;
}

Expected<uint32_t> KeyTable::create_indirect(Spec spec, std::unique_ptr<const KeyLayout> layout,
                                             std::optional<uint8_t> variant) {
  spec.access |= kIndirect;
  spec.address = reinterpret_cast<uint64_t>(layout.get());
  Expected<uint32_t> key = create(spec, variant);
  if (key) (void)layout.release();
  return key;
}

Expected<uint32_t> KeyTable::create_namesake(uint32_t wanted, Spec spec,
                                             std::unique_ptr<const KeyLayout> layout) {
  spec.access |= kIndirect;
  spec.address = reinterpret_cast<uint64_t>(layout.get());
  std::lock_guard<SpinLock> hold(lock_);
  const uint32_t key = take_number(wanted);
  if (key == 0) return Error{ENOMEM, "all memory keys of this process are in use"};
  write(key >> 8, key, spec);
  (void)layout.release();
  return key;
}

void KeyTable::wait_for_users() {
  AccessGuard::wait();
  fabric_.wait_for_peers();
}

void KeyTable::replace(uint32_t key, const Spec& spec) {
  {
    std::lock_guard<SpinLock> hold(lock_);
    write(key >> 8, key, spec);
  }
  wait_for_users();
}

void KeyTable::destroy(uint32_t key) {
  KeyView view;
  Layouts unused;
  {
    std::lock_guard<SpinLock> hold(lock_);
    if (!look(key >> 8, view)) return;
    write(key >> 8, 0, Spec{});
    unused.swap(retired_);
    unused.insert(unused.end(), std::move_iterator(waiting_.begin()), std::move_iterator(waiting_.end()));
    waiting_.clear();
    unused.emplace_back(layout_of(view));
  }
  wait_for_users();
  std::lock_guard<SpinLock> hold(lock_);
  early_.erase(view.key >> 8);
  if (turn_of(view.key >> 8) < given_) free_.push_back(view.key);
}

Refusal KeyTable::translate(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, uint64_t length,
                            wire::Piece& piece, uint32_t queue) const {
  KeyView view;
  if (!read(key, view)) return "no memory region has this key";
  if (view.access & kSpecial) [[unlikely]]
    return translate_special(view, {key, domain, need, address, length, queue}, piece);
  if (Refusal why = check_key(view, domain, need, address, length)) return why;
  piece = {reinterpret_cast<void*>(view.address + (address - view.start)), length};
  return nullptr;
}

}  // namespace verbatim::engine
