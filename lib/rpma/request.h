// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rpma/link.h"

/// A connection in the making.
struct rpma_conn_req {
  std::unique_ptr<verbatim::rpma::Link> link;
  bool is_incoming = false;
};

namespace verbatim::rpma {

/// The parameters that a null pointer stands for.
const rpma_conn_cfg& settings_or_default(const rpma_conn_cfg* given);

/// A request with a link to fill. Null: out of memory.
std::unique_ptr<rpma_conn_req> make_request(rpma_peer* peer);

}  // namespace verbatim::rpma
