// SPDX-License-Identifier: MIT
// Completion counters: what they count on either end of a connection, and what they refuse.
#include <cerrno>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

/// A counter that is destroyed with the scope, after its queue pairs.
class Counter {
 public:
  Counter(ibv_context* context, ibv_comp_cntr_type type) {
    ibv_comp_cntr_init_attr wanted{0, type, 0};
    made = ibv_create_comp_cntr(context, &wanted);
    EXPECT_NE(made, nullptr);
  }
  ~Counter() { EXPECT_EQ(ibv_destroy_comp_cntr(made), 0); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  int attach(ibv_qp* qp, uint32_t operations) const {
    ibv_qp_attach_comp_cntr_attr attributes{0, operations};
    return ibv_qp_attach_comp_cntr(qp, made, &attributes);
  }
  uint64_t done() const {
    uint64_t value = UINT64_MAX;
    EXPECT_EQ(ibv_read_comp_cntr(made, &value), 0);
    return value;
  }
  uint64_t failed() const {
    uint64_t value = UINT64_MAX;
    EXPECT_EQ(ibv_read_err_comp_cntr(made, &value), 0);
    return value;
  }
  ibv_comp_cntr* made = nullptr;
};

constexpr uint32_t kSends = IBV_QP_ATTACH_COMP_CNTR_OP_SEND, kReceives = IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
                   kReads = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
                   kRemoteReads = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
                   kWrites = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
                   kRemoteWrites = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

TEST(CompletionCounters, TellWhatTheyCanDo) {
  Endpoint self;
  ibv_comp_cntr_caps caps{};
  ASSERT_EQ(ibv_query_comp_cntr_caps(self.context, &caps), 0);
  EXPECT_EQ(caps.max_value, UINT64_MAX);
  EXPECT_GE(caps.max_counters, 1000u);
  EXPECT_EQ(caps.supported_qp_attach_ops, 0x3fu);
  // A program of an older release, and one of a newer.
  uint64_t words[4] = {1, 2, 3, 4};
  ASSERT_EQ(_ibv_query_comp_cntr_caps(self.context, reinterpret_cast<ibv_comp_cntr_caps*>(words), 8), 0);
  EXPECT_EQ(words[0], UINT64_MAX);
  EXPECT_EQ(words[1], 2u);
  ASSERT_EQ(_ibv_query_comp_cntr_caps(self.context, reinterpret_cast<ibv_comp_cntr_caps*>(words), 32), 0);
  EXPECT_EQ(words[3], 0u);
}

TEST(CompletionCounters, AreSetAndAddedTo) {
  Endpoint self;
  const Counter counter(self.context, IBV_COMP_CNTR_TYPE_WRS);
  EXPECT_EQ(counter.made->context, self.context);
  EXPECT_EQ(counter.done(), 0u);
  EXPECT_EQ(counter.failed(), 0u);
  EXPECT_EQ(ibv_set_comp_cntr(counter.made, UINT64_MAX - 1), 0);
  EXPECT_EQ(ibv_inc_comp_cntr(counter.made, 3), 0);
  EXPECT_EQ(counter.done(), 1u) << "beyond the greatest value it begins again";
  EXPECT_EQ(ibv_set_err_comp_cntr(counter.made, 10), 0);
  EXPECT_EQ(ibv_inc_err_comp_cntr(counter.made, 5), 0);
  EXPECT_EQ(counter.failed(), 15u);
  EXPECT_EQ(counter.done(), 1u);
}

TEST(CompletionCounters, CountBothEndsByOperation) {
  Endpoint left, right;
  {
    ibv_comp_cntr* counters[6];
    uint64_t values[6] = {};
    const auto make = [](Endpoint& at, uint32_t operations, ibv_comp_cntr_type type) {
      ibv_comp_cntr_init_attr wanted{0, type, 0};
      ibv_comp_cntr* made = ibv_create_comp_cntr(at.context, &wanted);
      ibv_qp_attach_comp_cntr_attr attributes{0, operations};
      EXPECT_EQ(ibv_qp_attach_comp_cntr(at.qp, made, &attributes), 0);
      return made;
    };
    counters[0] = make(left, kSends, IBV_COMP_CNTR_TYPE_WRS);
    counters[1] = make(left, kWrites | kReads, IBV_COMP_CNTR_TYPE_BYTES);
    counters[2] = make(right, kReceives, IBV_COMP_CNTR_TYPE_BYTES);
    counters[3] = make(right, kRemoteReads, IBV_COMP_CNTR_TYPE_BYTES);
    counters[4] = make(right, kRemoteWrites, IBV_COMP_CNTR_TYPE_WRS);
    counters[5] = make(right, kSends | kWrites, IBV_COMP_CNTR_TYPE_WRS);
    const Contact one = left.contact(), two = right.contact();
    ASSERT_EQ(left.connect(two), 0);
    ASSERT_EQ(right.connect(one), 0);
    const auto post = [&](ibv_wr_opcode opcode, size_t bytes, unsigned flags) {
      ibv_send_wr wr = left.request(opcode, bytes);
      wr.send_flags = flags;
      ASSERT_EQ(left.post(wr), 0);
    };
    for (int i = 0; i < 3; i++) ASSERT_EQ(right.receive(0, 4096), 0);
    post(IBV_WR_SEND, 100, 0);  // counted although nobody asked for its completion
    post(IBV_WR_SEND_WITH_IMM, 200, IBV_SEND_SIGNALED);
    EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
    post(IBV_WR_RDMA_WRITE, 5000, 0);
    post(IBV_WR_RDMA_WRITE_WITH_IMM, 300, 0);
    post(IBV_WR_RDMA_READ, 6000, IBV_SEND_SIGNALED);
    EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
    post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_SEND_SIGNALED);
    EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
    for (int i = 0; i < 3; i++) EXPECT_EQ(right.wait_status(), IBV_WC_SUCCESS);
    for (int i = 0; i < 6; i++) EXPECT_EQ(ibv_read_comp_cntr(counters[i], &values[i]), 0);
    EXPECT_EQ(values[0], 2u);
    EXPECT_EQ(values[1], 5000u + 300 + 6000);
    EXPECT_EQ(values[2], 100u + 200 + 300);
    EXPECT_EQ(values[3], 6000u);
    EXPECT_EQ(values[4], 2u);
    EXPECT_EQ(values[5], 0u);
    for (ibv_comp_cntr* counter : counters) EXPECT_EQ(ibv_destroy_comp_cntr(counter), EBUSY);
    EXPECT_EQ(ibv_destroy_qp(left.qp), 0);
    EXPECT_EQ(ibv_destroy_qp(right.qp), 0);
    left.qp = right.qp = nullptr;
    for (ibv_comp_cntr* counter : counters) EXPECT_EQ(ibv_destroy_comp_cntr(counter), 0);
  }
}

// Errors, and work that an error flushes.
TEST(CompletionCounters, CountErrorsApart) {
  Endpoint left, right;
  ibv_comp_cntr_init_attr wanted{0, IBV_COMP_CNTR_TYPE_BYTES, 0};
  ibv_comp_cntr* sent = ibv_create_comp_cntr(left.context, &wanted);
  ibv_comp_cntr* taken = ibv_create_comp_cntr(right.context, &wanted);
  ibv_qp_attach_comp_cntr_attr all{0, 0x3f};
  ASSERT_EQ(ibv_qp_attach_comp_cntr(left.qp, sent, &all), 0);
  ASSERT_EQ(ibv_qp_attach_comp_cntr(right.qp, taken, &all), 0);
  const Contact one = left.contact(), two = right.contact();
  ASSERT_EQ(left.connect(two), 0);
  ASSERT_EQ(right.connect(one), 0);
  for (int i = 0; i < 2; i++) ASSERT_EQ(left.receive(0, 4096), 0);
  ibv_send_wr bad = left.request(IBV_WR_RDMA_WRITE, 64);
  bad.wr.rdma.rkey ^= 0x5500;
  ASSERT_EQ(left.post(bad), 0);
  EXPECT_EQ(left.wait_status(), IBV_WC_REM_ACCESS_ERR);
  for (int i = 0; i < 2; i++) EXPECT_EQ(left.wait_status(), IBV_WC_WR_FLUSH_ERR);
  uint64_t value = 99;
  EXPECT_EQ(ibv_read_comp_cntr(sent, &value), 0);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(ibv_read_err_comp_cntr(sent, &value), 0);
  EXPECT_EQ(value, 3u) << "the write and two receives";
  EXPECT_EQ(ibv_read_err_comp_cntr(taken, &value), 0);
  EXPECT_EQ(value, 1u) << "the peer's write";
  EXPECT_EQ(ibv_destroy_qp(left.qp), 0);
  EXPECT_EQ(ibv_destroy_qp(right.qp), 0);
  left.qp = right.qp = nullptr;
  EXPECT_EQ(ibv_destroy_comp_cntr(sent), 0);
  EXPECT_EQ(ibv_destroy_comp_cntr(taken), 0);
}

// The program has forgotten it; the sanitizers would tell of what the device keeps.
TEST(CompletionCounters, EndWithTheirDevice) {
  static ibv_comp_cntr* forgotten = nullptr;
  ibv_context* context = test::open_first_device();
  ASSERT_NE(context, nullptr);
  ibv_comp_cntr_init_attr wanted{0, IBV_COMP_CNTR_TYPE_WRS, 0};
  forgotten = ibv_create_comp_cntr(context, &wanted);
  ASSERT_NE(forgotten, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(CompletionCounters, AreRefusedWithAReason) {
  Pair pair;
  const auto error_of = [&](uint32_t mask, int type, uint32_t flags) {
    ibv_comp_cntr_init_attr wanted{mask, static_cast<ibv_comp_cntr_type>(type), flags};
    errno = 0;
    EXPECT_EQ(ibv_create_comp_cntr(pair.left.context, &wanted), nullptr);
    return errno;
  };
  EXPECT_EQ(error_of(1, IBV_COMP_CNTR_TYPE_WRS, 0), EINVAL);
  EXPECT_EQ(error_of(0, IBV_COMP_CNTR_TYPE_WRS, 1), EINVAL);
  EXPECT_EQ(error_of(0, 2, 0), ENOTSUP);
  const Counter counter(pair.left.context, IBV_COMP_CNTR_TYPE_WRS);
  EXPECT_EQ(counter.attach(pair.left.qp, kSends), EINVAL) << "it is in RTS";
  EXPECT_EQ(counter.attach(pair.right.qp, kSends), EINVAL) << "another context's";
  ASSERT_EQ(pair.left.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(counter.attach(pair.left.qp, 0), EINVAL);
  EXPECT_EQ(counter.attach(pair.left.qp, 1u << 6), ENOTSUP);
  ibv_qp_attach_comp_cntr_attr unknown{1, kSends};
  EXPECT_EQ(ibv_qp_attach_comp_cntr(pair.left.qp, counter.made, &unknown), EINVAL);
  EXPECT_EQ(counter.attach(pair.left.qp, kSends | kReads), 0);
  EXPECT_EQ(counter.attach(pair.left.qp, kWrites | kReads), EBUSY);
  EXPECT_EQ(pair.left.to_init(), 0);
  EXPECT_EQ(counter.attach(pair.left.qp, kWrites), 0) << "also in INIT";
  EXPECT_EQ(ibv_destroy_qp(pair.left.qp), 0);
  pair.left.qp = nullptr;
}

}  // namespace
}  // namespace verbatim::conformance
