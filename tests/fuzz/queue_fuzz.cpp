// SPDX-License-Identifier: MIT
// Garbage in raw queue memory, doorbell records and completion queue doorbells; freed buffers, wrong keys.
// The device may refuse whatever it likes, but it never crashes, never touches memory that it was not given,
// and serves the next queue pair as if nothing had been. usage: queue_fuzz [--seconds N] [--seed N]      a
// seed alone runs that one world again
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "engine/status.h"
#include "runtime/process.h"
#include "tests/fuzz/raw_queues.h"

using namespace verbatim;
using namespace verbatim::fuzz;

namespace {

constexpr size_t kMemoryBytes = 64 << 10;
constexpr uint32_t kMemories = 4;
constexpr uint32_t kStepsPerWorld = 400;

class Deaf final : public hw::EventSink {
 public:
  void on_completion(hw::Cq&) override {}
  void on_async(hw::AsyncEvent, void*) override {}
};

double now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

[[noreturn]] void fail(const char* what, uint64_t seed) {
  std::fprintf(stderr, "FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), what);
  std::abort();
}

/// Registered memory with forbidden pages around it, some of which vanishes under the device's hands.
class Memories {
 public:
  Memories(hw::Hca& hca, hw::Pd* pd) : hca_(hca) {
    for (uint32_t i = 0; i < kMemories; i++) {
      Memory memory;
      memory.bytes = kMemoryBytes;
      void* room = mmap(nullptr, kMemoryBytes + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      memory.base = static_cast<std::byte*>(room) + 4096;
      remap(memory);
      hw::MrSpec spec;
      spec.pd = pd;
      spec.address = spec.start = reinterpret_cast<uint64_t>(memory.base);
      spec.length = memory.bytes;
      spec.access =
          i == 3 ? 0
                 : engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;
      auto made = hca.create_mr(spec);
      if (made) memory.mr = *made;
      all_.push_back(memory);
    }
  }
  ~Memories() {
    for (Memory& memory : all_) {
      if (memory.mr) (void)hca_.destroy_mr(memory.mr);
      munmap(memory.base - 4096, kMemoryBytes + 2 * 4096);
    }
  }
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  const std::vector<Memory>& all() const { return all_; }
  /// The first is left alone, so that something can always be moved.
  void disturb(Random& random) {
    Memory& memory = all_[1 + random.below(kMemories - 1)];
    if (memory.mapped && random.one_in(2)) {
      mprotect(memory.base + random.below(8) * 4096, 8 * 4096, random.one_in(2) ? PROT_NONE : PROT_READ);
      memory.mapped = false;
    } else if (memory.mr && random.one_in(8)) {
      (void)hca_.destroy_mr(memory.mr);
      memory.mr = nullptr;
    } else {
      remap(memory);
    }
  }

 private:
  static void remap(Memory& memory) {
    mprotect(memory.base, memory.bytes, PROT_READ | PROT_WRITE);
    memory.mapped = true;
  }
  hw::Hca& hca_;
  std::vector<Memory> all_;
};

Target target_of(const Memory& memory, const RawQueues& queues) {
  return {reinterpret_cast<uint64_t>(memory.base), kMemoryBytes, memory.mr ? memory.mr->rkey : 0x1200,
          queues.qpn()};
}

void step(RawQueues& mine, RawQueues& other, Memories& memories, Random& random) {
  const Memory& aim = memories.all()[random.below(kMemories)];
  switch (random.below(16)) {
    case 0:
      mine.damage_doorbells();
      return;
    case 1:
      mine.damage_queues();
      return;
    case 2:
      return memories.disturb(random);
    case 3:
      return mine.arm();
    case 4:
      if (random.one_in(4)) mine.resize();
      return;
    case 5:
    case 6:
      mine.connect(target_of(aim, other), random.one_in(4));
      other.connect(target_of(aim, mine), random.one_in(4));
      return;
    case 7:
    case 8:
    case 9:
      return mine.post_receives(1 + random.below(8), memories.all());
    case 10:
      mine.take_completions();
      return;
    default:
      return mine.post_sends(1 + random.below(4), memories.all(), target_of(aim, other));
  }
}

/// Completions of all worlds by kind: proof that the noise gets somewhere.
uint64_t g_taken[16];

void count_completions(const RawQueues& queues) {
  for (int i = 0; i < 16; i++) g_taken[i] += queues.taken()[i];
}

/// Everything again from nothing, then that the device still works.
void run_world(hw::Hca& hca, uint64_t seed) {
  Random random(seed);
  auto pd = hca.create_pd();
  if (!pd) fail("create_pd", seed);
  {
    Memories memories(hca, *pd);
    static constexpr hw::QpType kTypes[] = {hw::QpType::kRc, hw::QpType::kRc, hw::QpType::kUc,
                                            hw::QpType::kUd};
    const hw::QpType type = kTypes[random.below(4)];
    const bool shared = random.one_in(3);
    {
      RawQueues one(hca, *pd, type, shared, random), two(hca, *pd, type, shared, random);
      for (uint32_t i = 0; i < kStepsPerWorld; i++) {
        random.one_in(2) ? step(one, two, memories, random) : step(two, one, memories, random);
        hca.poll();
      }
      count_completions(one);
      count_completions(two);
    }
    RawQueues one(hca, *pd, hw::QpType::kRc, false, random), two(hca, *pd, hw::QpType::kRc, false, random);
    one.connect(target_of(memories.all()[0], two), false);
    two.connect(target_of(memories.all()[0], one), false);
    if (!RawQueues::exchange(one, two, memories.all()[0]))
      fail("a message between new queue pairs is lost", seed);
  }
  if (!hca.destroy_pd(*pd)) fail("destroy_pd", seed);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::optional<uint64_t> only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) only = std::strtoull(argv[i + 1], nullptr, 0);
  }
  const std::string name = "verbatim-fuzz/" + std::to_string(getpid());
  setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0);
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  auto devices = runtime::list_devices();
  if (!devices || devices->empty()) fail("no device", 0);
  Deaf sink;
  auto device = runtime::open_device(devices->front(), sink);
  if (!device) fail(device.error().reason.c_str(), 0);
  hw::Hca& hca = (*device)->hca();
  uint64_t seed = only ? *only : static_cast<uint64_t>(time(nullptr)) * 1000000, worlds = 0;
  std::printf("queue_fuzz: first seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const double began = now_s();
  for (; worlds == 0 || (!only && now_s() - began < seconds); worlds++) {
    alarm(30);  // a world that takes this long hangs
    run_world(hca, seed + worlds);
  }
  alarm(0);
  const uint64_t arrived = g_taken[connectx::kCqeSend] + g_taken[connectx::kCqeSendImmediate] +
                           g_taken[connectx::kCqeWriteImmediate];
  const auto shown = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("queue_fuzz: completions: sent %llu, received %llu, send errors %llu, receive errors %llu\n",
              shown(g_taken[connectx::kCqeRequest]), shown(arrived),
              shown(g_taken[connectx::kCqeRequestError]), shown(g_taken[connectx::kCqeReceiveError]));
  std::printf("queue_fuzz: %llu worlds of %u steps, no crash\n", static_cast<unsigned long long>(worlds),
              kStepsPerWorld);
  return 0;
}
