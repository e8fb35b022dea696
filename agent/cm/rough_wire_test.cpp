// SPDX-License-Identifier: MIT
// Connections over a wire that loses, doubles and disorders what is sent, each run from one seed.
#include <random>

#include "agent/cm/test_world.h"

namespace verbatim::agent::cm {
namespace {

using Types = std::vector<uint32_t>;

/// Two programs that connect a few times and part again, whoever wants to first.
class Exchange {
 public:
  explicit Exchange(uint32_t seed) : random_(seed) {
    world_.passes = [this](const std::string&, int) { return !chance(20); };
    world_.copies = [this] { return chance(20) ? 2 : 1; };
    world_.next = [this](size_t count) { return random_() % count; };
  }
  void run(int connections) {
    server_.listening(RDMA_PS_TCP, ip("10.0.0.2", 7000));
    for (int i = 0; i < connections; i++) {
      const uint32_t id = client_.routed(RDMA_PS_TCP, ip("10.0.0.2", 7000));
      ASSERT_EQ(0, client_.connect(id, "", 0x100 + static_cast<uint32_t>(i)));
    }
    for (int second = 0; second < 600; second++) {
      while (answer(server_, served_) || answer(client_, asked_)) {
      }
      world_.pass(kSecond);
    }
  }
  /// What each end of a connection was told, in order.
  std::map<uint32_t, Types> served_, asked_;
  World world_;

 private:
  bool chance(uint32_t percent) { return random_() % 100 < percent; }
  /// Takes an event and does what a program does on it; false: there is none.
  bool answer(Program& program, std::map<uint32_t, Types>& told) {
    const Event event = program.event();
    if (event.type == kNoEvent) return false;
    told[event.id].push_back(event.type);
    const bool parts_first = chance(50);
    int done = 0;
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) done = program.accept(event.id, "", 0x8000 + event.id);
    if (event.type == RDMA_CM_EVENT_CONNECT_RESPONSE) done = program.run(event.id, Do::kEstablish);
    EXPECT_EQ(0, done);
    const bool parts = event.type == RDMA_CM_EVENT_DISCONNECTED || event.type == RDMA_CM_EVENT_ESTABLISHED ||
                       (event.type == RDMA_CM_EVENT_CONNECT_RESPONSE && parts_first);
    if (parts) (void)program.run(event.id, Do::kDisconnect);
    return true;
  }
  std::mt19937 random_;
  Program client_{world_, world_.a}, server_{world_, world_.b};
};

TEST(RoughWire, EveryConnectionIsMadeOnceAndEndedOnce) {
  constexpr int kConnections = 4;
  for (uint32_t seed = 1; seed <= 200 && !::testing::Test::HasFailure(); seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Exchange exchange(seed);
    exchange.run(kConnections);
    EXPECT_EQ(size_t{kConnections}, exchange.asked_.size());
    EXPECT_EQ(size_t{kConnections}, exchange.served_.size());
    for (const auto& [id, types] : exchange.asked_)
      EXPECT_EQ(
          (Types{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT}),
          types);
    // Where the RTU is lost and the client parts first, the server never hears that it was connected.
    for (auto& [id, types] : exchange.served_) {
      const auto established = std::find(types.begin(), types.end(), RDMA_CM_EVENT_ESTABLISHED);
      if (established != types.end()) types.erase(established);
      EXPECT_EQ(
          (Types{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT}),
          types);
    }
    EXPECT_EQ(kNever, exchange.world_.a.manager->deadline_ns());
    EXPECT_EQ(kNever, exchange.world_.b.manager->deadline_ns());
  }
}

}  // namespace
}  // namespace verbatim::agent::cm
