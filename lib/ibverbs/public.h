// SPDX-License-Identifier: MIT
#pragma once

// The public header as its own library sees it: what it declares is exported, and its macros do not stand in
// the way of the functions they are named after. Included instead of the header itself.

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
