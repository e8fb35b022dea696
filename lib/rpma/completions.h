// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "lib/rpma/public.h"

/// A completion queue, always armed, with its completion channel.
struct rpma_cq {
  ibv_cq* queue = nullptr;
  ibv_comp_channel* channel = nullptr;
  bool shares_channel = false;  ///< the channel is the connection's

  rpma_cq() = default;
  ~rpma_cq() { close(); }
  rpma_cq(const rpma_cq&) = delete;
  rpma_cq& operator=(const rpma_cq&) = delete;

  /// Makes one. `shared`: its channel, null for one of its own. 0, RPMA_E_PROVIDER or RPMA_E_NOMEM.
  static int make(ibv_context* verbs, uint32_t entries, ibv_comp_channel* shared,
                  std::unique_ptr<rpma_cq>& to);
  /// Frees what it has. 0 or RPMA_E_PROVIDER.
  int close();
};

namespace verbatim::rpma {

/// Takes an event off a channel, acknowledges it and arms its queue for the next. 0; RPMA_E_NO_COMPLETION:
/// there is none; RPMA_E_PROVIDER.
int next_event(ibv_comp_channel* channel, ibv_cq*& of);

/// The first result of several that is one of a failure.
inline void keep_first(int& result, int next) {
  if (result == 0) result = next;
}

}  // namespace verbatim::rpma
