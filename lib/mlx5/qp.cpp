// SPDX-License-Identifier: MIT
// Making, changing and releasing queue pairs.
#include <cstring>
#include <new>

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/qp_sizes.h"
#include "lib/mlx5/raw_doorbells.h"

namespace verbatim::mlx5 {
namespace {

constexpr size_t kCacheLine = 64;

constexpr uint16_t bit(ibv_wr_opcode opcode) { return static_cast<uint16_t>(1u << opcode); }

constexpr uint16_t kDatagramOpcodes = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
constexpr uint16_t kUnreliableOpcodes = kDatagramOpcodes | bit(IBV_WR_RDMA_WRITE) |
                                        bit(IBV_WR_RDMA_WRITE_WITH_IMM) | bit(IBV_WR_SEND_WITH_INV) |
                                        bit(IBV_WR_LOCAL_INV) | bit(IBV_WR_BIND_MW);
constexpr uint16_t kPlacementOpcodes = bit(IBV_WR_FLUSH) | bit(IBV_WR_ATOMIC_WRITE);
constexpr uint16_t kReliableOpcodes = kUnreliableOpcodes | bit(IBV_WR_RDMA_READ) |
                                      bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);

uint16_t opcodes_of(ibv_qp_type type) {
  if (type == IBV_QPT_RAW_PACKET) return bit(IBV_WR_SEND) | bit(IBV_WR_TSO);
  if (type == IBV_QPT_UD) return kDatagramOpcodes;
  if (type == IBV_QPT_UC) return kUnreliableOpcodes;
  if (type == IBV_QPT_XRC_RECV) return 0;
  return type == IBV_QPT_DRIVER ? kReliableOpcodes : kReliableOpcodes | kPlacementOpcodes;
}

struct OperationFlag {
  uint64_t flag;
  ibv_wr_opcode opcode;
};
constexpr OperationFlag kOperationFlags[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QP_EX_WITH_SEND, IBV_WR_SEND},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM},
    {IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV},
    {IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW},
    {IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV},
    {IBV_QP_EX_WITH_TSO, IBV_WR_TSO},
    {IBV_QP_EX_WITH_FLUSH, IBV_WR_FLUSH},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE},
};

/// What the ibv_wr_ interface has for a type.
uint64_t operations_of(uint16_t opcodes) {
  uint64_t flags = 0;
  for (const OperationFlag& entry : kOperationFlags)
    if ((opcodes & bit(entry.opcode)) != 0) flags |= entry.flag;
  return flags;
}

bool allocate(QueuePair& qp, verbs::ProtectionDomain& domain, const QueueSizes& sizes) {
  const size_t receive = static_cast<size_t>(sizes.receive_entries) * sizes.receive_stride;
  const size_t send = static_cast<size_t>(sizes.send_blocks) * kBlock;
  // The receive queue comes first and is padded so that send blocks stay aligned.
  const size_t send_offset = (receive + kBlock - 1) / kBlock * kBlock;
  const MemorySource source(*domain.context, &domain);
  qp.doorbell = qp.record.allocate(source);
  if (qp.doorbell == nullptr) return false;
  if (send_offset + send > 0) {
    if (!qp.memory.allocate(source, send_offset + send, kCacheLine, MemoryUse::kQueuePair)) return false;
    std::memset(qp.memory.base(), 0, send_offset + send);
  }
  qp.receive_ring = qp.memory.base();
  qp.send_ring = qp.memory.base() + send_offset;
  if (send > 0) qp.slot_storage.reset(new (std::nothrow) SendSlot[sizes.send_blocks]{});
  if (receive > 0) qp.id_storage.reset(new (std::nothrow) uint64_t[sizes.receive_entries]{});
  qp.slots = qp.slot_storage.get();
  qp.receive_ids = qp.id_storage.get();
  return (send == 0 || qp.slots != nullptr) && (receive == 0 || qp.receive_ids != nullptr);
}

DcRole role_of(const ibv_qp_init_attr_ex& attributes, const mlx5dv_qp_init_attr* special) {
  if (attributes.qp_type != IBV_QPT_DRIVER) return DcRole::kNone;
  return special->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT ? DcRole::kTarget : DcRole::kInitiator;
}

/// Most bytes of headers in front of what a request has cut into frames.
uint32_t header_of(const ibv_qp_init_attr_ex& attributes) {
  return (attributes.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0 ? attributes.max_tso_header : 0;
}

void fill_host_state(QueuePair& qp, const ibv_qp_init_attr_ex& attributes, const QueueSizes& sizes) {
  qp.blocks = sizes.send_blocks;
  qp.depth = sizes.send_depth;
  qp.max_send_sge = sizes.send_sge;
  qp.max_inline = sizes.inline_bytes;
  qp.receive_entries = sizes.receive_entries;
  qp.receive_stride = sizes.receive_stride;
  qp.max_receive_sge = sizes.receive_sge;
  qp.addressed = attributes.qp_type == IBV_QPT_UD || qp.dc == DcRole::kInitiator;
  qp.frames = attributes.qp_type == IBV_QPT_RAW_PACKET;
  qp.max_header = header_of(attributes);
  qp.xrc = attributes.qp_type == IBV_QPT_XRC_SEND;
  qp.always_flags = attributes.sq_sig_all != 0 ? connectx::kCompletionAlways : 0;
  if (attributes.srq != nullptr) qp.srq = &SharedReceiveQueue::of(attributes.srq);
}

hw::QpSpec describe(QueuePair& qp, const ibv_qp_init_attr_ex& attributes, verbs::ProtectionDomain& domain) {
  hw::QpSpec spec;
  spec.type = static_cast<hw::QpType>(attributes.qp_type);
  spec.pd = domain.device;
  spec.send_cq = CompletionQueue::of(attributes.send_cq).device;
  if (attributes.recv_cq != nullptr) spec.receive_cq = CompletionQueue::of(attributes.recv_cq).device;
  if (qp.srq != nullptr) spec.srq = qp.srq->device;
  if (qp.blocks != 0) spec.send = {qp.send_ring, static_cast<size_t>(qp.blocks) * kBlock, qp.blocks, kBlock};
  if (qp.receive_entries != 0)
    spec.receive = {qp.receive_ring, static_cast<size_t>(qp.receive_entries) * qp.receive_stride,
                    qp.receive_entries, qp.receive_stride};
  spec.doorbell = qp.doorbell;
  spec.signal_all = attributes.sq_sig_all != 0;
  spec.user_index = qp.user_index;
  const uint32_t flags =
      (attributes.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? attributes.create_flags : 0;
  spec.deaf_to_itself = (flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  spec.frames = {(flags & IBV_QP_CREATE_CVLAN_STRIPPING) != 0, (flags & IBV_QP_CREATE_SCATTER_FCS) != 0};
  spec.owner = static_cast<verbs::QueuePair*>(&qp);
  return spec;
}

void describe_dc(const QueuePair& qp, const mlx5dv_qp_init_attr& special, hw::QpSpec& spec) {
  const mlx5dv_dc_init_attr& dc = special.dc_init_attr;
  spec.type = qp.dc == DcRole::kTarget ? hw::QpType::kDct : hw::QpType::kDci;
  if (qp.dc == DcRole::kTarget)
    spec.access_key = dc.dct_access_key;
  else if ((special.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) != 0)
    spec.errored_streams_max = 1u << dc.dci_streams.log_num_errored;
}

void clean_cqs(QueuePair& qp) {
  ibv_cq* const send = qp.qp.send_cq;
  ibv_cq* const receive = qp.qp.recv_cq;
  if (receive != nullptr) clean_cq(CompletionQueue::of(receive), qp.user_index, qp.srq);
  if (send != nullptr && send != receive) clean_cq(CompletionQueue::of(send), qp.user_index, nullptr);
}

void reset_host_state(QueuePair& qp) {
  clean_cqs(qp);
  const std::scoped_lock guard(qp.send_lock, qp.receive_lock);
  qp.head = qp.block = 0;
  qp.tail = 0;
  qp.fence_next = false;
  qp.opcodes = 0;
  qp.started = false;
  qp.takes_receives = false;
  qp.receive_head = 0;
  qp.receive_tail = 0;
  if (qp.doorbell == nullptr) return;
  qp.doorbell[connectx::kReceiveDoorbell] = 0;
  qp.doorbell[connectx::kSendDoorbell] = 0;
}

void open_queues(QueuePair& qp, hw::QpState state) {
  const std::scoped_lock guard(qp.send_lock, qp.receive_lock);
  if (state == hw::QpState::kInit) qp.takes_receives = true;
  if (state != hw::QpState::kRts) return;
  qp.started = true;
  // Requests of a DC initiator are posted by the ibv_wr_ calls, which alone can name a target.
  if (qp.dc == DcRole::kNone) qp.opcodes = opcodes_of(qp.qp.qp_type);
}

/// It has no queues, and is of no protection domain.
verbs::QueuePair* create_xrc_receiver(verbs::Context& context, ibv_qp_init_attr_ex& attributes) {
  auto qp = std::unique_ptr<QueuePair>(new (std::nothrow) QueuePair);
  if (qp == nullptr) return verbs::refuse_pointer(context, ENOMEM, "no memory for a queue pair");
  qp->hca = context.hca;
  qp->qp.qp_type = IBV_QPT_XRC_RECV;
  QueuePairTable& table = ContextState::of(context).queue_pairs;
  if (!table.add(*qp, qp->user_index))
    return verbs::refuse_pointer(context, ENOMEM, "all queue pairs are in use");
  hw::QpSpec spec;
  spec.type = hw::QpType::kXrcReceive;
  spec.xrcd = verbs::XrcDomain::of(attributes.xrcd)->number;
  spec.user_index = qp->user_index;
  spec.owner = static_cast<verbs::QueuePair*>(qp.get());
  auto device = context.hca->create_qp(spec);
  if (!device) {
    table.remove(qp->user_index);
    return verbs::refuse_pointer(context, device.error());
  }
  qp->device = *device;
  qp->number = qp->device->number;
  attributes.cap = {};
  return qp.release();
}

}  // namespace

verbs::QueuePair* open_qp(verbs::Context& context, const verbs::QueuePair& receiver) {
  const auto& origin = static_cast<const QueuePair&>(receiver);
  auto* qp = new (std::nothrow) QueuePair;
  if (qp == nullptr) return verbs::refuse_pointer(context, ENOMEM, "no memory for a queue pair");
  qp->qp.qp_type = IBV_QPT_XRC_RECV;
  qp->hca = origin.hca;
  qp->device = origin.device;
  qp->number = origin.number;
  return qp;
}

verbs::QueuePair* create_qp(verbs::Context& context, ibv_qp_init_attr_ex& attributes, const void* extra) {
  if (attributes.qp_type == IBV_QPT_XRC_RECV) return create_xrc_receiver(context, attributes);
  const auto* special = static_cast<const mlx5dv_qp_init_attr*>(extra);
  const DcRole role = role_of(attributes, special);
  // A DC target has no queues of its own.
  auto sizes = role == DcRole::kTarget ? Expected<QueueSizes>(QueueSizes{})
                                       : plan_queues(attributes.qp_type, attributes.cap,
                                                     attributes.srq != nullptr, header_of(attributes));
  if (!sizes) return verbs::refuse_pointer(context, sizes.error());
  const bool builders = (attributes.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const uint64_t operations = operations_of(opcodes_of(attributes.qp_type));
  if (builders && (attributes.send_ops_flags & ~operations) != 0)
    return verbs::refuse_pointer(
        context, EOPNOTSUPP,
        "ibv_create_qp_ex: send_ops_flags ask for operations that this type does not have");
  verbs::ProtectionDomain& domain = *verbs::ProtectionDomain::of(attributes.pd);
  auto qp = std::unique_ptr<QueuePair>(new (std::nothrow) QueuePair);
  if (qp == nullptr || !allocate(*qp, domain, *sizes) || (special != nullptr && qp->need_direct() == nullptr))
    return verbs::refuse_pointer(context, ENOMEM, "no memory for a queue pair");
  qp->dc = role;
  fill_host_state(*qp, attributes, *sizes);
  if (domain.thread_domain != nullptr) {
    qp->send_lock.disable();
    qp->receive_lock.disable();
  }
  qp->hca = context.hca;
  QueuePairTable& table = ContextState::of(context).queue_pairs;
  if (!table.add(*qp, qp->user_index))
    return verbs::refuse_pointer(context, ENOMEM, "all queue pairs are in use");
  hw::QpSpec spec = describe(*qp, attributes, domain);
  spec.frames.looks_into_tunnels = looks_into_tunnels(special);
  if (role != DcRole::kNone) describe_dc(*qp, *special, spec);
  auto device = context.hca->create_qp(spec);
  if (!device) {
    table.remove(qp->user_index);
    return verbs::refuse_pointer(context, device.error());
  }
  qp->device = *device;
  qp->number = qp->device->number;
  if (qp->srq != nullptr) qp->srq->queue_pairs++;
  // All of them: released programs use some that they have not asked for.
  if (builders) install_builders(*qp, operations);
  if (role == DcRole::kTarget) return qp.release();
  attributes.cap = {sizes->send_depth, sizes->receive_entries, sizes->send_sge, sizes->receive_sge,
                    sizes->inline_bytes};
  return qp.release();
}

int modify_qp(verbs::QueuePair& base, const hw::QpAttributes& attributes, uint32_t mask) {
  auto& qp = static_cast<QueuePair&>(base);
  if (const int error = verbs::settle(*qp.context, qp.hca->modify_qp(qp.device, attributes, mask), qp.number))
    return error;
  if ((mask & IBV_QP_STATE) != 0) follow_state(qp, attributes.state);
  return 0;
}

// A DC target can be asked once it takes messages, and for what it has.
int check_query_qp(verbs::QueuePair& base, uint32_t mask) {
  constexpr uint32_t kTargetHas = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_MIN_RNR_TIMER |
                                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_PKEY_INDEX;
  auto& qp = static_cast<QueuePair&>(base);
  if (qp.dc != DcRole::kTarget || ((mask & ~kTargetHas) == 0 && qp.qp.state == IBV_QPS_RTR)) return 0;
  return verbs::refuse(*qp.context, EINVAL,
                       "ibv_query_qp: a DC target has no such attributes, or is not in RTR", qp.number);
}

void follow_state(QueuePair& qp, hw::QpState state) {
  if (state == hw::QpState::kReset)
    reset_host_state(qp);
  else
    open_queues(qp, state);
  // As if it were made only now.
  if (qp.dc == DcRole::kTarget && state == hw::QpState::kRtr) qp.qp.qp_num = qp.number;
}

int destroy_qp(verbs::QueuePair& base) {
  auto& qp = static_cast<QueuePair&>(base);
  if (qp.spreader != 0) return destroy_spreading_qp(qp);
  const bool exposed = conceal(qp);
  if (const int error = verbs::settle(*qp.context, qp.hca->destroy_qp(qp.device), qp.number)) {
    if (exposed) (void)expose(qp);
    return error;
  }
  clean_cqs(qp);
  if (qp.srq != nullptr) qp.srq->queue_pairs--;
  ContextState::of(*qp.context).queue_pairs.remove(qp.user_index);
  return 0;
}

void free_qp(verbs::QueuePair& qp) { delete static_cast<QueuePair*>(&qp); }

}  // namespace verbatim::mlx5
