// SPDX-License-Identifier: MIT
// The device's clock, and what mlx5dv_query_device() and mlx5dv_open_device() take and give.
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <thread>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

int64_t wall_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The device's clock, and the wall clock just before.
uint64_t raw_clock(ibv_context* context, int64_t& before_ns) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  before_ns = wall_ns();
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_EQ(values.comp_mask, uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
  return static_cast<uint64_t>(values.raw_clock.tv_nsec);
}

TEST(DeviceClock, BecomesTheWallClock) {
  Endpoint self;
  int64_t earlier_ns = 0, later_ns = 0;
  const uint64_t earlier = raw_clock(self.context, earlier_ns);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  mlx5dv_clock_info info{};
  ASSERT_EQ(mlx5dv_get_clock_info(self.context, &info), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const uint64_t later = raw_clock(self.context, later_ns);
  EXPECT_LT(earlier, info.last_cycles);
  EXPECT_LT(info.last_cycles, later);
  EXPECT_LT(std::abs(static_cast<int64_t>(mlx5dv_ts_to_ns(&info, earlier)) - earlier_ns), 5 * kMillisecondNs);
  EXPECT_LT(std::abs(static_cast<int64_t>(mlx5dv_ts_to_ns(&info, later)) - later_ns), 5 * kMillisecondNs);
  ibv_values_ex unknown{};
  unknown.comp_mask = 2;
  EXPECT_EQ(ibv_query_rt_values_ex(self.context, &unknown), EINVAL);
}

TEST(DeviceClock, IsInCompletions) {
  Pair pair({.cq_fields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP});
  const int64_t before = wall_ns();
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 64)), 0);
  ibv_poll_cq_attr how{};
  ibv_cq_ex* cq = pair.left.extended_cq();
  int found = ENOENT;
  for (int i = 0; i < 10'000'000 && found == ENOENT; i++) found = ibv_start_poll(cq, &how);
  ASSERT_EQ(found, 0);
  mlx5dv_clock_info info{};
  ASSERT_EQ(mlx5dv_get_clock_info(pair.left.context, &info), 0);
  const auto when = static_cast<int64_t>(mlx5dv_ts_to_ns(&info, ibv_wc_read_completion_ts(cq)));
  ibv_end_poll(cq);
  EXPECT_GE(when, before - kMillisecondNs);
  EXPECT_LE(when, wall_ns() + kMillisecondNs);
}

/// A part of the record that a bit of comp_mask stands for.
struct Part {
  uint64_t bit;
  size_t offset, bytes;
};
#define VERBATIM_PART(mask, member) \
  { MLX5DV_CONTEXT_MASK_##mask, offsetof(mlx5dv_context, member), sizeof(mlx5dv_context::member) }
constexpr Part kParts[] = {
    VERBATIM_PART(CQE_COMPRESION, cqe_comp_caps),
    VERBATIM_PART(SWP, sw_parsing_caps),
    VERBATIM_PART(STRIDING_RQ, striding_rq_caps),
    VERBATIM_PART(TUNNEL_OFFLOADS, tunnel_offloads_caps),
    VERBATIM_PART(DYN_BFREGS, max_dynamic_bfregs),
    VERBATIM_PART(CLOCK_INFO_UPDATE, max_clock_info_update_nsec),
    VERBATIM_PART(FLOW_ACTION_FLAGS, flow_action_flags),
    VERBATIM_PART(DC_ODP_CAPS, dc_odp_caps),
    VERBATIM_PART(HCA_CORE_CLOCK, hca_core_clock),
    VERBATIM_PART(NUM_LAG_PORTS, num_lag_ports),
    VERBATIM_PART(SIGNATURE_OFFLOAD, sig_caps),
    VERBATIM_PART(DCI_STREAMS, dci_streams_caps),
    VERBATIM_PART(WR_MEMCPY_LENGTH, max_wr_memcpy_length),
    VERBATIM_PART(CRYPTO_OFFLOAD, crypto_caps),
    VERBATIM_PART(MAX_DC_RD_ATOM, max_dc_rd_atom),
    VERBATIM_PART(REG_C0, reg_c0),
    VERBATIM_PART(OOO_RECV_WRS, ooo_recv_wrs_caps),
};
#undef VERBATIM_PART

constexpr uint8_t kUntouched = 0xa5;

bool untouched(const mlx5dv_context& record, size_t offset, size_t bytes) {
  const auto* at = reinterpret_cast<const uint8_t*>(&record) + offset;
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != kUntouched) return false;
  return true;
}

TEST(QueryDevice, FillsWhatIsAskedForAndNothingElse) {
  Endpoint self;
  for (const Part& asked : kParts) {
    mlx5dv_context record;
    std::memset(static_cast<void*>(&record), kUntouched, sizeof record);
    record.comp_mask = asked.bit;
    ASSERT_EQ(mlx5dv_query_device(self.context, &record), 0);
    EXPECT_EQ(record.version, 0);
    EXPECT_EQ(record.comp_mask & ~asked.bit, 0u) << asked.bit;
    if (record.comp_mask == 0) {
      EXPECT_TRUE(untouched(record, asked.offset, asked.bytes)) << asked.bit;
    }
    for (const Part& other : kParts)
      if (other.bit != asked.bit) {
        EXPECT_TRUE(untouched(record, other.offset, other.bytes)) << asked.bit << " fills " << other.bit;
      }
  }
}

TEST(QueryDevice, SaysTheSameWhenAskedForAll) {
  Endpoint self;
  mlx5dv_context all{};
  all.comp_mask = UINT64_MAX;
  ASSERT_EQ(mlx5dv_query_device(self.context, &all), 0);
  for (const Part& each : kParts) {
    mlx5dv_context one{};
    one.comp_mask = each.bit;
    ASSERT_EQ(mlx5dv_query_device(self.context, &one), 0);
    EXPECT_EQ(one.comp_mask, all.comp_mask & each.bit);
    EXPECT_EQ(one.flags, all.flags);
    if (one.comp_mask != 0) {
      EXPECT_EQ(std::memcmp(reinterpret_cast<const uint8_t*>(&one) + each.offset,
                            reinterpret_cast<const uint8_t*>(&all) + each.offset, each.bytes),
                0)
          << each.bit;
    }
  }
  EXPECT_TRUE(all.comp_mask & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE);
  EXPECT_GE(all.max_clock_info_update_nsec, 100u * kMillisecondNs);
  EXPECT_FALSE(all.comp_mask & MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK) << "there is no page that counts";
  EXPECT_FALSE(all.comp_mask & MLX5DV_CONTEXT_MASK_REG_C0) << "there is no embedded switch";
}

ibv_context* open_with(mlx5dv_context_attr attributes) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ibv_free_device_list(list);
  return context;
}

TEST(OpenDevice, ChecksItsAttributes) {
  EXPECT_EQ(open_with({1u << 5, 0, nullptr}), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(open_with({0, 1u << 5, nullptr}), nullptr);
  EXPECT_EQ(errno, EINVAL);
  constexpr uint64_t kFiles = MLX5DV_CONTEXT_ATTR_MASK_FD_ARRAY;
  EXPECT_EQ(open_with({0, kFiles, nullptr}), nullptr);
  EXPECT_EQ(errno, EINVAL);
  int files[] = {0, -1};
  ibv_fd_arr array{files, 2};
  EXPECT_EQ(open_with({0, kFiles, &array}), nullptr);
  EXPECT_EQ(errno, EBADF);
  array.count = 1;
  ibv_context* context = open_with({MLX5DV_CONTEXT_FLAGS_DEVX, kFiles, &array});
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace verbatim::conformance
