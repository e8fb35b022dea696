// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "abi/prm/layout.h"
#include "base/gid.h"
#include "tests/fuzz/live_objects.h"
#include "tests/fuzz/mailbox_habits.h"
#include "tests/fuzz/mailbox_sense.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// What mailboxes say without an object's number.
struct Surroundings {
  uint64_t pages = 0;  ///< address of memory that may be described by its pages
  uint32_t page_count = 0;
  Gid gid{};  ///< of the port
};

/// Writes mailboxes of any command from the tables of layouts: what fields are called tells what a program
/// would put there. One thread.
class MailboxWriter {
 public:
  /// All must outlive it.
  MailboxWriter(const LiveObjects& objects, Random& random, const MailboxSense& sense)
      : objects_(objects), random_(random), sense_(sense) {}

  /// What a program might send, about objects that there are.
  std::vector<uint8_t> write(const prm::CommandInfo& command, const Surroundings& around);
  /// The same with something wrong about it: bits, fields, length.
  void spoil(std::vector<uint8_t>& box);

  /// A field of a mailbox, and what is put there.
  struct Writable {
    const prm::FieldInfo* field;
    const Habit* habit;  ///< nullptr: there is none
  };

 private:
  uint64_t value_of(const Writable& place);
  uint64_t number_of(std::string_view kind);
  uint64_t element(const Writable& place, uint32_t index, const Surroundings& around);
  void write_fields(const prm::CommandInfo& command, std::vector<uint8_t>& box, const Surroundings& around);
  void add_list(std::string_view layout, std::vector<uint8_t>& box, const Surroundings& around);

  const LiveObjects& objects_;
  Random& random_;
  const MailboxSense& sense_;
  uint32_t oddity_ = 0;  ///< one field in so many has any value; 0: none
  bool sloppy_ = false;  ///< flags are set that nobody asked for
  bool creating_ = false;
};

}  // namespace verbatim::fuzz
