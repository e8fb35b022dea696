// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/rdmacm/public.h"

namespace verbatim::rdmacm {

/// A device that ids are bound to. It stays open once opened; what its ids share lives as long as one of
/// them.
struct Device {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;      ///< of ids whose program gives none
  ibv_xrcd* xrcd = nullptr;  ///< the same; made on demand
  uint32_t users = 0;
  bool ethernet = false;
  uint8_t max_initiator_depth = 0;
  uint8_t max_responder_resources = 0;
  uint32_t max_queue_entries = 0;
};

/// The devices of the process. Thread safe; null with errno set where there is none.
class Devices {
 public:
  static Devices& of_process();

  /// The device that stands for the host's addresses, with a protection domain: the first with an Ethernet
  /// port. Give it back with release().
  Device* hold_port();
  void release(Device* device);
  ibv_xrcd* domain_of_xrc(Device& device);
  /// All of them, opened.
  std::vector<ibv_context*> all();

 private:
  void forget_those_of_the_parent();
  Device* open(ibv_device* device);
  Device* opened(ibv_device* device);
  Device* find_port();

  std::mutex lock_;
  int process_ = 0;  ///< that opened them
  std::vector<Device*> devices_;
};

}  // namespace verbatim::rdmacm
