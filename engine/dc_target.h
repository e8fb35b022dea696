// SPDX-License-Identifier: MIT
#pragma once

// The receiving side of a DC target: a responder for each initiator that is connected to it.
//
// An initiator is the process behind a channel, or a host on an Ethernet wire, and a queue pair number there.
// Its state begins with a request that opens a connection (nothing of it is outstanding before), and is
// forgotten when the initiator disconnects, when its process ends, and when room is needed while it is idle.
// A later connection of an initiator takes the place of the former one. Packets of a wire may be late: what
// is known of a connection there is kept for some time after its end, so that none of them opens it again.

#include <atomic>
#include <cstdint>
#include <list>
#include <string_view>
#include <unordered_map>

#include "base/spinlock.h"
#include "engine/responder.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

class DcTarget {
 public:
  static constexpr size_t kInitiatorsMax = 4096;  ///< whose state is kept

  DcTarget(Engine& engine, QueuePair& qp) : engine_(engine), qp_(qp) {}

  /// As Responder::on_request.
  bool on_request(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
                  wire::Segment* answer);
  /// As Responder::send_owed, for all of them.
  bool send_owed();
  /// The process behind the channel is gone.
  void forget(wire::Channel& gone);
  /// One of the responders has sent what it owed.
  void note_answered();
  /// Takes no connections from now on. kTargetDrained is raised when the open ones are idle.
  void drain();
  enum class Phase : uint8_t { kActive, kDraining, kDrained };
  Phase phase() const { return phase_.load(std::memory_order_relaxed); }
  /// Nothing comes any more: messages that have begun end with an error.
  void close();
  size_t initiators();

 private:
  struct Key {
    wire::Channel* channel;  ///< nullptr: on a wire
    Gid host;                ///< there
    uint32_t qpn;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      const std::string_view host(reinterpret_cast<const char*>(key.host.bytes.data()),
                                  key.host.bytes.size());
      const size_t where =
          key.channel ? std::hash<const void*>()(key.channel) : std::hash<std::string_view>()(host);
      return where ^ (size_t{key.qpn} * 0x9e3779b97f4a7c15u >> 16);
    }
  };
  struct Initiator {
    Initiator(Engine& engine, QueuePair& qp, const Key& k) : key(k), responder(engine, qp, true) {}
    Key key;
    Responder responder;
    uint64_t heard_ns = 0;  ///< last, over a wire
    bool ended = false;     ///< the connection, which was one over a wire
  };
  using Initiators = std::list<Initiator>;

  bool deliver(const Key& key, wire::Channel& from, const wire::Segment& segment, wire::Payload& payload,
               wire::Segment* answer);
  bool refuse_stranger(wire::Channel& from, const wire::Segment& segment);
  bool may_be_late(const Initiator& initiator) const;
  Initiator* find(const Key& key);
  Initiator* connect(const Key& key, const wire::Segment& segment);
  bool make_room();
  void disconnect(const Key& key, uint32_t connection);
  void erase(Initiators::iterator at);
  void look_whether_drained();

  Engine& engine_;
  QueuePair& qp_;
  SpinLock lock_;  ///< before those of the responders
  std::atomic<Phase> phase_{Phase::kActive};
  Initiators initiators_;  ///< the one heard of last in front
  std::unordered_map<Key, Initiators::iterator, Hash> places_;
};

}  // namespace verbatim::engine
