// SPDX-License-Identifier: MIT
#pragma once

// Queues as commands make them. Values are those of a context that the handler has checked for form; whether
// what they name exists and has room is for the device to say.

#include <array>
#include <cstdint>

#include "abi/prm/completion_queues.h"
#include "abi/prm/dynamic_connections.h"
#include "base/expected.h"
#include "device/hw/hca.h"

namespace verbatim::prm {

/// Where something begins in a umem.
struct Place {
  uint32_t umem = 0;
  uint64_t offset = 0;
};

/// An event queue in memory of the host side.
struct EqContext {
  uint64_t address = 0;
  uint32_t entries = 0;
  bool ignore_overrun = false;
  uint32_t vector = 0;  ///< of the interrupt
  uint32_t uar = 0;
  std::array<uint64_t, 4> events{};  ///< bit i of word i / 64: takes events of type i
};
struct EqFacts {
  EqContext context;
  uint32_t consumed = 0, produced = 0;
  bool armed = false, failed = false;
};

/// A completion queue.
struct CqContext {
  Place ring, doorbell;
  uint32_t entries = 0, stride = 0;
  uint32_t eqn = 0, uar = 0;
  bool ignore_overrun = false;
  bool real_time = false;             ///< entries tell the wall clock
  uint16_t count = 0, period_us = 0;  ///< of moderation
  uint32_t period_mode = 0;
};
struct CqFacts {
  CqContext context;  ///< without places where the host side made it
  CqState state = CqState::kFired;
  CqStatus status = CqStatus::kOk;
  uint32_t consumed = 0, produced = 0;
};

/// A queue pair. The receive queue lies in front of the send queue, both where `ring` says.
struct QpContext {
  hw::QpType type{};
  uint32_t pd = 0, send_cqn = 0, receive_cqn = 0;
  uint32_t srqn = 0;  ///< shared receive queue; 0: none
  uint32_t user_index = 0, uar = 0;
  bool real_time = false;  ///< its completion queues are to tell the wall clock
  Place ring, doorbell;
  uint32_t receive_entries = 0, receive_stride = 0, send_blocks = 0;
  uint32_t errored_streams_max = 1;  ///< of a DC initiator: with so many failed streams it fails as a whole
};

/// A DC target.
struct DctContext {
  uint32_t pd = 0, cqn = 0, srqn = 0;
  uint32_t user_index = 0;
  uint64_t access_key = 0;
  hw::QpAttributes attributes;  ///< rights, path MTU, RNR timer, and the path of its answers
};
struct DctFacts {
  DctContext context;
  DctState state = DctState::kActive;
  uint32_t key_violations = 0;
};

/// A shared receive queue: an RMP, or with a tag list an XRQ.
struct RmpContext {
  uint32_t pd = 0;
  Place ring, doorbell;
  uint32_t entries = 0, stride = 0;
  bool cyclic = false;  ///< entries are taken in order; else each names the next
  bool bare = false;    ///< cyclic entries begin with their scatter list, not with a link
  uint32_t limit = 0;   ///< event when fewer entries are left; 0: none
  uint32_t tags = 0;    ///< entries of its tag list; 0: it has none, and completions are its queue pairs'
  uint32_t cqn = 0, user_index = 0;
};
struct RmpFacts {
  RmpContext context;
  bool failed = false;
};

/// The part of prm::CommandUnit that makes queues; the same errors.
class QueueUnit {
 public:
  virtual ~QueueUnit() = default;

  virtual Expected<uint32_t> create_eq(uint16_t uid, const EqContext& context) = 0;
  virtual Expected<EqFacts> query_eq(uint16_t uid, uint32_t eqn) = 0;
  virtual Outcome destroy_eq(uint16_t uid, uint32_t eqn) = 0;

  virtual Expected<uint32_t> create_cq(uint16_t uid, const CqContext& context) = 0;
  virtual Expected<CqFacts> query_cq(uint16_t uid, uint32_t cqn) = 0;
  /// Takes over moderation, event queue and whether overruns are ignored.
  virtual Outcome modify_cq(uint16_t uid, uint32_t cqn, const CqContext& context) = 0;
  /// Goes on in another ring after an entry that says so.
  virtual Outcome resize_cq(uint16_t uid, uint32_t cqn, const Place& ring, uint32_t entries) = 0;
  virtual Outcome destroy_cq(uint16_t uid, uint32_t cqn) = 0;

  virtual Expected<uint32_t> create_qp(uint16_t uid, const QpContext& context) = 0;
  virtual Outcome destroy_qp(uint16_t uid, uint32_t qpn) = 0;

  virtual Expected<uint32_t> create_dct(uint16_t uid, const DctContext& context) = 0;
  virtual Expected<DctFacts> query_dct(uint16_t uid, uint32_t dctn) = 0;
  /// It takes no connections any more; an event tells when the open ones have ended.
  virtual Outcome drain_dct(uint16_t uid, uint32_t dctn) = 0;
  /// An event at the next wrong access key.
  virtual Outcome arm_dct(uint16_t uid, uint32_t dctn) = 0;
  virtual Outcome destroy_dct(uint16_t uid, uint32_t dctn) = 0;

  virtual Expected<uint32_t> create_rmp(uint16_t uid, const RmpContext& context) = 0;
  /// Shared receive queues of the host side, too.
  virtual Expected<RmpFacts> query_rmp(uint16_t uid, uint32_t rmpn) = 0;
  virtual Outcome arm_rmp(uint16_t uid, uint32_t rmpn, uint32_t limit) = 0;
  virtual Outcome destroy_rmp(uint16_t uid, uint32_t rmpn) = 0;
};

}  // namespace verbatim::prm
