// SPDX-License-Identifier: MIT
// Live contexts and what a fork does to them.
//
// Queues, engine and connection to the others stay the parent's. The child has copies of all objects: their
// operations are replaced by ones that fail, so that nothing of the parent's is touched.
#include "lib/ibverbs/contexts.h"

#include <pthread.h>

#include <mutex>

namespace verbatim::verbs {
namespace {

std::mutex g_lock;
Context* g_contexts = nullptr;

int dead_poll(ibv_cq*, int, ibv_wc*) { return -EIO; }
int dead_notify(ibv_cq*, int) { return EIO; }
int dead_post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr** bad) {
  *bad = wr;
  return EIO;
}
int dead_post_recv(ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  *bad = wr;
  return EIO;
}
int dead_post_srq_recv(ibv_srq*, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  *bad = wr;
  return EIO;
}
int dead_start_poll(ibv_cq_ex*, ibv_poll_cq_attr*) { return EIO; }
int dead_next_poll(ibv_cq_ex*) { return EIO; }
void dead_end_poll(ibv_cq_ex*) {}
void dead_start(ibv_qp_ex*) {}
int dead_complete(ibv_qp_ex*) { return EIO; }

void bury(CompletionQueue& cq) {
  if (!cq.extended) return;
  cq.ex.start_poll = dead_start_poll;
  cq.ex.next_poll = dead_next_poll;
  cq.ex.end_poll = dead_end_poll;
}

// Between wr_start and wr_complete every builder does nothing.
void bury(QueuePair& qp) {
  if (!qp.extended) return;
  ibv_qp_ex& ex = qp.ex;
  ex.wr_start = dead_start;
  ex.wr_complete = dead_complete;
  ex.wr_abort = dead_start;
  ex.wr_atomic_cmp_swp = [](ibv_qp_ex*, uint32_t, uint64_t, uint64_t, uint64_t) {};
  ex.wr_atomic_fetch_add = [](ibv_qp_ex*, uint32_t, uint64_t, uint64_t) {};
  ex.wr_bind_mw = [](ibv_qp_ex*, ibv_mw*, uint32_t, const ibv_mw_bind_info*) {};
  ex.wr_local_inv = [](ibv_qp_ex*, uint32_t) {};
  ex.wr_rdma_read = [](ibv_qp_ex*, uint32_t, uint64_t) {};
  ex.wr_rdma_write = [](ibv_qp_ex*, uint32_t, uint64_t) {};
  ex.wr_rdma_write_imm = [](ibv_qp_ex*, uint32_t, uint64_t, __be32) {};
  ex.wr_send = [](ibv_qp_ex*) {};
  ex.wr_send_imm = [](ibv_qp_ex*, __be32) {};
  ex.wr_send_inv = [](ibv_qp_ex*, uint32_t) {};
  ex.wr_atomic_write = [](ibv_qp_ex*, uint32_t, uint64_t, const void*) {};
  ex.wr_flush = [](ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t) {};
  ex.wr_set_xrc_srqn = [](ibv_qp_ex*, uint32_t) {};
  ex.wr_set_ud_addr = [](ibv_qp_ex*, ibv_ah*, uint32_t, uint32_t) {};
  ex.wr_set_inline_data = [](ibv_qp_ex*, void*, size_t) {};
  ex.wr_set_inline_data_list = [](ibv_qp_ex*, size_t, const ibv_data_buf*) {};
  ex.wr_set_sge = [](ibv_qp_ex*, uint32_t, uint64_t, uint32_t) {};
  ex.wr_set_sge_list = [](ibv_qp_ex*, size_t, const ibv_sge*) {};
}

void bury(Context& context) {
  context.abandoned = true;
  ibv_context_ops& ops = context.verbs.context.ops;
  ops.poll_cq = dead_poll;
  ops.req_notify_cq = dead_notify;
  ops.post_send = dead_post_send;
  ops.post_recv = dead_post_recv;
  ops.post_srq_recv = dead_post_srq_recv;
  for (CompletionQueue* cq = context.completion_queues; cq != nullptr; cq = cq->links.next) bury(*cq);
  for (QueuePair* qp = context.queue_pairs; qp != nullptr; qp = qp->links.next) bury(*qp);
}

void before_fork() { g_lock.lock(); }
void after_fork_in_parent() { g_lock.unlock(); }
void after_fork_in_child() {
  for (Context* context = g_contexts; context != nullptr; context = context->next) bury(*context);
  g_contexts = nullptr;
  g_lock.unlock();
}

template <class T>
void link(T*& head, T& object) {
  object.links = {head, nullptr};
  if (head != nullptr) head->links.previous = &object;
  head = &object;
}

template <class T>
void unlink(T*& head, T& object) {
  (object.links.previous != nullptr ? object.links.previous->links.next : head) = object.links.next;
  if (object.links.next != nullptr) object.links.next->links.previous = object.links.previous;
}

}  // namespace

Context* still_there(ibv_context* public_context) {
  Context* context = Context::of(public_context);
  if (!context->abandoned) return context;
  errno = EIO;
  return nullptr;
}

Context* usable(ibv_context* public_context) {
  Context* context = still_there(public_context);
  if (context == nullptr || !context->failed.load(std::memory_order_relaxed)) return context;
  errno = EIO;
  return nullptr;
}

int check_usable(ibv_context* context) { return usable(context) != nullptr ? 0 : EIO; }

void add_context(Context& context) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
  const std::lock_guard guard(g_lock);
  context.next = g_contexts;
  g_contexts = &context;
}

void remove_context(Context& context) {
  const std::lock_guard guard(g_lock);
  for (Context** at = &g_contexts; *at != nullptr; at = &(*at)->next) {
    if (*at != &context) continue;
    *at = context.next;
    return;
  }
}

void add_object(Context& context, CompletionQueue& cq) {
  const std::lock_guard guard(g_lock);
  link(context.completion_queues, cq);
}
void remove_object(CompletionQueue& cq) {
  const std::lock_guard guard(g_lock);
  unlink(cq.context->completion_queues, cq);
}
void add_object(Context& context, QueuePair& qp) {
  const std::lock_guard guard(g_lock);
  link(context.queue_pairs, qp);
}
void remove_object(QueuePair& qp) {
  const std::lock_guard guard(g_lock);
  unlink(qp.context->queue_pairs, qp);
}

}  // namespace verbatim::verbs
