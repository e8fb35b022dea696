// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <optional>

#include "device/connectx/formats.h"
#include "device/connectx/local_operations.h"
#include "device/hw/hca.h"
#include "engine/work.h"

namespace verbatim::connectx {

class CompletionRing;
class OperationCounters;
class TagList;

/// A send queue in ConnectX format. The memory may be written by the program at any time: each segment is
/// copied once and checked then. Used under the requester's lock.
class SendRing final : public engine::SendQueue {
 public:
  /// `memory.entries` basic blocks, a power of two.
  SendRing(const hw::QueueMemory& memory, const uint32_t* doorbell, hw::QpType type,
           CompletionRing* completions, uint32_t user_index)
      : base_(static_cast<const std::byte*>(memory.base)),
        blocks_(memory.entries),
        revocable_(memory.revocable),
        doorbell_(doorbell),
        type_(type),
        has_way_(type != hw::QpType::kRc && type != hw::QpType::kUc),
        completions_(completions),
        user_index_(user_index) {}

  void set_qpn(uint32_t qpn) { qpn_ = qpn; }
  /// Of an InfiniBand port: addresses are LIDs, with a GID or without.
  void set_infiniband(bool is) { infiniband_ = is; }
  /// Whose keys its entries may change and copy with; without, they may not.
  void set_keys(engine::KeyTable& keys, const ProtectionDevice& protection, uint32_t domain) {
    local_.emplace(keys, protection, domain);
  }
  /// What ends is counted there from now on.
  void set_counters(OperationCounters& counters) { counters_.store(&counters, std::memory_order_release); }
  /// The list that its entries may change.
  void set_tags(TagList* tags) { tags_ = tags; }
  void reset() { broken_ = false, seen_.store(kNothingSeen, std::memory_order_relaxed); }
  /// Whether the doorbell record says something new since the last call, or the first one after a reset.
  bool moved();

  Fetch fetch(uint32_t index, engine::SendWork& work, uint32_t& next, const char*& reason) override;
  Performed perform(uint32_t index, bool outstanding, engine::Status& status, const char*& reason) override;
  void complete(const engine::SendCompletion& completion) override;
  void on_key_error(uint32_t key, engine::DataTransform& transform) override;

 private:
  template <class T>
  T read(uint32_t index, uint32_t unit) const;  ///< zeros where the memory has gone
  const std::byte* at(uint32_t index, uint32_t offset) const;
  uint32_t waiting(uint32_t index) const;
  const char* decode(uint32_t index, uint32_t units, const ControlSegment& control,
                     engine::SendWork& work) const;
  const char* decode_way(uint32_t index, WqeOpcode opcode, uint32_t units, engine::SendWork& work,
                         uint32_t& unit) const;
  const char* decode_flush(uint32_t index, uint32_t unit, uint32_t units, const ControlSegment& control,
                           engine::SendWork& work) const;
  const char* decode_address(uint32_t index, uint32_t units, engine::SendWork& work, uint32_t& size) const;
  /// What stays at the sender needs no address.
  static bool stays(uint8_t opcode) {
    return opcode == kOpNop || opcode == kOpUmr || opcode == kOpSetPsv || opcode == kOpMmo;
  }
  bool has_address(uint8_t opcode) const {
    return type_ == hw::QpType::kUd || (type_ == hw::QpType::kDci && !stays(opcode));
  }
  const char* decode_frame(uint32_t index, uint32_t units, engine::SendWork& work, uint32_t& size) const;
  const char* add_inline(uint32_t index, uint32_t offset, uint32_t length, engine::SendWork& work) const;
  /// Neither keys nor memory are its business.
  bool sends_datagrams() const { return type_ == hw::QpType::kUd || type_ == hw::QpType::kRaw; }
  const char* decode_data(uint32_t index, uint32_t unit, uint32_t units, engine::SendWork& work) const;
  const char* decode_inline(uint32_t index, uint32_t& unit, uint32_t units, uint32_t length,
                            engine::SendWork& work) const;

  const std::byte* base_;
  const uint32_t blocks_;
  const bool revocable_;
  const uint32_t* doorbell_;
  const hw::QpType type_;
  const bool has_way_;                 ///< entries say where their message goes
  CompletionRing* const completions_;  ///< nullptr: it sends nothing
  const uint32_t user_index_;
  std::optional<LocalOperations> local_;
  uint32_t qpn_ = 0;
  bool infiniband_ = false;
  bool broken_ = false;
  static constexpr uint64_t kNothingSeen = UINT64_MAX;
  std::atomic<uint64_t> seen_{kNothingSeen};
  std::atomic<OperationCounters*> counters_{nullptr};
  TagList* tags_ = nullptr;
};

}  // namespace verbatim::connectx
