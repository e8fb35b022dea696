// SPDX-License-Identifier: MIT
// What `verbatim status` shows of a program that drives the device by commands, and what `verbatim explain`
// tells of what the device refused.
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>

#include "abi/prm/memory.h"
#include "tests/conformance/mail.h"
#include "tests/conformance/players.h"
#include "tests/conformance/printed.h"

namespace verbatim::conformance {
namespace {

/// The numbers of this process's objects of a kind.
std::vector<uint32_t> shown(const std::string& kind) {
  const auto self = shown_of_self();
  if (self.is_null()) return {};
  for (const auto& object : self["command_objects"])
    if (object["kind"] == kind) return object["numbers"].get<std::vector<uint32_t>>();
  return {};
}

bool holds_number(const std::vector<uint32_t>& numbers, uint32_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

TEST(CommandObjects, AreShownWhileTheyLive) {
  ibv_context* context = open_with(MLX5DV_CONTEXT_FLAGS_DEVX);
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
  EXPECT_EQ(ibv_close_device(context), 0);
}

/// The reasons of this process's errors, oldest first, each as `status: reason`.
std::vector<std::string> reasons() {
  std::istringstream lines(printed(VERBATIM_TEST_TOOL " explain --json"));
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const auto error = nlohmann::json::parse(line);
    if (error["pid"] == getpid())
      found.push_back(error["status"].get<std::string>() + ": " + error["reason"].get<std::string>());
  }
  return found;
}

TEST(Refusals, AreExplainedInWords) {
  ibv_context* context = open_with(MLX5DV_CONTEXT_FLAGS_DEVX);
  ASSERT_NE(context, nullptr);
  Mail<prm::CreateMkey> wanted;
  wanted.in[prm::CreateMkeyIn::memory_key_mkey_entry].set(prm::Mkc::pd, 0xabcdef);
  wanted.in.set(prm::CreateMkeyIn::mkey_umem_valid, 1);
  wanted.in[prm::CreateMkeyIn::memory_key_mkey_entry].set(prm::Mkc::access_mode_1_0, 1);
  wanted.in[prm::CreateMkeyIn::memory_key_mkey_entry].set(prm::Mkc::qpn, 0xffffff);
  EXPECT_EQ(wanted.create(context), nullptr);
  EXPECT_EQ(errno, EREMOTEIO);
  EXPECT_NE(wanted.syndrome(), 0u);
  EXPECT_EQ(mlx5dv_devx_umem_reg(context, nullptr, 4096, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  const std::vector<std::string> told = reasons();
  ASSERT_GE(told.size(), 2u);
  const std::string& refused = told[told.size() - 2];
  EXPECT_NE(refused.find("CREATE_MKEY: "), std::string::npos) << refused;
  EXPECT_NE(refused.find("protection domain of number 11259375"), std::string::npos) << refused;
  char syndrome[32];
  std::snprintf(syndrome, sizeof syndrome, "syndrome 0x%x", wanted.syndrome());
  EXPECT_NE(refused.find(syndrome), std::string::npos) << refused;
  EXPECT_EQ(told.back().rfind("Bad address: ", 0), 0u) << told.back();
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace verbatim::conformance
