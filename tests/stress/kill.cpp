// SPDX-License-Identifier: MIT
// Kills the peer at random moments of its life, and the agent during traffic. The survivor learns of a dead
// peer by error completions within five seconds, nothing of the dead stays behind, and it goes on with the
// next.
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "agent/protocol.h"
#include "tests/stress/traffic.h"

using namespace verbatim::stress;

namespace {

constexpr uint64_t kNoticeMaxNs = 5 * kSecondNs;
constexpr useconds_t kQuietStartUs = 10'000;  ///< a peer that lives for longer has moved something
constexpr int kSettledRounds = 5;             ///< after these nothing may grow any more
constexpr uint32_t kGrowthMax = 8;

/// What the survivor and the agent hold; it must not grow with every dead peer.
struct Holdings {
  uint32_t mappings = 0, files = 0, agent_files = 0;
};

uint32_t count_files(int pid) {
  uint32_t count = 0;
  DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  require(folder, "opendir of a process's descriptors");
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

uint32_t count_mappings() {
  uint32_t count = 0;
  FILE* maps = fopen("/proc/self/maps", "re");
  require(maps, "/proc/self/maps");
  char line[512];
  while (fgets(line, sizeof line, maps)) count += std::strstr(line, "memfd:verbatim") != nullptr;
  fclose(maps);
  return count;
}

int agent_pid() {
  const int socket = verbatim::agent::connect_name(verbatim::agent::agent_name(), 5000);
  require(socket >= 0, "connect to the agent");
  ucred peer{};
  socklen_t bytes = sizeof peer;
  require(getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0, "SO_PEERCRED");
  close(socket);
  return peer.pid;
}

Holdings holdings() { return {count_mappings(), count_files(getpid()), count_files(agent_pid())}; }

/// Processes that `verbatim status` shows.
uint32_t count_processes() {
  FILE* tool = popen(VERBATIM_TEST_TOOL " status --json", "re");
  require(tool, "verbatim status");
  char line[512];
  uint32_t count = 0;
  while (fgets(line, sizeof line, tool)) count += std::strstr(line, "\"pid\":") != nullptr;
  if (pclose(tool) != 0) fail("verbatim status fails");
  return count;
}

void await_processes(uint32_t wanted) {
  const uint64_t began = now_ns();
  while (count_processes() != wanted) {
    if (now_ns() - began > kNoticeMaxNs)
      fail("verbatim status shows %u processes, not %u", count_processes(), wanted);
    usleep(20'000);
  }
}

/// Until the other side closes its socket.
int run_peer(const char* seed) {
  Device device = open_device();
  {
    Traffic traffic(device, std::strtoull(seed, nullptr, 0));
    if (!traffic.meet(kParentSocket)) return 1;
    char byte;
    while (recv(kParentSocket, &byte, 1, MSG_DONTWAIT) != 0) traffic.turn();
  }
  close_device(device);
  return 0;
}

/// One life and death of a peer. `quiet`: afterwards the survivor sleeps until it is told.
void run_round(const Device& device, uint64_t seed, bool quiet) {
  const Child peer = start_self("--peer", std::to_string(seed).c_str());
  std::atomic<uint64_t> killed_at{0};
  std::atomic<bool> met{false}, flows{false};
  std::thread killer([&] {
    const bool early =
        seed % 5 == 0;  // somewhere in its start; else after it, mostly in the midst of traffic
    const auto delay_us = static_cast<useconds_t>(seed / 5 % 40'000);
    while (!early && !met) usleep(200);
    usleep(delay_us);
    while (!early && delay_us > kQuietStartUs && !flows) usleep(200);
    require(kill(peer.pid, SIGKILL) == 0, "kill");
    killed_at = now_ns();
  });
  {
    Traffic traffic(device, seed ^ 0x5555);
    const bool connected = traffic.meet(peer.socket);
    flows = !connected;
    met = true;
    const uint64_t began = now_ns();
    while (killed_at == 0) {
      connected ? traffic.turn() : static_cast<void>(usleep(200));
      if (traffic.completed() > 0) flows = true;
      if (now_ns() - began > kNoticeMaxNs) fail("no traffic before the kill");
    }
    while (connected && !traffic.all_ended()) {
      traffic.probe();
      traffic.listen(quiet ? 50 : 0);
      if (now_ns() - killed_at > kNoticeMaxNs)
        fail("round of seed %llu:%s", static_cast<unsigned long long>(seed), traffic.state_text());
    }
    killer.join();
    const int status = reap(peer);
    if (!WIFSIGNALED(status)) fail("the peer ended by itself, status 0x%x", status);
  }
  close(peer.socket);
}

void kill_peers(const Device& device, int rounds, uint64_t seed) {
  Holdings settled;
  uint64_t slowest = 0;
  for (int i = 0; i < rounds; i++) {
    const uint64_t began = now_ns();
    run_round(device, (seed + static_cast<uint64_t>(i) * 0x9e3779b9) >> 3, i % 2 == 1);
    slowest = std::max(slowest, now_ns() - began);
    await_processes(1);
    if (i == kSettledRounds) settled = holdings();
  }
  const Holdings now = holdings();
  std::printf(
      "kill: %d peers, slowest round %.0f ms; mappings %u -> %u, descriptors %u -> %u, agent's %u -> %u\n",
      rounds, static_cast<double>(slowest) / 1e6, settled.mappings, now.mappings, settled.files, now.files,
      settled.agent_files, now.agent_files);
  std::fflush(stdout);
  if (rounds <= kSettledRounds) return;
  if (now.mappings > settled.mappings + kGrowthMax || now.files > settled.files + kGrowthMax ||
      now.agent_files > settled.agent_files + kGrowthMax)
    fail("what dead peers had is kept");
}

/// Traffic flows: many operations in at least `span_ns`, however slow the machine is today.
void expect_traffic(Traffic& traffic, uint64_t span_ns, const char* when) {
  constexpr uint64_t kOperations = 100;
  const uint64_t began = now_ns(), before = traffic.completed();
  while (now_ns() - began < span_ns || traffic.completed() - before < kOperations) {
    traffic.turn();
    if (traffic.any_failed()) fail("a queue pair failed %s", when);
    if (now_ns() - began > kNoticeMaxNs)
      fail("only %llu operations in %.1f s %s:%s",
           static_cast<unsigned long long>(traffic.completed() - before),
           static_cast<double>(now_ns() - began) / 1e9, when, traffic.state_text());
  }
}

void kill_agent(const Device& device) {
  const Child old_peer = start_self("--peer", "1");
  Traffic traffic(device, 2);
  if (!traffic.meet(old_peer.socket)) fail("the peer did not come up");
  expect_traffic(traffic, 200 * kMillisecondNs, "before the agent's end");
  const int before = agent_pid();
  require(kill(before, SIGKILL) == 0, "kill of the agent");
  expect_traffic(traffic, 300 * kMillisecondNs, "after the agent's end");
  {
    const Child new_peer = start_self("--peer", "3");
    Traffic second(device, 4);
    if (!second.meet(new_peer.socket)) fail("no process can join after the agent's end");
    expect_traffic(second, 200 * kMillisecondNs, "with a new peer");
    expect_traffic(traffic, 200 * kMillisecondNs, "with the old peer");
    if (agent_pid() == before) fail("the agent was not replaced");
    await_processes(3);
    shutdown(new_peer.socket, SHUT_WR);
    if (reap(new_peer) != 0) fail("the new peer failed");
  }
  shutdown(old_peer.socket, SHUT_WR);
  if (reap(old_peer) != 0) fail("the old peer failed");
  std::puts("kill: traffic goes on without the agent, and a new one takes over");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--peer") == 0) return run_peer(argv[2]);
  int rounds = 20;
  uint64_t seed = static_cast<uint64_t>(time(nullptr)) * 1000003;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 0);
  }
  use_private_agent("kill");
  std::printf("kill: seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Device device = open_device();
  kill_peers(device, rounds, seed);
  kill_agent(device);
  await_processes(1);
  close_device(device);
  std::puts("kill: passed");
  return 0;
}
