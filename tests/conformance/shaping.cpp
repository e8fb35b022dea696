// SPDX-License-Identifier: MIT
// What decides when and where queue pairs send: scheduling trees, the table of rates, ports of a LAG, and
// pages of doorbells of emulated devices.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "abi/prm/queue_pairs.h"
#include "abi/prm/scheduling.h"
#include "device/connectx/prm/view.h"
#include "testing/queue_pair_steps.h"
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

TEST(Schedulers, LimitUnreliableOnesToo) {
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
    Pair pair({.type = type});
    Tree tree(pair.left.context, 8);
    ASSERT_EQ(mlx5dv_modify_qp_sched_elem(pair.left.qp, tree.leaf, nullptr), 0);
    const auto before = Clock::now();
    for (int i = 0; i < 60; i++) EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 1000)), 0);
    for (int i = 0; i < 60; i++) EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    EXPECT_GE(Clock::now() - before, milliseconds(55)) << "a megabyte a second";
    EXPECT_EQ(mlx5dv_modify_qp_sched_elem(pair.left.qp, nullptr, nullptr), 0);
  }
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

/// A queue pair that is connected to itself, on a device that takes commands.
class Commanded : public testing::Test {
 protected:
  void SetUp() override {
    context = open_for_commands();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.cap = {8, 8, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &attributes);
    ASSERT_NE(qp, nullptr);
    test::Connection self;
    ASSERT_EQ(ibv_query_gid(context, 1, 0, &self.gid), 0);
    self.qpn = qp->qp_num;
    ASSERT_EQ(test::step_to_init(qp, self), 0);
    ASSERT_EQ(test::step_to_rtr(qp, self), 0);
    ASSERT_EQ(test::step_to_rts(qp, self), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  uint32_t udp_port() {
    std::vector<uint8_t> in(prm::QueryQpIn::kBits / 8), out(prm::QueryQpOut::kBits / 8);
    prm::Writer<prm::QueryQpIn>(in).set(prm::QueryQpIn::opcode, prm::QueryQp::kOpcode);
    prm::Writer<prm::QueryQpIn>(in).set(prm::QueryQpIn::qpn, qp->qp_num);
    EXPECT_EQ(mlx5dv_devx_qp_query(qp, in.data(), in.size(), out.data(), out.size()), 0);
    const auto shown = prm::View<prm::QueryQpOut>(out)[prm::QueryQpOut::qpc];
    return shown[prm::Qpc::primary_address_path][prm::Ads::udp_sport];
  }
  /// RTS to RTS, with the context's extension, which lies behind what the layout describes.
  int run_on(prm::QpOptional32 what, const std::function<void(prm::Writer<prm::Rts2rtsQpIn>)>& fill) {
    using In = prm::Rts2rtsQpIn;
    std::vector<uint8_t> in((In::kBits + prm::QpcExt::kBits) / 8), out(prm::Rts2rtsQpOut::kBits / 8);
    const prm::Writer<In> box(in);
    box.set(In::opcode, prm::Rts2rtsQp::kOpcode);
    box.set(In::qpn, qp->qp_num);
    box.set(In::opt_param_mask_95_32, static_cast<uint64_t>(what));
    box.set(In::qpc_ext, true);
    fill(box);
    return mlx5dv_devx_qp_modify(qp, in.data(), in.size(), out.data(), out.size());
  }
  /// Makes a scheduling element below `parent`.
  mlx5dv_devx_obj* grow(uint32_t parent, prm::SchedulingType type, uint32_t& number) {
    using In = prm::CreateSchedElemIn;
    std::vector<uint8_t> in(In::kBits / 8), out(prm::GeneralObjOutCmdHdr::kBits / 8);
    const prm::Writer<In> box(in);
    box[In::hdr].set(prm::GeneralObjInCmdHdr::opcode, prm::CreateSchedElem::kOpcode);
    box[In::hdr].set(prm::GeneralObjInCmdHdr::obj_type, prm::CreateSchedElem::kMod);
    box[In::sched_elem].set(prm::SchedElem::scheduling_hierarchy, 3);
    const auto element = box[In::sched_elem][prm::SchedElem::sched_context];
    element.set(prm::SchedContext::parent_element_id, parent);
    element.set(prm::SchedContext::element_type, type);
    mlx5dv_devx_obj* made = mlx5dv_devx_obj_create(context, in.data(), in.size(), out.data(), out.size());
    EXPECT_NE(made, nullptr);
    number = prm::View<prm::GeneralObjOutCmdHdr>(out)[prm::GeneralObjOutCmdHdr::obj_id];
    return made;
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

TEST_F(Commanded, UdpPortsAreKeptAndTold) {
  EXPECT_EQ(udp_port(), 0u);
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(qp, 55555), 0);
  EXPECT_EQ(udp_port(), 55555u);
  const auto fill = [](prm::Writer<prm::Rts2rtsQpIn> box) {
    box[prm::Rts2rtsQpIn::qpc][prm::Qpc::primary_address_path].set(prm::Ads::udp_sport, 44444);
  };
  EXPECT_EQ(run_on(prm::QpOptional32::kUdpSport, fill), 0);
  EXPECT_EQ(udp_port(), 44444u);
  Endpoint datagrams({.type = IBV_QPT_UD});
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(datagrams.qp, 55555), EOPNOTSUPP);
}

TEST_F(Commanded, QueuePairsAreScheduled) {
  uint32_t root_number = 0, leaf_number = 0;
  mlx5dv_devx_obj* root = grow(0, prm::SchedulingType::kTsar, root_number);
  mlx5dv_devx_obj* leaf = grow(root_number, prm::SchedulingType::kQueueGroup, leaf_number);
  ASSERT_TRUE(root != nullptr && leaf != nullptr);
  const auto fill = [&](prm::Writer<prm::Rts2rtsQpIn> box) {
    box[prm::Rts2rtsQpIn::qpc_data_ext].set(prm::QpcExt::qos_queue_group_id_requester, leaf_number);
  };
  EXPECT_EQ(run_on(prm::QpOptional32::kQosQueueGroupId, fill), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(leaf), EBUSY);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(qp, nullptr, nullptr), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(leaf), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(root), 0);
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
