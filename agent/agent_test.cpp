// SPDX-License-Identifier: MIT
// The agent as a process of its own, under a private name.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <fstream>
#include <set>
#include <thread>

#include "agent/test_member.h"

namespace verbatim::agent {
namespace {

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
  MemberProcess b;
  ASSERT_NE(0u, b.slot());
  ASSERT_NE(0u, a.client->slot_generation(b.slot()));
  b.kill_it();
  Notices notices;
  EXPECT_TRUE(eventually([&] {
    a.client->handle_notices(notices);
    return !notices.gone.empty();
  }));
  EXPECT_EQ(std::vector<uint32_t>{b.slot()}, notices.gone);
  EXPECT_EQ(0u, a.client->slot_generation(b.slot()));
}

TEST_F(AgentTest, ClientsOutliveTheAgent) {
  Member a, b;
  const uint32_t slot_a = a.client->slot(), slot_b = b.client->slot();
  Gid group;
  group.bytes[0] = 0xff;
  ASSERT_TRUE(a.client->join_group(group));
  const Expected<uint32_t> extra = a.client->extra_slot();
  ASSERT_TRUE(extra);
  kill_agent();
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
  EXPECT_EQ(a.client->generation(), c.client->slot_generation(*extra));
  EXPECT_TRUE(notices.gone.empty()) << "nobody has gone";
  uint32_t members[8];
  ASSERT_EQ(1u, c.client->members(group, members, 8));
  EXPECT_EQ(slot_a, members[0]);
}

TEST_F(AgentTest, ARequestBringsTheAgentBack) {
  Member a;
  MemberProcess b;
  kill_agent();
  const Expected<uint32_t> extra = a.client->extra_slot();
  ASSERT_TRUE(extra) << extra.error().reason;
  EXPECT_NE(a.client->slot(), *extra);
  EXPECT_EQ(a.client->generation(), a.client->slot_generation(*extra));
  Notices notices;
  a.client->handle_notices(notices);
  EXPECT_TRUE(notices.gone.empty()) << "the other one lives, though the new agent does not know it yet";
}

Outcome let_happen(engine::AsyncEvent event, uint32_t value) {
  const Expected<int> socket = reach_agent();
  if (!socket) return socket.error();
  Request request{};
  request.ask = Ask::kRaiseEvent;
  request.index = 1;
  request.slot = static_cast<uint32_t>(event);
  request.generation = value;
  Answer answer{};
  int files[kFilesMax], count = 0;
  Outcome asked = ask_agent(*socket, request, answer, files, count);
  close(*socket);
  return asked;
}

TEST_F(AgentTest, PortsOutliveTheAgent) {
  Member a;
  ASSERT_TRUE(let_happen(engine::AsyncEvent::kPortError, 0));
  ASSERT_TRUE(let_happen(engine::AsyncEvent::kPkeyChange, 0x8001));
  ASSERT_TRUE(let_happen(engine::AsyncEvent::kLidChange, 77));
  const engine::PortSetting made = a.client->port_setting(1);
  ASSERT_TRUE(made.down);
  Notices known;
  a.client->handle_notices(known);
  kill_agent();
  Member b;  // starts the next one
  ASSERT_TRUE(b.client) << b.error.reason;
  Notices again, news;
  a.client->handle_notices(again);
  EXPECT_EQ(made, a.client->port_setting(1));
  EXPECT_EQ(made, b.client->port_setting(1));
  a.client->handle_notices(again);
  EXPECT_TRUE(again.raised.empty()) << "it has heard of it";
  b.client->handle_notices(news);
  ASSERT_EQ(1u, news.raised.size());
  EXPECT_EQ(std::pair(1u, engine::AsyncEvent::kPortError), news.raised[0]);
  EXPECT_EQ(engine::PortSetting{}, b.client->port_setting(0));
  ASSERT_TRUE(let_happen(engine::AsyncEvent::kPortActive, 0));
  EXPECT_FALSE(a.client->port_setting(1).down);
}

TEST_F(AgentTest, ThreadsAskWhileAgentsComeAndGo) {
  Member a, b;
  ASSERT_TRUE(a.client && b.client);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  Notices notices;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!stop) {
      pollfd file{a.client->fd(), POLLIN, 0};
      if (poll(&file, 1, 10) > 0 || file.fd < 0) a.client->handle_notices(notices);
    }
  });
  threads.emplace_back([&] {
    Notices others;
    while (!stop) {
      poll(nullptr, 0, 5);
      b.client->handle_notices(others);
    }
  });
  for (uint8_t i = 0; i < 3; i++)
    threads.emplace_back([&, i] {
      Gid group;
      group.bytes = {0xff, i};
      while (!stop) {
        auto handles = a.client->introduce(b.client->slot());
        if (!handles) continue;
        int files[3] = {handles->published, handles->inbound, handles->wake};
        close_files(files, 3);
        if (a.client->join_group(group)) answered++;
        if (a.client->is_local(a.client->gid(0).gid)) (void)a.client->leave_group(group);
      }
    });
  for (int round = 0; round < 5; round++) {
    const int before = answered;
    ASSERT_TRUE(eventually([&] { return answered > before + 20; }));
    const pid_t agent = agent_pid();
    if (agent > 0) kill(agent, SIGKILL);
  }
  const int before = answered;
  EXPECT_TRUE(eventually([&] { return answered > before + 20; })) << "and it goes on after the last one";
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a.client->generation(), b.client->slot_generation(a.client->slot()));
  EXPECT_TRUE(notices.gone.empty());
}

TEST_F(AgentTest, NoticesADeathWhileNoAgentRan) {
  Member a;
  MemberProcess b;
  ASSERT_NE(0u, a.client->slot_generation(b.slot()));
  kill_agent();
  b.kill_it();
  Notices notices;
  EXPECT_TRUE(eventually([&] {
    a.client->handle_notices(notices);
    return !notices.gone.empty();
  }));
  EXPECT_EQ(std::vector<uint32_t>{b.slot()}, notices.gone);
}

TEST_F(AgentTest, ASlowAgentIsNotALostOne) {
  Member a, b;
  const pid_t agent = agent_pid();
  ASSERT_EQ(0, kill(agent, SIGSTOP));
  const uint64_t began = a.clock.now_ns();
  const auto refused = a.client->introduce(b.client->slot());
  const uint64_t took = a.clock.now_ns() - began;
  ASSERT_EQ(0, kill(agent, SIGCONT));
  ASSERT_FALSE(refused);
  EXPECT_EQ(EAGAIN, refused.error().code);
  EXPECT_LT(took, 4'000'000'000u);
  // The answer that came late is not taken for this question's.
  EXPECT_EQ(ESRCH, a.client->introduce(1000).error().code);
  auto handles = a.client->introduce(b.client->slot());
  ASSERT_TRUE(handles);
  EXPECT_EQ(b.client->slot(), handles->primary_slot);
  int files[3] = {handles->published, handles->inbound, handles->wake};
  close_files(files, 3);
  Notices notices;
  b.client->handle_notices(notices);
  EXPECT_TRUE(notices.gone.empty());
  EXPECT_EQ(agent, agent_pid());
}

TEST_F(AgentTest, TooManyOpenFilesAreNoLostAgent) {
  Member a, b;
  ASSERT_TRUE(a.client && b.client);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  rlimit before{};
  ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &before));
  const rlimit tight{static_cast<rlim_t>(next) + 2, before.rlim_max};
  ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &tight));
  const auto refused = a.client->introduce(b.client->slot());
  ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &before));
  close(next);
  ASSERT_FALSE(refused);
  EXPECT_EQ(EMFILE, refused.error().code) << refused.error().reason;
  auto handles = a.client->introduce(b.client->slot());
  ASSERT_TRUE(handles) << handles.error().reason;
  int files[3] = {handles->published, handles->inbound, handles->wake};
  close_files(files, 3);
  Notices notices;
  b.client->handle_notices(notices);
  EXPECT_TRUE(notices.gone.empty());
}

TEST_F(AgentTest, AnAgentWithTooManyOpenFilesSaysSo) {
  Member a;
  const pid_t agent = agent_pid();
  rlim_t lowest = 0;  // free descriptor
  while (access(("/proc/" + std::to_string(agent) + "/fd/" + std::to_string(lowest)).c_str(), F_OK) == 0)
    lowest++;
  rlimit before{};
  ASSERT_EQ(0, prlimit(agent, RLIMIT_NOFILE, nullptr, &before));
  const rlimit tight{lowest + 3, before.rlim_max};  // a connection, its process and one file beside a request
  ASSERT_EQ(0, prlimit(agent, RLIMIT_NOFILE, &tight, nullptr));
  Member b;
  ASSERT_EQ(0, prlimit(agent, RLIMIT_NOFILE, &before, nullptr));
  ASSERT_FALSE(b.client);
  EXPECT_EQ(EMFILE, b.error.code) << b.error.reason;
  Member c;
  EXPECT_TRUE(c.client) << c.error.reason;
}

volatile sig_atomic_t children_ended = 0;

std::string status_line(pid_t pid, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key, 0) == 0) return line.substr(line.find_last_of(" \t") + 1);
  return "";
}

TEST_F(AgentTest, TheProgramNoticesNothing) {
  const int marker = open("/etc/passwd", O_RDONLY);  // not close-on-exec
  ASSERT_GE(marker, 0);
  struct sigaction count {
  }, before;
  count.sa_handler = [](int) { children_ended = 1; };
  sigaction(SIGCHLD, &count, &before);
  signal(SIGUSR1, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  Member a;
  ASSERT_TRUE(a.client) << a.error.reason;
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  signal(SIGUSR1, SIG_DFL);
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(0, children_ended);
  EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG | __WALL));
  EXPECT_EQ(ECHILD, errno);

  const pid_t agent = agent_pid();
  EXPECT_EQ("0000000000000000", status_line(agent, "SigBlk"));
  EXPECT_EQ(std::string("0000000000001000"), status_line(agent, "SigIgn"));  // SIGPIPE, its own doing
  EXPECT_NE(getsid(0), getsid(agent));
  const std::string folder = "/proc/" + std::to_string(agent);
  char target[PATH_MAX];
  ASSERT_EQ(1, readlink((folder + "/cwd").c_str(), target, sizeof target));
  EXPECT_EQ('/', target[0]);
  DIR* files = opendir((folder + "/fd").c_str());
  ASSERT_NE(nullptr, files);
  while (const dirent* entry = readdir(files)) {
    const ssize_t length = readlink((folder + "/fd/" + entry->d_name).c_str(), target, sizeof target);
    const std::string file(target, length > 0 ? static_cast<size_t>(length) : 0);
    EXPECT_NE("/etc/passwd", file);
    const bool standard = std::set<std::string>{"0", "1", "2"}.count(entry->d_name) > 0;
    EXPECT_TRUE(!standard || file == "/dev/null") << file;
  }
  closedir(files);
  close(marker);
}

TEST_F(AgentTest, ManyStartAtOnceAndOneAgentServesThem) {
  constexpr int kPrograms = 12;
  int ends[2];
  ASSERT_EQ(0, pipe(ends));
  std::vector<pid_t> children;
  for (int i = 0; i < kPrograms; i++) {
    const pid_t child = fork();
    if (child == 0) {
      Member member;
      if (!member.client) _exit(1);
      const pid_t agent = agent_pid();
      _exit(write(ends[1], &agent, sizeof agent) == sizeof agent ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status);
  }
  std::set<pid_t> agents;
  pid_t agent = 0;
  for (int i = 0; i < kPrograms; i++) {
    ASSERT_EQ(static_cast<ssize_t>(sizeof agent), read(ends[0], &agent, sizeof agent));
    agents.insert(agent);
  }
  EXPECT_EQ(1u, agents.size());
  close(ends[0]);
  close(ends[1]);
}

TEST_F(AgentTest, AForkedChildLetsGo) {
  auto a = std::make_unique<Member>();
  ASSERT_TRUE(a->client);
  const uint32_t slot = a->client->slot();
  Member b;
  int ends[2];
  ASSERT_EQ(0, pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    a->client->after_fork_child();
    b.client->after_fork_child();
    char byte;
    _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
  }
  a.reset();
  EXPECT_TRUE(eventually([&] { return b.client->slot_generation(slot) == 0; }));
  const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
  EXPECT_GE(proof, 0) << "the slot can be given out again though the child lives";
  if (proof >= 0) close(proof);
  EXPECT_EQ(1, write(ends[1], "x", 1));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(0, status);
  close(ends[0]);
  close(ends[1]);
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
    const int taken = bind_name(name_, SOCK_SEQPACKET);
    if (taken >= 0) close(taken);
    return taken >= 0;
  }));
  EXPECT_LT(clock.now_ns() - began, 10'000'000'000u);
}

TEST_F(AgentTest, SaysWhyItCannotStart) {
  setenv("VERBATIM_AGENT", "/nonexistent/verbatimd", 1);
  Member a;
  ASSERT_FALSE(a.client);
  EXPECT_EQ(ENOENT, a.error.code);
  EXPECT_NE(std::string::npos, a.error.reason.find("/nonexistent/verbatimd"));
}

TEST_F(AgentTest, SaysThatWhatWasStartedIsNoAgent) {
  setenv("VERBATIM_AGENT", "/bin/true", 1);
  const SystemClock clock;
  const uint64_t began = clock.now_ns();
  Member a;
  ASSERT_FALSE(a.client);
  EXPECT_EQ(EAGAIN, a.error.code);
  EXPECT_NE(std::string::npos, a.error.reason.find("true was started but does not answer")) << a.error.reason;
  EXPECT_LT(clock.now_ns() - began, 6'000'000'000u);
  setenv("VERBATIM_AGENT", "/bin/false", 1);
  Member b;
  ASSERT_FALSE(b.client);
  EXPECT_NE(std::string::npos, b.error.reason.find("failed to start")) << b.error.reason;
}

// Needs another user to play the other user.
TEST_F(AgentTest, RefusesANameThatSomebodyElseHolds) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  int ends[2];
  ASSERT_EQ(0, pipe(ends));
  const pid_t squatter = fork();
  if (squatter == 0) {
    if (setuid(65534) != 0) _exit(1);
    const int taken = bind_name(name_, SOCK_SEQPACKET);
    if (taken < 0 || listen(taken, 8) != 0 || write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(1, read(ends[0], &byte, 1));
  Member a;
  kill(squatter, SIGKILL);
  waitpid(squatter, nullptr, 0);
  ASSERT_FALSE(a.client);
  EXPECT_EQ(EACCES, a.error.code);
  EXPECT_NE(std::string::npos, a.error.reason.find("process " + std::to_string(squatter))) << a.error.reason;
}

}  // namespace
}  // namespace verbatim::agent
