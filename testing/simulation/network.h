// SPDX-License-Identifier: MIT
#pragma once

// A network of datagrams that loses, delays, doubles, reorders and damages them, all by one seed.

#include <cstdint>
#include <map>
#include <vector>

#include "base/gid.h"
#include "base/random.h"
#include "testing/simulation/trace.h"

namespace verbatim::simulation {

/// How bad the network is. Probabilities in a million.
struct Faults {
  uint32_t drop = 0;
  uint32_t duplicate = 0;
  uint32_t damage = 0;
  uint32_t delay = 0;  ///< held back by up to delay_ns, so that others overtake it
  uint32_t congest = 0;
  uint64_t delay_ns = 0;
  uint64_t latency_ns = 5'000;
  uint64_t jitter_ns = 0;
};

/// Deliberate damage to the stack, which a checker has to notice.
enum class Sabotage : uint8_t {
  kNone,
  kFlipAfterCheck,     ///< payload changes behind the check of the ICRC
  kFalseAcknowledge,   ///< what is dropped is acknowledged to its sender
  kLoseForEver,        ///< the network does not get better, and queue pairs have no timeout
  kTwoReceives,        ///< a receive completion is told twice
  kSwallowCompletion,  ///< a send completion is not told
  kRepeatAtomic,       ///< an atomic is carried out twice
};

/// Takes what arrives.
class Station {
 public:
  virtual ~Station() = default;
  virtual void arrive(uint32_t from, std::vector<uint8_t>& datagram, bool congested) = 0;
};

/// Host `n` has the address 10.0.0.n + 1.
Gid address_of(uint32_t host);
/// Of all datagrams between two hosts.
roce::Envelope envelope_of(uint32_t from, uint32_t to);

class Network {
 public:
  static constexpr uint32_t kHostsMax = 4;

  Network(VirtualClock& clock, Trace& trace, uint64_t seed) : clock_(clock), trace_(trace), random_(seed) {}

  Faults faults;
  Sabotage sabotage = Sabotage::kNone;
  void attach(uint32_t host, Station* station) { stations_[host] = station; }
  /// Nothing gets through between two hosts until then.
  void part(uint32_t a, uint32_t b, uint64_t until_ns) { parted_[a][b] = parted_[b][a] = until_ns; }

  /// A queue pair of a host is connected to one with that number.
  void introduce(uint32_t host, uint32_t qpn, uint32_t partner) { partners_[{host, qpn}] = partner; }

  void send(uint32_t from, uint32_t to, std::vector<uint8_t> datagram);
  /// When something arrives next; kNever: nothing is under way.
  uint64_t next_ns() const { return events_.empty() ? kNever : events_.front().at_ns; }
  /// Hands over what has arrived by now.
  void deliver();

  /// Packets between two hosts that were lost, damaged, delayed or overtaken so far.
  uint32_t lost(uint32_t a, uint32_t b) const { return lost_[a][b] + lost_[b][a]; }
  /// Packets between two hosts that came twice.
  uint32_t doubled(uint32_t a, uint32_t b) const { return doubled_[a][b] + doubled_[b][a]; }
  uint64_t sent() const { return number_; }
  Random& random() { return random_; }

 private:
  struct Event {
    uint64_t at_ns, number;
    uint32_t from, to;
    bool congested;
    std::vector<uint8_t> datagram;
    bool operator<(const Event& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : number > other.number;
    }
  };
  void put_on_its_way(uint32_t from, uint32_t to, std::vector<uint8_t> datagram);
  void note(Fate fate, uint32_t from, uint32_t to, const std::vector<uint8_t>& datagram);
  void acknowledge_falsely(uint32_t from, uint32_t to, const std::vector<uint8_t>& datagram);

  VirtualClock& clock_;
  Trace& trace_;
  Random random_;
  Station* stations_[kHostsMax] = {};
  uint64_t parted_[kHostsMax][kHostsMax] = {};
  uint32_t lost_[kHostsMax][kHostsMax] = {}, doubled_[kHostsMax][kHostsMax] = {};
  uint64_t newest_[kHostsMax][kHostsMax] = {};  ///< number of the newest packet that has arrived
  std::vector<Event> events_;                   ///< a heap, the earliest in front
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> partners_;
  uint64_t number_ = 0;
};

}  // namespace verbatim::simulation
