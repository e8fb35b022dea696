// SPDX-License-Identifier: MIT
// Completion channels and queues, their events, shared receive queues, work queues and tables of them.
#include <fcntl.h>

#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

void create_channel(Player& p) {
  if (p.channels.full()) return;
  ibv_comp_channel* channel = p.made("ibv_create_comp_channel", ibv_create_comp_channel(p.common.context));
  if (channel == nullptr) return;
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  p.channels.add(channel);
}
void destroy_channel(Player& p) { p.channels.destroy_any(p); }

void create_cq(Player& p) {
  if (p.cqs.full()) return;
  const uint32_t entries = p.arguments.entries();
  ibv_cq* cq = p.made("ibv_create_cq", ibv_create_cq(p.common.context, static_cast<int>(entries), &p,
                                                     p.any(p.channels), p.arguments.number<int>(0)));
  if (cq == nullptr) return;
  p.expect(cq->cqe >= static_cast<int>(entries) && cq->cq_context == &p, "ibv_create_cq: not as asked for");
  p.cqs.add(cq);
}

void create_cq_ex(Player& p) {
  if (p.cqs.full()) return;
  ibv_cq_init_attr_ex attr{};
  attr.cqe = p.arguments.entries();
  attr.cq_context = &p;
  attr.channel = p.any(p.channels);
  attr.comp_vector = p.arguments.number<uint32_t>(0);
  attr.wc_flags = p.arguments.bits(IBV_CREATE_CQ_SUP_WC_FLAGS & ~(p.one_in(2) ? IBV_WC_EX_WITH_TM_INFO : 0));
  attr.comp_mask = p.arguments.bits(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD);
  attr.flags = p.arguments.bits(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
  attr.parent_domain = p.some_pd();
  ibv_cq_ex* cq = p.made("ibv_create_cq_ex", ibv_create_cq_ex(p.common.context, &attr));
  if (cq == nullptr) return;
  p.cqs.add(ibv_cq_ex_to_cq(cq));
  p.extended.insert(ibv_cq_ex_to_cq(cq));
}

void resize_cq(Player& p) {
  if (ibv_cq* cq = p.any(p.cqs))
    p.took("ibv_resize_cq", ibv_resize_cq(cq, static_cast<int>(p.arguments.entries())));
}

void modify_cq(Player& p) {
  ibv_cq* cq = p.any(p.cqs);
  if (cq == nullptr) return;
  ibv_modify_cq_attr attr{p.arguments.number<uint32_t>(IBV_CQ_ATTR_MODERATE),
                          {p.arguments.number<uint16_t>(0), p.arguments.number<uint16_t>(0)}};
  p.took("ibv_modify_cq", ibv_modify_cq(cq, &attr));
}

void req_notify_cq(Player& p) {
  if (ibv_cq* cq = p.any(p.cqs))
    p.took("ibv_req_notify_cq", ibv_req_notify_cq(cq, p.arguments.number<int>(0)));
}

void destroy_cq(Player& p) {
  p.cqs.destroy_any(p);
  std::erase_if(p.extended, [&](const ibv_cq* cq) { return !p.cqs.has(cq); });
  std::erase_if(p.shared, [&](const ibv_cq* cq) { return !p.cqs.has(cq); });
}

void get_cq_event(Player& p) {
  ibv_comp_channel* channel = p.any(p.channels);
  if (channel == nullptr) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (!p.took_or_minus("ibv_get_cq_event", ibv_get_cq_event(channel, &cq, &context))) return;
  p.expect(p.cqs.has(cq) && context == &p, "ibv_get_cq_event: an event of no queue");
  p.unacknowledged[cq]++;
}

void ack_cq_events(Player& p) {
  if (p.unacknowledged.empty()) return;
  const auto first = p.unacknowledged.begin();
  ibv_ack_cq_events(first->first, 1);
  if (--first->second == 0) p.unacknowledged.erase(first);
}

ibv_srq_attr some_srq_size(Player& p) {
  return {p.arguments.entries(), p.arguments.elements(), p.arguments.number<uint32_t>(0)};
}

void create_srq(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.srqs.full()) return;
  ibv_srq_init_attr attr{&p, some_srq_size(p)};
  const ibv_srq_attr asked = attr.attr;
  ibv_srq* srq = p.made("ibv_create_srq", ibv_create_srq(pd, &attr));
  if (srq == nullptr) return;
  p.expect(attr.attr.max_wr >= asked.max_wr && attr.attr.max_sge >= asked.max_sge,
           "ibv_create_srq: smaller than asked for");
  p.srqs.add(srq);
}

void create_srq_ex(Player& p) {
  constexpr uint32_t kPlain = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  if (p.srqs.full()) return;
  ibv_srq_init_attr_ex attr{};
  attr.srq_context = &p;
  attr.attr = some_srq_size(p);
  attr.srq_type = p.arguments.one_of<ibv_srq_type>(3);
  attr.pd = p.some_pd();
  attr.xrcd = p.arguments.handle(p.any(p.xrc_domains));
  attr.cq = p.arguments.odd() ? p.common.strange_cq : p.any(p.cqs);
  attr.tm_cap = {p.arguments.number<uint32_t>(p.below(16)), p.arguments.number<uint32_t>(p.below(16))};
  attr.comp_mask = kPlain;
  if (attr.srq_type == IBV_SRQT_XRC) attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (attr.srq_type == IBV_SRQT_TM) attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
  if (p.arguments.odd()) attr.comp_mask ^= 1u << p.below(8);
  if (attr.pd == nullptr && (attr.comp_mask & ~kPlain) == 0) return;  // the inline call would follow it
  ibv_srq* srq = p.made("ibv_create_srq_ex", ibv_create_srq_ex(p.common.context, &attr));
  p.srqs.add(srq);
  if (srq != nullptr && attr.cq != nullptr) p.shared.insert(attr.cq);
}

void modify_srq(Player& p) {
  ibv_srq* srq = p.any(p.srqs);
  if (srq == nullptr) return;
  ibv_srq_attr attr = some_srq_size(p);
  p.took("ibv_modify_srq",
         ibv_modify_srq(srq, &attr, static_cast<int>(p.arguments.bits(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))));
}

void query_srq(Player& p) {
  ibv_srq* srq = p.any(p.srqs);
  if (srq == nullptr) return;
  ibv_srq_attr attr{};
  uint32_t number = 0;
  p.took("ibv_query_srq", ibv_query_srq(srq, &attr));
  p.took("ibv_get_srq_num", ibv_get_srq_num(srq, &number));
}

void destroy_srq(Player& p) { p.srqs.destroy_any(p); }

void create_wq(Player& p) {
  if (p.wqs.full()) return;
  ibv_wq_init_attr attr{};
  attr.wq_context = &p;
  attr.wq_type = p.arguments.number<int>(0) == 0 ? IBV_WQT_RQ : static_cast<ibv_wq_type>(1);
  attr.max_wr = p.arguments.entries();
  attr.max_sge = p.arguments.elements();
  attr.pd = p.some_pd();
  attr.cq = p.arguments.odd() ? p.common.strange_cq : p.any(p.cqs);
  attr.comp_mask = p.arguments.bits(IBV_WQ_INIT_ATTR_FLAGS);
  attr.create_flags = p.one_in(2) ? 0 : p.arguments.bits(IBV_WQ_FLAGS_RESERVED - 1);
  p.wqs.add(p.made("ibv_create_wq", ibv_create_wq(p.common.context, &attr)));
}

void modify_wq(Player& p) {
  ibv_wq* wq = p.any(p.wqs);
  if (wq == nullptr) return;
  ibv_wq_attr attr{};
  attr.attr_mask = p.arguments.bits(IBV_WQ_ATTR_STATE | (p.one_in(2) ? IBV_WQ_ATTR_CURR_STATE : 0));
  if (p.one_in(8)) attr.attr_mask |= IBV_WQ_ATTR_FLAGS;
  attr.wq_state = p.arguments.one_of<ibv_wq_state>(4);
  attr.curr_wq_state = p.arguments.odd() ? IBV_WQS_UNKNOWN : wq->state;
  attr.flags = p.arguments.bits(IBV_WQ_FLAGS_RESERVED - 1);
  attr.flags_mask = p.arguments.bits(IBV_WQ_FLAGS_RESERVED - 1);
  p.took("ibv_modify_wq", ibv_modify_wq(wq, &attr));
}

void destroy_wq(Player& p) { p.wqs.destroy_any(p); }

void create_table(Player& p) {
  if (p.tables.full()) return;
  ibv_wq* list[16];
  for (ibv_wq*& wq : list) wq = p.arguments.handle(p.any(p.wqs));
  ibv_rwq_ind_table_init_attr attr{};
  attr.log_ind_tbl_size = p.below(5);
  // Far too many: it must not look at them.
  if (p.arguments.odd())
    attr.log_ind_tbl_size = p.one_in(2) ? 31 : p.arguments.number<uint32_t>(64) | 1u << 5;
  attr.ind_tbl = list;
  attr.comp_mask = p.arguments.number<uint32_t>(0);
  p.tables.add(p.made("ibv_create_rwq_ind_table", ibv_create_rwq_ind_table(p.common.context, &attr)));
}
void destroy_table(Player& p) { p.tables.destroy_any(p); }

constexpr Action kActions[] = {
    {create_channel, 4}, {destroy_channel, 2}, {create_cq, 10}, {create_cq_ex, 8}, {resize_cq, 4},
    {modify_cq, 3},      {req_notify_cq, 8},   {destroy_cq, 4}, {get_cq_event, 8}, {ack_cq_events, 4},
    {create_srq, 4},     {create_srq_ex, 6},   {modify_srq, 4}, {query_srq, 2},    {destroy_srq, 2},
    {create_wq, 4},      {modify_wq, 4},       {destroy_wq, 1}, {create_table, 2}, {destroy_table, 1},
};

}  // namespace

std::span<const Action> queue_actions() { return kActions; }

}  // namespace verbatim::fuzz
