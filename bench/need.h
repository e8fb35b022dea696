// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <cstdlib>

namespace verbatim::bench {

/// The value. Without one the program ends, and says what was missing and why (errno).
template <class T>
T need(T value, const char* what) {
  if (value) return value;
  std::perror(what);
  std::exit(1);
}

/// For calls that return 0 when all is well.
inline void succeed(int result, const char* what) { need(result == 0, what); }

}  // namespace verbatim::bench
