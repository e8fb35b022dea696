// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// The host's side of a shared receive queue's tag list: which entries are free, and whose the others are.
/// The list is changed by work requests of a queue pair that does nothing else. Guarded by the queue's lock.
class TagList {
 public:
  /// nullptr: no memory. `entries`: that can wait at a time.
  static std::unique_ptr<TagList> make(uint32_t entries);
  ~TagList();

  /// Makes the queue pair that carries changes; `srq` is on the device. 0, or an errno value that is told.
  int open(verbs::ProtectionDomain& domain, ibv_srq& srq, ibv_cq& cq, uint32_t operations);
  /// Ends it. Returns 0 or an errno value.
  int close();
  QueuePair& commands() { return *commands_; }

  /// Writes one change into the queue of changes, whose lock is held. 0 or an errno value.
  int write(ibv_ops_wr& wr, uint32_t waiting);
  /// A completion that is about the list; says what it means to the program. Returns its wr_id.
  uint64_t complete(const connectx::Cqe& cqe, CompletionQueue& cq);
  /// The device has found no entry for a message. True: it should be told how many the program has dealt
  /// with.
  bool note_unexpected();

 private:
  struct Entry {
    uint64_t wr_id = 0;
    uint32_t completions = 0;  ///< that still come for it; 0: it is free
    uint16_t handled = 0;      ///< `handled_` when it was appended
    uint32_t next = 0;         ///< free entry
  };
  void release(uint32_t index);
  int append(ibv_ops_wr& wr, connectx::TagSegment& segment);
  uint64_t complete_change(const connectx::Cqe& cqe, CompletionQueue& cq);

  std::unique_ptr<Entry[]> entries_;
  uint32_t count_ = 0;
  uint32_t free_first_ = 0, free_last_ = 0;  ///< the last is never used, so that there always is a next
  uint16_t found_ = 0, handled_ = 0;         ///< unexpected messages
  QueuePair* commands_ = nullptr;
};

/// ibv_post_srq_ops().
int post_srq_ops(ibv_srq* srq, ibv_ops_wr* wr, ibv_ops_wr** bad_wr);

/// Consumes a completion of a queue with a tag list.
uint64_t take_tagged(CompletionQueue& cq, const connectx::Cqe& cqe, SharedReceiveQueue& srq);

}  // namespace verbatim::mlx5
