// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstddef>

namespace verbatim::rdmacm {

/// The results of a failed call: -1 or a null pointer, with errno set.
inline int fail(int error) {
  errno = error;
  return -1;
}
inline std::nullptr_t fail_pointer(int error) {
  errno = error;
  return nullptr;
}
/// The result of a call that gives 0 or an errno value.
inline int settle(int error) { return error == 0 ? 0 : fail(error); }

}  // namespace verbatim::rdmacm
