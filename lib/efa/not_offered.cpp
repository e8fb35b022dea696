// SPDX-License-Identifier: MIT
// The direct verbs of EFA. There is no EFA device in this release, and on a device of another kind these calls say so;
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

REFUSE_POINTER(efadv_cq_from_ibv_cq_ex)
REFUSE_POINTER(efadv_create_comp_cntr)
REFUSE_POINTER(efadv_create_cq)
REFUSE_POINTER(efadv_create_driver_qp)
REFUSE_POINTER(efadv_create_qp_ex)
REFUSE(efadv_get_max_rq_depth)
REFUSE(efadv_get_max_sq_depth)
REFUSE_POINTER(efadv_qp_from_ibv_qp_ex)
REFUSE(efadv_query_ah)
REFUSE(efadv_query_cq)
REFUSE(efadv_query_device)
REFUSE(efadv_query_mr)
REFUSE(efadv_query_qp_wqs)
