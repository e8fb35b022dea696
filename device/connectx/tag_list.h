// SPDX-License-Identifier: MIT
#pragma once

// Tag matching: a shared receive queue whose messages begin with a tag, and a list of buffers that wait for
// tags.
//
// A message for which the list has an entry goes into that entry's buffer, without its headers; others go
// into ordinary entries of the queue, headers and all. Of a rendezvous only the headers come: the device
// reads the data from the sender's memory and tells the sender when it has it (RendezvousQueue).
//
// Program and device race: while a message is on its way to an ordinary entry, the program may append the
// buffer that it was meant for, which a later message must not take. So each side counts the unexpected
// messages, and an entry waits for its turn until the program says that it has dealt with as many as the
// device has found.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/spinlock.h"
#include "device/connectx/completion_ring.h"
#include "device/connectx/receive_ring.h"
#include "engine/work.h"

namespace verbatim::connectx {

inline constexpr uint32_t kTagsMax = 1023, kTagOperationsMax = 4096;

/// Where a message goes that begins with a tag.
struct TagMatch {
  TagEvent event{};    ///< what its completion says; kTagConsumed and the like for an entry of the list
  uint32_t entry = 0;  ///< of the list
  bool told = false;   ///< kTagConsumed was said: the data's arrival is a second completion
  bool rendezvous = false;
  engine::Sge buffer{};
  TagHeader header{};
  RendezvousHeader where{};

  bool of_list() const { return event != kTagUnexpected && event != kTagNoTag; }
};

/// Thread safe.
class TagList {
 public:
  /// Ordinary entries come from `untagged`; completions carry `user_index`.
  TagList(SharedRing& untagged, CompletionRing& completions, uint32_t user_index, uint32_t size);

  /// Finds a place for a message of queue pair `qpn`. `reads`: its rendezvous are the device's to carry out.
  engine::ReceiveQueue::Take take(const engine::MessageHead& head, uint32_t qpn, bool reads,
                                  engine::ReceiveWork& work, TagMatch& match, const char*& reason);
  /// A work queue entry: nullptr, or why it makes no sense.
  const char* operate(std::span<const std::byte> entry);
  /// Tells of a message that has ended in one of its entries. `immediate`: nullptr for none.
  void complete(const TagMatch& match, TagEvent event, uint32_t qpn, uint32_t bytes,
                const uint32_t* immediate);

  SharedRing& untagged() { return untagged_; }
  CompletionRing& completions() { return completions_; }
  uint32_t user_index() const { return user_index_; }

 private:
  struct Entry {
    bool live = false;
    bool armed = false;  ///< it may be found
    uint64_t tag = 0, mask = 0;
    engine::Sge buffer{};
  };
  Entry* find(uint64_t tag, uint32_t& index);
  void consume(const engine::MessageHead& head, uint32_t index, bool reads, TagMatch& match);
  const char* append(const TagSegment& segment, const DataSegment& data);
  bool remove(uint32_t index);
  void note_handled(const TagSegment& segment);
  void tell(const TagSegment& segment, uint16_t work, TagEvent event, uint32_t index, bool done,
            uint32_t qpn);

  SharedRing& untagged_;
  CompletionRing& completions_;
  const uint32_t user_index_;
  SpinLock lock_;
  std::vector<Entry> entries_;
  std::vector<uint16_t> order_;  ///< live entries as they were appended
  uint32_t next_ = 0;            ///< the entry that is filled next
  uint16_t found_ = 0;           ///< unexpected messages
  uint16_t handled_ = 0;         ///< as the program has said last
};

}  // namespace verbatim::connectx
