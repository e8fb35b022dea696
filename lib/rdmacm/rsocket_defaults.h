// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "lib/rdmacm/rsocket_conduit.h"

namespace verbatim::rdmacm {

/// What the administrator of the host has chosen for sockets, one number in each file of
/// /etc/rdma/rsocket (rsocket(7)); read once.
struct SocketDefaults {
  StreamSizes sizes;                                  ///< sqsize_default, rqsize_default, inline_default,
                                                      ///< mem_default, wmem_default, iomap_size
  std::chrono::microseconds polling{10};              ///< polling_time: until a call that waits sleeps
  std::chrono::milliseconds wake_up_interval{5'000};  ///< longest sleep of a call that waits for several
};

const SocketDefaults& socket_defaults();

}  // namespace verbatim::rdmacm
