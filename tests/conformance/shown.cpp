// SPDX-License-Identifier: MIT
// What `verbatim status` shows of a program that drives the device by commands.
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

/// The numbers of this process's objects of a kind.
std::vector<uint32_t> shown(const std::string& kind) {
  FILE* pipe = popen(VERBATIM_TEST_TOOL " status --json", "r");
  std::string text;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, pipe)) text.append(part, got);
  EXPECT_EQ(pclose(pipe), 0);
  const auto status = nlohmann::json::parse(text);
  for (const auto& process : status["processes"])
    for (const auto& object : process["command_objects"])
      if (process["pid"] == getpid() && object["kind"] == kind)
        return object["numbers"].get<std::vector<uint32_t>>();
  return {};
}

bool holds_number(const std::vector<uint32_t>& numbers, uint32_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

TEST(CommandObjects, AreShownWhileTheyLive) {
  ibv_device** list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attributes{MLX5DV_CONTEXT_FLAGS_DEVX, 0, nullptr};
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ASSERT_NE(context, nullptr);
  static char memory[8192];
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg(context, memory, sizeof memory, 0);
  mlx5dv_devx_umem* other = mlx5dv_devx_umem_reg(context, memory, sizeof memory, 0);
  mlx5dv_var* page = mlx5dv_alloc_var(context, 0);
  ASSERT_TRUE(umem != nullptr && other != nullptr && page != nullptr);
  EXPECT_EQ(shown("UMEM").size(), 2u);
  EXPECT_TRUE(holds_number(shown("UMEM"), umem->umem_id));
  EXPECT_TRUE(holds_number(shown("UAR"), page->page_id));
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
  EXPECT_EQ(shown("UMEM").size(), 1u);
  mlx5dv_free_var(page);
  EXPECT_TRUE(shown("UAR").empty());
  EXPECT_EQ(mlx5dv_devx_umem_dereg(other), 0);
  EXPECT_TRUE(shown("UMEM").empty());
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace verbatim::conformance
