// SPDX-License-Identifier: MIT
// Where received frames go once they are steered (TIR, table of receive queues), and by what rules they are
// sent (TIS).
#include "abi/prm/receive_steering.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/object_commands.h"
#include "device/connectx/prm/object_limits.h"

namespace verbatim::prm {

namespace {

Result bad(const char* reason) { return refuse(Status::kBadParamErr, reason); }

/// What a TIR asks for and the device cannot do, or nullptr.
const char* beyond_us(View<Tirc> context) {
  if (context[Tirc::tls_en]) return "the device decrypts no TLS";
  if (context[Tirc::packet_merge_mask]) return "the device merges no packets";
  if (context.as<TirDispatch>(Tirc::disp_type) > TirDispatch::kIndirect) return "there is no such dispatch";
  if (context.as<RxHash>(Tirc::rx_hash_fn) > RxHash::kToeplitz) return "there is no such hash function";
  return nullptr;
}

std::vector<ObjectId> references_of(View<Tirc> context) {
  std::vector<ObjectId> references{{ObjectKind::kTransportDomain, context[Tirc::transport_domain]}};
  if (context.as<TirDispatch>(Tirc::disp_type) == TirDispatch::kDirect)
    references.push_back({ObjectKind::kReceiveQueue, context[Tirc::inline_rqn]});
  else
    references.push_back({ObjectKind::kReceiveTable, context[Tirc::indirect_table]});
  return references;
}

Result create_tir(Command<CreateTir>& c) {
  const auto context = c.in[CreateTirIn::ctx];
  if (const char* reason = beyond_us(context)) return bad(reason);
  return make(c, ObjectKind::kTir, object_of(context, references_of(context)), CreateTirOut::tirn);
}

Result query_tir(Command<QueryTir>& c) {
  return show(c, {ObjectKind::kTir, c.in[QueryTirIn::tirn]}, QueryTirOut::tir_context);
}

void copy_hash(View<Tirc> from, Writer<Tirc> to) {
  to.set(Tirc::rx_hash_symmetric, from[Tirc::rx_hash_symmetric]);
  to.set(Tirc::rx_hash_fn, from[Tirc::rx_hash_fn]);
  for (size_t i = 0; i < from.size(Tirc::rx_hash_toeplitz_key); i++)
    to.set(Tirc::rx_hash_toeplitz_key, i, from.at(Tirc::rx_hash_toeplitz_key, i));
  to[Tirc::rx_hash_field_selector_outer].assign(from[Tirc::rx_hash_field_selector_outer].bytes());
  to[Tirc::rx_hash_field_selector_inner].assign(from[Tirc::rx_hash_field_selector_inner].bytes());
}

Result modify_tir(Command<ModifyTir>& c) {
  const Expected<Object*> tir = c.unit.objects().find(c.uid, {ObjectKind::kTir, c.in[ModifyTirIn::tirn]});
  if (!tir) return refuse(tir.error());
  const auto mask = c.in[ModifyTirIn::bitmask];
  const auto wanted = c.in[ModifyTirIn::ctx];
  if (mask[ModifyTirBitmask::packet_merge]) return bad("the device merges no packets");
  if (mask[ModifyTirBitmask::hash] && wanted.as<RxHash>(Tirc::rx_hash_fn) > RxHash::kToeplitz)
    return bad("there is no such hash function");
  const Writer<Tirc> context((*tir)->context);
  if (mask[ModifyTirBitmask::hash]) copy_hash(wanted, context);
  if (mask[ModifyTirBitmask::self_lb_en]) context.set(Tirc::self_lb_block, wanted[Tirc::self_lb_block]);
  return {};
}

Result destroy_tir(Command<DestroyTir>& c) {
  return destroy(c, {ObjectKind::kTir, c.in[DestroyTirIn::tirn]});
}

Result create_tis(Command<CreateTis>& c) {
  const auto context = c.in[CreateTisIn::ctx];
  if (context[Tisc::tls_en]) return bad("the device encrypts no TLS");
  if (context[Tisc::underlay_qpn]) return bad("the port has no IPoIB");
  return make(c, ObjectKind::kTis,
              object_of(context, {{ObjectKind::kTransportDomain, context[Tisc::transport_domain]}}),
              CreateTisOut::tisn);
}

Result query_tis(Command<QueryTis>& c) {
  return show(c, {ObjectKind::kTis, c.in[QueryTisIn::tisn]}, QueryTisOut::tis_context);
}

Result modify_tis(Command<ModifyTis>& c) {
  const Expected<Object*> tis = c.unit.objects().find(c.uid, {ObjectKind::kTis, c.in[ModifyTisIn::tisn]});
  if (!tis) return refuse(tis.error());
  const auto mask = c.in[ModifyTisIn::bitmask];
  const auto wanted = c.in[ModifyTisIn::ctx];
  const Writer<Tisc> context((*tis)->context);
  if (mask[ModifyTisBitmask::prio]) context.set(Tisc::prio, wanted[Tisc::prio]);
  if (mask[ModifyTisBitmask::lag_tx_port_affinity])
    context.set(Tisc::lag_tx_port_affinity, wanted[Tisc::lag_tx_port_affinity]);
  if (mask[ModifyTisBitmask::strict_lag_tx_port_affinity])
    context.set(Tisc::strict_lag_tx_port_affinity, wanted[Tisc::strict_lag_tx_port_affinity]);
  return {};
}

Result destroy_tis(Command<DestroyTis>& c) {
  return destroy(c, {ObjectKind::kTis, c.in[DestroyTisIn::tisn]});
}

/// The receive queues of a table of at most so many, or why there are none.
Result read_table(View<Rqtc> context, uint32_t most, std::vector<ObjectId>& queues) {
  constexpr uint32_t kReceiveQueues = 0;
  const uint32_t actual = context[Rqtc::rqt_actual_size];
  if (context[Rqtc::list_q_type] != kReceiveQueues) return bad("a table is of receive queues");
  if (context[Rqtc::rq_vhca_id_format]) return bad("a table is of queues of this device");
  if (actual == 0 || actual > most) return bad("the table's size is 0 or beyond its largest");
  if (actual > context.size(Rqtc::rq_num))
    return refuse(Status::kBadInpLenErr, "the mailbox ends before the table does");
  for (size_t i = 0; i < actual; i++)
    queues.push_back({ObjectKind::kReceiveQueue, context.at(Rqtc::rq_num, i)[RqNum::rq_num]});
  return {};
}

Result create_rqt(Command<CreateRqt>& c) {
  const auto context = c.in[CreateRqtIn::rqt_context];
  const uint32_t most = context[Rqtc::rqt_max_size];
  if (most > 1u << kLogReceiveTableEntriesMax)
    return refuse(Status::kBadParamErr,
                  "a table's largest size is at most " + std::to_string(1u << kLogReceiveTableEntriesMax));
  std::vector<ObjectId> queues;
  if (Result read = read_table(context, most, queues); !read.ok()) return read;
  return make(c, ObjectKind::kReceiveTable, object_of(context, std::move(queues)), CreateRqtOut::rqtn);
}

Result query_rqt(Command<QueryRqt>& c) {
  const ObjectId id{ObjectKind::kReceiveTable, c.in[QueryRqtIn::rqtn]};
  if (Result shown = show(c, id, QueryRqtOut::rqt_context); !shown.ok()) return shown;
  const Expected<Object*> table = c.unit.objects().find(c.uid, id);
  const auto context = c.out[QueryRqtOut::rqt_context];
  for (size_t i = 0; i < (*table)->references.size(); i++)
    context.at(Rqtc::rq_num, i).set(RqNum::rq_num, (*table)->references[i].number);
  return {};
}

Result modify_rqt(Command<ModifyRqt>& c) {
  ObjectStore& objects = c.unit.objects();
  const Expected<Object*> table = objects.find(c.uid, {ObjectKind::kReceiveTable, c.in[ModifyRqtIn::rqtn]});
  if (!table) return refuse(table.error());
  if (!c.in[ModifyRqtIn::bitmask][RqtBitmask::rqn_list]) return {};
  const auto wanted = c.in[ModifyRqtIn::ctx];
  const Writer<Rqtc> context((*table)->context);
  std::vector<ObjectId> queues;
  if (Result read = read_table(wanted, context[Rqtc::rqt_max_size], queues); !read.ok()) return read;
  if (Outcome done = objects.refer(c.uid, **table, std::move(queues)); !done) return refuse(done.error());
  context.set(Rqtc::rqt_actual_size, wanted[Rqtc::rqt_actual_size]);
  return {};
}

Result destroy_rqt(Command<DestroyRqt>& c) {
  return destroy(c, {ObjectKind::kReceiveTable, c.in[DestroyRqtIn::rqtn]});
}

}  // namespace

std::span<const Entry> steering_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_tir>(), entry<query_tir>(), entry<modify_tir>(), entry<destroy_tir>(),
      entry<create_tis>(), entry<query_tis>(), entry<modify_tis>(), entry<destroy_tis>(),
      entry<create_rqt>(), entry<query_rqt>(), entry<modify_rqt>(), entry<destroy_rqt>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
