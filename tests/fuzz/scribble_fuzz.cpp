// SPDX-License-Identifier: MIT
// A process scribbles over its shared memory, its own and what it may write of its peer's, in the midst of
// traffic. The peer polls on: its queue pairs may fail, but it neither crashes nor hangs, its next peer is
// served, and `verbatim status` and `explain` stand it as well. usage: scribble_fuzz [--seconds N] [--seed N]
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "tests/fuzz/vandal.h"
#include "tests/stress/traffic.h"

using namespace verbatim::stress;
using verbatim::fuzz::Random;
using verbatim::fuzz::Vandal;

namespace {

constexpr uint64_t kScribbleNs = 30 * kMillisecondNs;
constexpr uint64_t kEndMaxNs = 45 * kSecondNs;
constexpr uint64_t kToolMaxNs = 30 * kSecondNs;
constexpr uint32_t kToolEvery = 8;  ///< rounds

/// What a scribbler does, by its seed.
struct Habits {
  bool peers, only_peers, busy;  ///< the peer's memory too, or alone; traffic goes on meanwhile
  explicit Habits(uint64_t seed) : peers(seed % 4 >= 2), only_peers(seed % 4 == 2), busy(seed / 4 % 2 == 1) {}
};

/// Meets the victim, then writes nonsense until it is killed.
int run_scribbler(uint64_t seed) {
  Random random(seed);
  const Habits habits(seed);
  Device device = open_device();
  Vandal vandal(random);
  Traffic traffic(device, seed);
  traffic.tolerate_any_end();
  if (!traffic.meet(kParentSocket)) return 1;
  const uint64_t began = now_ns();
  while (now_ns() - began < kScribbleNs / 2) traffic.turn();
  if (habits.peers) vandal.aim_at_peers(habits.only_peers);
  if (!habits.busy)
    for (;;) vandal.strike();
  std::thread([&] {
    for (;;) vandal.strike();
  }).detach();
  for (;;) traffic.turn();
}

int run_honest(uint64_t seed) {
  Device device = open_device();
  {
    Traffic traffic(device, seed);
    if (!traffic.meet(kParentSocket)) return 1;
    char byte;
    while (recv(kParentSocket, &byte, 1, MSG_DONTWAIT) != 0) traffic.turn();
  }
  close_device(device);
  return 0;
}

/// Spoilt tables may make the scribbler itself stumble: that is no report on the victim.
Child start_scribbler(uint64_t seed) {
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string before = options ? options : "";
  setenv("ASAN_OPTIONS", "log_path=stderr", 1);
  const Child peer = start_self("--scribbler", std::to_string(seed).c_str());
  setenv("ASAN_OPTIONS", before.c_str(), 1);
  return peer;
}

/// What the tool shows of such a process may be nonsense, too, but it shows it and ends.
void look_at_it(Traffic& traffic, uint64_t seed) {
  const bool odd = seed % kToolEvery == 1;
  char program[] = VERBATIM_TEST_TOOL, status[] = "status", json[] = "--json", explain[] = "explain";
  char* const arguments[] = {program, odd ? explain : status, odd ? nullptr : json, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  errno = posix_spawn(&pid, program, &actions, nullptr, arguments, environ);
  require(errno == 0, "posix_spawn of the tool");
  posix_spawn_file_actions_destroy(&actions);
  int ended = 0;
  const uint64_t began = now_ns();
  while (waitpid(pid, &ended, WNOHANG) == 0) {
    traffic.turn();
    if (now_ns() - began > kToolMaxNs) fail("seed %" PRIu64 ": verbatim %s hangs", seed, arguments[1]);
  }
  if (ended != 0) fail("seed %" PRIu64 ": verbatim %s ended with status 0x%x", seed, arguments[1], ended);
}

/// The victim's life with one scribbler: traffic before, during and after, until its queue pairs have ended.
void suffer(const Device& device, uint64_t seed) {
  const Child peer = start_scribbler(seed);
  {
    Traffic traffic(device, seed + 1);
    traffic.tolerate_any_end();
    if (!traffic.meet(peer.socket)) fail("seed %" PRIu64 ": the scribbler did not come up", seed);
    const uint64_t began = now_ns();
    while (now_ns() - began < kScribbleNs) traffic.turn();
    if (seed % kToolEvery < 2) look_at_it(traffic, seed);
    require(kill(peer.pid, SIGKILL) == 0, "kill");
    reap(peer);
    const uint64_t killed = now_ns();
    while (!traffic.all_ended()) {
      traffic.probe();
      traffic.listen(0);
      if (now_ns() - killed > kEndMaxNs) fail("seed %" PRIu64 ":%s", seed, traffic.state_text());
    }
  }
  close(peer.socket);
}

/// An honest peer is served as ever.
void recover(const Device& device, uint64_t seed) {
  const Child peer = start_self("--honest", std::to_string(seed).c_str());
  {
    Traffic traffic(device, seed + 2);
    if (!traffic.meet(peer.socket)) fail("seed %" PRIu64 ": the next peer did not come up", seed);
    const uint64_t began = now_ns();
    while (traffic.completed() < 200) {
      traffic.turn();
      if (traffic.any_failed()) fail("seed %" PRIu64 ": the next peer's queue pairs fail", seed);
      if (now_ns() - began > kEndMaxNs) fail("seed %" PRIu64 ": the next peer is not served", seed);
    }
    shutdown(peer.socket, SHUT_WR);
    if (reap(peer) != 0) fail("seed %" PRIu64 ": the next peer failed", seed);
  }
  close(peer.socket);
}

/// A victim of its own for each seed: damage does not add up.
int run_victim(uint64_t seed) {
  Device device = open_device();
  suffer(device, seed);
  // Whoever wrote into the victim's own memory may have stopped its other peers as well.
  if (!Habits(seed).peers) recover(device, seed);
  close_device(device);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 0); };
  if (argc == 3 && std::strcmp(argv[1], "--scribbler") == 0) return run_scribbler(number(2));
  if (argc == 3 && std::strcmp(argv[1], "--honest") == 0) return run_honest(number(2));
  if (argc == 3 && std::strcmp(argv[1], "--victim") == 0) return run_victim(number(2));
  uint64_t seconds = 10, seed = static_cast<uint64_t>(time(nullptr)) * 1000, rounds = 0;
  bool once = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = number(i + 1);
    if (std::strcmp(argv[i], "--seed") == 0) seed = number(i + 1), once = true;
  }
  use_private_agent("scribble");
  const uint64_t began = now_ns();
  for (; rounds == 0 || (!once && now_ns() - began < seconds * kSecondNs); rounds++) {
    const Child victim = start_self("--victim", std::to_string(seed + rounds).c_str());
    const int status = reap(victim);
    close(victim.socket);
    if (status != 0) fail("seed %" PRIu64 ": the victim ended with status 0x%x", seed + rounds, status);
  }
  std::printf("scribble_fuzz: %" PRIu64 " scribblers survived\n", rounds);
  return 0;
}
