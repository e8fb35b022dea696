// SPDX-License-Identifier: MIT
// Atomic writes, and flushes of what was written before: rights, ranges, and memory that lasts.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class Placement : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Placement);

constexpr size_t kFar = 16 * 1024;  ///< offset in the peer's buffer
constexpr int kFlushes = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
constexpr uint64_t kOperations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;

Traits placing(int mr_access = kAllRights | kFlushes, int qp_access = kAllRights | kFlushes) {
  Traits traits;
  traits.operations = kOperations;
  traits.mr_access = mr_access;
  traits.qp_access = qp_access;
  return traits;
}

template <class Build>
int build(Endpoint& self, uint64_t id, Build&& add) {
  ibv_qp_ex* ex = self.builder();
  ibv_wr_start(ex);
  ex->wr_id = id;
  ex->wr_flags = IBV_SEND_SIGNALED;
  add(ex);
  return ibv_wr_complete(ex);
}
int write_atomically(Endpoint& self, uint64_t id, uint64_t address, uint64_t value) {
  return build(self, id, [&](ibv_qp_ex* ex) { ibv_wr_atomic_write(ex, self.peer.rkey, address, &value); });
}
int flush(Endpoint& self, uint64_t id, uint8_t type, uint8_t level, uint64_t address, size_t length) {
  return build(self, id,
               [&](ibv_qp_ex* ex) { ibv_wr_flush(ex, self.peer.rkey, address, length, type, level); });
}
void expect_done(const Endpoint& self, uint64_t id, ibv_wc_opcode opcode) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.opcode, opcode);
}

void place_everything(Endpoint& self) {
  const uint64_t there = self.peer.address + kFar;
  self.barrier();
  // In one batch: a flush ends after the writes before it, which the peer then finds.
  fill(self, 0, 5000, 4);
  ibv_qp_ex* ex = self.builder();
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ex->wr_id = 1;
  ibv_wr_rdma_write(ex, self.peer.rkey, there);
  ibv_wr_set_sge(ex, self.mr->lkey, reinterpret_cast<uint64_t>(self.buffer.data()), 5000);
  ex->wr_id = 2;
  ibv_wr_flush(ex, self.peer.rkey, there, 5000, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
  ex->wr_id = 3;
  const uint64_t value = 0x0102030405060708;
  ibv_wr_atomic_write(ex, self.peer.rkey, there + 8000, &value);
  ex->wr_id = 4;
  ibv_wr_flush(ex, self.peer.rkey, there, 9000, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  expect_done(self, 1, IBV_WC_RDMA_WRITE);
  expect_done(self, 2, IBV_WC_FLUSH);
  expect_done(self, 3, IBV_WC_ATOMIC_WRITE);
  expect_done(self, 4, IBV_WC_FLUSH);
  // The whole region, whatever the range says; and of nothing.
  EXPECT_EQ(flush(self, 5, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR, 0, 1u << 30), 0);
  expect_done(self, 5, IBV_WC_FLUSH);
  EXPECT_EQ(flush(self, 6, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, there, 0), 0);
  expect_done(self, 6, IBV_WC_FLUSH);
  // As many as it takes to run out of what the responder keeps for answers.
  for (uint64_t id = 0; id < 40; id++) EXPECT_EQ(write_atomically(self, 100 + id, there + 8 * id, id), 0);
  for (uint64_t id = 0; id < 40; id++) expect_done(self, 100 + id, IBV_WC_ATOMIC_WRITE);
  self.barrier();
}

TEST_P(Placement, ComesInOrder) {
  play(placing(), place_everything, [](Endpoint& self) {
    self.barrier();
    self.barrier();
    for (uint64_t id = 0; id < 40; id++) EXPECT_EQ(word(self, kFar + 8 * id), id);
    EXPECT_TRUE(holds(self, kFar + 320, 5000 - 320, static_cast<uint8_t>(4 + 320 * 7)));
    EXPECT_EQ(word(self, kFar + 8000), 0x0102030405060708u);
  });
}

/// One request that the peer refuses.
void play_refused(Players players, const Traits& traits, ibv_wc_status status,
                  const std::function<int(Endpoint&)>& post) {
  play(
      players, traits,
      [&](Endpoint& self) {
        EXPECT_EQ(post(self), 0);
        EXPECT_EQ(self.wait_status(), status);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
        self.barrier();
      },
      [&](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
      });
}

TEST_P(Placement, NeedsTheRightsOfTheKey) {
  const auto lasting = [](Endpoint& self) {
    return flush(self, 1, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE, self.peer.address, 64);
  };
  const auto region = [](Endpoint& self) { return flush(self, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR, 0, 0); };
  const auto write = [](Endpoint& self) { return write_atomically(self, 1, self.peer.address, 1); };
  play_refused(GetParam(), placing(kAllRights | IBV_ACCESS_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR, lasting);
  play_refused(GetParam(), placing(kAllRights), IBV_WC_REM_ACCESS_ERR, region);
  play_refused(GetParam(), placing(IBV_ACCESS_REMOTE_READ), IBV_WC_REM_ACCESS_ERR, write);
}

TEST_P(Placement, NeedsTheRightsOfTheQueuePair) {
  const int rights = kAllRights | kFlushes;
  play_refused(GetParam(), placing(rights, kAllRights | IBV_ACCESS_FLUSH_PERSISTENT), IBV_WC_REM_ACCESS_ERR,
               [](Endpoint& self) {
                 return flush(self, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, self.peer.address, 64);
               });
  play_refused(GetParam(), placing(rights, IBV_ACCESS_REMOTE_READ), IBV_WC_REM_ACCESS_ERR,
               [](Endpoint& self) { return write_atomically(self, 1, self.peer.address, 1); });
}

TEST_P(Placement, NeedsARangeOfTheKey) {
  play_refused(GetParam(), placing(), IBV_WC_REM_ACCESS_ERR, [](Endpoint& self) {
    return flush(self, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, self.peer.address + kBuffer - 8, 16);
  });
  play_refused(GetParam(), placing(), IBV_WC_REM_INV_REQ_ERR,
               [](Endpoint& self) { return write_atomically(self, 1, self.peer.address + 4, 1); });
}

TEST(PlacementCalls, CheckWhatTheyAreGiven) {
  Pair pair(placing());
  Endpoint& self = pair.left;
  EXPECT_EQ(flush(self, 1, 0, IBV_FLUSH_RANGE, self.peer.address, 8), EINVAL) << "of no kind";
  EXPECT_EQ(flush(self, 1, 4, IBV_FLUSH_RANGE, self.peer.address, 8), EINVAL);
  EXPECT_EQ(flush(self, 1, IBV_FLUSH_GLOBAL, 2, self.peer.address, 8), EINVAL);
  EXPECT_EQ(flush(self, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, self.peer.address, size_t{1} << 32), EINVAL);
  EXPECT_EQ(flush(self, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, self.peer.address, 8), 0);
  expect_done(self, 1, IBV_WC_FLUSH);
}

TEST(PlacementCalls, AreToldByTheDevice) {
  ibv_context* context = open_first();
  ibv_device_attr_ex device{};
  EXPECT_EQ(ibv_query_device_ex(context, nullptr, &device), 0);
  constexpr uint64_t kGlobal = 1ull << 38, kPersistent = 1ull << 39, kAtomicWrite = 1ull << 40;
  EXPECT_EQ(device.device_cap_flags_ex >> 38 & 7, (kGlobal | kPersistent | kAtomicWrite) >> 38);
  EXPECT_NE(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_FLUSH, 0u);
  EXPECT_NE(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC_WRITE, 0u);
  EXPECT_EQ(ibv_close_device(context), 0);
}

/// The dirty bytes of this process's mapping of the file, as the kernel counts them.
size_t dirty_bytes(const void* address) {
  std::FILE* maps = std::fopen("/proc/self/smaps", "re");
  char line[256];
  size_t kilobytes = 0;
  bool here = false;
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0, count = 0;
    if (std::sscanf(line, "%lx-%lx ", &begin, &end) == 2)
      here = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    else if (here && (std::sscanf(line, "Shared_Dirty: %lu", &count) == 1 ||
                      std::sscanf(line, "Private_Dirty: %lu", &count) == 1))
      kilobytes += count;
  }
  if (maps != nullptr) std::fclose(maps);
  return kilobytes * 1024;
}

// What was written to a mapped file is in the file when a flush that asks for it has ended. A file system
// that writes nothing back, as tmpfs, keeps its pages dirty: then there is nothing to see.
TEST(Flushes, BringMappedFilesToTheirFileSystem) {
  constexpr size_t kBytes = 64 * 1024;
  char name[] = "verbatim-placement-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  unlink(name);
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(map, MAP_FAILED);
  std::memset(map, 1, kBytes);
  ASSERT_EQ(msync(map, kBytes, MS_SYNC), 0);
  const bool visible = dirty_bytes(map) == 0;
  Pair pair(placing());
  ibv_mr* mr = ibv_reg_mr(pair.right.pd, map, kBytes, kAllRights | kFlushes);
  ASSERT_NE(mr, nullptr);
  pair.left.peer.rkey = mr->rkey;
  const auto there = reinterpret_cast<uint64_t>(map);
  EXPECT_EQ(write_atomically(pair.left, 1, there + 40'000, 77), 0);
  expect_done(pair.left, 1, IBV_WC_ATOMIC_WRITE);
  if (visible) {
    EXPECT_GT(dirty_bytes(map), 0u);
  }
  EXPECT_EQ(flush(pair.left, 2, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE, there + 40'000, 8), 0);
  expect_done(pair.left, 2, IBV_WC_FLUSH);
  if (visible) {
    EXPECT_EQ(dirty_bytes(map), 0u);
  }
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(map, kBytes);
  close(fd);
}

}  // namespace
}  // namespace verbatim::conformance
