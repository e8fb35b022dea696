// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "engine/published.h"
#include "tests/fuzz/random.h"
#include "wire/link/shm/entry.h"
#include "wire/link/shm/layout.h"

namespace verbatim::fuzz {

/// Writes nonsense into the shared memory that this process may write, into every part of it, most often
/// where something is alive: at first what it publishes and takes in itself. One thread.
class Vandal {
 public:
  /// With a device open, before any peer is met.
  explicit Vandal(Random& random);
  /// From now on also, or only, what the peers met meanwhile take in.
  void aim_at_peers(bool only);
  void strike();

 private:
  struct Inbox {
    wire::shm::Inbound* memory;
    std::vector<uint32_t> senders;  ///< slots with a ring in use
  };
  template <class T>
  void spoil(T& place);
  void spoil_words(void* from, size_t bytes);
  void strike_published(std::byte* file);
  void strike_inbound(Inbox& inbox);
  void forge_entry(const Inbox& inbox, uint32_t sender);

  Random& random_;
  std::vector<std::byte*> published_, own_inbound_;
  std::vector<Inbox> inboxes_;
};

}  // namespace verbatim::fuzz
