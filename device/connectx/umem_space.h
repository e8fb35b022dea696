// SPDX-License-Identifier: MIT
#pragma once

#include "device/connectx/object_numbers.h"
#include "device/connectx/prm/queue_unit.h"

namespace verbatim::connectx {

/// Memory in a umem that an object lies in: kept in use while this lives, and beyond when kept.
class UmemSpace {
 public:
  /// ENOENT: the user context has no such umem; EINVAL: it ends before, or was registered for reading and is
  /// written.
  static Expected<UmemSpace> hold(ObjectNumbers& numbers, uint16_t uid, const prm::Place& place,
                                  uint64_t bytes, bool writes, const char* what);
  /// Ends what keep() left.
  static void let_go(ObjectNumbers& numbers, const prm::Place& place);

  UmemSpace(UmemSpace&& other) noexcept;
  UmemSpace& operator=(UmemSpace&&) = delete;
  ~UmemSpace();

  std::byte* base() const { return base_; }
  void keep() { umem_ = nullptr; }

 private:
  UmemSpace(UmemObject& umem, std::byte* base) : umem_(&umem), base_(base) {}

  UmemObject* umem_;
  std::byte* base_;
};

}  // namespace verbatim::connectx
