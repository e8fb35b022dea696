// SPDX-License-Identifier: MIT
#include "testing/simulation/world.h"

#include <algorithm>
#include <stdexcept>

#include "base/fault_copy.h"

namespace verbatim::simulation {

using engine::QpType;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kBadTimeNs = 30 * kMs;
constexpr uint64_t kHealedMaxNs = 60'000 * kMs;  ///< longer than any queue pair may try
constexpr uint64_t kStepsMax = 3'000'000;
constexpr uint32_t kMillion = 1'000'000;

}  // namespace

World::World(const Options& options)
    : options_(options),
      trace_(clock_),
      random_(options.seed * 0x2545f4914f6cdd1d + 1),
      network_(clock_, trace_, random_.next()) {
  install_fault_guard();
  network_.sabotage = options.sabotage;
  const uint32_t hosts = random_.one_in(4) ? 3 : 2;
  for (uint32_t i = 0; i < hosts; i++) {
    hosts_.push_back(std::make_unique<SimulatedHost>(network_, trace_, clock_, i));
    hosts_.back()->start(next_slot_++);
  }
}

World::~World() = default;

void World::fail(const std::string& what) {
  if (!verdict_.passed) return;
  verdict_.passed = false;
  verdict_.finding = what + "\n";
  for (const auto& end : ends_) verdict_.finding += "  " + end->state() + "\n";
  verdict_.trace = trace_.text(options_.trace_lines);
}

void World::choose_faults() {
  Faults& faults = network_.faults;
  faults.latency_ns = 1'000 + random_.below(50'000);
  if (random_.one_in(10)) return;  // a good network
  const uint32_t worst = random_.one_in(4) ? kMillion / 4 : kMillion / 25;
  if (random_.one_in(2)) faults.drop = random_.below(worst);
  if (random_.one_in(3)) faults.duplicate = random_.below(worst);
  if (random_.one_in(3)) faults.damage = random_.below(worst);
  if (random_.one_in(3)) faults.delay = random_.below(worst);
  if (random_.one_in(3)) faults.jitter_ns = 1 + random_.below(200'000);
  if (random_.one_in(8)) faults.congest = random_.below(kMillion / 10);
  faults.delay_ns = 10'000 + random_.below(random_.one_in(3) ? 20'000'000 : 500'000);
  if (random_.one_in(6))
    for (auto& host : hosts_) host->fabric().busy = random_.below(kMillion / 5);
}

void World::make_connections(uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const auto hosts = static_cast<uint32_t>(hosts_.size());
    const uint32_t a = random_.below(hosts);
    const uint32_t b = (a + 1 + random_.below(hosts - 1)) % hosts;
    if (hosts_[a]->is_up() && hosts_[b]->is_up()) make_connection(a, b);
  }
}

void World::make_connection(uint32_t a, uint32_t b) {
  constexpr uint32_t kMtus[] = {256, 512, 1024, 2048, 4096};
  const uint32_t chance = random_.below(12);
  const QpType type = chance < 7    ? QpType::kRc
                      : chance < 9  ? QpType::kXrcSend
                      : chance < 11 ? QpType::kUc
                                    : QpType::kUd;
  End::Limits limits;
  limits.mtu = kMtus[random_.below(5)];
  limits.timeout =
      static_cast<uint8_t>(options_.sabotage == Sabotage::kLoseForEver ? 0 : random_.between(1, 14));
  limits.retry_count = static_cast<uint8_t>(random_.one_in(4) ? random_.below(8) : 7);
  limits.rnr_retry = static_cast<uint8_t>(random_.one_in(4) ? random_.below(8) : 7);
  limits.min_rnr_timer = static_cast<uint8_t>(random_.between(1, 12));
  limits.reads = static_cast<uint8_t>(random_.between(1, engine::kReadsMax));
  End::Limits other = limits;
  for (End::Limits* one : {&limits, &other}) {
    one->depth = random_.between(1, 32);
    one->first_psn = random_.one_in(2) ? 0xffffff - random_.below(100) : random_.below(0x1000000);
  }
  const auto first = static_cast<uint32_t>(ends_.size());
  ends_.push_back(std::make_unique<End>(*hosts_[a], network_, trace_, *this,
                                        Plan::make(type, limits.mtu, random_), limits, random_.next()));
  ends_.push_back(std::make_unique<End>(*hosts_[b], network_, trace_, *this,
                                        Plan::make(type, limits.mtu, random_), other, random_.next()));
  ends_[first]->open(ends_[first + 1]->plan());
  ends_[first + 1]->open(ends_[first]->plan());
  ends_[first]->connect(*ends_[first + 1]);
  ends_[first + 1]->connect(*ends_[first]);
  schedule_traffic(first);
  schedule_traffic(first + 1);
}

void World::schedule(const Action& action) {
  const auto place = std::find_if(actions_.begin(), actions_.end(),
                                  [&](const Action& other) { return other.at_ns <= action.at_ns; });
  actions_.insert(place, action);
}

// Requests come in bursts; receive requests are often late.
void World::schedule_traffic(uint32_t end) {
  const bool ready = random_.one_in(2);
  uint64_t at_ns = clock_.now_ns();
  if (ready) schedule({at_ns, Action::Kind::kReceives, end, UINT32_MAX / 2});
  for (uint32_t burst = random_.between(1, 6); burst > 0; burst--) {
    at_ns += random_.below(static_cast<uint32_t>(kBadTimeNs / 8));
    schedule({at_ns, Action::Kind::kSends, end, random_.between(1, 12)});
    if (!ready)
      schedule({at_ns + random_.below(3'000'000), Action::Kind::kReceives, end, random_.between(1, 12)});
  }
}

void World::schedule_accidents() {
  const auto hosts = static_cast<uint32_t>(hosts_.size());
  const auto some_time = [&] { return clock_.now_ns() + random_.below(static_cast<uint32_t>(kBadTimeNs)); };
  if (random_.one_in(4)) {
    const uint32_t host = random_.below(hosts);
    const uint64_t at_ns = some_time();
    schedule({at_ns, Action::Kind::kCrash, host, 0});
    schedule({at_ns + random_.below(static_cast<uint32_t>(10 * kMs)), Action::Kind::kStart, host, 0});
  }
  if (random_.one_in(6))
    schedule({some_time(), Action::Kind::kGiveUp, random_.below(static_cast<uint32_t>(ends_.size())), 0});
  if (random_.one_in(6)) schedule({some_time(), Action::Kind::kPart, 0, random_.below(20'000'000)});
}

void World::act(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kSends:
      return ends_[action.which]->post_sends(action.count);
    case Action::Kind::kReceives:
      return ends_[action.which]->post_receives(action.count);
    case Action::Kind::kCrash:
      return crash(action.which);
    case Action::Kind::kStart:
      return start(action.which);
    case Action::Kind::kGiveUp:
      return ends_[action.which]->give_up();
    case Action::Kind::kPart:
      trace_.event(0, 0, "hosts 0 and 1 are parted for nanoseconds", action.count);
      return network_.part(0, 1, clock_.now_ns() + action.count);
  }
}

void World::crash(uint32_t host) {
  if (!hosts_[host]->is_up()) return;
  trace_.event(host, 0, "crashes", 0);
  verdict_.crashes++;
  for (auto& end : ends_)
    if (end->host() == host) end->die();
  hosts_[host]->crash();
}

void World::start(uint32_t host) {
  if (hosts_[host]->is_up()) return;
  trace_.event(host, 0, "starts again", 0);
  hosts_[host]->start(next_slot_++);
  make_connections(random_.between(1, 3));
}

void World::heal() {
  trace_.event(0, 0, "the network heals", 0);
  if (options_.sabotage == Sabotage::kLoseForEver) {
    network_.faults.drop = kMillion;
  } else {
    network_.faults = {};
  }
  for (auto& host : hosts_)
    if (host->is_up()) host->fabric().busy = 0;
  for (auto& end : ends_) {
    end->post_receives(UINT32_MAX / 2);
    end->post_sends(UINT32_MAX / 2);
  }
}

void World::run_hosts() {
  for (auto& host : hosts_)
    if (host->is_up()) host->run();
}

// Goes on to the next thing that happens, if that is before `until_ns`. False: there is none.
bool World::advance(uint64_t until_ns) {
  run_hosts();
  uint64_t next_ns = network_.next_ns();
  if (!actions_.empty()) next_ns = std::min(next_ns, actions_.back().at_ns);
  for (const auto& host : hosts_)
    if (host->is_up()) next_ns = std::min(next_ns, host->next_ns());
  if (next_ns > until_ns || !verdict_.passed) return false;
  if (++steps_ > kStepsMax) {
    fail("the run does not come to an end");
    return false;
  }
  clock_.set(std::max(next_ns, clock_.now_ns()));
  while (!actions_.empty() && actions_.back().at_ns <= clock_.now_ns()) {
    const Action action = actions_.back();
    actions_.pop_back();
    act(action);
  }
  network_.deliver();
  return true;
}

bool World::all_finished() const {
  return actions_.empty() &&
         std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->is_finished(); });
}

Verdict World::run() {
  choose_faults();
  make_connections(random_.between(1, 4));
  schedule_accidents();
  const uint64_t bad_until_ns = clock_.now_ns() + kBadTimeNs;
  while (advance(bad_until_ns) || (!actions_.empty() && advance(kNever))) {
  }
  heal();
  const uint64_t deadline_ns = clock_.now_ns() + kHealedMaxNs;
  while (verdict_.passed && advance(deadline_ns)) {
  }
  if (verdict_.passed && !all_finished()) fail("requests do not come to an end");
  if (verdict_.passed) finish();
  verdict_.digest = trace_.digest();
  verdict_.packets = network_.sent();
  return verdict_;
}

void World::finish() {
  for (auto& end : ends_) end->check_memory();
  for (auto& end : ends_) {
    verdict_.completed += end->ended();
    verdict_.failed += end->has_failed() ? 1 : 0;
  }
  for (auto& end : ends_) end->close();
}

Verdict play(const Options& options) { return World(options).run(); }

}  // namespace verbatim::simulation
