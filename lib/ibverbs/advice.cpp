// SPDX-License-Identifier: MIT
// Advice about memory regions that are paged on demand. Devices here use a process's own page tables, so what
// there is to fetch ahead are its pages.
#include "lib/ibverbs/advice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "lib/ibverbs/contexts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::verbs {
namespace {

/// A region as far as advice is about it.
struct Paged {
  const MemoryRegion* region;
  const hw::Pd* domain;
  uint32_t lkey, access;
  uint64_t memory, start, length;  ///< the memory's address, and what the region calls it
};

class PagedRegions {
 public:
  static PagedRegions& of_process() {
    // Never destroyed: threads may still use it while the process ends.
    static PagedRegions& regions = *new PagedRegions;
    return regions;
  }
  void add(const Paged& region) {
    const std::scoped_lock guard(lock_);
    regions_.push_back(region);
  }
  void remove(const MemoryRegion& region) {
    const std::scoped_lock guard(lock_);
    std::erase_if(regions_, [&](const Paged& each) { return each.region == &region; });
  }
  bool find(const ibv_context* context, uint32_t lkey, Paged& to) const {
    const std::scoped_lock guard(lock_);
    const auto found = std::find_if(regions_.begin(), regions_.end(), [&](const Paged& each) {
      return each.lkey == lkey && each.region->base.context == context;
    });
    if (found != regions_.end()) to = *found;
    return found != regions_.end();
  }

 private:
  mutable std::mutex lock_;
  std::vector<Paged> regions_;
};

/// 0 and the region, or an errno value and why there is nothing to fetch.
int check(const ibv_pd* pd, ibv_advise_mr_advice advice, const ibv_sge& piece, Paged& region,
          const char*& why) {
  why = "ibv_advise_mr: no region with that lkey is paged on demand";
  if (!PagedRegions::of_process().find(pd->context, piece.lkey, region)) return ENOENT;
  why = "ibv_advise_mr: the region belongs to another protection domain";
  if (region.domain != reinterpret_cast<const ProtectionDomain*>(pd)->device) return EPERM;
  why = "ibv_advise_mr: fetching for writes needs IBV_ACCESS_LOCAL_WRITE";
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return EPERM;
  why = "ibv_advise_mr: the range is not within the region";
  const uint64_t offset = piece.addr - region.start;
  return offset <= region.length && piece.length <= region.length - offset ? 0 : EFAULT;
}

int fetch(uint64_t address, uint64_t bytes, bool for_writes) {
  static const uint64_t in_page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) - 1;
  const uint64_t first = address & ~in_page, end = (address + bytes + in_page) & ~in_page;
  if (bytes == 0) return 0;
  const int how = for_writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (::madvise(reinterpret_cast<void*>(first), end - first, how) == 0) return 0;
  // A kernel that does not know of this fetches pages when they are used.
  const bool unknown = errno == EINVAL && ::madvise(reinterpret_cast<void*>(first), 0, how) != 0;
  return unknown ? 0 : EFAULT;
}

}  // namespace

void expect_advice(MemoryRegion& region) {
  if ((region.access & IBV_ACCESS_ON_DEMAND) == 0) return;
  const bool zero_based = (region.access & IBV_ACCESS_ZERO_BASED) != 0;
  PagedRegions::of_process().add({&region, ProtectionDomain::of(region.base.pd)->device, region.base.lkey,
                                  region.access, reinterpret_cast<uint64_t>(region.base.addr),
                                  zero_based ? 0 : region.iova, region.base.length});
}

void expect_no_advice(MemoryRegion& region) {
  if ((region.access & IBV_ACCESS_ON_DEMAND) != 0) PagedRegions::of_process().remove(region);
}

int advise_memory(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* pieces, uint32_t count) {
  Context* context = usable(pd->context);
  if (context == nullptr) return errno;
  if (advice < IBV_ADVISE_MR_ADVICE_PREFETCH || advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return refuse(*context, EOPNOTSUPP, "ibv_advise_mr: no such advice");
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0)
    return refuse(*context, EINVAL, "ibv_advise_mr: unknown flags, or no ranges");
  std::vector<Paged> regions(count);
  const char* why = nullptr;
  for (uint32_t each = 0; each < count; ++each)
    if (const int error = check(pd, advice, pieces[each], regions[each], why); error != 0)
      return refuse(*context, error, why);
  // What is there need not be fetched, and nothing else may be.
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (uint32_t each = 0; each < count; ++each) {
    const uint64_t address = regions[each].memory + (pieces[each].addr - regions[each].start);
    const bool for_writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    if (const int error = fetch(address, pieces[each].length, for_writes); error != 0)
      return refuse(*context, error,
                    "ibv_advise_mr: a page cannot be had with the rights that the advice wants");
  }
  return 0;
}

}  // namespace verbatim::verbs
