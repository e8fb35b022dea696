// SPDX-License-Identifier: MIT
#include "engine/protection/protection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace verbatim::engine {
namespace {

using Bytes = std::vector<uint8_t>;
using Kind = SignatureKind;
constexpr uint32_t kBlockSizes[] = {512, 520, 4048, 4096, 4160};

struct TestMemory final : DataTransform::Memory {
  explicit TestMemory(size_t size) : bytes(size) {}
  uint64_t length() const override { return bytes.size(); }
  const char* read(uint64_t offset, void* to, size_t count) override {
    if (offset + count > bytes.size()) return "outside";
    std::memcpy(to, bytes.data() + offset, count);
    return nullptr;
  }
  const char* write(uint64_t offset, const void* from, size_t count) override {
    if (offset + count > bytes.size()) return "outside";
    std::memcpy(bytes.data() + offset, from, count);
    return nullptr;
  }
  Bytes bytes;
};

Bytes pattern(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes made(count);
  for (uint8_t& each : made) each = static_cast<uint8_t>(random());
  return made;
}

SignatureDomain domain(Kind kind, uint32_t block, uint32_t ref_tag = 7) {
  if (kind == Kind::kNone) return {};
  return {kind, block, true, 0x5678, ref_tag, true, SignatureDomain::Escape::kNone};
}

/// What a side with these fields looks like, put together by hand.
Bytes with_fields(const SignatureDomain& side, const Bytes& data) {
  if (side.none()) return data;
  Bytes out;
  for (size_t at = 0; at < data.size(); at += side.block_bytes) {
    const auto payload = std::span(data).subspan(at, std::min<size_t>(side.block_bytes, data.size() - at));
    out.insert(out.end(), payload.begin(), payload.end());
    if (payload.size() < side.block_bytes) break;
    uint8_t field[8];
    store_field(make_field(side, at / side.block_bytes, payload), field, 8);
    out.insert(out.end(), field, field + side.field_bytes());
  }
  return out;
}

Bytes sent(Protection& protection, TestMemory& memory, size_t piece) {
  Bytes wire(protection.wire_length(memory.length()));
  for (size_t at = 0; at < wire.size(); at += piece)
    EXPECT_EQ(protection.to_wire(memory, at, wire.data() + at, std::min(piece, wire.size() - at)), nullptr);
  return wire;
}

void received(Protection& protection, TestMemory& memory, const Bytes& wire, size_t piece) {
  for (size_t at = 0; at < wire.size(); at += piece) {
    const size_t length = std::min(piece, wire.size() - at);
    EXPECT_EQ(protection.to_memory(memory, at, wire.data() + at, length, at + length == wire.size()),
              nullptr);
  }
}

struct Case {
  SignatureDomain memory, wire;
};

std::vector<Case> all_cases() {
  constexpr Kind kKinds[] = {Kind::kNone,  Kind::kT10Crc, Kind::kT10Checksum,
                             Kind::kCrc32, Kind::kCrc32c, Kind::kCrc64Xp10};
  std::vector<Case> cases;
  for (const Kind memory : kKinds)
    for (const Kind wire : kKinds) cases.push_back({domain(memory, 512), domain(wire, 512, 99)});
  for (const uint32_t memory : kBlockSizes)
    for (const uint32_t wire : kBlockSizes)
      cases.push_back({domain(Kind::kT10Crc, memory), domain(Kind::kCrc32c, wire)});
  return cases;
}

TEST(BlockSignatures, TurnEverySideIntoEveryOtherInPiecesOfAnySize) {
  const Bytes data = pattern(3 * 4160 + 100, 1);
  for (const Case& each : all_cases()) {
    const Bytes memory_bytes = with_fields(each.memory, data);
    const Bytes wire_bytes = with_fields(each.wire, data);
    const BlockSignatures signatures(each.memory, each.wire, 0xff, 0);
    for (const size_t piece : {size_t{333}, size_t{4096}, wire_bytes.size()}) {
      Protection protection(signatures, {});
      TestMemory memory(memory_bytes.size());
      memory.bytes = memory_bytes;
      ASSERT_EQ(protection.wire_length(memory_bytes.size()), wire_bytes.size());
      EXPECT_EQ(sent(protection, memory, piece), wire_bytes);
      std::fill(memory.bytes.begin(), memory.bytes.end(), 0);
      received(protection, memory, wire_bytes, piece);
      EXPECT_EQ(memory.bytes, memory_bytes);
      EXPECT_EQ(protection.errors(), 0u);
    }
  }
}

TEST(BlockSignatures, ReportTheFirstWrongFieldWhereItIsChecked) {
  const Bytes data = pattern(2048, 2);
  const SignatureDomain side = domain(Kind::kT10Crc, 512);
  const auto fault_of = [&](size_t damaged, bool sending) {
    Protection protection(sending ? BlockSignatures(side, {}, 0xff, 0) : BlockSignatures({}, side, 0xff, 0),
                          {});
    Bytes bytes = with_fields(side, data);
    bytes[damaged] ^= 0xff;
    TestMemory memory(sending ? bytes.size() : data.size());
    if (sending) {
      memory.bytes = bytes;
      sent(protection, memory, 100);
    } else {
      received(protection, memory, bytes, 100);
    }
    EXPECT_EQ(protection.errors(), 1u);
    return protection.take_fault().value_or(SignatureFault{});
  };
  for (const bool sending : {true, false}) {
    SignatureFault fault = fault_of(520 + 3, sending);
    EXPECT_EQ(fault.part, SignaturePart::kGuard);
    EXPECT_EQ(fault.offset, 2 * 520u - 1);
    EXPECT_EQ(fault.side, sending ? SignatureSide::kMemory : SignatureSide::kWire);
    fault = fault_of(520 + 512 + 2, sending);
    EXPECT_EQ(fault.part, SignaturePart::kAppTag);
    EXPECT_EQ(fault.found >> 32 & 0xffff, 0xa978u);
    EXPECT_EQ(fault.computed >> 32 & 0xffff, 0x5678u);
    fault = fault_of(520 + 512 + 7, sending);
    EXPECT_EQ(fault.part, SignaturePart::kRefTag);
    EXPECT_EQ(fault.computed & 0xffffffff, 8u);
    EXPECT_EQ(fault.found & 0xffffffff, 8u ^ 0xff);
  }
}

TEST(BlockSignatures, CheckAndCopyWhatTheMasksSay) {
  const Bytes data = pattern(512, 3);
  const SignatureDomain side = domain(Kind::kT10Crc, 512);
  TestMemory memory(520);
  memory.bytes = with_fields(side, data);
  memory.bytes[514] = 0xa9;  // the application tag's first byte
  Protection second_byte(BlockSignatures(side, side, 0x10, 0), {});
  EXPECT_EQ(sent(second_byte, memory, 520), with_fields(side, data)) << "made anew";
  EXPECT_EQ(second_byte.errors(), 0u);
  Protection copied(BlockSignatures(side, side, 0x20, 0x20), {});
  EXPECT_EQ(sent(copied, memory, 520), memory.bytes);
  EXPECT_EQ(copied.errors(), 1u);
  Protection unlike(BlockSignatures(side, domain(Kind::kCrc64Xp10, 512), 0, 0xff), {});
  EXPECT_EQ(sent(unlike, memory, 520), with_fields(domain(Kind::kCrc64Xp10, 512), data));
}

TEST(BlockSignatures, RecordOneFaultUntilArmedAgain) {
  const SignatureDomain side = domain(Kind::kCrc32, 512);
  Protection protection(BlockSignatures(side, {}, 0xf0, 0), {});
  TestMemory memory(3 * 516);
  sent(protection, memory, 100);
  sent(protection, memory, 100);
  EXPECT_EQ(protection.errors(), 1u);
  EXPECT_EQ(protection.take_fault().value_or(SignatureFault{}).offset, 515u);
  EXPECT_FALSE(protection.take_fault());
  protection.arm();
  sent(protection, memory, 100);
  EXPECT_EQ(protection.errors(), 2u);
}

TEST(BlockSignatures, LeaveABlockThatATransferEndsInWithoutField) {
  const SignatureDomain side = domain(Kind::kCrc32, 512);
  Protection protection(BlockSignatures(side, {}, 0xf0, 0), {});
  TestMemory memory(516);
  uint8_t wire[512];
  EXPECT_EQ(protection.to_wire(memory, 0, wire, 511), nullptr);
  EXPECT_EQ(protection.errors(), 0u) << "nothing to check yet";
  EXPECT_EQ(protection.to_wire(memory, 511, wire, 1), nullptr);
  EXPECT_EQ(protection.errors(), 1u);
  const Bytes data(500, 1);
  EXPECT_EQ(protection.to_memory(memory, 0, data.data(), data.size(), true), nullptr);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.bytes.begin()));
  EXPECT_EQ(memory.bytes[512], 0);
}

TEST(Protection, TakesATransferUpAgainFromAnEarlierPlace) {
  const SignatureDomain side = domain(Kind::kT10Crc, 512);
  const Bytes data = pattern(2048, 4), wire = with_fields(side, data);
  Protection protection(BlockSignatures({}, side, 0xff, 0), {});
  TestMemory memory(2048);
  const auto take = [&](size_t from, size_t until) {
    EXPECT_EQ(protection.to_memory(memory, from, wire.data() + from, until - from, until == wire.size()),
              nullptr);
  };
  take(0, 700);
  take(600, 800);
  take(100, 1300);  // inside a block that has been put already
  take(1300, 2080);
  EXPECT_EQ(memory.bytes, data);
  EXPECT_EQ(protection.errors(), 0u);
}

/// Encryption beside signatures, against the same done in steps.
class Encrypted : public testing::TestWithParam<uint32_t> {
 protected:
  UnitCipher cipher(SignatureSide side, bool encrypts) const {
    return {std::make_shared<const AesXts>(pattern(32, 5)), {0xfe, 0xff}, GetParam(), side, encrypts};
  }
  Bytes run(Bytes data, bool encrypts) const {
    EXPECT_TRUE(cipher(SignatureSide::kWire, encrypts).run(true, 0, data));
    return data;
  }
};

TEST_P(Encrypted, PassesBothWaysInPiecesOfAnySize) {
  const SignatureDomain field = domain(Kind::kCrc64Xp10, 512);
  const Bytes data = pattern(64 * GetParam(), 6);  // whole blocks and units, with fields or without
  const Bytes with = with_fields(field, data);
  struct Order {
    Bytes memory, wire;
    SignatureDomain memory_domain, wire_domain;
    SignatureSide side;
    bool encrypts;
  };
  // The rows of the table that orders signature and encryption, by their letters.
  const Order orders[] = {
      {data, run(data, true), {}, {}, SignatureSide::kMemory, true},                         // A
      {data, with_fields(field, run(data, true)), {}, field, SignatureSide::kMemory, true},  // B
      {data, run(with, true), {}, field, SignatureSide::kWire, true},                        // C
      {with, run(data, true), field, {}, SignatureSide::kWire, true},                        // D
      {with, run(with, true), field, field, SignatureSide::kWire, true},                     // E
      {run(data, true), data, {}, {}, SignatureSide::kWire, false},                          // F
      {run(data, true), with, {}, field, SignatureSide::kMemory, false},                     // G
      {run(with, true), data, field, {}, SignatureSide::kMemory, false},                     // H
      {with_fields(field, run(data, true)), data, field, {}, SignatureSide::kWire, false},   // J
  };
  for (const Order& order : orders)
    for (const size_t piece : {size_t{1000}, size_t{65536}}) {
      Protection protection(BlockSignatures(order.memory_domain, order.wire_domain, 0xff, 0),
                            cipher(order.side, order.encrypts));
      TestMemory memory(order.memory.size());
      memory.bytes = order.memory;
      EXPECT_EQ(sent(protection, memory, piece), order.wire);
      std::fill(memory.bytes.begin(), memory.bytes.end(), 0);
      received(protection, memory, order.wire, piece);
      EXPECT_EQ(memory.bytes, order.memory);
      EXPECT_EQ(protection.errors(), 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(Units, Encrypted, testing::ValuesIn(kBlockSizes));

TEST(Protection, LetsEncryptedTransfersEndAtWholeCipherBlocksOnly) {
  const UnitCipher cipher{
      std::make_shared<const AesXts>(pattern(64, 7)), {}, 520, SignatureSide::kWire, true};
  Protection protection({}, cipher);
  TestMemory memory(1040);
  memory.bytes = pattern(1040, 8);
  const Bytes wire = sent(protection, memory, 1040);
  TestMemory other(1040);
  for (const size_t length : {520, 1040, 496, 520 + 16})
    EXPECT_EQ(protection.to_memory(other, 0, wire.data(), length, true), nullptr) << length;
  for (const size_t length : {47, 512, 519, 1039})
    EXPECT_NE(protection.to_memory(other, 0, wire.data(), length, true), nullptr) << length;
  EXPECT_EQ(other.bytes, memory.bytes);
}

}  // namespace
}  // namespace verbatim::engine
