// SPDX-License-Identifier: MIT
#include "engine/protection/block_signatures.h"

#include <algorithm>
#include <numeric>

namespace verbatim::engine {

BlockSignatures::BlockSignatures(const SignatureDomain& memory, const SignatureDomain& wire,
                                 uint8_t check_mask, uint8_t copy_mask)
    : memory_(memory),
      wire_(wire),
      check_mask_(field_mask(check_mask)),
      copy_mask_(memory.same_structure(wire) ? field_mask(copy_mask) : 0) {
  const uint64_t memory_block = memory.none() ? 1 : memory.block_bytes;
  const uint64_t wire_block = wire.none() ? 1 : wire.block_bytes;
  granule_ = std::lcm(memory_block, wire_block);
}

uint64_t BlockSignatures::narrow(const SignatureDomain& domain, uint64_t bytes) {
  if (domain.none()) return bytes;
  const uint64_t stride = domain.block_bytes + domain.field_bytes();
  return bytes / stride * domain.block_bytes + std::min<uint64_t>(bytes % stride, domain.block_bytes);
}

uint64_t BlockSignatures::widen(const SignatureDomain& domain, uint64_t data_bytes) {
  return domain.none() ? data_bytes : data_bytes + data_bytes / domain.block_bytes * domain.field_bytes();
}

std::vector<uint8_t> BlockSignatures::convert(SignatureSide from, uint64_t index, std::span<const uint8_t> in,
                                              Window checked, std::optional<SignatureFault>& fault) const {
  const SignatureSide to = from == SignatureSide::kWire ? SignatureSide::kMemory : SignatureSide::kWire;
  return give(to, index, take(from, index, in, checked, fault));
}

void BlockSignatures::check(SignatureSide from, uint64_t block, uint64_t found, std::span<const uint8_t> data,
                            std::optional<SignatureFault>& fault) const {
  const SignatureDomain& domain = of(from);
  if (fault || check_mask_ == 0 || escapes(domain, found)) return;
  const uint64_t computed = make_field(domain, block, data);
  const uint64_t wrong = (found ^ computed) & check_mask_;
  for (const auto part : {SignaturePart::kGuard, SignaturePart::kAppTag, SignaturePart::kRefTag}) {
    if ((wrong & part_mask(domain, part)) == 0) continue;
    const uint64_t stride = domain.block_bytes + domain.field_bytes();
    fault = SignatureFault{from, part, found, computed, (block + 1) * stride - 1};
    return;
  }
}

// Some of a field at the very end is dropped, its block unchecked.
BlockSignatures::Bare BlockSignatures::take(SignatureSide from, uint64_t index, std::span<const uint8_t> in,
                                            Window checked, std::optional<SignatureFault>& fault) const {
  const SignatureDomain& domain = of(from);
  Bare bare;
  if (domain.none()) {
    bare.data.assign(in.begin(), in.end());
    return bare;
  }
  bare.data.reserve(in.size());
  uint64_t block = first_block(domain, index);
  for (size_t at = 0; at < in.size(); block++) {
    const auto payload = in.subspan(at, std::min<size_t>(domain.block_bytes, in.size() - at));
    bare.data.insert(bare.data.end(), payload.begin(), payload.end());
    at += payload.size();
    if (payload.size() < domain.block_bytes || in.size() - at < domain.field_bytes()) break;
    const uint64_t found = load_field(domain, in.data() + at);
    bare.fields.push_back(found);
    at += domain.field_bytes();
    if (at > checked.after && at <= checked.until) check(from, block, found, payload, fault);
  }
  return bare;
}

std::vector<uint8_t> BlockSignatures::give(SignatureSide to, uint64_t index, const Bare& bare) const {
  const SignatureDomain& domain = of(to);
  if (domain.none()) return bare.data;
  std::vector<uint8_t> out;
  out.reserve(widen(domain, bare.data.size()));
  const std::span<const uint8_t> data(bare.data);
  const uint64_t first = first_block(domain, index);
  for (uint64_t block = 0; block * domain.block_bytes < data.size(); block++) {
    const size_t at = block * domain.block_bytes;
    const auto payload = data.subspan(at, std::min<size_t>(domain.block_bytes, data.size() - at));
    out.insert(out.end(), payload.begin(), payload.end());
    if (payload.size() < domain.block_bytes) break;
    uint64_t field = make_field(domain, first + block, payload);
    if (block < bare.fields.size()) field = (field & ~copy_mask_) | (bare.fields[block] & copy_mask_);
    out.resize(out.size() + domain.field_bytes());
    store_field(field, out.data() + out.size() - domain.field_bytes(), domain.field_bytes());
  }
  return out;
}

}  // namespace verbatim::engine
