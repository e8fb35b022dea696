// SPDX-License-Identifier: MIT
#pragma once

// The public headers as their own library sees them: what they declare is exported.

#pragma GCC visibility push(default)
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#pragma GCC visibility pop
