// SPDX-License-Identifier: MIT
// The agent as a process of its own, under a private name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "agent/client.h"
#include "agent/device_config.h"
#include "agent/gid_table.h"
#include "agent/spawn.h"
#include "base/clock.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::agent {
namespace {

class Notices final : public NoticeSink {
 public:
  void on_gone(uint32_t slot, uint64_t) override { gone.push_back(slot); }
  void on_gids_changed() override { changes++; }
  void on_link(bool) override {}
  std::vector<uint32_t> gone;
  int changes = 0;
};

/// A joined process's worth of descriptors and client.
struct Member {
  Member() {
    fabric = std::move(*wire::shm::ShmFabric::create(1 << 20, clock));
    const wire::PeerHandles handles = fabric->handles();
    auto joined = AgentClient::join(handles.published, handles.inbound, handles.wake, "member");
    if (joined)
      client = std::move(*joined);
    else
      error = joined.error();
  }
  SystemClock clock;
  std::unique_ptr<wire::shm::ShmFabric> fabric;
  std::unique_ptr<AgentClient> client;
  Error error;
};

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    name_ = "verbatim-test/" + std::to_string(getpid()) + "/" + std::to_string(number++);
    setenv("VERBATIM_AGENT_SOCKET", name_.c_str(), 1);
    setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 1);
  }
  void TearDown() override {
    if (const pid_t pid = agent_pid()) kill(pid, SIGTERM);
  }
  pid_t agent_pid() const {
    const int socket = connect_name(name_, 3000);
    if (socket < 0) return 0;
    ucred peer{};
    socklen_t length = sizeof peer;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    close(socket);
    return peer.pid;
  }
  template <class Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 1000; i++) {
      if (condition()) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }
  std::string name_;
};

TEST_F(AgentTest, StartsByItselfAndIntroduces) {
  Member a, b;
  ASSERT_TRUE(a.client) << a.error.reason;
  ASSERT_TRUE(b.client) << b.error.reason;
  EXPECT_NE(a.client->slot(), b.client->slot());
  EXPECT_EQ(b.client->generation(), a.client->slot_generation(b.client->slot()));
  auto handles = a.client->introduce(b.client->slot());
  ASSERT_TRUE(handles);
  EXPECT_EQ(static_cast<uint32_t>(getpid()), handles->pid);
  EXPECT_EQ(b.client->slot(), handles->primary_slot);
  int files[3] = {handles->published, handles->inbound, handles->wake};
  close_files(files, 3);
  EXPECT_EQ(ESRCH, a.client->introduce(1000).error().code);
}

TEST_F(AgentTest, TellsOfAKilledProcess) {
  Member a;
  int pipe_ends[2];
  ASSERT_EQ(0, pipe(pipe_ends));
  const pid_t child = fork();
  if (child == 0) {
    Member b;
    const uint32_t slot = b.client ? b.client->slot() : 0;
    (void)!write(pipe_ends[1], &slot, sizeof slot);
    pause();
  }
  uint32_t slot = 0;
  ASSERT_EQ(static_cast<ssize_t>(sizeof slot), read(pipe_ends[0], &slot, sizeof slot));
  ASSERT_NE(0u, slot);
  ASSERT_NE(0u, a.client->slot_generation(slot));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Notices notices;
  EXPECT_TRUE(eventually([&] {
    a.client->handle_notices(notices);
    return !notices.gone.empty();
  }));
  EXPECT_EQ(std::vector<uint32_t>{slot}, notices.gone);
  EXPECT_EQ(0u, a.client->slot_generation(slot));
}

TEST_F(AgentTest, ClientsOutliveTheAgent) {
  Member a, b;
  const uint32_t slot_a = a.client->slot(), slot_b = b.client->slot();
  Gid group;
  group.bytes[0] = 0xff;
  ASSERT_TRUE(a.client->join_group(group));
  const Expected<uint32_t> extra = a.client->extra_slot();
  ASSERT_TRUE(extra);
  const pid_t agent = agent_pid();
  ASSERT_NE(0, agent);
  kill(agent, SIGKILL);
  ASSERT_TRUE(eventually([&] { return kill(agent, 0) != 0 || agent_pid() != agent; }));
  // A newcomer must not get a slot that somebody holds, though the new agent does not know that yet.
  Member c;
  ASSERT_TRUE(c.client) << c.error.reason;
  for (const uint32_t taken : {slot_a, slot_b, *extra}) EXPECT_NE(taken, c.client->slot());
  Notices notices;
  EXPECT_TRUE(eventually([&] {
    a.client->handle_notices(notices);
    b.client->handle_notices(notices);
    return c.client->slot_generation(slot_a) == a.client->generation() &&
           c.client->slot_generation(slot_b) == b.client->generation();
  }));
  EXPECT_NE(0u, c.client->slot_generation(*extra));
  uint32_t members[8];
  ASSERT_EQ(1u, c.client->members(group, members, 8));
  EXPECT_EQ(slot_a, members[0]);
}

TEST_F(AgentTest, ManyStartAtOnceAndOneAgentServesThem) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; i++) {
    const pid_t child = fork();
    if (child == 0) {
      Member member;
      _exit(member.client ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status);
  }
}

TEST_F(AgentTest, LeavesWhenUnused) {
  {
    Member a;
    ASSERT_TRUE(a.client);
  }
  ASSERT_NE(0, agent_pid());
  const SystemClock clock;
  const uint64_t began = clock.now_ns();
  EXPECT_TRUE(eventually([&] {
    poll(nullptr, 0, 50);
    const int taken = bind_name(name_, SOCK_SEQPACKET);
    if (taken >= 0) close(taken);
    return taken >= 0;
  }));
  EXPECT_LT(clock.now_ns() - began, 10'000'000'000u);
}

TEST_F(AgentTest, SurvivesNonsense) {
  Member a;
  ASSERT_TRUE(a.client);
  std::mt19937 random(7);
  for (int i = 0; i < 300; i++) {
    const int socket = connect_name(name_, 3000);
    ASSERT_GE(socket, 0);
    char record[sizeof(Request)];
    for (char& byte : record) byte = static_cast<char>(random());
    const uint32_t version = kVersion, ask = random() % 9;
    if (i % 2) memcpy(record, &version, sizeof version), memcpy(record + 4, &ask, sizeof ask);
    const int files[2] = {STDERR_FILENO, a.fabric->handles().wake};
    send_record(socket, record, i % 3 ? sizeof record : random() % sizeof record + 1, files, i % 3);
    close(socket);
  }
  Member b;
  EXPECT_TRUE(b.client);
}

TEST_F(AgentTest, SaysWhyItCannotStart) {
  setenv("VERBATIM_AGENT", "/nonexistent/verbatimd", 1);
  Member a;
  ASSERT_FALSE(a.client);
  EXPECT_EQ(ENOENT, a.error.code);
  EXPECT_NE(std::string::npos, a.error.reason.find("/nonexistent/verbatimd"));
}

engine::GidEntry entry(uint8_t last, GidType type = GidType::kRoceV2) {
  engine::GidEntry made;
  made.gid.bytes[15] = last;
  made.type = type;
  return made;
}

TEST(GidTable, KeepsEntriesInPlace) {
  engine::GidEntry table[kGidsMax];
  uint32_t count = 0;
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(2), entry(3)}));
  EXPECT_FALSE(merge_gids(table, count, {entry(1), entry(2), entry(3)}));
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(3)}));
  EXPECT_TRUE(table[1].gid.is_zero());
  EXPECT_TRUE(merge_gids(table, count, {entry(1), entry(3), entry(9)}));
  EXPECT_EQ(9, table[1].gid.bytes[15]);
  EXPECT_EQ(3u, count);
}

TEST(GidTable, OrdersLinkLocalThenIpv4AndLoopbackLast) {
  const auto address = [](const char* name, uint32_t index, bool loopback,
                          std::initializer_list<uint8_t> start) {
    Address made;
    made.interface = name;
    made.interface_index = index;
    made.loopback = loopback;
    std::copy(start.begin(), start.end(), made.gid.bytes.begin());
    return made;
  };
  const std::initializer_list<uint8_t> v4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  const auto table = gid_order({address("lo", 1, true, v4), address("eth0", 2, false, {0xfd}),
                                address("eth0", 2, false, v4), address("eth0", 2, false, {0xfe, 0x80})});
  ASSERT_EQ(8u, table.size());
  EXPECT_EQ(0xfe, table[0].gid.bytes[0]);
  EXPECT_TRUE(table[1].gid.is_ipv4_mapped());
  EXPECT_EQ(2u, table[1].interface_index);
  EXPECT_EQ(0xfd, table[2].gid.bytes[0]);
  EXPECT_EQ(1u, table[3].interface_index);
  EXPECT_EQ(GidType::kRoceV1, table[4].type);
}

TEST(DeviceConfig, UnderstandsWhatIsDocumented) {
  EXPECT_EQ("mlx5_0", parse_devices("")->at(0).name);
  EXPECT_EQ(3u, parse_devices("3")->size());
  EXPECT_EQ("b", parse_devices("a,b:mlx5")->at(1).name);
  for (const char* bad : {"a,,b", "a:mlx9", "a,a", "999", "a/b", ","})
    EXPECT_FALSE(parse_devices(bad)) << bad;
}

}  // namespace
}  // namespace verbatim::agent
