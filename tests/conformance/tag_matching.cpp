// SPDX-License-Identifier: MIT
// Shared receive queues with a tag list: messages that find an entry, messages that find none, rendezvous,
// and the counting that keeps program and device in step.
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/tm_types.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kTags = 15;
constexpr size_t kFar = 32 * 1024;

Traits traits() {
  Traits wanted;
  wanted.cq_fields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_TM_INFO;
  return wanted;
}

ibv_srq* make_tag_queue(Endpoint& self, uint32_t tags = kTags, uint32_t operations = 16) {
  ibv_srq_init_attr_ex wanted{};
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  wanted.srq_type = IBV_SRQT_TM;
  wanted.pd = self.pd;
  wanted.cq = self.cq;
  wanted.attr = {64, 1, 0};
  wanted.tm_cap = {tags, operations};
  ibv_srq* srq = ibv_create_srq_ex(self.context, &wanted);
  EXPECT_NE(srq, nullptr);
  EXPECT_GE(wanted.tm_cap.max_ops, operations);
  return srq;
}

/// Replaces the queue pair by one that receives into a queue with a tag list.
void receive_by_tag(Endpoint& self, uint32_t sends = 0) {
  EXPECT_EQ(ibv_destroy_qp(self.qp), 0);
  self.srq = make_tag_queue(self);
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.srq = self.srq;
  wanted.cap = {sends, 0, sends == 0 ? 0u : 1u, 0, 0};
  self.qp = ibv_create_qp(self.pd, &wanted);
  ASSERT_NE(self.qp, nullptr);
}

/// What an extended completion queue tells of one completion.
struct Told {
  uint64_t id = 0, tag = 0;
  ibv_wc_status status{};
  ibv_wc_opcode opcode{};
  unsigned flags = 0;
  uint32_t bytes = 0, priv = 0, qpn = 0;
  __be32 immediate = 0;
};

Told next(Endpoint& self) {
  ibv_cq_ex* cq = self.extended_cq();
  ibv_poll_cq_attr nothing{};
  Told told;
  for (int tries = 0; tries < 50'000'000; tries++) {
    if (ibv_start_poll(cq, &nothing) != 0) continue;
    told = {cq->wr_id,
            0,
            cq->status,
            ibv_wc_read_opcode(cq),
            ibv_wc_read_wc_flags(cq),
            ibv_wc_read_byte_len(cq),
            0,
            ibv_wc_read_qp_num(cq),
            ibv_wc_read_imm_data(cq)};
    ibv_wc_tm_info info{};
    ibv_wc_read_tm_info(cq, &info);
    told.tag = info.tag;
    told.priv = info.priv;
    ibv_end_poll(cq);
    return told;
  }
  ADD_FAILURE() << "no completion";
  return told;
}

void expect(const Told& told, uint64_t id, ibv_wc_opcode opcode, unsigned flags,
            ibv_wc_status status = IBV_WC_SUCCESS) {
  EXPECT_EQ(told.status, status);
  EXPECT_EQ(told.id, id);
  EXPECT_EQ(told.opcode, opcode);
  EXPECT_EQ(told.flags, flags);
}

/// Posts an operation on the list.
int operate(ibv_srq* srq, ibv_ops_wr& wr) {
  ibv_ops_wr* bad = nullptr;
  return ibv_post_srq_ops(srq, &wr, &bad);
}

/// Appends a part of the buffer for a tag; its handle.
uint32_t add(Endpoint& self, uint64_t id, uint64_t tag, size_t offset, size_t bytes, int flags = 0,
             uint64_t mask = UINT64_MAX, uint32_t handled = 0) {
  ibv_sge sge = self.piece(offset, bytes);
  ibv_ops_wr wr{};
  wr.wr_id = id + 1000;
  wr.opcode = IBV_WR_TAG_ADD;
  wr.flags = flags;
  wr.tm.unexpected_cnt = handled;
  wr.tm.add = {id, &sge, 1, tag, mask};
  EXPECT_EQ(operate(self.srq, wr), 0);
  return wr.tm.handle;
}

int remove(Endpoint& self, uint64_t id, uint32_t handle) {
  ibv_ops_wr wr{};
  wr.wr_id = id;
  wr.opcode = IBV_WR_TAG_DEL;
  wr.flags = IBV_OPS_SIGNALED;
  wr.tm.handle = handle;
  return operate(self.srq, wr);
}

int sync(Endpoint& self, uint64_t id, uint32_t handled) {
  ibv_ops_wr wr{};
  wr.wr_id = id;
  wr.opcode = IBV_WR_TAG_SYNC;
  wr.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
  wr.tm.unexpected_cnt = handled;
  return operate(self.srq, wr);
}

void write_header(Endpoint& self, uint8_t operation, uint64_t tag, uint32_t priv = 0) {
  auto& header = *reinterpret_cast<ibv_tmh*>(self.buffer.data());
  header = {};
  header.opcode = operation;
  header.app_ctx = htonl(priv);
  header.tag = htobe64(tag);
}

/// A message of that many bytes behind the header, all of one value.
void send(Endpoint& self, uint8_t operation, uint64_t tag, size_t bytes, uint8_t value, uint32_t priv = 0,
          ibv_wr_opcode opcode = IBV_WR_SEND) {
  write_header(self, operation, tag, priv);
  std::memset(self.buffer.data() + sizeof(ibv_tmh), value, bytes);
  ibv_send_wr wr = self.request(opcode, sizeof(ibv_tmh) + bytes);
  wr.imm_data = htonl(77);
  ASSERT_EQ(self.post(wr), 0);
  ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
}

class TagMatching : public Played {
 protected:
  /// The passive player receives by tag.
  void match(const Part& sender, const Part& receiver) {
    play(
        traits(),
        [&](Endpoint& self) {
          ASSERT_EQ(self.move(IBV_QPS_RESET), 0);
          self.meet();
          sender(self);
        },
        [&](Endpoint& self) {
          receive_by_tag(self);
          self.meet();
          receiver(self);
        });
  }
};

constexpr unsigned kWhole = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;

TEST_P(TagMatching, PutsMessagesWhereTheirTagsSay) {
  match(
      [](Endpoint& self) {
        self.barrier();
        send(self, IBV_TMH_EAGER, 0x20, 100, 1, 0xabcd);
        send(self, IBV_TMH_EAGER, 0x10, 200, 2);
        send(self, IBV_TMH_EAGER, 0x2f, 300, 3, 0, IBV_WR_SEND_WITH_IMM);
        send(self, IBV_TMH_EAGER, 0x30, 0, 0);
        self.barrier();
      },
      [](Endpoint& self) {
        std::memset(self.buffer.data(), 0, kBuffer);
        add(self, 1, 0x10, 0, 1000, IBV_OPS_SIGNALED);
        add(self, 2, 0x20, 1000, 1000, IBV_OPS_SIGNALED, ~uint64_t{0xf});  // any of 0x20 to 0x2f
        add(self, 3, 0x20, 2000, 1000, IBV_OPS_SIGNALED, ~uint64_t{0xf});
        add(self, 4, 0x30, 3000, 0, IBV_OPS_SIGNALED);
        for (uint64_t id = 1; id <= 4; id++) expect(next(self), id + 1000, IBV_WC_TM_ADD, 0);
        self.barrier();
        Told told = next(self);
        expect(told, 2, IBV_WC_TM_RECV, kWhole);
        EXPECT_EQ(told.tag, 0x20u);
        EXPECT_EQ(told.priv, 0xabcdu);
        EXPECT_EQ(told.bytes, 100u) << "without the header";
        EXPECT_EQ(told.qpn, self.qp->qp_num);
        EXPECT_EQ(self.buffer[1000], 1);
        EXPECT_EQ(self.buffer[1099], 1);
        EXPECT_EQ(self.buffer[1100], 0);
        told = next(self);
        expect(told, 1, IBV_WC_TM_RECV, kWhole);
        EXPECT_EQ(self.buffer[199], 2);
        told = next(self);
        expect(told, 3, IBV_WC_TM_RECV, kWhole | IBV_WC_WITH_IMM);
        EXPECT_EQ(told.tag, 0x2fu);
        EXPECT_EQ(told.immediate, htonl(77));
        EXPECT_EQ(self.buffer[2299], 3);
        told = next(self);
        expect(told, 4, IBV_WC_TM_RECV, kWhole);
        EXPECT_EQ(told.bytes, 0u);
        self.barrier();
      });
}

// Of more than a packet: first the match is told, then the data.
TEST_P(TagMatching, TellsOfLongMessagesTwice) {
  match(
      [](Endpoint& self) {
        self.barrier();
        send(self, IBV_TMH_EAGER, 5, 20'000, 9);
        self.barrier();
      },
      [](Endpoint& self) {
        add(self, 7, 5, 100, 20'000);
        self.barrier();
        Told told = next(self);
        expect(told, 7, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
        EXPECT_EQ(told.tag, 5u);
        told = next(self);
        expect(told, 7, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
        EXPECT_EQ(told.bytes, 20'000u);
        EXPECT_EQ(self.buffer[100], 9);
        EXPECT_EQ(self.buffer[100 + 19'999], 9);
        self.barrier();
      });
}

TEST_P(TagMatching, LeavesTheRestToTheProgram) {
  match(
      [](Endpoint& self) {
        self.barrier();
        send(self, IBV_TMH_EAGER, 0x99, 100, 4);   // nobody waits for it
        send(self, IBV_TMH_NO_TAG, 0x10, 100, 5);  // has no tag, whatever stands there
        send(self, IBV_TMH_EAGER, 0x10, 100, 6);   // somebody waits for it
        self.barrier();
        self.barrier();
        send(self, IBV_TMH_EAGER, 0x11, 100, 7);  // appended out of step
        self.barrier();
        self.barrier();
        send(self, IBV_TMH_EAGER, 0x11, 100, 8);
        self.barrier();
      },
      [](Endpoint& self) {
        for (uint64_t id = 50; id < 54; id++) EXPECT_EQ(self.receive(id * 1000 - kFar, 1000, id), 0);
        add(self, 1, 0x10, 0, 1000);
        self.barrier();
        Told told = next(self);
        expect(told, 50, IBV_WC_TM_RECV, 0);
        EXPECT_EQ(told.tag, 0u) << "the program reads it from the message";
        EXPECT_EQ(told.bytes, 116u) << "with the header";
        EXPECT_EQ(self.buffer[50'000 - kFar + 16], 4);
        EXPECT_EQ(self.buffer[50'000 - kFar], IBV_TMH_EAGER);
        expect(next(self), 51, IBV_WC_TM_NO_TAG, 0);
        EXPECT_EQ(self.buffer[51'000 - kFar + 16], 5);
        expect(next(self), 1, IBV_WC_TM_RECV, kWhole);
        EXPECT_EQ(self.buffer[99], 6);
        self.barrier();
        // The device has found an unexpected message that the program has said nothing about: what is
        // appended now has to wait.
        add(self, 2, 0x11, 0, 1000, IBV_OPS_SIGNALED);
        expect(next(self), 1002, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
        self.barrier();
        expect(next(self), 52, IBV_WC_TM_RECV, 0);
        EXPECT_EQ(sync(self, 60, 1), 0) << "still one behind";
        expect(next(self), 60, IBV_WC_TM_SYNC, 0);
        EXPECT_EQ(sync(self, 61, 2), 0);
        expect(next(self), 61, IBV_WC_TM_SYNC, 0);
        self.barrier();
        self.barrier();
        expect(next(self), 2, IBV_WC_TM_RECV, kWhole);
        EXPECT_EQ(self.buffer[99], 8);
        self.barrier();
      });
}

void write_rendezvous(Endpoint& self, uint64_t tag, size_t offset, uint32_t bytes) {
  write_header(self, IBV_TMH_RNDV, tag, 0x55);
  auto& where = *reinterpret_cast<ibv_rvh*>(self.buffer.data() + sizeof(ibv_tmh));
  where.va = htobe64(reinterpret_cast<uint64_t>(self.buffer.data() + offset));
  where.rkey = htonl(self.mr->rkey);
  where.len = htonl(bytes);
}

TEST_P(TagMatching, FetchesTheDataOfARendezvous) {
  match(
      [](Endpoint& self) {
        fill(self, kFar, 30'000, 3);
        EXPECT_EQ(self.receive(20'000, 100, 9), 0);
        self.barrier();
        write_rendezvous(self, 0x42, kFar, 30'000);
        ASSERT_EQ(self.post(self.request(IBV_WR_SEND, 48)), 0);
        // Its own completion, and the message that says that the data has been read.
        bool sent = false, finished = false;
        for (int i = 0; i < 2; i++) {
          const ibv_wc wc = self.wait();
          EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
          if (wc.opcode == IBV_WC_RECV) {
            finished = true;
            EXPECT_EQ(wc.wr_id, 9u);
            EXPECT_EQ(wc.byte_len, 32u);
          } else {
            sent = true;
          }
        }
        EXPECT_TRUE(sent && finished);
        const auto& told = *reinterpret_cast<const ibv_tmh*>(self.buffer.data() + 20'000);
        EXPECT_EQ(told.opcode, IBV_TMH_FIN);
        EXPECT_EQ(told.tag, htobe64(0x42));
        EXPECT_EQ(told.app_ctx, htonl(0x55));
        const auto& where = *reinterpret_cast<const ibv_rvh*>(&told + 1);
        EXPECT_EQ(where.len, htonl(30'000));
        EXPECT_EQ(where.rkey, htonl(self.mr->rkey));
        self.barrier();
      },
      [](Endpoint& self) {
        add(self, 7, 0x42, 0, 30'000);
        self.barrier();
        Told told = next(self);
        expect(told, 7, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
        EXPECT_EQ(told.tag, 0x42u);
        EXPECT_EQ(told.priv, 0x55u);
        told = next(self);
        expect(told, 7, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
        EXPECT_EQ(told.bytes, 30'000u);
        EXPECT_TRUE(holds(self, 0, 30'000, 3));
        self.barrier();
      });
}

// What does not fit the buffer is the program's to fetch: it gets the headers.
TEST_P(TagMatching, HandsLargeRendezvousOver) {
  match(
      [](Endpoint& self) {
        self.barrier();
        write_rendezvous(self, 0x42, kFar, 30'000);
        ASSERT_EQ(self.post(self.request(IBV_WR_SEND, 32)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      },
      [](Endpoint& self) {
        add(self, 7, 0x42, 0, 29'999);
        self.barrier();
        expect(next(self), 7, IBV_WC_TM_RECV, kWhole, IBV_WC_TM_RNDV_INCOMPLETE);
        EXPECT_EQ(self.buffer[0], IBV_TMH_RNDV);
        EXPECT_EQ(reinterpret_cast<const ibv_rvh*>(self.buffer.data() + 16)->len, htonl(30'000));
        self.barrier();
      });
}

// The sender's key forbids the read: the buffer ends without its data, and the queue pair with an error.
TEST_P(TagMatching, GivesUpARendezvousThatIsRefused) {
  match(
      [](Endpoint& self) {
        self.barrier();
        write_rendezvous(self, 0x42, kFar, 1000);
        reinterpret_cast<ibv_rvh*>(self.buffer.data() + sizeof(ibv_tmh))->rkey ^= htonl(0x5500);
        ASSERT_EQ(self.post(self.request(IBV_WR_SEND, 32)), 0);
        (void)self.wait_status();
        self.barrier();
      },
      [](Endpoint& self) {
        add(self, 7, 0x42, 0, 1000);
        self.barrier();
        expect(next(self), 7, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
        expect(next(self), 7, IBV_WC_TM_RECV, kWhole, IBV_WC_TM_RNDV_INCOMPLETE);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
        self.barrier();
      });
}

TEST_P(TagMatching, TakesBackWhatNobodyUsed) {
  match(
      [](Endpoint& self) {
        self.barrier();
        send(self, IBV_TMH_EAGER, 2, 10, 1);
        self.barrier();
      },
      [](Endpoint& self) {
        const uint32_t first = add(self, 1, 1, 0, 100);
        const uint32_t second = add(self, 2, 2, 100, 100);
        EXPECT_NE(first, second);
        EXPECT_EQ(remove(self, 30, first), 0);
        expect(next(self), 30, IBV_WC_TM_DEL, 0);
        EXPECT_EQ(remove(self, 31, first), EINVAL) << "it is free";
        self.barrier();
        self.barrier();
        EXPECT_EQ(remove(self, 32, second), 0) << "the program has not heard of the message";
        expect(next(self), 2, IBV_WC_TM_RECV, kWhole);
        expect(next(self), 32, IBV_WC_TM_DEL, 0, IBV_WC_TM_ERR);
      });
}

VERBATIM_PLAY_BOTH_WAYS(TagMatching);

TEST(TagQueues, HaveLimits) {
  Endpoint self(traits());
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(self.context, nullptr, &device), 0);
  const ibv_tm_caps& caps = device.tm_caps;
  EXPECT_EQ(caps.flags, uint32_t{IBV_TM_CAP_RC});
  EXPECT_GE(caps.max_num_tags, 100u);
  EXPECT_GE(caps.max_ops, 16u);
  EXPECT_GE(caps.max_sge, 1u);
  EXPECT_GE(caps.max_rndv_hdr_size, sizeof(ibv_tmh) + sizeof(ibv_rvh));
  const auto error_of = [&](uint32_t mask, uint32_t tags, uint32_t operations) {
    ibv_srq_init_attr_ex wanted{};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | mask;
    wanted.srq_type = IBV_SRQT_TM;
    wanted.pd = self.pd;
    wanted.cq = self.cq;
    wanted.attr = {16, 1, 0};
    wanted.tm_cap = {tags, operations};
    errno = 0;
    ibv_srq* srq = ibv_create_srq_ex(self.context, &wanted);
    if (srq != nullptr) {
      EXPECT_EQ(ibv_destroy_srq(srq), 0);
    }
    return errno;
  };
  constexpr uint32_t kBoth = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  EXPECT_EQ(error_of(kBoth, caps.max_num_tags, caps.max_ops), 0);
  EXPECT_EQ(error_of(kBoth, caps.max_num_tags + 1, 1), EINVAL);
  EXPECT_EQ(error_of(kBoth, 0, 1), EINVAL);
  EXPECT_EQ(error_of(kBoth, 1, caps.max_ops + 1), EINVAL);
  EXPECT_EQ(error_of(IBV_SRQ_INIT_ATTR_TM, 1, 1), EINVAL) << "where would it complete?";
  EXPECT_EQ(error_of(IBV_SRQ_INIT_ATTR_CQ, 1, 1), EINVAL);
}

TEST(TagQueues, TakeSoManyTagsAndOperations) {
  Endpoint self(traits());
  receive_by_tag(self);
  EXPECT_EQ(ibv_destroy_srq(self.srq), EBUSY) << "a queue pair uses it";
  for (uint32_t i = 0; i < kTags; i++) {
    add(self, i, i, 0, 64, IBV_OPS_SIGNALED);
    expect(next(self), i + 1000, IBV_WC_TM_ADD, 0);
  }
  ibv_sge sge = self.piece(0, 64);
  ibv_ops_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_TAG_ADD;
  wr.tm.add = {1, &sge, 1, 1, 1};
  EXPECT_EQ(ibv_post_srq_ops(self.srq, &wr, &bad), ENOMEM) << "the list is full";
  EXPECT_EQ(bad, &wr);
  wr.opcode = static_cast<ibv_ops_wr_opcode>(3);
  EXPECT_EQ(ibv_post_srq_ops(self.srq, &wr, &bad), EINVAL);
  wr.opcode = IBV_WR_TAG_DEL;
  wr.tm.handle = 1u << 20;
  EXPECT_EQ(ibv_post_srq_ops(self.srq, &wr, &bad), EINVAL);
  // A queue without tags.
  ibv_srq_init_attr plain{nullptr, {4, 1, 0}};
  ibv_srq* srq = ibv_create_srq(self.pd, &plain);
  EXPECT_EQ(ibv_post_srq_ops(srq, &wr, &bad), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  // Only RC has tags.
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_UC;
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.srq = self.srq;
  wanted.cap = {1, 0, 1, 0, 0};
  EXPECT_EQ(ibv_create_qp(self.pd, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
