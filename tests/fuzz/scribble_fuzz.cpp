// SPDX-License-Identifier: MIT
// A process scribbles over its shared memory, its own and what it may write of its peer's, in the midst of
// traffic. The peer polls on: its queue pairs may fail, but it neither crashes nor hangs, and its next peer
// is served. usage: scribble_fuzz [--seconds N] [--seed N]
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "tests/fuzz/random.h"
#include "tests/stress/traffic.h"

using namespace verbatim::stress;
using verbatim::fuzz::Random;

namespace {

constexpr uint64_t kScribbleNs = 30 * kMillisecondNs;
constexpr uint64_t kEndMaxNs = 15 * kSecondNs;
constexpr size_t kHeaderBytes = 1 << 20;  ///< of each file: headers, counters, ring controls, the first rings

struct Span {
  std::byte* base;
  size_t bytes;
};

/// Writable mappings of shared memory files: before a peer is met this process's own, then also the peers'
/// inbound ones.
std::vector<Span> shared_memory() {
  std::vector<Span> found;
  FILE* maps = fopen("/proc/self/maps", "re");
  require(maps, "/proc/self/maps");
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    uint64_t from = 0, to = 0;
    char rights[5] = "";
    if (!std::strstr(line, "memfd:verbatim")) continue;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3 || rights[1] != 'w')
      continue;
    found.push_back({reinterpret_cast<std::byte*>(from), to - from});
  }
  fclose(maps);
  if (found.empty()) fail("no shared memory is mapped");
  return found;
}

void scribble(const Span& span, Random& random) {
  const bool front = random.below(4) != 0;
  const size_t most = front ? std::min(span.bytes, kHeaderBytes) : span.bytes;
  const size_t at = random.next() % most;
  const size_t bytes = std::min<size_t>(span.bytes - at, random.one_in(2) ? 8 : 1 + random.below(4096));
  random.fill(span.base + at, bytes);
}

/// Meets the victim, then writes nonsense until it is killed.
int run_scribbler(uint64_t seed) {
  Random random(seed);
  Device device = open_device();
  const std::vector<Span> own = shared_memory();
  Traffic traffic(device, seed);
  if (!traffic.meet(kParentSocket)) return 1;
  const uint64_t began = now_ns();
  while (now_ns() - began < kScribbleNs / 2) traffic.turn();
  const std::vector<Span> targets = seed % 2 == 0 ? own : shared_memory();
  for (;;) scribble(targets[random.below(static_cast<uint32_t>(targets.size()))], random);
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

/// The victim's life with one scribbler: traffic before, during and after, until its queue pairs have ended.
void suffer(const Device& device, uint64_t seed) {
  const Child peer = start_self("--scribbler", std::to_string(seed).c_str());
  {
    Traffic traffic(device, seed + 1);
    traffic.tolerate_any_end();
    if (!traffic.meet(peer.socket)) fail("seed %" PRIu64 ": the scribbler did not come up", seed);
    const uint64_t began = now_ns();
    while (now_ns() - began < kScribbleNs) traffic.turn();
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
  if (seed % 2 == 0) recover(device, seed);
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
