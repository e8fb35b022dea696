// SPDX-License-Identifier: MIT
// Commands about objects that were made by verbs.
#include "abi/prm/raw_queues.h"
#include "device/connectx/prm/object_life.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5::devx {
namespace {

using prm::Kind;

int about(const char* call, Kind kind, ibv_context* public_context, const Target& target,
          const Boxes& boxes) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  const Outcome may = allowed_about(call, kind, boxes, target);
  return may ? send(*context, boxes.in, boxes.out) : verbs::refuse(*context, may.error(), target.number);
}

Target target_of(ibv_qp* qp) { return {QueuePair::of(qp).dc == DcRole::kTarget ? "DCT" : "QP", qp->qp_num}; }
Target target_of(ibv_cq* cq) { return {"CQ", verbs::CompletionQueue::of(cq)->device->number}; }

/// It is the RMP of its number, and has an older name.
Target target_of(ibv_srq* srq, const Boxes& boxes) {
  const prm::View<prm::MboxIn> head(boxes.in);
  const auto* command = known_commands().find(static_cast<uint16_t>(head[prm::MboxIn::opcode]),
                                              static_cast<uint16_t>(head[prm::MboxIn::op_mod]));
  const bool old = command == nullptr || prm::object_kind(*command) == "SRQ";
  return {old ? "SRQ" : "RMP", verbs::SharedReceiveQueue::of(srq)->device->number};
}

Target target_of(ibv_wq* wq) { return {"RQ", wq->wq_num}; }
Target target_of(ibv_rwq_ind_table* table) { return {"RQT", static_cast<uint32_t>(table->ind_tbl_num)}; }

/// The state that a mailbox has led a work queue to.
void follow(ibv_wq* wq, const Boxes& boxes) {
  const prm::View<prm::ModifyRqIn> in(boxes.in);
  switch (in[prm::ModifyRqIn::ctx].as<prm::RqState>(prm::Rqc::state)) {
    case prm::RqState::kRst:
      wq->state = IBV_WQS_RESET;
      return reset_wq(WorkQueue::of(wq));
    case prm::RqState::kRdy:
      wq->state = IBV_WQS_RDY;
      return;
    case prm::RqState::kErr:
      wq->state = IBV_WQS_ERR;
      return;
  }
}

/// Brings the host's side to where a transition has left the device.
void follow(ibv_qp* qp) {
  QueuePair& own = QueuePair::of(qp);
  const hw::QpState state = own.hca->query_qp(own.device).state;
  follow_state(own, state);
  qp->state = static_cast<ibv_qp_state>(state);
}

}  // namespace
}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;
using prm::Kind;

extern "C" {

int mlx5dv_devx_qp_query(ibv_qp* qp, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_qp_query", Kind::kQuery, qp->context, devx::target_of(qp),
                     devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_qp_modify(ibv_qp* qp, const void* in, size_t inlen, void* out, size_t outlen) {
  const int error = devx::about("mlx5dv_devx_qp_modify", Kind::kModify, qp->context, devx::target_of(qp),
                                devx::Boxes(in, inlen, out, outlen));
  if (error == 0) devx::follow(qp);
  return error;
}

int mlx5dv_devx_cq_query(ibv_cq* cq, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_cq_query", Kind::kQuery, cq->context, devx::target_of(cq),
                     devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_cq_modify(ibv_cq* cq, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_cq_modify", Kind::kModify, cq->context, devx::target_of(cq),
                     devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_srq_query(ibv_srq* srq, const void* in, size_t inlen, void* out, size_t outlen) {
  const devx::Boxes boxes(in, inlen, out, outlen);
  return devx::about("mlx5dv_devx_srq_query", Kind::kQuery, srq->context, devx::target_of(srq, boxes), boxes);
}

int mlx5dv_devx_srq_modify(ibv_srq* srq, const void* in, size_t inlen, void* out, size_t outlen) {
  const devx::Boxes boxes(in, inlen, out, outlen);
  return devx::about("mlx5dv_devx_srq_modify", Kind::kModify, srq->context, devx::target_of(srq, boxes),
                     boxes);
}

int mlx5dv_devx_wq_query(ibv_wq* wq, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_wq_query", Kind::kQuery, wq->context, devx::target_of(wq),
                     devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_wq_modify(ibv_wq* wq, const void* in, size_t inlen, void* out, size_t outlen) {
  const devx::Boxes boxes(in, inlen, out, outlen);
  const int error =
      devx::about("mlx5dv_devx_wq_modify", Kind::kModify, wq->context, devx::target_of(wq), boxes);
  if (error == 0) devx::follow(wq, boxes);
  return error;
}

int mlx5dv_devx_ind_tbl_query(ibv_rwq_ind_table* table, const void* in, size_t inlen, void* out,
                              size_t outlen) {
  return devx::about("mlx5dv_devx_ind_tbl_query", Kind::kQuery, table->context, devx::target_of(table),
                     devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_ind_tbl_modify(ibv_rwq_ind_table* table, const void* in, size_t inlen, void* out,
                               size_t outlen) {
  return devx::about("mlx5dv_devx_ind_tbl_modify", Kind::kModify, table->context, devx::target_of(table),
                     devx::Boxes(in, inlen, out, outlen));
}

}  // extern "C"
