// SPDX-License-Identifier: MIT
// Work requests of every kind, and completions.
#include <iterator>

#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

constexpr uint32_t kListMax = 4, kElementsMax = 6;
constexpr uint32_t kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
constexpr size_t kInlineMax = 1 << 12;  ///< of what a call may read of the arena at once

struct Elements {
  ibv_sge list[kElementsMax];
  int count = 0;
};

/// Several, and more only where it must not look at them.
Elements some_elements(Player& p) {
  Elements out;
  for (ibv_sge& piece : out.list) piece = p.some_piece();
  out.count = static_cast<int>(p.below(3));
  if (p.arguments.odd()) out.count = p.one_in(2) ? -1 : static_cast<int>(1u << (8 + p.below(23)));
  return out;
}

/// The call reads it: it is there, however long.
void make_inline(Player& p, Elements& elements) {
  for (ibv_sge& piece : elements.list) {
    piece.length = p.arguments.odd() ? 1u << (8 + p.below(24)) : p.below(24);
    piece.addr = reinterpret_cast<uint64_t>(p.arguments.sound(kInlineMax));
  }
}

ibv_mw_bind_info some_binding(Player& p) {
  ibv_mr* mr = p.arguments.odd() ? p.common.strange_mr : p.any(p.mrs);
  const uint64_t start = mr != nullptr && mr != p.common.strange_mr ? p.starts[mr] : 0;
  return {p.arguments.handle(mr), p.arguments.number<uint64_t>(start),
          p.arguments.number<uint64_t>(p.below(4096)),
          p.arguments.bits(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                           IBV_ACCESS_ZERO_BASED)};
}

uint32_t some_rkey(Player& p, const ibv_sge& remote) {
  const ibv_mw* mw = p.any(p.mws);
  return mw != nullptr && p.one_in(4) ? mw->rkey : remote.lkey;
}

ibv_wr_opcode some_opcode(Player& p, const ibv_qp& qp) {
  if (p.arguments.odd()) return p.arguments.one_of<ibv_wr_opcode>(16);
  static constexpr ibv_wr_opcode kReliable[] = {
      IBV_WR_RDMA_WRITE,           IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_READ,           IBV_WR_ATOMIC_CMP_AND_SWP,
      IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV,           IBV_WR_BIND_MW,
      IBV_WR_SEND_WITH_INV};
  const bool connected = qp.qp_type == IBV_QPT_RC || qp.qp_type == IBV_QPT_XRC_SEND;
  if (connected) return kReliable[p.below(std::size(kReliable))];
  return p.one_in(2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
}

/// Whether the call follows a pointer that must then be good.
bool needs_window(const ibv_send_wr& wr) { return wr.opcode == IBV_WR_BIND_MW; }

void fill(Player& p, ibv_qp& qp, ibv_send_wr& wr, Elements& elements) {
  wr.wr_id = p.arguments.random.next();
  wr.opcode = some_opcode(p, qp);
  wr.send_flags = p.arguments.bits(kSendFlags);
  const bool may_inline = wr.opcode < IBV_WR_RDMA_READ || wr.opcode == IBV_WR_SEND_WITH_INV;
  if (p.one_in(4) && (may_inline || p.arguments.odd())) wr.send_flags |= IBV_SEND_INLINE;
  if (qp.qp_type == IBV_QPT_RAW_PACKET && p.one_in(4)) wr.send_flags |= IBV_SEND_IP_CSUM;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) make_inline(p, elements);
  wr.sg_list = elements.list;
  wr.num_sge = elements.count;
  const ibv_sge remote = p.some_piece();
  wr.imm_data = some_rkey(p, remote);
  if (qp.qp_type == IBV_QPT_UD) {
    wr.wr.ud.ah = p.arguments.handle(p.any(p.ahs));
    wr.wr.ud.remote_qpn = p.some_qpn();
    wr.wr.ud.remote_qkey = p.arguments.number<uint32_t>(17);
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic = {remote.addr, p.arguments.random.next(), p.arguments.random.next(), some_rkey(p, remote)};
  } else {
    wr.wr.rdma.remote_addr = remote.addr;
    wr.wr.rdma.rkey = some_rkey(p, remote);
  }
  uint32_t number = 0;
  if (const ibv_srq* srq = p.any(p.srqs); srq != nullptr && qp.qp_type == IBV_QPT_XRC_SEND)
    ibv_get_srq_num(const_cast<ibv_srq*>(srq), &number);
  wr.qp_type.xrc.remote_srqn = p.arguments.number<uint32_t>(number);
  if (needs_window(wr)) {
    wr.bind_mw = {p.arguments.handle(p.any(p.mws)), p.arguments.number<uint32_t>(0), some_binding(p)};
    if (wr.bind_mw.mw != nullptr && !p.arguments.odd()) wr.bind_mw.rkey = ibv_inc_rkey(wr.bind_mw.mw->rkey);
  } else if (wr.opcode == IBV_WR_TSO) {
    wr.tso = {p.arguments.sound(kInlineMax), p.arguments.number<uint16_t>(54),
              p.arguments.number<uint16_t>(512)};
    if (wr.tso.hdr_sz > kInlineMax) wr.tso.hdr_sz = kInlineMax;
  }
}

template <class Request>
void expect_bad(Player& p, const Request* list, uint32_t count, const Request* bad, bool done) {
  const bool points = bad >= list && bad < list + count;
  p.expect(done || points, "a refused list of requests, and none of them is named");
}

void post_send(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  ibv_send_wr list[kListMax] = {};
  Elements elements[kListMax];
  const uint32_t count = p.between(1, kListMax);
  for (uint32_t i = 0; i < count; i++) {
    elements[i] = some_elements(p);
    fill(p, *qp, list[i], elements[i]);
    list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const bool done = p.took("ibv_post_send", ibv_post_send(qp, list, &bad));
  expect_bad(p, list, count, bad, done);
}

/// Receives for queues of any kind.
template <class Post>
void post_receives(Player& p, const char* call, Post post) {
  ibv_recv_wr list[kListMax] = {};
  Elements elements[kListMax];
  const uint32_t count = p.between(1, kListMax);
  for (uint32_t i = 0; i < count; i++) {
    elements[i] = some_elements(p);
    list[i] = {p.arguments.random.next(), i + 1 < count ? &list[i + 1] : nullptr, elements[i].list,
               elements[i].count};
  }
  ibv_recv_wr* bad = nullptr;
  const bool done = p.took(call, post(list, &bad));
  expect_bad(p, list, count, bad, done);
}

void post_recv(Player& p) {
  if (ibv_qp* qp = p.any(p.qps))
    post_receives(p, "ibv_post_recv",
                  [qp](ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_recv(qp, list, bad); });
}

void post_srq_recv(Player& p) {
  if (ibv_srq* srq = p.any(p.srqs))
    post_receives(p, "ibv_post_srq_recv",
                  [srq](ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_srq_recv(srq, list, bad); });
}

void post_wq_recv(Player& p) {
  if (ibv_wq* wq = p.any(p.wqs))
    post_receives(p, "ibv_post_wq_recv",
                  [wq](ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_wq_recv(wq, list, bad); });
}

void post_srq_ops(Player& p) {
  ibv_srq* srq = p.any(p.srqs);
  if (srq == nullptr) return;
  ibv_ops_wr list[kListMax] = {};
  Elements elements[kListMax];
  const uint32_t count = p.between(1, kListMax);
  for (uint32_t i = 0; i < count; i++) {
    elements[i] = some_elements(p);
    list[i].wr_id = p.arguments.random.next();
    list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
    list[i].opcode = p.arguments.one_of<ibv_ops_wr_opcode>(3);
    list[i].flags = static_cast<int>(p.arguments.bits(3));
    list[i].tm.unexpected_cnt = p.arguments.number<uint32_t>(0);
    list[i].tm.handle = p.arguments.number<uint32_t>(p.below(8));
    list[i].tm.add = {p.arguments.random.next(), elements[i].list, elements[i].count, p.below(4),
                      p.arguments.number<uint64_t>(3)};
  }
  ibv_ops_wr* bad = nullptr;
  const bool done = p.took("ibv_post_srq_ops", ibv_post_srq_ops(srq, list, &bad));
  expect_bad(p, list, count, bad, done);
}

/// One of a pool's that are right, or any if there is none.
template <class T, class Right>
T* any_that(Player& p, const Pool<T>& pool, Right right) {
  std::vector<T*> some;
  std::ranges::copy_if(pool.all(), std::back_inserter(some), right);
  return some.empty() || p.arguments.odd() ? p.any(pool) : some[p.below(static_cast<uint32_t>(some.size()))];
}

/// A window of type 1, a queue pair of its domain that is connected, and a region of that domain.
void bind_mw(Player& p) {
  ibv_mw* mw = any_that(p, p.mws, [](const ibv_mw* each) { return each->type == IBV_MW_TYPE_1; });
  if (mw == nullptr) return;
  ibv_qp* qp = any_that(p, p.qps, [mw](const ibv_qp* each) {
    return each->qp_type == IBV_QPT_RC && each->state == IBV_QPS_RTS && each->pd == mw->pd;
  });
  if (qp == nullptr) return;
  ibv_mw_bind binding{p.arguments.random.next(), p.arguments.bits(kSendFlags), some_binding(p)};
  if (!p.arguments.odd()) binding.bind_info.mw_access_flags &= ~static_cast<unsigned>(IBV_ACCESS_ZERO_BASED);
  ibv_mr* mr = any_that(p, p.mrs, [mw](const ibv_mr* each) { return each->pd == mw->pd; });
  if (mr != nullptr && !p.arguments.odd()) {
    binding.bind_info.mr = mr;
    binding.bind_info.addr = p.starts[mr];
  }
  p.took("ibv_bind_mw", ibv_bind_mw(qp, mw, &binding));
}

// The builders that the queue pair was made with; others are not there to be called.
void build(Player& p, ibv_qp_ex* ex) {
  const ibv_sge remote = p.some_piece();
  const uint32_t rkey = some_rkey(p, remote);
  const uint64_t at = remote.addr;
  switch (p.below(13)) {
    case 0:
      if (ex->wr_send) ibv_wr_send(ex);
      break;
    case 1:
      if (ex->wr_send_imm) ibv_wr_send_imm(ex, rkey);
      break;
    case 2:
      if (ex->wr_send_inv) ibv_wr_send_inv(ex, rkey);
      break;
    case 3:
      if (ex->wr_send_tso) ibv_wr_send_tso(ex, p.arguments.sound(kInlineMax), 54, 512);
      break;
    case 4:
      if (ex->wr_rdma_write) ibv_wr_rdma_write(ex, rkey, at);
      break;
    case 5:
      if (ex->wr_rdma_write_imm) ibv_wr_rdma_write_imm(ex, rkey, at, 1);
      break;
    case 6:
      if (ex->wr_rdma_read) ibv_wr_rdma_read(ex, rkey, at);
      break;
    case 7:
      if (ex->wr_atomic_cmp_swp) ibv_wr_atomic_cmp_swp(ex, rkey, at, 1, 2);
      break;
    case 8:
      if (ex->wr_atomic_fetch_add) ibv_wr_atomic_fetch_add(ex, rkey, at, 1);
      break;
    case 9:
      if (ex->wr_atomic_write) ibv_wr_atomic_write(ex, rkey, at, p.arguments.sound(8));
      break;
    case 10:
      if (ex->wr_flush)
        ibv_wr_flush(ex, rkey, at, p.arguments.number<size_t>(64), p.arguments.number<uint8_t>(1),
                     p.arguments.number<uint8_t>(0));
      break;
    case 11:
      if (ibv_mw* mw = p.arguments.handle(p.any(p.mws)); ex->wr_bind_mw) {
        const ibv_mw_bind_info info = some_binding(p);
        ibv_wr_bind_mw(ex, mw, p.arguments.number<uint32_t>(mw != nullptr ? ibv_inc_rkey(mw->rkey) : 0),
                       &info);
      }
      break;
    default:
      if (ex->wr_local_inv) ibv_wr_local_inv(ex, rkey);
  }
}

void set(Player& p, ibv_qp_ex* ex) {
  Elements elements = some_elements(p);
  const ibv_sge& piece = elements.list[0];
  ibv_data_buf bufs[3];
  for (ibv_data_buf& buf : bufs)
    buf = {p.arguments.sound(kInlineMax), p.arguments.number<size_t>(p.below(64))};
  switch (p.below(6)) {
    case 0:
      return ibv_wr_set_sge(ex, piece.lkey, piece.addr, piece.length);
    case 1:
      return ibv_wr_set_sge_list(ex, static_cast<size_t>(elements.count), elements.list);
    case 2:
      return ibv_wr_set_inline_data(ex, bufs[0].addr, bufs[0].length);
    case 3:
      return ibv_wr_set_inline_data_list(ex, p.below(4), bufs);
    case 4:
      if (ex->wr_set_ud_addr) ibv_wr_set_ud_addr(ex, p.arguments.handle(p.any(p.ahs)), p.some_qpn(), 17);
      return;
    default:
      if (ex->wr_set_xrc_srqn) ibv_wr_set_xrc_srqn(ex, p.arguments.number<uint32_t>(0));
  }
}

void post_in_place(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  ibv_qp_ex* ex = qp != nullptr ? ibv_qp_to_qp_ex(qp) : nullptr;
  if (ex == nullptr) return;
  ibv_wr_start(ex);
  const uint32_t count = p.below(5);
  for (uint32_t i = 0; i < count; i++) {
    ex->wr_id = p.arguments.random.next();
    ex->wr_flags = p.arguments.bits(kSendFlags);
    build(p, ex);
    const uint32_t setters = p.arguments.odd() ? p.below(5) : 1;
    for (uint32_t j = 0; j < setters; j++) set(p, ex);
  }
  if (p.one_in(6)) return ibv_wr_abort(ex);
  p.took("ibv_wr_complete", ibv_wr_complete(ex));
}

void check_completion(Player& p, const ibv_cq* cq, uint32_t status, uint32_t qp_num) {
  p.expect(status <= IBV_WC_TM_RNDV_INCOMPLETE, "a completion with no such status");
  p.expect(*ibv_wc_status_str(static_cast<ibv_wc_status>(status)) != 0, "a status without words");
  if (p.shared.contains(cq)) return;  // its messages may have come by a queue pair that has gone
  const auto& all = p.qps.all();
  const bool known = std::ranges::any_of(all, [=](const ibv_qp* qp) { return qp->qp_num == qp_num; }) ||
                     !p.wqs.all().empty();
  p.expect(known, "a completion of no queue pair");
}

void poll_cq(Player& p) {
  ibv_cq* cq = p.any(p.cqs);
  if (cq == nullptr) return;
  ibv_wc wc[16];
  const int wanted = p.arguments.odd() ? -static_cast<int>(p.below(3)) : static_cast<int>(p.below(17));
  const int got = ibv_poll_cq(cq, wanted, wc);
  p.note("ibv_poll_cq", got > 0, EAGAIN);
  p.expect(got <= std::max(wanted, 0), "ibv_poll_cq: more than there was room for");
  for (int i = 0; i < got; i++) check_completion(p, cq, wc[i].status, wc[i].qp_num);
}

/// Reads what the queue was made to tell.
void read_all(Player& p, ibv_cq_ex* cq) {
  uint64_t sum = ibv_wc_read_opcode(cq) + ibv_wc_read_vendor_err(cq) + ibv_wc_read_wc_flags(cq);
  if (cq->read_byte_len) sum += ibv_wc_read_byte_len(cq);
  if (cq->read_imm_data) sum += ibv_wc_read_imm_data(cq) + ibv_wc_read_invalidated_rkey(cq);
  if (cq->read_src_qp) sum += ibv_wc_read_src_qp(cq);
  if (cq->read_slid) sum += ibv_wc_read_slid(cq);
  if (cq->read_sl) sum += ibv_wc_read_sl(cq);
  if (cq->read_dlid_path_bits) sum += ibv_wc_read_dlid_path_bits(cq);
  if (cq->read_completion_ts) sum += ibv_wc_read_completion_ts(cq);
  if (cq->read_completion_wallclock_ns) sum += ibv_wc_read_completion_wallclock_ns(cq);
  if (cq->read_cvlan) sum += ibv_wc_read_cvlan(cq);
  if (cq->read_flow_tag) sum += ibv_wc_read_flow_tag(cq);
  ibv_wc_tm_info tag{};
  if (cq->read_tm_info) ibv_wc_read_tm_info(cq, &tag);
  p.note("ibv_wc_read", sum + tag.tag != 0, EAGAIN);
  if (cq->read_qp_num) check_completion(p, reinterpret_cast<ibv_cq*>(cq), cq->status, ibv_wc_read_qp_num(cq));
}

void poll_in_place(Player& p) {
  ibv_cq* plain = p.any(p.cqs);
  if (plain == nullptr || !p.extended.contains(plain)) return;
  auto* cq = reinterpret_cast<ibv_cq_ex*>(plain);
  ibv_poll_cq_attr attr{p.arguments.number<uint32_t>(0)};
  if (!p.took("ibv_start_poll", ibv_start_poll(cq, &attr))) return;
  read_all(p, cq);
  for (uint32_t i = p.below(8); i != 0; i--) {
    if (!p.took("ibv_next_poll", ibv_next_poll(cq))) break;
    read_all(p, cq);
  }
  ibv_end_poll(cq);
}

constexpr Action kActions[] = {
    {post_send, 40}, {post_recv, 16},     {post_srq_recv, 6}, {post_wq_recv, 4},   {post_srq_ops, 4},
    {bind_mw, 4},    {post_in_place, 30}, {poll_cq, 30},      {poll_in_place, 20},
};

}  // namespace

std::span<const Action> posting_actions() { return kActions; }

}  // namespace verbatim::fuzz
