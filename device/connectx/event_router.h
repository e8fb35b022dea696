// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "base/expected.h"
#include "device/connectx/event_ring.h"
#include "device/hw/hca.h"

namespace verbatim::connectx {

/// Where the events of objects that commands made go: into the event queues of programs, and to the host side
/// as hw::DeviceEvent. Such an object has this for its sink and itself for its owner. Thread safe; called
/// with locks of queues held, takes only its own.
///
///  completions -> the queue whose number the completion queue names, if it is a program's
///  all others  -> every program's queue whose event mask names them
class EventRouter final : public hw::EventSink {
 public:
  /// Numbers of event queues. The first ones stand for completion vectors of the host side, which has no
  /// rings.
  static constexpr uint32_t kFirstOfPrograms = 128, kLast = 255;

  /// `vectors`: completion vectors of the host side, fewer than kFirstOfPrograms.
  EventRouter(hw::EventSink& host, uint32_t vectors) : host_(host), vectors_(vectors) {}

  struct Spec {
    uint16_t maker = 0;
    std::byte* base = nullptr;
    uint32_t entries = 0;  ///< power of two
    bool ignore_overrun = false;
    uint32_t vector = 0;               ///< of its interrupt
    uint32_t uar = 0;                  ///< page that its doorbells are rung on
    std::array<uint64_t, 4> events{};  ///< bit i of word i / 64: takes events of that type
  };
  struct Facts {
    Spec spec;
    uint32_t consumed = 0, produced = 0;
    bool armed = false, failed = false;
  };
  /// A new queue's number. ENOMEM: all are taken.
  Expected<uint32_t> add(const Spec& spec);
  /// ENOENT, or EBUSY: completion queues still name it.
  Outcome remove(uint16_t uid, uint32_t eqn);
  Expected<Facts> query(uint16_t uid, uint32_t eqn) const;
  /// Whether a user context has queues.
  bool has_some_of(uint16_t uid) const;

  /// The queue behind a completion vector. EINVAL: there is no such vector.
  Expected<uint32_t> of_vector(uint32_t vector) const;
  /// A completion queue of that user names the queue from now on. ENOENT: there is none.
  Outcome hold(uint16_t uid, uint32_t eqn);
  void let_go(uint32_t eqn);

  /// A store to a doorbell of a UAR page, as its bytes lie in memory. Of several that came at once the last
  /// one is seen: any other queue of the page that arming could be meant for counts as armed, too.
  void ring(uint32_t uar, uint32_t index_and_number, bool arm);

  // hw::EventSink; `owner` is the object: of type hw::Cq, hw::Srq or hw::Qp.
  void on_completion(hw::Cq& cq) override;
  void on_async(hw::AsyncEvent event, void* owner) override;

  /// Any event but a completion.
  void raise(const hw::DeviceEvent& event);

 private:
  struct Queue {
    explicit Queue(const Spec& s) : spec(s), ring(s.base, s.entries, s.ignore_overrun) {}
    const Spec spec;
    EventRing ring;
    uint32_t users = 0;
  };
  Queue* find(uint32_t eqn) const { return eqn <= kLast ? queues_[eqn].get() : nullptr; }
  Queue* own(uint16_t uid, uint32_t eqn) const;

  hw::EventSink& host_;
  const uint32_t vectors_;
  mutable std::mutex lock_;
  std::array<std::unique_ptr<Queue>, kLast + 1> queues_;
  uint32_t next_ = kFirstOfPrograms;
};

}  // namespace verbatim::connectx
