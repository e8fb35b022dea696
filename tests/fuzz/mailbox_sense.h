// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "abi/prm/layout.h"
#include "device/hw/hca.h"
#include "tests/fuzz/live_objects.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// Makes a mailbox hang together: fields that belong to each other must not contradict each other, nor the
/// state of what they are about, which the device is asked for. One thread.
class MailboxSense {
 public:
  using Box = std::vector<uint8_t>;
  /// All must outlive it. `wrapped`: the device takes keys wrapped, with the secrets that it has without a
  /// file.
  MailboxSense(hw::Hca& hca, const LiveObjects& objects, Random& random, bool wrapped)
      : hca_(hca), objects_(objects), random_(random), wrapped_(wrapped) {}

  /// Of a mailbox that has its numbers already.
  void make(const prm::CommandInfo& command, Box& box) const;

 private:
  struct Step;
  static const Step kSteps[];
  struct Rule;
  static const Rule kRules[];

  std::optional<uint32_t> queue_pair_in(uint32_t state, uint32_t uid) const;
  void take_step(const prm::CommandInfo& command, const Step& step, Box& box) const;
  void change_extras(Box& box) const;
  void memory_key(Box& box) const;
  void key_of_umem(Box& box) const;
  void key_of_list(Box& box) const;
  void queue_pair(Box& box) const;
  void completion_queue(Box& box) const;
  void receive_queue(Box& box) const;
  void send_queue(Box& box) const;
  void encryption_key(Box& box) const;
  void login(Box& box) const;
  void scheduling_element(Box& box) const;
  void event_queue(Box& box) const;
  void device_register(Box& box) const;
  void capabilities(Box& box) const;
  void receive_table(Box& box) const;

  hw::Hca& hca_;
  const LiveObjects& objects_;
  Random& random_;
  const bool wrapped_;
};

}  // namespace verbatim::fuzz
