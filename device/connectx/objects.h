// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/number_space.h"
#include "device/connectx/completion_ring.h"
#include "device/connectx/linked_list.h"
#include "device/connectx/operation_counters.h"
#include "device/connectx/receive_ring.h"
#include "device/connectx/send_ring.h"
#include "device/connectx/tagged_receiver.h"
#include "device/hw/hca.h"
#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::connectx {

// The device's objects behind the faces that the host side holds. `users` counts what stands in the way of
// destroying.

/// Who made an object: the host side, or a user context (0: the owner of the device) by command.
struct Made {
  uint16_t maker = 0;
  bool by_command = false;
  /// Whether the user context may ask for it.
  bool is_for(uint16_t uid) const { return maker == 0 || maker == uid; }
  /// Whether it may destroy it.
  bool is_by(uint16_t uid) const { return by_command && maker == uid; }
};

struct PdObject : hw::Pd, Made {
  std::atomic<uint32_t> users{0};
};

struct MrObject : hw::Mr, Linked<MrObject> {
  hw::MrSpec spec;
  bool null_region = false;
  bool imported = false;
  bool borrowed = false;  ///< the key is another region's of this process
};

struct QpObject;

struct CqObject : hw::Cq, Linked<CqObject>, Made {
  CqObject(const hw::CqSpec& spec, hw::EventSink& sink) : ring(spec, *this, sink, [this] { fail_users(); }) {
    owner = spec.owner;
  }
  CompletionRing ring;
  std::atomic<uint32_t> eqn{1};  ///< event queue that its completions are told to
  std::mutex lock;
  std::vector<QpObject*> users;          ///< queue pairs that complete here; one entry per use
  std::atomic<uint32_t> work_queues{0};  ///< that complete here
  /// EBUSY: there are some.
  Outcome idle();

 private:
  void fail_users();
};

/// Tells of a received message. `application`: see Cqe.
void push_receive(CompletionRing& ring, const engine::ReceiveCompletion& done, uint32_t user_index,
                  uint32_t application = 0);

/// One that XRC senders name, or that has a tag list, has its own completions.
struct SrqObject final : hw::Srq, Made, engine::ReceiveSink {
  SrqObject(const hw::SrqSpec& spec, hw::EventSink& sink)
      : pd(static_cast<PdObject*>(spec.pd)),
        memory(spec.ring),
        ring(
            spec.ring, spec.doorbell, [this, &sink](hw::AsyncEvent event) { sink.on_async(event, owner); },
            !spec.cyclic ? SharedOrder::kChain
            : spec.bare  ? SharedOrder::kCyclicBare
                         : SharedOrder::kCyclic),
        xrcd(spec.xrcd),
        cq(static_cast<CqObject*>(spec.cq)),
        user_index(spec.user_index) {
    if (spec.tags != 0) tags = std::make_unique<TagList>(ring, cq->ring, user_index, spec.tags);
    owner = spec.owner;
  }
  void complete(const engine::ReceiveCompletion& completion) override;
  void on_key_error(uint32_t key, engine::DataTransform& transform) override;

  PdObject* pd;
  const hw::QueueMemory memory;
  const char* kind = "SRQ";  ///< what its events call it
  std::atomic<uint32_t> users{0};
  SharedRing ring;
  const uint32_t xrcd;  ///< number of its XRC domain; 0: none
  CqObject* const cq;   ///< with an XRC domain or a tag list, and so the next
  const uint32_t user_index;
  std::unique_ptr<TagList> tags;
};

struct QpObject final : hw::Qp, Linked<QpObject>, Made, engine::ReceiveSink, engine::QueuePairEvents {
  QpObject(const hw::QpSpec& spec, hw::EventSink& sink);

  void complete(const engine::ReceiveCompletion& completion) override;
  void on_key_error(uint32_t key, engine::DataTransform& transform) override;
  void on_remote(engine::Opcode opcode, bool succeeded, uint64_t bytes) override;
  /// See OperationCounters::attach.
  Outcome attach(CounterObject& counter, uint32_t operations);
  /// Programs of verbs know nothing of events that only commands arm.
  void on_event(hw::AsyncEvent event) override {
    if (maker != 0 || event < hw::AsyncEvent::kTargetDrained) sink.on_async(event, owner);
  }

  // As hw::QpSpec has them.
  const hw::QpType type;
  PdObject* const pd;
  SrqObject* const srq;
  const uint32_t user_index, xrcd;
  const uint64_t access_key;
  const uint32_t send_entries, receive_entries, receive_stride;
  hw::EventSink& sink;
  CqObject* const send_cq;     ///< nullptr: it sends nothing
  CqObject* const receive_cq;  ///< nullptr: it receives nothing, or nothing that completes here
  SendRing send;
  ReceiveRing receive;
  std::unique_ptr<TaggedReceiver> tagged;  ///< with a shared receive queue that has a tag list
  engine::QueuePair* queue_pair = nullptr;
  std::atomic<uint8_t> lag_port{0};  ///< as hw::QpExtras, like what follows
  std::atomic<uint16_t> udp_source_port{0};
  std::atomic<uint32_t> request_leaf{0}, response_leaf{0};
  uint32_t rate_kbps = 0, burst_bytes = 0;      ///< as hw::QpAttributes; guarded by the scheduling tree
  std::unique_ptr<OperationCounters> counters;  ///< once there are some
  std::atomic<OperationCounters*> receive_counters{nullptr};
  std::atomic<bool> ending{false};  ///< `queue_pair` is being destroyed
};

}  // namespace verbatim::connectx
