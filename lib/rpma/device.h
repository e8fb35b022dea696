// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

namespace verbatim::rpma {

/// What a device does by itself, and the library need not do with other operations.
struct Capabilities {
  bool paging = false;  ///< reads and writes on memory that is registered for on-demand paging
  bool atomic_write = false;
  bool flush = false;  ///< to both placements
  bool any_operation() const { return atomic_write || flush; }
};

/// Asks a device. 0 or RPMA_E_PROVIDER.
int query(ibv_context* verbs, Capabilities& to);

}  // namespace verbatim::rpma
