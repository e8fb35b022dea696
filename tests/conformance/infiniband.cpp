// SPDX-License-Identifier: MIT
// Devices whose port is InfiniBand: LIDs instead of the host's addresses, and headers that may be left out.
#include <arpa/inet.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/conformance/dc_ends.h"

namespace verbatim::conformance {
namespace {

constexpr const char* kDevices = "mlx5_0:mlx5:infiniband";
constexpr Traits kDatagrams{.type = IBV_QPT_UD};
constexpr size_t kGrh = 40;
constexpr uint16_t kManager = 1, kFirstLid = 2;

ibv_port_attr port_of(const Endpoint& self) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(self.context, 1, &port), 0);
  return port;
}

/// The path that programs make that use headers between ports of a subnet, too.
ibv_ah_attr with_header(const Contact& peer) {
  ibv_ah_attr address = test::address_of(peer.gid, peer.lid);
  address.is_global = 1;
  return address;
}

TEST(InfinibandPorts, SayWhoTheyAre) {
  with_devices(kDevices, [] {
    Endpoint self;
    const ibv_port_attr port = port_of(self);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.lid, kFirstLid);
    EXPECT_EQ(port.sm_lid, kManager);
    EXPECT_EQ(port.lmc, 0);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.flags & IBV_QPF_GRH_REQUIRED, 0);
    EXPECT_EQ(port.port_cap_flags & IBV_PORT_IP_BASED_GIDS, 0u);
  });
}

TEST(InfinibandPorts, HaveOneAddressAndOneKey) {
  with_devices(kDevices, [] {
    Endpoint self;
    const ibv_port_attr port = port_of(self);
    ASSERT_GT(port.gid_tbl_len, 1);
    ASSERT_GT(port.pkey_tbl_len, 1);
    const __be64 guid = ibv_get_device_guid(self.context->device);
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(self.context, 1, 0, &gid), 0);
    EXPECT_EQ(gid.raw[0], 0xfe);
    EXPECT_EQ(gid.raw[1], 0x80);
    EXPECT_EQ(std::memcmp(gid.raw + 8, &guid, 8), 0) << "the port's GUID behind the default prefix";
    EXPECT_EQ(ibv_query_gid(self.context, 1, 1, &gid), 0);
    EXPECT_EQ(gid.global.interface_id, 0u);
    ibv_gid_entry entry{};
    EXPECT_EQ(ibv_query_gid_ex(self.context, 1, 0, &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_IB));
    EXPECT_EQ(entry.ndev_ifindex, 0u);
    EXPECT_EQ(ibv_query_gid_ex(self.context, 1, 1, &entry, 0), ENODATA);
    __be16 key = 0;
    EXPECT_EQ(ibv_query_pkey(self.context, 1, 0, &key), 0);
    EXPECT_EQ(ntohs(key), 0xffff);
    EXPECT_EQ(ibv_query_pkey(self.context, 1, 1, &key), 0);
    EXPECT_EQ(key, 0);
    EXPECT_NE(ibv_query_pkey(self.context, 1, port.pkey_tbl_len, &key), 0);
    EXPECT_EQ(ibv_get_pkey_index(self.context, 1, htons(0xffff)), 0);
  });
}

constexpr const char* kPartitions = "mlx5_0:mlx5:infiniband:pkeys=0x8001+2+0x8002";
constexpr uint16_t kFull = 1, kLimited = 2, kFullOfTheSame = 3;  ///< entries of it

/// As Endpoint::connect, with another entry of the P_Key table.
int connect(Endpoint& self, uint16_t pkey_index, const Contact& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = pkey_index;
  if (const int error = self.move(IBV_QPS_RESET)) return error;
  if (const int error = self.to_init()) return error;
  if (const int error = ibv_modify_qp(self.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX)) return error;
  if (const int error = self.to_rtr(peer)) return error;
  return self.to_rts();
}

TEST(InfinibandPartitions, AreThoseOfTheTable) {
  with_devices(kPartitions, [] {
    Endpoint self;
    const uint16_t expected[] = {0xffff, 0x8001, 2, 0x8002, 0};
    for (int i = 0; i < 5; i++) {
      __be16 key = 1;
      EXPECT_EQ(ibv_query_pkey(self.context, 1, i, &key), 0);
      EXPECT_EQ(ntohs(key), expected[i]);
      std::ifstream file(std::string(self.context->device->ibdev_path) + "/ports/1/pkeys/" +
                         std::to_string(i));
      std::string line;
      std::getline(file, line);
      EXPECT_EQ(std::stoul(line, nullptr, 16), expected[i]);
    }
    EXPECT_EQ(ibv_get_pkey_index(self.context, 1, htons(0x8002)), kFullOfTheSame);
    ASSERT_EQ(connect(self, kFull, self.contact()), 0);
    ibv_qp_attr now{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_PKEY_INDEX, &made), 0);
    EXPECT_EQ(now.pkey_index, kFull);
    EXPECT_EQ(connect(self, port_of(self).pkey_tbl_len, self.contact()), EINVAL);
  });
}

TEST(InfinibandPartitions, KeepConnectionsApart) {
  with_devices(kPartitions, [] {
    Traits traits;
    traits.timeout = traits.retries = 1;
    Endpoint left(traits), right(traits);
    const auto outcome = [&](uint16_t one, uint16_t other, ibv_wr_opcode opcode) {
      EXPECT_EQ(connect(left, one, right.contact()), 0);
      EXPECT_EQ(connect(right, other, left.contact()), 0);
      const bool sends = opcode == IBV_WR_SEND;
      EXPECT_TRUE(!sends || right.receive(0, 64) == 0);
      const uint32_t dropped = port_of(right).bad_pkey_cntr;
      EXPECT_EQ(left.post(left.request(opcode, 8)), 0);
      const ibv_wc_status status = left.wait_status();
      EXPECT_TRUE(!sends || status != IBV_WC_SUCCESS || right.wait_status() == IBV_WC_SUCCESS);
      EXPECT_EQ(port_of(right).bad_pkey_cntr != dropped, status != IBV_WC_SUCCESS)
          << "the receiver counts it";
      return status;
    };
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ}) {
      EXPECT_EQ(outcome(kFull, kFull, opcode), IBV_WC_SUCCESS);
      EXPECT_EQ(outcome(kLimited, kFullOfTheSame, opcode), IBV_WC_SUCCESS);
      EXPECT_EQ(outcome(kFull, 0, opcode), IBV_WC_RETRY_EXC_ERR);
    }
    EXPECT_EQ(outcome(kLimited, kLimited, IBV_WR_RDMA_WRITE), IBV_WC_RETRY_EXC_ERR)
        << "limited members talk to full ones alone";
    EXPECT_EQ(outcome(9, 9, IBV_WR_RDMA_WRITE), IBV_WC_RETRY_EXC_ERR) << "there is nothing in that entry";
  });
}

/// An RC queue pair that leaves its partition in the middle of a connection, for the default one.
void leave_partition(Endpoint& self) {
  EXPECT_EQ(self.move(IBV_QPS_SQD), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  EXPECT_EQ(ibv_modify_qp(self.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX), 0);
}

TEST(InfinibandPartitions, EndConnectionsOfThoseWhoLeave) {
  with_devices(kPartitions, [] {
    Traits traits;
    traits.timeout = traits.retries = 1;
    for (const Players players : {Players::kOneProcess, Players::kTwoProcesses})
      for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ})
        play(
            players, traits,
            [=](Endpoint& self) {
              EXPECT_EQ(connect(self, kFull, self.peer), 0);
              self.barrier();
              EXPECT_EQ(self.post(self.request(opcode, 8)), 0);
              EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
              self.barrier();
              self.barrier();  // the peer has left
              EXPECT_EQ(self.post(self.request(opcode, 8)), 0);
              EXPECT_EQ(self.wait_status(), IBV_WC_RETRY_EXC_ERR);
              self.barrier();
            },
            [](Endpoint& self) {
              EXPECT_EQ(connect(self, kFull, self.peer), 0);
              for (uint64_t id = 0; id < 2; id++) EXPECT_EQ(self.receive(0, 64, id), 0);
              self.barrier();
              self.barrier();
              leave_partition(self);
              const uint32_t dropped = port_of(self).bad_pkey_cntr;
              self.barrier();
              self.barrier();
              EXPECT_GT(port_of(self).bad_pkey_cntr, dropped);
            });
  });
}

TEST(InfinibandPartitions, KeepDatagramsApart) {
  with_devices(kPartitions, [] {
    Endpoint left(kDatagrams), right(kDatagrams);
    EXPECT_EQ(connect(right, kFull, left.contact()), 0);
    EXPECT_EQ(right.receive(0, 256), 0);
    const auto send = [&](uint16_t from) {
      EXPECT_EQ(connect(left, from, right.contact()), 0);
      EXPECT_EQ(left.post(left.request(IBV_WR_SEND, 16)), 0);
      EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
    };
    for (const uint16_t other : {0, 2, 3, 9}) send(other);
    EXPECT_TRUE(right.quiet());
    EXPECT_EQ(port_of(right).bad_pkey_cntr, 4u);
    send(kFull);
    EXPECT_EQ(right.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(port_of(right).bad_pkey_cntr, 4u);
  });
}

TEST(InfinibandPaths, NameALidAndPerhapsAnAddress) {
  with_devices(kDevices, [] {
    Endpoint left, right;
    const auto to_rtr = [&](const ibv_ah_attr& path) {
      EXPECT_EQ(left.move(IBV_QPS_RESET), 0);
      EXPECT_EQ(left.to_init(), 0);
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_RTR;
      attr.path_mtu = IBV_MTU_4096;
      attr.dest_qp_num = right.qp->qp_num;
      attr.ah_attr = path;
      return ibv_modify_qp(left.qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    };
    const Contact to = right.contact();
    ibv_ah_attr path = test::address_of(to.gid, to.lid);
    path.sl = 3;
    EXPECT_EQ(to_rtr(path), 0);
    ibv_qp_attr now{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(left.qp, &now, IBV_QP_AV, &made), 0);
    EXPECT_EQ(now.ah_attr.dlid, to.lid);
    EXPECT_EQ(now.ah_attr.sl, 3);
    EXPECT_EQ(now.ah_attr.is_global, 0);
    EXPECT_EQ(to_rtr(with_header(to)), 0);
    for (const uint16_t lid : {0x0000, 0xc000, 0xffff}) {
      path.dlid = lid;
      EXPECT_EQ(to_rtr(path), EINVAL) << lid;
    }
    path = with_header(to);
    path.grh.sgid_index = 1;
    EXPECT_EQ(to_rtr(path), EINVAL) << "there is nothing in that entry";
  });
}

TEST(InfinibandPaths, LeadNowhereWithTheLidOfAnotherPort) {
  with_devices(kDevices, [] {
    Traits traits;
    traits.timeout = 1;
    Endpoint left(traits), right(traits);
    Contact to = right.contact();
    to.lid = 77;
    EXPECT_EQ(left.connect(to), 0);
    EXPECT_EQ(right.connect(left.contact()), 0);
    EXPECT_EQ(left.post(left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(left.wait_status(), IBV_WC_RETRY_EXC_ERR);
  });
}

// Devices of both kinds beside each other; the host side of them is one process.
TEST(InfinibandPaths, ReachPortsOfTheSubnetAlone) {
  with_devices("mlx5_0:mlx5:infiniband,mlx5_1,mlx5_2:mlx5:infiniband", [] {
    Traits traits;
    traits.timeout = 1;
    const auto opened = [&](int index) {
      Traits there = traits;
      there.device = index;
      return there;
    };
    Endpoint first(opened(0)), ethernet(opened(1)), second(opened(2));
    EXPECT_EQ(port_of(second).lid, kFirstLid + 2);
    EXPECT_EQ(port_of(ethernet).link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(first.connect(second.contact()), 0);
    EXPECT_EQ(second.connect(first.contact()), 0);
    fill(first, 0, 4096, 5);
    EXPECT_EQ(first.post(first.request(IBV_WR_RDMA_WRITE, 4096)), 0);
    EXPECT_EQ(first.wait_status(), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(second, 0, 4096, 5));
    // Its queue pair is behind no LID, however the number fits.
    EXPECT_EQ(second.move(IBV_QPS_RESET), 0);
    Contact across = ethernet.contact();
    across.lid = kFirstLid + 1;
    EXPECT_EQ(second.connect(across), 0);
    Contact back = second.contact();
    back.lid = 0;
    EXPECT_EQ(ethernet.connect(back), 0);
    EXPECT_EQ(second.post(second.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(second.wait_status(), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(ethernet.post(ethernet.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(ethernet.wait_status(), IBV_WC_RETRY_EXC_ERR);
  });
}

TEST(InfinibandConnections, SayWhereMessagesCameFrom) {
  with_devices(kDevices, [] {
    Pair pair;
    EXPECT_EQ(pair.right.receive(0, 64), 0);
    EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 64)), 0);
    const ibv_wc wc = pair.right.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.slid, kFirstLid);
    EXPECT_EQ(wc.wc_flags & IBV_WC_GRH, 0u);
  });
}

TEST(InfinibandDatagrams, LeaveRoomForTheHeaderThatTheyDoNotHave) {
  with_devices(kDevices, [] {
    Pair pair(kDatagrams);
    fill(pair.right, 0, kGrh, 9);
    fill(pair.left, 0, 16, 1);
    EXPECT_EQ(pair.right.receive(0, 256), 0);
    EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 16)), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    ibv_wc wc = pair.right.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, kGrh + 16);
    EXPECT_EQ(wc.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(wc.slid, kFirstLid);
    EXPECT_TRUE(holds(pair.right, 0, kGrh, 9)) << "nothing is written where the header would be";
    EXPECT_TRUE(holds(pair.right, kGrh, 16, 1));
    ibv_ah_attr back{};
    EXPECT_EQ(ibv_init_ah_from_wc(pair.right.context, 1, &wc, nullptr, &back), 0);
    EXPECT_EQ(back.is_global, 0);
    EXPECT_EQ(back.dlid, kFirstLid);
    ibv_ah* ah = ibv_create_ah_from_wc(pair.right.pd, &wc, nullptr, 1);
    ASSERT_NE(ah, nullptr);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  });
}

TEST(InfinibandDatagrams, BringTheirHeaderWhereTheAddressHasOne) {
  with_devices(kDevices, [] {
    Pair pair(kDatagrams);
    ibv_ah_attr address = with_header(pair.right.contact());
    address.grh.traffic_class = 0x12;
    address.grh.flow_label = 0x345;
    address.sl = 5;
    ibv_ah* ah = ibv_create_ah(pair.left.pd, &address);
    ASSERT_NE(ah, nullptr);
    EXPECT_EQ(pair.right.receive(0, 256), 0);
    ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 16);
    wr.wr.ud.ah = ah;
    EXPECT_EQ(pair.left.post(wr), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    ibv_wc wc = pair.right.wait();
    EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(wc.sl, 5);
    ibv_ah_attr back{};
    auto* grh = reinterpret_cast<ibv_grh*>(pair.right.buffer.data());
    EXPECT_EQ(ibv_init_ah_from_wc(pair.right.context, 1, &wc, grh, &back), 0);
    EXPECT_EQ(back.is_global, 1);
    EXPECT_EQ(back.dlid, kFirstLid);
    EXPECT_EQ(back.grh.sgid_index, 0);
    EXPECT_EQ(back.grh.flow_label, 0x345u);
    EXPECT_EQ(back.grh.traffic_class, 0x12);
    const ibv_gid from = pair.left.contact().gid;
    EXPECT_EQ(std::memcmp(&back.grh.dgid, &from, sizeof from), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  });
}

TEST(InfinibandDatagrams, AreForOneLidAndOneAddress) {
  with_devices(kDevices, [] {
    Pair pair(kDatagrams);
    EXPECT_EQ(pair.right.receive(0, 256), 0);
    ibv_ah_attr other_lid = with_header(pair.right.contact()), other_gid = other_lid;
    other_lid.dlid = 77;
    other_gid.grh.dgid.raw[15] ^= 1;
    for (ibv_ah_attr address : {other_lid, other_gid}) {
      ibv_ah* ah = ibv_create_ah(pair.left.pd, &address);
      ASSERT_NE(ah, nullptr);
      ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 16);
      wr.wr.ud.ah = ah;
      EXPECT_EQ(pair.left.post(wr), 0);
      EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
      EXPECT_TRUE(pair.right.quiet());
      EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
    ibv_ah_attr nowhere = with_header(pair.right.contact());
    nowhere.dlid = 0;
    EXPECT_EQ(ibv_create_ah(pair.left.pd, &nowhere), nullptr);
    EXPECT_EQ(errno, EINVAL);
    uint8_t mac[6];
    uint16_t vlan;
    EXPECT_EQ(ibv_resolve_eth_l2_from_gid(pair.left.context, &other_lid, mac, &vlan), EOPNOTSUPP);
  });
}

TEST(InfinibandDatagrams, GoToGroups) {
  with_devices(kDevices, [] {
    constexpr uint16_t kGroupLid = 0xc001;
    Pair pair(kDatagrams);
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[1] = 0x12;
    group.raw[15] = 9;
    EXPECT_EQ(ibv_attach_mcast(pair.right.qp, &group, kGroupLid), 0);
    EXPECT_EQ(pair.right.receive(0, 256), 0);
    Contact members;
    members.gid = group;
    members.lid = kGroupLid;
    ibv_ah_attr address = with_header(members);
    ibv_ah* ah = ibv_create_ah(pair.left.pd, &address);
    ASSERT_NE(ah, nullptr);
    ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 16);
    wr.wr.ud = {ah, 0xffffff, kQkey};
    EXPECT_EQ(pair.left.post(wr), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    const ibv_wc wc = pair.right.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(wc.slid, kFirstLid);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_detach_mcast(pair.right.qp, &group, kGroupLid), 0);
  });
}

TEST(InfinibandTargets, AreFoundByTheirLid) {
  with_devices(kDevices, [] {
    Traits traits;
    traits.srq = true;
    Pair pair(traits);
    DcTarget target(pair.right);
    DcInitiator initiator(pair.left);
    EXPECT_EQ(pair.right.receive(0, 64), 0);
    fill(pair.left, 0, 32, 3);
    EXPECT_EQ(initiator.post(
                  8, target.qp->qp_num, [](ibv_qp_ex* ex) { ibv_wr_send(ex); }, 32),
              0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds(pair.right, 0, 32, 3));
  });
}

}  // namespace
}  // namespace verbatim::conformance
