// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "abi/prm/crypto.h"
#include "abi/prm/domains.h"
#include "abi/prm/queue_pairs.h"
#include "device/connectx/prm/fake_unit_test.h"
#include "device/connectx/prm/object_life.h"

namespace verbatim::prm {
namespace {

struct Commands : ::testing::Test {
  FakeUnit unit;
  std::vector<uint8_t> out = std::vector<uint8_t>(16, 0xa5);

  Reply run(std::span<const uint8_t> in) { return command_table().execute(unit, in, out); }
  uint32_t status() const { return out[0]; }
  uint32_t syndrome() const { return View<MboxOut>(out)[MboxOut::syndrome]; }
};

TEST_F(Commands, AProtectionDomainComesAndGoes) {
  std::vector<uint8_t> in = input_of(AllocPd::kOpcode, 0, 16);
  in[3] = 7;  // uid
  const Reply made = run(in);
  ASSERT_TRUE(made.result.ok()) << made.result.reason;
  EXPECT_STREQ(made.command->name, "ALLOC_PD");
  const std::vector<uint8_t> expected = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0x01, 0, 0, 0, 0};
  EXPECT_EQ(out, expected);

  in = input_of(DeallocPd::kOpcode, 0, 16);
  const Writer<DeallocPdIn> dealloc(in);
  dealloc.set(DeallocPdIn::pd, 0xabcd01);
  EXPECT_EQ(run(in).result.status, Status::kBadResErr) << "another user's";
  EXPECT_EQ(status(), 5u);
  EXPECT_NE(syndrome(), 0u);
  dealloc.set(DeallocPdIn::uid, 7);
  EXPECT_TRUE(run(in).result.ok());
  EXPECT_EQ(out, std::vector<uint8_t>(16, 0));
  EXPECT_EQ(run(in).result.reason, "DEALLOC_PD: the context has no protection domain of number 11259137");
}

TEST_F(Commands, DomainsAndUars) {
  ASSERT_TRUE(run(input_of(AllocUar::kOpcode, 0, 16)).result.ok());
  const uint32_t uar = View<AllocUarOut>(out)[AllocUarOut::uar];
  ASSERT_TRUE(run(input_of(AllocTransportDomain::kOpcode, 0, 16)).result.ok());
  const uint32_t domain = View<AllocTransportDomainOut>(out)[AllocTransportDomainOut::transport_domain];
  EXPECT_NE(uar, domain);
  auto in = input_of(DeallocUar::kOpcode, 0, 16);
  Writer<DeallocUarIn>(in).set(DeallocUarIn::uar, domain);
  EXPECT_FALSE(run(in).result.ok());
  Writer<DeallocUarIn>(in).set(DeallocUarIn::uar, uar);
  EXPECT_TRUE(run(in).result.ok());
  in = input_of(DeallocTransportDomain::kOpcode, 0, 16);
  Writer<DeallocTransportDomainIn>(in).set(DeallocTransportDomainIn::transport_domain, domain);
  EXPECT_TRUE(run(in).result.ok());
}

TEST_F(Commands, TheInputMayBeTheOutput) {
  std::vector<uint8_t> box = input_of(AllocPd::kOpcode, 0, 16);
  ASSERT_TRUE(command_table().execute(unit, box, box).result.ok());
  EXPECT_EQ(box[9], 0xab);
  EXPECT_EQ(box[0], 0);
}

TEST_F(Commands, LongInputsAreCopiedToo) {
  ASSERT_TRUE(run(input_of(AllocPd::kOpcode, 0, 5000)).result.ok());
}

TEST_F(Commands, EveryOpcodeOfAllIsAnswered) {
  std::set<uint16_t> known;
  for (const CommandInfo& command : all_commands()) known.insert(command.opcode);
  for (uint32_t opcode = 0; opcode <= 0xffff; opcode++) {
    const Reply reply = run(input_of(static_cast<uint16_t>(opcode), 0, 16));
    if (known.contains(static_cast<uint16_t>(opcode))) continue;
    ASSERT_EQ(reply.result.status, Status::kBadOpErr);
    ASSERT_EQ(reply.command, nullptr);
    ASSERT_EQ(status(), 2u);
  }
  EXPECT_EQ(run(input_of(0x999, 0, 16)).result.reason, "no command has opcode 0x999");
}

TEST_F(Commands, LengthsAreNamed) {
  Reply reply = run(std::vector<uint8_t>(15));
  EXPECT_EQ(reply.result.status, Status::kBadInpLenErr);
  EXPECT_EQ(status(), 0x50u);
  out.resize(15);
  reply = run(input_of(AllocPd::kOpcode, 0, 16));
  EXPECT_EQ(reply.result.status, Status::kBadOutpLenErr);
  EXPECT_EQ(status(), 0x51u);
  EXPECT_EQ(reply.result.reason, "ALLOC_PD: its output has 15 bytes and needs 16");
}

TEST_F(Commands, SyndromesNameTheCheckNotItsNumbers) {
  const Result one = refuse(Status::kBadParamErr, "no CQ has number 1"),
               two = refuse(Status::kBadParamErr, "no CQ has number 22");
  EXPECT_EQ(one.syndrome, two.syndrome);
  EXPECT_NE(one.syndrome, refuse(Status::kBadParamErr, "no QP has number 1").syndrome);
  EXPECT_NE(one.syndrome, 0u);
  EXPECT_LE(one.syndrome, 0xffffffu);
}

TEST_F(Commands, ErrnoValuesBecomeStatuses) {
  EXPECT_EQ(refuse(Error{EINVAL, "x"}).status, Status::kBadParamErr);
  EXPECT_EQ(refuse(Error{ENOMEM, "x"}).status, Status::kLimErr);
  EXPECT_EQ(refuse(Error{EBUSY, "x"}).status, Status::kBadResStateErr);
  EXPECT_EQ(refuse(Error{ENOENT, "x"}).status, Status::kBadResErr);
  EXPECT_EQ(refuse(Error{EOPNOTSUPP, "x"}).status, Status::kBadOpErr);
  EXPECT_EQ(refuse(Error{EIO, "x"}).status, Status::kIntErr);
}

/// Mailboxes of random contents on memory that ends where they do.
struct Boxes {
  Boxes(const CommandInfo& command, size_t in_bytes, size_t out_bytes, std::mt19937_64& random)
      : in(std::make_unique<uint8_t[]>(in_bytes)),
        out(std::make_unique<uint8_t[]>(out_bytes)),
        input(in.get(), in_bytes),
        output(out.get(), out_bytes) {
    for (auto& byte : input) byte = random() & 1 ? static_cast<uint8_t>(random()) : 0;
    write_bits(input, 0, 16, command.opcode);
    if (command.mod != CommandInfo::kAnyMod) write_bits(input, 48, 16, command.mod);
    std::memset(out.get(), 0xa5, out_bytes);
  }
  std::unique_ptr<uint8_t[]> in, out;
  std::span<uint8_t> input, output;
};

TEST_F(Commands, MailboxesOfEveryLength) {
  std::mt19937_64 random(3);
  for (const CommandInfo& command : all_commands()) {
    const bool offered = command_table().offers(command);
    for (size_t bytes = 0; bytes < command.in_bytes + 64u; bytes++) {
      Boxes boxes(command, bytes, command.out_bytes, random);
      const Reply reply = command_table().execute(unit, boxes.input, boxes.output);
      ASSERT_EQ(boxes.output[0], static_cast<uint8_t>(reply.result.status)) << command.name;
      if (bytes < 16 || (offered && bytes < command.in_bytes)) {
        ASSERT_EQ(reply.result.status, Status::kBadInpLenErr) << command.name << " " << bytes;
      }
      ASSERT_EQ(reply.result.ok(), reply.result.reason.empty());
    }
    for (size_t bytes = 0; bytes < command.out_bytes + 64u; bytes++) {
      Boxes boxes(command, command.in_bytes, bytes, random);
      const Reply reply = command_table().execute(unit, boxes.input, boxes.output);
      if (offered && bytes < command.out_bytes) {
        ASSERT_EQ(reply.result.status, Status::kBadOutpLenErr) << command.name << " " << bytes;
      }
      if (bytes != 0) {
        ASSERT_EQ(boxes.output[0], static_cast<uint8_t>(reply.result.status));
      }
    }
  }
}

TEST_F(Commands, AnUnknownEntryAddsNothing) {
  const Entry strange[] = {{0x999, CommandInfo::kAnyMod, [](CommandUnit&, auto, auto) { return Result{}; }}};
  const CommandTable table{strange};
  EXPECT_EQ(table.find(0x999, 0), nullptr);
  EXPECT_EQ(table.execute(unit, input_of(0x999, 0, 16), out).result.status, Status::kBadOpErr);
}

TEST(CommandTables, AGeneralObjectIsFoundByItsType) {
  const CommandTable table{};
  EXPECT_STREQ(table.find(CreateDek::kOpcode, CreateDek::kMod)->name, "CREATE_DEK");
  EXPECT_STREQ(table.find(CreateDek::kOpcode, 0x7777)->name, "CREATE_GENERAL_OBJECT");
  EXPECT_EQ(table.find(CreateDek::kOpcode, CreateDek::kMod)->in_bytes, 272u);
}

TEST(CommandTables, WhatIsMadeCanBeDestroyed) {
  const CommandTable& table = command_table();
  for (const CommandInfo& command : all_commands()) {
    const std::string_view name = command.name;
    const bool makes = name.starts_with("CREATE_") || name.starts_with("ALLOC_") || name == "ATTACH_TO_MCG";
    EXPECT_EQ(command.undo != 0, makes) << name;
    if (command.kind == Kind::kQuery || command.kind == Kind::kModify) {
      EXPECT_NE(command.id_in.width, 0u) << name;
    }
    if (!makes) continue;
    std::vector<uint8_t> out(command.out_bytes);
    if (command.id_out.width) write_bits(out, command.id_out.offset, command.id_out.width, 0x5a);
    const std::vector<uint8_t> in = input_of(command.opcode, command.mod, command.in_bytes);
    const std::vector<uint8_t> undo = undo_input(table, command, in, out);
    const CommandInfo* destroys = table.find(command.undo, static_cast<uint16_t>(command.mod));
    ASSERT_EQ(undo.size(), destroys->in_bytes) << name;
    EXPECT_EQ(undo[0] << 8 | undo[1], command.undo) << name;
    EXPECT_EQ(object_number(*destroys, undo, {}), command.id_out.width ? 0x5au : 0u) << name;
  }
}

TEST(CommandTables, WhatAsksOrChangesIsAboutWhatIsMade) {
  std::set<std::string_view> made;
  for (const CommandInfo& command : all_commands())
    if (command.undo != 0) made.insert(object_kind(command));
  for (const CommandInfo& command : all_commands()) {
    if (command.kind == Kind::kGeneral || command.kind == Kind::kOwner) continue;
    EXPECT_TRUE(made.contains(object_kind(command))) << command.name;
  }
}

TEST_F(Commands, UndoingAPdGivesItBack) {
  std::vector<uint8_t> in = input_of(AllocPd::kOpcode, 0, 16);
  Writer<AllocPdIn>(in).set(AllocPdIn::uid, 3);
  const Reply made = run(in);
  EXPECT_EQ(object_number(*made.command, in, out), 0xabcd01u);
  const std::vector<uint8_t> undo = undo_input(command_table(), *made.command, in, out);
  EXPECT_TRUE(run(undo).result.ok());
  EXPECT_TRUE(undo_input(command_table(), *run(undo).command, undo, out).empty());
}

TEST(CommandTables, UndoKeepsWhatElseNamesTheObject) {
  const CommandTable& table = command_table();
  std::vector<uint8_t> in = input_of(AttachToMcg::kOpcode, 0, 32), out(16);
  const Writer<AttachToMcgIn> attach(in);
  attach.set(AttachToMcgIn::qpn, 0x123456);
  attach.set(AttachToMcgIn::multicast_gid, 0, 0xff);
  attach.set(AttachToMcgIn::multicast_gid, 15, 9);
  std::vector<uint8_t> expected = in;
  expected[1] = 7;
  EXPECT_EQ(undo_input(table, *table.find(AttachToMcg::kOpcode, 0), in, out), expected);

  in = input_of(CreateDek::kOpcode, CreateDek::kMod, 272);
  write_bits(out, 64, 32, 0x77);
  const std::vector<uint8_t> undo =
      undo_input(table, *table.find(CreateDek::kOpcode, CreateDek::kMod), in, out);
  EXPECT_EQ(undo, (std::vector<uint8_t>{0x0a, 0x03, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0x77, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace verbatim::prm
