// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/expected.h"
#include "runtime/process.h"

namespace verbatim::verbs {

/// What the file behind a context's command descriptor tells other processes that are handed the descriptor:
/// which device it is and whose, and the objects that they may import by handle. Regions are not in it: keys
/// are shown by the engine. Thread safe.
class DeviceBoard {
 public:
  /// In a file of the opener's own. Errors: those of ftruncate and mmap.
  static Expected<std::unique_ptr<DeviceBoard>> make(int file, const char* device,
                                                     const runtime::ProcessPlace& place);
  /// That of the file's maker. EINVAL: the file is no command descriptor's.
  static Expected<std::unique_ptr<DeviceBoard>> of(int file);
  ~DeviceBoard();
  DeviceBoard(const DeviceBoard&) = delete;
  DeviceBoard& operator=(const DeviceBoard&) = delete;

  /// Name of the device. At most 63 characters.
  std::string device() const;
  runtime::ProcessPlace place() const;

  void show_domain(uint32_t number);
  void hide_domain(uint32_t number);
  bool has_domain(uint32_t number) const;

  struct Memory {
    int file = -1;  ///< descriptor in the maker's process
    uint64_t bytes = 0;
    uint64_t inode = 0;
  };
  /// Its handle; 0: there is no room for more.
  uint32_t show_memory(const Memory& memory);
  void hide_memory(uint32_t handle);
  std::optional<Memory> find_memory(uint32_t handle) const;

 private:
  struct Record;
  explicit DeviceBoard(Record* record) : record_(record) {}

  Record* record_;
};

}  // namespace verbatim::verbs
