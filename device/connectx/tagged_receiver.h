// SPDX-License-Identifier: MIT
#pragma once

#include "device/connectx/rendezvous_queue.h"
#include "device/connectx/tag_list.h"
#include "engine/engine.h"

namespace verbatim::connectx {

/// How one queue pair receives into a queue with a tag list: messages of a queue pair come one after the
/// other, so that there is one match at a time. Used under the responder's lock.
class TaggedReceiver final : public engine::ReceiveQueue, public engine::ReceiveSink {
 public:
  /// `otherwise`: hears what is not about messages. `offloads`: rendezvous are the device's to carry out.
  TaggedReceiver(TagList& tags, engine::ReceiveSink& otherwise, bool offloads)
      : tags_(tags), otherwise_(otherwise), reads_(tags), offloads_(offloads) {}

  /// The queue of the reads that rendezvous need.
  RendezvousQueue& reads() { return reads_; }
  /// Once the queue pair exists.
  void start(engine::Engine& engine, engine::QueuePair& queue_pair, uint32_t qpn);

  // engine::ReceiveQueue
  /// For a write with immediate data, which has no tag.
  Take take(engine::ReceiveWork& work, const char*& reason) override;
  bool looks_at_messages() const override { return true; }
  Take take_for(const engine::MessageHead& head, engine::ReceiveWork& work, const char*& reason) override;

  // engine::ReceiveSink
  void complete(const engine::ReceiveCompletion& completion) override;
  void on_key_error(uint32_t key, engine::DataTransform& transform) override {
    otherwise_.on_key_error(key, transform);
  }
  void on_remote(engine::Opcode opcode, bool succeeded, uint64_t bytes) override {
    otherwise_.on_remote(opcode, succeeded, bytes);
  }

 private:
  TagList& tags_;
  engine::ReceiveSink& otherwise_;
  RendezvousQueue reads_;
  const bool offloads_;
  engine::Engine* engine_ = nullptr;
  engine::QueuePair* queue_pair_ = nullptr;
  uint32_t qpn_ = 0;
  TagMatch match_;
  bool plain_ = true;  ///< the present message has no match
};

}  // namespace verbatim::connectx
