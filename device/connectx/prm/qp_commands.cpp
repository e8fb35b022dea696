// SPDX-License-Identifier: MIT
// Transitions of queue pairs, and what they are.
#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/qp_context.h"

namespace verbatim::prm {

namespace {

Result modify(CommandUnit& unit, uint16_t uid, uint32_t qpn, const Expected<Transition>& wanted) {
  if (!wanted) return refuse(wanted.error());
  return result_of(unit.modify_qp(uid, qpn, wanted->attributes, wanted->mask));
}

template <class Spec>
Result transition(Command<Spec>& c) {
  using In = typename Spec::In;
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, c.in[In::qpn]);
  if (!qp) return refuse(qp.error());
  return modify(
      c.unit, c.uid, c.in[In::qpn],
      decode_transition(Spec::kOpcode, qp->type, c.in[In::qpc], c.in[In::opt_param_mask], qp->attributes));
}

/// To RESET or ERR: there is no context to read.
template <class Spec>
Result leave(Command<Spec>& c) {
  const uint32_t qpn = c.in[Spec::In::qpn];
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, qpn);
  if (!qp) return refuse(qp.error());
  return modify(c.unit, c.uid, qpn,
                decode_transition(Spec::kOpcode, qp->type, View<Qpc>({}), 0, qp->attributes));
}

Result query_qp(Command<QueryQp>& c) {
  const Expected<QpFacts> qp = c.unit.query_qp(c.uid, c.in[QueryQpIn::qpn]);
  if (!qp) return refuse(qp.error());
  const auto context = c.out[QueryQpOut::qpc];
  encode_attributes(qp->type, qp->attributes, context);
  context.set(Qpc::pd, qp->pd);
  context.set(Qpc::cqn_snd, qp->send_cqn);
  context.set(Qpc::cqn_rcv, qp->receive_cqn);
  context.set(Qpc::srqn_rmpn_xrqn, qp->srqn);
  context.set(Qpc::rq_type, qp->srqn != 0);
  context.set(Qpc::user_index, qp->user_index);
  context.set(Qpc::log_sq_size, qp->log_send_blocks);
  context.set(Qpc::log_rq_size, qp->log_receive_entries);
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
