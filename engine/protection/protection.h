// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/spinlock.h"
#include "engine/data_transform.h"
#include "engine/protection/aes_xts.h"
#include "engine/protection/block_signatures.h"

namespace verbatim::engine {

/// Encryption of what passes a memory key: a data unit after the other, each with the number of the one
/// before it plus 1.
struct UnitCipher {
  std::shared_ptr<const AesXts> cipher;
  AesXts::Block first_number{};  ///< of the key's first data unit, lowest byte first
  uint32_t unit_bytes = 0;
  SignatureSide side{};           ///< on which side of the signatures it works
  bool encrypts_to_wire = false;  ///< or decrypts; the reverse on the way back

  /// Changes data that begins with unit `index`. False: the last unit has a length that AES-XTS does not take
  /// here: it may be short by whole blocks of 16 bytes only.
  bool run(bool to_wire, uint64_t index, std::span<uint8_t> data) const;
};

/// Signatures and encryption of a memory key. The parts of a granule that arrives in pieces wait here until
/// it is whole or its transfer ends.
class Protection final : public DataTransform {
 public:
  Protection(const BlockSignatures& signatures, std::optional<UnitCipher> cipher);

  uint64_t wire_length(uint64_t memory_length) const override;
  const char* to_wire(Memory& memory, uint64_t offset, void* to, size_t length) override;
  const char* to_memory(Memory& memory, uint64_t offset, const void* from, size_t length, bool last) override;
  uint32_t errors() const override { return errors_.load(std::memory_order_acquire); }

  /// The recorded fault, once.
  std::optional<SignatureFault> take_fault();
  /// A fault is recorded only if none has been since this was called last.
  void arm();

 private:
  /// Wire bytes from the beginning of granule `index` on, of which the first `known` did not come from the
  /// transfer.
  struct Stage {
    uint64_t index = 0;
    size_t known = 0;
    std::vector<uint8_t> bytes;
  };
  /// Bytes [begin, end) of the wire domain, from the beginning of granule `index` on.
  struct Range {
    uint64_t index, begin, end;
  };

  const char* produce(Memory& memory, const Range& range, std::vector<uint8_t>& wire,
                      std::optional<SignatureFault>& fault) const;
  const char* begin_stage(Memory& memory, uint64_t index, size_t begin, Stage& stage);
  const char* put(Memory& memory, const Stage& stage, std::optional<SignatureFault>& fault) const;
  void keep(Stage stage);
  void record(const SignatureFault& fault);
  uint64_t signature_index(uint64_t index) const { return index * repeats_; }

  static constexpr size_t kStagesMax = 64;  ///< transfers under way; more than that lose their parts

  const BlockSignatures signatures_;
  const std::optional<UnitCipher> cipher_;
  uint64_t repeats_ = 1;  ///< granules of the signatures in one of ours
  uint64_t wire_granule_, memory_granule_;

  SpinLock lock_;
  std::vector<Stage> stages_;  ///< the newest last
  std::optional<SignatureFault> fault_;
  bool armed_ = true;
  std::atomic<uint32_t> errors_{0};
};

}  // namespace verbatim::engine
