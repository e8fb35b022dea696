// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "device/connectx/objects.h"

namespace verbatim::connectx {

/// Parts of a range of the device's addresses that are taken.
class DeviceRange {
 public:
  /// The lowest place; nothing: there is no room.
  std::optional<uint64_t> take(const hw::DmRange& range, uint64_t bytes, uint64_t alignment);
  void give_back(uint64_t first) { taken_.erase(first); }

 private:
  std::map<uint64_t, uint64_t> taken_;  ///< first address of a part -> first address after it
};

/// Operations of memory that addresses can be mapped for.
enum class MemicOperation : uint32_t { kIncrement = 0, kTestAndSet = 1 };

/// What the device has of each kind, and which operations.
void describe_device_memory(hw::Limits& limits);

/// Pages of this process.
class OwnPages {
 public:
  /// Zeros; base() is nullptr if there are no pages left.
  explicit OwnPages(size_t bytes);
  ~OwnPages();
  OwnPages(const OwnPages&) = delete;
  OwnPages& operator=(const OwnPages&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_;
  size_t bytes_;
};

struct DmObject : hw::Dm, Linked<DmObject> {
  hw::DmKind kind{};
  bool detached = false;
  std::shared_ptr<OwnPages> pages;  ///< also of operations that are still mapped
  std::atomic<uint32_t> users{0};   ///< registrations
};

/// The memory of an opened device. Thread safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(const hw::Limits& limits);
  ~DeviceMemory();
  Expected<hw::Dm*> create(const hw::DmSpec& spec);
  Outcome destroy(hw::Dm* face);

 private:
  const hw::Limits& limits_;
  std::mutex lock_;
  DeviceRange ranges_[hw::kDmKinds];
  LinkedList<DmObject> all_;
};

/// Checks a registration and turns its address into one of this process. EINVAL: beyond the memory, or rights
/// that its kind does not know.
Outcome locate_in_dm(hw::MrSpec& spec);

/// As hw::Hca::map_dm_operation.
Expected<void*> map_memic_operation(hw::Dm* face, uint32_t operation);

}  // namespace verbatim::connectx
