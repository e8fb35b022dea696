// SPDX-License-Identifier: MIT
// The direct verbs of ConnectX-3 (mlx4). There is no such device in this release, and on a device of another kind these calls say so;
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

REFUSE_POINTER(mlx4dv_create_qp)
REFUSE(mlx4dv_init_obj)
REFUSE(mlx4dv_query_device)
REFUSE(mlx4dv_set_context_attr)
