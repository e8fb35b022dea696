// SPDX-License-Identifier: MIT
// Queue pairs: making, changing and connecting them, and what belongs to a connection.
#include "testing/queue_pair_steps.h"
#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_RC,         IBV_QPT_UC,       IBV_QPT_UD,
                                  IBV_QPT_RC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
constexpr uint32_t kRemoteRights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
/// Bits of the masks of ibv_modify_qp, and of operations of queue pairs that are built in place.
constexpr int kAttributeBits = 26;
constexpr uint32_t kOperations = (IBV_QP_EX_WITH_ATOMIC_WRITE << 1) - 1;

ibv_qp_type some_type(Player& p) {
  return p.arguments.odd() ? p.arguments.one_of<ibv_qp_type>(16) : kTypes[p.below(std::size(kTypes))];
}

ibv_cq* some_cq(Player& p) {
  if (p.arguments.odd()) return p.one_in(2) ? nullptr : p.common.strange_cq;
  return p.any(p.cqs);
}

ibv_srq* some_srq(Player& p) {
  if (p.arguments.odd()) return p.common.strange_srq;
  return p.one_in(3) ? p.any(p.srqs) : nullptr;
}

ibv_qp_cap some_cap(Player& p) {
  const auto elements = [&p] { return p.arguments.number<uint32_t>(p.between(1, 4)); };
  return {p.arguments.entries(), p.arguments.entries(), elements(), elements(),
          p.arguments.number<uint32_t>(p.below(256))};
}

void keep(Player& p, const char* call, ibv_qp* qp, const ibv_qp_cap& asked, const ibv_qp_cap& got) {
  if (p.made(call, qp) == nullptr) return;
  p.expect(qp->state == IBV_QPS_RESET || qp->qp_type == IBV_QPT_XRC_RECV, "a new queue pair is not in RESET");
  if (qp->qp_type == IBV_QPT_RC && asked.max_send_wr != 0)
    p.expect(got.max_send_wr >= asked.max_send_wr && got.max_send_sge >= asked.max_send_sge &&
                 got.max_inline_data >= asked.max_inline_data,
             "a queue pair is smaller than asked for");
  p.qps.add(qp);
}

void create_qp(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.qps.full()) return;
  ibv_qp_init_attr attr{};
  attr.qp_context = &p;
  attr.send_cq = some_cq(p);
  attr.recv_cq = some_cq(p);
  attr.srq = some_srq(p);
  attr.cap = some_cap(p);
  attr.qp_type = some_type(p);
  attr.sq_sig_all = p.arguments.number<int>(static_cast<int>(p.below(2)));
  const ibv_qp_cap asked = attr.cap;
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  keep(p, "ibv_create_qp", qp, asked, attr.cap);
}

void create_qp_ex(Player& p) {
  if (p.qps.full()) return;
  uint8_t key[64] = {};
  ibv_qp_init_attr_ex attr{};
  attr.qp_context = &p;
  attr.send_cq = some_cq(p);
  attr.recv_cq = some_cq(p);
  attr.srq = some_srq(p);
  attr.cap = some_cap(p);
  attr.qp_type = some_type(p);
  attr.pd = p.some_pd();
  attr.xrcd = p.arguments.handle(p.any(p.xrc_domains));
  attr.create_flags = p.arguments.bits(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
  attr.max_tso_header = p.arguments.number<uint16_t>(64);
  attr.rwq_ind_tbl = p.arguments.handle(p.any(p.tables));
  attr.rx_hash_conf = {p.arguments.number<uint8_t>(1), 40, key, p.arguments.bits(255)};
  if (p.arguments.odd()) attr.rx_hash_conf.rx_hash_key_len = static_cast<uint8_t>(p.below(sizeof key + 1));
  attr.source_qpn = p.arguments.number<uint32_t>(0);
  attr.send_ops_flags = p.arguments.odd()            ? p.arguments.random.next()
                        : attr.qp_type == IBV_QPT_RC ? p.arguments.random.next() & kOperations
                                                     : uint64_t{IBV_QP_EX_WITH_SEND};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (attr.qp_type == IBV_QPT_XRC_RECV)
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  else if (p.one_in(2))
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (attr.qp_type == IBV_QPT_RAW_PACKET && p.one_in(2))
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  if (p.arguments.odd()) attr.comp_mask ^= 1u << p.below(9);
  if (attr.pd == nullptr && attr.comp_mask == IBV_QP_INIT_ATTR_PD) return;  // the inline call would follow it
  const ibv_qp_cap asked = attr.cap;
  ibv_qp* qp = ibv_create_qp_ex(p.common.context, &attr);
  keep(p, "ibv_create_qp_ex", qp, asked, attr.cap);
}

void open_qp(Player& p) {
  if (p.qps.full()) return;
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
                   p.arguments.bits(IBV_QP_OPEN_ATTR_CONTEXT);
  attr.qp_num = p.some_qpn();
  attr.xrcd = p.arguments.handle(p.any(p.xrc_domains));
  attr.qp_context = &p;
  attr.qp_type = p.arguments.odd() ? IBV_QPT_RC : IBV_QPT_XRC_RECV;
  for (const ibv_qp* qp : p.qps.all())
    if (qp->qp_type == IBV_QPT_XRC_RECV && p.one_in(2)) attr.qp_num = qp->qp_num;
  p.qps.add(p.made("ibv_open_qp", ibv_open_qp(p.common.context, &attr)));
}

void destroy_qp(Player& p) { p.qps.destroy_any(p); }

/// What goes with a transition, as manual pages list it.
uint32_t mask_to(ibv_qp_state state, ibv_qp_type type) {
  const bool datagrams = type == IBV_QPT_UD, frames = type == IBV_QPT_RAW_PACKET;
  const bool reliable = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
  uint32_t mask = IBV_QP_STATE;
  if (state == IBV_QPS_INIT && frames) mask |= IBV_QP_PORT;
  if (state == IBV_QPS_INIT && !frames)
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  if (state == IBV_QPS_RTR && !datagrams && !frames)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (state == IBV_QPS_RTR && reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (state == IBV_QPS_RTS && !frames) mask |= IBV_QP_SQ_PSN;
  if (state == IBV_QPS_RTS && reliable)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return mask;
}

ibv_qp_attr some_attributes(Player& p) {
  ibv_qp_attr attr{};
  attr.cur_qp_state = p.arguments.one_of<ibv_qp_state>(8);
  attr.path_mtu = p.arguments.number<int>(1) != 1 ? p.arguments.one_of<ibv_mtu>(8) : IBV_MTU_1024;
  attr.path_mig_state = p.arguments.one_of<ibv_mig_state>(3);
  attr.qkey = p.arguments.number<uint32_t>(17);
  attr.rq_psn = p.arguments.number<uint32_t>(0);
  attr.sq_psn = p.arguments.number<uint32_t>(0);
  attr.dest_qp_num = p.some_qpn();
  attr.qp_access_flags = p.arguments.bits(kRemoteRights);
  attr.cap = some_cap(p);
  attr.ah_attr = p.some_address();
  attr.alt_ah_attr = p.some_address();
  attr.pkey_index = p.arguments.number<uint16_t>(0);
  attr.alt_pkey_index = p.arguments.number<uint16_t>(0);
  attr.en_sqd_async_notify = p.arguments.number<uint8_t>(1);
  attr.max_rd_atomic = p.arguments.number<uint8_t>(4);
  attr.max_dest_rd_atomic = p.arguments.number<uint8_t>(4);
  attr.min_rnr_timer = p.arguments.number<uint8_t>(1);
  attr.port_num = p.arguments.number<uint8_t>(1);
  attr.timeout = p.arguments.number<uint8_t>(1);
  attr.retry_cnt = p.arguments.number<uint8_t>(static_cast<uint8_t>(p.below(2)));
  attr.rnr_retry = p.arguments.number<uint8_t>(static_cast<uint8_t>(p.below(8)));
  attr.alt_port_num = p.arguments.number<uint8_t>(1);
  attr.alt_timeout = p.arguments.number<uint8_t>(1);
  attr.rate_limit = p.arguments.number<uint32_t>(0);
  return attr;
}

void modify_qp(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_qp_attr attr = some_attributes(p);
  if (qp->state == IBV_QPS_RTS && !p.one_in(6)) return;  // for there is to be traffic
  const bool onwards = qp->state < IBV_QPS_RTS && !p.one_in(6);
  attr.qp_state = onwards ? static_cast<ibv_qp_state>(qp->state + 1) : p.arguments.one_of<ibv_qp_state>(7);
  uint32_t mask = mask_to(attr.qp_state, qp->qp_type);
  if (p.one_in(8)) mask |= 1u << p.below(kAttributeBits);
  if (p.arguments.odd()) mask ^= 1u << p.below(kAttributeBits);
  if (p.arguments.odd()) mask = p.arguments.bits(UINT32_MAX);
  p.took("ibv_modify_qp", ibv_modify_qp(qp, &attr, static_cast<int>(mask)));
}

/// Two of a kind that can talk to each other, so that there is traffic.
void connect(Player& p) {
  ibv_qp* one = p.any(p.qps);
  ibv_qp* two = p.any(p.qps);
  for (int i = 0; i < 4 && one != nullptr && one->qp_type != two->qp_type; i++) two = p.any(p.qps);
  if (one == nullptr || one->qp_type != two->qp_type) return;
  ibv_qp_attr reset{};
  for (ibv_qp* qp : {one, two}) {
    test::Connection to;
    to.gid = p.common.gid;
    to.lid = p.common.lid;
    to.qpn = (qp == one ? two : one)->qp_num;
    to.qkey = 17;
    to.access = kRemoteRights;
    to.timeout = to.retries = 1;
    if (!p.took("ibv_modify_qp", ibv_modify_qp(qp, &reset, IBV_QP_STATE))) return;
    if (!p.took("ibv_modify_qp", test::step_to_init(qp, to)) ||
        !p.took("ibv_modify_qp", test::step_to_rtr(qp, to)) ||
        !p.took("ibv_modify_qp", test::step_to_rts(qp, to)))
      return;
  }
}

void query_qp(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (!p.took("ibv_query_qp",
              ibv_query_qp(qp, &attr, static_cast<int>(p.arguments.bits((1 << kAttributeBits) - 1)), &init)))
    return;
  p.expect(attr.qp_state <= IBV_QPS_ERR && init.qp_type == qp->qp_type,
           "ibv_query_qp: not of this queue pair");
}

void data_in_order(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  const int answer =
      ibv_query_qp_data_in_order(qp, p.arguments.one_of<ibv_wr_opcode>(16), p.arguments.bits(3));
  p.note("ibv_query_qp_data_in_order", true, 0);  // "not in order" is an answer as well
  p.expect(answer >= 0 && answer <= 3, "ibv_query_qp_data_in_order: no such answer");
}

void rate_limit(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_qp_rate_limit_attr attr{p.arguments.number<uint32_t>(1 << 20), p.arguments.number<uint32_t>(0),
                              p.arguments.number<uint16_t>(0), p.arguments.number<uint32_t>(0)};
  p.took("ibv_modify_qp_rate_limit", ibv_modify_qp_rate_limit(qp, &attr));
}

void ece(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_ece options{};
  p.took("ibv_query_ece", ibv_query_ece(qp, &options));
  options.options = p.arguments.number<uint32_t>(options.options);
  options.vendor_id = p.arguments.number<uint32_t>(options.vendor_id);
  options.comp_mask = p.arguments.number<uint32_t>(0);
  p.took("ibv_set_ece", ibv_set_ece(qp, &options));
}

void comp_cntr(Player& p) {
  if (!p.comp_cntrs.full()) {
    ibv_comp_cntr_init_attr attr{p.arguments.number<uint32_t>(0), p.arguments.one_of<ibv_comp_cntr_type>(2),
                                 p.arguments.number<uint32_t>(0)};
    p.comp_cntrs.add(p.made("ibv_create_comp_cntr", ibv_create_comp_cntr(p.common.context, &attr)));
  }
  ibv_comp_cntr* counter = p.any(p.comp_cntrs);
  if (counter == nullptr) return;
  const auto value = p.arguments.number<uint64_t>(1);
  uint64_t read = 0;
  p.took("ibv_set_comp_cntr", ibv_set_comp_cntr(counter, value));
  p.took("ibv_inc_comp_cntr", ibv_inc_comp_cntr(counter, value));
  p.took("ibv_set_err_comp_cntr", ibv_set_err_comp_cntr(counter, value));
  p.took("ibv_inc_err_comp_cntr", ibv_inc_err_comp_cntr(counter, value));
  p.took("ibv_read_comp_cntr", ibv_read_comp_cntr(counter, &read));
  p.took("ibv_read_err_comp_cntr", ibv_read_err_comp_cntr(counter, &read));
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_qp_attach_comp_cntr_attr attr{p.arguments.number<uint32_t>(0), p.arguments.bits(63)};
  p.took("ibv_qp_attach_comp_cntr", ibv_qp_attach_comp_cntr(qp, counter, &attr));
}

void destroy_comp_cntr(Player& p) { p.comp_cntrs.destroy_any(p); }

constexpr Action kActions[] = {
    {create_qp, 14}, {create_qp_ex, 14}, {open_qp, 3},   {destroy_qp, 4},
    {modify_qp, 30}, {connect, 30},      {query_qp, 6},  {data_in_order, 1},
    {rate_limit, 2}, {ece, 2},           {comp_cntr, 3}, {destroy_comp_cntr, 1},
};

}  // namespace

std::span<const Action> queue_pair_actions() { return kActions; }

}  // namespace verbatim::fuzz
