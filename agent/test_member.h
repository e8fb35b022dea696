// SPDX-License-Identifier: MIT
#pragma once

// What the tests of the agent share: an agent under a private name, and members that join it.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/history.h"
#include "base/clock.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::agent {

/// Remembers what it is told.
class Notices final : public NoticeSink {
 public:
  void on_gone(uint32_t slot, uint64_t) override { gone.push_back(slot); }
  void on_gids_changed() override { changes++; }
  void on_link(bool) override {}
  void on_raised(uint32_t device, engine::AsyncEvent event) override { raised.emplace_back(device, event); }
  std::vector<uint32_t> gone;
  std::vector<std::pair<uint32_t, engine::AsyncEvent>> raised;
  int changes = 0;
};

/// A joined process's worth of descriptors and client.
struct Member {
  /// `published_bytes`: of the memory that it shows.
  explicit Member(size_t published_bytes = 1 << 20) {
    fabric = std::move(*wire::shm::ShmFabric::create(published_bytes, clock));
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

/// Another process with a member in it, until it is killed.
class MemberProcess {
 public:
  /// `prepare` runs there after joining.
  template <class Prepare>
  explicit MemberProcess(Prepare prepare) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      Member member;
      if (member.client) prepare(member);
      const uint32_t slot = member.client ? member.client->slot() : 0;
      if (write(ends[1], &slot, sizeof slot) != sizeof slot) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    if (read(ends[0], &slot_, sizeof slot_) != sizeof slot_) slot_ = 0;
    close(ends[0]);
  }
  MemberProcess() : MemberProcess([](Member&) {}) {}
  ~MemberProcess() { kill_it(); }
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;

  void kill_it() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  uint32_t slot() const { return slot_; }

 private:
  pid_t pid_ = 0;
  uint32_t slot_ = 0;
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
    if (const pid_t pid = agent_pid()) {
      kill(pid, SIGKILL);
      EXPECT_TRUE(eventually([&] { return agent_pid() != pid; }));
    }
    const std::string history = history_path(name_);
    for (const std::string& file : {history, history + ".new"}) unlink(file.c_str());
  }
  /// 0: none runs.
  pid_t agent_pid() const {
    const int socket = connect_name(name_, 3000);
    if (socket < 0) return 0;
    ucred peer{};
    socklen_t length = sizeof peer;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    close(socket);
    return peer.pid;
  }
  /// Kills it and returns when its name is free.
  void kill_agent() const {
    const pid_t pid = agent_pid();
    ASSERT_NE(0, pid);
    ASSERT_EQ(0, kill(pid, SIGKILL));
    ASSERT_TRUE(eventually([&] { return agent_pid() == 0; }));
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

}  // namespace verbatim::agent
