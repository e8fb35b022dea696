// SPDX-License-Identifier: MIT
// Work queues of their own, and tables of them. The device keeps them by command; entries and doorbell record
// are those of a receive queue.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "abi/prm/raw_queues.h"
#include "abi/prm/receive_steering.h"
#include "device/connectx/prm/object_limits.h"
#include "engine/status.h"
#include "lib/mlx5/direct.h"
#include "lib/mlx5/host_command.h"

namespace verbatim::mlx5 {
namespace {

constexpr size_t kCacheLine = 64;

struct Sizes {
  uint32_t entries, stride, elements;
};

Sizes plan(const ibv_wq_init_attr& attributes, uint32_t entry_offset) {
  Sizes sizes;
  sizes.stride = std::bit_ceil(std::max(attributes.max_sge, 1u) * kUnit + entry_offset);
  sizes.entries = std::max(std::bit_ceil(attributes.max_wr), kBlock / sizes.stride);
  sizes.elements = (sizes.stride - entry_offset) / kUnit;
  return sizes;
}

bool allocate(WorkQueue& wq, verbs::ProtectionDomain& domain, const Sizes& sizes) {
  QueuePair& qp = wq.receives;
  const MemorySource source(*domain.context, &domain);
  const size_t bytes = static_cast<size_t>(sizes.entries) * sizes.stride;
  qp.doorbell = qp.record.allocate(source);
  if (qp.doorbell == nullptr || !qp.memory.allocate(source, bytes, kCacheLine, MemoryUse::kWorkQueue))
    return false;
  std::memset(qp.memory.base(), 0, bytes);
  qp.receive_ring = qp.memory.base();
  qp.id_storage.reset(new (std::nothrow) uint64_t[sizes.entries]{});
  qp.receive_ids = qp.id_storage.get();
  qp.receive_entries = sizes.entries;
  qp.receive_stride = sizes.stride;
  qp.max_receive_sge = sizes.elements;
  qp.takes_receives = true;
  qp.frames = true;
  if (domain.thread_domain != nullptr) qp.receive_lock.disable();
  return qp.receive_ids != nullptr;
}

/// The device finds the queue's memory by number.
int name_memory(verbs::Context& context, WorkQueue& wq) {
  const QueuePair& qp = wq.receives;
  const auto umem = [&context](const void* at, size_t bytes, hw::Umem*& made) {
    const auto device =
        context.hca->create_umem({reinterpret_cast<uint64_t>(at), bytes, engine::kLocalWrite});
    if (!device) return verbs::refuse(context, device.error());
    made = *device;
    return 0;
  };
  if (const int error = umem(qp.receive_ring, qp.memory.bytes(), wq.ring_umem)) return error;
  return umem(qp.doorbell, 2 * sizeof *qp.doorbell, wq.record_umem);
}

void forget_memory(verbs::Context& context, WorkQueue& wq) {
  for (hw::Umem** umem : {&wq.ring_umem, &wq.record_umem})
    if (*umem != nullptr) static_cast<void>(context.hca->destroy_umem(std::exchange(*umem, nullptr)));
}

void describe(const WorkQueue& wq, const mlx5dv_striding_rq_init_attr* strides, prm::Writer<prm::Wq> out) {
  using prm::Wq;
  out.set(Wq::wq_type, strides != nullptr ? prm::WqType::kCyclicStridingRq : prm::WqType::kCyclic);
  out.set(Wq::log_wq_stride, std::countr_zero(wq.receives.receive_stride));
  out.set(Wq::log_wq_sz, std::countr_zero(wq.receives.receive_entries));
  out.set(Wq::wq_umem_valid, true);
  out.set(Wq::wq_umem_id, wq.ring_umem->number);
  out.set(Wq::dbr_umem_valid, true);
  out.set(Wq::dbr_umem_id, wq.record_umem->number);
  if (strides == nullptr) return;
  out.set(Wq::log_wqe_stride_size, strides->single_stride_log_num_of_bytes - prm::kLogStrideBytesMin);
  out.set(Wq::log_wqe_num_of_strides, prm::strides_code(strides->single_wqe_log_num_of_strides));
  out.set(Wq::two_byte_shift_en, strides->two_byte_shift_en);
}

int create_on_device(verbs::Context& context, WorkQueue& wq, const ibv_wq_init_attr& attributes,
                     const mlx5dv_striding_rq_init_attr* strides) {
  if (const int error = name_memory(context, wq)) return error;
  HostCommand<prm::CreateRq> command;
  const auto queue = command.in()[prm::CreateRqIn::ctx];
  const uint32_t flags = (attributes.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 ? attributes.create_flags : 0;
  queue.set(prm::Rqc::vsd, (flags & IBV_WQ_FLAGS_CVLAN_STRIPPING) == 0);
  queue.set(prm::Rqc::scatter_fcs, (flags & IBV_WQ_FLAGS_SCATTER_FCS) != 0);
  queue.set(prm::Rqc::delay_drop_en, (flags & IBV_WQ_FLAGS_DELAY_DROP) != 0);
  queue.set(prm::Rqc::flush_in_error_en, true);
  queue.set(prm::Rqc::user_index, wq.receives.user_index);
  queue.set(prm::Rqc::cqn, CompletionQueue::of(attributes.cq).device->number);
  describe(wq, strides, queue[prm::Rqc::wq]);
  queue[prm::Rqc::wq].set(prm::Wq::pd, verbs::ProtectionDomain::of(attributes.pd)->device->number);
  const int error = command.send(context);
  wq.receives.number = command.out()[prm::CreateRqOut::rqn];
  return error;
}

void remember(verbs::Context& context, WorkQueue& wq) {
  ContextState& state = ContextState::of(context);
  const std::lock_guard guard(state.work_queues_lock);
  state.work_queues[wq.receives.number] = &wq;
}

void forget(verbs::Context& context, const WorkQueue& wq) {
  ContextState& state = ContextState::of(context);
  const std::lock_guard guard(state.work_queues_lock);
  state.work_queues.erase(wq.receives.number);
}

const mlx5dv_striding_rq_init_attr* strides_of(const void* special) {
  const auto* options = static_cast<const mlx5dv_wq_init_attr*>(special);
  const bool strides = options != nullptr && (options->comp_mask & MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ) != 0;
  return strides ? &options->striding_rq_attrs : nullptr;
}

bool within_limits(const mlx5dv_striding_rq_init_attr& strides) {
  return strides.single_stride_log_num_of_bytes >= prm::kLogStrideBytesMin &&
         strides.single_stride_log_num_of_bytes <= prm::kLogStrideBytesMax &&
         strides.single_wqe_log_num_of_strides >= prm::kLogStridesMin &&
         strides.single_wqe_log_num_of_strides <= prm::kLogStridesMax;
}

prm::RqState state_of(ibv_wq_state state) {
  switch (state) {
    case IBV_WQS_RESET:
      return prm::RqState::kRst;
    case IBV_WQS_RDY:
      return prm::RqState::kRdy;
    default:
      return prm::RqState::kErr;
  }
}

}  // namespace

void tell_of_failed_queue(verbs::Context& context, uint32_t number) {
  ContextState* state = ContextState::find(context);
  if (state == nullptr) return;
  const std::lock_guard guard(state->work_queues_lock);
  const auto found = state->work_queues.find(number);
  if (found != state->work_queues.end()) verbs::verbatim_tell_of_failed_wq(found->second);
}

verbs::WorkQueue* create_wq(verbs::Context& context, ibv_wq_init_attr& attributes, const void* special) {
  const mlx5dv_striding_rq_init_attr* strides = strides_of(special);
  if (strides != nullptr && !within_limits(*strides))
    return verbs::refuse_pointer(context, EINVAL, "mlx5dv_create_wq: strides beyond the device's limits");
  auto wq = std::unique_ptr<WorkQueue>(new (std::nothrow) WorkQueue);
  // An entry that is cut into strides begins with the link of a shared queue's entry.
  const uint32_t offset = strides != nullptr ? sizeof(connectx::SharedNextSegment) : 0;
  const Sizes sizes = plan(attributes, offset);
  if (wq == nullptr || !allocate(*wq, *verbs::ProtectionDomain::of(attributes.pd), sizes))
    return verbs::refuse_pointer(context, ENOMEM, "no memory for a work queue");
  wq->entry_offset = offset;
  if (strides != nullptr) wq->receives.strides = 1u << strides->single_wqe_log_num_of_strides;
  QueuePairTable& table = ContextState::of(context).queue_pairs;
  if (!table.add(wq->receives, wq->receives.user_index))
    return verbs::refuse_pointer(context, ENOMEM, "all queue pairs are in use");
  if (const int error = create_on_device(context, *wq, attributes, strides)) {
    forget_memory(context, *wq);
    table.remove(wq->receives.user_index);
    errno = error;
    return nullptr;
  }
  remember(context, *wq);
  attributes.max_wr = sizes.entries;
  // An entry may have room for more elements than the device takes.
  attributes.max_sge = std::min(sizes.elements, context.hca->limits().max_sge);
  wq->base.wq_num = wq->receives.number;
  wq->base.post_recv = post_wq_recv;
  return wq.release();
}

int modify_wq(verbs::WorkQueue& base, ibv_wq_state from, ibv_wq_state to) {
  auto& wq = static_cast<WorkQueue&>(base);
  HostCommand<prm::ModifyRq> command;
  command.in().set(prm::ModifyRqIn::rqn, wq.receives.number);
  command.in().set(prm::ModifyRqIn::rq_state, state_of(from));
  command.in()[prm::ModifyRqIn::ctx].set(prm::Rqc::state, state_of(to));
  const int error = command.send(*wq.context);
  if (error == EBUSY) return EINVAL;  // the wrong state is a bad argument here
  if (error == 0 && to == IBV_WQS_RESET) reset_wq(wq);
  return error;
}

int strip_vlan(verbs::WorkQueue& base, bool on) {
  auto& wq = static_cast<WorkQueue&>(base);
  const prm::RqState state = state_of(wq.base.state);
  HostCommand<prm::ModifyRq> command;
  command.in().set(prm::ModifyRqIn::rqn, wq.receives.number);
  command.in().set(prm::ModifyRqIn::rq_state, state);
  command.in().set(prm::ModifyRqIn::modify_bitmask, prm::ModifyRqField::kVsd);
  command.in()[prm::ModifyRqIn::ctx].set(prm::Rqc::state, state);
  command.in()[prm::ModifyRqIn::ctx].set(prm::Rqc::vsd, !on);
  return command.send(*wq.context);
}

void reset_wq(WorkQueue& wq) {
  QueuePair& qp = wq.receives;
  clean_cq(CompletionQueue::of(wq.base.cq), qp.user_index, nullptr);
  const std::lock_guard guard(qp.receive_lock);
  qp.receive_head = 0;
  qp.receive_tail = 0;
  qp.strides_used = 0;
  qp.doorbell[connectx::kReceiveDoorbell] = 0;
}

int destroy_wq(verbs::WorkQueue& base) {
  auto& wq = static_cast<WorkQueue&>(base);
  HostCommand<prm::DestroyRq> command;
  command.in().set(prm::DestroyRqIn::rqn, wq.receives.number);
  if (const int error = command.send(*wq.context)) return error;
  forget(*wq.context, wq);
  forget_memory(*wq.context, wq);
  clean_cq(CompletionQueue::of(wq.base.cq), wq.receives.user_index, nullptr);
  ContextState::of(*wq.context).queue_pairs.remove(wq.receives.user_index);
  return 0;
}

void free_wq(verbs::WorkQueue& wq) { delete static_cast<WorkQueue*>(&wq); }

int create_wq_table(verbs::Context& context, const ibv_rwq_ind_table_init_attr& attributes,
                    uint32_t& number) {
  const uint32_t entries = 1u << attributes.log_ind_tbl_size;
  HostCommand<prm::CreateRqt> command(entries * prm::RqNum::kBits / 8);
  const auto table = command.in()[prm::CreateRqtIn::rqt_context];
  table.set(prm::Rqtc::rqt_max_size, entries);
  table.set(prm::Rqtc::rqt_actual_size, entries);
  for (uint32_t i = 0; i < entries; i++)
    table.at(prm::Rqtc::rq_num, i).set(prm::RqNum::rq_num, attributes.ind_tbl[i]->wq_num);
  const int error = command.send(context);
  number = command.out()[prm::CreateRqtOut::rqtn];
  return error;
}

int destroy_wq_table(verbs::Context& context, uint32_t number) {
  HostCommand<prm::DestroyRqt> command;
  command.in().set(prm::DestroyRqtIn::rqtn, number);
  return command.send(context);
}

}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

ibv_wq* mlx5dv_create_wq(ibv_context* public_context, ibv_wq_init_attr* attributes,
                         mlx5dv_wq_init_attr* special) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  if (special != nullptr && (special->comp_mask & ~uint64_t{MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ}) != 0)
    return verbs::refuse_pointer(*context, EINVAL, "mlx5dv_create_wq: unknown bits in comp_mask");
  return verbs::verbatim_create_special_wq(public_context, attributes, special);
}

}  // extern "C"
