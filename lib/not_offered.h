// SPDX-License-Identifier: MIT
#pragma once

// Exported functions that no device of this release can do; abi/missing.txt lists them. The public headers
// that declare them are left out where these macros are used, so that one form serves whatever a call takes.

#include <cerrno>

#define VERBATIM_EXPORTED extern "C" __attribute__((visibility("default")))
/// Returns the error.
#define REFUSE(name) \
  VERBATIM_EXPORTED int name() { return EOPNOTSUPP; }
/// Returns a number, or the negative error.
#define REFUSE_NEGATIVE(name) \
  VERBATIM_EXPORTED int name() { return -EOPNOTSUPP; }
/// Returns a number, or -1 with errno set.
#define REFUSE_NUMBER(name)       \
  VERBATIM_EXPORTED long name() { \
    errno = EOPNOTSUPP;           \
    return -1;                    \
  }
/// Returns a pointer.
#define REFUSE_POINTER(name)       \
  VERBATIM_EXPORTED void* name() { \
    errno = EOPNOTSUPP;            \
    return nullptr;                \
  }
/// Answers no.
#define REFUSE_BOOLEAN(name) \
  VERBATIM_EXPORTED bool name() { return false; }
/// Takes what could not be made here.
#define REFUSE_QUIETLY(name) \
  VERBATIM_EXPORTED void name() {}
