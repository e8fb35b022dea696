// SPDX-License-Identifier: MIT
// Direct verbs of ConnectX-3 devices, of which there are none yet.
#include "lib/not_offered.h"

REFUSE_POINTER(mlx4dv_create_qp)
REFUSE(mlx4dv_init_obj)
REFUSE(mlx4dv_query_device)
REFUSE(mlx4dv_set_context_attr)
