// SPDX-License-Identifier: MIT
// Transitions of queue pairs, and what they are.
#include <type_traits>

#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/qp_context.h"
#include "device/connectx/prm/sizes.h"

namespace verbatim::prm {

namespace {

Result modify(CommandUnit& unit, uint16_t uid, uint32_t qpn, const Expected<Transition>& wanted) {
  if (!wanted) return refuse(wanted.error());
  return result_of(unit.modify_qp(uid, qpn, wanted->attributes, wanted->mask));
}

/// What these two transitions may change beside the attributes of the specification.
template <class Spec>
Result change_extras(Command<Spec>& c) {
  using In = typename Spec::In;
  const auto asks = [more = c.in[In::opt_param_mask_95_32]](QpOptional32 what) {
    return (more & static_cast<uint64_t>(what)) != 0;
  };
  const auto context = c.in[In::qpc];
  const auto extension = c.in[In::qpc_data_ext];
  if (Spec::kOpcode == Rts2rtsQp::kOpcode && asks(QpOptional32::kDciStreamChannelId) && c.in[In::qpc_ext]) {
    const auto stream = static_cast<uint16_t>(extension[QpcExt::dci_stream_channel_id]);
    if (Outcome reset = c.unit.reset_stream(c.uid, c.in[In::qpn], stream); !reset) return result_of(reset);
  }
  hw::QpExtras wanted;
  uint32_t mask = 0;
  if (Spec::kOpcode == Rts2rtsQp::kOpcode && (c.in[In::opt_param_mask] & kOptLagPort) != 0) {
    mask |= hw::Hca::kLagPort;
    wanted.lag_port = static_cast<uint8_t>(context[Qpc::lag_tx_port_affinity]);
  }
  if (asks(QpOptional32::kUdpSport)) {
    mask |= hw::Hca::kUdpSourcePort;
    wanted.udp_source_port = static_cast<uint16_t>(context[Qpc::primary_address_path][Ads::udp_sport]);
  }
  if (asks(QpOptional32::kQosQueueGroupId) && c.in[In::qpc_ext]) {
    mask |= hw::Hca::kLeaves;
    wanted.request_leaf = extension[QpcExt::qos_queue_group_id_requester];
    wanted.response_leaf = extension[QpcExt::qos_queue_group_id_responder];
  }
  return mask == 0 ? Result{} : result_of(c.unit.change_qp(c.uid, c.in[In::qpn], mask, wanted));
}

template <class Spec>
Result transition(Command<Spec>& c) {
  using In = typename Spec::In;
  const uint32_t qpn = c.in[In::qpn], optional = c.in[In::opt_param_mask];
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, qpn);
  if (!qp) return refuse(qp.error());
  const bool counts = Spec::kOpcode == Rst2initQp::kOpcode || (optional & kOptCounterSet) != 0;
  const uint32_t set = c.in[In::qpc][Qpc::counter_set_id];
  if (counts && set != 0)
    if (const auto found = c.unit.objects().find(c.uid, {ObjectKind::kQCounter, set}); !found)
      return refuse(found.error());
  Result moved = modify(c.unit, c.uid, qpn,
                        decode_transition(Spec::kOpcode, qp->type, c.in[In::qpc], optional, qp->attributes,
                                          c.unit.port().is_infiniband()));
  if (moved.ok() && counts) moved = result_of(c.unit.count_in(c.uid, qpn, set));
  if constexpr (std::is_same_v<Spec, Rts2rtsQp> || std::is_same_v<Spec, Init2initQp>)
    if (moved.ok()) return change_extras(c);
  return moved;
}

/// To RESET or ERR: there is no context to read.
template <class Spec>
Result leave(Command<Spec>& c) {
  const uint32_t qpn = c.in[Spec::In::qpn];
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, qpn);
  if (!qp) return refuse(qp.error());
  return modify(c.unit, c.uid, qpn,
                decode_transition(Spec::kOpcode, qp->type, View<Qpc>({}), 0, qp->attributes, false));
}

Result query_qp(Command<QueryQp>& c) {
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, c.in[QueryQpIn::qpn]);
  if (!qp) return refuse(qp.error());
  const auto context = c.out[QueryQpOut::qpc];
  encode_attributes(qp->type, qp->attributes, c.unit.port().is_infiniband(), context);
  context.set(Qpc::pd, qp->pd);
  context.set(Qpc::xrcd, qp->xrcd);
  context.set(Qpc::cqn_snd, qp->send_cqn);
  context.set(Qpc::cqn_rcv, qp->receive_cqn);
  context.set(Qpc::srqn_rmpn_xrqn, qp->srqn);
  context.set(Qpc::rq_type, qp->srqn != 0);
  context.set(Qpc::user_index, qp->user_index);
  context.set(Qpc::log_sq_size, qp->log_send_blocks);
  context.set(Qpc::log_rq_size, qp->log_receive_entries);
  context.set(Qpc::log_rq_stride, log2_of(qp->receive_stride / kReceiveUnit));
  context.set(Qpc::no_sq, !qp->sends);
  context.set(Qpc::uar_page, qp->uar);
  context.set(Qpc::dbr_umem_valid, qp->in_umems);
  context.set(Qpc::dbr_umem_id, qp->doorbell.umem);
  context.set(Qpc::dbr_addr, qp->doorbell.offset);
  context.set(Qpc::lag_tx_port_affinity, qp->extras.lag_port);
  context[Qpc::primary_address_path].set(Ads::udp_sport, qp->extras.udp_source_port);
  return {};
}

}  // namespace

std::span<const Entry> qp_commands() {
  static constexpr Entry kEntries[] = {
      entry<transition<Rst2initQp>>(), entry<transition<Init2initQp>>(),
      entry<transition<Init2rtrQp>>(), entry<transition<Rtr2rtsQp>>(),
      entry<transition<Rts2rtsQp>>(),  entry<transition<Sqerr2rtsQp>>(),
      entry<transition<Sqd2rtsQp>>(),  entry<leave<Qp2err>>(),
      entry<leave<Qp2rst>>(),          entry<query_qp>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
