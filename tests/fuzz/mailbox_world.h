// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "device/hw/hca.h"
#include "tests/fuzz/live_objects.h"
#include "tests/fuzz/mailbox_sense.h"
#include "tests/fuzz/mailbox_writer.h"
#include "tests/fuzz/random.h"

namespace verbatim::fuzz {

/// How often each command was carried out and refused.
using Tally = std::map<std::string, std::array<uint64_t, 2>>;

/// What a world may rely on.
struct MailboxKind {
  bool alone = true;     ///< nobody else destroys what it makes
  bool wrapped = false;  ///< the device takes keys wrapped
};

/// A program that sends a device command mailboxes, mostly sensible ones, about objects of its own and of the
/// host side. The memory that they name is scribbled over and comes and goes. One thread; others may play on
/// the same device.
class MailboxWorld {
 public:
  MailboxWorld(hw::Hca& hca, uint64_t seed, const MailboxKind& kind = {});
  ~MailboxWorld();
  MailboxWorld(const MailboxWorld&) = delete;
  MailboxWorld& operator=(const MailboxWorld&) = delete;

  /// One thing that a program might do, or never would.
  void step();
  /// All objects that commands made are among those that others are shown.
  void expect_shown();
  /// Destroys everything, in any order that the device allows. Worlds of one device may refer to each other's
  /// objects, so that they end together. Not to be used afterwards.
  static void end(std::initializer_list<MailboxWorld*> worlds);
  const Tally& tally() const { return tally_; }
  /// What went wrong; empty: nothing did.
  const std::string& failure() const { return failure_; }

 private:
  static constexpr uint32_t kAreas = 4, kQueuePairs = 3, kObjects = 400;
  static constexpr size_t kAreaBytes = 16384;

  void make_host_objects();
  void make_queue_pair(hw::QpType type);
  void send_command();
  void send_undo(bool by_any_program);
  const prm::CommandInfo& choose();
  uint8_t execute(std::vector<uint8_t>& in, std::vector<uint8_t>& out);
  void note(const prm::CommandInfo& command, const std::vector<uint8_t>& in, const std::vector<uint8_t>& out);
  void note_values(const std::vector<uint8_t>& undo, const std::vector<uint8_t>& out);
  void disturb_memory();
  void disturb_queue_pair();
  void ring();
  /// Whether a mailbox that names memory by address names this world's.
  bool is_harmless(const std::vector<uint8_t>& in) const;
  void end_queue_pairs();
  void end_host_objects();
  void fail(const std::string& what);

  hw::Hca& hca_;
  const bool alone_;
  Random random_;
  LiveObjects objects_;
  const MailboxSense sense_;
  MailboxWriter writer_{objects_, random_, sense_};
  std::array<std::byte*, kAreas> areas_{};
  std::vector<hw::Umem*> umems_;
  hw::Pd* pd_ = nullptr;
  hw::Cq* cq_ = nullptr;
  std::vector<hw::Qp*> qps_;
  alignas(64) std::array<uint32_t, 16> cq_doorbell_{};
  std::array<std::array<uint32_t, 16>, kQueuePairs> qp_doorbells_{};
  std::vector<std::byte> cq_ring_, qp_rings_;
  Tally tally_;
  std::string failure_;
};

}  // namespace verbatim::fuzz
