// SPDX-License-Identifier: MIT
// Direct verbs of HNS devices, of which there are none yet.
#include "lib/not_offered.h"

REFUSE_POINTER(hnsdv_create_qp)
REFUSE_BOOLEAN(hnsdv_is_supported)
REFUSE(hnsdv_query_device)
