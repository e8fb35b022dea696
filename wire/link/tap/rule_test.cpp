// SPDX-License-Identifier: MIT
#include "wire/link/tap/rule.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/format/packet.h"
#include "wire/link/tap/delayed.h"
#include "wire/link/tap/tap.h"

namespace verbatim::wire::tap {
namespace {

using roce::Operation;
using roce::Transport;

std::vector<Rule> rules_of(const std::string& text) {
  auto parsed = parse_rules(text, 7);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().reason);
  return parsed ? *parsed : std::vector<Rule>{};
}

std::string refusal_of(const std::string& text) {
  const auto parsed = parse_rules(text, 7);
  return parsed ? "taken" : parsed.error().reason;
}

PacketFacts packet(Transport transport, Operation operation, uint32_t source = 0x4010,
                   uint32_t destination = 0x8020) {
  return {Direction::kOut, roce::opcode(transport, operation), source, destination};
}

TEST(RuleTest, ReadsWhatItWrites) {
  for (const char* text :
       {"drop=1%,seed=7", "reorder=0.5%,seed=7", "corrupt=0.1%,opcode=send+ack,seed=7",
        "drop=100%,nth=3,count=2,seed=9", "delay=2ms,jitter=500us,probability=10%,direction=both,seed=7",
        "delay=0ms,jitter=1500ns,seed=7",
        "duplicate=100%,opcode=cm+rc_rdma_write_only+ud_send_only,qp=0x4010,source=0x1,destination=0x2,"
        "direction=in,"
        "seed=7"}) {
    const std::vector<Rule> rules = rules_of(text);
    ASSERT_EQ(1u, rules.size());
    EXPECT_EQ(text, text_of(rules[0]));
  }
}

TEST(RuleTest, MakesARuleOfEachAction) {
  const std::vector<Rule> rules = rules_of(" drop=1%, corrupt = 0.001,qp=5 ; ;reorder=1");
  ASSERT_EQ(3u, rules.size());
  EXPECT_EQ("drop=1%,qp=0x5,seed=7", text_of(rules[0]));
  EXPECT_EQ("corrupt=0.1%,qp=0x5,seed=7", text_of(rules[1]));
  EXPECT_EQ("reorder=100%,seed=7", text_of(rules[2]));
  EXPECT_TRUE(rules_of("").empty());
}

TEST(RuleTest, SaysWhatIsWrong) {
  EXPECT_NE(std::string::npos, refusal_of("drop").find("'drop' is not like drop=1%"));
  EXPECT_NE(std::string::npos, refusal_of("drop=101%").find("not a probability"));
  EXPECT_NE(std::string::npos, refusal_of("drop=nan").find("not a probability"));
  EXPECT_NE(std::string::npos, refusal_of("lose=1%").find("nothing called 'lose'"));
  EXPECT_NE(std::string::npos, refusal_of("opcode=send").find("does nothing"));
  EXPECT_NE(std::string::npos, refusal_of("drop=1,opcode=receive").find("no opcode 'receive'"));
  EXPECT_NE(std::string::npos, refusal_of("delay=5").find("not a time"));
  EXPECT_NE(std::string::npos, refusal_of("drop=1,direction=up").find("'up' is none"));
  EXPECT_NE(std::string::npos, refusal_of("drop=1,qp=0x1000000").find("not the number of a queue pair"));
  EXPECT_NE(std::string::npos, refusal_of("drop=1,nth=-1").find("not a number"));
}

TEST(RuleTest, SelectsPackets) {
  const auto matches = [](const char* text, const PacketFacts& facts) {
    return rules_of(text)[0].matches(facts);
  };
  const PacketFacts send = packet(Transport::kUc, Operation::kSendLast);
  const PacketFacts ack = packet(Transport::kRc, Operation::kAcknowledge, kAnyQpn, 0x4010);
  const PacketFacts mad = packet(Transport::kUd, Operation::kSendOnly, 1, 1);
  PacketFacts arrived = send;
  arrived.direction = Direction::kIn;
  EXPECT_TRUE(matches("drop=1", send));
  EXPECT_FALSE(matches("drop=1", arrived));
  EXPECT_TRUE(matches("drop=1,direction=both", arrived));
  EXPECT_TRUE(matches("drop=1,opcode=ack+send", send));
  EXPECT_FALSE(matches("drop=1,opcode=ack", send));
  EXPECT_TRUE(matches("drop=1,opcode=uc_send_last", send));
  EXPECT_FALSE(matches("drop=1,opcode=RC-SEND-LAST", send));
  EXPECT_TRUE(matches("drop=1,opcode=17", ack));
  EXPECT_TRUE(matches("drop=1,opcode=cm", mad));
  EXPECT_FALSE(matches("drop=1,opcode=cm", send));
  EXPECT_TRUE(matches("drop=1,opcode=cm+send", send));
  EXPECT_TRUE(matches("drop=1,qp=0x4010", send) && matches("drop=1,qp=0x4010", ack));
  EXPECT_FALSE(matches("drop=1,source=0x4010", ack));
  EXPECT_TRUE(matches("drop=1,destination=0x4010", ack));
}

TEST(RuleTest, PicksTheSamePacketsForTheSameSeed) {
  const Rule drop = rules_of("drop=2%")[0], again = rules_of("drop=2%,seed=7")[0];
  const Rule corrupt = rules_of("corrupt=2%")[0], other = rules_of("drop=2%,seed=8")[0];
  uint32_t picked = 0, both = 0, others = 0;
  for (uint64_t number = 0; number < 100'000; number++) {
    ASSERT_EQ(drop.picks(number), again.picks(number));
    picked += drop.picks(number);
    both += drop.picks(number) && corrupt.picks(number);
    others += drop.picks(number) && other.picks(number);
  }
  EXPECT_NEAR(2000, picked, 200);
  EXPECT_LT(both, 100u) << "rules of one list are independent";
  EXPECT_LT(others, 100u);
  const Rule third = rules_of("drop=100%,nth=3")[0];
  for (uint64_t number = 0; number < 10; number++) EXPECT_EQ(number == 2, third.picks(number));
}

TEST(RuleTest, TellsWhatADatagramIs) {
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(Transport::kUd, Operation::kSendOnly);
  headers.bth.destination = 0x8020;
  headers.deth = {0x11111111, 0x4010};
  uint8_t bytes[64];
  const size_t size = headers.emit(bytes);
  const PacketFacts facts = facts_of({bytes, size}, Direction::kIn);
  EXPECT_EQ(0x8020u, facts.dest_qpn);
  EXPECT_EQ(0x4010u, facts.source_qpn);
  EXPECT_EQ(headers.bth.opcode, facts.opcode);
  EXPECT_EQ(kAnyQpn, facts_of({bytes, 11}, Direction::kIn).dest_qpn);
  EXPECT_EQ(kAnyQpn, facts_of({bytes, 12}, Direction::kIn).source_qpn);
}

TEST(TapTest, DamageIsAlwaysFound) {
  roce::Envelope envelope;
  envelope.source.bytes[10] = envelope.source.bytes[11] = 0xff;
  envelope.destination = envelope.source;
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(Transport::kRc, Operation::kSendOnly);
  const std::vector<uint8_t> payload(40, 0x5a);
  uint8_t bytes[128];
  const size_t size = roce::PacketWriter(envelope).write(bytes, headers, payload);
  for (uint64_t dice = 0; dice < 20'000; dice++) {
    std::vector<uint8_t> datagram(bytes, bytes + size);
    damage(datagram, envelope, dice);
    ASSERT_FALSE(roce::check_icrc(envelope, datagram, false).right) << dice;
  }
}

struct StillClock final : Clock {
  uint64_t now_ns() const override { return 1; }
  uint64_t wall_ns() const override { return 1; }
};

TEST(TapTest, CountsAndObeysTheBoard) {
  const StillClock clock;
  Switch active;
  Tap tap(active, clock);
  Board board{};
  EXPECT_FALSE(active.any());
  tap.follow(board);
  EXPECT_FALSE(active.any());
  write_rules(board, {{4, rules_of("drop=100%,count=2")[0]}, {5, rules_of("duplicate=100%,nth=2")[0]}});
  EXPECT_TRUE(active.injects());
  const PacketFacts facts = packet(Transport::kRc, Operation::kSendOnly);
  EXPECT_TRUE(tap.fate(facts).drop);
  const Fate second = tap.fate(facts), third = tap.fate(facts);
  EXPECT_TRUE(second.drop);
  EXPECT_EQ(2u, second.copies);
  EXPECT_FALSE(third.drop);
  EXPECT_EQ(1u, third.copies);
  const std::vector<NumberedRule> counted = read_rules(board);
  ASSERT_EQ(2u, counted.size());
  EXPECT_EQ(4u, counted[0].number);
  EXPECT_EQ(3u, counted[0].matched);
  EXPECT_EQ(2u, counted[0].picked);
  EXPECT_EQ(1u, counted[1].picked);
  write_rules(board, {});
  EXPECT_FALSE(active.any());
  EXPECT_EQ(1u, tap.fate(facts).copies);
  tap.add_own(rules_of("corrupt=100%"));
  EXPECT_TRUE(active.injects());
  EXPECT_TRUE(tap.fate(facts).corrupt);
}

TEST(TapTest, BelievesNoBoard) {
  const StillClock clock;
  Switch active;
  Tap tap(active, clock);
  Board board{};
  tap.follow(board);
  Random random(3);
  for (int round = 0; round < 200; round++) {
    auto* words = reinterpret_cast<uint64_t*>(&board.rules);
    for (size_t i = 0; i < sizeof board.rules / 8; i++) words[i] = random.next();
    board.count = static_cast<uint32_t>(random.next());
    board.edition = static_cast<uint32_t>(random.next());
    for (int i = 0; i < 8; i++) (void)tap.fate(packet(Transport::kRc, Operation::kSendOnly, i, i));
    for (const NumberedRule& each : read_rules(board)) EXPECT_FALSE(text_of(each.rule).empty());
  }
}

TEST(DelayedTest, LetsGoByTimeAndByOvertakers) {
  Delayed<int> delayed;
  delayed.add(30, 0, 3);
  delayed.add(10, 0, 1);
  delayed.add(20, 2, 2);
  EXPECT_EQ(10u, delayed.next_ns());
  EXPECT_TRUE(delayed.take_due(9).empty());
  delayed.note_passed(1);
  EXPECT_EQ(std::vector<int>{1}, delayed.take_due(10));
  delayed.note_passed(1);
  EXPECT_EQ(std::vector<int>{2}, delayed.take_due(10));
  EXPECT_EQ(std::vector<int>{3}, delayed.take_due(30));
  EXPECT_TRUE(delayed.empty());
  EXPECT_EQ(kNever, delayed.next_ns());
}

}  // namespace
}  // namespace verbatim::wire::tap
