// SPDX-License-Identifier: MIT
// What objects cost in time and memory when there are many of them.
// usage: object_costs                   a table of all kinds
//        object_costs KIND COUNT        one row: of so many contexts, pds, cqs, srqs, qps, mrs, mws or ahs
//        object_costs KIND COUNT make|destroy|bytes   one number: microseconds, microseconds, bytes an object
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "bench/need.h"

namespace {

using verbatim::bench::need;
using Clock = std::chrono::steady_clock;
constexpr uint32_t kDepth = 16;
constexpr size_t kRegions = 1 << 20, kRegionBytes = 4096;

/// What this process has in memory, what it shares included.
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Bed {
  ibv_device** list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = need(ibv_open_device(need(list[0], "no device")), "ibv_open_device");
  ibv_pd* pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
  ibv_cq* cq = need(ibv_create_cq(context, 4096, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_ah_attr path{};
  /// Registered piece by piece, and never touched but in its first page.
  void* memory =
      mmap(nullptr, kRegions* kRegionBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  Bed() {
    need(memory != MAP_FAILED, "mmap");
    path.is_global = 1;
    path.port_num = 1;
    need(ibv_query_gid(context, 1, 0, &path.grh.dgid) == 0, "ibv_query_gid");
  }
  ibv_qp* make_qp() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {kDepth, kDepth, 1, 1, 64};
    init.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd, &init);
  }
  ibv_srq* make_srq() const {
    ibv_srq_init_attr init{};
    init.attr = {kDepth, 1, 0};
    return ibv_create_srq(pd, &init);
  }
};

struct Kind {
  const char* name;
  size_t count;  ///< of the table
  std::function<void*(const Bed&, size_t)> make;
  std::function<int(void*)> destroy;
};

template <class T>
std::function<int(void*)> with(int (*call)(T*)) {
  return [call](void* object) { return call(static_cast<T*>(object)); };
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"contexts", 100, [](const Bed& bed, size_t) { return ibv_open_device(bed.list[0]); },
       with(ibv_close_device)},
      {"pds", 10'000, [](const Bed& bed, size_t) { return ibv_alloc_pd(bed.context); }, with(ibv_dealloc_pd)},
      {"cqs", 10'000,
       [](const Bed& bed, size_t) { return ibv_create_cq(bed.context, kDepth, nullptr, nullptr, 0); },
       with(ibv_destroy_cq)},
      {"srqs", 10'000, [](const Bed& bed, size_t) { return bed.make_srq(); }, with(ibv_destroy_srq)},
      {"qps", 10'000, [](const Bed& bed, size_t) { return bed.make_qp(); }, with(ibv_destroy_qp)},
      {"mrs", 1'000'000,
       [](const Bed& bed, size_t i) {
         return ibv_reg_mr(bed.pd, static_cast<char*>(bed.memory) + i % kRegions * kRegionBytes, kRegionBytes,
                           0);
       },
       with(ibv_dereg_mr)},
      {"mws", 100'000, [](const Bed& bed, size_t) { return ibv_alloc_mw(bed.pd, IBV_MW_TYPE_2); },
       with(ibv_dealloc_mw)},
      {"ahs", 1'000'000,
       [](const Bed& bed, size_t) {
         ibv_ah_attr path = bed.path;
         return ibv_create_ah(bed.pd, &path);
       },
       with(ibv_destroy_ah)},
  };
  return all;
}

struct Costs {
  double make_us, destroy_us, bytes;
};

Costs measure(const Kind& kind, size_t count) {
  const Bed bed;
  std::vector<void*> objects(count);
  const size_t before = resident_bytes();
  const auto begin = Clock::now();
  for (size_t i = 0; i < count; i++) objects[i] = need(kind.make(bed, i), kind.name);
  const auto made = Clock::now();
  const size_t after = resident_bytes();
  const auto middle = Clock::now();
  for (void* object : objects) need(kind.destroy(object) == 0, kind.name);
  const auto end = Clock::now();
  const auto each_us = [count](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count() / static_cast<double>(count);
  };
  return {each_us(made - begin), each_us(end - middle),
          static_cast<double>(after - before) / static_cast<double>(count)};
}

void print(const Kind& kind, size_t count) {
  const Costs costs = measure(kind, count);
  std::printf("%-9s %9zu %12.2f %12.2f %12.0f\n", kind.name, count, costs.make_us, costs.destroy_us,
              costs.bytes);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) std::printf("%-9s %9s %12s %12s %12s\n", "kind", "count", "make, us", "destroy, us", "bytes");
  for (const Kind& kind : kinds()) {
    if (argc < 3) {
      print(kind, kind.count);
    } else if (std::strcmp(kind.name, argv[1]) == 0) {
      const size_t count = std::strtoul(argv[2], nullptr, 10);
      if (argc < 4) return print(kind, count), 0;
      const Costs costs = measure(kind, count);
      std::printf("%f\n", *argv[3] == 'm' ? costs.make_us : *argv[3] == 'd' ? costs.destroy_us : costs.bytes);
      return 0;
    }
  }
  return argc < 3 ? 0 : 2;
}
