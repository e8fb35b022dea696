// SPDX-License-Identifier: MIT
// Path migration, packet by packet.
#include "testing/simulation/script.h"

namespace verbatim::simulation {
namespace {

using engine::AsyncEvent;
using engine::QpType;
using engine::Status;
using wire::Operation;

constexpr uint32_t kOther = 2;  ///< the peer's other address

/// One whose program has named an alternate path.
class Migrating : public Script {
 public:
  Migrating() : Script(QpType::kRc) {
    attributes.alternate_path = attributes.path;
    attributes.alternate_path.dgid = address_of(kOther);
    attributes.alternate_port = 1;
    attributes.alternate_timeout = 11;
    rearm();
  }
  void rearm() {
    attributes.path_mig_state = engine::kRearm;
    modify(engine::kQpAltPath | engine::kQpPathMigState);
  }
  /// The peer has an alternate path, too.
  void arm() {
    wire::Segment said = packet(Operation::kSend, heard_++, kOnly | wire::kAckRequest | wire::kMayMigrate);
    post_receive(100);
    rx(said);
    expect_receive();
    forget_sent();
    EXPECT_EQ(state(), engine::kArmed);
  }
  /// From its other address.
  wire::Segment from_other(wire::Segment segment) const {
    segment.source_gid = address_of(kOther);
    return segment;
  }
  engine::Migration state() { return static_cast<engine::Migration>(qp().query().path_mig_state); }
  void expect_migrated() {
    EXPECT_EQ(state(), engine::kMigrated);
    EXPECT_EQ(qp().query().path.dgid, address_of(kOther));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0], AsyncEvent::kPathMigrated);
  }

 private:
  uint32_t heard_ = 0;
};

TEST(Migration, WaitsForThePeer) {
  Migrating s;
  EXPECT_EQ(s.state(), engine::kRearm);
  s.post(s.work(engine::Opcode::kSend, 100));
  EXPECT_TRUE(s.expect(Operation::kSend, 0).has(wire::kMayMigrate));
  s.rx(s.ack(0));
  s.expect_completion(Status::kSuccess);
  EXPECT_EQ(s.state(), engine::kRearm) << "the peer has no other path";
  s.post(s.work(engine::Opcode::kSend, 100));
  s.expect(Operation::kSend, 1);
  wire::Segment ack = s.ack(1);
  ack.flags |= wire::kMayMigrate;
  s.rx(ack);
  s.expect_completion(Status::kSuccess);
  EXPECT_EQ(s.state(), engine::kArmed);
  EXPECT_TRUE(s.events.empty());
}

TEST(Migration, FollowsAFailure) {
  Migrating s;
  s.arm();
  s.post(s.work(engine::Opcode::kSend, 100));
  s.expect(Operation::kSend, 0);
  s.towards = address_of(kOther);
  for (int i = 0; i < 50 && s.events.empty(); i++) s.pass(Script::kTimeoutNs);
  s.expect_no_completion();
  s.expect_migrated();
  const wire::Segment& last = s.last_sent();
  EXPECT_EQ(last.dest_gid, address_of(kOther));
  EXPECT_FALSE(last.has(wire::kMayMigrate));
  EXPECT_EQ(last.psn, Script::kFirstPsn);
  s.rx(s.from_other(s.ack(0)));
  s.expect_completion(Status::kSuccess);
}

// Without another path the same silence is the end.
TEST(Migration, HappensOnce) {
  Migrating s;
  s.arm();
  s.post(s.work(engine::Opcode::kSend, 100));
  s.towards = address_of(kOther);
  s.pass(1000 * Script::kTimeoutNs);
  s.expect_completion(Status::kRetryExceeded);
  EXPECT_EQ(s.events.size(), 1u);
}

TEST(Migration, FollowsThePeer) {
  Migrating s;
  s.arm();
  s.towards = address_of(kOther);
  s.post_receive(100);
  s.rx(s.from_other(s.packet(Operation::kSend, 1, Script::kOnly | wire::kAckRequest)), 10);
  s.expect_migrated();
  s.expect_no_receive();  // it comes again
  s.rx(s.from_other(s.packet(Operation::kSend, 1, Script::kOnly | wire::kAckRequest)), 10);
  s.expect_receive();
  s.expect_ack(1);
}

TEST(Migration, OfThePeerIsRefusedUntilArmed) {
  Migrating s;
  s.post_receive(100);
  for (int i = 0; i < 2; i++)
    s.rx(s.from_other(s.packet(Operation::kSend, 0, Script::kOnly | wire::kAckRequest)), 10);
  s.expect_no_receive();
  ASSERT_EQ(s.events.size(), 1u);
  EXPECT_EQ(s.events[0], AsyncEvent::kPathMigrateError);
  EXPECT_EQ(s.state(), engine::kRearm);
}

TEST(Migration, FollowsTheProgram) {
  Migrating s;
  s.arm();
  s.post(s.work(engine::Opcode::kSend, 100));
  s.expect(Operation::kSend, 0);
  s.towards = address_of(kOther);
  s.attributes.path_mig_state = engine::kMigrated;
  s.modify(engine::kQpPathMigState);
  s.expect_migrated();
  s.expect(Operation::kSend, 0);  // what the peer may lack, once more
  s.rx(s.from_other(s.ack(0)));
  s.expect_completion(Status::kSuccess);
  // And back, with a path named anew.
  s.attributes.alternate_path.dgid = address_of(1);
  s.rearm();
  EXPECT_EQ(s.state(), engine::kRearm);
}

TEST(Migration, NeedsAnotherPath) {
  Script s(QpType::kRc);
  s.attributes.path_mig_state = engine::kRearm;
  EXPECT_FALSE(static_cast<bool>(s.qp().modify(s.attributes, engine::kQpPathMigState)));
  s.attributes.alternate_port = 1;
  s.attributes.alternate_path = s.attributes.path;
  s.attributes.alternate_path.is_global = false;
  EXPECT_FALSE(static_cast<bool>(s.qp().modify(s.attributes, engine::kQpAltPath | engine::kQpPathMigState)));
  s.attributes.alternate_path.is_global = true;
  s.attributes.path_mig_state = 3;
  EXPECT_FALSE(static_cast<bool>(s.qp().modify(s.attributes, engine::kQpAltPath | engine::kQpPathMigState)));
  s.attributes.path_mig_state = engine::kRearm;
  EXPECT_TRUE(static_cast<bool>(s.qp().modify(s.attributes, engine::kQpAltPath | engine::kQpPathMigState)));
}

}  // namespace
}  // namespace verbatim::simulation
