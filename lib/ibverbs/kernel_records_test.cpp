// SPDX-License-Identifier: MIT
// Records of the kernel's user interface, filled with distinct bytes: every member arrives in its own place.
#include <gtest/gtest.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cstring>

#include "lib/ibverbs/undeclared.h"
// After the declarations above.
#include <infiniband/sa.h>

namespace verbatim::verbs {
namespace {

/// A record in which no two bytes near each other are equal, and none is 0.
template <class T>
T numbered() {
  T record;
  auto* bytes = reinterpret_cast<uint8_t*>(&record);
  for (size_t i = 0; i < sizeof record; i++) bytes[i] = static_cast<uint8_t>(1 + i % 251);
  return record;
}

void expect_same(const ibv_ah_attr& to, const ib_uverbs_ah_attr& from) {
  EXPECT_EQ(std::memcmp(to.grh.dgid.raw, from.grh.dgid, sizeof from.grh.dgid), 0);
  EXPECT_EQ(to.grh.flow_label, from.grh.flow_label);
  EXPECT_EQ(to.grh.sgid_index, from.grh.sgid_index);
  EXPECT_EQ(to.grh.hop_limit, from.grh.hop_limit);
  EXPECT_EQ(to.grh.traffic_class, from.grh.traffic_class);
  EXPECT_EQ(to.dlid, from.dlid);
  EXPECT_EQ(to.sl, from.sl);
  EXPECT_EQ(to.src_path_bits, from.src_path_bits);
  EXPECT_EQ(to.static_rate, from.static_rate);
  EXPECT_EQ(to.is_global, from.is_global);
  EXPECT_EQ(to.port_num, from.port_num);
}

TEST(KernelRecords, OfAddresses) {
  auto from = numbered<ib_uverbs_ah_attr>();
  ibv_ah_attr to{};
  ibv_copy_ah_attr_from_kern(&to, &from);
  expect_same(to, from);
}

TEST(KernelRecords, OfQueuePairs) {
  auto from = numbered<ib_uverbs_qp_attr>();
  ibv_qp_attr to{};
  ibv_copy_qp_attr_from_kern(&to, &from);
  expect_same(to.ah_attr, from.ah_attr);
  expect_same(to.alt_ah_attr, from.alt_ah_attr);
  EXPECT_EQ(static_cast<uint32_t>(to.qp_state), from.qp_state);
  EXPECT_EQ(static_cast<uint32_t>(to.cur_qp_state), from.cur_qp_state);
  EXPECT_EQ(static_cast<uint32_t>(to.path_mtu), from.path_mtu);
  EXPECT_EQ(static_cast<uint32_t>(to.path_mig_state), from.path_mig_state);
  EXPECT_EQ(to.qkey, from.qkey);
  EXPECT_EQ(to.rq_psn, from.rq_psn);
  EXPECT_EQ(to.sq_psn, from.sq_psn);
  EXPECT_EQ(to.dest_qp_num, from.dest_qp_num);
  EXPECT_EQ(to.qp_access_flags, from.qp_access_flags);
  EXPECT_EQ(to.cap.max_send_wr, from.max_send_wr);
  EXPECT_EQ(to.cap.max_recv_wr, from.max_recv_wr);
  EXPECT_EQ(to.cap.max_send_sge, from.max_send_sge);
  EXPECT_EQ(to.cap.max_recv_sge, from.max_recv_sge);
  EXPECT_EQ(to.cap.max_inline_data, from.max_inline_data);
  EXPECT_EQ(to.pkey_index, from.pkey_index);
  EXPECT_EQ(to.alt_pkey_index, from.alt_pkey_index);
  EXPECT_EQ(to.en_sqd_async_notify, from.en_sqd_async_notify);
  EXPECT_EQ(to.sq_draining, from.sq_draining);
  EXPECT_EQ(to.max_rd_atomic, from.max_rd_atomic);
  EXPECT_EQ(to.max_dest_rd_atomic, from.max_dest_rd_atomic);
  EXPECT_EQ(to.min_rnr_timer, from.min_rnr_timer);
  EXPECT_EQ(to.port_num, from.port_num);
  EXPECT_EQ(to.timeout, from.timeout);
  EXPECT_EQ(to.retry_cnt, from.retry_cnt);
  EXPECT_EQ(to.rnr_retry, from.rnr_retry);
  EXPECT_EQ(to.alt_port_num, from.alt_port_num);
  EXPECT_EQ(to.alt_timeout, from.alt_timeout);
}

TEST(KernelRecords, OfPathsGoBothWays) {
  auto from = numbered<ib_user_path_rec>();
  from.mtu = 4;  // a byte in the library's record
  ibv_sa_path_rec path{};
  ibv_copy_path_rec_from_kern(&path, &from);
  EXPECT_EQ(std::memcmp(path.dgid.raw, from.dgid, sizeof from.dgid), 0);
  EXPECT_EQ(std::memcmp(path.sgid.raw, from.sgid, sizeof from.sgid), 0);
  EXPECT_EQ(path.dlid, from.dlid);
  EXPECT_EQ(path.slid, from.slid);
  EXPECT_EQ(path.flow_label, from.flow_label);
  EXPECT_EQ(path.hop_limit, from.hop_limit);
  EXPECT_EQ(path.mtu, from.mtu);
  EXPECT_EQ(path.packet_life_time, from.packet_life_time);
  auto back = numbered<ib_user_path_rec>();
  std::memset(back.dgid, 0, sizeof back - offsetof(ib_user_path_rec, dgid));
  ibv_copy_path_rec_to_kern(&back, &path);
  EXPECT_EQ(std::memcmp(&back, &from, offsetof(ib_user_path_rec, preference) + 1), 0);
}

}  // namespace
}  // namespace verbatim::verbs
