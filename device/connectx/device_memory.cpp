// SPDX-License-Identifier: MIT
#include "device/connectx/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  OperationTrap(std::shared_ptr<Pages> pages, uint64_t bytes, MemicOperation operation)
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
  const std::shared_ptr<Pages> pages_;
  const uint64_t bytes_;
  const MemicOperation operation_;
};

constexpr uint64_t kPage = 4096;

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

Pages::Pages(size_t bytes) : bytes_(bytes) {
  void* made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  base_ = made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
}

Pages::Pages(int file, size_t bytes) : bytes_(bytes), file_(file) {
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  base_ = made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
}

std::shared_ptr<Pages> Pages::shareable(size_t bytes) {
  const int file = memfd_create("verbatim-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Nobody may take away what others have mapped.
  if (file >= 0 && ftruncate(file, static_cast<off_t>(rounded_up(bytes, kPage))) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
    return of(file, bytes);
  if (file >= 0) close(file);
  return std::make_shared<Pages>(bytes);
}

std::shared_ptr<Pages> Pages::of(int file, size_t bytes) {
  return std::shared_ptr<Pages>(new Pages(file, bytes));
}

Pages::~Pages() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (file_ >= 0) close(file_);
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
  dm->pages = tables ? std::make_shared<Pages>(bytes) : Pages::shareable(bytes);
  dm->file = dm->pages->file();
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

Expected<hw::Dm*> DeviceMemory::import(int file, uint64_t bytes) {
  auto pages = Pages::of(file, bytes);
  struct stat about {};
  if (fstat(file, &about) != 0 || bytes == 0 || static_cast<uint64_t>(about.st_size) < bytes)
    return Error{EINVAL, "the device memory's file is shorter than it says"};
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return Error{EINVAL, "the device memory's file may be cut short by others"};
  if (pages->base() == nullptr) return Error{ENOMEM, "the device memory cannot be mapped"};
  auto dm = std::make_unique<DmObject>();
  dm->kind = hw::DmKind::kMemic;
  dm->imported = true;
  dm->bytes = bytes;
  dm->base = pages->base();
  dm->file = file;
  dm->pages = std::move(pages);
  const std::lock_guard hold(lock_);
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
  if (!dm->imported) ranges_[static_cast<size_t>(dm->kind)].give_back(dm->device_address);
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
