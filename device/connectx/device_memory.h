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

/// Pages of this process, or of a file that others may map as well.
class Pages {
 public:
  /// Zeros; base() is nullptr if there are no pages left.
  explicit Pages(size_t bytes);
  /// Those of a new file; without one where no file can be had.
  static std::shared_ptr<Pages> shareable(size_t bytes);
  /// Those of this file, which it takes over.
  static std::shared_ptr<Pages> of(int file, size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* base() const { return base_; }
  int file() const { return file_; }

 private:
  Pages(int file, size_t bytes);

  std::byte* base_;
  size_t bytes_;
  int file_ = -1;
};

struct DmObject : hw::Dm, Linked<DmObject> {
  hw::DmKind kind{};
  bool detached = false;
  bool imported = false;           ///< it takes no part of the device's own memory
  std::shared_ptr<Pages> pages;    ///< also of operations that are still mapped
  std::atomic<uint32_t> users{0};  ///< registrations
};

/// The memory of an opened device. Thread safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(const hw::Limits& limits);
  ~DeviceMemory();
  Expected<hw::Dm*> create(const hw::DmSpec& spec);
  /// As hw::Hca::import_dm.
  Expected<hw::Dm*> import(int file, uint64_t bytes);
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
