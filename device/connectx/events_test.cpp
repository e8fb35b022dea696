// SPDX-License-Identifier: MIT
// Event queues, where events go, and who is looked at when a doorbell rings.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "device/connectx/device_event.h"
#include "device/connectx/event_router.h"
#include "device/connectx/prm/view.h"
#include "device/connectx/uar_table.h"

namespace verbatim::connectx {
namespace {

using prm::Eqe;
using prm::EventAuto;
using prm::View;

constexpr uint16_t kUser = 1, kStranger = 2;
constexpr uint32_t kEntries = 4, kUar = 7;

uint32_t type_of(std::span<const uint8_t> entry) { return View<Eqe>(entry)[Eqe::event_type]; }

struct Host final : hw::EventSink {
  void on_completion(hw::Cq&) override { own++; }
  void on_async(hw::AsyncEvent, void*) override { own++; }
  void on_device_event(const hw::DeviceEvent& event) override { told.push_back(event); }
  void on_interrupt(uint32_t vector) override { interrupts.push_back(vector); }
  int own = 0;
  std::vector<hw::DeviceEvent> told;
  std::vector<uint32_t> interrupts;
};

/// The memory of an event queue, as the host side gives it.
struct Entries {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kEntries * 64);
  Entries() {
    for (uint32_t i = 0; i < kEntries; i++) bytes[i * 64 + 63] = 1;
  }
  std::byte* base() { return reinterpret_cast<std::byte*>(bytes.data()); }
  /// The entry at that index, if it is the reader's.
  std::span<const uint8_t> at(uint32_t index) const {
    const std::span<const uint8_t> entry(&bytes[index % kEntries * 64], 64);
    const bool lap = (index & kEntries) != 0;
    return (entry[63] & 1) == lap ? entry : std::span<const uint8_t>();
  }
};

TEST(DeviceEvents, HaveTheirLayouts) {
  const hw::DeviceEvent completion = completion_event(0x123456);
  EXPECT_EQ(completion.type, 0);
  EXPECT_EQ(completion.entry[1], 0);
  EXPECT_EQ(completion.entry[57] << 16 | completion.entry[58] << 8 | completion.entry[59], 0x123456);
  const hw::DeviceEvent error = object_event(prm::Event::kCqError, "CQ", 0xabcdef);
  EXPECT_EQ(error.entry[1], 4);
  EXPECT_EQ(error.entry[33] << 16 | error.entry[34] << 8 | error.entry[35], 0xabcdef);
  const hw::DeviceEvent fatal = object_event(prm::Event::kLocalWqCatastrophicError, "SQ", 0x1234);
  EXPECT_EQ(fatal.entry[1], 5);
  EXPECT_EQ(fatal.entry[52], 2) << "what kind of queue";
  EXPECT_EQ(fatal.entry[58] << 8 | fatal.entry[59], 0x1234);
  const auto up = port_event(hw::AsyncEvent::kPortActive), down = port_event(hw::AsyncEvent::kPortError);
  ASSERT_TRUE(up && down);
  EXPECT_EQ(up->entry[1], 9);
  EXPECT_EQ(up->entry[3], 4);
  EXPECT_EQ(down->entry[3], 1);
  EXPECT_EQ(up->entry[40] >> 4, 1) << "port";
  EXPECT_FALSE(port_event(hw::AsyncEvent::kGidChange));
  EXPECT_EQ(port_event(hw::AsyncEvent::kLidChange)->entry[3], 6);
  EXPECT_EQ(port_event(hw::AsyncEvent::kClientReregister)->entry[3], 9);
}

TEST(EventRings, GiveEntriesAwayByTheirOwnerBits) {
  Entries memory;
  EventRing ring(memory.base(), kEntries, false);
  for (uint32_t i = 0; i < 3 * kEntries; i++) {
    EXPECT_TRUE(memory.at(i).empty()) << i;
    EXPECT_FALSE(ring.push(completion_event(i).entry)) << "not armed";
    ASSERT_FALSE(memory.at(i).empty()) << i;
    EXPECT_EQ(View<Eqe>(memory.at(i))[Eqe::event_data][EventAuto::comp_event][prm::CompEvent::cq_number], i);
    EXPECT_FALSE(ring.consume(i + 1, false));
  }
  EXPECT_FALSE(ring.failed());
}

TEST(EventRings, RaiseTheirInterruptOnce) {
  Entries memory;
  EventRing ring(memory.base(), kEntries, false);
  EXPECT_FALSE(ring.consume(0, true));
  EXPECT_TRUE(ring.armed());
  EXPECT_TRUE(ring.push(completion_event(1).entry));
  EXPECT_FALSE(ring.push(completion_event(2).entry));
  EXPECT_TRUE(ring.consume(1, true)) << "one is unread: at once";
  EXPECT_FALSE(ring.armed());
  EXPECT_FALSE(ring.consume(2, true));
  EXPECT_TRUE(ring.armed());
  EXPECT_FALSE(ring.consume(1, false)) << "an index of the past changes nothing";
  EXPECT_EQ(ring.consumed(), 2u);
  EXPECT_FALSE(ring.consume(9, false)) << "one of the future neither";
  EXPECT_EQ(ring.consumed(), 2u);
}

TEST(EventRings, FailWhenTheyOverrun) {
  Entries memory;
  EventRing ring(memory.base(), kEntries, false), careless(memory.base(), kEntries, true);
  for (uint32_t i = 0; i < kEntries; i++) EXPECT_FALSE(ring.push(completion_event(i).entry));
  EXPECT_FALSE(ring.failed());
  EXPECT_FALSE(ring.push(completion_event(9).entry));
  EXPECT_TRUE(ring.failed());
  EXPECT_FALSE(ring.consume(kEntries, false));
  EXPECT_FALSE(ring.push(completion_event(9).entry)) << "it has lost one";
  EXPECT_TRUE(memory.at(kEntries).empty());
  for (uint32_t i = 0; i < 3 * kEntries; i++) EXPECT_FALSE(careless.push(completion_event(i).entry));
  EXPECT_FALSE(careless.failed());
}

struct Router : ::testing::Test {
  Host host;
  EventRouter router{host, 2};
  Entries memory;
  EventRouter::Spec spec = [this] {
    EventRouter::Spec made;
    made.maker = kUser;
    made.base = memory.base();
    made.entries = kEntries;
    made.vector = 5;
    made.uar = kUar;
    made.events[0] = 1u << static_cast<uint32_t>(prm::Event::kPortStateChange);
    return made;
  }();
};

TEST_F(Router, TellsTheHostAndQueuesThatWantTheType) {
  const Expected<uint32_t> eqn = router.add(spec);
  ASSERT_TRUE(eqn);
  router.raise(object_event(prm::Event::kCqError, "CQ", 3));
  EXPECT_TRUE(memory.at(0).empty()) << "not in its mask";
  router.raise(*port_event(hw::AsyncEvent::kPortActive));
  ASSERT_FALSE(memory.at(0).empty());
  EXPECT_EQ(type_of(memory.at(0)), 9u);
  ASSERT_EQ(host.told.size(), 2u);
  EXPECT_STREQ(host.told[0].kind, "CQ");
  EXPECT_EQ(host.told[0].number, 3u);
  EXPECT_STREQ(host.told[1].kind, "");
  EXPECT_EQ(host.own, 0);
  EXPECT_TRUE(host.interrupts.empty()) << "nobody armed it";
}

TEST_F(Router, KnowsUsersAndVectors) {
  const Expected<uint32_t> eqn = router.add(spec);
  ASSERT_TRUE(eqn);
  EXPECT_EQ(*router.of_vector(0), 1u);
  EXPECT_EQ(*router.of_vector(1), 2u);
  EXPECT_EQ(router.of_vector(2).error().code, EINVAL);
  EXPECT_TRUE(router.hold(kStranger, 2));
  EXPECT_EQ(router.hold(kUser, 0).error().code, ENOENT);
  EXPECT_EQ(router.hold(kUser, 3).error().code, ENOENT);
  EXPECT_EQ(router.hold(kStranger, *eqn).error().code, ENOENT) << "another user's";
  EXPECT_TRUE(router.hold(kUser, *eqn));
  EXPECT_EQ(router.remove(kUser, *eqn).error().code, EBUSY);
  router.let_go(*eqn);
  EXPECT_EQ(router.remove(kStranger, *eqn).error().code, ENOENT);
  EXPECT_TRUE(router.remove(kUser, *eqn));
  EXPECT_EQ(router.query(kUser, *eqn).error().code, ENOENT);
  const Expected<uint32_t> next = router.add(spec);
  EXPECT_NE(*next, *eqn) << "a number rests";
}

TEST_F(Router, HasSoManyQueues) {
  for (uint32_t i = EventRouter::kFirstOfPrograms; i <= EventRouter::kLast; i++)
    ASSERT_TRUE(router.add(spec));
  EXPECT_EQ(router.add(spec).error().code, ENOMEM);
}

TEST_F(Router, TakesADoorbellForAllQueuesOfThePage) {
  Entries second_memory, far_memory;
  const uint32_t first = *router.add(spec);
  spec.base = second_memory.base();
  spec.vector = 6;
  const uint32_t second = *router.add(spec);
  spec.base = far_memory.base();
  spec.uar = kUar + 1;
  const uint32_t far = *router.add(spec);
  router.ring(kUar, first << 24 | 0, true);
  EXPECT_TRUE(router.query(kUser, first)->armed);
  EXPECT_TRUE(router.query(kUser, second)->armed) << "its doorbell may have been overwritten";
  EXPECT_FALSE(router.query(kUser, far)->armed);
  router.raise(*port_event(hw::AsyncEvent::kPortError));
  EXPECT_EQ(host.interrupts, (std::vector<uint32_t>{5, 6}));
  router.ring(kUar, second << 24 | 1, false);
  EXPECT_EQ(router.query(kUser, second)->consumed, 1u);
  EXPECT_EQ(router.query(kUser, first)->consumed, 0u);
  router.ring(kUar, second << 24 | 1, true);
  EXPECT_EQ(host.interrupts, (std::vector<uint32_t>{5, 6, 5})) << "one is unread in the other";
}

struct Uars : ::testing::Test {
  UarTable table{2};
  int sends = 0, arms = 0;
};

TEST_F(Uars, AreCountedAndOwned) {
  const Expected<uint32_t> first = table.take(kUser), second = table.take(kUser);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(table.take(kUser).error().code, ENOMEM);
  EXPECT_EQ(table.hold(kStranger, *first).error().code, ENOENT);
  EXPECT_TRUE(table.hold(kUser, *first));
  EXPECT_EQ(table.give_back(kUser, *first).error().code, EBUSY);
  EXPECT_EQ(table.give_back(kStranger, *first).error().code, ENOENT);
  table.let_go(*first, nullptr);
  EXPECT_TRUE(table.give_back(kUser, *first));
  EXPECT_EQ(table.give_back(kUser, *first).error().code, ENOENT);
}

TEST_F(Uars, RingForEveryQueueOfTheKind) {
  using Doorbell = UarTable::Doorbell;
  const uint32_t page = *table.take(kUser), other = *table.take(kUser);
  int queues[3];
  ASSERT_TRUE(table.hold(kUser, page, Doorbell::kSend, &queues[0], [this] { sends++; }));
  ASSERT_TRUE(table.hold(kUser, page, Doorbell::kSend, &queues[1], [this] { sends++; }));
  ASSERT_TRUE(table.hold(kUser, page, Doorbell::kArm, &queues[2], [this] { arms++; }));
  table.ring(page, Doorbell::kSend);
  EXPECT_EQ(sends, 2);
  table.ring(page, Doorbell::kArm);
  EXPECT_EQ(arms, 1);
  table.ring(other, Doorbell::kSend);
  table.ring(12345, Doorbell::kSend);
  table.let_go(page, &queues[0]);
  table.ring(page, Doorbell::kSend);
  EXPECT_EQ(sends, 3);
}

}  // namespace
}  // namespace verbatim::connectx
