// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "lib/rdmacm/rsocket_socket.h"

namespace verbatim::rdmacm {

/// A descriptor that is waited for.
struct Watched {
  std::shared_ptr<Socket> socket;  ///< null: one of the kernel's
  pollfd* wanted;
  const uint64_t* told = nullptr;  ///< what its edges() were when it was told of last; only news counts
};

/// poll() over sockets and descriptors of the kernel: how many are ready, or -1 with errno set.
int wait_for(std::vector<Watched>& all, int timeout_ms);

}  // namespace verbatim::rdmacm
