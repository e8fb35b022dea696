// SPDX-License-Identifier: MIT
// Scheduling trees, and the queue pairs below their leaves.
#include <new>

#include "lib/mlx5/direct.h"

using namespace verbatim;
using namespace verbatim::mlx5;

/// What a program holds of an element.
struct mlx5dv_sched_node {
  verbs::Context* context;
  uint32_t number;
};
struct mlx5dv_sched_leaf {
  verbs::Context* context;
  uint32_t number;
};

namespace verbatim::mlx5 {
namespace {

constexpr uint32_t kFlags = MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE | MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW;

/// Nullptr, or why the attributes are refused.
const char* check(const mlx5dv_sched_attr* wanted, bool leaf) {
  if (wanted == nullptr) return "there are no attributes";
  if (wanted->comp_mask != 0 || (wanted->flags & ~kFlags) != 0) return "unknown bits in comp_mask or flags";
  if (leaf && wanted->parent == nullptr) return "a leaf needs a parent";
  if (wanted->parent == nullptr && wanted->flags != 0) return "a root has neither share nor limit";
  return nullptr;
}

hw::SchedulingSpec spec_of(const mlx5dv_sched_attr& wanted, bool leaf) {
  hw::SchedulingSpec spec;
  spec.leaf = leaf;
  if (wanted.parent != nullptr) spec.parent = wanted.parent->number;
  if ((wanted.flags & MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE) != 0) spec.share = wanted.bw_share;
  if ((wanted.flags & MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW) != 0) spec.max_mbps = wanted.max_avg_bw;
  return spec;
}

template <class Element>
Element* create(const char* call, ibv_context* public_context, const mlx5dv_sched_attr* wanted, bool leaf) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  const char* refusal = check(wanted, leaf);
  if (refusal == nullptr && wanted->parent != nullptr && wanted->parent->context != context)
    refusal = "the parent is another context's";
  if (refusal != nullptr) return verbs::refuse_pointer(*context, EINVAL, std::string(call) + ": " + refusal);
  auto made = std::unique_ptr<Element>(new (std::nothrow) Element{context, 0});
  if (made == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto number = context->hca->create_scheduling_element(spec_of(*wanted, leaf));
  if (!number) return verbs::refuse_pointer(*context, number.error());
  made->number = *number;
  return made.release();
}

template <class Element>
int modify(const char* call, Element* element, const mlx5dv_sched_attr* wanted, bool leaf) {
  if (element == nullptr) return EINVAL;
  verbs::Context& context = *element->context;
  if (context.abandoned) return EOPNOTSUPP;
  if (const char* refusal = check(wanted, leaf))
    return verbs::refuse(context, EINVAL, std::string(call) + ": " + refusal);
  static_assert(MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE == int{hw::Hca::kShare} &&
                MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW == int{hw::Hca::kRate});
  return verbs::settle(context, context.hca->modify_scheduling_element(element->number, wanted->flags,
                                                                       spec_of(*wanted, leaf)));
}

template <class Element>
int destroy(Element* element) {
  verbs::Context& context = *element->context;
  if (!context.abandoned)
    if (const int error = verbs::settle(context, context.hca->destroy_scheduling_element(element->number)))
      return error;
  delete element;
  return 0;
}

}  // namespace
}  // namespace verbatim::mlx5

extern "C" {

mlx5dv_sched_node* mlx5dv_sched_node_create(ibv_context* context, const mlx5dv_sched_attr* attr) {
  return create<mlx5dv_sched_node>("mlx5dv_sched_node_create", context, attr, false);
}
mlx5dv_sched_leaf* mlx5dv_sched_leaf_create(ibv_context* context, const mlx5dv_sched_attr* attr) {
  return create<mlx5dv_sched_leaf>("mlx5dv_sched_leaf_create", context, attr, true);
}
int mlx5dv_sched_node_modify(mlx5dv_sched_node* node, const mlx5dv_sched_attr* attr) {
  return modify("mlx5dv_sched_node_modify", node, attr, false);
}
int mlx5dv_sched_leaf_modify(mlx5dv_sched_leaf* leaf, const mlx5dv_sched_attr* attr) {
  return modify("mlx5dv_sched_leaf_modify", leaf, attr, true);
}
int mlx5dv_sched_node_destroy(mlx5dv_sched_node* node) { return destroy(node); }
int mlx5dv_sched_leaf_destroy(mlx5dv_sched_leaf* leaf) { return destroy(leaf); }

int mlx5dv_modify_qp_sched_elem(ibv_qp* qp, const mlx5dv_sched_leaf* requestor,
                                const mlx5dv_sched_leaf* responder) {
  verbs::Context* context = working(qp->context);
  if (context == nullptr) return errno;
  const bool known = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_UD;
  if (!known)
    return verbs::refuse(*context, EOPNOTSUPP,
                         "mlx5dv_modify_qp_sched_elem: queue pairs of this type are not scheduled",
                         qp->qp_num);
  for (const mlx5dv_sched_leaf* leaf : {requestor, responder})
    if (leaf != nullptr && leaf->context != context)
      return verbs::refuse(*context, EINVAL, "mlx5dv_modify_qp_sched_elem: the leaf is another context's",
                           qp->qp_num);
  const auto number = [](const mlx5dv_sched_leaf* leaf) { return leaf == nullptr ? 0 : leaf->number; };
  hw::QpExtras wanted;
  wanted.request_leaf = number(requestor);
  wanted.response_leaf = number(responder);
  return verbs::settle(*context, context->hca->change_qp(QueuePair::of(qp).device, hw::Hca::kLeaves, wanted),
                       qp->qp_num);
}

}  // extern "C"
