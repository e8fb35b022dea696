// SPDX-License-Identifier: MIT
// Garbage in raw queue memory, doorbell records and completion queue doorbells; freed buffers, wrong keys.
// The device may refuse whatever it likes, but it never crashes, never touches memory that it was not given,
// and serves the next queue pair as if nothing had been. The two players of a world live in one thread, in
// two, or in two processes, with and without cross-memory copies.
// usage: queue_fuzz [--seconds N] [--first SEED] [--seed SEED]    --seed: that world alone
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "runtime/process.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/player.h"

using namespace verbatim;
using namespace verbatim::fuzz;

namespace {

constexpr uint32_t kEpochs = 24, kStepsPerEpoch = 20;
constexpr unsigned kWorldMaxSeconds = 60;  ///< a world that takes this long hangs
constexpr uint64_t kEnoughWorlds = 2000;   ///< after so many, every operation has ended in every way

class Deaf final : public hw::EventSink {
 public:
  void on_completion(hw::Cq&) override {}
  void on_async(hw::AsyncEvent, void*) override {}
};

[[noreturn]] void fail(const char* what, uint64_t seed) {
  std::fprintf(stderr, "FAILED [%d] seed %llu: %s\n", getpid(), static_cast<unsigned long long>(seed), what);
  std::abort();
}

/// Another process with the other player of some worlds.
struct Partner {
  pid_t pid = -1;
  int socket = -1;
};

/// What the next world is like, for the partner.
struct Invitation {
  uint64_t seed;
  hw::QpType type;
};

template <class T>
void tell(int socket, const T& record, uint64_t seed) {
  if (send(socket, &record, sizeof record, MSG_NOSIGNAL) != sizeof record)
    fail("the partner has ended", seed);
}
template <class T>
bool hear(int socket, T& record) {
  return recv(socket, &record, sizeof record, MSG_WAITALL) == sizeof record;
}

/// Completions of all worlds by service: proof that the noise gets somewhere.
std::map<hw::QpType, Taken> g_taken;

void finish(const Player& player, uint64_t seed) {
  player.add_taken(g_taken[player.type()]);
  if (!player.memories().surroundings_intact()) fail("memory beside a region was written", seed);
}

void play_in_turn(hw::Hca& hca, hw::Pd* pd, hw::QpType type, uint64_t seed) {
  Random random(seed);
  Player one(hca, pd, type, random.next()), two(hca, pd, type, random.next());
  for (uint32_t epoch = 0; epoch < kEpochs; epoch++) {
    one.meet(two.card());
    two.meet(one.card());
    for (uint32_t i = 0; i < 2 * kStepsPerEpoch; i++) {
      random.one_in(2) ? one.step() : two.step();
      hca.poll();
    }
  }
  finish(one, seed);
  finish(two, seed);
}

void play_at_once(hw::Hca& hca, hw::Pd* pd, hw::QpType type, uint64_t seed) {
  Player one(hca, pd, type, seed), two(hca, pd, type, ~seed);
  Player* const players[] = {&one, &two};
  Card cards[2];
  std::barrier together(2);
  const auto play = [&](int i) {
    for (uint32_t epoch = 0; epoch < kEpochs; epoch++) {
      cards[i] = players[i]->card();
      together.arrive_and_wait();
      players[i]->meet(cards[1 - i]);
      together.arrive_and_wait();
      for (uint32_t step = 0; step < kStepsPerEpoch; step++) {
        players[i]->step();
        hca.poll();
      }
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  finish(one, seed);
  finish(two, seed);
}

/// One side of a world of two processes. It ends without a word to the other, in the midst of its traffic.
void play_apart(hw::Hca& hca, hw::Pd* pd, hw::QpType type, uint64_t seed, int socket) {
  Player player(hca, pd, type, seed);
  for (uint32_t epoch = 0; epoch < kEpochs; epoch++) {
    Card peer;
    tell(socket, player.card(), seed);
    if (!hear(socket, peer)) fail("the partner has ended", seed);
    player.meet(peer);
    char ready = 1;
    tell(socket, ready, seed);
    if (!hear(socket, ready)) fail("the partner has ended", seed);
    for (uint32_t step = 0; step < kStepsPerEpoch; step++) {
      player.step();
      hca.poll();
    }
  }
  finish(player, seed);
}

void expect_service(hw::Hca& hca, hw::Pd* pd, uint64_t seed) {
  Random random(seed);
  Memories memories(hca, pd, random);
  RawQueues one(hca, pd, Shape{}, random), two(hca, pd, Shape{}, random);
  one.connect(two.qpn(), false);
  two.connect(one.qpn(), false);
  if (!RawQueues::exchange(one, two, memories.sound()))
    fail("a message between new queue pairs is lost", seed);
}

/// Everything again from nothing, then that the device still works.
template <class Play>
void run_world(hw::Hca& hca, uint64_t seed, Play play) {
  alarm(kWorldMaxSeconds);
  auto pd = hca.create_pd();
  if (!pd) fail("create_pd", seed);
  play(*pd);
  expect_service(hca, *pd, seed);
  if (!hca.destroy_pd(*pd)) fail("destroy_pd", seed);
  alarm(0);
}

std::unique_ptr<runtime::OpenDevice> open_first(hw::EventSink& sink) {
  auto devices = runtime::list_devices();
  if (!devices || devices->empty()) fail("no device", 0);
  auto device = runtime::open_device(devices->front(), sink);
  if (!device) fail(device.error().reason.c_str(), 0);
  return std::move(*device);
}

void run_partner(int socket) {
  Deaf sink;
  auto device = open_first(sink);
  for (Invitation next; hear(socket, next);)
    run_world(device->hca(), next.seed,
              [&](hw::Pd* pd) { play_apart(device->hca(), pd, next.type, next.seed, socket); });
}

/// A child of this process before it has opened a device.
Partner start_partner(bool cross_memory) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair", 0);
  const pid_t pid = fork();
  if (pid < 0) fail("fork", 0);
  if (pid == 0) {
    close(ends[0]);
    if (!cross_memory) setenv("VERBATIM_NO_CMA", "1", 1);
    run_partner(ends[1]);
    std::exit(0);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

void end_partner(const Partner& partner) {
  shutdown(partner.socket, SHUT_RDWR);  // the other partner has it, too
  int status = 0;
  if (waitpid(partner.pid, &status, 0) != partner.pid || status != 0) fail("a partner did not end well", 0);
}

/// The seed alone decides what its world is like.
void run_seed(hw::Hca& hca, uint64_t seed, const Partner (&partners)[2]) {
  static constexpr hw::QpType kTypes[] = {hw::QpType::kRc,  hw::QpType::kDci, hw::QpType::kRc,
                                          hw::QpType::kDci, hw::QpType::kUc,  hw::QpType::kUd};
  const hw::QpType type = kTypes[Random(seed).below(6)];
  run_world(hca, seed, [&](hw::Pd* pd) {
    switch (seed % 4) {
      case 0:
        return play_in_turn(hca, pd, type, seed);
      case 1:
        return play_at_once(hca, pd, type, seed);
      default:
        const int socket = partners[seed % 4 - 2].socket;
        tell(socket, Invitation{~seed, type}, seed);
        play_apart(hca, pd, type, seed, socket);
    }
  });
}

struct Operation {
  uint8_t opcode;
  const char* name;
  bool datagrams, unreliable;  ///< whether UD and UC have it; RC and DC have all
};
constexpr Operation kOperations[] = {
    {connectx::kOpNop, "NOP", true, true},
    {connectx::kOpSend, "SEND", true, true},
    {connectx::kOpSendImmediate, "SEND_IMM", true, true},
    {connectx::kOpSendInvalidate, "SEND_INVAL", false, false},
    {connectx::kOpWrite, "RDMA_WRITE", false, true},
    {connectx::kOpWriteImmediate, "RDMA_WRITE_IMM", false, true},
    {connectx::kOpRead, "RDMA_READ", false, false},
    {connectx::kOpCompareSwap, "ATOMIC_CS", false, false},
    {connectx::kOpFetchAdd, "ATOMIC_FA", false, false},
    {connectx::kOpSetPsv, "SET_PSV", false, true},
    {connectx::kOpUmr, "UMR", false, true},
    {connectx::kOpMmo, "MMO", false, true},
};

bool has(hw::QpType type, const Operation& operation) {
  if (type == hw::QpType::kUd) return operation.datagrams;
  return type != hw::QpType::kUc || operation.unreliable;
}

unsigned long long shown(uint64_t n) { return n; }

/// How all requests of a service have ended. False: some operation never was carried out, or never failed.
bool report(hw::QpType type, const Taken& taken) {
  const char* service = type == hw::QpType::kRc    ? "RC"
                        : type == hw::QpType::kDci ? "DC"
                        : type == hw::QpType::kUc  ? "UC"
                                                   : "UD";
  bool all = true;
  for (const Operation& operation : kOperations) {
    const Ends& ends = taken.sends[operation.opcode];
    std::printf("queue_fuzz: %s %-15s %9llu done %9llu failed %9llu flushed\n", service, operation.name,
                shown(ends.done), shown(ends.failed), shown(ends.flushed));
    all &= !has(type, operation) || (ends.done != 0 && ends.failed != 0 && ends.flushed != 0);
  }
  return all;
}

void report(uint64_t worlds) {
  Taken sum;
  bool all = true;
  for (const auto& [type, taken] : g_taken) {
    sum += taken;
    all &= report(type, taken);
  }
  const uint64_t arrived = sum.kinds[connectx::kCqeSend] + sum.kinds[connectx::kCqeSendImmediate] +
                           sum.kinds[connectx::kCqeWriteImmediate] + sum.kinds[connectx::kCqeSendInvalidate];
  std::printf(
      "queue_fuzz: completions: sent %llu, received %llu, send errors %llu, receive errors %llu, signature "
      "errors %llu\n",
      shown(sum.kinds[connectx::kCqeRequest]), shown(arrived), shown(sum.kinds[connectx::kCqeRequestError]),
      shown(sum.kinds[connectx::kCqeReceiveError]), shown(sum.kinds[connectx::kCqeSignatureError]));
  std::printf("queue_fuzz: %llu worlds of %u steps, no crash\n", shown(worlds), 2 * kEpochs * kStepsPerEpoch);
  if (worlds >= 20 && (sum.kinds[connectx::kCqeRequest] == 0 || arrived == 0))
    fail("the noise gets nowhere", 0);
  if (worlds >= kEnoughWorlds && (!all || g_taken.size() != 4))
    fail("an operation never was carried out, or never failed", 0);
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 20);
  const std::string name = "verbatim-fuzz/" + std::to_string(getpid());
  setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0);
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  const Partner partners[] = {start_partner(true), start_partner(false)};
  uint64_t worlds = 0;
  {
    Deaf sink;
    auto device = open_first(sink);
    worlds = options.play("queue_fuzz", [&](uint64_t seed) { run_seed(device->hca(), seed, partners); });
  }
  for (const Partner& partner : partners) end_partner(partner);
  report(worlds);
  return 0;
}
