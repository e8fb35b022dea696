// SPDX-License-Identifier: MIT
// Hostile packets to the port of RoCEv2, in batches of one kind each: packets made from scratch with every
// field near what it should be, captured ones changed, wrong keys, queue pairs that nobody has, packets
// played again, packets from a host that is not the peer, messages to the connection manager. Whatever comes,
// no byte changes but in what the peer was given a key for and in receive requests; nothing at all where a
// batch has nothing that is allowed. The agent lives on. At the end right packets do their work. usage:
// wire_fuzz [--seconds N] [--first SEED] [--seed SEED]; exit status 77: no network namespace here
//   --seed     that batch alone
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/client.h"
#include "testing/private_network.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/wire_management.h"

using namespace verbatim;
using namespace verbatim::fuzz;

namespace {

constexpr uint32_t kPackets = 256, kPacketsOfFresh = 32;

enum class Attack : uint8_t { kAnything, kCaptured, kStranger, kWrongKeys, kNobody, kAgain, kManagement };
constexpr size_t kAttacks = 7;
constexpr const char* kNames[kAttacks] = {"made up",   "captured",     "from a stranger", "with wrong keys",
                                          "to nobody", "played again", "to the manager"};

/// 0: none runs.
pid_t agent_process() {
  const Expected<int> socket = agent::connect_agent();
  if (!socket) return 0;
  ucred peer{};
  socklen_t length = sizeof peer;
  getsockopt(*socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
  close(*socket);
  return peer.pid;
}

class World {
 public:
  World()
      : captured_(verbatim::testing::read_golden(VERBATIM_GOLDEN)),
        victim_(random_),
        listener_(random_),
        peer_(random_, victim_, kPeer),
        stranger_(random_, victim_, kStranger),
        intriguer_(random_, captured_),
        agent_(agent_process()) {
    expect(agent_ != 0, "no agent");
  }

  void run(uint64_t seed) {
    random_ = Random(seed_ = seed);
    attack_ = static_cast<Attack>(random_.below(kAttacks));
    sent_[static_cast<size_t>(attack_)] += attack();
    requests_ += listener_.take_events();
    intriguer_.listen();
    if (random_.one_in(64)) expect(agent_process() == agent_, "the agent has ended");
  }
  /// What all this is worth: right packets from the peer do their work, the same from elsewhere do not.
  void expect_right_work() {
    expect_right_write(stranger_, false);
    expect_right_write(peer_, true);
    listener_.take_events();
    for (int tries = 0; tries < 500; tries++) {
      intriguer_.send_right(peer_);
      poll(nullptr, 0, 10);  // the agent is another process
      if (listener_.take_events() > 0) return;
    }
    fail("a right request for a connection is not seen");
  }
  void report() const {
    for (size_t i = 0; i < kAttacks; i++)
      std::printf("%llu packets %s\n", static_cast<unsigned long long>(sent_[i]), kNames[i]);
    std::printf("%llu requests for connections seen, %llu answers overheard\n",
                static_cast<unsigned long long>(requests_),
                static_cast<unsigned long long>(intriguer_.overheard()));
  }

 private:
  uint32_t attack() {
    switch (attack_) {
      case Attack::kAnything:
        return play(false, kPackets, [&] { peer_.send_any(true); });
      case Attack::kCaptured:
        return play(false, kPackets, [&] { peer_.send_captured(captured_, true); });
      case Attack::kStranger:
        return play(true, kPackets, [&] {
          random_.one_in(3) ? stranger_.send_captured(captured_, false) : stranger_.send_any(false);
        });
      case Attack::kWrongKeys:
        victim_.renew();
        return play(true, kPacketsOfFresh, [&] { peer_.send_wrong_key(); });
      case Attack::kNobody:
        return play(true, kPackets, [&] { peer_.send_to_nobody(); });
      case Attack::kAgain:
        victim_.renew();
        peer_.send_right(kPacketsOfFresh);
        victim_.scramble();
        return play(true, kPackets, [&] { (random_.one_in(4) ? stranger_ : peer_).play_again(peer_); });
      case Attack::kManagement:
        return play(true, kPackets / 4, [&] {
          intriguer_.send_any(random_.one_in(4) ? stranger_ : peer_);
          if (random_.one_in(4)) intriguer_.listen();
          if (random_.one_in(8)) requests_ += listener_.take_events();
        });
    }
    return 0;
  }

  /// `strict`: nothing may change.
  template <class Send>
  uint32_t play(bool strict, uint32_t count, Send send) {
    if (!strict) victim_.get_ready();
    victim_.settle();
    const std::vector<uint8_t> before = victim_.copy();
    for (uint32_t i = 0; i < count; i++) {
      send();
      if (i % 16 == 0) victim_.take_completions();
    }
    victim_.settle();
    for (size_t part = 0; part < kParts; part++) {
      const bool open = part == kWritable || part == kReceives || part == kLocal;
      if (open && !strict) continue;
      if (std::memcmp(before.data() + part * kPart, victim_.memory + part * kPart, kPart) != 0)
        fail("seed " + std::to_string(seed_) + ": memory part " + std::to_string(part) +
             " was changed by packets " + kNames[static_cast<size_t>(attack_)]);
    }
    return count;
  }

  void expect_right_write(Attacker& from, bool arrives) {
    victim_.get_ready();
    roce::Headers headers;
    headers.bth.opcode = roce::opcode(roce::Transport::kUc, roce::Operation::kWriteOnly);
    headers.bth.destination = victim_.unreliable->qp_num;
    headers.reth = {reinterpret_cast<uint64_t>(victim_.writable->addr), victim_.writable->rkey, 64};
    std::vector<uint8_t> bytes(64);
    for (size_t i = 0; i < bytes.size(); i++)
      bytes[i] = static_cast<uint8_t>(~victim_.memory[kWritable * kPart + i]);
    from.send(headers, bytes);
    victim_.settle();
    const bool did = std::memcmp(victim_.memory + kWritable * kPart, bytes.data(), bytes.size()) == 0;
    expect(did == arrives, arrives ? "a right packet does nothing" : "a stranger's packet was obeyed");
  }

  const std::vector<verbatim::testing::Golden> captured_;
  Random random_{1};
  Victim victim_;
  Listener listener_;
  Attacker peer_, stranger_;
  Intriguer intriguer_;
  const pid_t agent_;
  uint64_t seed_ = 0;
  Attack attack_ = Attack::kAnything;
  std::array<uint64_t, kAttacks> sent_{};
  uint64_t requests_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const fuzz::Options options(argc, argv, 5);
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    return testing_support::kNotPermitted;
  expect(testing_support::set_interface("lo", IFF_UP, nullptr), "no loopback");
  setenv("VERBATIM_AGENT", VERBATIM_TEST_AGENT, 0);
  setenv("VERBATIM_WIRE", "udp", 1);
  World world;
  world.expect_right_work();
  options.play("wire_fuzz", [&](uint64_t seed) { world.run(seed); });
  world.expect_right_work();
  world.report();
  return 0;
}
