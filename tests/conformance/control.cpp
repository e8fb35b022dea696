// SPDX-License-Identifier: MIT
// Devices, ports, objects and their owners, names and rates, and what mlx5dv shows and makes.
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "tests/conformance/players.h"

// Exported, though no public header declares them.
extern "C" {
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);
const char* ibv_get_sysfs_path(void);
void ibv_register_driver(const char* name, void* init);
}

namespace verbatim::conformance {
namespace {

TEST(Device, IsListedAndOpened) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "mlx5_0");
  EXPECT_NE(ibv_get_device_guid(list[0]), 0u);
  EXPECT_EQ(ibv_get_device_index(list[0]), 0);
  EXPECT_TRUE(mlx5dv_is_supported(list[0]));
  ibv_context* context = mlx5dv_open_device(list[0], nullptr);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->device, list[0]);
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Device, AnswersQueries) {
  Endpoint self;
  ibv_device_attr plain{};
  EXPECT_EQ(ibv_query_device(self.context, &plain), 0);
  EXPECT_EQ(plain.phys_port_cnt, 1);
  EXPECT_GT(plain.max_qp, 1000);
  EXPECT_EQ(plain.node_guid, ibv_get_device_guid(self.context->device));
  ibv_device_attr_ex extended{};
  EXPECT_EQ(ibv_query_device_ex(self.context, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, plain.max_qp);
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  EXPECT_EQ(ibv_query_rt_values_ex(self.context, &values), 0);
  EXPECT_NE(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK, 0u);
}

TEST(Ports, HaveOneAndItsTables) {
  Endpoint self;
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(self.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_NE(port.flags & IBV_QPF_GRH_REQUIRED, 0);
  EXPECT_LE(port.active_mtu, port.max_mtu);
  for (const int none : {0, 2, 255})
    EXPECT_EQ(ibv_query_port(self.context, static_cast<uint8_t>(none), &port), EINVAL);
  uint64_t speed = 0;
  EXPECT_EQ(ibv_query_port_speed(self.context, 1, &speed), 0);
  EXPECT_EQ(speed, 1000u) << "in 100 Mbit/s";
  EXPECT_EQ(ibv_query_port_speed(self.context, 2, &speed), EINVAL);
  __be16 key = 0;
  EXPECT_EQ(ibv_query_pkey(self.context, 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(self.context, 1, key), 0);
  EXPECT_EQ(ibv_get_pkey_index(self.context, 1, 0x1234), -1);
  EXPECT_EQ(ibv_query_pkey(self.context, 1, port.pkey_tbl_len, &key), -1);
  EXPECT_EQ(ibv_query_pkey(self.context, 1, -1, &key), -1);
  EXPECT_EQ(ibv_query_pkey(self.context, 2, 0, &key), -1);
}

TEST(Ports, ListTheirAddresses) {
  Endpoint self;
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(self.context, 1, &port), 0);
  ibv_gid_entry table[256], entry{};
  const ssize_t count = ibv_query_gid_table(self.context, table, 256, 0);
  ASSERT_GE(count, 1);
  for (ssize_t i = 0; i < count; ++i) {
    EXPECT_EQ(table[i].port_num, 1u);
    EXPECT_LT(table[i].gid_index, static_cast<uint32_t>(port.gid_tbl_len));
    EXPECT_TRUE(table[i].gid_type == IBV_GID_TYPE_ROCE_V1 || table[i].gid_type == IBV_GID_TYPE_ROCE_V2);
    EXPECT_EQ(ibv_query_gid_ex(self.context, 1, table[i].gid_index, &entry, 0), 0);
    EXPECT_EQ(std::memcmp(&entry, &table[i], sizeof entry), 0);
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(self.context, 1, static_cast<int>(table[i].gid_index), &gid), 0);
    EXPECT_EQ(std::memcmp(&gid, &table[i].gid, sizeof gid), 0);
  }
  EXPECT_EQ(ibv_query_gid_table(self.context, table, static_cast<size_t>(count - 1), 0), -EINVAL);
  EXPECT_EQ(ibv_query_gid_table(self.context, table, 256, 1), -EOPNOTSUPP);
  const auto end = static_cast<uint32_t>(port.gid_tbl_len);
  EXPECT_EQ(ibv_query_gid_ex(self.context, 1, end, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(self.context, 2, 0, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(self.context, 1, 0, &entry, 1), EOPNOTSUPP);
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(self.context, 1, port.gid_tbl_len, &gid), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_query_gid(self.context, 1, -1, &gid), -1);
}

// The table has room for addresses that interfaces get later.
TEST(Ports, HaveEmptyEntriesInTheirTables) {
  Endpoint self;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(self.context, 1, &port), 0);
  EXPECT_EQ(port.gid_tbl_len, 256);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(self.context, 1, 255, &entry, 0), ENODATA);
  ibv_gid gid{}, nothing{};
  gid.raw[0] = 1;
  EXPECT_EQ(ibv_query_gid(self.context, 1, 255, &gid), 0);
  EXPECT_EQ(std::memcmp(&gid, &nothing, sizeof gid), 0);
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.sgid_index = 255;
  EXPECT_EQ(ibv_create_ah(self.pd, &address), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Device, ForkedProcessesOpenTheirOwn) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_NE(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
  Endpoint before;
  const pid_t child = fork();
  if (child == 0) {
    { Pair own; }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

constexpr const char* kUnknown = "unknown";

/// Every value from `first` to `last` has a name of its own, and those around them have none.
template <class Enum>
void expect_names(const char* (*name)(Enum), int first, int last) {
  std::set<std::string> seen;
  for (int value = first; value <= last; ++value) {
    EXPECT_STRNE(name(static_cast<Enum>(value)), kUnknown) << value;
    EXPECT_TRUE(seen.insert(name(static_cast<Enum>(value))).second) << value;
  }
  for (const int none : {first - 1, last + 1, 999})
    EXPECT_STREQ(name(static_cast<Enum>(none)), kUnknown) << none;
}

TEST(Names, AreThereForEveryValue) {
  expect_names(ibv_node_type_str, IBV_NODE_CA, IBV_NODE_UNSPECIFIED);
  expect_names(ibv_port_state_str, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER);
  expect_names(ibv_event_type_str, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_SPEED_CHANGE);
  expect_names(ibv_wc_status_str, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE);
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), kUnknown);
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_NOP), "no state change (NOP)");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_MW_BIND_ERR), "memory management operation error");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
}

TEST(Names, OfOpcodes) {
  constexpr const char* kNames[] = {"rdma-write",
                                    "rdma-write-with-imm",
                                    "send",
                                    "send-with-imm",
                                    "rdma-read",
                                    "atomic-cmp-and-swp",
                                    "atomic-fetch-and-add",
                                    "local-inv",
                                    "bind-mw",
                                    "send-with-inv",
                                    "tso",
                                    "driver1",
                                    kUnknown,
                                    kUnknown,
                                    "flush",
                                    "atomic-write",
                                    kUnknown};
  for (size_t i = 0; i < std::size(kNames); ++i)
    EXPECT_STREQ(ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(i)), kNames[i]) << i;
}

TEST(Rates, ConvertBothWays) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
  EXPECT_EQ(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
  EXPECT_EQ(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(mbps_to_ibv_rate(3), IBV_RATE_MAX);
  EXPECT_EQ(mult_to_ibv_rate(0), IBV_RATE_MAX);
  for (int value = IBV_RATE_2_5_GBPS; value <= IBV_RATE_1200_GBPS; value++) {
    const auto rate = static_cast<ibv_rate>(value);
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
    if (ibv_rate_to_mult(rate) > 0) {
      EXPECT_EQ(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
    }
  }
}

TEST(Objects, InUseAreNotReleased) {
  Endpoint self({.srq = true, .channel = true});
  EXPECT_EQ(ibv_dealloc_pd(self.pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(self.cq), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(self.srq), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(self.channel), EBUSY);
}

TEST(Objects, BelongToDomains) {
  Endpoint self;
  ibv_td_init_attr nothing{};
  ibv_td* td = ibv_alloc_td(self.context, &nothing);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = self.pd;
  attributes.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(self.context, &attributes);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  ibv_mr* mr = ibv_reg_mr(parent, self.buffer.data(), 64, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 4;
  queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue.parent_domain = self.pd;
  EXPECT_EQ(ibv_create_cq_ex(self.context, &queue), nullptr) << "no parent domain";
  EXPECT_EQ(errno, EINVAL);
  queue.parent_domain = parent;
  ibv_cq_ex* cq = ibv_create_cq_ex(self.context, &queue);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY) << "its allocators are the queue's";
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST(Objects, DoNotMixContexts) {
  Endpoint self, other;
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = other.pd;
  EXPECT_EQ(ibv_alloc_parent_domain(self.context, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(self.mr, IBV_REREG_MR_CHANGE_PD, other.pd, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 4;
  queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue.parent_domain = other.pd;
  EXPECT_EQ(ibv_create_cq_ex(self.context, &queue), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Direct, MakesQueues) {
  Endpoint self;
  ibv_cq_init_attr_ex cq_wanted{};
  cq_wanted.cqe = 16;
  cq_wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  mlx5dv_cq_init_attr cq_special{};
  cq_special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  cq_special.cqe_size = 64;
  ibv_cq_ex* cq = mlx5dv_create_cq(self.context, &cq_wanted, &cq_special);
  ASSERT_NE(cq, nullptr);
  cq_special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
  EXPECT_EQ(mlx5dv_create_cq(self.context, &cq_wanted, &cq_special), nullptr);
  EXPECT_EQ(errno, EINVAL) << "short completions have a format";
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = ibv_cq_ex_to_cq(cq);
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = self.pd;
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  special.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  for (mlx5dv_qp_init_attr* each : {static_cast<mlx5dv_qp_init_attr*>(nullptr), &special}) {
    ibv_qp* qp = mlx5dv_create_qp(self.context, &wanted, each);
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  EXPECT_EQ(mlx5dv_create_qp(self.context, &wanted, &special), nullptr);
  EXPECT_EQ(errno, EINVAL) << "RC is not DC";
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST(Undeclared, RangesAreForkedAndPathsAreThere) {
  char page[64] = {};
  EXPECT_EQ(ibv_dontfork_range(page, sizeof page), 0);
  EXPECT_EQ(ibv_dofork_range(page, sizeof page), 0);
  EXPECT_STREQ(ibv_get_sysfs_path(), "/sys");
  ibv_register_driver("nobody", nullptr);  // drivers are not loaded that way: nothing happens
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 1);
  ibv_free_device_list(list);
}

TEST(Direct, ShowsQueuesAndDevice) {
  Endpoint self({.srq = true});
  mlx5dv_qp qp{};
  mlx5dv_cq cq{};
  mlx5dv_srq srq{};
  mlx5dv_pd pd{};
  mlx5dv_obj objects{};
  objects.qp = {self.qp, &qp};
  objects.cq = {self.cq, &cq};
  objects.srq = {self.srq, &srq};
  objects.pd = {self.pd, &pd};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_PD), 0);
  EXPECT_NE(qp.sq.buf, nullptr);
  EXPECT_EQ(qp.sq.stride, 64u);
  EXPECT_EQ(cq.cqe_size, 64u);
  EXPECT_NE(srq.buf, nullptr);
  mlx5dv_context device{};
  EXPECT_EQ(mlx5dv_query_device(self.context, &device), 0);
  mlx5dv_clock_info clock{};
  EXPECT_EQ(mlx5dv_get_clock_info(self.context, &clock), 0);
  EXPECT_NE(mlx5dv_ts_to_ns(&clock, clock.last_cycles), 0u);
}

}  // namespace
}  // namespace verbatim::conformance
