// SPDX-License-Identifier: MIT
#include "device/connectx/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/trapped_memory.h"
#include "engine/qp_types.h"

namespace verbatim::connectx {

namespace {

/// An access of 1, 2, 4 or 8 bytes at `at` as one of an unsigned type; atomic where it is aligned.
template <class Word>
uint64_t operate(std::byte* at, MemicOperation operation, const TrappedAccess& access) {
  const auto value = static_cast<Word>(access.value);
  const bool aligned = reinterpret_cast<uintptr_t>(at) % sizeof(Word) == 0;
  auto* word = reinterpret_cast<Word*>(at);
  Word before = 0;
  if (operation == MemicOperation::kIncrement && access.store) {
    if (aligned) return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
    std::memcpy(&before, at, sizeof before);
    const auto sum = static_cast<Word>(before + value);
    std::memcpy(at, &sum, sizeof sum);
  } else if (operation == MemicOperation::kTestAndSet && !access.store) {
    constexpr auto kAll = static_cast<Word>(~uint64_t{0});
    if (aligned) return __atomic_exchange_n(word, kAll, __ATOMIC_SEQ_CST);
    std::memcpy(&before, at, sizeof before);
    std::memcpy(at, &kAll, sizeof kAll);
  } else if (!access.store) {
    std::memcpy(&before, at, sizeof before);
  }
  return before;
}

/// Carries out one operation on the memory of a Dm. Loads of what stores do read, stores to what loads do are
/// ignored.
class OperationTrap final : public Trap {
 public:
  OperationTrap(std::shared_ptr<OwnPages> pages, uint64_t bytes, MemicOperation operation)
      : pages_(std::move(pages)), bytes_(bytes), operation_(operation) {}

  uint64_t carry_out(const TrappedAccess& access) override {
    // The mapping ends with a page, the memory may end before.
    if (access.bytes > bytes_ || access.offset > bytes_ - access.bytes) return 0;
    std::byte* at = pages_->base() + access.offset;
    switch (access.bytes) {
      case 1:
        return operate<uint8_t>(at, operation_, access);
      case 2:
        return operate<uint16_t>(at, operation_, access);
      case 4:
        return operate<uint32_t>(at, operation_, access);
      default:
        return operate<uint64_t>(at, operation_, access);
    }
  }

 private:
  const std::shared_ptr<OwnPages> pages_;
  const uint64_t bytes_;
  const MemicOperation operation_;
};

uint64_t rounded_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

std::optional<uint64_t> DeviceRange::take(const hw::DmRange& range, uint64_t bytes, uint64_t alignment) {
  uint64_t place = range.start;
  for (const auto& [first, end] : taken_) {
    if (place <= first && first - place >= bytes) break;
    place = std::max(place, rounded_up(end, alignment));
  }
  if (place + bytes > range.start + (uint64_t{1} << range.log_bytes)) return {};
  taken_[place] = place + bytes;
  return place;
}

void describe_device_memory(hw::Limits& limits) {
  const auto range = [&](hw::DmKind kind) -> hw::DmRange& { return limits.dm[static_cast<size_t>(kind)]; };
  range(hw::DmKind::kMemic) = {0x10'0000'0000, 18, 6};
  range(hw::DmKind::kSteering) = {0x20'0000'0000, 26, 12};
  range(hw::DmKind::kHeaderModify) = {0x21'0000'0000, 24, 12};
  range(hw::DmKind::kHeaderModifyPattern) = {0x22'0000'0000, 22, 12};
  range(hw::DmKind::kEncapsulation) = {0x23'0000'0000, 22, 12};
  limits.log_dm_alignment_max = 12;
  if (!can_trap()) return;
  limits.dm_operations = 1u << static_cast<uint32_t>(MemicOperation::kIncrement) |
                         1u << static_cast<uint32_t>(MemicOperation::kTestAndSet);
  limits.dm_operation_sizes = 0b1111;
}

OwnPages::OwnPages(size_t bytes) : bytes_(bytes) {
  void* made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  base_ = made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
}

OwnPages::~OwnPages() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

DeviceMemory::DeviceMemory(const hw::Limits& limits) : limits_(limits) {}

DeviceMemory::~DeviceMemory() {
  while (DmObject* dm = all_.first()) {
    all_.remove(dm);
    delete dm;
  }
}

Expected<hw::Dm*> DeviceMemory::create(const hw::DmSpec& spec) {
  const bool tables = spec.kind != hw::DmKind::kMemic;
  const hw::DmRange& range = limits_.dm[static_cast<size_t>(spec.kind)];
  if (spec.bytes == 0) return Error{EINVAL, "the device memory's length is 0"};
  if (spec.bytes > uint64_t{1} << range.log_bytes)
    return Error{tables ? ENOMEM : EINVAL, "the device has less memory of this kind than that"};
  if (spec.log_alignment > (tables ? range.log_bytes : limits_.log_dm_alignment_max))
    return Error{EINVAL, "device memory cannot be aligned to 2^" + std::to_string(spec.log_alignment)};
  // Tables come in powers of two that lie at multiples of their size.
  const uint64_t unit = uint64_t{1} << range.log_granularity;
  const uint64_t bytes = tables ? std::bit_ceil(rounded_up(spec.bytes, unit)) : rounded_up(spec.bytes, unit);
  auto dm = std::make_unique<DmObject>();
  dm->kind = spec.kind;
  dm->bytes = spec.bytes;
  dm->pages = std::make_shared<OwnPages>(bytes);
  if ((dm->base = dm->pages->base()) == nullptr) return Error{ENOMEM, "no memory is left for device memory"};
  // What the parent of a fork has taken, and its lock, are not the child's.
  if ((dm->detached = spec.detached)) return static_cast<hw::Dm*>(dm.release());
  const std::lock_guard hold(lock_);
  const uint64_t alignment = std::max({unit, uint64_t{1} << spec.log_alignment, tables ? bytes : 0});
  const auto place = ranges_[static_cast<size_t>(spec.kind)].take(range, bytes, alignment);
  if (!place) return Error{ENOMEM, "the device has not so much memory of this kind left"};
  dm->device_address = *place;
  all_.add(dm.get());
  return static_cast<hw::Dm*>(dm.release());
}

Outcome DeviceMemory::destroy(hw::Dm* face) {
  auto* dm = static_cast<DmObject*>(face);
  if (dm->users != 0) return Error{EBUSY, "the device memory is still registered"};
  if (dm->detached) {
    delete dm;
    return Done{};
  }
  const std::lock_guard hold(lock_);
  ranges_[static_cast<size_t>(dm->kind)].give_back(dm->device_address);
  all_.remove(dm);
  delete dm;
  return Done{};
}

Outcome locate_in_dm(hw::MrSpec& spec) {
  auto* dm = static_cast<DmObject*>(spec.dm);
  uint32_t known = engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kZeroBased |
                   engine::kRelaxedOrdering;
  if (dm->kind == hw::DmKind::kMemic) known |= engine::kRemoteAtomic;
  if ((spec.access & ~known & ~0x3ff00000u) != 0)
    return Error{EINVAL, "access flags that this kind of device memory does not know"};
  if (spec.address > dm->bytes || spec.length > dm->bytes - spec.address)
    return Error{EINVAL, "the region reaches beyond its device memory"};
  spec.address += reinterpret_cast<uint64_t>(dm->base);
  return Done{};
}

Expected<void*> map_memic_operation(hw::Dm* face, uint32_t operation) {
  auto* dm = static_cast<DmObject*>(face);
  if (dm->kind != hw::DmKind::kMemic)
    return Error{EOPNOTSUPP, "this kind of device memory knows no operations"};
  if (operation > static_cast<uint32_t>(MemicOperation::kTestAndSet))
    return Error{EOPNOTSUPP, "device memory has no operation " + std::to_string(operation)};
  return map_trapped(dm->bytes, std::make_shared<OperationTrap>(dm->pages, dm->bytes,
                                                                static_cast<MemicOperation>(operation)));
}

}  // namespace verbatim::connectx
