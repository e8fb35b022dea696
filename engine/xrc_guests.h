// SPDX-License-Identifier: MIT
#pragma once

// XRC receivers of other processes of this host, as far as shared receive queues of this one are concerned.
//
//   sender --> process of the receiver --> process of the shared receive queue
//              (Responder::relay)          (a guest here)
//
// The receiver's process puts requests into order and passes them on; a guest is a responder that carries
// them out and answers to it. A connection between the two begins with a request that opens it: nothing
// passed on before is unanswered then.

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/published.h"
#include "wire/link/channel.h"

namespace verbatim::engine {

class Engine;
class QueuePair;

class XrcGuests {
 public:
  explicit XrcGuests(Engine& engine);
  ~XrcGuests();

  // With the engine's progress lock held:
  /// A request that was passed on.
  void on_request(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload);
  /// The process behind the channel is gone.
  void forget(wire::Channel& gone);

  /// Afterwards nothing of that queue is called.
  void leave_shared_queue(uint32_t number);

 private:
  struct Guest {
    std::unique_ptr<PublishedQp> published;
    std::unique_ptr<PublishedTraffic> traffic;
    std::unique_ptr<QueuePair> qp;
    uint32_t generation = 0;  ///< of the receiver
  };
  Guest* open(wire::Channel& from, uint32_t qpn, uint32_t psn);
  void make(Guest& guest, const PublishedQp& receiver, uint32_t qpn);
  void end(Guest& guest);

  Engine& engine_;
  std::mutex lock_;  ///< before the locks of responders
  std::map<std::pair<wire::Channel*, uint32_t>, Guest> guests_;
};

}  // namespace verbatim::engine
