// SPDX-License-Identifier: MIT
// Making memory keys and the work requests about them: what is taken, what is refused, how it completes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/prm/general.h"
#include "abi/prm/memory.h"
#include "device/connectx/formats.h"
#include "device/connectx/prm/view.h"
#include "tests/conformance/memory_keys.h"

namespace verbatim::conformance {
namespace {

using connectx::Be32;

mlx5dv_mkey* make(ibv_pd* pd, uint32_t flags, uint16_t entries = 4) {
  mlx5dv_mkey_init_attr wanted{};
  wanted.pd = pd;
  wanted.create_flags = flags;
  wanted.max_entries = entries;
  errno = 0;
  return mlx5dv_create_mkey(&wanted);
}

TEST(MemoryKeys, AreMadeWithTheFlagsThatWork) {
  Endpoint self(key_traits());
  EXPECT_EQ(make(self.pd, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(make(self.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(make(self.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | 1u << 20), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(make(self.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 0xffff), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Endpoint plain;
  mlx5dv_mkey* there = make(plain.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
  ASSERT_NE(there, nullptr) << "also where the device was not opened for commands";
  EXPECT_EQ(mlx5dv_destroy_mkey(there), 0);
  mlx5dv_mkey_init_attr wanted{self.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 5};
  mlx5dv_mkey* key = mlx5dv_create_mkey(&wanted);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(wanted.max_entries, 8);
  EXPECT_EQ(key->lkey, key->rkey);
  EXPECT_NE(key->lkey, self.mr->lkey);
  EXPECT_EQ(mlx5dv_destroy_mkey(key), 0);
}

TEST(MemoryKeys, HoldTheirDomain) {
  Endpoint self(key_traits());
  ibv_pd* pd = ibv_alloc_pd(self.context);
  mlx5dv_mkey* key = make(pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(mlx5dv_destroy_mkey(key), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

/// Builds one request and returns what wr_complete says.
template <class Build>
int built(Endpoint& self, unsigned int flags, const Build& build) {
  ibv_wr_start(self.builder());
  self.builder()->wr_id = 77;
  self.builder()->wr_flags = flags;
  build(direct_builder(self));
  return ibv_wr_complete(self.builder());
}

constexpr unsigned int kInline = IBV_SEND_SIGNALED | IBV_SEND_INLINE;

TEST(MemoryKeyRequests, AreRefusedAsTheManualSays) {
  Pair pair(key_traits());
  Endpoint& self = pair.left;
  Key key(self, 4);
  mlx5dv_mkey_conf_attr plain{}, odd{};
  ibv_sge list[5] = {self.piece(0, 8), self.piece(8, 8), self.piece(16, 8), self.piece(24, 8),
                     self.piece(32, 8)};
  const auto configure = [&](mlx5dv_qp_ex* qp, uint8_t setters) {
    mlx5dv_wr_mkey_configure(qp, key.key, setters, &plain);
  };
  EXPECT_EQ(built(self, IBV_SEND_SIGNALED, [&](auto* qp) { configure(qp, 0); }), EOPNOTSUPP) << "not inline";
  odd.conf_flags = 1u << 9;
  EXPECT_EQ(built(self, kInline, [&](auto* qp) { mlx5dv_wr_mkey_configure(qp, key.key, 0, &odd); }),
            EOPNOTSUPP);
  EXPECT_EQ(built(self, kInline, [&](auto* qp) { configure(qp, 1); }), EINVAL) << "a setter is missing";
  EXPECT_EQ(built(self, kInline, [&](auto* qp) { mlx5dv_wr_set_mkey_access_flags(qp, 0); }), EINVAL)
      << "no builder";
  EXPECT_EQ(built(self, kInline,
                  [&](auto* qp) {
                    configure(qp, 2);
                    mlx5dv_wr_set_mkey_access_flags(qp, 0);
                    mlx5dv_wr_set_mkey_access_flags(qp, 0);
                  }),
            EINVAL);
  EXPECT_EQ(built(self, kInline,
                  [&](auto* qp) {
                    configure(qp, 1);
                    mlx5dv_wr_set_mkey_access_flags(qp, IBV_ACCESS_ON_DEMAND);
                  }),
            EINVAL);
  EXPECT_EQ(built(self, kInline,
                  [&](auto* qp) {
                    configure(qp, 1);
                    mlx5dv_wr_set_mkey_layout_list(qp, 5, list);
                  }),
            ENOMEM)
      << "more than the key was made for";
  EXPECT_EQ(built(self, kInline,
                  [&](auto* qp) {
                    configure(qp, 2);
                    mlx5dv_wr_set_mkey_layout_list(qp, 1, list);
                    mlx5dv_wr_set_mkey_layout_list(qp, 1, list);
                  }),
            EINVAL);
  EXPECT_EQ(built(self, kInline,
                  [&](auto* qp) {
                    configure(qp, 1);
                    mlx5dv_wr_set_mkey_access_flags(qp, 0);
                    mlx5dv_wr_set_mkey_layout_list(qp, 1, list);
                  }),
            EINVAL)
      << "one setter too many";
  EXPECT_TRUE(self.quiet());
  EXPECT_EQ(key.lay({{{0, 8, 0}, {16, 8, 0}, {32, 8, 0}, {48, 8, 0}}, 0}), IBV_WC_SUCCESS)
      << "and nothing stays";
}

TEST(MemoryKeyRequests, ChangeOneThingAtATime) {
  Pair pair(key_traits());
  Endpoint& self = pair.left;
  Key key(pair.right);
  ASSERT_EQ(key.lay({{{0, 64, 0}}, 0}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
  const auto write = [&] {
    ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 16);
    wr.wr.rdma.remote_addr = 0;
    wr.wr.rdma.rkey = key.key->rkey;
    EXPECT_EQ(self.post(wr), 0);
    return self.wait_status();
  };
  EXPECT_EQ(write(), IBV_WC_SUCCESS);
  mlx5dv_mkey_conf_attr plain{};
  EXPECT_EQ(built(pair.right, kInline, [&](auto* qp) { mlx5dv_wr_mkey_configure(qp, key.key, 0, &plain); }),
            0);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(), IBV_WC_SUCCESS) << "layout and rights are as before";
  EXPECT_EQ(built(pair.right, kInline,
                  [&](auto* qp) {
                    mlx5dv_wr_mkey_configure(qp, key.key, 1, &plain);
                    mlx5dv_wr_set_mkey_access_flags(qp, IBV_ACCESS_REMOTE_READ);
                  }),
            0);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

TEST(MemoryKeyRequests, RenameTheKey) {
  Pair pair(key_traits());
  Key key(pair.right, 4, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG);
  const uint32_t old = key.key->rkey;
  key.key->lkey = key.key->rkey = old | 0x7f;
  ASSERT_EQ(key.lay({{{0, 64, 0}}, 0}), IBV_WC_SUCCESS);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 16);
  wr.wr.rdma.remote_addr = 0;
  wr.wr.rdma.rkey = key.key->rkey;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  wr.wr.rdma.rkey = old;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_REM_ACCESS_ERR);
}

TEST(MemoryKeyRequests, FailForKeysThatAreNone) {
  Pair pair(key_traits());
  Key key(pair.left);
  key.key->lkey = pair.left.mr->lkey;
  mlx5dv_mkey_conf_attr plain{};
  EXPECT_EQ(built(pair.left, kInline, [&](auto* qp) { mlx5dv_wr_mkey_configure(qp, key.key, 0, &plain); }),
            0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(pair.left.state(), IBV_QPS_ERR);
}

TEST(MemoryKeyRequests, WaitForWhatUsesTheKey) {
  Pair pair(key_traits());
  Key key(pair.left);
  ASSERT_EQ(key.lay({{{0, 3000, 0}}, 0}), IBV_WC_SUCCESS);
  for (int i = 0; i < 20; i++) {
    key.fill(3000, static_cast<uint8_t>(i));
    ASSERT_EQ(pair.right.receive(0, 4096), 0);
    ibv_sge sge = key.sge(0, 3000);
    ibv_send_wr send{}, invalidate{}, *bad = nullptr;
    send.sg_list = &sge;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    send.next = &invalidate;
    invalidate.opcode = IBV_WR_LOCAL_INV;
    invalidate.send_flags = IBV_SEND_SIGNALED;
    invalidate.invalidate_rkey = key.key->lkey;
    ASSERT_EQ(ibv_post_send(pair.left.qp, &send, &bad), 0);
    EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
    const ibv_wc sent = pair.left.wait(), freed = pair.left.wait();
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(freed.status, IBV_WC_SUCCESS);
    EXPECT_EQ(freed.opcode, IBV_WC_LOCAL_INV);
    EXPECT_EQ(std::memcmp(pair.right.buffer.data(), pair.left.buffer.data(), 3000), 0);
    ASSERT_EQ(key.lay({{{0, 3000, 0}}, 0}), IBV_WC_SUCCESS);
  }
}

// ---- entries that the program writes itself ----

struct RawUpdate {
  connectx::ControlSegment control{};
  connectx::UmrControlSegment update{};
  connectx::UmrKeySegment key{};
  connectx::DataSegment where{};

  RawUpdate(const Endpoint& self, uint32_t lkey) {
    control.index_opcode = connectx::kOpUmr;
    control.qpn_ds = self.qp->qp_num << 8 | sizeof *this / connectx::kSegmentUnit;
    control.flags = connectx::kCompletionAlways;
    control.immediate = lkey;
    update.key_mask = connectx::kUmrMaskFree | connectx::kUmrMaskLength | connectx::kUmrMaskLocalWrite |
                      connectx::kUmrMaskRemoteWrite;
    key.access = connectx::kUmrKeyLocalWrite | connectx::kUmrKeyRemoteWrite;
  }
  ibv_wc_status post(Endpoint& self) const {
    EXPECT_EQ(built(self, 0, [&](auto* qp) { mlx5dv_wr_raw_wqe(qp, this); }), 0);
    const ibv_wc wc = self.wait();
    if (wc.status == IBV_WC_SUCCESS) {
      EXPECT_EQ(static_cast<int>(wc.opcode), MLX5DV_WC_RAW_WQE);
    }
    return wc.status;
  }
};
static_assert(sizeof(RawUpdate) == 144);

TEST(RawKeyUpdates, TakeTheirListFromMemory) {
  Pair pair(key_traits());
  Endpoint& self = pair.right;
  Key key(self, 200);
  auto* list = reinterpret_cast<connectx::ListEntry*>(&self.buffer[32'768]);
  for (uint32_t i = 0; i < 200; i++)
    list[i] = {16, self.mr->lkey, reinterpret_cast<uint64_t>(self.buffer.data()) + 24 * i};
  RawUpdate raw(self, key.key->lkey);
  raw.key.length = 3200;
  raw.update.klm_octowords = 200;
  raw.where = {3200, self.mr->lkey, reinterpret_cast<uint64_t>(list)};
  ASSERT_EQ(raw.post(self), IBV_WC_SUCCESS);
  fill(pair.left, 0, 3200, 4);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 3200);
  wr.wr.rdma.remote_addr = 0;
  wr.wr.rdma.rkey = key.key->rkey;
  ASSERT_EQ(pair.left.post(wr), 0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 3200; i++) ASSERT_EQ(self.buffer[i / 16 * 24 + i % 16], pair.left.buffer[i]) << i;
  // Entries 4 and 5 alone.
  list[0] = {16, self.mr->lkey, reinterpret_cast<uint64_t>(&self.buffer[10'000])};
  list[1] = {16, self.mr->lkey, reinterpret_cast<uint64_t>(&self.buffer[10'016])};
  raw.update.flags = connectx::kUmrOffset;
  raw.update.translation_offset = 4;
  raw.update.klm_octowords = 2;
  ASSERT_EQ(raw.post(self), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.left.post(wr), 0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&self.buffer[10'000], &pair.left.buffer[64], 32), 0);
  EXPECT_EQ(std::memcmp(&self.buffer[144], &pair.left.buffer[96], 16), 0);
}

TEST(RawKeyUpdates, FailWithoutTheirListOrWithMoreThanFits) {
  for (const int wrong : {0, 1, 2, 3, 4, 5}) {
    Pair pair(key_traits());
    Endpoint& self = pair.left;
    Key key(self, 4);
    RawUpdate raw(self, key.key->lkey);
    raw.update.klm_octowords = 4;
    raw.where = {64, self.mr->lkey, reinterpret_cast<uint64_t>(self.buffer.data())};
    if (wrong == 0) raw.where.lkey = 0x12345;
    if (wrong == 1) raw.update.klm_octowords = 8;
    if (wrong == 2) raw.where.byte_count = 32;
    if (wrong == 3) raw.update.flags = connectx::kUmrMustNotBeFree << connectx::kUmrCheckShift;
    if (wrong == 4) raw.update.key_mask = 1ull << 60;
    if (wrong == 5) raw.control.qpn_ds = self.qp->qp_num << 8 | 5;
    EXPECT_EQ(raw.post(self), IBV_WC_MW_BIND_ERR) << wrong;
    EXPECT_EQ(self.state(), IBV_QPS_ERR);
  }
}

TEST(RawEntries, CompleteAsWhatTheyAre) {
  Pair pair(key_traits());
  struct {
    connectx::ControlSegment control{};
    connectx::DataSegment data[2]{};
  } entry;
  entry.control.index_opcode = 0xabcd00u | connectx::kOpSend;
  entry.control.qpn_ds = pair.left.qp->qp_num << 8 | 3;
  entry.control.flags = connectx::kCompletionAlways;
  fill(pair.left, 0, 300, 3);
  const auto base = reinterpret_cast<uint64_t>(pair.left.buffer.data());
  entry.data[0] = {100, pair.left.mr->lkey, base};
  entry.data[1] = {200, pair.left.mr->lkey, base + 100};
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(pair.right.receive(0, 512), 0);
    ASSERT_EQ(built(pair.left, 0, [&](auto* qp) { mlx5dv_wr_raw_wqe(qp, &entry); }), 0);
    const ibv_wc wc = pair.left.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(static_cast<int>(wc.opcode), MLX5DV_WC_RAW_WQE);
    ASSERT_EQ(wc.wr_id, 77u);
    ASSERT_EQ(pair.right.wait().byte_len, 300u);
    ASSERT_TRUE(holds(pair.right, 0, 300, 3));
  }
  entry.control.qpn_ds = pair.left.qp->qp_num << 8;
  EXPECT_EQ(built(pair.left, 0, [&](auto* qp) { mlx5dv_wr_raw_wqe(qp, &entry); }), EINVAL) << "of no size";
  entry.control.qpn_ds = pair.left.qp->qp_num << 8 | 63;
  EXPECT_EQ(built(pair.left, 0, [&](auto* qp) { mlx5dv_wr_raw_wqe(qp, &entry); }), EINVAL)
      << "longer than others";
}

// ---- copies ----

mlx5dv_context capabilities(ibv_context* context) {
  mlx5dv_context answer{};
  answer.comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH;
  EXPECT_EQ(mlx5dv_query_device(context, &answer), 0);
  return answer;
}

TEST(Copies, MoveBytesWithinTheHost) {
  Pair pair(key_traits());
  Endpoint& self = pair.left;
  const uint64_t base = self.contact().address;
  const auto copy = [&](uint64_t to, uint64_t from, size_t length) {
    return built(self, IBV_SEND_SIGNALED,
                 [&](auto* qp) { mlx5dv_wr_memcpy(qp, self.mr->lkey, to, self.mr->lkey, from, length); });
  };
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{30'000}}) {
    fill(self, 0, size, static_cast<uint8_t>(size));
    EXPECT_EQ(copy(base + 32'000, base, size), 0);
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(static_cast<int>(wc.opcode), MLX5DV_WC_MEMCPY);
    EXPECT_TRUE(holds(self, 32'000, size, static_cast<uint8_t>(size)));
  }
  const size_t most = capabilities(self.context).max_wr_memcpy_length;
  EXPECT_GE(most, size_t{1} << 20);
  EXPECT_EQ(copy(base, base, 0), EINVAL);
  EXPECT_EQ(copy(base, base, most + 1), EINVAL);
  Key odd(self);
  ASSERT_EQ(odd.lay({{{0, 8, 2}, {20'000, 8, 2}}, 200}), IBV_WC_SUCCESS);
  odd.fill(3000, 6);
  EXPECT_EQ(
      built(self, IBV_SEND_SIGNALED,
            [&](auto* qp) { mlx5dv_wr_memcpy(qp, self.mr->lkey, base + 40'000, odd.key->lkey, 0, 3000); }),
      0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 3000; i++) ASSERT_EQ(self.buffer[40'000 + i], self.buffer[odd.laid.at(i)]) << i;
  EXPECT_EQ(copy(base + kBuffer - 8, base, 16), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR) << "beyond the region";
}

TEST(Copies, NeedRightsToBothSides) {
  for (const bool other_domain : {true, false}) {
    Pair pair(key_traits());
    ibv_pd* pd = ibv_alloc_pd(pair.left.context);
    std::vector<uint8_t> target(4096);
    ibv_mr* mr = ibv_reg_mr(other_domain ? pd : pair.left.pd, target.data(), target.size(),
                            other_domain ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(built(pair.left, IBV_SEND_SIGNALED,
                    [&](auto* qp) {
                      mlx5dv_wr_memcpy(qp, mr->lkey, reinterpret_cast<uint64_t>(target.data()),
                                       pair.left.mr->lkey, pair.left.contact().address, 64);
                    }),
              0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  }
}

// ---- taking requests back ----

TEST(Cancelling, TurnsWaitingRequestsIntoNothing) {
  Pair pair(key_traits());
  Endpoint& self = pair.left;
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct_builder(self), 1), -EINVAL)
      << "the queue pair is not in SQD";
  ASSERT_EQ(self.move(IBV_QPS_SQD), 0);
  for (const uint64_t id : {1u, 2u, 1u, 3u}) {
    ASSERT_EQ(pair.right.receive(id * 64, 64, id), 0);
    ibv_send_wr wr = self.request(IBV_WR_SEND, 32);
    wr.wr_id = id;
    ASSERT_EQ(self.post(wr, id * 64), 0);
  }
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct_builder(self), 1), 2);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct_builder(self), 9), 0);
  ASSERT_EQ(self.move(IBV_QPS_RTS), 0);
  for (const uint64_t id : {1u, 2u, 1u, 3u}) {
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
  }
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.right.quiet()) << "two of the four were sent";
}

// ---- keys made by command ----

/// CREATE_MKEY for a list of other keys, in the domain of a player.
struct CommandedKey {
  std::vector<uint8_t> in, out = std::vector<uint8_t>(prm::CreateMkeyOut::kBits / 8);
  mlx5dv_devx_obj* made = nullptr;

  CommandedKey(Endpoint& self, uint32_t entries) : in(prm::CreateMkeyIn::kBits / 8 + entries * 16) {
    using prm::CreateMkeyIn;
    using prm::Mkc;
    box().set(CreateMkeyIn::opcode, prm::CreateMkey::kOpcode);
    box().set(CreateMkeyIn::translations_octword_actual_size, entries);
    mlx5dv_pd pd{};
    mlx5dv_obj obj{};
    obj.pd = {self.pd, &pd};
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
    context().set(Mkc::pd, pd.pdn);
    context().set(Mkc::access_mode_1_0, prm::MkeyAccessMode::kKlms);
    context().set(Mkc::translations_octword_size, entries + 1);
    context().set(Mkc::qpn, 0xffffff);
    context().set(Mkc::mkey_7_0, 0x5a);
    context().set(Mkc::lw, true);
    context().set(Mkc::rw, true);
  }
  ~CommandedKey() {
    if (made != nullptr) {
      EXPECT_EQ(mlx5dv_devx_obj_destroy(made), 0);
    }
  }
  prm::Writer<prm::CreateMkeyIn> box() { return prm::Writer<prm::CreateMkeyIn>(in); }
  prm::Writer<prm::Mkc> context() { return box()[prm::CreateMkeyIn::memory_key_mkey_entry]; }
  void entry(uint32_t index, uint32_t key, uint64_t address, uint32_t bytes) {
    const auto klm = box().overlay<prm::Klm>(prm::CreateMkeyIn::klm_pas_mtt, index);
    klm.set(prm::Klm::mkey, key);
    klm.set(prm::Klm::address, address);
    klm.set(prm::Klm::byte_count, bytes);
  }
  uint32_t make(ibv_context* opened) {
    made = mlx5dv_devx_obj_create(opened, in.data(), in.size(), out.data(), out.size());
    EXPECT_NE(made, nullptr);
    return prm::View<prm::CreateMkeyOut>(out)[prm::CreateMkeyOut::mkey_index] << 8 | 0x5a;
  }
};

TEST(CommandedKeys, HaveEntriesOfOneSize) {
  Pair pair(key_traits());
  Endpoint& self = pair.right;
  using namespace prm;
  CommandedKey list(self, 3);
  list.context().set(Mkc::access_mode_1_0, MkeyAccessMode::kKsm);
  list.context().set(Mkc::log_page_size, 12);
  list.context().set(Mkc::start_addr, 0x100000);
  list.context().set(Mkc::len, 3 * 4096);
  const size_t offsets[] = {8192, 100, 40'000};
  for (uint32_t i = 0; i < 3; i++) list.entry(i, self.mr->lkey, self.contact().address + offsets[i], 0);
  const uint32_t key = list.make(self.context);
  fill(pair.left, 0, 3 * 4096, 7);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 3 * 4096);
  wr.wr.rdma.remote_addr = 0x100000;
  wr.wr.rdma.rkey = key;
  ASSERT_EQ(pair.left.post(wr), 0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 3; i++)
    EXPECT_EQ(std::memcmp(&self.buffer[offsets[i]], &pair.left.buffer[i * 4096], 4096), 0) << i;

  std::vector<uint8_t> ask(QueryMkeyIn::kBits / 8), answer(QueryMkeyOut::kBits / 8);
  Writer<QueryMkeyIn>(ask).set(QueryMkeyIn::opcode, QueryMkey::kOpcode);
  Writer<QueryMkeyIn>(ask).set(QueryMkeyIn::mkey_index, key >> 8);
  ASSERT_EQ(mlx5dv_devx_obj_query(list.made, ask.data(), ask.size(), answer.data(), answer.size()), 0);
  const View<QueryMkeyOut> shown(answer);
  const auto kept = shown[QueryMkeyOut::memory_key_mkey_entry];
  EXPECT_EQ(kept.as<MkeyAccessMode>(Mkc::access_mode_1_0), MkeyAccessMode::kKsm);
  EXPECT_EQ(kept[Mkc::len], 3u * 4096);
  EXPECT_EQ(kept[Mkc::translations_octword_size], 4u);
  EXPECT_EQ(shown.overlay<Klm>(QueryMkeyOut::bsf0_klm0_pas_mtt0_1)[Klm::mkey], self.mr->lkey);
}

TEST(CommandedKeys, MayBelongToOneQueuePair) {
  Pair pair(key_traits()), other(key_traits());
  Endpoint& self = pair.right;
  CommandedKey bound(self, 1);
  bound.context().set(prm::Mkc::qpn, self.qp->qp_num);
  bound.context().set(prm::Mkc::len, 64);
  bound.entry(0, self.mr->lkey, self.contact().address, 64);
  const uint32_t key = bound.make(self.context);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 64);
  wr.wr.rdma.remote_addr = 0;
  wr.wr.rdma.rkey = key;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  ibv_sge sge{0, 64, key};
  ibv_send_wr own = self.request(IBV_WR_RDMA_WRITE, 64), *bad = nullptr;
  own.sg_list = &sge;
  EXPECT_EQ(ibv_post_send(self.qp, &own, &bad), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS) << "of its own requests, too";
  CommandedKey foreign(self, 1);
  foreign.context().set(prm::Mkc::qpn, other.right.qp->qp_num);
  foreign.context().set(prm::Mkc::len, 64);
  foreign.entry(0, self.mr->lkey, self.contact().address, 64);
  wr.wr.rdma.rkey = foreign.make(self.context);
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_REM_ACCESS_ERR);
}

TEST(NullKey, IsThereForEveryDomain) {
  using namespace prm;
  Pair pair(key_traits());
  uint8_t in[QuerySpecialContextsIn::kBits / 8] = {}, out[QuerySpecialContextsOut::kBits / 8] = {};
  Writer<QuerySpecialContextsIn>(in).set(QuerySpecialContextsIn::opcode, QuerySpecialContexts::kOpcode);
  ASSERT_EQ(mlx5dv_devx_general_cmd(pair.left.context, in, sizeof in, out, sizeof out), 0);
  const uint32_t key = View<QuerySpecialContextsOut>(out)[QuerySpecialContextsOut::null_mkey];
  ASSERT_NE(key, 0u);
  fill(pair.right, 0, 128, 3);
  ibv_sge nothing{0x123456, 64, key}, kept = pair.right.piece(0, 64), dropped{0, 64, key};
  ibv_sge into[2] = {dropped, kept}, from[2] = {pair.left.piece(0, 64), nothing};
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = into;
  receive.num_sge = 2;
  ASSERT_EQ(ibv_post_recv(pair.right.qp, &receive, &bad_receive), 0);
  ibv_send_wr send = pair.left.request(IBV_WR_SEND, 0), *bad = nullptr;
  send.sg_list = from;
  send.num_sge = 2;
  ASSERT_EQ(ibv_post_send(pair.left.qp, &send, &bad), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(pair.right.buffer.begin(), pair.right.buffer.begin() + 64, 0), 64);
}

}  // namespace
}  // namespace verbatim::conformance
