// SPDX-License-Identifier: MIT
#include "engine/protection/protection.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

namespace verbatim::engine {

namespace {

constexpr const char* kBadUnit =
    "the last data unit of an encrypted transfer is neither whole nor short by a multiple of 16 bytes";

uint64_t up_to(uint64_t multiple_of, uint64_t bytes) {
  return (bytes + multiple_of - 1) / multiple_of * multiple_of;
}

}  // namespace

bool UnitCipher::run(bool to_wire, uint64_t index, std::span<uint8_t> data) const {
  for (size_t at = 0; at < data.size(); at += unit_bytes, index++) {
    const auto unit = data.subspan(at, std::min<size_t>(unit_bytes, data.size() - at));
    if (unit.size() < unit_bytes &&
        (unit.size() % AesXts::kBlock != 0 || unit.size() > unit_bytes - AesXts::kBlock))
      return false;
    const AesXts::Block number = advanced(first_number, index);
    if (to_wire == encrypts_to_wire)
      cipher->encrypt(number, unit);
    else
      cipher->decrypt(number, unit);
  }
  return true;
}

Protection::Protection(const BlockSignatures& signatures, std::optional<UnitCipher> cipher)
    : signatures_(signatures), cipher_(std::move(cipher)) {
  if (cipher_) {
    const uint64_t granule =
        cipher_->side == SignatureSide::kWire ? signatures_.wire_granule() : signatures_.memory_granule();
    repeats_ = std::lcm(granule, uint64_t{cipher_->unit_bytes}) / granule;
  }
  wire_granule_ = signatures_.wire_granule() * repeats_;
  memory_granule_ = signatures_.memory_granule() * repeats_;
}

uint64_t Protection::wire_length(uint64_t memory_length) const {
  return signatures_.wire_bytes(memory_length);
}

// What lies behind the range is taken along only where a data unit that reaches into it ends later.
const char* Protection::produce(Memory& memory, const Range& range, std::vector<uint8_t>& wire,
                                std::optional<SignatureFault>& fault) const {
  const uint64_t memory_start = range.index * memory_granule_;
  const uint64_t wire_left = wire_length(memory.length()) - range.index * wire_granule_;
  uint64_t wire_end = range.end;
  const bool at_wire = cipher_ && cipher_->side == SignatureSide::kWire;
  const bool at_memory = cipher_ && cipher_->side == SignatureSide::kMemory;
  if (at_wire) wire_end = std::min(up_to(cipher_->unit_bytes, wire_end), wire_left);
  const uint64_t bare_end = signatures_.memory_bytes(wire_end);
  uint64_t memory_end = bare_end;
  if (at_memory)
    memory_end = std::min(up_to(cipher_->unit_bytes, memory_end), memory.length() - memory_start);
  std::vector<uint8_t> bytes(memory_end);
  if (const char* why = memory.read(memory_start, bytes.data(), bytes.size())) return why;
  if (at_memory) {
    if (!cipher_->run(true, memory_start / cipher_->unit_bytes, bytes)) return kBadUnit;
    bytes.resize(bare_end);
  }
  const BlockSignatures::Window checked{signatures_.memory_bytes(range.begin),
                                        signatures_.memory_bytes(range.end)};
  wire = signatures_.convert(SignatureSide::kMemory, signature_index(range.index), bytes, checked, fault);
  wire.resize(std::min<uint64_t>(wire.size(), wire_end));  // a field is made whole
  if (at_wire && !cipher_->run(true, range.index * wire_granule_ / cipher_->unit_bytes, wire))
    return kBadUnit;
  return nullptr;
}

const char* Protection::to_wire(Memory& memory, uint64_t offset, void* to, size_t length) {
  const uint64_t index = offset / wire_granule_;
  const uint64_t begin = offset % wire_granule_;
  std::vector<uint8_t> wire;
  std::optional<SignatureFault> fault;
  if (const char* why = produce(memory, {index, begin, begin + length}, wire, fault)) return why;
  std::memcpy(to, wire.data() + begin, length);
  if (fault) record(*fault);
  return nullptr;
}

// Goes on where a transfer has come to, or begins inside a granule: what is in front of it there stays as it
// is.
const char* Protection::begin_stage(Memory& memory, uint64_t index, size_t begin, Stage& stage) {
  stage = {index, begin, {}};
  if (begin == 0) return nullptr;
  {
    const std::lock_guard hold(lock_);
    for (auto each = stages_.rbegin(); each != stages_.rend(); ++each) {
      if (each->index != index || each->known > begin || each->bytes.size() < begin) continue;
      stage = std::move(*each);
      stages_.erase(std::next(each).base());
      stage.bytes.resize(begin);
      return nullptr;
    }
  }
  std::optional<SignatureFault> unchecked;
  if (const char* why = produce(memory, {index, 0, begin}, stage.bytes, unchecked)) return why;
  stage.bytes.resize(begin);
  return nullptr;
}

void Protection::keep(Stage stage) {
  const std::lock_guard hold(lock_);
  if (stages_.size() == kStagesMax) stages_.erase(stages_.begin());
  stages_.push_back(std::move(stage));
}

const char* Protection::put(Memory& memory, const Stage& stage, std::optional<SignatureFault>& fault) const {
  std::vector<uint8_t> wire = stage.bytes;
  if (cipher_ && cipher_->side == SignatureSide::kWire &&
      !cipher_->run(false, stage.index * wire_granule_ / cipher_->unit_bytes, wire))
    return kBadUnit;
  std::vector<uint8_t> bytes = signatures_.convert(SignatureSide::kWire, signature_index(stage.index), wire,
                                                   {stage.known, wire.size()}, fault);
  const uint64_t start = stage.index * memory_granule_;
  uint64_t unchanged = signatures_.memory_bytes(stage.known);
  if (cipher_ && cipher_->side == SignatureSide::kMemory) {
    if (!cipher_->run(false, start / cipher_->unit_bytes, bytes)) return kBadUnit;
    unchanged -= unchanged % AesXts::kBlock;
  }
  return memory.write(start + unchanged, bytes.data() + unchanged, bytes.size() - unchanged);
}

const char* Protection::to_memory(Memory& memory, uint64_t offset, const void* from, size_t length,
                                  bool last) {
  Stage stage;
  if (const char* why = begin_stage(memory, offset / wire_granule_, offset % wire_granule_, stage))
    return why;
  const auto* bytes = static_cast<const uint8_t*>(from);
  stage.bytes.insert(stage.bytes.end(), bytes, bytes + length);
  const size_t part = stage.bytes.size() % wire_granule_;
  Stage rest;
  if (part != 0 && !last) {
    rest.index = stage.index + stage.bytes.size() / wire_granule_;
    rest.known = stage.bytes.size() < wire_granule_ ? stage.known : 0;
    rest.bytes.assign(stage.bytes.end() - static_cast<std::ptrdiff_t>(part), stage.bytes.end());
    stage.bytes.resize(stage.bytes.size() - part);
  }
  std::optional<SignatureFault> fault;
  if (!stage.bytes.empty())
    if (const char* why = put(memory, stage, fault)) return why;
  if (!rest.bytes.empty()) keep(std::move(rest));
  if (fault) record(*fault);
  return nullptr;
}

void Protection::record(const SignatureFault& fault) {
  const std::lock_guard hold(lock_);
  if (!armed_) return;
  armed_ = false;
  fault_ = fault;
  errors_.fetch_add(1, std::memory_order_release);
}

std::optional<SignatureFault> Protection::take_fault() {
  const std::lock_guard hold(lock_);
  return std::exchange(fault_, std::nullopt);
}

void Protection::arm() {
  const std::lock_guard hold(lock_);
  armed_ = true;
}

}  // namespace verbatim::engine
