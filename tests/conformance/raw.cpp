// SPDX-License-Identifier: MIT
// Programs that drive the queues of mlx5dv_init_obj() by themselves: entries, doorbell records and registers
// are written here, completions are read out of memory.
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/conformance/idle.h"
#include "tests/conformance/players.h"
#include "tests/conformance/raw_queues.h"

namespace verbatim::conformance {
namespace {

class Raw : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Raw);

TEST_P(Raw, WritesByHand) {
  const Part active = [](Endpoint& self) {
    fill(self, 0, 4096, 5);
    RawQueues raw(self);
    // Twice round the ring, with pauses in which the watcher goes to sleep.
    for (uint32_t i = 0; i < 2 * raw.qp.sq.wqe_cnt; i++) {
      if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      raw.write(4096);
      mlx5_cqe64* cqe = raw.next();
      ASSERT_NE(cqe, nullptr) << "write " << i;
      EXPECT_EQ(mlx5dv_get_cqe_opcode(cqe), MLX5_CQE_REQ);
      EXPECT_EQ(be16toh(cqe->wqe_counter), i & 0xffff);
      EXPECT_EQ(be32toh(cqe->sop_drop_qpn) & 0xffffff, self.qp->qp_num);
    }
    self.barrier();
  };
  play({}, active, [](Endpoint& self) {
    self.barrier();
    EXPECT_TRUE(holds(self, 0, 4096, 5));
  });
}

TEST_P(Raw, RingsOnceForMany) {
  const Part active = [](Endpoint& self) {
    RawQueues raw(self);
    for (int round = 0; round < 100; round++) {
      mlx5_wqe_ctrl_seg* last = nullptr;
      for (int i = 0; i < 8; i++) last = raw.put_write(64);
      raw.ring(last);
      for (int i = 0; i < 8; i++) ASSERT_NE(raw.next(), nullptr) << "round " << round;
    }
    self.barrier();
  };
  play({}, active, [](Endpoint& self) { self.barrier(); });
}

/// Gives an endpoint a completion queue whose completions may be told together, and a queue pair on it.
class CompressedEndpoint {
 public:
  explicit CompressedEndpoint(Endpoint& self) : self_(self), former_cq_(self.cq), former_qp_(self.qp) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 255;
    wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
    mlx5dv_cq_init_attr special{};
    special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    special.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_CSUM | MLX5DV_CQE_RES_FORMAT_HASH;
    EXPECT_EQ(mlx5dv_create_cq(self.context, &wanted, &special), nullptr) << "two formats";
    EXPECT_EQ(errno, EINVAL);
    special.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
    self.cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(self.context, &wanted, &special));
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = self.cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {64, 64, 1, 1, 0};
    self.qp = ibv_create_qp(self.pd, &attributes);
    EXPECT_NE(self.qp, nullptr);
    self.meet();
  }
  ~CompressedEndpoint() {
    EXPECT_EQ(ibv_destroy_qp(std::exchange(self_.qp, former_qp_)), 0);
    EXPECT_EQ(ibv_destroy_cq(std::exchange(self_.cq, former_cq_)), 0);
  }

 private:
  Endpoint& self_;
  ibv_cq* former_cq_;
  ibv_qp* former_qp_;
};

TEST_P(Raw, CompletionsToldTogetherReadAsAnyOthers) {
  constexpr uint32_t kMessages = 60, kRounds = 10;
  const Part active = [](Endpoint& self) {
    const CompressedEndpoint compressed(self);
    for (uint32_t round = 0; round < kRounds; round++) {
      self.barrier();
      for (uint32_t i = 0; i < kMessages; i++) ASSERT_EQ(self.post(self.request(IBV_WR_SEND, 1 + i)), 0);
      for (uint32_t i = 0; i < kMessages; i++) ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      self.barrier();
    }
  };
  play({}, active, [](Endpoint& self) {
    const CompressedEndpoint compressed(self);
    for (uint32_t round = 0; round < kRounds; round++) {
      for (uint32_t i = 0; i < kMessages; i++) ASSERT_EQ(self.receive(i * 64, 64, 1000 + i), 0);
      self.barrier();
      // Some rounds are read while they arrive, some when all is there.
      if (round % 2 == 0) self.barrier();
      for (uint32_t i = 0; i < kMessages; i++) {
        const ibv_wc wc = self.wait();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.opcode, IBV_WC_RECV);
        ASSERT_EQ(wc.byte_len, 1 + i) << "round " << round;
        ASSERT_EQ(wc.wr_id, 1000u + i);
      }
      if (round % 2 != 0) self.barrier();
    }
  });
}

TEST_P(Raw, NonsenseIsAnErrorCompletion) {
  const Part active = [](Endpoint& self) {
    RawQueues raw(self);
    raw.ring(raw.put_write(64, 0x3f));
    mlx5_cqe64* cqe = raw.next();
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(mlx5dv_get_cqe_opcode(cqe), MLX5_CQE_REQ_ERR);
    self.barrier();
  };
  play({}, active, [](Endpoint& self) { self.barrier(); });
}

TEST_P(Raw, ArmsByHand) {
  const Part active = [](Endpoint& self) {
    RawQueues raw(self);
    for (uint32_t i = 0; i < 20; i++) {
      raw.arm(i & 3);
      if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      raw.write(64);
      pollfd file = {self.channel->fd, POLLIN, 0};
      ASSERT_EQ(poll(&file, 1, 10'000), 1) << "event " << i;
      ibv_cq* from = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(self.channel, &from, &context), 0);
      EXPECT_EQ(from, self.cq);
      ibv_ack_cq_events(from, 1);
      ASSERT_NE(raw.next(), nullptr);
    }
    self.barrier();
  };
  play({.channel = true}, active, [](Endpoint& self) { self.barrier(); });
}

// A doorbell that is armed after its completion came: the index in the arm word tells.
TEST_P(Raw, ArmingLateTellsOfWhatIsUnread) {
  const Part active = [](Endpoint& self) {
    RawQueues raw(self);
    raw.write(64);
    ASSERT_NE(raw.await(), nullptr);
    raw.arm(0);
    pollfd file = {self.channel->fd, POLLIN, 0};
    ASSERT_EQ(poll(&file, 1, 10'000), 1);
    ibv_cq* from = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(self.channel, &from, &context), 0);
    ibv_ack_cq_events(from, 1);
    EXPECT_NE(raw.next(), nullptr);
    self.barrier();
  };
  play({.channel = true}, active, [](Endpoint& self) { self.barrier(); });
}

// At the rate of 10 ms in 10 s at most, leaving room for the measurement; a doorbell is then seen all the
// same.
TEST(RawDoorbells, CostNothingWhileNothingRings) {
  if (!stores_can_wake()) GTEST_SKIP() << "userfaultfd is not allowed here: sleep is bounded instead";
  Pair pair;
  RawQueues raw(pair.left);
  raw.write(64);
  ASSERT_NE(raw.next(), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_LT(processor_seconds() - before, 0.005);
  raw.write(64);
  EXPECT_NE(raw.next(), nullptr);
}

TEST(RawObjects, QueueOfLongEntries) {
  Endpoint self;
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 16;
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  mlx5dv_cq_init_attr special{};
  special.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  special.cqe_size = 100;
  EXPECT_EQ(mlx5dv_create_cq(self.context, &wanted, &special), nullptr);
  EXPECT_EQ(errno, EINVAL);
  special.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
  special.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
  special.cqe_size = 64;
  EXPECT_EQ(mlx5dv_create_cq(self.context, &wanted, &special), nullptr) << "only long entries are padded";
  EXPECT_EQ(errno, EINVAL);
  special.cqe_size = 128;
  ibv_cq_ex* cq = mlx5dv_create_cq(self.context, &wanted, &special);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(cq);
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {16, 16, 1, 1, 0};
  ibv_qp* kept = std::exchange(self.qp, ibv_create_qp(self.pd, &attributes));
  ASSERT_NE(self.qp, nullptr);
  ASSERT_EQ(self.connect(self.contact()), 0);  // to itself
  mlx5dv_cq shown{};
  mlx5dv_obj objects{};
  objects.cq = {ibv_cq_ex_to_cq(cq), &shown};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ), 0);
  EXPECT_EQ(shown.cqe_size, 128u);
  auto* entries = static_cast<std::byte*>(shown.buf);
  for (uint32_t i = 0; i < 100; i++) {
    std::byte* half = entries + size_t{i % shown.cqe_cnt} * 128;
    std::memset(half, 0xff, 64);
    ASSERT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 64)), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == 0) std::this_thread::yield();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, 100u);
    ASSERT_TRUE(std::all_of(half, half + 64, [](std::byte b) { return b == std::byte{0}; })) << "padded";
  }
  EXPECT_EQ(ibv_destroy_qp(std::exchange(self.qp, kept)), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

struct Counted {
  size_t given = 0, freed = 0;
};
void* give(size_t bytes, void* data) {
  static_cast<Counted*>(data)->given++;
  return std::malloc(bytes);
}
void take_back(void* memory, void* data) {
  static_cast<Counted*>(data)->freed++;
  std::free(memory);
}

TEST(RawObjects, AllocatorsOfTheContextGiveTheMemory) {
  Counted counted;
  ibv_context* context = open_first();
  mlx5dv_ctx_allocators allocators{give, take_back, &counted};
  ASSERT_EQ(mlx5dv_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &allocators), 0);
  EXPECT_EQ(mlx5dv_set_context_attr(context, static_cast<mlx5dv_set_ctx_attr_type>(9), &allocators),
            EOPNOTSUPP);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(counted.given, 2u) << "ring and doorbell record";
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(counted.freed, 2u);
  EXPECT_EQ(ibv_close_device(context), 0);
}

bool huge_pages() {
  unsigned count = 0;
  std::FILE* file = std::fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
  const bool read = file != nullptr && std::fscanf(file, "%u", &count) == 1;
  if (file != nullptr) std::fclose(file);
  return read && count > 0;
}

TEST(RawObjects, EnvironmentSaysWhereQueuesLie) {
  ibv_context* context = open_first();
  const auto made = [&](const char* wish) {
    setenv("MLX_CQ_ALLOC_TYPE", wish, 1);
    ibv_cq* cq = ibv_create_cq(context, 100, nullptr, nullptr, 0);
    unsetenv("MLX_CQ_ALLOC_TYPE");
    return cq != nullptr && ibv_destroy_cq(cq) == 0;
  };
  for (const char* wish : {"ANON", "PREFER_HUGE", "ALL", "PREFER_CONTIG", "nonsense"})
    EXPECT_TRUE(made(wish)) << wish;
  EXPECT_EQ(made("HUGE"), huge_pages());
  EXPECT_FALSE(made("CONTIG"));
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(RawObjects, DeviceSaysWhatItLacks) {
  Endpoint self;
  mlx5dv_context device{};
  std::memset(&device, 0xff, sizeof device);
  ASSERT_EQ(mlx5dv_query_device(self.context, &device), 0);
  EXPECT_EQ(device.version, 0);
  EXPECT_EQ(device.flags, uint64_t{MLX5DV_CONTEXT_FLAGS_CQE_V1} | MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP |
                              MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD | MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS);
  EXPECT_EQ(device.cqe_comp_caps.max_num, 64u);
  EXPECT_EQ(device.max_wr_memcpy_length, size_t{1} << 21);
  EXPECT_GT(device.max_clock_info_update_nsec, 0u);
  EXPECT_EQ(device.comp_mask & (MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK | MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS), 0u);
  mlx5dv_port port{};
  port.flags = 7;
  EXPECT_EQ(mlx5dv_query_port(self.context, 1, &port), 0);
  EXPECT_EQ(port.flags, 0u) << "no embedded switch";
  EXPECT_EQ(mlx5dv_query_port(self.context, 2, &port), EINVAL);
  char path[64];
  EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, sizeof path), ENODEV);
}

/// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(RawObjects, UsersChooseByEnvironment) {
  Endpoint self;
  {
    const Variable size("MLX5_CQE_SIZE", "100");
    EXPECT_EQ(ibv_create_cq(self.context, 16, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  const Variable size("MLX5_CQE_SIZE", "128"), pages("MLX_CQ_ALLOC_TYPE", "PREFER_HUGE");
  ibv_cq* cq = ibv_create_cq(self.context, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  mlx5dv_cq shown{};
  mlx5dv_obj objects{};
  objects.cq = {cq, &shown};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ), 0);
  EXPECT_EQ(shown.cqe_size, 128u);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  // There may be huge pages or none; without any nothing else will do.
  const Variable only("MLX_QP_ALLOC_TYPE", "HUGE");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = self.cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {16, 16, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(self.pd, &attributes);
  if (qp == nullptr)
    EXPECT_EQ(errno, ENOMEM);
  else
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST(RawObjects, NumbersAndPathsOfQueuePairs) {
  Pair pair;
  Endpoint& self = pair.left;
  uint32_t first = 0, second = 0;
  EXPECT_EQ(mlx5dv_reserved_qpn_alloc(self.context, &first), 0);
  EXPECT_EQ(mlx5dv_reserved_qpn_alloc(self.context, &second), 0);
  EXPECT_NE(first, second);
  EXPECT_NE(first, self.qp->qp_num);
  EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(self.context, first), 0);
  EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(self.context, first), EINVAL);
  uint8_t port = 0, active = 0;
  EXPECT_EQ(mlx5dv_query_qp_lag_port(self.qp, &port, &active), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_lag_port(self.qp, 1), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(self.qp, 50000), 0);
  EXPECT_EQ(self.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(self.qp, 50000), EOPNOTSUPP) << "not in RTS";
  EXPECT_EQ(ibv_query_qp_data_in_order(self.qp, IBV_WR_RDMA_WRITE, 0), 0);
}

TEST(RawObjects, AddressesMapToQueuePairs) {
  Endpoint self({.type = IBV_QPT_UD});
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.dgid = self.contact().gid;
  ibv_ah* ah = ibv_create_ah(self.pd, &attributes);
  ASSERT_NE(ah, nullptr);
  mlx5dv_ah shown{};
  mlx5dv_obj objects{};
  objects.ah = {ah, &shown};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_AH), 0);
  EXPECT_EQ(std::memcmp(shown.av->rgid, attributes.grh.dgid.raw, 16), 0);
  EXPECT_EQ(mlx5dv_init_obj(&objects, 0), EINVAL);
  EXPECT_EQ(mlx5dv_map_ah_to_qp(ah, 0xfffffe), EINVAL);
  Endpoint other;
  EXPECT_EQ(mlx5dv_map_ah_to_qp(ah, other.qp->qp_num), 0) << "of another context, too";
  EXPECT_EQ(mlx5dv_map_ah_to_qp(ah, 0xfffffe), 0) << "one that is mapped stays as it is";
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST(RawObjects, QueuePairFlagsByType) {
  Endpoint self;
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = self.pd;
  const auto error_of = [&](uint64_t mask, uint32_t flags, uint64_t operations) {
    mlx5dv_qp_init_attr special{};
    special.comp_mask = mask;
    special.create_flags = flags;
    special.send_ops_flags = operations;
    errno = 0;
    ibv_qp* qp = mlx5dv_create_qp(self.context, &wanted, &special);
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    return errno;
  };
  constexpr uint64_t kFlags = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE, 0), 0);
  EXPECT_EQ(
      error_of(kFlags, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE | MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, 0),
      EINVAL);
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC, 0), 0) << "means others";
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_TUNNEL_OFFLOADS, 0), EINVAL);
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE, 0), EINVAL);
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_SIG_PIPELINING, 0), 0);
  EXPECT_EQ(error_of(kFlags, MLX5DV_QP_CREATE_OOO_DP, 0), 0) << "an order that nobody can tell";
  EXPECT_EQ(error_of(kFlags, 1u << 20, 0), EINVAL);
  EXPECT_EQ(error_of(1u << 20, 0, 0), EINVAL);
  constexpr uint64_t kOperations = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  EXPECT_EQ(error_of(kOperations, 0, MLX5DV_QP_EX_WITH_MR_LIST), 0);
  EXPECT_EQ(error_of(kOperations, 0, 1u << 30), EOPNOTSUPP);
  wanted.qp_type = IBV_QPT_UD;
  EXPECT_EQ(error_of(kOperations, 0, MLX5DV_QP_EX_WITH_RAW_WQE), 0);
  EXPECT_EQ(error_of(kOperations, 0, MLX5DV_QP_EX_WITH_MR_LIST), EOPNOTSUPP);
  EXPECT_EQ(error_of(kOperations, 0, MLX5DV_QP_EX_WITH_MEMCPY), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
