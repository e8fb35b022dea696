// SPDX-License-Identifier: MIT
// Direct verbs of MANA devices, of which there are none yet.
#include "lib/not_offered.h"

REFUSE(manadv_init_obj)
REFUSE(manadv_set_context_attr)
