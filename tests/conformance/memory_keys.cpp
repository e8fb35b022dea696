// SPDX-License-Identifier: MIT
// Traffic through indirect memory keys.
#include "tests/conformance/memory_keys.h"

#include <cstring>
#include <random>

namespace verbatim::conformance {

Key::Key(Endpoint& player, uint16_t entries, uint32_t flags) : self(player) {
  mlx5dv_mkey_init_attr wanted{};
  wanted.pd = self.pd;
  wanted.create_flags = flags;
  wanted.max_entries = entries;
  key = mlx5dv_create_mkey(&wanted);
  EXPECT_NE(key, nullptr);
  EXPECT_GE(wanted.max_entries, entries);
}

int Key::give(const Ranges& ranges, uint32_t access, bool configure) {
  laid = ranges;
  const auto base = reinterpret_cast<uint64_t>(self.buffer.data());
  std::vector<ibv_sge> list;
  std::vector<mlx5dv_mr_interleaved> columns;
  for (const Ranges::Range& range : ranges.list) {
    list.push_back({base + range.offset, range.bytes, self.mr->lkey});
    columns.push_back({base + range.offset, range.bytes, range.skip, self.mr->lkey});
  }
  const auto count = static_cast<uint16_t>(list.size());
  ibv_qp_ex* qp = self.builder();
  mlx5dv_qp_ex* direct = direct_builder(self);
  ibv_wr_start(qp);
  qp->wr_id = 77;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  mlx5dv_mkey_conf_attr plain{};
  if (configure) {
    mlx5dv_wr_mkey_configure(direct, key, 2, &plain);
    mlx5dv_wr_set_mkey_access_flags(direct, access);
    if (ranges.rounds == 0)
      mlx5dv_wr_set_mkey_layout_list(direct, count, list.data());
    else
      mlx5dv_wr_set_mkey_layout_interleaved(direct, ranges.rounds, count, columns.data());
  } else if (ranges.rounds == 0) {
    mlx5dv_wr_mr_list(direct, key, access, count, list.data());
  } else {
    mlx5dv_wr_mr_interleaved(direct, key, access, ranges.rounds, count, columns.data());
  }
  return ibv_wr_complete(qp);
}

ibv_wc_status Key::lay(const Ranges& ranges, uint32_t access, bool configure) {
  EXPECT_EQ(give(ranges, access, configure), 0);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.wr_id, 77u);
  if (wc.status == IBV_WC_SUCCESS) {
    EXPECT_EQ(static_cast<int>(wc.opcode), MLX5DV_WC_UMR);
  }
  return wc.status;
}

ibv_wc_status Key::invalidate() {
  ibv_send_wr wr = self.request(IBV_WR_LOCAL_INV, 0);
  wr.num_sge = 0;
  wr.invalidate_rkey = key->lkey;
  EXPECT_EQ(self.post(wr), 0);
  const ibv_wc wc = self.wait();
  if (wc.status == IBV_WC_SUCCESS) {
    EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  }
  return wc.status;
}

namespace {
uint8_t pattern(uint64_t index, uint8_t seed) { return static_cast<uint8_t>(index * 5 + index / 256 + seed); }
}  // namespace

void Key::fill(uint64_t bytes, uint8_t seed) {
  for (uint64_t i = 0; i < bytes; i++) self.buffer[laid.at(i)] = pattern(i, seed);
}
bool Key::holds(uint64_t bytes, uint8_t seed) const {
  for (uint64_t i = 0; i < bytes; i++)
    if (self.buffer[laid.at(i)] != pattern(i, seed)) return false;
  return true;
}

std::vector<Ranges> layouts() {
  return {
      {{{64, 3000, 0}}, 0},
      {{{1, 7, 0}, {100, 1, 0}, {333, 1000, 0}, {5000, 31, 0}, {6001, 1999, 0}, {20'000, 300, 0}}, 0},
      {{{0, 8, 2}, {20'000, 8, 2}}, 200},
      {{{8, 512, 4}, {30'000, 8, 0}, {40'000, 100, 28}}, 10},
  };
}

namespace {

constexpr uint64_t kSizes[] = {1, 16, 500, 1024, 3000};
constexpr size_t kMailbox = kBuffer - 64;  ///< where a player leaves its key for the other

class KeyTraffic : public Played {};
VERBATIM_PLAY_BOTH_WAYS(KeyTraffic);

/// Sends or receives through one element of a key.
int post_send(Endpoint& self, const ibv_sge& sge) {
  ibv_send_wr wr{}, *bad = nullptr;
  ibv_sge list[] = {sge};
  wr.wr_id = 100;
  wr.sg_list = list;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  return ibv_post_send(self.qp, &wr, &bad);
}
int post_receive(Endpoint& self, const ibv_sge& sge) {
  ibv_recv_wr wr{}, *bad = nullptr;
  ibv_sge list[] = {sge};
  wr.wr_id = 5;
  wr.sg_list = list;
  wr.num_sge = 1;
  return ibv_post_recv(self.qp, &wr, &bad);
}
ibv_wc_status one_sided(Endpoint& self, ibv_wr_opcode opcode, ibv_sge sge, uint32_t rkey, uint64_t address) {
  ibv_send_wr wr = self.request(opcode, 8), *bad = nullptr;
  wr.sg_list = &sge;
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = rkey;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = 3;
  }
  EXPECT_EQ(ibv_post_send(self.qp, &wr, &bad), 0);
  return self.wait_status();
}

void leave_key(Endpoint& self, uint32_t rkey) {
  word(self, kMailbox) = rkey;
  self.barrier();
}
uint32_t fetch_key(Endpoint& self) {
  self.barrier();
  const ibv_sge sge{reinterpret_cast<uint64_t>(&self.buffer[kMailbox]), 8, self.mr->lkey};
  EXPECT_EQ(one_sided(self, IBV_WR_RDMA_READ, sge, self.peer.rkey, self.peer.address + kMailbox),
            IBV_WC_SUCCESS);
  return static_cast<uint32_t>(word(self, kMailbox));
}

TEST_P(KeyTraffic, SendsAndReceivesThroughLayouts) {
  const auto part = [](bool sends) {
    return [sends](Endpoint& self) {
      Key key(self);
      uint8_t seed = 0;
      for (const Ranges& ranges : layouts())
        for (const bool configure : {false, true}) {
          ASSERT_EQ(key.lay(ranges, IBV_ACCESS_LOCAL_WRITE, configure), IBV_WC_SUCCESS);
          for (const uint64_t size : kSizes) {
            seed++;
            if (sends) {
              key.fill(size, seed);
              self.barrier();
              ASSERT_EQ(post_send(self, key.sge(0, size)), 0);
            } else {
              ASSERT_EQ(post_receive(self, key.sge(0, ranges.length())), 0);
              self.barrier();
            }
            const ibv_wc wc = self.wait();
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << size;
            if (!sends) {
              ASSERT_EQ(wc.byte_len, size);
              ASSERT_TRUE(key.holds(size, seed)) << size;
            }
          }
          ASSERT_EQ(key.invalidate(), IBV_WC_SUCCESS);
        }
    };
  };
  play(key_traits(), part(true), part(false));
}

TEST_P(KeyTraffic, ReachesThroughThePeersKeys) {
  play(
      key_traits(),
      [](Endpoint& self) {
        Key key(self);
        uint8_t seed = 0;
        for (const Ranges& ranges : layouts()) {
          const uint32_t rkey = fetch_key(self);
          ASSERT_EQ(key.lay(ranges), IBV_WC_SUCCESS);
          for (const uint64_t size : kSizes) {
            key.fill(size, ++seed);
            ASSERT_EQ(one_sided(self, IBV_WR_RDMA_WRITE, key.sge(0, size), rkey, 0), IBV_WC_SUCCESS) << size;
            self.barrier();
            key.fill(size, 0);
            ASSERT_EQ(one_sided(self, IBV_WR_RDMA_READ, key.sge(0, size), rkey, 0), IBV_WC_SUCCESS) << size;
            ASSERT_TRUE(key.holds(size, seed)) << size;
            self.barrier();
          }
          self.barrier();
        }
      },
      [](Endpoint& self) {
        Key key(self);
        uint8_t seed = 0;
        const std::vector<Ranges> all = layouts();
        for (size_t i = 0; i < all.size(); i++) {
          ASSERT_EQ(key.lay(all[all.size() - 1 - i]), IBV_WC_SUCCESS);
          leave_key(self, key.key->rkey);
          for (const uint64_t size : kSizes) {
            self.barrier();
            ASSERT_TRUE(key.holds(size, ++seed)) << size;
            self.barrier();
          }
          self.barrier();
        }
      });
}

TEST_P(KeyTraffic, AddsThroughKeys) {
  play(
      key_traits(),
      [](Endpoint& self) {
        Key split(self);
        ASSERT_EQ(split.lay({{{3, 3, 0}, {100, 5, 0}}, 0}), IBV_WC_SUCCESS);
        const uint32_t rkey = fetch_key(self);
        ASSERT_EQ(one_sided(self, IBV_WR_ATOMIC_FETCH_AND_ADD, split.sge(0, 8), rkey, 16), IBV_WC_SUCCESS);
        uint64_t original = 0;
        std::memcpy(&original, &self.buffer[3], 3);
        std::memcpy(reinterpret_cast<uint8_t*>(&original) + 3, &self.buffer[100], 5);
        EXPECT_EQ(original, 39u);
        self.barrier();
        EXPECT_EQ(one_sided(self, IBV_WR_ATOMIC_FETCH_AND_ADD, split.sge(0, 8), rkey, 24),
                  IBV_WC_REM_ACCESS_ERR)
            << "half in one range, half in the next";
      },
      [](Endpoint& self) {
        Key words(self);
        ASSERT_EQ(words.lay({{{64, 28, 0}, {1024, 20, 0}}, 0}), IBV_WC_SUCCESS);
        word(self, 80) = 39;
        leave_key(self, words.key->rkey);
        self.barrier();
        EXPECT_EQ(word(self, 80), 42u);
      });
}

TEST_P(KeyTraffic, IsRefusedWhatTheKeyDoesNotGrant) {
  play(
      key_traits(),
      [](Endpoint& self) {
        const uint32_t rkey = fetch_key(self);
        EXPECT_EQ(one_sided(self, IBV_WR_RDMA_READ, self.piece(0, 8), rkey, 0), IBV_WC_SUCCESS);
        EXPECT_EQ(one_sided(self, IBV_WR_RDMA_WRITE, self.piece(0, 8), rkey, 0), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint& self) {
        Key key(self);
        ASSERT_EQ(key.lay({{{0, 64, 0}}, 0}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
                  IBV_WC_SUCCESS);
        leave_key(self, key.key->rkey);
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
      });
}

TEST_P(KeyTraffic, IsRefusedAfterThePeerFreedTheKey) {
  play(
      key_traits(),
      [](Endpoint& self) {
        const uint32_t rkey = fetch_key(self);
        EXPECT_EQ(one_sided(self, IBV_WR_RDMA_WRITE, self.piece(0, 8), rkey, 0), IBV_WC_SUCCESS);
        self.barrier();
        self.barrier();
        EXPECT_EQ(one_sided(self, IBV_WR_RDMA_WRITE, self.piece(0, 8), rkey, 0), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint& self) {
        Key key(self);
        ASSERT_EQ(key.lay({{{0, 64, 0}}, 0}), IBV_WC_SUCCESS);
        leave_key(self, key.key->rkey);
        self.barrier();
        EXPECT_EQ(key.invalidate(), IBV_WC_SUCCESS);
        self.barrier();
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
      });
}

TEST_P(KeyTraffic, FreesThePeersKey) {
  Traits traits = key_traits();
  traits.operations |= IBV_QP_EX_WITH_SEND_WITH_INV;
  play(
      traits,
      [](Endpoint& self) {
        const uint32_t rkey = fetch_key(self);
        ibv_send_wr wr = self.request(IBV_WR_SEND_WITH_INV, 16);
        wr.invalidate_rkey = rkey;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        EXPECT_EQ(one_sided(self, IBV_WR_RDMA_WRITE, self.piece(0, 8), rkey, 0), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint& self) {
        Key key(self, 4,
                MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE);
        ASSERT_EQ(key.lay({{{0, 64, 0}}, 0}), IBV_WC_SUCCESS);
        EXPECT_EQ(self.receive(1024, 64, 9), 0);
        leave_key(self, key.key->rkey);
        const ibv_wc wc = self.wait();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_INV, static_cast<unsigned>(IBV_WC_WITH_INV));
        EXPECT_EQ(wc.invalidated_rkey, key.key->rkey);
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
      });
}

TEST(KeyTrafficOfOddLists, ArrivesIntact) {
  Pair pair(key_traits());
  Key from(pair.left), into(pair.right);
  std::mt19937 random(20240607);
  const auto odd = [&random] {
    Ranges ranges;
    uint32_t offset = random() % 50;
    const uint32_t count = 1 + random() % 12;
    if (random() % 2) ranges.rounds = 1 + random() % 40;
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t bytes = 1 + random() % (random() % 2 ? 9 : 200),
                     skip = ranges.rounds ? random() % 12 : 0;
      ranges.list.push_back({offset, bytes, skip});
      offset += (bytes + skip) * std::max(1u, ranges.rounds) + random() % 20;
      if (offset > kBuffer - 8192) break;
    }
    // No further than the buffer goes.
    const Ranges::Range& last = ranges.list.back();
    if (last.offset + uint64_t{last.bytes + last.skip} * std::max(1u, ranges.rounds) > kBuffer)
      ranges.list.pop_back();
    if (ranges.list.empty()) ranges = {{{5, 17, 0}}, 0};
    return ranges;
  };
  for (int i = 0; i < 300; i++) {
    ASSERT_EQ(from.lay(odd(), kAllRights, random() % 2), IBV_WC_SUCCESS);
    ASSERT_EQ(into.lay(odd(), kAllRights, random() % 2), IBV_WC_SUCCESS);
    const uint64_t size = 1 + random() % std::min(from.laid.length(), into.laid.length());
    from.fill(size, static_cast<uint8_t>(i));
    if (i % 2) {
      ASSERT_EQ(one_sided(pair.left, IBV_WR_RDMA_WRITE, from.sge(0, size), into.key->rkey, 0),
                IBV_WC_SUCCESS);
    } else {
      ASSERT_EQ(post_receive(pair.right, into.sge(0, size)), 0);
      ASSERT_EQ(post_send(pair.left, from.sge(0, size)), 0);
      ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
      ASSERT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
    }
    ASSERT_TRUE(into.holds(size, static_cast<uint8_t>(i))) << i;
  }
}

TEST(KeyTrafficRefused, BeyondTheLayout) {
  Pair pair(key_traits());
  Key key(pair.left);
  ASSERT_EQ(key.lay({{{0, 8, 0}, {64, 8, 0}}, 0}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.right.receive(0, 1024), 0);
  ASSERT_EQ(post_send(pair.left, key.sge(0, 100)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_PROT_ERR);
}

TEST(KeyTrafficRefused, WhenTheRegionBehindTheKeyHasGone) {
  Pair pair(key_traits());
  Key key(pair.left);
  ASSERT_EQ(key.lay({{{0, 8, 0}, {64, 8, 0}}, 0}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.right.receive(0, 1024), 0);
  ASSERT_EQ(post_send(pair.left, key.sge(0, 16)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_dereg_mr(pair.left.mr), 0);
  pair.left.mr = nullptr;
  ASSERT_EQ(post_send(pair.left, key.sge(0, 16)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_PROT_ERR);
}

}  // namespace
}  // namespace verbatim::conformance
