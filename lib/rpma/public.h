// SPDX-License-Identifier: MIT
#pragma once

// The public header as its own library sees it: what it declares is exported.

#pragma GCC visibility push(default)
#include <librpma.h>
#pragma GCC visibility pop
