// SPDX-License-Identifier: MIT
// Queue pairs: making, changing, reading and releasing them. Posting is the provider's.
#include <algorithm>
#include <cstring>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/convert.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/waiting.h"
#include "lib/ibverbs/xrc.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kMask =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// What a queue pair of Ethernet frames may be made with. Nothing pads writes, as a device need not.
constexpr uint32_t kFrameFlags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_CVLAN_STRIPPING |
                                 IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_PCI_WRITE_END_PADDING;

/// The same for an XRC receiver, which has a domain of its own kind and nothing else.
Error check_receiver(Context& context, const ibv_qp_init_attr_ex& attributes) {
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attributes.xrcd == nullptr)
    return {EINVAL, "ibv_create_qp_ex: an XRC_RECV queue pair needs an XRC domain"};
  // Send operations may be asked for, as one may ask for queue sizes: there is no send queue.
  if ((attributes.comp_mask & ~(kMask | IBV_QP_INIT_ATTR_XRCD)) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: comp_mask asks for what the device does not have"};
  if (attributes.srq != nullptr)
    return {EINVAL, "ibv_create_qp_ex: messages name the shared receive queue of an XRC_RECV queue pair"};
  return attributes.xrcd->context == &context.verbs.context
             ? Error{}
             : Error{EINVAL, "ibv_create_qp_ex: the XRC domain is of another context"};
}

/// Code 0, or why the attributes are refused.
Error check(Context& context, const ibv_qp_init_attr_ex& attributes, bool special) {
  if (attributes.qp_type == IBV_QPT_XRC_RECV) return check_receiver(context, attributes);
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr)
    return {EINVAL, "ibv_create_qp: no protection domain"};
  if ((attributes.comp_mask & ~(kMask | IBV_QP_INIT_ATTR_MAX_TSO_HEADER)) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: comp_mask asks for what the device does not have"};
  const auto type = attributes.qp_type;
  const bool raw = type == IBV_QPT_RAW_PACKET;
  const bool xrc = type == IBV_QPT_XRC_SEND;
  const bool plain = type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || raw || xrc;
  if (!plain && !(special && type == IBV_QPT_DRIVER))
    return {EOPNOTSUPP,
            "ibv_create_qp: queue pairs are of type RC, UC, UD, RAW_PACKET, XRC_SEND or XRC_RECV"};
  if (raw && context.hca->limits().max_frame_bytes == 0)
    return {EOPNOTSUPP, "ibv_create_qp: raw packets are Ethernet frames, which this port does not take"};
  if (!raw && (attributes.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: sends are cut into frames by RAW_PACKET queue pairs alone"};
  const uint32_t known = raw ? kFrameFlags : type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && (attributes.create_flags & ~known) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: create_flags ask for what this type does not have"};
  if (attributes.send_cq == nullptr || (attributes.recv_cq == nullptr && !xrc))
    return {EINVAL, "ibv_create_qp: both completion queues are needed"};
  if (xrc && attributes.srq != nullptr)
    return {EINVAL, "ibv_create_qp: an XRC_SEND queue pair receives nothing"};
  const ibv_context* own = &context.verbs.context;
  if (attributes.send_cq->context != own ||
      (attributes.recv_cq != nullptr && attributes.recv_cq->context != own) ||
      attributes.pd->context != own || (attributes.srq != nullptr && attributes.srq->context != own))
    return {EINVAL, "ibv_create_qp: domain and queues are not of the same context"};
  const hw::Limits& limits = context.hca->limits();
  const ibv_qp_cap& cap = attributes.cap;
  if (cap.max_send_wr > limits.max_qp_wr || (attributes.srq == nullptr && cap.max_recv_wr > limits.max_qp_wr))
    return {EINVAL, "ibv_create_qp: more than " + std::to_string(limits.max_qp_wr) + " work requests"};
  if (cap.max_send_sge > limits.max_sge || (attributes.srq == nullptr && cap.max_recv_sge > limits.max_sge))
    return {EINVAL,
            "ibv_create_qp: more than " + std::to_string(limits.max_sge) + " elements in a work request"};
  return {};
}

constexpr uint32_t kSpreads = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

/// The same for a queue pair that spreads what it receives over a table of work queues.
Error check_spreading(Context& context, const ibv_qp_init_attr_ex& attributes) {
  constexpr uint32_t kNeeded = kSpreads | IBV_QP_INIT_ATTR_PD;
  if ((attributes.comp_mask & kNeeded) != kNeeded || attributes.pd == nullptr ||
      attributes.rwq_ind_tbl == nullptr)
    return {EINVAL, "ibv_create_qp_ex: domain, table and hash belong together"};
  if ((attributes.comp_mask & ~(kNeeded | IBV_QP_INIT_ATTR_CREATE_FLAGS)) != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: comp_mask asks for what the device does not have"};
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attributes.create_flags != 0)
    return {EOPNOTSUPP, "ibv_create_qp_ex: create_flags are not supported"};
  if (attributes.qp_type != IBV_QPT_RAW_PACKET)
    return {EOPNOTSUPP, "ibv_create_qp_ex: a table of work queues is for type RAW_PACKET"};
  const ibv_context* own = &context.verbs.context;
  if (attributes.pd->context != own || attributes.rwq_ind_tbl->context != own)
    return {EINVAL, "ibv_create_qp_ex: domain and table are not of the same context"};
  return {};
}

QueuePair* create(ibv_context* public_context, ibv_qp_init_attr_ex& attributes, const void* special) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  const bool spreads = (attributes.comp_mask & kSpreads) != 0;
  const Error refusal =
      spreads ? check_spreading(*context, attributes) : check(*context, attributes, special != nullptr);
  if (refusal.code != 0) return refuse_pointer(*context, refusal);
  QueuePair* qp = spreads ? context->provider->create_spreading_qp(*context, attributes, special)
                          : context->provider->create_qp(*context, attributes, special);
  if (qp == nullptr) return nullptr;
  const bool receiver = attributes.qp_type == IBV_QPT_XRC_RECV;
  if (receiver) qp = make_receiver(*context, qp, *XrcDomain::of(attributes.xrcd));
  if (qp == nullptr) return nullptr;
  qp->context = context;
  qp->extended = !receiver && (attributes.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  qp->signal_all = attributes.sq_sig_all != 0;
  qp->cap = attributes.cap;
  qp->ece.now = context->hca->limits().ece_options;
  if (!receiver) qp->domain_use = DomainUse(*ProtectionDomain::of(attributes.pd));
  ibv_qp& base = qp->qp;
  base.context = public_context;
  base.qp_context = attributes.qp_context;
  // A receiver shows the domain that was named for it, though it has nothing to do with it.
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) != 0) base.pd = attributes.pd;
  if (!receiver) base.send_cq = attributes.send_cq;
  if (!receiver) base.recv_cq = attributes.recv_cq;
  base.srq = attributes.srq;
  base.handle = base.qp_num = qp->device != nullptr ? qp->device->number : 0;
  base.state = IBV_QPS_RESET;
  base.qp_type = attributes.qp_type;
  init_waiting(base);
  add_object(*context, *qp);
  return qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  QueuePair* qp = create(context, *attributes, nullptr);
  return qp != nullptr ? &qp->qp : nullptr;
}

/// XRC goes one way. Programs name the attributes of both, as a kernel takes them.
uint32_t part_of(ibv_qp_type type, uint32_t mask) {
  constexpr uint32_t kOfReceivers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr uint32_t kOfSenders = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (type == IBV_QPT_XRC_SEND) return mask & ~kOfReceivers;
  return type == IBV_QPT_XRC_RECV ? mask & ~kOfSenders : mask;
}

/// What has no counterpart in the device's attributes.
const char* check_modify(const ibv_qp_attr& attributes, uint32_t mask) {
  if ((mask & IBV_QP_STATE) != 0 && static_cast<uint32_t>(attributes.qp_state) > IBV_QPS_ERR)
    return "no such state";
  if ((mask & IBV_QP_CUR_STATE) != 0 && static_cast<uint32_t>(attributes.cur_qp_state) > IBV_QPS_ERR)
    return "no such current state";
  if ((mask & IBV_QP_PATH_MTU) != 0 && mtu_bytes(attributes.path_mtu) == 0) return "no such path MTU";
  return nullptr;
}

/// Packets have the size that they have: a typical one does not change how they are spaced.
int modify_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attributes) {
  Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  QueuePair& pair = *QueuePair::of(qp);
  if (pair.device == nullptr || qp->qp_type != IBV_QPT_RAW_PACKET)
    return refuse(*context, EINVAL, "ibv_modify_qp_rate_limit: rates are of RAW_PACKET queue pairs that send",
                  qp->qp_num);
  if (attributes->comp_mask != 0)
    return refuse(*context, EINVAL, "ibv_modify_qp_rate_limit: unknown bits in comp_mask", qp->qp_num);
  hw::QpAttributes wanted;
  wanted.rate_limit = attributes->rate_limit;
  wanted.burst_bytes = attributes->max_burst_sz;
  return context->provider->modify_qp(pair, wanted, IBV_QP_RATE_LIMIT);
}

}  // namespace

void install_qp_operations(verbs_context& verbs) {
  verbs.create_qp_ex = create_qp_ex;
  verbs.modify_qp_rate_limit = modify_rate_limit;
  install_flow_operations(verbs);
}

extern "C" ibv_qp* verbatim_create_special_qp(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                                              const void* special) {
  QueuePair* qp = create(context, *attributes, special);
  return qp != nullptr ? &qp->qp : nullptr;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp_init_attr_ex full{};
  // The extended record begins like the plain one.
  std::memcpy(static_cast<void*>(&full), attributes, offsetof(ibv_qp_init_attr, sq_sig_all) + sizeof(int));
  full.comp_mask = IBV_QP_INIT_ATTR_PD;
  full.pd = pd;
  QueuePair* qp = create(pd->context, full, nullptr);
  if (qp == nullptr) return nullptr;
  attributes->cap = full.cap;
  return &qp->qp;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  QueuePair* pair = QueuePair::of(qp);
  return pair->extended ? &pair->ex : nullptr;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int signed_mask) {
  Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  QueuePair& pair = *QueuePair::of(qp);
  const uint32_t mask = part_of(qp->qp_type, static_cast<uint32_t>(signed_mask));
  if (pair.device == nullptr)
    return refuse(*context, EOPNOTSUPP,
                  "ibv_modify_qp: a queue pair with a table of work queues has no states");
  if (const char* refusal = check_modify(*attributes, mask))
    return refuse(*context, EINVAL, std::string("ibv_modify_qp: ") + refusal, qp->qp_num);
  if (const int error = context->provider->modify_qp(pair, to_device(*attributes), mask)) return error;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attributes->qp_state;
  pair.ece.apply();
  return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int attr_mask, ibv_qp_init_attr* init) {
  Context* context = usable(qp->context);
  if (context == nullptr) return EIO;
  QueuePair& pair = *QueuePair::of(qp);
  if (pair.device == nullptr)
    return refuse(*context, EOPNOTSUPP,
                  "ibv_query_qp: a queue pair with a table of work queues has no states");
  if (const int error = context->provider->check_query_qp(pair, static_cast<uint32_t>(attr_mask)))
    return error;
  *attributes = from_device(context->hca->query_qp(pair.device));
  attributes->cap = pair.cap;
  qp->state = attributes->qp_state;
  *init = {qp->qp_context, qp->send_cq, qp->recv_cq, qp->srq, pair.cap, qp->qp_type, pair.signal_all ? 1 : 0};
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  QueuePair& pair = *QueuePair::of(qp);
  Context& context = *pair.context;
  if (context.abandoned) {
    context.provider->free_qp(pair);
    return 0;
  }
  if (!pair.groups.empty())
    return refuse(context, EBUSY, "ibv_destroy_qp: still attached to a multicast group", qp->qp_num);
  if (pair.flows != 0)
    return refuse(context, EBUSY, "ibv_destroy_qp: rules steer packets to the queue pair", qp->qp_num);
  const bool ends = pair.receiver == nullptr || is_last_handle(pair);
  if (ends)
    if (const int error =
            context.provider->destroy_qp(pair.receiver != nullptr ? *pair.receiver->behind : pair))
      return error;
  if (pair.receiver != nullptr) leave_receiver(pair);
  context.async_events.forget(&pair);
  wait_for_acknowledgements(*qp, qp->events_completed, pair.async_reported);
  remove_object(pair);
  destroy_waiting(*qp);
  if (ends && pair.receiver != nullptr) release_receiver(pair.receiver);
  context.provider->free_qp(pair);
  return 0;
}

// Data is placed by copies of the processor and the kernel, whose stores others may see in any order: string
// instructions promise none (not even within 128 bytes), and short copies store their ends first.
int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*op*/, uint32_t /*flags*/) { return 0; }

}  // extern "C"
