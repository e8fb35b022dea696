// SPDX-License-Identifier: MIT
// The smallest and the largest of everything: no bytes, most elements, most inline data, longest messages.
#include <sys/mman.h>

#include <cerrno>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class Sizes : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Sizes);

constexpr size_t kGrh = 40;

ibv_send_wr nothing(Endpoint& self, ibv_wr_opcode opcode) {
  ibv_send_wr wr = self.request(opcode, 0);
  wr.sg_list = nullptr;
  wr.num_sge = 0;
  return wr;
}

void send_nothing(Endpoint& self) {
  self.barrier();
  EXPECT_EQ(self.post(nothing(self, IBV_WR_SEND)), 0);
  EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 0)), 0);  // one element of no bytes
  ibv_send_wr inlined = nothing(self, IBV_WR_SEND_WITH_IMM);
  inlined.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(self.post(inlined), 0);
  for (int i = 0; i < 3; ++i) {
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  }
}
void receive_nothing(Endpoint& self) {
  const bool datagrams = self.traits.type == IBV_QPT_UD;
  for (uint64_t id = 0; id < 3; ++id) EXPECT_EQ(self.receive(0, datagrams ? kGrh : 0, id), 0);
  self.barrier();
  for (uint64_t id = 0; id < 3; ++id) {
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.byte_len, datagrams ? kGrh : 0);
    EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, id == 2);
  }
}
TEST_P(Sizes, OfNoBytesOverRc) { play({}, send_nothing, receive_nothing); }
TEST_P(Sizes, OfNoBytesOverUc) { play({.type = IBV_QPT_UC}, send_nothing, receive_nothing); }
TEST_P(Sizes, OfNoBytesOverUd) { play({.type = IBV_QPT_UD}, send_nothing, receive_nothing); }
TEST_P(Sizes, OfNoBytesIntoASharedQueue) { play({.srq = true}, send_nothing, receive_nothing); }

// No byte is touched, so that no key is checked (IBA 9.7.4.1.1): address and key may be anything.
TEST_P(Sizes, OfNoBytesNeedNoRemoteKey) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM}) {
          ibv_send_wr wr = nothing(self, opcode);
          wr.wr.rdma = {0x123, 0xdeadbeef};
          EXPECT_EQ(self.post(wr), 0);
          const ibv_wc wc = self.wait();
          EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << opcode;
          EXPECT_EQ(wc.byte_len, 0u);
        }
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 0, 6), 0);
        self.barrier();
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_EQ(wc.byte_len, 0u);
      });
}

TEST_P(Sizes, OfOneByteDoNotFitAReceiveOfNone) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 1)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_INV_REQ_ERR);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 0), 0);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_LEN_ERR);
      });
}

constexpr uint32_t kElements = 30;  ///< the device's max_sge

TEST_P(Sizes, OfAllElementsThereAre) {
  play(
      {.sge = kElements},
      [](Endpoint& self) {
        ibv_device_attr device{};
        EXPECT_EQ(ibv_query_device(self.context, &device), 0);
        EXPECT_EQ(device.max_sge, static_cast<int>(kElements));
        fill(self, 0, kElements * 64, 8);
        ibv_sge list[kElements];
        for (size_t i = 0; i < kElements; ++i) list[i] = self.piece(i * 64, 64);
        for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
          self.barrier();
          ibv_send_wr wr = self.request(opcode, 0, 8192);
          wr.sg_list = list;
          wr.num_sge = kElements;
          EXPECT_EQ(self.post(wr), 0);
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
          self.barrier();
        }
        EXPECT_TRUE(holds(self, 0, kElements * 64, 8));
        ibv_send_wr wr = self.request(IBV_WR_SEND, 0);
        ibv_sge more[kElements + 1] = {};
        wr.sg_list = more;
        wr.num_sge = kElements + 1;
        EXPECT_NE(self.post(wr), 0);
      },
      [](Endpoint& self) {
        ibv_sge list[kElements];
        for (size_t i = 0; i < kElements; ++i) list[i] = self.piece(16384 + i * 64, 64);
        ibv_recv_wr wr{1, nullptr, list, kElements}, *bad = nullptr;
        EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), 0);
        self.barrier();
        EXPECT_EQ(self.wait().byte_len, kElements * 64);
        EXPECT_TRUE(holds(self, 16384, kElements * 64, 8));
        for (int i = 0; i < 5; ++i) self.barrier();
        EXPECT_TRUE(holds(self, 8192, kElements * 64, 8));
        ibv_sge more[kElements + 8] = {};
        wr.sg_list = more;
        wr.num_sge = kElements + 8;
        EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), EINVAL);
        EXPECT_EQ(bad, &wr);
      });
}

TEST_P(Sizes, OfAllInlineDataThereIs) {
  play(
      {.sge = 3, .inline_bytes = 800},
      [](Endpoint& self) {
        ibv_qp_attr now{};
        ibv_qp_init_attr made{};
        EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_CAP, &made), 0);
        const uint32_t most = made.cap.max_inline_data;
        EXPECT_GE(most, 800u);
        fill(self, 0, most, 13);
        // From memory that is not registered.
        std::vector<uint8_t> copy(self.buffer.begin(), self.buffer.begin() + most);
        ibv_sge list[4] = {{reinterpret_cast<uint64_t>(copy.data()), 100, 0},
                           {reinterpret_cast<uint64_t>(copy.data() + 100), 1, 0},
                           {reinterpret_cast<uint64_t>(copy.data() + 101), most - 101, 0}};
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 0, 8192);
        wr.send_flags |= IBV_SEND_INLINE;
        wr.sg_list = list;
        wr.num_sge = 3;
        EXPECT_EQ(self.post(wr), 0);
        fill(self, 0, most, 77);  // was copied already
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        word(self, 0) = most;
        ibv_send_wr size = self.request(IBV_WR_RDMA_WRITE, 8, 0);
        EXPECT_EQ(self.post(size), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
        list[2].length++;
        EXPECT_EQ(self.post(wr), ENOMEM);
        list[2].length--;
        wr.num_sge = 4;
        EXPECT_EQ(self.post(wr), ENOMEM) << "more pieces than elements";
        EXPECT_TRUE(self.quiet());
      },
      [](Endpoint& self) {
        self.barrier();
        EXPECT_TRUE(holds(self, 8192, word(self, 0), 13));
      });
}

TEST(SizesOfQueuePairs, HaveLimits) {
  Endpoint self;
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(self.context, &device), 0);
  const auto make = [&](ibv_qp_cap cap) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = self.cq;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = cap;
    ibv_qp* qp = ibv_create_qp(self.pd, &wanted);
    if (qp == nullptr) return errno;
    EXPECT_GE(wanted.cap.max_send_wr, cap.max_send_wr);
    EXPECT_GE(wanted.cap.max_recv_wr, cap.max_recv_wr);
    EXPECT_GE(wanted.cap.max_send_sge, cap.max_send_sge);
    EXPECT_GE(wanted.cap.max_recv_sge, cap.max_recv_sge);
    EXPECT_GE(wanted.cap.max_inline_data, cap.max_inline_data);
    EXPECT_LE(wanted.cap.max_inline_data, 1024u);
    return ibv_destroy_qp(qp);
  };
  const auto most_wr = static_cast<uint32_t>(device.max_qp_wr),
             most_sge = static_cast<uint32_t>(device.max_sge);
  EXPECT_EQ(make({1, 1, 1, 1, 0}), 0);
  EXPECT_EQ(make({0, 0, 0, 0, 0}), 0);
  EXPECT_EQ(make({1, 1, 0, 1, 0}), 0);
  EXPECT_EQ(make({16, most_wr, most_sge, most_sge, 0}), 0);
  EXPECT_EQ(make({most_wr + 1, 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(make({1, most_wr + 1, 1, 1, 0}), EINVAL);
  EXPECT_EQ(make({1, 1, most_sge + 1, 1, 0}), EINVAL);
  EXPECT_EQ(make({1, 1, 1, most_sge + 1, 0}), EINVAL);
  EXPECT_EQ(make({1, 1, 1, 1, 4096}), EINVAL);
}

/// Untouched memory: reads as zeroes and costs no pages.
class Zeroes {
 public:
  explicit Zeroes(size_t bytes) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(base_, MAP_FAILED);
  }
  ~Zeroes() { munmap(base_, bytes_); }
  Zeroes(const Zeroes&) = delete;
  Zeroes& operator=(const Zeroes&) = delete;
  void* base() const { return base_; }

 private:
  void* base_;
  size_t bytes_;
};

constexpr uint32_t kGibibyte = 1u << 30;

/// Writes `first` + `second` bytes of zeroes into the peer's null region, which swallows them.
ibv_wc_status write_long(Pair& pair, uint32_t first, uint32_t second) {
  const Zeroes source(size_t{first} + second);
  ibv_mr* from = ibv_reg_mr(pair.left.pd, source.base(), size_t{first} + second, IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* sink = ibv_alloc_null_mr(pair.right.pd);
  EXPECT_NE(from, nullptr);
  EXPECT_NE(sink, nullptr);
  const auto start = reinterpret_cast<uint64_t>(source.base());
  ibv_sge list[] = {{start, first, from->lkey}, {start + first, second, from->lkey}};
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 0);
  wr.sg_list = list;
  wr.num_sge = 2;
  wr.wr.rdma = {0, sink->rkey};
  EXPECT_EQ(pair.left.post(wr), 0);
  const ibv_wc_status status = pair.left.wait_status();
  EXPECT_EQ(ibv_dereg_mr(from), 0);
  EXPECT_EQ(ibv_dereg_mr(sink), 0);
  return status;
}

TEST(SizesOfMessages, GoUpToWhatThePortSays) {
  Pair pair;
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(pair.left.context, 1, &port), 0);
  EXPECT_EQ(port.max_msg_sz, kGibibyte);
  EXPECT_EQ(write_long(pair, kGibibyte / 2, kGibibyte / 2), IBV_WC_SUCCESS);
  EXPECT_EQ(write_long(pair, kGibibyte, 1), IBV_WC_LOC_LEN_ERR);
}

TEST(SizesOfMessages, EndBelowTwoGibibytes) {
  for (const uint32_t more : {kGibibyte - 1, kGibibyte, kGibibyte + 1}) {
    Pair pair;
    EXPECT_EQ(write_long(pair, kGibibyte, more), IBV_WC_LOC_LEN_ERR) << more;
    EXPECT_EQ(pair.left.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.right.state(), IBV_QPS_RTS);
  }
}

TEST(SizesOfMessages, OfDatagramsEndAtThePathMtu) {
  Pair pair({.type = IBV_QPT_UD});
  EXPECT_EQ(pair.right.receive(0, 4096 + kGrh), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 4096)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait().byte_len, 4096 + kGrh);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 4097)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_LEN_ERR);
}

TEST(SizesOfAtomics, AreEightBytes) {
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{16}})
    for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
      Pair pair;
      EXPECT_EQ(pair.left.post(pair.left.request(opcode, bytes)), 0);
      EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_LEN_ERR) << bytes;
    }
}

TEST(SizesOfAtomics, ComeInPieces) {
  Pair pair;
  word(pair.right, 0) = 0x1122334455667788;
  ibv_sge list[] = {pair.left.piece(100, 3), pair.left.piece(200, 5)};
  ibv_send_wr wr = pair.left.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  wr.sg_list = list;
  wr.num_sge = 2;
  wr.wr.atomic.compare_add = 1;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.left.buffer[100], 0x88);
  EXPECT_EQ(pair.left.buffer[202], 0x33);
  EXPECT_EQ(pair.left.buffer[204], 0x11);
  EXPECT_EQ(word(pair.right, 0), 0x1122334455667789u);
}

}  // namespace
}  // namespace verbatim::conformance
