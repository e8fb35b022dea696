// SPDX-License-Identifier: MIT
// How many command mailboxes a device carries out in a second.
// usage: devx_costs query|objects    prints one number, commands per second: QUERY_HCA_CAP, or making and
//   destroying memory keys
#include <infiniband/mlx5dv.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "abi/prm/capabilities.h"
#include "abi/prm/memory.h"
#include "bench/need.h"
#include "device/connectx/prm/view.h"

namespace {

using namespace verbatim;
using bench::need;
using Clock = std::chrono::steady_clock;

template <class Work>
double per_second(int rounds, double commands, Work work) {
  for (int i = 0; i < rounds / 10; i++) work();
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; i++) work();
  return rounds * commands / std::chrono::duration<double>(Clock::now() - begin).count();
}

ibv_context* open_device() {
  ibv_device** list = need(ibv_get_device_list(nullptr), "ibv_get_device_list");
  mlx5dv_context_attr attributes{};
  attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  return need(mlx5dv_open_device(need(list[0], "no device"), &attributes), "mlx5dv_open_device");
}

double query() {
  ibv_context* context = open_device();
  std::array<uint8_t, prm::QueryHcaCapIn::kBits / 8> in{};
  std::vector<uint8_t> out(prm::QueryHcaCapOut::kBits / 8);
  prm::Writer<prm::QueryHcaCapIn>(in).set(prm::QueryHcaCapIn::opcode, prm::QueryHcaCap::kOpcode);
  return per_second(200'000, 1, [&] {
    need(mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size()) == 0,
         "QUERY_HCA_CAP");
  });
}

double objects() {
  constexpr size_t kBytes = 1 << 20;
  ibv_context* context = open_device();
  ibv_pd* pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
  mlx5dv_pd shown{};
  mlx5dv_obj raw{};
  raw.pd = {pd, &shown};
  need(mlx5dv_init_obj(&raw, MLX5DV_OBJ_PD) == 0, "mlx5dv_init_obj");
  std::vector<uint8_t> memory(kBytes);
  auto* umem = need(mlx5dv_devx_umem_reg(context, memory.data(), kBytes, IBV_ACCESS_LOCAL_WRITE), "umem");
  std::array<uint8_t, prm::CreateMkeyIn::kBits / 8> in{};
  std::array<uint8_t, prm::CreateMkeyOut::kBits / 8> out{};
  const prm::Writer<prm::CreateMkeyIn> create(in);
  create.set(prm::CreateMkeyIn::opcode, prm::CreateMkey::kOpcode);
  create.set(prm::CreateMkeyIn::mkey_umem_valid, true);
  create.set(prm::CreateMkeyIn::mkey_umem_id, umem->umem_id);
  const auto key = create[prm::CreateMkeyIn::memory_key_mkey_entry];
  key.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
  key.set(prm::Mkc::qpn, 0xffffff);
  key.set(prm::Mkc::pd, shown.pdn);
  key.set(prm::Mkc::len, kBytes);
  key.set(prm::Mkc::lr, true);
  key.set(prm::Mkc::lw, true);
  return per_second(100'000, 2, [&] {
    auto* made =
        need(mlx5dv_devx_obj_create(context, in.data(), in.size(), out.data(), out.size()), "CREATE_MKEY");
    need(mlx5dv_devx_obj_destroy(made) == 0, "DESTROY_MKEY");
  });
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count == 2 ? words[1] : "";
  if (what != "query" && what != "objects") {
    std::fprintf(stderr, "usage: devx_costs query|objects\n");
    return 2;
  }
  std::printf("%.3f\n", what == "query" ? query() : objects());
  return 0;
}
