// SPDX-License-Identifier: MIT
// Receive and send queues without a queue pair: memory, doorbell record, state. Receive queues get frames
// through a TIR; nothing takes the entries of send queues.
#include "abi/prm/raw_queues.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/object_commands.h"
#include "device/connectx/prm/raw_queue.h"

namespace verbatim::prm {

namespace {

Result bad(const char* reason) { return refuse(Status::kBadParamErr, reason); }

/// What a receive queue asks for and the device cannot do, or nullptr.
const char* beyond_us(View<Rqc> context) {
  if (context.as<RqState>(Rqc::state) != RqState::kRst) return "a queue begins in RST";
  if (context[Rqc::hairpin]) return "the device has no hairpins";
  return nullptr;
}

/// Index 0 is no rate.
bool has_rate(CommandUnit& unit, View<Sqc> context) {
  const auto index = static_cast<uint16_t>(context[Sqc::packet_pacing_rate_limit_index]);
  return index == 0 || unit.has_rate(index);
}

const char* beyond_us(CommandUnit& unit, View<Sqc> context) {
  if (context.as<SqState>(Sqc::state) != SqState::kRst) return "a queue begins in RST";
  if (context[Sqc::hairpin]) return "the device has no hairpins";
  if (context[Sqc::allow_swp]) return "the device takes no hints about headers";
  if (context[Sqc::allow_multi_pkt_send_wqe]) return "an entry is of one packet";
  if (!has_rate(unit, context)) return "there is no such rate limit";
  if (context[Sqc::ts_cqe_to_dest_cqn]) return "timestamps go to no queue of their own";
  if (context[Sqc::qos_queue_group_id]) return "there is no such group of queues";
  if (context[Sqc::tis_lst_sz] > 1) return "a send queue has one TIS";
  return nullptr;
}

/// RST -> RDY -> ERR -> RST, and back from RDY to RST; staying is allowed.
bool leads_to(RqState from, RqState to) {
  switch (from) {
    case RqState::kRst:
      return to == RqState::kRst || to == RqState::kRdy;
    case RqState::kRdy:
      return to == RqState::kRst || to == RqState::kRdy || to == RqState::kErr;
    case RqState::kErr:
      return to == RqState::kRst || to == RqState::kErr;
  }
  return false;
}

Result check_step(uint32_t present, uint32_t assumed, uint32_t wanted) {
  if (assumed != present)
    return refuse(Status::kBadResStateErr, "the queue is not in the state that is said");
  if (!leads_to(static_cast<RqState>(present), static_cast<RqState>(wanted)))
    return refuse(Status::kBadResStateErr, "no way leads from the queue's state to that one");
  return {};
}

std::vector<ObjectId> references_of(View<Wq> context, const RawQueueSpec& spec) {
  return {{ObjectKind::kUmem, spec.umem},
          {ObjectKind::kUmem, spec.doorbell_umem},
          {ObjectKind::kPd, context[Wq::pd]},
          {ObjectKind::kCq, spec.cqn}};
}

/// References hold what a body lies on, so that they come first and go last.
template <class Spec, unsigned kWidth>
Result make_queue(Command<Spec>& c, ObjectKind kind, Object object, const RawQueueSpec& spec,
                  Field<typename Spec::Out, kWidth> number) {
  ObjectStore& objects = c.unit.objects();
  if (Result made = make(c, kind, std::move(object), number); !made.ok()) return made;
  const ObjectId id{kind, c.out[number]};
  auto body = c.unit.make_raw_queue(spec);
  if (!body) {
    static_cast<void>(objects.destroy(c.uid, id));
    return refuse(body.error());
  }
  (*objects.find(c.uid, id))->body = std::move(*body);
  return {};
}

void enter(Object& queue, RqState state, uint32_t number) {
  if (queue.body) static_cast<RawQueueBody&>(*queue.body).enter(state, number);
}

/// A queue that has failed by itself is in ERR.
void note_failure(Object& queue) {
  if (queue.body && static_cast<RawQueueBody&>(*queue.body).has_failed())
    Writer<Rqc>(queue.context).set(Rqc::state, RqState::kErr);
}

engine::FrameWishes wishes_of(View<Rqc> context) { return {!context[Rqc::vsd], context[Rqc::scatter_fcs]}; }

/// A receive queue whose entries are another object's.
Result create_rq_of_rmp(Command<CreateRq>& c, View<Rqc> context) {
  return make(
      c, ObjectKind::kReceiveQueue,
      object_of(context, {{ObjectKind::kRmp, context[Rqc::rmpn]}, {ObjectKind::kCq, context[Rqc::cqn]}}),
      CreateRqOut::rqn);
}

Result create_rq(Command<CreateRq>& c) {
  const auto context = c.in[CreateRqIn::ctx];
  if (const char* reason = beyond_us(context)) return bad(reason);
  const auto memory = context.as<RqMemory>(Rqc::mem_rq_type);
  if (memory == RqMemory::kMemoryRqRmp) return create_rq_of_rmp(c, context);
  if (memory != RqMemory::kMemoryRqInline) return bad("there is no such kind of memory");
  RawQueueSpec spec;
  if (Result read = read_raw_queue(context[Rqc::wq], true, spec); !read.ok()) return read;
  spec.cqn = context[Rqc::cqn];
  spec.user_index = context[Rqc::user_index];
  spec.flushes = context[Rqc::flush_in_error_en];
  spec.wishes = wishes_of(context);
  spec.delays_drop = context[Rqc::delay_drop_en];
  auto references = references_of(context[Rqc::wq], spec);
  if (context[Rqc::counter_set_id])
    references.push_back({ObjectKind::kQCounter, context[Rqc::counter_set_id]});
  return make_queue(c, ObjectKind::kReceiveQueue, object_of(context, std::move(references)), spec,
                    CreateRqOut::rqn);
}

Result query_rq(Command<QueryRq>& c) {
  if (const auto queue = c.unit.objects().find(c.uid, {ObjectKind::kReceiveQueue, c.in[QueryRqIn::rqn]}))
    note_failure(**queue);
  return show(c, {ObjectKind::kReceiveQueue, c.in[QueryRqIn::rqn]}, QueryRqOut::rq_context);
}

/// Another counter set, which is the last of the references where there is one.
Outcome count_elsewhere(Command<ModifyRq>& c, Object& queue, uint32_t set) {
  std::vector<ObjectId> references = queue.references;
  if (references.back().kind == ObjectKind::kQCounter) references.pop_back();
  if (set) references.push_back({ObjectKind::kQCounter, set});
  if (Outcome done = c.unit.objects().refer(c.uid, queue, std::move(references)); !done) return done;
  Writer<Rqc>(queue.context).set(Rqc::counter_set_id, set);
  return Done{};
}

Result modify_rq(Command<ModifyRq>& c) {
  const uint32_t number = c.in[ModifyRqIn::rqn];
  const Expected<Object*> queue = c.unit.objects().find(c.uid, {ObjectKind::kReceiveQueue, number});
  if (!queue) return refuse(queue.error());
  const auto wanted = c.in[ModifyRqIn::ctx];
  note_failure(**queue);
  const Writer<Rqc> context((*queue)->context);
  if (Result step = check_step(context[Rqc::state], c.in[ModifyRqIn::rq_state], wanted[Rqc::state]);
      !step.ok())
    return step;
  const uint64_t mask = c.in[ModifyRqIn::modify_bitmask];
  const auto asks = [mask](ModifyRqField field) { return (mask & static_cast<uint64_t>(field)) != 0; };
  if (asks(ModifyRqField::kRqCounterSetId)) {
    const Outcome counted = count_elsewhere(c, **queue, wanted[Rqc::counter_set_id]);
    if (!counted) return refuse(counted.error());
  }
  if (asks(ModifyRqField::kVsd)) context.set(Rqc::vsd, wanted[Rqc::vsd]);
  if (asks(ModifyRqField::kScatterFcs)) context.set(Rqc::scatter_fcs, wanted[Rqc::scatter_fcs]);
  if ((*queue)->body)
    static_cast<RawQueueBody&>(*(*queue)->body).wish(wishes_of(View<Rqc>((*queue)->context)));
  context.set(Rqc::state, wanted[Rqc::state]);
  enter(**queue, wanted.as<RqState>(Rqc::state), number);
  return {};
}

Result destroy_rq(Command<DestroyRq>& c) {
  return destroy(c, {ObjectKind::kReceiveQueue, c.in[DestroyRqIn::rqn]});
}

Result create_sq(Command<CreateSq>& c) {
  const auto context = c.in[CreateSqIn::ctx];
  if (const char* reason = beyond_us(c.unit, context)) return bad(reason);
  RawQueueSpec spec;
  if (Result read = read_raw_queue(context[Sqc::wq], false, spec); !read.ok()) return read;
  spec.cqn = context[Sqc::cqn];
  spec.user_index = context[Sqc::user_index];
  auto references = references_of(context[Sqc::wq], spec);
  references.push_back({ObjectKind::kUar, context[Sqc::wq][Wq::uar_page]});
  if (context[Sqc::tis_lst_sz]) references.push_back({ObjectKind::kTis, context[Sqc::tis_num_0]});
  return make_queue(c, ObjectKind::kSendQueue, object_of(context, std::move(references)), spec,
                    CreateSqOut::sqn);
}

Result query_sq(Command<QuerySq>& c) {
  return show(c, {ObjectKind::kSendQueue, c.in[QuerySqIn::sqn]}, QuerySqOut::sq_context);
}

Result modify_sq(Command<ModifySq>& c) {
  const uint32_t number = c.in[ModifySqIn::sqn];
  const Expected<Object*> queue = c.unit.objects().find(c.uid, {ObjectKind::kSendQueue, number});
  if (!queue) return refuse(queue.error());
  const auto wanted = c.in[ModifySqIn::ctx];
  const Writer<Sqc> context((*queue)->context);
  if (Result step = check_step(context[Sqc::state], c.in[ModifySqIn::sq_state], wanted[Sqc::state]);
      !step.ok())
    return step;
  constexpr uint64_t kRate = 1;
  const uint64_t changes = c.in[ModifySqIn::modify_bitmask];
  if ((changes & ~kRate) != 0) return bad("a send queue changes nothing but its state and its rate");
  if ((changes & kRate) != 0) {
    if (!has_rate(c.unit, wanted)) return bad("there is no such rate limit");
    context.set(Sqc::packet_pacing_rate_limit_index, wanted[Sqc::packet_pacing_rate_limit_index]);
  }
  context.set(Sqc::state, wanted[Sqc::state]);
  enter(**queue, wanted.as<RqState>(Sqc::state), number);
  return {};
}

Result destroy_sq(Command<DestroySq>& c) {
  return destroy(c, {ObjectKind::kSendQueue, c.in[DestroySqIn::sqn]});
}

}  // namespace

std::span<const Entry> raw_queue_commands() {
  static constexpr Entry kEntries[] = {
      entry<create_rq>(), entry<query_rq>(), entry<modify_rq>(), entry<destroy_rq>(),
      entry<create_sq>(), entry<query_sq>(), entry<modify_sq>(), entry<destroy_sq>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
