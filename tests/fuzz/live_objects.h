// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Objects that mailboxes can name, by kind (prm::object_kind). One thread.
class LiveObjects {
 public:
  struct Object {
    std::string_view kind;
    uint32_t number;
    std::vector<uint8_t> undo;  ///< mailbox that destroys it; empty: the host side will
  };

  void add(std::string_view kind, uint32_t number, std::vector<uint8_t> undo = {}) {
    objects_.push_back({kind, number, std::move(undo)});
  }
  /// One of a kind; nullptr if there is none.
  const Object* pick(std::string_view kind, Random& random) const;
  /// One that a command made; nullptr if there is none.
  const Object* pick_made(Random& random) const;
  /// After a command of that opcode and user context has destroyed it. Numbers come again, for other users.
  void forget(uint16_t undo, uint16_t uid, std::string_view kind, uint32_t number);
  size_t count_made() const;
  const std::vector<Object>& all() const { return objects_; }

 private:
  std::vector<Object> objects_;
};

}  // namespace verbatim::fuzz
