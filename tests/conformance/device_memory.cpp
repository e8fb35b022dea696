// SPDX-License-Identifier: MIT
// Memory of the device: allocated, copied to and from, registered, reached by peers, operated on by plain
// stores and loads.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr uint8_t kIncrement = 0, kTestAndSet = 1;
constexpr unsigned kDmRights = kAllRights | IBV_ACCESS_ZERO_BASED;

/// Device memory that frees itself.
class Memory {
 public:
  Memory(ibv_context* context, size_t bytes, uint32_t log_align = 0) {
    ibv_alloc_dm_attr wanted{bytes, log_align, 0};
    dm = ibv_alloc_dm(context, &wanted);
    EXPECT_NE(dm, nullptr);
  }
  ~Memory() {
    if (dm != nullptr) {
      EXPECT_EQ(ibv_free_dm(dm), 0);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ibv_dm* dm = nullptr;
};

uint64_t most(ibv_context* context) {
  ibv_device_attr_ex attributes{};
  EXPECT_EQ(ibv_query_device_ex(context, nullptr, &attributes), 0);
  return attributes.max_dm_size;
}

// A forked child has its parent's context, whose device is out of its reach. Memory it can still have.
TEST(DeviceMemory, CanBeAllocatedByTheChildOfAFork) {
  Endpoint self;
  Memory before(self.context, 64);
  const pid_t child = fork();
  if (child == 0) {
    const auto works = [&] {
      ibv_alloc_dm_attr wanted{4096, 0, 0};
      ibv_dm* dm = ibv_alloc_dm(self.context, &wanted);
      uint32_t word = 7, back = 0;
      if (dm == nullptr || ibv_memcpy_to_dm(dm, 64, &word, 4) != 0) return 1;
      if (ibv_memcpy_from_dm(&back, dm, 64, 4) != 0 || back != 7) return 2;
      if (ibv_reg_dm_mr(self.pd, dm, 0, 64, kDmRights) != nullptr || errno != EIO) return 3;
      return ibv_free_dm(dm) == 0 ? 0 : 4;
    };
    _exit(works());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << (status >> 8);
}

TEST(DeviceMemory, IsCopiedByWords) {
  Endpoint self;
  Memory memory(self.context, 4096);
  std::vector<uint8_t> there(4096), back(4096, 0xff);
  std::iota(there.begin(), there.end(), 3);
  ASSERT_EQ(ibv_memcpy_to_dm(memory.dm, 0, there.data(), 4096), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(back.data(), memory.dm, 0, 4096), 0);
  EXPECT_EQ(there, back);
  ASSERT_EQ(ibv_memcpy_from_dm(back.data(), memory.dm, 100, 8), 0);
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 8, there.begin() + 100));
  EXPECT_EQ(ibv_memcpy_to_dm(memory.dm, 4096, there.data(), 4), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(memory.dm, 4, there.data(), SIZE_MAX - 3), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(memory.dm, 2, there.data(), 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_from_dm(back.data(), memory.dm, 0, 3), EINVAL);
}

TEST(DeviceMemory, HasAnEnd) {
  Endpoint self;
  const uint64_t all = most(self.context);
  ASSERT_GE(all, 65536u);
  ibv_alloc_dm_attr wanted{all + 1, 0, 0};
  EXPECT_EQ(ibv_alloc_dm(self.context, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Memory whole(self.context, all);
  wanted.length = 64;
  EXPECT_EQ(ibv_alloc_dm(self.context, &wanted), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  wanted.comp_mask = 1;
  EXPECT_EQ(ibv_alloc_dm(self.context, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(DeviceMemory, IsRegisteredFromZero) {
  Endpoint self;
  Memory memory(self.context, 8192);
  const auto error_of = [&](uint64_t offset, size_t length, unsigned access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_dm_mr(self.pd, memory.dm, offset, length, access);
    if (mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    return errno;
  };
  EXPECT_EQ(error_of(0, 8192, kDmRights), 0);
  EXPECT_EQ(error_of(8192, 0, kDmRights), 0) << "a key to nothing";
  EXPECT_EQ(error_of(0, 8192, kAllRights), EINVAL) << "not zero based";
  EXPECT_EQ(error_of(1, 8192, kDmRights), EINVAL);
  EXPECT_EQ(error_of(0, 64, kDmRights | IBV_ACCESS_ON_DEMAND), EINVAL);
  EXPECT_EQ(error_of(0, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED), EINVAL);
  ibv_mr* mr = ibv_reg_dm_mr(self.pd, memory.dm, 64, 128, kDmRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->length, 128u);
  EXPECT_EQ(ibv_free_dm(memory.dm), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllRights),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

class DeviceMemoryOfAPeer : public Played {};
VERBATIM_PLAY_BOTH_WAYS(DeviceMemoryOfAPeer);

/// Registers `bytes` of device memory from 64 on, and lets the peer use them until the second barrier, and
/// during `check`.
void offer(Endpoint& self, size_t bytes, const std::function<void(ibv_dm*)>& check) {
  Memory memory(self.context, 64 + bytes);
  const std::vector<uint8_t> before(bytes, 0);
  ASSERT_EQ(ibv_memcpy_to_dm(memory.dm, 64, before.data(), bytes), 0);
  ibv_mr* mr = ibv_reg_dm_mr(self.pd, memory.dm, 64, bytes, kDmRights);
  ASSERT_NE(mr, nullptr);
  word(self, 0) = mr->rkey;
  self.barrier();
  self.barrier();
  check(memory.dm);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

ibv_wc_status aim(Endpoint& self, ibv_send_wr wr, uint64_t address, uint32_t rkey) {
  if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    wr.wr.atomic = {address, 5, 0, rkey};
  else
    wr.wr.rdma = {address, rkey};
  EXPECT_EQ(self.post(wr, 1024), 0);
  return self.wait_status();
}

TEST_P(DeviceMemoryOfAPeer, TakesWritesReadsAndAtomics) {
  const Part active = [](Endpoint& self) {
    self.barrier();
    EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 8)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    const auto rkey = static_cast<uint32_t>(word(self, 0));
    fill(self, 1024, 8192, 9);
    EXPECT_EQ(aim(self, self.request(IBV_WR_RDMA_WRITE, 8192), 0, rkey), IBV_WC_SUCCESS);
    std::fill(self.buffer.begin() + 1024, self.buffer.begin() + 2048, uint8_t{0});
    EXPECT_EQ(aim(self, self.request(IBV_WR_RDMA_READ, 8192), 0, rkey), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(self, 1024, 8192, 9));
    const uint64_t before = word(self, 1024 + 16);
    EXPECT_EQ(aim(self, self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), 16, rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(word(self, 1024), before);
    self.barrier();
    EXPECT_EQ(aim(self, self.request(IBV_WR_RDMA_WRITE, 8), 8185, rkey), IBV_WC_REM_ACCESS_ERR);
    self.barrier();
  };
  play({}, active, [](Endpoint& self) {
    offer(self, 8192, [&](ibv_dm* dm) {
      fill(self, 1024, 8192, 9);
      word(self, 1024 + 16) += 5;
      std::vector<uint8_t> got(8192);
      EXPECT_EQ(ibv_memcpy_from_dm(got.data(), dm, 64, 8192), 0);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), self.buffer.begin() + 1024));
      self.barrier();
    });
  });
}

TEST(DeviceMemory, IsSentAndReceivedInto) {
  Pair pair;
  Memory from(pair.left.context, 64), into(pair.right.context, 64);
  ibv_mr* source = ibv_reg_dm_mr(pair.left.pd, from.dm, 0, 64, IBV_ACCESS_ZERO_BASED);
  ibv_mr* target =
      ibv_reg_dm_mr(pair.right.pd, into.dm, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
  ASSERT_TRUE(source != nullptr && target != nullptr);
  const uint32_t text = 0x31415926;
  ASSERT_EQ(ibv_memcpy_to_dm(from.dm, 8, &text, 4), 0);
  ibv_sge there{32, 4, target->lkey}, here{8, 4, source->lkey};
  ibv_recv_wr receive{1, nullptr, &there, 1}, *bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.right.qp, &receive, &bad_receive), 0);
  ibv_send_wr send{}, *bad = nullptr;
  send.sg_list = &here;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(pair.left.qp, &send, &bad), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  uint32_t got = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&got, into.dm, 32, 4), 0);
  EXPECT_EQ(got, text);
  EXPECT_EQ(ibv_dereg_mr(source), 0);
  EXPECT_EQ(ibv_dereg_mr(target), 0);
}

TEST(DeviceMemory, KindsForTablesOfTheDevice) {
  Endpoint self;
  uint64_t last = 0;
  for (const auto type : {MLX5DV_DM_TYPE_STEERING_SW_ICM, MLX5DV_DM_TYPE_HEADER_MODIFY_SW_ICM,
                          MLX5DV_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM, MLX5DV_DM_TYPE_ENCAP_SW_ICM}) {
    ibv_alloc_dm_attr wanted{10000, 0, 0};
    mlx5dv_alloc_dm_attr special{type, 0};
    ibv_dm* dm = mlx5dv_alloc_dm(self.context, &wanted, &special);
    ASSERT_NE(dm, nullptr);
    mlx5dv_dm shown{};
    shown.comp_mask = MLX5DV_DM_MASK_REMOTE_VA;
    mlx5dv_obj objects{};
    objects.dm = {dm, &shown};
    EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_DM), 0);
    EXPECT_EQ(shown.buf, nullptr) << "it is not the program's to touch";
    EXPECT_EQ(shown.length, 10000u);
    EXPECT_EQ(shown.comp_mask, uint64_t{MLX5DV_DM_MASK_REMOTE_VA});
    EXPECT_NE(shown.remote_va, last);
    last = shown.remote_va;
    ibv_mr* mr = ibv_reg_dm_mr(self.pd, dm, 0, 10000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
    EXPECT_NE(mr, nullptr);
    EXPECT_EQ(ibv_reg_dm_mr(self.pd, dm, 0, 10000, kDmRights), nullptr) << "no atomics";
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    uint32_t unused = 0;
    EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, &unused, 4), EOPNOTSUPP);
    EXPECT_EQ(mlx5dv_dm_map_op_addr(dm, kIncrement), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(ibv_free_dm(dm), 0);
  }
  ibv_alloc_dm_attr wanted{64, 0, 0};
  mlx5dv_alloc_dm_attr special{static_cast<mlx5dv_alloc_dm_type>(99), 0};
  EXPECT_EQ(mlx5dv_alloc_dm(self.context, &wanted, &special), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  special = {MLX5DV_DM_TYPE_MEMIC, 1};
  EXPECT_EQ(mlx5dv_alloc_dm(self.context, &wanted, &special), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(DeviceMemory, IsShownWithItsAddress) {
  Endpoint self;
  Memory memory(self.context, 256, 8);
  mlx5dv_dm shown{};
  mlx5dv_obj objects{};
  objects.dm = {memory.dm, &shown};
  ASSERT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_DM), 0);
  EXPECT_EQ(shown.length, 256u);
  EXPECT_EQ(shown.comp_mask, 0u);
  std::memset(shown.buf, 7, 256);
  uint32_t got = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&got, memory.dm, 252, 4), 0);
  EXPECT_EQ(got, 0x07070707u);
}

/// Addresses of an operation, until unmapped; nullptr where accesses cannot be seen.
template <class T>
volatile T* operation(const Memory& memory, uint8_t which) {
  return static_cast<volatile T*>(mlx5dv_dm_map_op_addr(memory.dm, which));
}

TEST(DeviceMemory, OperationsByPlainStoresAndLoads) {
  Endpoint self;
  const size_t bytes = most(self.context) / 2;
  auto memory = std::make_unique<Memory>(self.context, bytes);
  const std::vector<uint8_t> zeros(bytes);
  ASSERT_EQ(ibv_memcpy_to_dm(memory->dm, 0, zeros.data(), bytes), 0);
  volatile uint8_t* add = operation<uint8_t>(*memory, kIncrement);
  if (add == nullptr && errno == EOPNOTSUPP) GTEST_SKIP() << "no accesses are trapped on this processor";
  volatile uint8_t* take = operation<uint8_t>(*memory, kTestAndSet);
  ASSERT_TRUE(add != nullptr && take != nullptr);
  *add = 1;
  *add = 1;
  EXPECT_EQ(*add, 2);
  EXPECT_EQ(*take, 2);
  EXPECT_EQ(*take, 0xff);
  auto* words = reinterpret_cast<volatile uint64_t*>(add);
  words[1] = 0x1'0000'0005;
  words[1] = 2;
  uint64_t got = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&got, memory->dm, 8, 8), 0);
  EXPECT_EQ(got, 0x1'0000'0007u);
  EXPECT_EQ(reinterpret_cast<volatile uint32_t*>(take)[2], 7u);
  EXPECT_EQ(ibv_memcpy_from_dm(&got, memory->dm, 8, 8), 0);
  EXPECT_EQ(got, 0x1'ffff'ffffu);
  EXPECT_EQ(mlx5dv_dm_map_op_addr(memory->dm, 2), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  // They outlive the memory, as a mapping of a device's page does.
  memory.reset();
  *add = 1;
  EXPECT_EQ(munmap(const_cast<uint8_t*>(add), bytes), 0);
  EXPECT_EQ(munmap(const_cast<uint8_t*>(take), bytes), 0);
}

TEST(DeviceMemory, OperationsOfManyThreadsAddUp) {
  Endpoint self;
  Memory memory(self.context, 4096);
  uint32_t total = 0;
  ASSERT_EQ(ibv_memcpy_to_dm(memory.dm, 0, &total, 4), 0);
  std::vector<std::thread> threads;
  std::atomic<bool> possible{true};
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      volatile uint32_t* add = operation<uint32_t>(memory, kIncrement);
      if (add == nullptr) {
        possible = false;
        return;
      }
      for (int round = 0; round < 250; round++) *add = 1;
      EXPECT_EQ(munmap(const_cast<uint32_t*>(add), 4096), 0);
    });
  for (std::thread& each : threads) each.join();
  if (!possible) GTEST_SKIP() << "no accesses are trapped on this processor";
  EXPECT_EQ(ibv_memcpy_from_dm(&total, memory.dm, 0, 4), 0);
  EXPECT_EQ(total, 1000u);
}

}  // namespace
}  // namespace verbatim::conformance
