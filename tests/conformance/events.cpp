// SPDX-License-Identifier: MIT
// Async events: of queue pairs, of shared receive queues, of the port.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "testing/private_network.h"
#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

using testing_support::kNotPermitted;
using testing_support::run_in_private_network;
using testing_support::set_interface;

class QueuePairEvents : public Played {};
VERBATIM_PLAY_BOTH_WAYS(QueuePairEvents);

TEST(CommunicationEstablished, TellsOfTheFirstMessage) {
  Endpoint early, late;
  EXPECT_EQ(late.to_init(), 0);
  EXPECT_EQ(late.receive(0, 64), 0);
  EXPECT_EQ(late.receive(0, 64), 0);
  EXPECT_EQ(late.to_rtr(early.contact()), 0);
  EXPECT_EQ(early.connect(late.contact()), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(early.post(early.request(IBV_WR_SEND, 8)), 0);
    EXPECT_EQ(late.wait_status(), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(late.next_event(), IBV_EVENT_COMM_EST);
  EXPECT_TRUE(late.no_event()) << "the second message is nothing new";
}

TEST_P(QueuePairEvents, TellOfRefusedAccess) {
  play(
      {},
      [](Endpoint& self) {
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        wr.wr.rdma.rkey += 0x100000;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
        EXPECT_TRUE(self.no_event()) << "a completion has said it";
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
      });
}

TEST_P(QueuePairEvents, TellOfInvalidRequests) {
  play(
      {},
      [](Endpoint& self) {
        EXPECT_EQ(self.post(self.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 4)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_INV_REQ_ERR);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_REQ_ERR);
        EXPECT_EQ(self.state(), IBV_QPS_ERR);
      });
}

TEST_P(QueuePairEvents, TellOfTheLastReceiveOfASharedQueue) {
  play(
      {.srq = true},
      [](Endpoint& self) {
        self.barrier();
        ibv_send_wr wr = self.request(IBV_WR_RDMA_WRITE, 8);
        wr.wr.rdma.rkey += 0x100000;
        EXPECT_EQ(self.post(wr), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_REM_ACCESS_ERR);
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, 64), 0);
        self.barrier();
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_ACCESS_ERR);
        EXPECT_EQ(self.next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
        EXPECT_TRUE(self.quiet()) << "receives of a shared queue are not flushed";
        EXPECT_TRUE(self.no_event());
      });
}

TEST(LastReceive, IsTheEndOfEveryWayToTheErrorState) {
  Pair pair({.srq = true});
  EXPECT_EQ(pair.right.move(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.right.next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(pair.right.move(IBV_QPS_ERR), 0);
  EXPECT_TRUE(pair.right.no_event());
  EXPECT_EQ(pair.right.move(IBV_QPS_RESET), 0);
  EXPECT_EQ(pair.right.to_init(), 0);
  EXPECT_EQ(pair.right.move(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.right.next_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

int set_limit(Endpoint& self, uint32_t limit, int mask = IBV_SRQ_LIMIT, uint32_t max_wr = 0) {
  ibv_srq_attr attributes{max_wr, 0, limit};
  return ibv_modify_srq(self.srq, &attributes, mask);
}
ibv_srq_attr query(Endpoint& self) {
  ibv_srq_attr attributes{};
  EXPECT_EQ(ibv_query_srq(self.srq, &attributes), 0);
  return attributes;
}

TEST_P(QueuePairEvents, TellOfTheLimitOnce) {
  play(
      {.srq = true},
      [](Endpoint& self) {
        for (int i = 0; i < 4; ++i) {
          self.barrier();
          EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        }
        self.barrier();
      },
      [](Endpoint& self) {
        const auto take_one = [&self] {
          self.barrier();
          EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        };
        for (int i = 0; i < 5; ++i) EXPECT_EQ(self.receive(0, 64), 0);
        EXPECT_EQ(set_limit(self, 4), 0);
        EXPECT_EQ(query(self).srq_limit, 4u);
        take_one();  // 4 are left: not below
        EXPECT_TRUE(self.no_event());
        take_one();
        EXPECT_EQ(self.next_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
        EXPECT_EQ(query(self).srq_limit, 0u) << "has to be armed again";
        take_one();
        EXPECT_TRUE(self.no_event());
        EXPECT_EQ(set_limit(self, 2), 0);
        take_one();  // 1 is left
        EXPECT_EQ(self.next_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
        self.barrier();
      });
}

TEST(SharedQueues, RefuseWhatCannotBeModified) {
  Endpoint self({.srq = true});
  const ibv_srq_attr before = query(self);
  EXPECT_GE(before.max_wr, self.traits.depth);
  EXPECT_GE(before.max_sge, 4u);
  EXPECT_EQ(set_limit(self, before.max_wr + 1), EINVAL);
  EXPECT_EQ(set_limit(self, 0, IBV_SRQ_MAX_WR, before.max_wr * 2), EINVAL)
      << "no device of this kind resizes them";
  EXPECT_EQ(set_limit(self, 1, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, before.max_wr), EINVAL);
  EXPECT_EQ(query(self).srq_limit, 0u) << "nothing of a refused change is made";
  EXPECT_EQ(set_limit(self, 1, 0), 0);
  EXPECT_EQ(query(self).srq_limit, 0u);
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(self.context, &device), 0);
  EXPECT_EQ(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  EXPECT_EQ(set_limit(self, 1), 0) << "there is less already";
  EXPECT_EQ(self.next_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
}

TEST(SharedQueues, AreMadeAndNumbered) {
  Endpoint self({.srq = true});
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(self.context, &device), 0);
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {10, 2, 0};
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  wanted.srq_type = IBV_SRQT_BASIC;
  wanted.pd = self.pd;
  ibv_srq* srq = ibv_create_srq_ex(self.context, &wanted);
  ASSERT_NE(srq, nullptr);
  EXPECT_GE(wanted.attr.max_wr, 10u);
  uint32_t number = 0, other = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  EXPECT_EQ(ibv_get_srq_num(self.srq, &other), 0);
  EXPECT_NE(number, other);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  const auto refusal = [&] {
    EXPECT_EQ(ibv_create_srq_ex(self.context, &wanted), nullptr);
    return errno;
  };
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  EXPECT_EQ(refusal(), EINVAL) << "no domain";
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  wanted.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(refusal(), EINVAL) << "neither completion queue nor size of the tag list";
  wanted.srq_type = static_cast<ibv_srq_type>(7);
  EXPECT_EQ(refusal(), EOPNOTSUPP);
  ibv_srq_init_attr large{nullptr, {static_cast<uint32_t>(device.max_srq_wr) + 1, 1, 0}};
  EXPECT_EQ(ibv_create_srq(self.pd, &large), nullptr);
  EXPECT_EQ(errno, EINVAL);
  large.attr = {1, static_cast<uint32_t>(device.max_srq_sge) + 1, 0};
  EXPECT_EQ(ibv_create_srq(self.pd, &large), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/// A network interface of the process's own, whose cable can be pulled; it goes with the descriptor.
int make_interface(const char* name) {
  const int made = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  return made >= 0 && ioctl(made, TUNSETIFF, &request) == 0 ? made : -1;
}
bool plug(int interface, int in) { return ioctl(interface, TUNSETCARRIER, &in) == 0; }

/// Index of an IPv4 address in the GID table, or -1.
int find_address(ibv_context* context, const uint8_t* address) {
  ibv_gid_entry table[256];
  const ssize_t count = ibv_query_gid_table(context, table, 256, 0);
  for (ssize_t i = 0; i < count; ++i)
    if (table[i].gid.raw[10] == 0xff && std::memcmp(table[i].gid.raw + 12, address, 4) == 0)
      return static_cast<int>(table[i].gid_index);
  return -1;
}

/// Reads events until `wanted` comes.
bool comes(Endpoint& self, int wanted) {
  for (int i = 0; i < 10; ++i) {
    const int event = self.next_event();
    if (event == wanted) return true;
    if (event < 0) return false;
  }
  return false;
}

bool port_is(Endpoint& self, ibv_port_state state) {
  ibv_port_attr port{};
  return ibv_query_port(self.context, 1, &port) == 0 && port.state == state;
}

/// In a network of its own. The number of the step that failed.
int follow_port() {
  constexpr uint8_t kAddress[] = {10, 7, 7, 7};
  const int interface = make_interface("port0");
  if (interface < 0) return kNotPermitted;
  if (!set_interface("lo", IFF_UP, nullptr)) return 1;
  Endpoint self;
  if (!port_is(self, IBV_PORT_ACTIVE) || find_address(self.context, kAddress) >= 0) return 2;
  if (!set_interface("port0", IFF_UP, kAddress) || !comes(self, IBV_EVENT_GID_CHANGE)) return 3;
  if (find_address(self.context, kAddress) < 0) return 4;
  if (!plug(interface, 0) || !comes(self, IBV_EVENT_PORT_ERR)) return 5;
  if (!port_is(self, IBV_PORT_DOWN)) return 6;
  if (!plug(interface, 1) || !comes(self, IBV_EVENT_PORT_ACTIVE)) return 7;
  if (!port_is(self, IBV_PORT_ACTIVE)) return 8;
  if (!set_interface("port0", 0, nullptr) || !comes(self, IBV_EVENT_GID_CHANGE)) return 9;
  if (find_address(self.context, kAddress) >= 0) return 10;
  return testing::Test::HasFailure() ? 11 : 0;
}

TEST(PortEvents, FollowAddressesAndLink) { run_in_private_network(follow_port); }

}  // namespace
}  // namespace verbatim::conformance
