// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/expected.h"

namespace verbatim {

/// A part of a DMA-buf, mapped into this process until destroyed. Everything else that can be mapped is taken as
/// well, files (memfd_create) and devices: they are what programs have where no driver makes DMA-bufs.
class DmaBuf {
 public:
  DmaBuf() = default;
  /// `length` bytes from `offset` of the file; it may be closed afterwards. EBADF: it is not open; EINVAL: it
  /// cannot be mapped, or is shorter; EOPNOTSUPP: its driver lets nobody map it.
  static Expected<DmaBuf> map(int file, uint64_t offset, uint64_t length, bool writable);
  ~DmaBuf();
  DmaBuf(DmaBuf&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)), mapped_(other.mapped_), in_page_(other.in_page_) {}
  DmaBuf& operator=(DmaBuf&& other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(mapped_, other.mapped_);
    std::swap(in_page_, other.in_page_);
    return *this;
  }

  explicit operator bool() const { return pages_ != nullptr; }
  /// Where the part begins.
  std::byte* base() const { return static_cast<std::byte*>(pages_) + in_page_; }

 private:
  void* pages_ = nullptr;
  size_t mapped_ = 0, in_page_ = 0;
};

}  // namespace verbatim
