// SPDX-License-Identifier: MIT
// How librpma flushes and writes atomically on devices that do so by themselves, and on those that do not,
// whatever the device here is.
#include <rdma/rdma_cma.h>

#include "tests/conformance/rpma_ends.h"
#include "tests/conformance/rpma_faults.h"

namespace verbatim::conformance {
namespace {

constexpr uint64_t kFlushes = 3ULL << 38, kAtomicWrites = 1ULL << 40;  // bits of device_cap_flags_ex
constexpr int kAlways = RPMA_F_COMPLETION_ALWAYS;

using Query = int (*)(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t);
Query honest = nullptr;

/// What the device says, but for these capabilities.
template <uint64_t on>
int query(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
          size_t bytes) {
  const int error = honest(context, input, attributes, bytes);
  attributes->device_cap_flags_ex = (attributes->device_cap_flags_ex & ~(kFlushes | kAtomicWrites)) | on;
  return error;
}

ibv_context* device() {
  ibv_context* found = nullptr;
  EXPECT_EQ(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, &found), 0);
  honest = verbs_get_ctx(found)->query_device_ex;
  return found;
}

TEST(RpmaDevicesWithoutFlush, ReadAndWriteInstead) {
  const Replaced plain(verbs_get_ctx(device())->query_device_ex, Query{query<0>});
  const Peer peer;
  const Pair pair(peer);
  const Memory there(peer);
  rpma_cq* cq = queue_of(pair.active);
  EXPECT_EQ(PretendedOperations::asked(), 0u);
  const char eight[8] = {'1', '2', '3', '4', '5', '6', '7', '\0'};
  EXPECT_EQ(rpma_atomic_write(pair.active, there.remote, 8, eight, kAlways, nullptr), 0);
  EXPECT_EQ(next_completion(cq).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(rpma_flush(pair.active, there.remote, 8, 8, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr), 0);
  const ibv_wc done = next_completion(cq);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(there.text(8), "1234567");
}

/// What was asked of the extended interface.
struct Asked {
  int begun = 0, ended = 0, result = 0;
  uint32_t rkey = 0;
  uint64_t address = 0;
  size_t length = 0;
  unsigned type = 0, level = 9;
  std::string data;
} asked;

ibv_qp_ex operations() {
  ibv_qp_ex to{};
  asked = {};
  to.wr_start = [](ibv_qp_ex*) { ++asked.begun; };
  to.wr_complete = [](ibv_qp_ex*) {
    ++asked.ended;
    return asked.result;
  };
  to.wr_flush = [](ibv_qp_ex*, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level) {
    asked.rkey = rkey;
    asked.address = address;
    asked.length = length;
    asked.type = type;
    asked.level = level;
  };
  to.wr_atomic_write = [](ibv_qp_ex*, uint32_t rkey, uint64_t address, const void* data) {
    asked.rkey = rkey;
    asked.address = address;
    asked.data.assign(static_cast<const char*>(data), 8);
  };
  return to;
}

struct Native {
  ibv_qp_ex as = operations();
  PretendedOperations pretended{as};
  Replaced<Query> capable{verbs_get_ctx(device())->query_device_ex, Query{query<kFlushes | kAtomicWrites>}};
  Peer peer;
  Pair pair{peer};
  // Not for flushes: the device here may not know such registrations.
  char place[64] = {};
  rpma_mr_local* local = nullptr;
  rpma_mr_remote* remote = nullptr;
  uint64_t start = reinterpret_cast<uintptr_t>(place);
  uint32_t key = 0;

  Native() {
    uint8_t descriptor[21];
    EXPECT_EQ(rpma_mr_reg(peer, place, sizeof place, RPMA_MR_USAGE_WRITE_DST, &local), 0);
    EXPECT_EQ(rpma_mr_get_descriptor(local, descriptor), 0);
    memcpy(&key, descriptor + 16, sizeof key);
    descriptor[20] |= RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    EXPECT_EQ(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote), 0);
    rpma_peer_cfg* cfg = nullptr;
    EXPECT_EQ(rpma_peer_cfg_new(&cfg), 0);
    EXPECT_EQ(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true), 0);
    EXPECT_EQ(rpma_conn_apply_remote_peer_cfg(pair.active, cfg), 0);
    EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
  }
  ~Native() {
    EXPECT_EQ(rpma_mr_remote_delete(&remote), 0);
    EXPECT_EQ(rpma_mr_dereg(&local), 0);
  }
};

TEST(RpmaDevicesWithFlush, AreAskedToFlush) {
  const Log log;
  Native on;
  EXPECT_EQ(PretendedOperations::asked(), uint64_t{IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE});
  for (const auto& [type, placement] : {std::pair{RPMA_FLUSH_TYPE_VISIBILITY, IBV_FLUSH_GLOBAL},
                                        {RPMA_FLUSH_TYPE_PERSISTENT, IBV_FLUSH_PERSISTENT}}) {
    on.as.wr_id = 0;
    EXPECT_EQ(rpma_flush(on.pair.active, on.remote, 16, 24, type, kAlways, reinterpret_cast<void*>(7)), 0);
    EXPECT_EQ(on.as.wr_id, 7u);
    EXPECT_EQ(on.as.wr_flags, unsigned{IBV_SEND_SIGNALED});
    EXPECT_EQ(asked.rkey, on.key);
    EXPECT_EQ(asked.address, on.start + 16);
    EXPECT_EQ(asked.length, 24u);
    EXPECT_EQ(asked.type, unsigned{placement});
    EXPECT_EQ(asked.level, unsigned{IBV_FLUSH_RANGE});
  }
  EXPECT_EQ(rpma_flush(on.pair.active, on.remote, 0, 1, RPMA_FLUSH_TYPE_VISIBILITY,
                       RPMA_F_COMPLETION_ON_ERROR, nullptr),
            0);
  EXPECT_EQ(on.as.wr_flags, 0u);
  EXPECT_EQ(asked.begun, 3);
  EXPECT_EQ(asked.ended, 3);
  asked.result = ENOMEM;
  EXPECT_REFUSED(rpma_flush(on.pair.active, on.remote, 0, 1, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr),
                 RPMA_E_PROVIDER, "a flush was not taken: Cannot allocate memory, the queue is full");
}

TEST(RpmaDevicesWithFlush, AreAskedToWriteAtomically) {
  const Log log;
  Native on;
  const char eight[8] = {'7', '6', '5', '4', '3', '2', '1', '0'};
  EXPECT_EQ(rpma_atomic_write(on.pair.active, on.remote, 32, eight, kAlways, reinterpret_cast<void*>(9)), 0);
  EXPECT_EQ(on.as.wr_id, 9u);
  EXPECT_EQ(asked.rkey, on.key);
  EXPECT_EQ(asked.address, on.start + 32);
  EXPECT_EQ(asked.data, "76543210");
  asked.result = EIO;
  EXPECT_REFUSED(rpma_atomic_write(on.pair.active, on.remote, 32, eight, kAlways, nullptr), RPMA_E_PROVIDER,
                 "an atomic write was not taken: Input/output error");
}

}  // namespace
}  // namespace verbatim::conformance
