// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "base/expected.h"

namespace verbatim::wire::shm {

/// A sealed, sparse memory file and its mapping in this process. Movable; unmaps and closes.
class SharedFile {
 public:
  enum class Peers { kRead, kWrite };
  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept { *this = static_cast<SharedFile&&>(other); }
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  /// Makes one of zeroes that peers may read or also write, but never resize. ENOMEM and the like.
  static Expected<SharedFile> create(const char* name, size_t bytes, Peers peers);
  /// Maps a peer's file, taking over `file`: refuses one of the wrong size or without its seals (EPROTO).
  static Expected<SharedFile> adopt(int file, size_t bytes, Peers peers);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int file() const { return file_; }

  /// Gives the memory of a range back; it reads as zero again.
  void punch(size_t offset, size_t bytes);
  /// Marks this process as the living owner (a record lock, which the kernel drops with the process).
  bool lock_as_owner();
  /// True while the owner of an adopted file lives.
  bool owner_lives() const;
  /// For a forked child: what is shared with others becomes private memory at the same place, zeroed or with
  /// its content, so that whoever still uses it harms nobody. Async-signal-safe.
  enum class Content { kZero, kKeep };
  void make_private(Content content);

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  int file_ = -1;
};

}  // namespace verbatim::wire::shm
