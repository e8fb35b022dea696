// SPDX-License-Identifier: MIT
// Keys that stand for ranges of other keys, in every operation and on every way.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "testing/engine_ways.h"
#include "testing/list_keys.h"

namespace verbatim::testing {
namespace {

using namespace engine;

constexpr size_t kBytes = 1 << 20;
constexpr uint32_t kSizes[] = {1, 9, 64, 1000, 8192, 8193, 20'001, 90'000};

/// Of at least 90'000 bytes each: in one piece, in two, in many odd ones, in columns of 8 bytes, in columns
/// of pages.
std::vector<Layout> layouts() {
  Layout odd;
  size_t offset = 3;
  for (uint32_t i = 0; odd.length() < 90'000; i++) {
    odd.columns.push_back({offset, 1 + i * 37 % 3001});
    offset += odd.columns.back().length + i % 5;
  }
  return {
      {{{100, 95'000}}},
      {{{4096, 8}, {200'000, 95'000}}},
      odd,
      {{{0, 8, 10}, {400'000, 8, 24}}, 6000},
      {{{0, 4096, 5000}, {500'000, 512, 512}}, 20},
  };
}

class IndirectKeys : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    here = std::make_unique<TestMemory>(a(), kBytes, kAll);
    there = std::make_unique<TestMemory>(b(), kBytes, kAll);
    left = std::make_unique<TestQp>(a(), QpType::kRc);
    right = std::make_unique<TestQp>(b(), QpType::kRc);
    left->connect(*right);
    right->connect(*left);
  }
  static SendWork through(Opcode opcode, const ListKey& list, uint32_t length, uint64_t offset = 0) {
    SendWork w;
    w.opcode = opcode;
    w.signaled = true;
    w.sge_count = 1;
    w.sges[0] = list.sge(offset, length);
    return w;
  }
  static SendWork at(SendWork w, uint32_t rkey, uint64_t address) {
    w.rkey = rkey;
    w.remote_address = address;
    return w;
  }
  void receive_into(const ListKey& list, uint32_t length) {
    right->post_receive(nullptr, length, list.key());
  }
  /// How it ended; kFlushed also stands for "not at all".
  Status post(const SendWork& w) {
    const size_t before = left->send_completions.size();
    left->post(w);
    settle();
    return left->send_completions.size() > before ? left->send_completions[before].status : Status::kFlushed;
  }
  void clear() {
    std::fill(here->data(), here->data() + kBytes, 0);
    std::fill(there->data(), there->data() + kBytes, 0);
  }
  /// For each pair of layouts and each size, with memory that is clear but for what is to be moved.
  template <class Play>
  void with_every_size(Play&& play) {
    uint8_t seed = 0;
    for (const Layout& from_layout : layouts())
      for (const Layout& to_layout : layouts()) {
        ListKey from(a(), *here, from_layout), to(b(), *there, to_layout);
        for (const uint32_t size : kSizes) {
          clear();
          from.fill(size, ++seed);
          play(from, to, size, seed);
          if (HasFatalFailure()) return;
        }
      }
  }
  void TearDown() override {
    left.reset();
    right.reset();
    here.reset();
    there.reset();
  }

  std::unique_ptr<TestMemory> here, there;
  std::unique_ptr<TestQp> left, right;
};

TEST_P(IndirectKeys, CarryMessagesOfEverySize) {
  with_every_size([this](ListKey& from, ListKey& to, uint32_t size, uint8_t seed) {
    receive_into(to, 95'000);
    ASSERT_EQ(post(through(Opcode::kSend, from, size)), Status::kSuccess) << size;
    ASSERT_EQ(right->receive_completions.back().bytes, size);
    ASSERT_EQ(to.wrong(size, seed), -1) << size;
    if (size < 90'000) {
      ASSERT_EQ(to.at(size), 0) << size;
    }
  });
}

TEST_P(IndirectKeys, AreReadAndWrittenByPeers) {
  with_every_size([this](ListKey& from, ListKey& to, uint32_t size, uint8_t seed) {
    ASSERT_EQ(post(at(through(Opcode::kWrite, from, size), to.key(), 0)), Status::kSuccess) << size;
    ASSERT_EQ(to.wrong(size, seed), -1) << size;
    from.fill(size, 0);
    ASSERT_EQ(post(at(through(Opcode::kRead, from, size), to.key(), 0)), Status::kSuccess) << size;
    ASSERT_EQ(from.wrong(size, seed), -1) << size;
  });
}

TEST_P(IndirectKeys, ServeLocallyWhileThePeerHasPlainMemory) {
  for (const Layout& layout : layouts()) {
    ListKey list(a(), *here, layout);
    ListKey plain(b(), *there, {{{0, 95'000}}});
    list.fill(90'000, 5);
    ASSERT_EQ(post(at(through(Opcode::kWrite, list, 90'000), there->key(), there->address())),
              Status::kSuccess);
    ASSERT_EQ(plain.wrong(90'000, 5), -1);
    list.fill(90'000, 0);
    ASSERT_EQ(post(at(through(Opcode::kRead, list, 70'000, 11), there->key(), there->address() + 11)),
              Status::kSuccess);
    for (uint64_t i = 11; i < 70'011; i++) ASSERT_EQ(list.at(i), ListKey::pattern(i, 5)) << i;
  }
}

TEST_P(IndirectKeys, MayBeginAnywhereAndStandBesideOthers) {
  ListKey list(a(), *here, {{{10, 100}, {500, 50}}});
  ListKey into(b(), *there, {{{0, 4096}}});
  list.fill(150, 9);
  SendWork w = through(Opcode::kSend, list, 60, 70);
  w.sge_count = 3;
  w.sges[1] = {here->address() + 10, 20, here->key()};
  w.sges[2] = list.sge(140, 10);
  receive_into(into, 4096);
  ASSERT_EQ(post(w), Status::kSuccess);
  for (uint64_t i = 0; i < 90; i++) {
    const uint64_t index = i < 60 ? 70 + i : i < 80 ? i - 60 : 140 + i - 80;
    ASSERT_EQ(into.at(i), ListKey::pattern(index, 9)) << i;
  }
}

TEST_P(IndirectKeys, TakeAtomics) {
  ListKey words(b(), *there, {{{64, 16}, {1024, 4}, {2048, 12}}});
  ListKey split(a(), *here, {{{1, 3}, {100, 5}}});
  uint64_t& word = *reinterpret_cast<uint64_t*>(there->data() + 72);
  word = 40;
  SendWork add = at(through(Opcode::kFetchAdd, split, 8), words.key(), 8);
  add.swap_or_add = 2;
  ASSERT_EQ(post(add), Status::kSuccess);
  EXPECT_EQ(word, 42u);
  uint64_t original = 0;
  memcpy(&original, here->data() + 1, 3);
  memcpy(reinterpret_cast<char*>(&original) + 3, here->data() + 100, 5);
  EXPECT_EQ(original, 40u);
  // Half of it in one range, half in the next.
  EXPECT_EQ(post(at(add, words.key(), 16)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, StandForOneAnother) {
  ListKey inner(b(), *there, {{{0, 8, 16}}, 1000});
  ListKey from(a(), *here, {{{0, 4000}}});
  std::vector<KeyLayout::Entry> entries{{inner.key(), 4000, 4000, 0},
                                        {there->key(), there->address() + 500'000, 100, 0}};
  KeyTable& keys = b().engine().keys();
  const uint32_t outer = *keys.create_indirect({1, kAll, 0, 4100, 0},
                                               std::make_unique<const KeyLayout>(KeyShape{4, 0}, entries));
  from.fill(4000, 3);
  ASSERT_EQ(post(at(through(Opcode::kWrite, from, 4000), outer, 0)), Status::kSuccess);
  for (uint64_t i = 0; i < 4000; i++) ASSERT_EQ(inner.at(4000 + i), ListKey::pattern(i, 3)) << i;
  keys.destroy(outer);
}

TEST_P(IndirectKeys, CarryDatagrams) {
  TestQp sender(a(), QpType::kUd), receiver(b(), QpType::kUd);
  sender.connect(receiver);
  receiver.connect(sender);
  ListKey from(a(), *here, {{{0, 3, 5}}, 1000});
  ListKey into(b(), *there, {{{7, 5, 11}}, 1000});
  from.fill(3000, 8);
  receiver.post_receive(nullptr, 3040, into.key());
  SendWork w = through(Opcode::kSend, from, 3000);
  w.destination.gid = world_gid();
  w.destination.qpn = receiver.number();
  w.destination.qkey = 0x11111111;
  sender.post(w);
  settle();
  ASSERT_EQ(receiver.receive_completions.size(), 1u);
  EXPECT_EQ(receiver.receive_completions[0].bytes, 3040u);
  for (uint64_t i = 0; i < 3000; i++) ASSERT_EQ(into.at(40 + i), ListKey::pattern(i, 8)) << i;
}

/// Each byte of memory is two on the wire: itself and its complement. What is not so is counted.
class Twofold final : public DataTransform {
 public:
  uint64_t wire_length(uint64_t memory) const override { return 2 * memory; }
  const char* to_wire(Memory& memory, uint64_t offset, void* to, size_t length) override {
    for (size_t i = 0; i < length; i++) {
      char byte = 0;
      if (const char* why = memory.read((offset + i) / 2, &byte, 1)) return why;
      static_cast<char*>(to)[i] = (offset + i) % 2 ? static_cast<char>(~byte) : byte;
    }
    return nullptr;
  }
  const char* to_memory(Memory& memory, uint64_t offset, const void* from, size_t length,
                        bool last) override {
    for (size_t i = 0; i < length; i++) {
      const char byte = static_cast<const char*>(from)[i];
      char kept = byte;
      const uint64_t at = (offset + i) / 2;
      if (const char* why = (offset + i) % 2 ? memory.read(at, &kept, 1) : memory.write(at, &byte, 1))
        return why;
      if ((offset + i) % 2 && kept != static_cast<char>(~byte)) wrong++;
    }
    if (last) ended++;
    return nullptr;
  }
  uint32_t errors() const override { return wrong; }
  std::atomic<uint32_t> wrong{0}, ended{0};
};

TEST_P(IndirectKeys, MayTransformWhatPasses) {
  constexpr uint32_t kLength = 15'000;
  const auto near = std::make_shared<Twofold>(), far = std::make_shared<Twofold>();
  ListKey from(a(), *here, {{{0, 100, 110}}, 150}, kAll, near),
      to(b(), *there, {{{0, 1000, 1001}}, 15}, kAll, far);
  from.fill(kLength, 1);
  receive_into(to, 2 * kLength);
  ASSERT_EQ(post(through(Opcode::kSend, from, 2 * kLength)), Status::kSuccess);
  EXPECT_EQ(right->receive_completions.back().bytes, 2 * kLength);
  EXPECT_EQ(to.wrong(kLength, 1), -1);
  EXPECT_EQ(far->ended, 1u);
  to.fill(kLength, 2);
  ASSERT_EQ(post(at(through(Opcode::kRead, from, 2 * kLength), to.key(), 0)), Status::kSuccess);
  EXPECT_EQ(from.wrong(kLength, 2), -1);
  EXPECT_EQ(near->ended, 1u);
  from.fill(kLength, 3);
  ASSERT_EQ(post(at(through(Opcode::kWrite, from, 2 * kLength - 1), to.key(), 0)), Status::kSuccess);
  EXPECT_EQ(to.wrong(kLength, 3), -1);
  EXPECT_EQ(near->wrong + far->wrong, 0u);
  // What the other end makes of it is seen, and stops nothing.
  SendWork plain = through(Opcode::kSend, from, 0);
  plain.sges[0] = {here->address(), 100, here->key()};
  receive_into(to, 100);
  ASSERT_EQ(post(plain), Status::kSuccess);
  EXPECT_GT(far->errors(), 0u);
  EXPECT_EQ(post(through(Opcode::kSend, from, 2 * kLength + 1)), Status::kLocalProtection);
}

TEST_P(IndirectKeys, RefuseWhatTheirRightsOrRangesDoNotAllow) {
  ListKey unreadable(b(), *there, {{{0, 64}}}, kLocalWrite | kRemoteWrite);
  ListKey whole(a(), *here, {{{0, 64}}});
  EXPECT_EQ(post(at(through(Opcode::kRead, whole, 8), unreadable.key(), 0)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, RefuseWhatIsBeyondThem) {
  ListKey shorter(b(), *there, {{{0, 64}}});
  ListKey whole(a(), *here, {{{0, 100}}});
  EXPECT_EQ(post(at(through(Opcode::kWrite, whole, 65), shorter.key(), 0)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, RefuseRangesBeyondTheMemoryBehindThem) {
  ListKey beyond(a(), *here, {{{kBytes - 10, 11}}});
  EXPECT_EQ(post(through(Opcode::kSend, beyond, 11)), Status::kLocalProtection);
}

TEST_P(IndirectKeys, RefuseWhenTheMemoryBehindThemHasGone) {
  auto gone = std::make_unique<TestMemory>(b(), 4096, kAll);
  ListKey list(b(), *gone, {{{0, 64}, {100, 64}}});
  ListKey from(a(), *here, {{{0, 128}}});
  ASSERT_EQ(post(at(through(Opcode::kWrite, from, 128), list.key(), 0)), Status::kSuccess);
  gone.reset();
  EXPECT_EQ(post(at(through(Opcode::kWrite, from, 128), list.key(), 0)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, RefuseToWriteWhereTheMemoryBehindThemIsReadOnly) {
  TestMemory constant(b(), 4096, 0);
  ListKey list(b(), constant, {{{0, 64}}});
  ListKey from(a(), *here, {{{0, 64}}});
  ASSERT_EQ(post(at(through(Opcode::kRead, from, 64), list.key(), 0)), Status::kSuccess);
  EXPECT_EQ(post(at(through(Opcode::kWrite, from, 64), list.key(), 0)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, AreNotFollowedForEver) {
  KeyTable& keys = a().engine().keys();
  std::vector<KeyLayout::Entry> entries(1);
  const uint32_t loop = *keys.create_indirect({1, kAll | kUpdatable, 0, 64, 0},
                                              std::make_unique<const KeyLayout>(KeyShape{1, 0}, entries));
  {
    const AccessScope scope;
    KeyChange change;
    entries[0] = {loop, 0, 64, 0};
    change.layout = std::make_unique<const KeyLayout>(KeyShape{1, 0}, entries);
    ASSERT_EQ(keys.update(loop, 1, change), nullptr);
  }
  SendWork w;
  w.opcode = Opcode::kSend;
  w.sge_count = 1;
  w.sges[0] = {0, 64, loop};
  EXPECT_EQ(post(w), Status::kLocalProtection);
  keys.destroy(loop);
}

TEST_P(IndirectKeys, AreFreedByPeersThatMay) {
  ListKey list(b(), *there, {{{0, 64}}}, kAll | kUpdatable | kRemoteInvalidate);
  ListKey from(a(), *here, {{{0, 64}}});
  ASSERT_EQ(post(at(through(Opcode::kWrite, from, 64), list.key(), 0)), Status::kSuccess);
  receive_into(list, 0);
  SendWork w = through(Opcode::kSendInvalidate, from, 0);
  w.immediate = list.key();
  ASSERT_EQ(post(w), Status::kSuccess);
  EXPECT_EQ(right->receive_completions.back().opcode, Opcode::kSendInvalidate);
  EXPECT_EQ(right->receive_completions.back().immediate, list.key());
  EXPECT_EQ(post(at(through(Opcode::kWrite, from, 64), list.key(), 0)), Status::kRemoteAccess);
}

TEST_P(IndirectKeys, AreNotFreedByPeersThatMayNot) {
  ListKey list(b(), *there, {{{0, 64}}}, kAll | kUpdatable);
  ListKey from(a(), *here, {{{0, 64}}});
  receive_into(list, 0);
  SendWork w = through(Opcode::kSendInvalidate, from, 0);
  w.immediate = list.key();
  EXPECT_EQ(post(w), Status::kRemoteAccess);
  EXPECT_EQ(right->receive_completions.back().status, Status::kLocalAccess);
}

INSTANTIATE_TEST_SUITE_P(Ways, IndirectKeys, ::testing::Values(Way::kLoopback, Way::kDirect, Way::kRings),
                         [](const auto& info) { return name_of(info.param); });

struct KeyUpdates : ::testing::Test {
  ManualClock clock;
  World world;
  Node node{world, 1, clock};
  TestMemory memory{node, 1 << 16, ListKey::kEverything};
  KeyTable& keys = node.engine().keys();
  Layout low{{{0, 64}, {1000, 64}}}, high{{{4096, 100}, {8192, 28}}};

  Refusal give(uint32_t key, const Layout& layout) {
    const AccessScope scope;
    KeyChange change;
    change.layout = layout.over(memory, memory.address());
    change.free = false;
    return keys.update(key, 1, change);
  }
};

TEST_F(KeyUpdates, ChangeWhatIsGivenAndNothingElse) {
  ListKey list(node, memory, low, kLocalWrite | kUpdatable | kFreeKey);
  const AccessScope scope;
  wire::Piece piece;
  EXPECT_NE(keys.translate(list.key(), 1, 0, 0, 8, piece), nullptr);
  KeyChange change;
  change.must = KeyChange::Must::kBeInUse;
  EXPECT_NE(keys.update(list.key(), 1, change), nullptr);
  change.must = KeyChange::Must::kBeFree;
  change.free = false;
  EXPECT_NE(keys.update(list.key(), 2, change), nullptr) << "another domain's";
  ASSERT_EQ(keys.update(list.key(), 1, change), nullptr);
  ASSERT_EQ(keys.translate(list.key(), 1, kLocalWrite, 60, 8, piece), nullptr);
  EXPECT_EQ(piece.base, memory.data() + 60);
  EXPECT_EQ(piece.length, 4u) << "the rest is elsewhere";
  KeyChange rename;
  rename.variant = 0x42;
  rename.access_mask = kLocalWrite | kRemoteRead;
  rename.access = kRemoteRead;
  rename.start = 0x1000;
  rename.length = 50;
  ASSERT_EQ(keys.update(list.key(), 1, rename), nullptr);
  const uint32_t renamed = (list.key() & ~0xffu) | 0x42;
  EXPECT_NE(keys.translate(list.key(), 1, 0, 0x1000, 8, piece), nullptr) << "by its old name";
  EXPECT_NE(keys.translate(renamed, 1, kLocalWrite, 0x1000, 8, piece), nullptr) << "the right is gone";
  EXPECT_NE(keys.translate(renamed, 1, 0, 0x1000, 51, piece), nullptr) << "it is shorter";
  EXPECT_EQ(keys.translate(renamed, 1, kRemoteRead, 0x1000, 50, piece), nullptr);
}

TEST_F(KeyUpdates, LeaveRegionsAlone) {
  KeyChange change;
  change.free = true;
  EXPECT_NE(keys.update(memory.key(), 1, change), nullptr);
  EXPECT_NE(keys.update(0x12345600, 1, change), nullptr);
}

TEST_F(KeyUpdates, AreSeenWholeByReaders) {
  ListKey list(node, memory, low, kLocalWrite | kUpdatable);
  KeyLayout::Part unused;
  for (size_t i = 0; i < 64; i++) memory.data()[i] = memory.data()[1000 + i] = 1;
  for (size_t i = 0; i < 100; i++) memory.data()[4096 + i] = memory.data()[8192 + i] = 2;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> mixed{0}, refused{0};
  std::thread reader([&] {
    while (!stop) {
      const AccessScope scope;
      wire::Piece piece;
      if (keys.translate(list.key(), 1, 0, 64, 64, piece)) refused++;
      const uint64_t from = static_cast<uint64_t>(static_cast<char*>(piece.base) - memory.data());
      if (!(from == 1000 && piece.length == 64) && !(from == 4160 && piece.length == 36)) mixed++;
    }
  });
  for (int i = 0; i < 20'000; i++) ASSERT_EQ(give(list.key(), i % 2 ? low : high), nullptr);
  stop = true;
  reader.join();
  EXPECT_EQ(mixed, 0u);
  EXPECT_EQ(refused, 0u);
  EXPECT_FALSE(KeyLayout({}, {}).find(0, unused));
}

}  // namespace
}  // namespace verbatim::testing
