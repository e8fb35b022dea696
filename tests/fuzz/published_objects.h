// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/published.h"

namespace verbatim::fuzz {

/// Writable mappings of this process's memory files of that name.
std::vector<std::byte*> own_mappings(const char* name);

/// What this process shows others of its objects, as `verbatim status` lists them. With a device open; not
/// beyond it.
class PublishedObjects {
 public:
  PublishedObjects();
  /// Objects of the host side and of commands, e.g. "2 PDs, QP 0x40001"; empty: there are none.
  std::string list() const;
  /// Whether that object of a command, or memory that commands can name, is among them.
  bool has(std::string_view kind, uint32_t number) const;

 private:
  const engine::Published* tables_ = nullptr;
};

}  // namespace verbatim::fuzz
