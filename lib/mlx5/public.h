// SPDX-License-Identifier: MIT
#pragma once

// The public header as its own library sees it: what it declares is exported.

#include "lib/ibverbs/public.h"

#pragma GCC visibility push(default)
#include <infiniband/mlx5dv.h>
#pragma GCC visibility pop
