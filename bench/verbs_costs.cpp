// SPDX-License-Identifier: MIT
// What single calls cost in one process.
// usage: verbs_costs inline_write|reference_copy|register|connect|memory    prints one number:
//   nanoseconds, nanoseconds, microseconds, pairs per second, bytes per idle queue pair beyond its queues
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bench/need.h"

namespace {

using verbatim::bench::need;
using verbatim::bench::succeed;
using Clock = std::chrono::steady_clock;
constexpr unsigned kDepth = 16;
// A send entry with 64 bytes inline, and a receive entry of one piece.
constexpr double kQueueBytes = kDepth * (128 + 16);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Device {
  ibv_device** list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = need(ibv_open_device(need(list[0], "no device")), "ibv_open_device");
  ibv_pd* pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
  ibv_cq* cq = need(ibv_create_cq(context, 4096, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_port_attr port{};
  ibv_gid gid{};

  Device() {
    succeed(ibv_query_port(context, 1, &port), "ibv_query_port");
    succeed(ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
  }

  ibv_qp* create() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {kDepth, kDepth, 1, 1, 64};
    init.qp_type = IBV_QPT_RC;
    return need(ibv_create_qp(pd, &init), "ibv_create_qp");
  }

  void connect(ibv_qp* qp, uint32_t peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    succeed(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    succeed(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    succeed(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            "RTS");
  }
};

double inline_write() {
  constexpr int kRounds = 1'000'000;
  Device device;
  alignas(64) static uint64_t memory[16];
  ibv_mr* mr =
      need(ibv_reg_mr(device.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
           "ibv_reg_mr");
  ibv_qp *one = device.create(), *two = device.create();
  device.connect(one, two->qp_num);
  device.connect(two, one->qp_num);
  uint64_t value = 0;
  ibv_sge piece{reinterpret_cast<uintptr_t>(&value), sizeof value, 0};
  ibv_send_wr work{}, *bad;
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  work.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(&memory[8]);
  work.wr.rdma.rkey = mr->rkey;
  Clock::time_point begin{};
  for (int i = -kRounds / 10; i < kRounds; i++) {
    if (i == 0) begin = Clock::now();
    value++;
    succeed(ibv_post_send(one, &work, &bad), "ibv_post_send");
    ibv_wc done;
    int found;
    while ((found = ibv_poll_cq(device.cq, 1, &done)) == 0) {
    }
    need(found == 1 && done.status == IBV_WC_SUCCESS, "completion");
  }
  const double taken = seconds_since(begin) / kRounds * 1e9;
  need(memory[8] == value, "the last value did not arrive");
  return taken;
}

// A copy of 8 bytes and two writes to other cache lines: the least that a queue entry and a completion are.
double reference_copy() {
  constexpr int kRounds = 20'000'000;
  alignas(64) static volatile uint64_t lines[32];
  const auto begin = Clock::now();
  for (int i = 0; i < kRounds; i++) {
    lines[0] = lines[8];
    lines[16] = uint64_t(i);
    lines[24] = uint64_t(i);
  }
  return seconds_since(begin) / kRounds * 1e9;
}

double registration(ibv_pd* pd, void* at, size_t bytes) {
  const auto begin = Clock::now();
  ibv_mr* mr =
      need(ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
  const double taken = seconds_since(begin) * 1e6;
  succeed(ibv_dereg_mr(mr), "ibv_dereg_mr");
  return taken;
}

// The first registration of a process finds nothing in any cache after a write to 1 GiB; `first` tells that
// one, else the median of those that follow.
double register_memory(bool first) {
  constexpr int kMore = 9;
  constexpr size_t kBytes = 1UL << 30;
  Device device;
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(at != MAP_FAILED, "mmap");
  std::memset(at, 1, kBytes);
  const double cold = registration(device.pd, at, kBytes);
  if (first) return cold;
  std::vector<double> warm(kMore);
  for (double& each : warm) each = registration(device.pd, at, kBytes);
  std::sort(warm.begin(), warm.end());
  return warm[kMore / 2];
}

double connect_pairs() {
  constexpr int kPairs = 2000;
  Device device;
  std::vector<ibv_qp*> all;
  const auto begin = Clock::now();
  for (int i = 0; i < kPairs; i++) {
    ibv_qp *one = device.create(), *two = device.create();
    device.connect(one, two->qp_num);
    device.connect(two, one->qp_num);
    all.insert(all.end(), {one, two});
  }
  const double rate = kPairs / seconds_since(begin);
  for (ibv_qp* qp : all) succeed(ibv_destroy_qp(qp), "ibv_destroy_qp");
  return rate;
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total, resident;
  file >> total >> resident;
  return resident * double(sysconf(_SC_PAGESIZE));
}

double memory_per_pair() {
  constexpr int kPairs = 1000;
  Device device;
  device.connect(device.create(), device.create()->qp_num);
  const double before = resident_bytes();
  for (int i = 0; i < kPairs; i++) {
    ibv_qp *one = device.create(), *two = device.create();
    device.connect(one, two->qp_num);
    device.connect(two, one->qp_num);
  }
  return (resident_bytes() - before) / (2 * kPairs) - kQueueBytes;
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count == 2 ? words[1] : "";
  double result;
  if (what == "inline_write") {
    result = inline_write();
  } else if (what == "reference_copy") {
    result = reference_copy();
  } else if (what == "register") {
    result = register_memory(false);
  } else if (what == "register_first") {
    result = register_memory(true);
  } else if (what == "connect") {
    result = connect_pairs();
  } else if (what == "memory") {
    result = memory_per_pair();
  } else {
    std::fprintf(stderr,
                 "usage: verbs_costs inline_write|reference_copy|register|register_first|connect|memory\n");
    return 2;
  }
  std::printf("%.3f\n", result);
  return 0;
}
