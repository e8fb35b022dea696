// SPDX-License-Identifier: MIT
// Keys that are more than a piece of memory: accesses through them, and changes by work requests.
#include <algorithm>
#include <mutex>

#include "base/fault_copy.h"
#include "engine/memory_keys.h"
#include "engine/null_region.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kWriteRights = kLocalWrite | kRemoteWrite | kRemoteAtomic;
constexpr size_t kRetiredMax =
    64;  ///< replaced layouts that are kept before it is looked whether they may go
constexpr Refusal kTooDeep = "more memory keys stand for one another than the device follows";
constexpr Refusal kEnds = "the ranges of the indirect key end before its length does";

uint64_t wire_length(const KeyView& view, const KeyLayout* layout) {
  const bool transformed = layout && layout->transform();
  return transformed ? layout->transform()->wire_length(view.length) : view.length;
}

/// As check_key, for a key that an indirect one stands for.
Refusal check_target(const KeyView& view, uint32_t domain, uint32_t need, uint64_t address, uint64_t length) {
  if (view.domain != domain) return "a key behind the indirect key belongs to another protection domain";
  if ((view.access & need) != need) return "a key behind the indirect key does not grant local write access";
  return check_key(view, domain, need, address, length)
             ? "a range of the indirect key is not inside the memory behind it"
             : nullptr;
}

Refusal check_special(KeyView view, uint32_t depth, uint32_t domain, uint32_t need, uint64_t address,
                      uint64_t length, uint32_t queue) {
  if (view.access & kFreeKey)
    return "the memory key is free: no work request has given it memory, or one took it";
  if ((view.access & kBound) && view.queue != queue) return "the memory key is bound to another queue pair";
  if ((view.access & kNullRegion) && view.domain == kEveryDomain) view.domain = domain;
  view.length = wire_length(view, KeyTable::layout_of(view));
  return depth == 0 ? check_key(view, domain, need, address, length)
                    : check_target(view, domain, need, address, length);
}

}  // namespace

// One step on: from a range of an indirect key to the beginning of what it stands for. Rights beyond local
// writing are asked of the first key alone.
Refusal KeyTable::follow(const KeyView& view, Step& step) const {
  const KeyLayout* layout = layout_of(view);
  KeyLayout::Part part;
  if (!layout->find(step.address - view.start, part)) return kEnds;
  step.key = part.key;
  step.need = step.need & kWriteRights ? static_cast<uint32_t>(kLocalWrite) : 0u;
  step.address = part.address;
  step.queue = 0;
  step.length = std::min(step.length, part.length);
  return nullptr;
}

Refusal KeyTable::translate_special(KeyView& view, Step step, wire::Piece& piece) const {
  for (uint32_t depth = 0;; depth++) {
    if (depth > kIndirectionMax) return kTooDeep;
    if (depth > 0 && !read(step.key, view))
      return "a memory key that the indirect key stands for does not exist";
    if (Refusal why =
            check_special(view, depth, step.domain, step.need, step.address, step.length, step.queue))
      return why;
    if (view.access & kNullRegion) {
      piece = {step.need & kWriteRights ? null_sink() : null_source(), step.length};
      return piece.base && step.length <= kNullBytes ? nullptr : "the null region has no address space left";
    }
    if (!(view.access & kIndirect)) {
      piece = {reinterpret_cast<void*>(view.address + (step.address - view.start)), step.length};
      return nullptr;
    }
    if (step.length == 0 || layout_of(view)->transform()) {
      piece = {nullptr, 0};
      return nullptr;
    }
    if (Refusal why = follow(view, step)) return why;
  }
}

/// The memory domain of a key with a transform.
class KeyTable::TransformedMemory final : public DataTransform::Memory {
 public:
  TransformedMemory(const KeyTable& keys, const KeyView& view, const KeyLayout& layout, uint32_t depth,
                    KeyErrors* errors)
      : keys_(keys), view_(view), layout_(layout), depth_(depth), errors_(errors) {}
  uint64_t length() const override { return view_.length; }
  const char* read(uint64_t offset, void* to, size_t length) override {
    return move(offset, static_cast<std::byte*>(to), nullptr, length);
  }
  const char* write(uint64_t offset, const void* from, size_t length) override {
    return move(offset, nullptr, static_cast<const std::byte*>(from), length);
  }

 private:
  Refusal move(uint64_t offset, std::byte* to, const std::byte* from, uint64_t length) {
    if (offset > view_.length || length > view_.length - offset) return kEnds;
    while (length > 0) {
      KeyLayout::Part part;
      if (!layout_.find(offset, part)) return kEnds;
      const uint64_t bytes = std::min(length, part.length);
      const uint32_t need = from ? static_cast<uint32_t>(kLocalWrite) : 0u;
      if (Refusal why = keys_.copy({part.key, view_.domain, need, part.address, bytes, 0, errors_}, to, from,
                                   false, depth_))
        return why;
      if (to) to += bytes;
      if (from) from += bytes;
      offset += bytes;
      length -= bytes;
    }
    return nullptr;
  }

  const KeyTable& keys_;
  const KeyView& view_;
  const KeyLayout& layout_;
  const uint32_t depth_;
  KeyErrors* const errors_;
};

// Bytes that are not in memory as the wire has them: this key has a transform, or leads to one that has.
Refusal KeyTable::copy_special(Step& step, std::byte* to, const std::byte* from, bool last,
                               uint32_t depth) const {
  if (depth >= kIndirectionMax) return kTooDeep;
  KeyView view;
  if (!read(step.key, view)) return "no memory region has this key";
  if (Refusal why = check_special(view, depth, step.domain, step.need, step.address, step.length, step.queue))
    return why;
  const KeyLayout* layout = layout_of(view);
  if (!layout) return kEnds;
  if (layout->transform()) {
    DataTransform& transform = *layout->transform();
    TransformedMemory memory(*this, view, *layout, depth + 1, step.errors);
    const uint64_t offset = step.address - view.start;
    const uint32_t before = transform.errors();
    const Refusal why = to ? transform.to_wire(memory, offset, to, step.length)
                           : transform.to_memory(memory, offset, from, step.length, last);
    if (step.errors && transform.errors() != before) step.errors->on_key_error(view.key, transform);
    return why;
  }
  const uint64_t wanted = step.length;
  Step inner = step;
  if (Refusal why = follow(view, inner)) return why;
  step.length = inner.length;
  return copy(inner, to, from, last && inner.length == wanted, depth + 1);
}

Refusal KeyTable::copy(Step step, std::byte* to, const std::byte* from, bool last, uint32_t depth) const {
  while (step.length > 0) {
    wire::Piece piece;
    if (Refusal why =
            translate(step.key, step.domain, step.need, step.address, step.length, piece, step.queue))
      return why;
    uint64_t moved = piece.length;
    if (moved == 0) {
      Step part = step;
      if (Refusal why = copy_special(part, to, from, last, depth)) return why;
      moved = part.length;
    } else if (!(to ? fault_copy(to, piece.base, moved) : fault_copy(piece.base, from, moved))) {
      return "the memory behind the key is not mapped";
    }
    if (to) to += moved;
    if (from) from += moved;
    step.address += moved;
    step.length -= moved;
  }
  return nullptr;
}

Refusal KeyTable::load(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, void* to,
                       uint64_t length, KeyErrors* errors, uint32_t queue) const {
  return copy({key, domain, need, address, length, queue, errors}, static_cast<std::byte*>(to), nullptr,
              false, 0);
}

Refusal KeyTable::store(uint32_t key, uint32_t domain, uint32_t need, uint64_t address, const void* from,
                        uint64_t length, bool last, KeyErrors* errors, uint32_t queue) const {
  return copy({key, domain, need, address, length, queue, errors}, nullptr,
              static_cast<const std::byte*>(from), last, 0);
}

// With the lock held. Returns layouts that may be freed, once it is released.
KeyTable::Layouts KeyTable::retire(const KeyLayout* layout) {
  Layouts unused;
  retired_.emplace_back(layout);
  if (retired_.size() < kRetiredMax || (!waiting_.empty() && !AccessGuard::passed(waiting_since_)))
    return unused;
  unused.swap(waiting_);
  waiting_.swap(retired_);
  waiting_since_ = AccessGuard::begin();
  return unused;
}

Refusal KeyTable::update(uint32_t key, uint32_t domain, KeyChange& change) {
  Layouts unused;
  KeyView view;
  {
    std::lock_guard<SpinLock> hold(lock_);
    if (!look(key >> 8, view) || (change.exact && view.key != key)) return "no memory key has this number";
    if (!(view.access & kUpdatable))
      return "the key to change is a memory region's, which work requests leave alone";
    if (view.domain != domain) return "the key to change belongs to another protection domain";
    if (change.bound_to && (view.access & kBound) && view.queue != *change.bound_to)
      return "the key to change is bound to another queue pair";
    const bool is_free = (view.access & kFreeKey) != 0;
    if (change.must == KeyChange::Must::kBeFree && !is_free) return "the key to change is not free";
    if (change.must == KeyChange::Must::kBeInUse && is_free) return "the key to change is free";
    if (change.layout && !(view.access & kIndirect))
      return "the key to change does not stand for a list of ranges";
    Spec spec{view.domain,  (view.access & ~change.access_mask) | (change.access & change.access_mask),
              view.start,   view.length,
              view.address, view.queue};
    if (change.free) spec.access = *change.free ? spec.access | kFreeKey : spec.access & ~kFreeKey;
    if (change.free && *change.free) change.queue = 0;
    if (change.queue) {
      spec.queue = *change.queue;
      spec.access = spec.queue ? spec.access | kBound : spec.access & ~kBound;
    }
    if (change.start) spec.start = *change.start;
    if (change.length) spec.length = *change.length;
    const uint32_t renamed = change.variant ? (view.key & ~0xffu) | *change.variant : view.key;
    if (change.layout) {
      unused = retire(layout_of(view));
      spec.address = reinterpret_cast<uint64_t>(change.layout.release());
    }
    write(key >> 8, renamed, spec);
  }
  if (!(view.access & kFreeKey)) (void)AccessGuard::wait_for_others();
  return nullptr;
}

Refusal KeyTable::invalidate_for_peer(uint32_t key, uint32_t domain, uint32_t queue) {
  KeyView view;
  if (!read(key, view) || !(view.access & kUpdatable))
    return "the key to invalidate is not one that work requests change";
  if (!(view.access & kRemoteInvalidate)) return "the key to invalidate is not one that peers may free";
  KeyChange change;
  change.free = true;
  change.exact = true;
  change.bound_to = queue;
  change.must = KeyChange::Must::kBeInUse;
  return update(key, domain, change);
}

}  // namespace verbatim::engine
