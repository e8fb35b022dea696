// SPDX-License-Identifier: MIT
// What direct verbs add to rules.
#include "lib/mlx5/direct.h"

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

// Packets are the program's: there is no metadata beside them that could be asked for.
ibv_flow_action* mlx5dv_create_flow_action_esp(ibv_context* public_context, ibv_flow_action_esp_attr* esp,
                                               mlx5dv_flow_action_esp* special) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  const uint64_t known = MLX5DV_FLOW_ACTION_ESP_MASK_FLAGS;
  if (special != nullptr && (special->comp_mask & ~known) != 0)
    return verbs::refuse_pointer(*context, EOPNOTSUPP,
                                 "mlx5dv_create_flow_action_esp: unknown bits in comp_mask");
  if (special != nullptr && (special->comp_mask & known) != 0 && special->action_flags != 0)
    return verbs::refuse_pointer(*context, EOPNOTSUPP,
                                 "mlx5dv_create_flow_action_esp: there is no metadata beside packets");
  return ibv_create_flow_action_esp(public_context, esp);
}

}  // extern "C"
