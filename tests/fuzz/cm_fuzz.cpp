// SPDX-License-Identifier: MIT
// The connection manager among processes that ask for anything and hosts that send anything: requests that
// make sense and ones that do not, messages that are lost, damaged and played again, agents that are replaced
// and told lies by testaments. Nothing crashes, and when the processes have ended and time has passed,
// nothing is left. usage: cm_fuzz [--seconds N] [--first SEED] [--seed SEED] [--canary]
//   --seed     that case alone
//   --canary   leaves a process behind: a run that does not fail finds nothing
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/cm/test_world.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/random.h"

using namespace verbatim;
using namespace verbatim::agent::cm;
using fuzz::Random;

namespace {

constexpr uint32_t kLastDo = static_cast<uint32_t>(Do::kRestore);
constexpr uint64_t kLongNs = 4000 * kSecond;  ///< everything has given up by then

struct Process {
  Machine* machine;
  uint32_t client;
  std::vector<uint32_t> ids{1};
  std::vector<Testament> testaments;
};

struct Tally {
  uint64_t done = 0, refused = 0, datagrams = 0, established = 0;
};

class Case {
 public:
  Case(uint64_t seed, Tally& tally) : random_(seed), tally_(tally) {
    world_.sees = [this](const Arrival& arrival) {
      seen_.push_back({arrival.local, arrival.remote, {arrival.mad.begin(), arrival.mad.end()}});
      if (seen_.size() > 64) seen_.erase(seen_.begin());
    };
    world_.passes = [this](const std::string&, int) { return !random_.one_in(5); };
    for (Machine* machine : {&world_.a, &world_.a, &world_.b}) start(*machine);
  }

  void run() {
    const uint32_t steps = 50 + random_.below(400);
    for (uint32_t i = 0; i < steps; i++) step();
  }

  /// What is left when all have gone.
  const char* leftovers(bool canary) {
    for (Process& each : processes_)
      if (!canary || &each != &processes_.front())
        each.machine->manager->close_client(each.client, world_.now_ns);
    world_.sees = nullptr;
    world_.pass(kLongNs);
    for (Machine* machine : {&world_.a, &world_.b}) {
      if (machine->manager->id_count() != 0) return "ids are left";
      if (machine->manager->deadline_ns() != kNever) return "timers are left";
    }
    return nullptr;
  }

 private:
  struct Seen {
    Gid local, remote;
    std::vector<uint8_t> mad;
  };

  void start(Machine& machine) {
    processes_.push_back({&machine, machine.manager->open_client(), {1}, {}});
    for (int i = 0; i < 2; i++) {
      Request open{};
      open.what = Do::kOpenChannel;
      ask(processes_.back(), open);
    }
  }

  void step() {
    switch (random_.below(16)) {
      case 0:
        return damaged_datagram();
      case 1:
        world_.sent.clear();
        return world_.pass(random_.next() % (20 * kSecond));
      case 2:
        if (random_.one_in(8)) return replace_process();
        if (random_.one_in(8)) return replace_agent();
        return nonsense();
      case 3:
      case 4:
      case 5:
        return world_.settle();
      case 6:
        return converse();
      default:
        return sensible();
    }
  }

  Process& any() { return processes_[random_.below(static_cast<uint32_t>(processes_.size()))]; }

  Answer ask(Process& process, const Request& request) {
    const Answer answer = process.machine->manager->handle(process.client, request, world_.now_ns);
    answer.error == 0 ? tally_.done++ : tally_.refused++;
    if (answer.error != 0) return answer;
    if (answer.id != 0 && process.ids.size() < 40) process.ids.push_back(answer.id);
    if (answer.testament.bytes != 0 && process.testaments.size() < 40)
      process.testaments.push_back(answer.testament);
    if (answer.event.type == RDMA_CM_EVENT_ESTABLISHED) tally_.established++;
    return answer;
  }

  SocketAddress address() {
    static constexpr const char* kAddresses[] = {"10.0.0.1", "10.0.0.2", "fd00::1",  "fd00::2",
                                                 "0.0.0.0",  "::",       "239.1.1.1"};
    return ip(kAddresses[random_.below(std::size(kAddresses))],
              static_cast<uint16_t>(7000 + random_.below(3)));
  }

  Request request_of(Process& process) {
    Request request{};
    request.id = process.ids[random_.below(static_cast<uint32_t>(process.ids.size()))];
    request.channel = 1 + random_.below(2);
    static constexpr uint16_t kSpaces[] = {RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB};
    request.port_space = kSpaces[random_.below(std::size(kSpaces))];
    request.qp_type = static_cast<uint8_t>(2 + random_.below(9));
    request.source = random_.one_in(2) ? SocketAddress{} : address();
    request.destination = address();
    request.backlog = static_cast<int32_t>(random_.below(4));
    request.qp_state = random_.below(5);
    request.option = static_cast<Option>(random_.below(6));
    request.value = random_.below(40);
    request.parameters.valid = static_cast<uint8_t>(random_.below(2));
    request.parameters.qp_num = random_.below(6);
    request.parameters.private_data_bytes = static_cast<uint8_t>(random_.below(60));
    if (!process.testaments.empty())
      request.testament = process.testaments[random_.below(static_cast<uint32_t>(process.testaments.size()))];
    return request;
  }

  void sensible() {
    Process& process = any();
    Request request = request_of(process);
    request.what = static_cast<Do>(random_.below(kLastDo + 2));
    if (request.what == Do::kCloseChannel && !random_.one_in(16)) request.what = Do::kGetEvent;
    if (request.what == Do::kRestore) {
      request.id = random_.below(50);
      for (uint32_t i = random_.below(3); i > 0; i--)
        request.testament.state[random_.below(sizeof request.testament.state)] =
            static_cast<uint8_t>(random_.next());
    }
    ask(process, request);
  }

  Answer ask(Process& process, Do what, uint32_t id, const SocketAddress& address = {}) {
    Request request{};
    request.what = what;
    request.id = id;
    request.channel = 1;
    request.port_space = RDMA_PS_TCP;
    request.source = what == Do::kBindAddress ? address : SocketAddress{};
    request.destination = address;
    request.parameters.valid = 1;
    request.parameters.qp_num = 16 + random_.below(1 << 20);
    const Answer answer = ask(process, request);
    world_.settle();
    return answer;
  }

  /// The id of the next event of this type, 0: there is none.
  uint32_t next(Process& process, uint32_t type) {
    for (Answer answer = ask(process, Do::kGetEvent, 0); answer.error == 0;
         answer = ask(process, Do::kGetEvent, 0))
      if (answer.event.type == type) return answer.event.id;
    return 0;
  }

  /// What programs do, one after the other, so that connections come about.
  void converse() {
    Process &server = any(), &client = any();
    const SocketAddress at = ip(server.machine == &world_.a ? "10.0.0.1" : "10.0.0.2",
                                static_cast<uint16_t>(7000 + random_.below(100)));
    const uint32_t listener = ask(server, Do::kCreateId, 0).id;
    ask(server, Do::kBindAddress, listener, at);
    ask(server, Do::kListen, listener);
    const uint32_t id = ask(client, Do::kCreateId, 0).id;
    ask(client, Do::kResolveAddress, id, at);
    ask(client, Do::kResolveRoute, id);
    ask(client, Do::kConnect, id);
    if (const uint32_t child = next(server, RDMA_CM_EVENT_CONNECT_REQUEST)) ask(server, Do::kAccept, child);
    if (next(client, RDMA_CM_EVENT_CONNECT_RESPONSE)) ask(client, Do::kEstablish, id);
    next(server, RDMA_CM_EVENT_ESTABLISHED);
    if (random_.one_in(2)) ask(client, Do::kDisconnect, id);
  }

  void nonsense() {
    Process& process = any();
    Request request;
    random_.fill(&request, sizeof request);
    if (random_.one_in(2)) request.what = static_cast<Do>(random_.below(kLastDo + 1));
    if (random_.one_in(2)) request.id = 1 + random_.below(8);
    if (random_.one_in(2)) request.channel = 1;
    ask(process, request);
  }

  void damaged_datagram() {
    if (seen_.empty()) return;
    Seen next = seen_[random_.below(static_cast<uint32_t>(seen_.size()))];
    for (uint32_t i = random_.below(4); i > 0; i--)
      next.mad[random_.below(static_cast<uint32_t>(next.mad.size()))] = static_cast<uint8_t>(random_.next());
    if (random_.one_in(8)) next.mad.resize(random_.below(300));
    Machine& machine = random_.one_in(2) ? world_.a : world_.b;
    machine.manager->on_mad({next.local, next.remote, next.mad}, world_.now_ns);
    tally_.datagrams++;
  }

  void replace_process() {
    const uint32_t which = random_.below(static_cast<uint32_t>(processes_.size()));
    Machine& machine = *processes_[which].machine;
    machine.manager->close_client(processes_[which].client, world_.now_ns);
    processes_.erase(processes_.begin() + which);
    start(machine);
  }

  void replace_agent() {
    Machine& machine = random_.one_in(2) ? world_.a : world_.b;
    machine.start();
    for (Process& process : processes_) {
      if (process.machine != &machine) continue;
      process.client = machine.manager->open_client();
      Request open{};
      open.what = Do::kOpenChannel;
      ask(process, open);
      ask(process, open);
    }
  }

  Random random_;
  Tally& tally_;
  World world_;
  std::vector<Process> processes_;
  std::vector<Seen> seen_;
};

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 5);
  const bool canary = options.has("--canary");
  Tally tally;
  const uint64_t cases = options.play("cm_fuzz", [&](uint64_t seed) {
    Case next(seed, tally);
    next.run();
    if (const char* left = next.leftovers(canary)) {
      std::fprintf(stderr, "FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), left);
      std::exit(1);
    }
  });
  std::printf("cm_fuzz: %llu cases, %llu requests done, %llu refused, %llu datagrams, %llu established\n",
              static_cast<unsigned long long>(cases), static_cast<unsigned long long>(tally.done),
              static_cast<unsigned long long>(tally.refused),
              static_cast<unsigned long long>(tally.datagrams),
              static_cast<unsigned long long>(tally.established));
  return 0;
}
