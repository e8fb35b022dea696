// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>

#include "lib/rdmacm/manager.h"

namespace verbatim::rdmacm {

/// What another agent must be told when one has died: the channels, the ids with their testaments, the
/// groups.
class MemoryOfManager {
 public:
  /// Learns from a request that was done.
  void learn(const Request& request, const Answer& answer, int file);
  /// Replaces numbers that mean something else by now.
  void translate(Request& request) const;
  /// Tells another manager everything. `tell(request, answer, file)`: whether it was done.
  template <class Tell>
  void repeat(Tell tell);

  bool is_empty() const { return channels_.empty(); }
  bool has_channel(uint32_t channel) const { return channels_.count(channel) != 0; }
  /// The newest testament of an id. False: none.
  bool recall(uint32_t id, agent::cm::Testament& testament) const;
  void forget_all();

 private:
  struct KnownId {
    uint32_t channel = 0;
    uint64_t context = 0;
    agent::cm::Testament testament{};
  };
  struct KnownMembership {
    Request join{};
    uint32_t number = 0;  ///< what the present manager calls it
  };

  void learn_of_event(const Request& request, const Answer& answer);
  void learn_of_testament(uint32_t id, const Answer& answer);
  void forget_id(uint32_t id);
  static void drain(int eventfd);

  std::map<uint32_t, int> channels_;
  std::map<uint32_t, KnownId> ids_;
  std::map<uint32_t, KnownMembership> memberships_;  ///< by their first number
};

template <class Tell>
void MemoryOfManager::repeat(Tell tell) {
  Answer answer{};
  for (const auto& [number, eventfd] : channels_) {
    drain(eventfd);
    Request request{};
    request.what = Do::kOpenChannel;
    request.channel = number;
    tell(request, answer, eventfd);
  }
  for (auto& [number, id] : ids_) {
    Request request{};
    request.what = Do::kRestore;
    request.id = number;
    request.channel = id.channel;
    request.context = id.context;
    request.testament = id.testament;
    if (tell(request, answer, -1)) learn_of_testament(number, answer);
  }
  for (auto& [number, membership] : memberships_) {
    Request request = membership.join;
    request.again = 1;
    if (tell(request, answer, -1)) membership.number = answer.id;
  }
}

}  // namespace verbatim::rdmacm
