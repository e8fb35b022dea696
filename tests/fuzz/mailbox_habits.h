// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

namespace verbatim::fuzz {

/// What programs put into a field when nothing is wrong with it: the number of an object, or one of a range.
struct Habit {
  std::string_view layout;  ///< of the mailbox; empty: all
  std::string_view field;   ///< the end of its path in the layout
  std::string_view kind;    ///< of the object; empty: a range
  uint64_t least, most, step;
};

/// The habit about a field, as the table of fields names it; nullptr: programs leave it 0.
const Habit* habit_of(std::string_view layout, std::string_view path);

}  // namespace verbatim::fuzz
