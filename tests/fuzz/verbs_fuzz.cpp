// SPDX-License-Identifier: MIT
// Calls all of libibverbs in any order with sensible arguments and with nonsense: by one thread or several,
// on an Ethernet port or one of InfiniBand. A call may refuse what it likes, with an answer that its manual
// page knows; nothing crashes, everything can be taken down, nothing stays behind, and the next queue pair is
// served. Handles themselves are good, as are pointers that a call follows on the program's own thread: a
// program that gets these wrong has no library to blame.
// usage: verbs_fuzz [--seconds N] [--first SEED] [--seed SEED] [--tally] [--canary]
//   --canary   loses a domain, which must be noticed
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "testing/queue_pair_steps.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/published_objects.h"
#include "tests/fuzz/verbs_player.h"

using namespace verbatim;
using namespace verbatim::fuzz;

/// Buffers of any size may be asked for. The sanitizer's library looks for it in the program.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace {

constexpr uint32_t kSteps = 1200, kThreadsMax = 3;
constexpr unsigned kWorldMaxSeconds = 120;
constexpr uint64_t kEnoughWorlds = 3000;  ///< after so many, every call has worked and has been refused
constexpr size_t kFilesMore = 32;         ///< that the library may open as it goes, once and for all
constexpr const char* kDevices = "mlx5_0:mlx5,mlx5_1:mlx5:infiniband";

[[noreturn]] void fail(uint64_t seed, const std::string& what) {
  std::fprintf(stderr, "FAILED [%d] seed %llu: %s\n", getpid(), static_cast<unsigned long long>(seed),
               what.c_str());
  std::_Exit(1);
}

/// An opened device with what makes up the strangers of the other one's worlds.
struct Device {
  Common common;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_mr* mr = nullptr;

  Device(int place, const Arena& arena) {
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* context = list != nullptr ? ibv_open_device(list[place]) : nullptr;
    if (context == nullptr) fail(0, "no device");
    ibv_free_device_list(list);
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    ibv_port_attr port{};
    ibv_query_port(context, 1, &port);
    ibv_query_gid(context, 1, 0, &common.gid);
    common.context = context;
    common.lid = port.lid;
    ibv_srq_init_attr attr{nullptr, {16, 1, 0}};
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    srq = ibv_create_srq(pd, &attr);
    mr = ibv_reg_mr(pd, arena.begin(), Arena::kBytes, IBV_ACCESS_LOCAL_WRITE);
    if (pd == nullptr || cq == nullptr || srq == nullptr || mr == nullptr) fail(0, "no objects");
  }
  ~Device() {
    if (ibv_dereg_mr(mr) != 0 || ibv_destroy_srq(srq) != 0 || ibv_destroy_cq(cq) != 0 ||
        ibv_dealloc_pd(pd) != 0 || ibv_close_device(common.context) != 0)
      fail(0, "the device cannot be closed");
  }
  void meet(const Device& other) {
    common.strange_pd = other.pd;
    common.strange_cq = other.cq;
    common.strange_srq = other.srq;
    common.strange_mr = other.mr;
  }
};

Tally g_tally;

void add(const Tally& more) {
  for (const auto& [call, ends] : more) {
    g_tally[call].done += ends.done;
    g_tally[call].refused += ends.refused;
  }
}

/// Two queue pairs that are made as they should be, and a message from one to the other.
void expect_service(const Common& common, ibv_pd* pd, const ibv_mr* mr) {
  const uint64_t seed = common.seed;
  ibv_cq* cq = ibv_create_cq(common.context, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  ibv_qp* const qps[] = {ibv_create_qp(pd, &attr), ibv_create_qp(pd, &attr)};
  if (cq == nullptr || qps[0] == nullptr || qps[1] == nullptr) fail(seed, "no new queue pair");
  for (int i = 0; i < 2; i++) {
    test::Connection to;
    to.gid = common.gid;
    to.lid = common.lid;
    to.qpn = qps[1 - i]->qp_num;
    if (test::step_to_init(qps[i], to) != 0 || test::step_to_rtr(qps[i], to) != 0 ||
        test::step_to_rts(qps[i], to) != 0)
      fail(seed, "a new queue pair cannot be connected");
  }
  ibv_sge piece{reinterpret_cast<uint64_t>(mr->addr), 64, mr->lkey};
  ibv_recv_wr receive{2, nullptr, &piece, 1}, *bad_receive = nullptr;
  ibv_send_wr send{}, *bad_send = nullptr;
  send.sg_list = &piece;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  if (ibv_post_recv(qps[1], &receive, &bad_receive) != 0 || ibv_post_send(qps[0], &send, &bad_send) != 0)
    fail(seed, "a new queue pair takes no requests");
  ibv_wc wc{};
  for (int left = 2; left != 0;) {  // the alarm ends it
    const int got = ibv_poll_cq(cq, 1, &wc);
    if (got < 0 || (got == 1 && wc.status != IBV_WC_SUCCESS))
      fail(seed, "a message between new queue pairs is lost");
    left -= got;
  }
  if (ibv_destroy_qp(qps[0]) != 0 || ibv_destroy_qp(qps[1]) != 0 || ibv_destroy_cq(cq) != 0)
    fail(seed, "a new queue pair cannot be destroyed");
}

void play_alone(const Common& common, const Arena& arena) {
  Player player(common, arena, common.seed);
  for (uint32_t i = 0; i < kSteps; i++) player.step();
  player.finish();
  add(player.tally());
}

void play_at_once(const Common& common, const Arena& arena, uint32_t threads) {
  std::vector<std::unique_ptr<Player>> players;
  std::vector<std::thread> all;
  for (uint32_t i = 0; i < threads; i++)
    players.push_back(std::make_unique<Player>(common, arena, common.seed ^ uint64_t{i + 1} << 56));
  for (const auto& player : players)
    all.emplace_back([&player] {
      for (uint32_t i = 0; i < kSteps / 2; i++) player->step();
      player->finish();
    });
  for (std::thread& thread : all) thread.join();
  for (const auto& player : players) add(player->tally());
}

/// Events of what has gone went with it; those of the port and the device stay, and are nobody's.
void drain_events(ibv_context* context, uint64_t seed) {
  ibv_async_event event{};
  while (ibv_get_async_event(context, &event) == 0) {
    if (event.event_type != IBV_EVENT_GID_CHANGE && event.event_type != IBV_EVENT_PORT_ACTIVE &&
        event.event_type != IBV_EVENT_PORT_ERR && event.event_type != IBV_EVENT_SM_CHANGE)
      fail(seed, std::string("an event is left: ") + ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
}

/// Without what contexts keep until they are closed: the domain of all queue pairs with tables.
std::string list(const PublishedObjects& objects) {
  std::string text = objects.list();
  constexpr std::string_view kKept = ", TRANSPORT_DOMAIN 1";
  for (size_t at = text.find(kKept); at != std::string::npos; at = text.find(kKept))
    text.erase(at, kKept.size());
  return text;
}

/// `more`: what else happens in it.
template <class More>
void run_world(Device& device, const Arena& arena, const PublishedObjects& objects, uint64_t seed,
               More more) {
  alarm(kWorldMaxSeconds);
  const std::string before = list(objects);
  Common& common = device.common;
  common.seed = seed;
  common.alone = seed % 4 != 3;
  if (common.alone)
    play_alone(common, arena);
  else
    play_at_once(common, arena, 2 + static_cast<uint32_t>(seed / 8 % (kThreadsMax - 1)));
  more();
  drain_events(common.context, seed);
  expect_service(common, device.pd, device.mr);
  if (const std::string after = list(objects); after != before)
    fail(seed, "left behind: " + after + "; before: " + before);
  alarm(0);
}

size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// Those that no world of many has seen work, or refuse, may be dead or blind.
void report(uint64_t worlds, bool show) {
  uint64_t calls = 0, done = 0;
  for (const auto& [call, ends] : g_tally) {
    calls += ends.done + ends.refused;
    done += ends.done;
    if (show)
      std::printf("verbs_fuzz: %-32s %10llu done %10llu refused\n", std::string(call).c_str(),
                  static_cast<unsigned long long>(ends.done), static_cast<unsigned long long>(ends.refused));
  }
  std::printf("verbs_fuzz: %llu worlds, %llu calls of %zu functions, %llu of them refused, no crash\n",
              static_cast<unsigned long long>(worlds), static_cast<unsigned long long>(calls), g_tally.size(),
              static_cast<unsigned long long>(calls - done));
  for (const char* call : {"ibv_bind_mw", "ibv_create_flow_action_esp", "ibv_modify_flow_action_esp",
                           "ibv_reg_mr", "ibv_create_qp", "ibv_modify_qp", "ibv_post_send", "ibv_poll_cq"})
    if (worlds >= kEnoughWorlds && (g_tally[call].done == 0 || g_tally[call].refused == 0))
      fail(0, std::string(call) + " always works, or never");
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 10);
  const std::string name = "verbatim-verbs-fuzz/" + std::to_string(getpid());
  setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0);
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  setenv("VERBATIM_DEVICES", kDevices, 1);
  const Arena arena;
  const int file = memfd_create("verbs_fuzz", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 1 << 16) != 0) fail(0, "no file");
  uint64_t worlds = 0;
  {
    Device ethernet(0, arena), infiniband(1, arena);
    ethernet.meet(infiniband);
    infiniband.meet(ethernet);
    ethernet.common.file = infiniband.common.file = file;
    const PublishedObjects objects;
    const size_t files = open_files();
    if (options.has("--canary")) {
      run_world(ethernet, arena, objects, 1, [&] { ibv_alloc_pd(ethernet.common.context); });
      return 1;
    }
    worlds = options.play("verbs_fuzz", [&](uint64_t seed) {
      run_world(seed / 4 % 3 == 2 ? infiniband : ethernet, arena, objects, seed, [] {});
    });
    if (open_files() > files + kFilesMore)
      fail(0, std::to_string(open_files() - files) + " descriptors are left open");
  }
  close(file);
  report(worlds, options.has("--tally"));
  return 0;
}
