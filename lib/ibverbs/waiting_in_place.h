// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>

/// poll() for our own libraries, which waits for what arrives at a device, too. 0 before the time is over:
/// something has arrived; poll a completion queue, look, and wait again.
extern "C" __attribute__((visibility("default"))) int verbatim_wait(ibv_context* context, pollfd* files,
                                                                    nfds_t count, int timeout_ms);
