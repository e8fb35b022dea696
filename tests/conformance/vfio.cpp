// SPDX-License-Identifier: MIT
// Devices that a program takes over through VFIO.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>

#include <cerrno>
#include <string>

#include "abi/prm/capabilities.h"
#include "device/connectx/prm/view.h"
#include "lib/ibverbs/provider.h"
#include "tests/conformance/devx_parts.h"
#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

bool readable(int file) {
  pollfd wanted{file, POLLIN, 0};
  return poll(&wanted, 1, 0) == 1;
}

TEST(Vfio, FunctionsAreFoundByAddress) {
  const std::string address = first_address();
  ibv_context* context = take_over(MLX5DV_VFIO_CTX_FLAGS_INIT_LINK_DOWN);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_get_device_name(context->device), address);
  EXPECT_FALSE(mlx5dv_is_supported(context->device)) << "mlx5dv_open_device() is not how they are opened";
  EXPECT_EQ(ibv_close_device(context), 0);
  for (const char* other : {"0000:08:00.0", "5642:7f:00.0", "mlx5_0", ""}) {
    mlx5dv_vfio_context_attr wanted{other, 0, 0};
    EXPECT_EQ(mlx5dv_get_vfio_device_list(&wanted), nullptr) << other;
    EXPECT_EQ(errno, ENODEV) << other;
  }
  EXPECT_EQ(take_over(1u << 9), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Vfio, ContextsTakeCommandsAndMakeDomains) {
  using Query = prm::QueryHcaCap;
  ibv_context* context = take_over();
  ASSERT_NE(context, nullptr);
  uint8_t in[Query::In::kBits / 8] = {}, out[Query::Out::kBits / 8] = {};
  prm::Writer<Query::In>(in).set(Query::In::opcode, Query::kOpcode);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in, sizeof in, out, sizeof out), 0);
  ibv_pd* pd = ibv_alloc_pd(context);
  ASSERT_NE(pd, nullptr);
  mlx5dv_pd number{};
  mlx5dv_obj objects{};
  objects.pd = {pd, &number};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_PD), 0);
  EXPECT_NE(number.pdn, 0u);
  char bytes[64];
  ibv_mr* mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Vfio, DriverEventsAreProcessedWhenTheDescriptorSaysSo) {
  ibv_context* context = take_over();
  ASSERT_NE(context, nullptr);
  const int file = mlx5dv_vfio_get_events_fd(context);
  ASSERT_GE(file, 0);
  EXPECT_FALSE(readable(file));
  EXPECT_EQ(mlx5dv_vfio_process_events(context), 0) << "to look at the device's health";
  hw::EventSink& device_side = *verbs::Context::of(context);
  device_side.on_async(hw::AsyncEvent::kPortError, nullptr);
  device_side.on_async(hw::AsyncEvent::kPortActive, nullptr);
  EXPECT_TRUE(readable(file));
  EXPECT_EQ(mlx5dv_vfio_process_events(context), 0);
  EXPECT_FALSE(readable(file));
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Vfio, OtherContextsHaveNoDriverEvents) {
  Endpoint self;
  EXPECT_EQ(mlx5dv_vfio_get_events_fd(self.context), -EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_vfio_process_events(self.context), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
