// SPDX-License-Identifier: MIT
// Calls that no device of this release can do say EOPNOTSUPP.
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {

void install_refusals(verbs_context& verbs) {
  verbs.context.ops.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; };
  verbs.context.ops.dealloc_mw = [](ibv_mw*) { return EOPNOTSUPP; };
}

}  // namespace verbatim::verbs
