// SPDX-License-Identifier: MIT
// Every operation of every transport, with both ends in one process and in two.
#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

class DataPath : public Played {};
VERBATIM_PLAY_BOTH_WAYS(DataPath);

constexpr size_t kGrh = 40;

Part receiver(size_t bytes, unsigned flags = 0) {
  return [=](Endpoint& self) {
    const size_t grh = self.traits.type == IBV_QPT_UD ? kGrh : 0;
    EXPECT_EQ(self.receive(4096, kBuffer - 4096, 7), 0);
    self.barrier();
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, 7u);
    EXPECT_EQ(wc.byte_len, bytes + grh);
    EXPECT_EQ(wc.qp_num, self.qp->qp_num);
    EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, flags);
    EXPECT_EQ((wc.wc_flags & IBV_WC_GRH) != 0, grh != 0 && self.peer.lid == 0);
    if (flags != 0) {
      EXPECT_EQ(wc.imm_data, htonl(0xabcd));
    }
    if (grh != 0) {
      EXPECT_EQ(wc.src_qp, self.peer.qpn);
    }
    EXPECT_TRUE(holds(self, 4096 + grh, bytes, 3));
  };
}
Part sender(size_t bytes, ibv_wr_opcode opcode, unsigned flags = 0) {
  return [=](Endpoint& self) {
    fill(self, 0, bytes, 3);
    self.barrier();
    ibv_send_wr wr = self.request(opcode, bytes);
    wr.imm_data = htonl(0xabcd);
    wr.send_flags |= flags;
    EXPECT_EQ(self.post(wr), 0);
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_SEND);
    EXPECT_EQ(wc.wr_id, 100u);
  };
}

TEST_P(DataPath, ReliableSend) { play({}, sender(30000, IBV_WR_SEND), receiver(30000)); }
TEST_P(DataPath, ReliableSendOfNothing) { play({}, sender(0, IBV_WR_SEND), receiver(0)); }
TEST_P(DataPath, ReliableSendWithImmediate) {
  play({}, sender(64, IBV_WR_SEND_WITH_IMM), receiver(64, IBV_WC_WITH_IMM));
}
TEST_P(DataPath, InlineSend) { play({}, sender(100, IBV_WR_SEND, IBV_SEND_INLINE), receiver(100)); }
TEST_P(DataPath, UnreliableSend) {
  play({.type = IBV_QPT_UC}, sender(9000, IBV_WR_SEND_WITH_IMM), receiver(9000, IBV_WC_WITH_IMM));
}
TEST_P(DataPath, DatagramSend) {
  play({.type = IBV_QPT_UD}, sender(1000, IBV_WR_SEND_WITH_IMM), receiver(1000, IBV_WC_WITH_IMM));
}
TEST_P(DataPath, InlineDatagram) {
  play({.type = IBV_QPT_UD}, sender(100, IBV_WR_SEND, IBV_SEND_INLINE), receiver(100));
}
TEST_P(DataPath, SharedReceiveQueue) { play({.srq = true}, sender(5000, IBV_WR_SEND), receiver(5000)); }
TEST_P(DataPath, DatagramToSharedReceiveQueue) {
  play({.type = IBV_QPT_UD, .srq = true}, sender(500, IBV_WR_SEND), receiver(500));
}

Part writer(size_t bytes) {
  return [=](Endpoint& self) {
    fill(self, 0, bytes, 9);
    EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, bytes, 8192)), 0);
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    self.barrier();
  };
}
Part written(size_t bytes) {
  return [=](Endpoint& self) {
    self.barrier();
    EXPECT_TRUE(holds(self, 8192, bytes, 9));
    EXPECT_TRUE(self.quiet());
  };
}
TEST_P(DataPath, ReliableWrite) { play({}, writer(50000), written(50000)); }
TEST_P(DataPath, UnreliableWrite) { play({.type = IBV_QPT_UC}, writer(5000), written(5000)); }

Part immediate_writer() {
  return [](Endpoint& self) {
    fill(self, 0, 2000, 5);
    self.barrier();
    ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE_WITH_IMM, 2000, 8192);
    wr.imm_data = htonl(77);
    EXPECT_EQ(self.post(wr), 0);
    EXPECT_EQ(self.wait().opcode, IBV_WC_RDMA_WRITE);
  };
}
Part immediate_receiver() {
  return [](Endpoint& self) {
    ibv_recv_wr wr{8, nullptr, nullptr, 0}, *bad = nullptr;
    EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), 0);
    self.barrier();
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.byte_len, 2000u);
    EXPECT_EQ(wc.imm_data, htonl(77));
    EXPECT_TRUE(holds(self, 8192, 2000, 5));
  };
}
TEST_P(DataPath, ReliableWriteWithImmediate) { play({}, immediate_writer(), immediate_receiver()); }
TEST_P(DataPath, UnreliableWriteWithImmediate) {
  play({.type = IBV_QPT_UC}, immediate_writer(), immediate_receiver());
}

TEST_P(DataPath, Read) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 40000, 8192)), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
        EXPECT_EQ(wc.byte_len, 40000u);
        EXPECT_TRUE(holds(self, 0, 40000, 21));
      },
      [](Endpoint& self) {
        fill(self, 8192, 40000, 21);
        self.barrier();
      });
}

TEST_P(DataPath, Atomics) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        ibv_send_wr add = self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8);
        add.wr.atomic.compare_add = 5;
        EXPECT_EQ(self.post(add), 0);
        EXPECT_EQ(self.wait().opcode, IBV_WC_FETCH_ADD);
        EXPECT_EQ(word(self, 0), 100u);
        ibv_send_wr swap = self.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8);
        swap.wr.atomic.compare_add = 105;
        swap.wr.atomic.swap = 1;
        EXPECT_EQ(self.post(swap), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
        EXPECT_EQ(wc.byte_len, 8u);
        EXPECT_EQ(word(self, 0), 105u);
        EXPECT_EQ(self.post(swap), 0);  // the word is 1 by now: nothing is swapped
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(word(self, 0), 1u);
        self.barrier();
      },
      [](Endpoint& self) {
        word(self, 8) = 100;
        self.barrier();
        self.barrier();
        EXPECT_EQ(word(self, 8), 1u);
      });
}

TEST_P(DataPath, ScatterAndGather) {
  play(
      {},
      [](Endpoint& self) {
        fill(self, 0, 3000, 3);
        self.barrier();
        ibv_sge list[] = {self.piece(0, 1), self.piece(1, 1999), self.piece(2000, 0x1),
                          self.piece(2001, 999)};
        ibv_send_wr wr = self.request(IBV_WR_SEND, 0);
        wr.sg_list = list;
        wr.num_sge = 4;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      },
      [](Endpoint& self) {
        ibv_sge list[] = {self.piece(4096, 700), self.piece(4796, 3), self.piece(4799, 5000)};
        ibv_recv_wr wr{1, nullptr, list, 3}, *bad = nullptr;
        EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), 0);
        self.barrier();
        EXPECT_EQ(self.wait().byte_len, 3000u);
        EXPECT_TRUE(holds(self, 4096, 3000, 3));
      });
}

TEST_P(DataPath, UnsignalledRequestsCompleteSilently) {
  play(
      {},
      [](Endpoint& self) {
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        for (int i = 0; i < 40; ++i) {
          wr.send_flags = i == 39 ? IBV_SEND_SIGNALED : 0;
          wr.wr_id = static_cast<uint64_t>(i);
          EXPECT_EQ(self.post(wr), 0);
        }
        EXPECT_EQ(self.wait().wr_id, 39u);
        EXPECT_TRUE(self.quiet());
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, WrongRemoteKey) {
  play(
      {},
      [](Endpoint& self) {
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        wr.wr.rdma.rkey ^= 0xff;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(wc.vendor_err, 0x88u);
        EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, ReadBeyondTheRegion) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 16, kBuffer - 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, WriteWithoutTheRight) {
  play(
      {.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 16)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, WriteWithoutTheQueuePairsRight) {
  play(
      {.qp_access = IBV_ACCESS_REMOTE_READ},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_WRITE, 16)), 0);
        const ibv_wc_status status = self.wait_status();
        EXPECT_TRUE(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR) << status;
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, UnalignedAtomic) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_INV_REQ_ERR);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, ReceiverNotReady) {
  play(
      {.rnr_retries = 2},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
        EXPECT_NE(wc.vendor_err, 0u);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, ReceiverReadyInTheEnd) {
  play(
      {.rnr_retries = 7, .rnr_timer = 14},
      [](Endpoint& self) {
        fill(self, 0, 8, 3);
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_TRUE(self.quiet());
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      },
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.receive(0, 64), 0);
        EXPECT_EQ(self.wait().byte_len, 8u);
        EXPECT_TRUE(holds(self, 0, 8, 3));
      });
}

TEST_P(DataPath, MessageLongerThanTheReceive) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 65)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_INV_REQ_ERR);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64), 0);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_LEN_ERR);
      });
}

TEST_P(DataPath, WrongLocalKeyOfSender) {
  play(
      {},
      [](Endpoint& self) {
        ibv_sge sge = self.piece(0, 8);
        sge.lkey ^= 0xff00;
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        wr.sg_list = &sge;
        EXPECT_EQ(self.post(wr), 0);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
        EXPECT_NE(wc.vendor_err, 0u);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, WrongLocalKeyOfReceiver) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_OP_ERR);
      },
      [](Endpoint& self) {
        ibv_sge sge = self.piece(0, 8);
        sge.lkey ^= 0xff00;
        ibv_recv_wr wr{1, nullptr, &sge, 1}, *bad = nullptr;
        EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), 0);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
      });
}

TEST_P(DataPath, FreedMemoryIsAnErrorCompletion) {
  play(
      {},
      [](Endpoint& self) {
        void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ibv_mr* gone = ibv_reg_mr(self.pd, memory, 8192, kAllRights);
        ASSERT_NE(gone, nullptr);
        munmap(memory, 8192);
        ibv_sge sge{reinterpret_cast<uint64_t>(memory), 8192, gone->lkey};
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        wr.sg_list = &sge;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_NE(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_dereg_mr(gone), 0);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, InvalidateNeedsAMemoryWindow) {
  play(
      {},
      [](Endpoint& self) {
        ibv_send_wr wr = self.request(IBV_WR_LOCAL_INV, 0);
        wr.num_sge = 0;
        wr.invalidate_rkey = self.mr->rkey;
        if (self.post(wr) == 0) {
          EXPECT_NE(self.wait_status(), IBV_WC_SUCCESS);
        }
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, AtomicBeforeARefusedWrite) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8)), 0);
        ibv_send_wr refused = self.request(IBV_WR_RDMA_WRITE, 8);
        refused.wr.rdma.rkey ^= 0xff;
        refused.wr_id = 2;
        EXPECT_EQ(self.post(refused), 0);
        const ibv_wc first = self.wait();
        EXPECT_EQ(first.wr_id, 100u);
        EXPECT_EQ(first.status, IBV_WC_SUCCESS);
        const ibv_wc second = self.wait();
        EXPECT_EQ(second.wr_id, 2u);
        EXPECT_EQ(second.status, IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint&) {});
}

TEST_P(DataPath, DatagramWithAnotherQkeyIsDropped) {
  play(
      {.type = IBV_QPT_UD},
      [](Endpoint& self) {
        self.barrier();
        ibv_send_wr wr = self.request(IBV_WR_SEND, 8);
        wr.wr.ud.remote_qkey = kQkey + 1;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 128), 0);
        self.barrier();
        EXPECT_TRUE(self.quiet());
      });
}

}  // namespace
}  // namespace verbatim::conformance
