// SPDX-License-Identifier: MIT
// Direct verbs of EFA devices, of which there are none yet.
#include "lib/not_offered.h"

REFUSE_POINTER(efadv_cq_from_ibv_cq_ex)
REFUSE_POINTER(efadv_create_comp_cntr)
REFUSE_POINTER(efadv_create_cq)
REFUSE_POINTER(efadv_create_driver_qp)
REFUSE_POINTER(efadv_create_qp_ex)
REFUSE_NEGATIVE(efadv_get_max_rq_depth)
REFUSE_NEGATIVE(efadv_get_max_sq_depth)
REFUSE_POINTER(efadv_qp_from_ibv_qp_ex)
REFUSE(efadv_query_ah)
REFUSE(efadv_query_cq)
REFUSE(efadv_query_device)
REFUSE(efadv_query_mr)
REFUSE(efadv_query_qp_wqs)
