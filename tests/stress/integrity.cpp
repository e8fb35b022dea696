// SPDX-License-Identifier: MIT
// Two processes move bytes in every way that reliable connections offer, in random sizes and splits, over
// several queue pairs and threads at once, half of them in each direction. Every byte is checked at both
// ends.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/stress/forbid.h"
#include "tests/stress/stream.h"

using namespace verbatim::stress;

namespace {

constexpr const char* kUsage =
    "usage: stress_integrity [--bytes N[KiB|MiB|GiB]] [--streams N] [--seed N]\n"
    "                        [--forbid none|env|dumpable|seccomp] [--when before|after]\n"
    "  --forbid  keep the processes from each other's memory: by VERBATIM_NO_CMA, PR_SET_DUMPABLE or a "
    "filter\n"
    "  --when    before the device is opened, in both; or when a third has been moved, in one of them\n";

struct Settings {
  uint64_t bytes = 256ull << 20;
  uint32_t streams = 6;
  uint64_t seed = 0;
  Forbid forbid = Forbid::kNothing;
  bool after = false;
};

uint64_t bytes_named(const char* text) {
  char* unit = nullptr;
  const uint64_t number = std::strtoull(text, &unit, 0);
  const struct {
    const char* name;
    int shift;
  } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  for (const auto& each : units)
    if (std::strcmp(unit, each.name) == 0) return number << each.shift;
  fail("%s is no number of bytes", text);
}

Settings read_settings(int argc, char** argv) {
  Settings settings;
  settings.seed = static_cast<uint64_t>(time(nullptr)) << 20 ^ static_cast<uint64_t>(getpid());
  const option options[] = {{"bytes", 1, nullptr, 'b'}, {"streams", 1, nullptr, 't'},
                            {"seed", 1, nullptr, 's'},  {"forbid", 1, nullptr, 'f'},
                            {"when", 1, nullptr, 'w'},  {"help", 0, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
  for (int each; (each = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    if (each == 'b') settings.bytes = bytes_named(optarg);
    if (each == 't') settings.streams = static_cast<uint32_t>(std::atoi(optarg));
    if (each == 's') settings.seed = std::strtoull(optarg, nullptr, 0);
    if (each == 'f') settings.forbid = forbid_named(optarg);
    if (each == 'w') settings.after = std::strcmp(optarg, "after") == 0;
    if (each == 'h' || each == '?') {
      std::fputs(kUsage, each == 'h' ? stdout : stderr);
      std::exit(each == 'h' ? 0 : 2);
    }
  }
  return settings;
}

/// Takes cross-memory attach away in the middle of the run.
void forbid_after(const Settings& settings, const Totals& totals) {
  while (totals.bytes < settings.bytes / 3) usleep(500);
  forbid_cross_memory(settings.forbid);
}

/// One process's part: `first` makes it the requester of the even streams.
void run_side(const Settings& settings, int socket, bool first, Totals& totals) {
  if (settings.forbid != Forbid::kNothing && !settings.after) forbid_cross_memory(settings.forbid);
  Device device = open_device();
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Stream::Card> mine, theirs(settings.streams);
  for (uint32_t i = 0; i < settings.streams; i++) {
    streams.push_back(std::make_unique<Stream>(device, i, settings.seed + i * 1000003, i % 3 == 1));
    mine.push_back(streams.back()->card());
  }
  const size_t bytes = mine.size() * sizeof mine[0];
  require(send_all(socket, mine.data(), bytes) && receive_all(socket, theirs.data(), bytes),
          "exchange of cards");
  for (uint32_t i = 0; i < settings.streams; i++) streams[i]->connect(theirs[i]);
  char ready = 1;
  require(send_record(socket, ready) && receive_record(socket, ready), "start");
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < settings.streams; i++)
    threads.emplace_back([&, i] {
      const uint64_t share = settings.bytes / settings.streams + 1;
      (i % 2 == 0) == first ? streams[i]->request(share, totals) : streams[i]->respond(share, totals);
    });
  if (settings.after && !first) forbid_after(settings, totals);
  for (std::thread& thread : threads) thread.join();
  require(send_record(socket, ready) && receive_record(socket, ready), "end");
  streams.clear();
  close_device(device);
}

void report(const Settings& settings, const Totals& totals, uint64_t took_ns) {
  static constexpr const char* kNames[kKinds] = {"send",      "send imm",  "write",     "write imm",   "read",
                                                 "read back", "overwrite", "fetch add", "compare swap"};
  std::printf(
      "integrity: %.1f MiB in %.2f s, seed %llu; of one side:", static_cast<double>(totals.bytes) / (1 << 20),
      static_cast<double>(took_ns) / 1e9, static_cast<unsigned long long>(settings.seed));
  for (size_t i = 0; i < kKinds; i++)
    std::printf(" %s %llu", kNames[i], static_cast<unsigned long long>(totals.operations[i].load()));
  std::puts("");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--peer") == 0) {
    Settings settings;
    Totals totals;
    require(receive_record(kParentSocket, settings), "settings");
    run_side(settings, kParentSocket, false, totals);
    return 0;
  }
  const Settings settings = read_settings(argc, argv);
  use_private_agent("integrity");
  const Child peer = start_self("--peer");
  require(send_record(peer.socket, settings), "settings");
  std::printf("integrity: seed %llu\n", static_cast<unsigned long long>(settings.seed));
  std::fflush(stdout);
  Totals totals;
  const uint64_t began = now_ns();
  run_side(settings, peer.socket, true, totals);
  if (reap(peer) != 0) fail("the peer failed");
  report(settings, totals, now_ns() - began);
  if (totals.bytes < settings.bytes) fail("too little was moved");
  return 0;
}
