// SPDX-License-Identifier: MIT
// Advice about memory regions that are paged on demand.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kPages = 4;

/// Pages that nobody has touched, registered.
class Untouched {
 public:
  explicit Untouched(ibv_pd* pd, int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND,
                     int protection = PROT_READ | PROT_WRITE) {
    base_ = static_cast<char*>(mmap(nullptr, bytes(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    mr = ibv_reg_mr(pd, base_, bytes(), access);
    EXPECT_NE(mr, nullptr);
  }
  ~Untouched() {
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    munmap(base_, bytes());
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  static size_t bytes() { return kPages * page(); }
  ibv_sge piece(size_t offset, size_t length) const {
    return {reinterpret_cast<uintptr_t>(base_) + offset, static_cast<uint32_t>(length), mr->lkey};
  }
  size_t resident() const {
    unsigned char in_core[kPages];
    EXPECT_EQ(mincore(base_, bytes(), in_core), 0);
    size_t count = 0;
    for (const unsigned char each : in_core) count += each & 1;
    return count;
  }
  ibv_mr* mr;

 private:
  char* base_;
};

int advise(ibv_pd* pd, ibv_advise_mr_advice advice, ibv_sge piece,
           uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
  return ibv_advise_mr(pd, advice, flags, &piece, 1);
}

TEST(Advice, FetchesPagesOfTheRange) {
  const Endpoint end;
  const Untouched memory(end.pd);
  EXPECT_EQ(memory.resident(), 0u);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, memory.piece(0, Untouched::bytes())), 0);
  EXPECT_EQ(memory.resident(), 0u);
  // The end of one page and the start of the next.
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, memory.piece(Untouched::page() - 1, 2)), 0);
  EXPECT_EQ(memory.resident(), 2u);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, memory.piece(0, Untouched::bytes()), 0), 0);
  EXPECT_EQ(memory.resident(), kPages);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, memory.piece(0, Untouched::bytes())), 0);
}

TEST(Advice, IsOfTheRegionsOwnAddresses) {
  const Endpoint end;
  const Untouched memory(end.pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, {0, 1, memory.mr->lkey}), 0);
  EXPECT_EQ(memory.resident(), 1u);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, memory.piece(0, 1)), EFAULT);
}

TEST(Advice, IsRefusedForItsCause) {
  const Endpoint end;
  const Untouched memory(end.pd), read_only(end.pd, IBV_ACCESS_ON_DEMAND, PROT_READ);
  constexpr ibv_advise_mr_advice kRead = IBV_ADVISE_MR_ADVICE_PREFETCH,
                                 kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  ibv_sge piece = memory.piece(0, 1);
  EXPECT_EQ(advise(end.pd, static_cast<ibv_advise_mr_advice>(99), piece), EOPNOTSUPP);
  EXPECT_EQ(advise(end.pd, kRead, piece, 2), EINVAL);
  EXPECT_EQ(ibv_advise_mr(end.pd, kRead, 0, &piece, 0), EINVAL);
  EXPECT_EQ(advise(end.pd, kRead, memory.piece(1, Untouched::bytes())), EFAULT);
  EXPECT_EQ(advise(end.pd, kRead, memory.piece(Untouched::bytes() + 1, 0)), EFAULT);
  EXPECT_EQ(advise(end.pd, kWrite, read_only.piece(0, 1)), EPERM);
  ibv_pd* other = ibv_alloc_pd(end.context);
  EXPECT_EQ(advise(other, kRead, piece), EPERM);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  piece.lkey = end.mr->lkey;  // not paged on demand
  EXPECT_EQ(advise(end.pd, kRead, piece), ENOENT);
}

TEST(Advice, FollowsTheRegion) {
  const Endpoint end;
  const Untouched memory(end.pd);
  const uint32_t former = memory.mr->lkey;
  ASSERT_EQ(ibv_rereg_mr(memory.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND),
            0);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, memory.piece(0, 1)), EPERM);
  EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, memory.piece(0, 1)), 0);
  if (former != memory.mr->lkey) {
    ibv_sge piece = memory.piece(0, 1);
    piece.lkey = former;
    EXPECT_EQ(advise(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, piece), ENOENT);
  }
}

}  // namespace
}  // namespace verbatim::conformance
