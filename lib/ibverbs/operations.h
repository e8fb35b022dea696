// SPDX-License-Identifier: MIT
#pragma once

#include "lib/ibverbs/provider.h"

namespace verbatim::verbs {

/// Put the calls that programs reach through a context's tables of operations into them, by topic.
void install_device_operations(verbs_context& verbs);
void install_port_operations(verbs_context& verbs);
void install_domain_operations(verbs_context& verbs);
void install_memory_operations(verbs_context& verbs);
void install_buffer_operations(verbs_context& verbs);
void install_dma_handle_operations(verbs_context& verbs);
void install_cq_operations(verbs_context& verbs);
void install_qp_operations(verbs_context& verbs);
void install_counter_operations(verbs_context& verbs);
void install_flow_action_operations(verbs_context& verbs);
void install_flow_operations(verbs_context& verbs);
void install_srq_operations(verbs_context& verbs);
void install_xrc_operations(verbs_context& verbs);
void install_work_queue_operations(verbs_context& verbs);
/// Those of the first table that no header checks before it calls them: they refuse.
void install_refusals(verbs_context& verbs);

}  // namespace verbatim::verbs
