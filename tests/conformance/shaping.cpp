// SPDX-License-Identifier: MIT
// What decides when and where queue pairs send: scheduling trees, the table of rates, ports of a LAG, and
// pages of doorbells of emulated devices.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kShare = MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE;
constexpr uint32_t kRate = MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW;

/// A root with one leaf, which is limited to `mbps`.
class Tree {
 public:
  Tree(ibv_context* context, uint32_t mbps) {
    mlx5dv_sched_attr wanted{};
    root = mlx5dv_sched_node_create(context, &wanted);
    EXPECT_NE(root, nullptr);
    wanted = {root, kRate, 0, mbps, 0};
    leaf = mlx5dv_sched_leaf_create(context, &wanted);
    EXPECT_NE(leaf, nullptr);
  }
  ~Tree() {
    EXPECT_EQ(mlx5dv_sched_leaf_destroy(leaf), 0);
    EXPECT_EQ(mlx5dv_sched_node_destroy(root), 0);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  mlx5dv_sched_node* root = nullptr;
  mlx5dv_sched_leaf* leaf = nullptr;
};

/// How long `count` messages of 64 KiB take.
milliseconds time_of(Pair& pair, ibv_wr_opcode opcode, int count) {
  const auto before = Clock::now();
  for (int i = 0; i < count; i++) {
    if (opcode == IBV_WR_SEND) {
      EXPECT_EQ(pair.right.receive(0, kBuffer), 0);
    }
    EXPECT_EQ(pair.left.post(pair.left.request(opcode, kBuffer)), 0);
  }
  for (int i = 0; i < count; i++) EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  for (int i = 0; i < count && opcode == IBV_WR_SEND; i++)
    EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - before);
}

TEST(Schedulers, LimitWhatALeafSends) {
  Pair pair;
  {
    Tree tree(pair.left.context, 80);
    ASSERT_EQ(mlx5dv_modify_qp_sched_elem(pair.left.qp, tree.leaf, tree.leaf), 0);
    EXPECT_EQ(mlx5dv_sched_leaf_destroy(tree.leaf), EBUSY);
    // 10 MB in a second: a message takes 6.5 ms, the last one is not waited for.
    EXPECT_GE(time_of(pair, IBV_WR_RDMA_WRITE, 16), milliseconds(90));
    EXPECT_GE(time_of(pair, IBV_WR_SEND, 16), milliseconds(90));
    EXPECT_LT(time_of(pair, IBV_WR_RDMA_READ, 16), milliseconds(4000)) << "which sends nothing";
    mlx5dv_sched_attr none{tree.root, kRate, 0, 0, 0};
    EXPECT_EQ(mlx5dv_sched_leaf_modify(tree.leaf, &none), 0);
    EXPECT_LT(time_of(pair, IBV_WR_RDMA_WRITE, 16), milliseconds(4000));
    mlx5dv_sched_attr slow{tree.root, kRate, 0, 80, 0};
    EXPECT_EQ(mlx5dv_sched_leaf_modify(tree.leaf, &slow), 0);
    EXPECT_EQ(mlx5dv_modify_qp_sched_elem(pair.left.qp, nullptr, nullptr), 0);
  }
  EXPECT_EQ(time_of(pair, IBV_WR_RDMA_WRITE, 1).count() / 4000, 0);
}

TEST(Schedulers, LetGoOfAnEndedQueuePair) {
  Endpoint other;
  auto pair = std::make_unique<Pair>();
  mlx5dv_sched_attr wanted{};
  ibv_context* context = pair->left.context;
  mlx5dv_sched_node* root = mlx5dv_sched_node_create(context, &wanted);
  wanted = {root, kShare | kRate, 3, 1, 0};
  mlx5dv_sched_leaf* leaf = mlx5dv_sched_leaf_create(context, &wanted);
  ASSERT_TRUE(root != nullptr && leaf != nullptr);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(other.qp, leaf, nullptr), EINVAL) << "another context's";
  ASSERT_EQ(mlx5dv_modify_qp_sched_elem(pair->left.qp, leaf, nullptr), 0);
  EXPECT_EQ(pair->left.post(pair->left.request(IBV_WR_RDMA_WRITE, kBuffer)), 0);
  EXPECT_EQ(pair->left.post(pair->left.request(IBV_WR_RDMA_WRITE, kBuffer)), 0);
  EXPECT_EQ(pair->left.move(IBV_QPS_ERR), 0);  // half a second before its turn
  EXPECT_EQ(pair->left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair->left.wait_status(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(pair->left.qp, nullptr, nullptr), EOPNOTSUPP) << "in ERR";
  EXPECT_EQ(mlx5dv_sched_node_destroy(root), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(std::exchange(pair->left.qp, nullptr)), 0);
  EXPECT_EQ(mlx5dv_sched_leaf_destroy(leaf), 0);
  EXPECT_EQ(mlx5dv_sched_node_destroy(root), 0);
}

TEST(Schedulers, TreesHaveRules) {
  Endpoint self({.type = IBV_QPT_UD});
  mlx5dv_sched_attr wanted{};
  mlx5dv_sched_node* root = mlx5dv_sched_node_create(self.context, &wanted);
  ASSERT_NE(root, nullptr);
  const auto node_error = [&](const mlx5dv_sched_attr& attributes) {
    errno = 0;
    mlx5dv_sched_node* node = mlx5dv_sched_node_create(self.context, &attributes);
    if (node != nullptr) {
      EXPECT_EQ(mlx5dv_sched_node_destroy(node), 0);
    }
    return errno;
  };
  EXPECT_EQ(node_error({root, kShare | kRate, 10, 2, 0}), 0);
  EXPECT_EQ(node_error({nullptr, kRate, 0, 10, 0}), EINVAL);
  EXPECT_EQ(node_error({root, 4, 0, 0, 0}), EINVAL);
  EXPECT_EQ(node_error({root, 0, 0, 0, 1}), EINVAL);
  EXPECT_EQ(mlx5dv_sched_leaf_create(self.context, &wanted), nullptr) << "without a parent";
  EXPECT_EQ(errno, EINVAL);
  wanted.parent = root;
  mlx5dv_sched_leaf* leaf = mlx5dv_sched_leaf_create(self.context, &wanted);
  ASSERT_NE(leaf, nullptr);
  mlx5dv_sched_attr change{root, kShare | kRate, 3, 3, 0};
  EXPECT_EQ(mlx5dv_sched_leaf_modify(leaf, &change), 0);
  EXPECT_EQ(mlx5dv_sched_node_modify(root, &change), EINVAL) << "a root has no share";
  change.comp_mask = 1;
  EXPECT_EQ(mlx5dv_sched_leaf_modify(leaf, &change), EINVAL);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(self.qp, leaf, nullptr), EOPNOTSUPP) << "in RESET";
  EXPECT_EQ(self.to_init(), 0);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(self.qp, leaf, nullptr), 0);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(self.qp, nullptr, leaf), EINVAL) << "datagrams have no responses";
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(self.qp, nullptr, nullptr), 0);
  EXPECT_EQ(mlx5dv_sched_leaf_destroy(leaf), 0);
  EXPECT_EQ(mlx5dv_sched_node_destroy(root), 0);
}

ibv_context* open_for_commands() {
  ibv_device** list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attributes{MLX5DV_CONTEXT_FLAGS_DEVX, 0, nullptr};
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ibv_free_device_list(list);
  EXPECT_NE(context, nullptr);
  return context;
}

TEST(RateTable, GivesIndices) {
  ibv_context* context = open_for_commands();
  const uint8_t rate[] = {0, 0, 0, 100}, none[] = {0, 0, 0, 0};
  const uint8_t burst[] = {0, 0, 0, 100, 0, 0, 1, 0};
  uint8_t large[49] = {};
  mlx5dv_pp* shared = mlx5dv_pp_alloc(context, sizeof rate, rate, 0);
  mlx5dv_pp* same = mlx5dv_pp_alloc(context, sizeof rate, rate, 0);
  mlx5dv_pp* dedicated = mlx5dv_pp_alloc(context, sizeof rate, rate, MLX5DV_PP_ALLOC_FLAGS_DEDICATED_INDEX);
  ASSERT_TRUE(shared != nullptr && same != nullptr && dedicated != nullptr);
  EXPECT_EQ(shared->index, same->index);
  EXPECT_NE(shared->index, dedicated->index);
  const auto error_of = [&](const uint8_t* from, size_t bytes, uint32_t flags) {
    EXPECT_EQ(mlx5dv_pp_alloc(context, bytes, from, flags), nullptr);
    return errno;
  };
  EXPECT_EQ(error_of(none, 4, 0), EINVAL) << "slower than the slowest";
  EXPECT_EQ(error_of(burst, 8, 0), EINVAL);
  EXPECT_EQ(error_of(rate, 0, 0), EINVAL);
  EXPECT_EQ(error_of(large, 49, 0), EOPNOTSUPP);
  EXPECT_EQ(error_of(rate, 4, 8), EOPNOTSUPP);
  for (mlx5dv_pp* each : {shared, same, dedicated}) mlx5dv_pp_free(each);
  EXPECT_EQ(ibv_close_device(context), 0);
  ibv_context* plain = open_first();
  EXPECT_EQ(mlx5dv_pp_alloc(plain, sizeof rate, rate, 0), nullptr) << "opened without commands";
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_close_device(plain), 0);
}

uint8_t* map(ibv_context* context, const mlx5dv_var& var) {
  void* at = mmap(nullptr, var.length, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, var.mmap_off);
  EXPECT_NE(at, MAP_FAILED);
  return static_cast<uint8_t*>(at);
}

TEST(EmulationPages, AreMappedFromTheCommandDescriptor) {
  ibv_context* context = open_first();
  mlx5dv_var* one = mlx5dv_alloc_var(context, 0);
  mlx5dv_var* two = mlx5dv_alloc_var(context, 0);
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_NE(one->page_id, two->page_id);
  EXPECT_EQ(one->length, 4096u);
  EXPECT_EQ(one->comp_mask, 0u);
  uint8_t *first = map(context, *one), *second = map(context, *two), *again = map(context, *one);
  first[100] = 7;
  EXPECT_EQ(again[100], 7) << "the same page";
  EXPECT_EQ(second[100], 0) << "another page";
  for (uint8_t* each : {first, second, again}) munmap(each, 4096);
  mlx5dv_free_var(one);
  mlx5dv_free_var(two);
  EXPECT_EQ(mlx5dv_alloc_var(context, MLX5DV_VAR_ALLOC_FLAG_TLP), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_alloc_var(context, 1u << 30), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(LagPorts, AreNotThereByDefault) {
  Pair pair;
  uint8_t port = 0, active = 0;
  EXPECT_EQ(mlx5dv_query_qp_lag_port(pair.left.qp, &port, &active), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_lag_port(pair.left.qp, 1), EOPNOTSUPP);
}

TEST(LagPorts, CarryWhatTheQueuePairSays) {
  with_devices("mlx5_0:mlx5:lag", [] {
    Pair pair;
    mlx5dv_context device{};
    device.comp_mask = MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
    EXPECT_EQ(mlx5dv_query_device(pair.left.context, &device), 0);
    EXPECT_EQ(device.comp_mask, uint64_t{MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS});
    EXPECT_EQ(device.num_lag_ports, 2);
    uint8_t port = 0, active = 0;
    ASSERT_EQ(mlx5dv_query_qp_lag_port(pair.left.qp, &port, &active), 0);
    EXPECT_TRUE(port == 1 || port == 2);
    EXPECT_EQ(active, port);
    const auto other = static_cast<uint8_t>(3 - port);
    EXPECT_EQ(mlx5dv_modify_qp_lag_port(pair.left.qp, other), 0);
    EXPECT_EQ(mlx5dv_query_qp_lag_port(pair.left.qp, &port, &active), 0);
    EXPECT_EQ(port, other);
    EXPECT_EQ(mlx5dv_modify_qp_lag_port(pair.left.qp, 3), EINVAL);
    EXPECT_EQ(mlx5dv_modify_qp_lag_port(pair.left.qp, 0), EINVAL);
    EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 64)), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.left.move(IBV_QPS_RESET), 0);
    EXPECT_EQ(mlx5dv_modify_qp_lag_port(pair.left.qp, 1), EOPNOTSUPP) << "not in RTS";
  });
}

}  // namespace
}  // namespace verbatim::conformance
