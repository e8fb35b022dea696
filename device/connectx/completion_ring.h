// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/spinlock.h"
#include "device/connectx/formats.h"
#include "device/connectx/queue_access.h"
#include "device/hw/hca.h"
#include "engine/alarms.h"
#include "engine/gathering.h"
#include "engine/protection/signature.h"
#include "engine/work.h"

namespace verbatim::engine {
class Engine;
}

namespace verbatim::connectx {

/// A completion queue in ConnectX format. Thread safe: many queue pairs push, the program consumes without a
/// lock here.
///
/// An entry belongs to software when its owner bit equals the parity of the lap it was written in. The event
/// is armed by the doorbell record's second word and fires once.
class CompletionRing final : public engine::Held {
 public:
  /// `on_overrun` is called once, with locks of queues held, when completions are lost.
  CompletionRing(const hw::CqSpec& spec, hw::Cq& face, hw::EventSink& sink, std::function<void()> on_overrun);

  ~CompletionRing();

  struct Received {
    uint8_t cqe_opcode;
    bool solicited;
    uint32_t flags_rqpn, user_index, immediate_raw, bytes, qpn;
    uint16_t counter, slid;
    uint32_t frame = 0;          ///< Cqe::frame
    uint8_t hash_kind = 0;       ///< Cqe::hash_kind
    uint32_t application = 0;    ///< Cqe::application
    const void* head = nullptr;  ///< Cqe::head; nullptr: zeros
  };
  void push_request(uint32_t opcode_qpn, uint32_t user_index, uint16_t counter, uint32_t bytes);
  void push_receive(const Received& received);
  /// `key` as programs name it.
  void push_signature_error(uint32_t key, const engine::SignatureFault& fault);
  void push_error(uint8_t cqe_opcode, engine::Status status, uint8_t detail, uint32_t opcode_qpn,
                  uint32_t user_index, uint16_t counter);

  /// Tells what is held back (compressed rings).
  void settle() override;

  void arm();
  /// See hw::Hca::ring_arm.
  void arm_late();
  /// EINVAL: what the program has not yet read does not fit.
  Outcome resize(const hw::QueueMemory& ring);
  /// Goes on in another ring of entries of the same size, after an entry in the old one that says so
  /// (kCqeResize): the program copies what it has not yet read. EINVAL: that does not fit.
  Outcome go_on_in(const hw::QueueMemory& ring);
  void ignore_overruns(bool ignored);
  /// Of the event; 0 or 1 of the first, or 0 of the second: it is raised at once.
  void moderate(engine::Engine& engine, uint16_t count, uint16_t period_us);
  bool overrun() const { return overrun_.load(std::memory_order_relaxed); }

  enum class Armed : uint8_t { kNo, kAny, kSolicited };
  struct Facts {
    uint32_t entries, stride, consumed, produced;  ///< the counters of 24 bits
    Armed armed;
    bool ignores_overruns, overrun, unreachable;
  };
  Facts facts();
  bool real_time() const { return real_time_; }

 private:
  class Moderation;  ///< completion_moderation.h
  /// Receives that are held back until the run of arrivals ends; see completion_session.cpp.
  struct Session {
    uint32_t count = 0;  ///< 0: none is
    Received first{};
    uint64_t time = 0;  ///< of the first
    uint32_t bytes[kSessionMax];

    bool goes_on_with(const Received& next) const {
      return count > 0 && count < kSessionMax && next.flags_rqpn == first.flags_rqpn &&
             next.slid == first.slid && next.user_index == first.user_index &&
             next.immediate_raw == first.immediate_raw && next.qpn == first.qpn &&
             next.frame == first.frame && next.counter == static_cast<uint16_t>(first.counter + count);
    }
  };
  std::byte* entry(uint32_t index) const;
  bool hand_over(uint8_t last);
  void lose();
  template <class T>
  T* claim();
  uint64_t timestamp() const;
  void fill_receive(const Received& received, uint64_t time);
  void write_receive(const Received& received, uint64_t time);
  bool gather(const Received& received);
  void tell_session() {
    if (session_ && session_->count != 0) [[unlikely]]
      tell_held_back();
  }
  void tell_held_back();
  void write_session();
  void publish(uint8_t& last_byte, uint8_t opcode, bool solicited);
  void raise(bool solicited, uint32_t completions = 1);
  void fire();
  bool special(uint32_t index) const;
  /// A word of the doorbell record; 0 where the program has taken it away, which the next entry will meet,
  /// too.
  uint32_t record(int word) const {
    uint32_t value = 0;
    return read_record(&doorbell_[word], ring_.revocable, value) ? value : 0;
  }

  hw::QueueMemory ring_;
  uint32_t* doorbell_;
  bool ignore_overrun_;
  const bool real_time_;
  hw::Cq& face_;
  hw::EventSink& sink_;
  const std::function<void()> on_overrun_;
  SpinLock lock_;
  uint32_t produced_ = 0;             ///< running index of the next entry
  std::unique_ptr<Session> session_;  ///< held back; nullptr until something is
  Armed armed_ = Armed::kNo;
  uint64_t armed_word_ = UINT64_MAX;  ///< the arm word taken in last; none yet
  std::unique_ptr<Moderation> moderation_;
  std::atomic<bool> overrun_{false};
  bool unreachable_ = false;  ///< its memory is not mapped any more
  alignas(
      sizeof(Cqe)) std::byte staged_[sizeof(Cqe)];  ///< the next entry, where it cannot be filled in place
};

}  // namespace verbatim::connectx
