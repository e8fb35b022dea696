// SPDX-License-Identifier: MIT
// Datagrams: address handles, answers to where one came from, and multicast groups.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr Traits kDatagrams{.type = IBV_QPT_UD};
constexpr size_t kGrh = 40;

class Answers : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Answers);

/// Sends 16 bytes and waits for the same number back, from the same queue pair.
void ask(Endpoint& self) {
  EXPECT_EQ(self.receive(4096, 256, 9), 0);
  self.barrier();
  EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 16)), 0);
  EXPECT_EQ(self.wait().wr_id, 100u);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(wc.src_qp, self.peer.qpn);
}
ibv_wc hear(Endpoint& self) {
  EXPECT_EQ(self.receive(0, 256, 7), 0);
  self.barrier();
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 7u);
  return wc;
}
void answer(Endpoint& self, ibv_ah* ah, const ibv_wc& wc) {
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr = self.request(IBV_WR_SEND, 16);
  wr.wr.ud = {ah, wc.src_qp, kQkey};
  EXPECT_EQ(self.post(wr), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}
ibv_grh* header_of(Endpoint& self) { return reinterpret_cast<ibv_grh*>(self.buffer.data()); }

TEST_P(Answers, GoToAHandleMadeFromACompletion) {
  play(kDatagrams, ask, [](Endpoint& self) {
    ibv_wc wc = hear(self);
    answer(self, ibv_create_ah_from_wc(self.pd, &wc, header_of(self), 1), wc);
  });
}

TEST_P(Answers, GoToAnAddressMadeFromACompletion) {
  play(kDatagrams, ask, [](Endpoint& self) {
    ibv_wc wc = hear(self);
    ibv_ah_attr back{};
    EXPECT_EQ(ibv_init_ah_from_wc(self.context, 1, &wc, header_of(self), &back), 0);
    EXPECT_EQ(back.is_global, 1);
    EXPECT_EQ(back.port_num, 1);
    EXPECT_EQ(back.sl, wc.sl);
    EXPECT_EQ(std::memcmp(&back.grh.dgid, &self.peer.gid, sizeof back.grh.dgid), 0);
    ibv_gid used{};
    const ibv_gid own = self.contact().gid;
    EXPECT_EQ(ibv_query_gid(self.context, 1, back.grh.sgid_index, &used), 0);
    EXPECT_EQ(std::memcmp(&used, &own, sizeof own), 0);
    answer(self, ibv_create_ah(self.pd, &back), wc);
  });
}

TEST(AddressesFromCompletions, NeedAHeader) {
  Endpoint self(kDatagrams);
  ibv_wc wc{};
  ibv_ah_attr back{};
  EXPECT_EQ(ibv_init_ah_from_wc(self.context, 1, &wc, header_of(self), &back), 0);
  EXPECT_EQ(back.is_global, 0);
  EXPECT_EQ(ibv_create_ah_from_wc(self.pd, &wc, header_of(self), 1), nullptr)
      << "Ethernet needs a global address";
  EXPECT_EQ(errno, EINVAL);
  wc.wc_flags = IBV_WC_GRH;
  std::memset(self.buffer.data(), 0x5a, kGrh);
  EXPECT_EQ(ibv_init_ah_from_wc(self.context, 1, &wc, header_of(self), &back), -1);
  EXPECT_EQ(ibv_create_ah_from_wc(self.pd, &wc, header_of(self), 1), nullptr);
}

TEST(AddressHandles, NeedAGoodAddress) {
  Endpoint self(kDatagrams);
  ibv_ah_attr good{};
  good.is_global = 1;
  good.port_num = 1;
  good.grh.dgid = self.contact().gid;
  const auto make = [&self](ibv_ah_attr attributes) {
    ibv_ah* ah = ibv_create_ah(self.pd, &attributes);
    if (ah == nullptr) return errno;
    EXPECT_EQ(ah->pd, self.pd);
    return ibv_destroy_ah(ah);
  };
  EXPECT_EQ(make(good), 0);
  ibv_ah_attr bad = good;
  bad.port_num = 2;
  EXPECT_EQ(make(bad), EINVAL);
  bad = good;
  bad.is_global = 0;
  EXPECT_EQ(make(bad), EINVAL);
  bad = good;
  bad.grh.sgid_index = 255;
  EXPECT_EQ(make(bad), EINVAL);
  ibv_ah_attr own = good;
  uint8_t mac[6] = {1, 1, 1, 1, 1, 1};
  uint16_t vlan = 0;
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(self.context, &own, mac, &vlan), 0);
  EXPECT_EQ(vlan, 0xffff) << "no VLAN";
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(self.context, &bad, mac, &vlan), EINVAL);
}

// A Q_Key with its highest bit set stands for the sending queue pair's own (IBA 3.5.3).
TEST(DatagramKeys, MayBeTheQueuePairsOwn) {
  Pair pair(kDatagrams);
  EXPECT_EQ(pair.right.receive(0, 256), 0);
  ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 8);
  wr.wr.ud.remote_qkey = 0x80000000;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
}

TEST(DatagramsWithoutRoom, FailTheReceiver) {
  Pair pair(kDatagrams);
  EXPECT_EQ(pair.right.receive(0, kGrh + 7), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_LOC_LEN_ERR);
}

TEST(DatagramsWithoutRoom, AreDroppedWhereNothingIsPosted) {
  Pair pair(kDatagrams);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.receive(0, 256), 0);
  EXPECT_TRUE(pair.right.quiet());
}

class Multicast : public Played {};
VERBATIM_PLAY_BOTH_WAYS(Multicast);

ibv_gid group(uint8_t last) {
  ibv_gid made{};
  made.raw[0] = 0xff;
  made.raw[1] = 0x0e;
  made.raw[15] = last;
  return made;
}
ibv_gid ipv4_group(uint8_t last) {
  ibv_gid made{};
  made.raw[10] = made.raw[11] = 0xff;
  made.raw[12] = 239;
  made.raw[15] = last;
  return made;
}

void post_to(Endpoint& self, const ibv_gid& to, uint64_t id) {
  ibv_ah_attr address{};
  address.is_global = 1;
  address.grh.dgid = to;
  address.port_num = 1;
  ibv_ah* ah = ibv_create_ah(self.pd, &address);
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr = self.request(IBV_WR_SEND, 16);
  wr.wr_id = id;
  wr.wr.ud = {ah, 0xffffff, kQkey};
  EXPECT_EQ(self.post(wr), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0) << "a posted request needs it no more";
}
void send_to(Endpoint& self, const ibv_gid& to, uint64_t id) {
  post_to(self, to, id);
  EXPECT_EQ(self.wait().wr_id, id);
}
void expect_copy(Endpoint& self, uint64_t id, uint32_t from) {
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, id);
  EXPECT_EQ(wc.byte_len, 16 + kGrh);
  EXPECT_EQ(wc.src_qp, from);
  EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
}

/// One sends to a group that the other is in, is not in, and is in no more.
void check_group(Players players, const ibv_gid& to) {
  conformance::play(
      players, kDatagrams,
      [=](Endpoint& self) {
        ibv_gid other = to;
        other.raw[14] ^= 1;
        self.barrier();
        send_to(self, other, 1);
        send_to(self, to, 2);
        self.barrier();
        self.barrier();
        send_to(self, to, 3);
        self.barrier();
        self.barrier();
      },
      [=](Endpoint& self) {
        EXPECT_EQ(ibv_attach_mcast(self.qp, &to, 0), 0);
        EXPECT_EQ(ibv_attach_mcast(self.qp, &to, 0), 0) << "is one attachment all the same";
        EXPECT_EQ(self.receive(0, 256, 10), 0);
        EXPECT_EQ(self.receive(0, 256, 11), 0);
        self.barrier();
        self.barrier();
        expect_copy(self, 10, self.peer.qpn);
        if (to.raw[0] == 0xff) {
          EXPECT_EQ(std::memcmp(&header_of(self)->dgid, &to, sizeof to), 0);
        }
        EXPECT_TRUE(self.quiet()) << "not of the other group, and only once";
        EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), 0);
        self.barrier();
        self.barrier();
        EXPECT_TRUE(self.quiet());
        self.barrier();
      });
}
TEST_P(Multicast, ReachesMembersOnly) { check_group(GetParam(), group(0x17)); }
TEST_P(Multicast, ReachesMembersOfIpv4GroupsOnly) { check_group(GetParam(), ipv4_group(0x18)); }

/// Waits for a copy of what this queue pair itself sends to a group it is in.
void send_and_expect_copy(Endpoint& self, const ibv_gid& to) {
  constexpr uint64_t kSent = 77;
  post_to(self, to, kSent);
  bool sent = false, received = false;
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    (wc.wr_id == kSent ? sent : received) = true;
  }
  EXPECT_TRUE(sent && received);
}

TEST_P(Multicast, ReachesEveryMemberAndTheSender) {
  play(
      kDatagrams,
      [](Endpoint& self) {
        const ibv_gid to = group(0x20);
        EXPECT_EQ(ibv_attach_mcast(self.qp, &to, 0), 0);
        EXPECT_EQ(self.receive(0, 256, 10), 0);
        self.barrier();
        send_and_expect_copy(self, to);
        self.barrier();
        EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), 0);
      },
      [](Endpoint& self) {
        const ibv_gid to = group(0x20);
        Endpoint second(kDatagrams);
        EXPECT_EQ(second.connect(self.contact()), 0);
        for (Endpoint* member : {&self, &second}) {
          EXPECT_EQ(ibv_attach_mcast(member->qp, &to, 0), 0);
          EXPECT_EQ(member->receive(0, 256, 10), 0);
        }
        self.barrier();
        for (Endpoint* member : {&self, &second}) expect_copy(*member, 10, self.peer.qpn);
        self.barrier();
        for (Endpoint* member : {&self, &second}) EXPECT_EQ(ibv_detach_mcast(member->qp, &to, 0), 0);
      });
}

// The answer goes to the sender, not to the group.
TEST_P(Multicast, IsAnsweredToTheSender) {
  play(
      kDatagrams,
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(4096, 256, 9), 0);
        self.barrier();
        post_to(self, group(0x21), 1);
        // The answer may be there before the group's last member has got its copy.
        const uint64_t one = self.wait().wr_id, other = self.wait().wr_id;
        EXPECT_EQ(std::min(one, other), 1u);
        EXPECT_EQ(std::max(one, other), 9u);
      },
      [](Endpoint& self) {
        const ibv_gid to = group(0x21);
        EXPECT_EQ(ibv_attach_mcast(self.qp, &to, 0), 0);
        ibv_wc wc = hear(self);
        answer(self, ibv_create_ah_from_wc(self.pd, &wc, header_of(self), 1), wc);
        EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), 0);
      });
}

TEST(MulticastGroups, AreForDatagramsAndMulticastAddresses) {
  Endpoint reliable;
  Endpoint self(kDatagrams);
  const ibv_gid to = group(0x22), unicast = self.contact().gid;
  EXPECT_EQ(ibv_attach_mcast(reliable.qp, &to, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(self.qp, &unicast, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(self.qp, &to, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(self.qp), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(self.qp, &to, 0), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
