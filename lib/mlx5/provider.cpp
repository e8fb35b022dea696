// SPDX-License-Identifier: MIT
// How libibverbs finds this library's operations.
#include <new>
#include <string_view>

#include "abi/prm/events.h"
#include "lib/mlx5/devx.h"
#include "lib/mlx5/tag_list.h"
#include "lib/mlx5/vfio.h"

namespace verbatim::mlx5 {
namespace {

int open_context(verbs::Context& context) {
  auto* state = new (std::nothrow) ContextState;
  if (state == nullptr) return ENOMEM;
  context.provider_data = state;
  if (is_taken_over(*context.device)) take_over(context);
  ibv_context_ops& ops = context.verbs.context.ops;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = request_notification;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  context.verbs.post_srq_ops = post_srq_ops;
  install_device_memory(context.verbs);
  install_memory_windows(context.verbs);
  return 0;
}

void close_context(verbs::Context& context) {
  ContextState& state = ContextState::of(context);
  hw::RawDoorbells& doorbells = context.opened->doorbells();
  doorbells.forget_all(*context.hca);
  if (state.doorbell_page != nullptr) doorbells.give_back(state.doorbell_page);
  for (std::byte* page : state.kept_pages) doorbells.give_back(page);
  for (const uint32_t number : state.reserved_qpns) context.hca->release_qpn(number);
}

void take_event(verbs::Context& context, const hw::DeviceEvent& event) {
  constexpr auto kFatal = static_cast<uint16_t>(prm::Event::kLocalWqCatastrophicError);
  if (event.type == kFatal && std::string_view(event.kind) == "RQ")
    tell_of_failed_queue(context, event.number);
  devx::tell_subscribers(context, event);
}

void release_context(verbs::Context& context) { delete ContextState::find(context); }

__attribute__((constructor)) void announce() { verbs::verbatim_register_provider(&kProvider); }

}  // namespace

const verbs::Provider kProvider = {
    .name = "mlx5",
    .open = open_context,
    .close = close_context,
    .release = release_context,
    .on_device_event = take_event,
    .on_interrupt = devx::raise_interrupt,
    .create_cq = create_cq,
    .resize_cq = resize_cq,
    .destroy_cq = destroy_cq,
    .free_cq = free_cq,
    .create_qp = create_qp,
    .open_qp = open_qp,
    .modify_qp = modify_qp,
    .check_query_qp = check_query_qp,
    .destroy_qp = destroy_qp,
    .free_qp = free_qp,
    .create_srq = create_srq,
    .destroy_srq = destroy_srq,
    .free_srq = free_srq,
    .create_wq = create_wq,
    .modify_wq = modify_wq,
    .strip_vlan = strip_vlan,
    .destroy_wq = destroy_wq,
    .free_wq = free_wq,
    .create_wq_table = create_wq_table,
    .destroy_wq_table = destroy_wq_table,
    .create_spreading_qp = create_spreading_qp,
    .wrap_dm = wrap_dm,
    .has_windows = has_windows,
    .create_ah = create_ah,
    .free_ah = free_ah,
};

}  // namespace verbatim::mlx5
