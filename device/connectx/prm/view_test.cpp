// SPDX-License-Identifier: MIT
#include "device/connectx/prm/view.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/prm/capabilities.h"
#include "abi/prm/completion_queues.h"
#include "abi/prm/crypto.h"
#include "abi/prm/events.h"
#include "abi/prm/memory.h"
#include "abi/prm/queue_pairs.h"
#include "abi/prm/raw_queues.h"
#include "abi/prm/receive_steering.h"

namespace verbatim::prm {
namespace {

uint64_t read_slowly(std::span<const uint8_t> box, uint64_t offset, unsigned width) {
  uint64_t value = 0;
  for (uint64_t bit = offset; bit < offset + width; bit++)
    value = value << 1 | (box[bit / 8] >> (7 - bit % 8) & 1);
  return value;
}

TEST(Bits, ReadAndWriteAgreeWithOneBitAtATime) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> box(24);
  for (uint64_t offset = 0; offset < 128; offset++) {
    for (unsigned width = 1; width <= 64; width++) {
      for (auto& byte : box) byte = static_cast<uint8_t>(random());
      const std::vector<uint8_t> before = box;
      ASSERT_EQ(read_bits(box, offset, width), read_slowly(box, offset, width));
      const uint64_t value = random() >> (64 - width);
      write_bits(box, offset, width, value);
      ASSERT_EQ(read_bits(box, offset, width), value);
      write_bits(box, offset, width, read_slowly(before, offset, width));
      ASSERT_EQ(box, before) << "bits beside the field changed";
    }
  }
}

TEST(Bits, NothingBeyondTheEnd) {
  for (size_t bytes = 0; bytes <= 10; bytes++) {
    const auto box = std::make_unique<uint8_t[]>(bytes);  // its end is watched by the sanitizer
    std::memset(box.get(), 0xff, bytes);
    const std::span<uint8_t> span(box.get(), bytes);
    for (uint64_t offset = 0; offset < 100; offset++) {
      for (unsigned width = 1; width <= 64; width++) {
        const bool inside = offset + width <= bytes * 8;
        ASSERT_EQ(holds(span, offset, width), inside);
        ASSERT_EQ(read_bits(span, offset, width), inside ? UINT64_MAX >> (64 - width) : 0);
        write_bits(span, offset, width, inside ? UINT64_MAX : 0);
      }
    }
    ASSERT_EQ(read_bits(span, UINT64_MAX, 64), 0u);
    ASSERT_EQ(read_bits(span, UINT64_MAX - 3, 8), 0u);
    for (size_t i = 0; i < bytes; i++) ASSERT_EQ(box[i], 0xff);
  }
}

TEST(Views, FieldsLieWhereProgramsPutThem) {
  std::vector<uint8_t> box(CreateCqIn::kBits / 8);
  const Writer<CreateCqIn> in(box);
  in.set(CreateCqIn::opcode, CreateCq::kOpcode);
  in.set(CreateCqIn::uid, 0x1234);
  in[CreateCqIn::cq_context].set(Cqc::log_cq_size, 9);
  in[CreateCqIn::cq_context].set(Cqc::uar_page, 0xabcdef);
  in[CreateCqIn::cq_context].set(Cqc::dbr_umem_id, 0x11223344);
  in[CreateCqIn::cq_context].set(Cqc::dbr_addr, uint64_t{0x0102030405060708});
  in.set(CreateCqIn::cq_umem_valid, true);
  EXPECT_EQ(box[0] << 8 | box[1], 0x0400);
  EXPECT_EQ(box[2] << 8 | box[3], 0x1234);
  EXPECT_EQ(box[0x10 + 4], 0x11);
  EXPECT_EQ(box[0x10 + 12], 9);
  EXPECT_EQ(box[0x10 + 13] << 16 | box[0x10 + 14] << 8 | box[0x10 + 15], 0xabcdef);
  EXPECT_EQ(box[0x10 + 56], 1);
  EXPECT_EQ(box[0x10 + 63], 8);
  EXPECT_EQ(box[0x5c], 0x80);
  size_t set = 0;
  for (const uint8_t byte : box) set += byte != 0;
  EXPECT_EQ(set, 1u + 2 + 1 + 3 + 4 + 8 + 1);
}

TEST(Views, QueuePairContext) {
  std::vector<uint8_t> box(Rst2initQpIn::kBits / 8);
  const Writer<Rst2initQpIn> in(box);
  in.set(Rst2initQpIn::qpn, 0x123456);
  in[Rst2initQpIn::qpc].set(Qpc::st, QpService::kRc);
  in[Rst2initQpIn::qpc].set(Qpc::pm_state, QpMigration::kMigrated);
  in[Rst2initQpIn::qpc][Qpc::primary_address_path].set(Ads::vhca_port_num, 1);
  in[Rst2initQpIn::qpc].set(Qpc::rwe, true);
  in[Rst2initQpIn::qpc].set(Qpc::q_key, 0x80010000);
  EXPECT_EQ(box[9] << 16 | box[10] << 8 | box[11], 0x123456);
  EXPECT_EQ(box[24] << 24 | box[25] << 16 | box[26] << 8 | box[27], 3 << 11);
  EXPECT_EQ(box[24 + 24 + 37], 1) << "dword 9 of the address path";
  EXPECT_EQ(box[24 + 146], 0x40);
  EXPECT_EQ(box[24 + 168], 0x80);
  EXPECT_EQ(in[Rst2initQpIn::qpc].as<QpService>(Qpc::st), QpService::kRc);
  EXPECT_TRUE(in[Rst2initQpIn::qpc][Qpc::rwe]);
}

TEST(Views, MemoryKeyAndItsEntries) {
  std::vector<uint8_t> box(CreateMkeyIn::kBits / 8 + 2 * Klm::kBits / 8);
  const Writer<CreateMkeyIn> in(box);
  const auto context = in[CreateMkeyIn::memory_key_mkey_entry];
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kKlms);
  context.set(Mkc::lw, true);
  context.set(Mkc::mkey_7_0, 0x42);
  context.set(Mkc::len, uint64_t{1} << 32);
  EXPECT_EQ(box[0x10 + 2] << 8 | box[0x10 + 3], 0x0800 | 2 << 8);
  EXPECT_EQ(box[0x10 + 7], 0x42);
  EXPECT_EQ(box[0x10 + 24 + 3], 1);
  EXPECT_EQ(in.size(CreateMkeyIn::klm_pas_mtt), 8u);
  in.set(CreateMkeyIn::klm_pas_mtt, 7, 0x01020304);
  EXPECT_EQ(box.back(), 4);
  in.set(CreateMkeyIn::klm_pas_mtt, 8, 0xffffffff);
  EXPECT_EQ(in.at(CreateMkeyIn::klm_pas_mtt, 8), 0u);
  const View<Klm> entry(box, CreateMkeyIn::kBits + Klm::kBits);
  EXPECT_EQ(entry[Klm::address], 0x01020304u);
}

TEST(Views, ArraysWithAnEndAndWithout) {
  std::vector<uint8_t> box(CreateEqIn::kBits / 8);
  const Writer<CreateEqIn> eq(box);
  eq.set(CreateEqIn::event_bitmask, 3, uint64_t{1} << 9);
  EXPECT_EQ(box[88 + 24 + 6], 2);
  EXPECT_EQ(eq.size(CreateEqIn::event_bitmask), 4u);
  EXPECT_EQ(eq.size(CreateEqIn::pas), 0u);

  std::vector<uint8_t> table(CreateRqtIn::kBits / 8 + 5 * 4);
  const Writer<CreateRqtIn> rqt(table);
  const auto context = rqt[CreateRqtIn::rqt_context];
  ASSERT_EQ(context.size(Rqtc::rq_num), 5u);
  context.at(Rqtc::rq_num, 4).set(RqNum::rq_num, 0x00abcdef);
  EXPECT_EQ(table.back(), 0xef);
  EXPECT_FALSE(context.at(Rqtc::rq_num, 5).complete());
  EXPECT_EQ(View<Rqtc>({}).size(Rqtc::rq_num), 0u);
}

TEST(Views, ShortMailboxesReadAsZero) {
  for (size_t bytes = 0; bytes < QueryQpOut::kBits / 8; bytes++) {
    const auto box = std::make_unique<uint8_t[]>(bytes);
    std::memset(box.get(), 0xff, bytes);
    const Writer<QueryQpOut> out(std::span<uint8_t>(box.get(), bytes));
    ASSERT_FALSE(out.complete());
    const auto path = out[QueryQpOut::qpc][Qpc::secondary_address_path];
    ASSERT_EQ(path[Ads::rmac_31_0], bytes * 8 >= 192 + 544 + 352 ? 0xffffffffu : 0u);
    path.set(Ads::rmac_31_0, 0xffffffff);
    out.set(QueryQpOut::pas, 0, UINT64_MAX);
  }
}

/// Every field of every layout, by the table at run time.
TEST(Fields, HoldWhatIsWritten) {
  std::mt19937_64 random(2);
  ASSERT_GT(all_fields().size(), 3000u);
  for (const FieldInfo& field : all_fields()) {
    ASSERT_GE(field.width, 1u);
    ASSERT_LE(field.width, 64u) << field.path;
    const size_t bytes = (field.offset + field.width + 7) / 8;
    const auto box = std::make_unique<uint8_t[]>(bytes);
    const std::span<uint8_t> span(box.get(), bytes);
    const uint64_t value = random() >> (64 - field.width);
    write_bits(span, field.offset, field.width, value);
    ASSERT_EQ(read_bits(span, field.offset, field.width), value) << field.layout << "." << field.path;
    ASSERT_EQ(read_bits(span.first(bytes - 1), field.offset, field.width), 0u);
  }
}

TEST(Fields, MailboxesBeginAlike) {
  size_t seen = 0;
  for (const FieldInfo& field : all_fields()) {
    const std::string_view layout = field.layout, path = field.path;
    if (!layout.ends_with("_in") && !layout.ends_with("_out")) continue;
    const std::pair place(field.offset, field.width);
    seen++;
    if (path == "opcode") {
      EXPECT_EQ(place, std::pair(0u, 16u)) << layout;
    } else if (path == "op_mod") {
      EXPECT_EQ(place, std::pair(48u, 16u)) << layout;
    } else if (path == "status") {
      EXPECT_EQ(place, std::pair(0u, 8u)) << layout;
    } else if (path == "syndrome") {
      EXPECT_EQ(place, std::pair(32u, 32u)) << layout;
    } else {
      seen--;
    }
  }
  EXPECT_GT(seen, 3 * all_commands().size());
}

}  // namespace
}  // namespace verbatim::prm
