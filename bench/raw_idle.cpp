// SPDX-License-Identifier: MIT
// What an idle process with raw queues costs.
// usage: raw_idle SECONDS    prints the milliseconds of processor time that it took
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/need.h"

namespace {

using verbatim::bench::need;

constexpr int kQueuePairs = 16;

/// A queue pair and its completion queue, as a program holds them that writes entries and doorbells itself.
void expose_queues(ibv_context* context, ibv_pd* pd) {
  ibv_cq* cq = need(ibv_create_cq(context, 64, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 16, 1, 1, 64};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = need(ibv_create_qp(pd, &init), "ibv_create_qp");
  mlx5dv_qp raw_qp{};
  mlx5dv_cq raw_cq{};
  mlx5dv_obj objects{};
  objects.qp = {qp, &raw_qp};
  objects.cq = {cq, &raw_cq};
  need(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ) == 0, "mlx5dv_init_obj");
}

double processor_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned seconds = argc == 2 ? static_cast<unsigned>(std::atoi(argv[1])) : 0;
  if (seconds == 0) {
    std::fprintf(stderr, "usage: raw_idle SECONDS\n");
    return 2;
  }
  ibv_device** list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = need(ibv_open_device(need(list[0], "no device")), "ibv_open_device");
  ibv_pd* pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
  for (int i = 0; i < kQueuePairs; i++) expose_queues(context, pd);
  usleep(100'000);  // until what creation left to do is done
  const double before = processor_ms();
  sleep(seconds);
  std::printf("%.3f\n", processor_ms() - before);
  return 0;
}
