// SPDX-License-Identifier: MIT
// Peers that write nonsense into the segment that is open to them, or are killed while they send.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <random>
#include <thread>

#include "wire/link/shm/test_town.h"

namespace verbatim::wire::shm {
namespace {

/// A peer's view of a house's inbound segment.
struct Scribbler {
  explicit Scribbler(const House& victim) {
    void* data = mmap(nullptr, sizeof(Inbound), PROT_READ | PROT_WRITE, MAP_SHARED,
                      victim.fabric->handles().inbound, 0);
    inbound = data == MAP_FAILED ? nullptr : static_cast<Inbound*>(data);
  }
  ~Scribbler() { munmap(inbound, sizeof(Inbound)); }
  Inbound* inbound;
};

// Entries whose stamp is right, so that they are read, and whose every other byte is not.
TEST(HostilePeer, GarbledEntriesBreakOnlyItsOwnChannel) {
  std::mt19937 random(7);
  int broken = 0;
  for (int round = 0; round < 400; round++) {
    Town town;
    House a(town, 3, 100), b(town, 7, 101), other(town, 8, 102);
    Channel* way = a.to(7);
    ASSERT_NE(nullptr, way);
    Scribbler scribbler(b);
    ASSERT_NE(nullptr, scribbler.inbound);
    Slot* ring = scribbler.inbound->rings[3];
    for (uint32_t at = 0; at < 64; at++) {
      auto* bytes = reinterpret_cast<uint8_t*>(&ring[at]);
      for (uint32_t i = 0; i < kSlotBytes; i++) bytes[i] = static_cast<uint8_t>(random());
      if (random() % 2) {  // plausible at first sight
        EntryHeader header{};
        header.slots = static_cast<uint16_t>(random() % 4);
        header.operation = static_cast<uint8_t>(random() % 9);
        header.form = static_cast<uint8_t>(random());
        header.length = random() % 3 ? random() % 300 : random();
        std::memcpy(bytes, &header, sizeof header);
      }
      ring[at].stamp.store(stamp_of(at), std::memory_order_release);
    }
    for (int i = 0; i < 4; i++) b.poll();
    broken += b.inbox.gone;
    ASSERT_EQ(SendResult::kAccepted, other.send(other.to(7), pattern(50, 1), 77));
    b.inbox.arrivals.clear();
    b.poll();
    ASSERT_EQ(1u, b.inbox.arrivals.size());
    EXPECT_EQ(77u, b.inbox.arrivals[0].segment.psn);
  }
  EXPECT_GT(broken, 300);
}

TEST(HostilePeer, ABrokenChannelStaysUnreachable) {
  Town town;
  House a(town, 3, 100), b(town, 7, 101);
  ASSERT_NE(nullptr, a.to(7));
  Channel* back = b.to(3);
  Scribbler scribbler(b);
  scribbler.inbound->rings[3][0].stamp.store(stamp_of(0));
  b.poll();
  EXPECT_EQ(1, b.inbox.gone);
  EXPECT_EQ(SendResult::kUnreachable, b.send(back, {}, 1));
  EXPECT_EQ(nullptr, b.to(3)) << "met again, its rings would be out of step";
  EXPECT_EQ(0u, b.poll());
  EXPECT_FALSE(b.fabric->pending());
}

// Nonsense over everything that peers can write, while the owner polls, sends and waits.
TEST(HostilePeer, ScribblingOverTheWholeSegmentHarmsNoOne) {
  for (unsigned seed = 0; seed < 12; seed++) {
    Town town;
    House a(town, 3, 100), b(town, 7, 101);
    Channel* way = a.to(7);
    Channel* back = b.to(3);
    ASSERT_TRUE(way && back);
    a.inbox.discard = b.inbox.discard = true;
    Scribbler scribbler(b);
    std::atomic<bool> stop{false};
    std::thread vandal([&] {
      std::mt19937_64 random(seed);
      auto* words = reinterpret_cast<uint64_t*>(scribbler.inbound);
      const size_t head_words = offsetof(Inbound, rings) / 8;
      auto* ring = reinterpret_cast<uint64_t*>(scribbler.inbound->rings[3]);
      while (!stop) {
        // Not the access counters: those that count wrongly delay wait_for_peers by its limit.
        const size_t word = random() % head_words;
        if (word * 8 < offsetof(Inbound, access) || word * 8 >= offsetof(Inbound, controls))
          __atomic_store_n(words + word, random(), __ATOMIC_RELAXED);
        __atomic_store_n(ring + random() % (kRingSlots * 8), random(), __ATOMIC_RELAXED);
      }
    });
    const uint64_t until = b.clock.now_ns() + 60'000'000;
    for (uint32_t i = 0; b.clock.now_ns() < until; i++) {
      a.send(way, pattern(i % 300, i), i);
      b.poll(64);
      b.send(back, {}, i);
      b.fabric->pending();
      b.fabric->want_wake(i & 1);
      a.poll(64);
    }
    stop = true;
    vandal.join();
    b.fabric->wait_for_peers();
  }
}

/// A child that owns slot 3 and runs `body`; the parent's town learns of it.
template <class Body>
pid_t start_child(Town& town, Body body) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    House own(town, 3, 100);
    // The child's town holds the parent's descriptors, inherited: they are taken from the parent.
    const PeerHandles handles = own.fabric->handles();
    (void)!write(ready[1], &handles, sizeof handles);
    body(own);
    _exit(0);
  }
  PeerHandles handles;
  const bool told = read(ready[0], &handles, sizeof handles) == sizeof handles;
  close(ready[0]);
  close(ready[1]);
  if (!told) return -1;
  town.put(3, handles, static_cast<uint32_t>(child), 100);
  return child;
}

TEST(OtherProcess, MessagesArriveAndItsEndIsSeen) {
  Town town;
  House b(town, 7, 101);
  const std::vector<char> large = pattern(300'000, 4);
  const pid_t child = start_child(town, [&](House& own) {
    Channel* way = own.to(7);
    if (!way) _exit(3);
    const bool pulls = way->payload_max(true) > kEagerBytesMax;
    for (uint32_t psn = 0; psn < 5000;) {
      const SendResult result = psn % 100 == 99 && pulls ? own.send(way, large, psn, true)
                                                         : own.send(way, pattern(psn % 200, psn), psn);
      psn += result == SendResult::kAccepted;
      if (result != SendResult::kAccepted) usleep(100);
    }
    for (;;) pause();
  });
  ASSERT_GT(child, 0);
  const uint64_t until = b.clock.now_ns() + 20'000'000'000;
  while (b.inbox.count < 5000 && b.clock.now_ns() < until) b.poll();
  ASSERT_EQ(5000u, b.inbox.arrivals.size());
  for (uint32_t psn = 0; psn < 5000; psn++) {
    const Inbox::Arrival& arrival = b.inbox.arrivals[psn];
    ASSERT_EQ(psn, arrival.segment.psn);
    ASSERT_EQ(CopyResult::kDone, arrival.result);
    ASSERT_TRUE(arrival.bytes == (arrival.bytes.size() > 200 ? large : pattern(psn % 200, psn)));
  }
  Channel* back = b.to(3);
  ASSERT_NE(nullptr, back);
  EXPECT_TRUE(back->alive());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(back->alive());
  EXPECT_EQ(SendResult::kUnreachable, b.send(back, {}, 1));
  b.fabric->sweep(b.inbox);
  EXPECT_EQ(1, b.inbox.gone);
}

TEST(OtherProcess, KilledWhileItSendsLeavesAWholePrefix) {
  for (int round = 0; round < 20; round++) {
    Town town;
    House b(town, 7, 101);
    const pid_t child = start_child(town, [](House& own) {
      Channel* way = own.to(7);
      for (uint32_t psn = 0; way;)
        psn += own.send(way, pattern(psn * 37 % 3000, psn), psn) == SendResult::kAccepted;
    });
    ASSERT_GT(child, 0);
    const uint64_t until = b.clock.now_ns() + 3'000'000 + static_cast<uint64_t>(round) * 300'000;
    while (b.clock.now_ns() < until) b.poll(50);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    b.poll();
    b.fabric->sweep(b.inbox);
    b.fabric->peer_gone(3, 100, b.inbox);
    for (uint32_t i = 0; i < b.inbox.arrivals.size(); i++) {
      ASSERT_EQ(i & kPsnMask, b.inbox.arrivals[i].segment.psn);
      ASSERT_TRUE(pattern(i * 37 % 3000, i) == b.inbox.arrivals[i].bytes);
    }
    EXPECT_LE(b.inbox.gone, 2);
    town.remove(3);
    House next(town, 3, 102);
    EXPECT_NE(nullptr, next.to(7));
    b.fabric->wait_for_peers();
  }
}

TEST(OtherProcess, AForkedChildHarmsNeitherItsParentNorPeers) {
  Town town;
  House a(town, 3, 100), b(town, 7, 101);
  Channel* way = a.to(7);
  Channel* own = a.to(3);
  ASSERT_NE(nullptr, b.to(3));
  a.poll();
  b.poll();
  a.fabric->published()[8] = std::byte{5};
  const pid_t child = fork();
  if (child == 0) {
    a.fabric->after_fork_child();
    const uint32_t ticket = way->enter_access();
    const uint32_t own_ticket = own->enter_access();
    bool good = a.send(way, {}, 1) == SendResult::kUnreachable && !way->alive() && !way->published();
    good &= a.fabric->published()[8] == std::byte{5};
    a.fabric->published()[8] = std::byte{6};
    good &= a.poll() == 0 && !a.fabric->pending() && !a.to(7);
    a.fabric->want_wake(true);
    a.fabric->wait_for_peers();
    way->nudge();
    way->leave_access(ticket);
    own->leave_access(own_ticket);
    way->enter_access();  // for good
    own->enter_access();
    a.fabric.reset();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(0, WEXITSTATUS(status));
  EXPECT_EQ(std::byte{5}, a.fabric->published()[8]);
  const uint64_t began = a.clock.now_ns();
  a.fabric->wait_for_peers();
  b.fabric->wait_for_peers();
  EXPECT_LT(a.clock.now_ns() - began, 1'000'000'000u);
  EXPECT_EQ(SendResult::kAccepted, a.send(way, pattern(100, 1), 1));
  EXPECT_EQ(1u, b.poll());
}

TEST(OtherProcess, KilledInsideAnAccessIsNotWaitedFor) {
  Town town;
  House b(town, 7, 101);
  int entered[2];
  ASSERT_EQ(0, pipe(entered));
  const pid_t child = start_child(town, [&](House& own) {
    own.to(7)->enter_access();
    (void)!write(entered[1], "x", 1);
    for (;;) pause();
  });
  char byte;
  ASSERT_EQ(1, read(entered[0], &byte, 1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  town.remove(3);
  const uint64_t began = b.clock.now_ns();
  b.fabric->wait_for_peers();
  EXPECT_LT(b.clock.now_ns() - began, 2'000'000'000u);
  close(entered[0]);
  close(entered[1]);
}

}  // namespace
}  // namespace verbatim::wire::shm
