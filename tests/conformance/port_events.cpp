// SPDX-License-Identifier: MIT
// What happens to devices and their ports because somebody lets it: every context hears of it, and what the
// port says of itself follows.
#include <arpa/inet.h>
#include <infiniband/mlx5dv.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "agent/client.h"
#include "agent/port_service.h"
#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr const char* kInfiniband = "mlx5_0:mlx5:infiniband";

Outcome let_happen(const std::string& event, uint32_t value = 0, uint32_t device = 0) {
  const Expected<int> socket = agent::reach_agent();
  if (!socket) return socket.error();
  agent::Request request{};
  request.ask = agent::Ask::kRaiseEvent;
  request.index = device;
  request.slot = static_cast<uint32_t>(*agent::event_of(event));
  request.generation = value;
  agent::Answer answer{};
  int files[agent::kFilesMax], count = 0;
  Outcome asked = agent::ask_agent(*socket, request, answer, files, count);
  close(*socket);
  return asked;
}

#define LET_HAPPEN(...)                               \
  do {                                                \
    const Outcome happened = let_happen(__VA_ARGS__); \
    ASSERT_TRUE(happened) << happened.error().reason; \
  } while (false)

ibv_port_attr port_of(const Endpoint& self) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(self.context, 1, &port), 0);
  return port;
}

std::string line_of(const Endpoint& self, const std::string& name) {
  std::ifstream file(std::string(self.context->device->ibdev_path) + "/ports/1/" + name);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Named {
  const char* name;
  ibv_event_type type;
};
constexpr Named kHarmless[] = {{"gid-change", IBV_EVENT_GID_CHANGE},
                               {"pkey-change", IBV_EVENT_PKEY_CHANGE},
                               {"lid-change", IBV_EVENT_LID_CHANGE},
                               {"sm-change", IBV_EVENT_SM_CHANGE},
                               {"client-reregister", IBV_EVENT_CLIENT_REREGISTER},
                               {"port-down", IBV_EVENT_PORT_ERR},
                               {"port-up", IBV_EVENT_PORT_ACTIVE}};

class PortEvents : public Played {};
VERBATIM_PLAY_BOTH_WAYS(PortEvents);

TEST_P(PortEvents, ComeToAllContexts) {
  const Part hear = [](Endpoint& self) {
    Endpoint other;
    for (const Named& each : kHarmless) {
      self.barrier();
      EXPECT_EQ(self.next_event(), each.type) << each.name;
      EXPECT_EQ(other.next_event(), each.type) << each.name;
      self.barrier();
    }
    EXPECT_TRUE(self.no_event());
  };
  play(
      {},
      [](Endpoint& self) {
        for (const Named& each : kHarmless) {
          self.barrier();
          LET_HAPPEN(each.name);
          EXPECT_EQ(self.next_event(), each.type) << each.name;
          self.barrier();
        }
      },
      hear);
}

TEST(PortEventsOfDevices, ComeToTheOneThatIsMeant) {
  with_devices("2", [] {
    Endpoint first({.device = 0}), second({.device = 1});
    LET_HAPPEN("client-reregister", 0, 1);
    EXPECT_EQ(second.next_event(), IBV_EVENT_CLIENT_REREGISTER);
    EXPECT_TRUE(first.no_event());
    EXPECT_FALSE(let_happen("port-down", 0, 1000)) << "there are not so many";
  });
}

TEST(PortsThatGoDown, LoseWhatIsSentUntilTheyComeUp) {
  Pair pair({.timeout = 14, .retries = 7});
  LET_HAPPEN("port-down");
  EXPECT_EQ(pair.left.next_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(port_of(pair.left).state, IBV_PORT_DOWN);
  EXPECT_EQ(line_of(pair.left, "state"), "1: DOWN");
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_TRUE(pair.left.quiet());
  LET_HAPPEN("port-up");
  EXPECT_EQ(pair.left.next_event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS) << "it was sent again";
  EXPECT_EQ(port_of(pair.left).state, IBV_PORT_ACTIVE);
  EXPECT_EQ(line_of(pair.left, "state"), "4: ACTIVE");
}

TEST(PortsThatStayDown, LetRequestsFail) {
  Pair pair({.timeout = 8, .retries = 2});
  LET_HAPPEN("port-down");
  EXPECT_EQ(pair.left.next_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_RETRY_EXC_ERR);
  LET_HAPPEN("port-up");
}

TEST(PortsThatAreDownAtTheOtherEnd, TakeNothing) {
  with_devices("2", [] {
    Endpoint left({.timeout = 8, .retries = 2, .device = 0}), right({.device = 1});
    ASSERT_EQ(left.connect(right.contact()), 0);
    ASSERT_EQ(right.connect(left.contact()), 0);
    LET_HAPPEN("port-down", 0, 1);
    EXPECT_EQ(right.next_event(), IBV_EVENT_PORT_ERR);
    right.buffer[0] = 7;
    EXPECT_EQ(left.post(left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(left.wait_status(), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(right.buffer[0], 7) << "not past the port either";
    LET_HAPPEN("port-up", 0, 1);
  });
}

TEST(PartitionKeys, ComeAndGo) {
  with_devices(kInfiniband, [] {
    Endpoint self;
    LET_HAPPEN("pkey-change", 0x8001);
    EXPECT_EQ(self.next_event(), IBV_EVENT_PKEY_CHANGE);
    EXPECT_EQ(ibv_get_pkey_index(self.context, 1, htons(0x8001)), 1);
    EXPECT_EQ(line_of(self, "pkeys/1"), "0x8001");
    LET_HAPPEN("pkey-change", 0x8001);
    EXPECT_EQ(self.next_event(), IBV_EVENT_PKEY_CHANGE);
    EXPECT_EQ(ibv_get_pkey_index(self.context, 1, htons(0x8001)), -1);
    EXPECT_FALSE(let_happen("pkey-change", 0x8000)) << "that names no partition";
  });
}

/// To RTS as a member of the partition in entry 1.
int connect_as_member(Endpoint& self, const Contact& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = 1;
  if (const int error = self.to_init()) return error;
  if (const int error = ibv_modify_qp(self.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX)) return error;
  if (const int error = self.to_rtr(peer)) return error;
  return self.to_rts();
}

TEST(PartitionKeys, EndConnectionsWhenTheyGo) {
  with_devices(kInfiniband, [] {
    Traits traits;
    traits.timeout = traits.retries = 1;
    Endpoint left(traits), right(traits);
    LET_HAPPEN("pkey-change", 0x8001);
    EXPECT_EQ(left.next_event(), IBV_EVENT_PKEY_CHANGE);
    EXPECT_EQ(right.next_event(), IBV_EVENT_PKEY_CHANGE);
    ASSERT_EQ(connect_as_member(left, right.contact()), 0);
    ASSERT_EQ(connect_as_member(right, left.contact()), 0);
    EXPECT_EQ(left.post(left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(left.wait_status(), IBV_WC_SUCCESS);
    LET_HAPPEN("pkey-change", 0x8001);
    EXPECT_EQ(left.next_event(), IBV_EVENT_PKEY_CHANGE);
    EXPECT_EQ(left.post(left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(left.wait_status(), IBV_WC_RETRY_EXC_ERR);
  });
}

TEST(Lids, Change) {
  with_devices(kInfiniband, [] {
    Pair pair;
    LET_HAPPEN("lid-change", 77);
    EXPECT_EQ(pair.left.next_event(), IBV_EVENT_LID_CHANGE);
    EXPECT_EQ(pair.right.next_event(), IBV_EVENT_LID_CHANGE);
    EXPECT_EQ(port_of(pair.left).lid, 77);
    EXPECT_EQ(line_of(pair.left, "lid"), "0x4d");
    ASSERT_EQ(pair.left.move(IBV_QPS_RESET), 0);
    ASSERT_EQ(pair.right.move(IBV_QPS_RESET), 0);
    EXPECT_EQ(pair.right.contact().lid, 77);
    ASSERT_EQ(pair.left.connect(pair.right.contact()), 0);
    ASSERT_EQ(pair.right.connect(pair.left.contact()), 0);
    EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
    EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
    LET_HAPPEN("sm-change", 9);
    EXPECT_EQ(pair.left.next_event(), IBV_EVENT_SM_CHANGE);
    EXPECT_EQ(port_of(pair.left).sm_lid, 9);
    EXPECT_FALSE(let_happen("lid-change", 0xc000)) << "LIDs of groups";
    LET_HAPPEN("lid-change");
    LET_HAPPEN("sm-change");
  });
}

TEST(DevicesThatFail, FlushAndRefuseButCanBeClosed) {
  {
    Pair pair({.channel = true});
    Endpoint& self = pair.left;
    EXPECT_EQ(self.receive(0, 64, 5), 0);
    LET_HAPPEN("device-fatal");
    EXPECT_EQ(self.next_event(), IBV_EVENT_DEVICE_FATAL);
    const ibv_wc receive = self.wait();
    EXPECT_EQ(receive.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(receive.wr_id, 5u);
    EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
    EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
    errno = 0;
    EXPECT_EQ(ibv_alloc_pd(self.context), nullptr);
    EXPECT_EQ(errno, EIO);
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), 64, 0), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(ibv_create_cq(self.context, 1, nullptr, nullptr, 0), nullptr);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(self.context, 1, &port), EIO);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(self.qp, &attr, IBV_QP_STATE, &init), EIO);
    EXPECT_EQ(self.move(IBV_QPS_RESET), EIO);
  }
  Pair afterwards;
  EXPECT_EQ(afterwards.left.post(afterwards.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_EQ(afterwards.left.wait_status(), IBV_WC_SUCCESS) << "who opens it again has another";
}

/// QUERY_VPORT_STATE, as a mailbox.
constexpr uint8_t kQuery[16] = {0x07, 0x50};

// Also what is programmed below verbs; what destroys still does.
TEST(DevicesThatFail, TakeNoCommands) {
  Endpoint self;
  mlx5dv_mkey_init_attr wanted{};
  wanted.pd = self.pd;
  wanted.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  wanted.max_entries = 1;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&wanted);
  ASSERT_NE(key, nullptr);
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg(self.context, self.buffer.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(umem, nullptr);
  mlx5dv_devx_uar* page = mlx5dv_devx_alloc_uar(self.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  ASSERT_NE(page, nullptr);
  uint8_t out[16] = {};
  EXPECT_EQ(mlx5dv_devx_general_cmd(self.context, kQuery, sizeof kQuery, out, sizeof out), 0);

  LET_HAPPEN("device-fatal");
  EXPECT_EQ(self.next_event(), IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(mlx5dv_devx_general_cmd(self.context, kQuery, sizeof kQuery, out, sizeof out), EIO);
  const auto refused = [](const void* made) {
    const bool right = made == nullptr && errno == EIO;
    errno = 0;
    return right;
  };
  EXPECT_TRUE(refused(mlx5dv_create_mkey(&wanted)));
  EXPECT_TRUE(refused(mlx5dv_devx_umem_reg(self.context, self.buffer.data(), 64, 0)));
  EXPECT_TRUE(refused(mlx5dv_devx_alloc_uar(self.context, MLX5DV_UAR_ALLOC_TYPE_NC)));
  EXPECT_TRUE(refused(mlx5dv_devx_obj_create(self.context, kQuery, sizeof kQuery, out, sizeof out)));
  EXPECT_TRUE(refused(mlx5dv_devx_alloc_msi_vector(self.context)));
  uint32_t number = 0;
  EXPECT_EQ(mlx5dv_reserved_qpn_alloc(self.context, &number), EIO);
  EXPECT_EQ(mlx5dv_devx_query_eqn(self.context, 0, &number), EIO);
  EXPECT_EQ(mlx5dv_devx_qp_query(self.qp, kQuery, sizeof kQuery, out, sizeof out), EIO);
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(self.qp, 0xc001), EIO);

  EXPECT_EQ(mlx5dv_destroy_mkey(key), 0);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
  mlx5dv_devx_free_uar(page);
}

}  // namespace
}  // namespace verbatim::conformance
