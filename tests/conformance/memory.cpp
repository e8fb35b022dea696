// SPDX-License-Identifier: MIT
// Memory regions: registering, changing and releasing them, also while peers use them.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

using std::chrono::milliseconds;

class Release : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Release);

/// Memory of its own pages.
class Pages {
 public:
  explicit Pages(size_t bytes = 1 << 20, int protection = PROT_READ | PROT_WRITE) : bytes_(bytes) {
    base_ = static_cast<uint8_t*>(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(base_), MAP_FAILED);
  }
  ~Pages() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(base_); }
  void unmap() {
    munmap(base_, bytes_);
    base_ = nullptr;
  }

 private:
  uint8_t* base_;
  size_t bytes_;
};

ibv_wc_status write_to(Endpoint& self, uint64_t address, uint32_t rkey, size_t bytes = 8) {
  ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, bytes);
  wr.wr.rdma = {address, rkey};
  EXPECT_EQ(self.post(wr), 0);
  return self.wait_status();
}

/// Says where a region lies by way of the own buffer, which the peer reads.
void announce(Endpoint& self, const ibv_mr& mr) {
  word(self, 0) = reinterpret_cast<uint64_t>(mr.addr);
  word(self, 8) = mr.rkey;
  self.barrier();
}
void hear(Endpoint& self, uint64_t& address, uint32_t& rkey) {
  self.barrier();
  EXPECT_EQ(self.post(self.request(IBV_WR_RDMA_READ, 16)), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  address = word(self, 0);
  rkey = static_cast<uint32_t>(word(self, 8));
}

/// Writes other bytes each time until a write is refused; several are always under way.
void write_until_refused(Endpoint& self, size_t bytes) {
  uint64_t address = 0;
  uint32_t rkey = 0;
  hear(self, address, rkey);
  ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, bytes);
  wr.wr.rdma = {address, rkey};
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (uint8_t round = 1; status == IBV_WC_SUCCESS; ++round) {
    std::fill(self.buffer.begin(), self.buffer.begin() + static_cast<long>(bytes), round);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(self.post(wr), 0);
    for (int i = 0; i < 4; ++i) {
      const ibv_wc_status each = self.wait_status();
      if (status == IBV_WC_SUCCESS) status = each;
    }
  }
  EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
}

/// Once ibv_dereg_mr() has returned no byte may change any more.
void deregister_under_fire(Endpoint& self, milliseconds after) {
  Pages target;
  ibv_mr* mr = ibv_reg_mr(self.pd, target.base(), target.bytes(), kAllRights);
  ASSERT_NE(mr, nullptr);
  announce(self, *mr);
  while (*static_cast<volatile uint8_t*>(target.base()) == 0) std::this_thread::yield();
  std::this_thread::sleep_for(after);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  const std::vector<uint8_t> then(target.base(), target.base() + target.bytes());
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(std::memcmp(then.data(), target.base(), target.bytes()), 0);
  target.unmap();  // a write that still came would fault or land in what is mapped next
}

TEST_P(Release, StopsLargeWrites) {
  for (const int delay : {0, 1, 3, 7, 12})
    play(
        {}, [](Endpoint& self) { write_until_refused(self, kBuffer); },
        [delay](Endpoint& self) { deregister_under_fire(self, milliseconds(delay)); });
}
TEST_P(Release, StopsSmallWrites) {
  for (const int delay : {0, 1, 3, 7, 12})
    play(
        {}, [](Endpoint& self) { write_until_refused(self, 64); },
        [delay](Endpoint& self) { deregister_under_fire(self, milliseconds(delay)); });
}

TEST_P(Release, StopsReads) {
  play(
      {},
      [](Endpoint& self) {
        uint64_t address = 0;
        uint32_t rkey = 0;
        hear(self, address, rkey);
        ibv_send_wr wr = self.request(IBV_WR_RDMA_READ, 4096);
        wr.wr.rdma = {address, rkey};
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
        self.barrier();
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint& self) {
        Pages source;
        ibv_mr* mr = ibv_reg_mr(self.pd, source.base(), source.bytes(), kAllRights);
        announce(self, *mr);
        self.barrier();
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        self.barrier();
      });
}

TEST_P(Release, FailsReceivesThatUseIt) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_OP_ERR);
      },
      [](Endpoint& self) {
        Pages target;
        ibv_mr* mr = ibv_reg_mr(self.pd, target.base(), target.bytes(), kAllRights);
        ibv_sge sge{target.address(), 64, mr->lkey};
        ibv_recv_wr wr{1, nullptr, &sge, 1}, *bad = nullptr;
        EXPECT_EQ(ibv_post_recv(self.qp, &wr, &bad), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(target.base()[0], 0);
      });
}

TEST(Registration, RefusesWhatIsNotThere) {
  Endpoint self;
  Pages readable(8192, PROT_READ);
  EXPECT_EQ(ibv_reg_mr(self.pd, readable.base(), 8192, kAllRights), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* mr = ibv_reg_mr(self.pd, readable.base(), 8192, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  uint8_t* gone = readable.base();
  readable.unmap();
  EXPECT_EQ(ibv_reg_mr(self.pd, gone, 8192, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  for (const int access : {int{IBV_ACCESS_REMOTE_WRITE}, int{IBV_ACCESS_REMOTE_ATOMIC}, 1 << 15}) {
    EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), 64, access), nullptr);
    EXPECT_EQ(errno, EINVAL) << access;
  }
  EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), SIZE_MAX, 0), nullptr);
}

TEST(Registration, OfAGibibyteTakesNoTime) {
  Endpoint self;
  constexpr size_t kGibibyte = size_t{1} << 30;
  void* memory =
      mmap(nullptr, kGibibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = std::chrono::steady_clock::now();
  ibv_mr* mr = ibv_reg_mr(self.pd, memory, kGibibyte, kAllRights);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kGibibyte);
}

/// A region under another address for peers, made by `make`: its bytes are found there and nowhere else.
template <class Make>
void check_other_address(Make make) {
  Pair pair;
  Pages target(8192);
  const uint64_t iova = 0x7000'0000'0000 | (target.address() & 4095);
  ibv_mr* mr = make(pair.right.pd, target.base(), target.bytes(), iova);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, target.base());
  EXPECT_EQ(mr->length, target.bytes());
  pair.left.buffer[0] = 42;
  EXPECT_EQ(write_to(pair.left, iova + 100, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(target.base()[100], 42);
  ibv_sge sge{iova + 100, 8, mr->lkey};  // local work requests name it the same way
  ibv_send_wr wr = pair.right.request(IBV_WR_RDMA_WRITE, 8, 512);
  wr.sg_list = &sge;
  EXPECT_EQ(pair.right.post(wr), 0);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.left.buffer[512], 42);
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Registration, UnderAnotherAddress) {
  check_other_address([](ibv_pd* pd, void* base, size_t bytes, uint64_t iova) {
    return ibv_reg_mr_iova(pd, base, bytes, iova, kAllRights);
  });
  check_other_address([](ibv_pd* pd, void* base, size_t bytes, uint64_t iova) {
    return ibv_reg_mr_iova2(pd, base, bytes, iova, static_cast<unsigned>(kAllRights));
  });
  check_other_address([](ibv_pd* pd, void* base, size_t bytes, uint64_t iova) {
    ibv_mr_init_attr attributes{};
    attributes.length = bytes;
    attributes.access = kAllRights;
    attributes.comp_mask = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR;
    attributes.iova = iova;
    attributes.addr = base;
    return ibv_reg_mr_ex(pd, &attributes);
  });
}

TEST(Registration, UnderAnotherAddressKeepsThePlaceInThePage) {
  Endpoint self;
  EXPECT_EQ(ibv_reg_mr_iova(self.pd, self.buffer.data(), 64,
                            reinterpret_cast<uint64_t>(self.buffer.data()) + 8, kAllRights),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr_init_attr nothing{};
  EXPECT_EQ(ibv_reg_mr_ex(self.pd, &nothing), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Reregistration, TakesNewMemory) {
  Pair pair;
  Pages before, after;
  ibv_mr* mr = ibv_reg_mr(pair.right.pd, before.base(), before.bytes(), kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, after.base(), 4096, 0), 0);
  EXPECT_EQ(mr->addr, after.base());
  EXPECT_EQ(mr->length, 4096u);
  pair.left.buffer[0] = 7;
  EXPECT_EQ(write_to(pair.left, after.address(), mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(after.base()[0], 7);
  EXPECT_EQ(write_to(pair.left, before.address(), mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(before.base()[0], 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Reregistration, TakesAwayAndGivesRights) {
  Pair pair;
  Pages target;
  ibv_mr* mr = ibv_reg_mr(pair.right.pd, target.base(), target.bytes(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllRights), 0);
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Reregistration, MovesToAnotherDomain) {
  Pair pair;
  Pages target;
  ibv_pd* other = ibv_alloc_pd(pair.right.context);
  ASSERT_NE(other, nullptr);
  ibv_mr* mr = ibv_reg_mr(other, target.base(), target.bytes(), kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair.right.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, pair.right.pd);
  EXPECT_EQ(ibv_dealloc_pd(other), 0) << "nothing is left in it";
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_SUCCESS);
  other = ibv_alloc_pd(pair.right.context);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST(Reregistration, ChangesAllAtOnce) {
  Pair pair;
  Pages before, after;
  ibv_pd* other = ibv_alloc_pd(pair.right.context);
  ibv_mr* mr = ibv_reg_mr(other, before.base(), before.bytes(), 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_FLAGS_SUPPORTED, pair.right.pd, after.base(), 4096, kAllRights), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(write_to(pair.left, after.address(), mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Reregistration, RefusesBadInputAndKeepsTheRegion) {
  Pair pair;
  Pages target;
  ibv_mr* mr = ibv_reg_mr(pair.right.pd, target.base(), target.bytes(), kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, 1 << 5, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 64, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, target.base(), 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, target.base(), 64, kAllRights),
            IBV_REREG_MR_ERR_INPUT)
      << "access without its flag";
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(write_to(pair.left, target.address(), mr->rkey), IBV_WC_SUCCESS);
  Pages hole(4096, PROT_NONE);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, hole.base(), 4096, 0),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0) << "still has to be released";
}

TEST(NullRegion, ReadsAsZeroesAndSwallowsWrites) {
  Pair pair;
  ibv_mr* null = ibv_alloc_null_mr(pair.left.pd);
  ASSERT_NE(null, nullptr);
  fill(pair.right, 0, 64, 1);
  ibv_sge list[] = {pair.left.piece(0, 8), {0x1234, 16, null->lkey}, pair.left.piece(8, 8)};
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_READ, 0);  // of 32 bytes the middle ones are thrown away
  wr.sg_list = list;
  wr.num_sge = 3;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&pair.left.buffer[0], &pair.right.buffer[0], 8), 0);
  EXPECT_EQ(std::memcmp(&pair.left.buffer[8], &pair.right.buffer[24], 8), 0);
  wr.opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(pair.right.buffer.begin() + 8, pair.right.buffer.begin() + 24, 0), 16);
  EXPECT_EQ(std::memcmp(&pair.left.buffer[8], &pair.right.buffer[24], 8), 0);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST(NullRegion, TakesWhatIsReceived) {
  Pair pair;
  ibv_mr* null = ibv_alloc_null_mr(pair.right.pd);
  ASSERT_NE(null, nullptr);
  ibv_sge list[] = {{0, 100, null->lkey}, pair.right.piece(0, 64)};
  ibv_recv_wr receive{1, nullptr, list, 2}, *bad = nullptr;
  EXPECT_EQ(ibv_post_recv(pair.right.qp, &receive, &bad), 0);
  fill(pair.left, 0, 164, 9);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 164)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait().byte_len, 164u);
  EXPECT_EQ(std::memcmp(&pair.right.buffer[0], &pair.left.buffer[100], 64), 0);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST(Keys, OfAnotherDomainAreRefused) {
  Pair pair;
  ibv_pd* other = ibv_alloc_pd(pair.left.context);
  ibv_mr* mr = ibv_reg_mr(other, pair.left.buffer.data(), 64, kAllRights);
  ASSERT_NE(mr, nullptr);
  ibv_sge sge{reinterpret_cast<uint64_t>(pair.left.buffer.data()), 8, mr->lkey};
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 8);
  wr.sg_list = &sge;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

}  // namespace
}  // namespace verbatim::conformance
