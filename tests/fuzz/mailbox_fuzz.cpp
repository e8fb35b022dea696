// SPDX-License-Identifier: MIT
// Command mailboxes, made from the tables of layouts: of every command, about objects that there are,
// sensible or with something wrong. The device may refuse whatever it likes, with a status of the interface
// and a syndrome; it never crashes, and all that was made can be destroyed again, or goes with the device.
// usage: mailbox_fuzz [--seconds N] [--first SEED] [--seed SEED] [--tally]    --seed: that world alone
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "abi/prm/general.h"
#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/view.h"
#include "runtime/process.h"
#include "tests/fuzz/mailbox_world.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/published_objects.h"

using namespace verbatim;
using namespace verbatim::fuzz;

namespace {

constexpr uint32_t kSteps = 1500;
constexpr unsigned kWorldMaxSeconds = 60;  ///< a world that takes this long hangs
constexpr uint64_t kEnoughWorlds = 100;    ///< after so many, each command has been carried out

class Deaf final : public hw::EventSink {
 public:
  void on_completion(hw::Cq&) override {}
  void on_async(hw::AsyncEvent, void*) override {}
};

Tally g_tally;

[[noreturn]] void fail(const std::string& what, uint64_t seed) {
  std::fprintf(stderr, "FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  std::abort();
}

std::unique_ptr<runtime::OpenDevice> open_first(hw::EventSink& sink) {
  auto devices = runtime::list_devices();
  if (!devices || devices->empty()) fail("no device", 0);
  auto device = runtime::open_device(devices->front(), sink);
  if (!device) fail(device.error().reason, 0);
  return std::move(*device);
}

void finish(const MailboxWorld& world, uint64_t seed) {
  if (!world.failure().empty()) fail(world.failure(), seed);
  for (const auto& [name, counts] : world.tally())
    for (size_t i = 0; i < counts.size(); i++) g_tally[name][i] += counts[i];
}

void play(MailboxWorld& world) {
  for (uint32_t i = 0; i < kSteps; i++) world.step();
}

/// Nothing is left of what was made.
void expect_nothing(uint64_t seed) {
  const std::string left = PublishedObjects().list();
  if (!left.empty()) fail("left behind: " + left, seed);
}

void play_and_tidy_up(hw::Hca& hca, uint64_t seed) {
  MailboxWorld world(hca, seed);
  play(world);
  world.expect_shown();
  MailboxWorld::end({&world});
  finish(world, seed);
}

/// Two programs of one device at once.
void play_together(hw::Hca& hca, uint64_t seed) {
  MailboxWorld one(hca, seed, {.alone = false}), two(hca, ~seed, {.alone = false});
  std::thread other([&two] { play(two); });
  play(one);
  other.join();
  MailboxWorld::end({&one, &two});
  finish(one, seed);
  finish(two, seed);
}

/// The device is closed in the midst of it. Its memory stays until then. Every other one takes keys wrapped.
void play_and_leave(uint64_t seed) {
  Deaf sink;
  const bool wrapped = seed % 8 == 0;
  if (wrapped) setenv("VERBATIM_CRYPTO", "wrapped", 1);
  auto device = open_first(sink);
  unsetenv("VERBATIM_CRYPTO");
  MailboxWorld world(device->hca(), seed, {.wrapped = wrapped});
  play(world);
  device.reset();
  finish(world, seed);
}

void expect_service(hw::Hca& hca, uint64_t seed) {
  std::array<uint8_t, 16> in{}, out{};
  prm::Writer<prm::NopIn>(in).set(prm::NopIn::opcode, prm::Nop::kOpcode);
  hca.execute(in, out);
  if (out[0] != 0) fail("a plain command is refused", seed);
}

void run_seed(hw::Hca& hca, uint64_t seed) {
  alarm(kWorldMaxSeconds);
  if (seed % 4 == 0)
    play_and_leave(seed);
  else if (seed % 4 == 1)
    play_together(hca, seed);
  else
    play_and_tidy_up(hca, seed);
  expect_service(hca, seed);
  expect_nothing(seed);
  alarm(0);
}

/// Commands that the device offers and that were never carried out.
std::string never_done() {
  std::string names;
  for (const prm::CommandInfo& command : prm::all_commands())
    if (prm::command_table().offers(command) && g_tally[command.name][0] == 0)
      names += std::string(" ") + command.name;
  return names;
}

void report(uint64_t worlds, bool all) {
  uint64_t done = 0, refused = 0;
  for (const auto& [name, counts] : g_tally) {
    done += counts[0];
    refused += counts[1];
    if (all)
      std::printf("%-32s %9llu sent %9llu done %9llu refused\n", name.c_str(),
                  static_cast<unsigned long long>(counts[0] + counts[1]),
                  static_cast<unsigned long long>(counts[0]), static_cast<unsigned long long>(counts[1]));
  }
  std::printf("mailbox_fuzz: %zu commands, %llu carried out, %llu refused\n", g_tally.size(),
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(refused));
  std::printf("mailbox_fuzz: %llu worlds of %u steps, no crash\n", static_cast<unsigned long long>(worlds),
              kSteps);
  const std::string never = never_done();
  if (worlds >= kEnoughWorlds && !never.empty()) fail("never carried out:" + never, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 10);
  const std::string name = "verbatim-mailboxes/" + std::to_string(getpid());
  setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0);
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  uint64_t worlds = 0;
  {
    Deaf sink;
    auto device = open_first(sink);
    worlds = options.play("mailbox_fuzz", [&](uint64_t seed) { run_seed(device->hca(), seed); });
  }
  report(worlds, options.has("--tally"));
  return 0;
}
