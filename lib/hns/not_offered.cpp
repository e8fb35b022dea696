// SPDX-License-Identifier: MIT
// The direct verbs of HNS. There is no HNS device in this release, and on a device of another kind these calls say so;
// the library is here because programs link it.
#include <cerrno>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define REFUSE(name) \
  EXPORTED int name() { return EOPNOTSUPP; }
#define REFUSE_POINTER(name) \
  EXPORTED void* name() {    \
    errno = EOPNOTSUPP;      \
    return nullptr;          \
  }

REFUSE_POINTER(hnsdv_create_qp)
REFUSE(hnsdv_query_device)

EXPORTED bool hnsdv_is_supported() { return false; }
