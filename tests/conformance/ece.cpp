// SPDX-License-Identifier: MIT
// Connection options: what a queue pair offers, and what it takes of its peer's.
#include <cerrno>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr uint32_t kVendor = 0x15b3, kFormat = 0x10000000;

ibv_ece options_of(const Endpoint& self) {
  ibv_ece ece{1, 2, 3};
  EXPECT_EQ(ibv_query_ece(self.qp, &ece), 0);
  return ece;
}

int set(Endpoint& self, uint32_t vendor, uint32_t options, uint32_t comp_mask = 0) {
  ibv_ece ece{vendor, options, comp_mask};
  return ibv_set_ece(self.qp, &ece);
}

TEST(ConnectionOptions, AreOfferedAndAgreedOn) {
  Endpoint left, right;
  ibv_ece offered = options_of(left);
  EXPECT_EQ(offered.vendor_id, kVendor);
  EXPECT_EQ(offered.options, kFormat);
  EXPECT_EQ(offered.comp_mask, 0u);
  // A peer that could do more than this device.
  offered.options |= 0x20000002;
  ASSERT_EQ(ibv_set_ece(right.qp, &offered), 0);
  EXPECT_EQ(offered.options, kFormat) << "what was accepted comes back";
  EXPECT_EQ(options_of(right).options, 0u) << "not yet in force";
  ASSERT_EQ(right.to_init(), 0);
  EXPECT_EQ(options_of(right).options, kFormat);
  // Without a peer that knows options there are none.
  ASSERT_EQ(set(left, kVendor, 0), 0);
  const Contact one = left.contact(), two = right.contact();
  ASSERT_EQ(left.connect(two), 0);
  ASSERT_EQ(right.to_rtr(one), 0);
  ASSERT_EQ(right.to_rts(), 0);
  EXPECT_EQ(options_of(left).options, 0u);
  EXPECT_EQ(options_of(right).options, kFormat);
  fill(left, 0, 3000, 1);
  ASSERT_EQ(left.post(left.request(IBV_WR_RDMA_WRITE, 3000)), 0);
  EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(right, 0, 3000, 1));
}

TEST(ConnectionOptions, AreRefusedWithAReason) {
  Endpoint self;
  EXPECT_EQ(set(self, kVendor + 1, kFormat), EINVAL) << "another vendor's";
  EXPECT_EQ(set(self, kVendor, 0x00000002), EINVAL) << "none that it knows";
  EXPECT_EQ(set(self, kVendor, kFormat, 1), EINVAL);
  EXPECT_EQ(set(self, 0, 0), EOPNOTSUPP) << "nobody's";
  EXPECT_EQ(options_of(self).options, kFormat) << "nothing has changed";
}

}  // namespace
}  // namespace verbatim::conformance
