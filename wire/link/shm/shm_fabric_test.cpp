// SPDX-License-Identifier: MIT
// The same-host link between two fabrics in one process: segments, faults, back-pressure, accesses, slots.
#include "wire/link/shm/shm_fabric.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "wire/link/shm/test_town.h"

namespace verbatim::wire::shm {
namespace {

class ShmLink : public testing::Test {
 protected:
  Town town;
  House a{town, 3, 100};
  House b{town, 7, 101};
  Channel* const way = a.to(7);
};

bool readable(int file) {
  pollfd look{file, POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

char* page_without_access() {
  return static_cast<char*>(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

Segment full_segment(Operation operation, Transport transport) {
  Segment s;
  s.operation = operation;
  s.transport = transport;
  s.flags = kFirst | kLast | kSolicited | kImmediate | kAckRequest;
  s.syndrome = 0x2b;
  s.service_level = 5;
  s.dest_qpn = 0x123456;
  s.src_qpn = 0x654321;
  s.psn = 0xfffffe;
  s.base_psn = 0xfffff0;
  s.pkey = 0x8002;
  s.packets = 77;
  s.immediate = 0xdeadbeef;
  s.msn = 0x00badc;
  s.remote_address = 0x1122334455667788;
  s.rkey = 0x99aabbcc;
  s.total_length = 0x7fffffff;
  s.swap_or_add = 0x0102030405060708;
  s.compare = 0x1112131415161718;
  s.qkey = 0x80010000;
  s.flow_label = 0xabcde;
  s.traffic_class = 0x42;
  s.hop_limit = 9;
  s.gid_type = GidType::kRoceV1;
  s.has_grh = true;
  s.source_gid.bytes[3] = 4;
  s.dest_gid.bytes[15] = 16;
  s.access_key = 0x0123456789abcdef;
  s.connection = 0x89abcdef;
  s.srqn = 0xabcdef;
  return s;
}

TEST_F(ShmLink, EveryKindOfSegmentArrivesWithItsFields) {
  ASSERT_NE(nullptr, way);
  for (int operation = 0; operation <= static_cast<int>(Operation::kDisconnect); operation++)
    for (const Transport transport :
         {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kDc, Transport::kXrc}) {
      if (operation == static_cast<int>(Operation::kDisconnect) && transport != Transport::kDc) continue;
      const Segment s = full_segment(static_cast<Operation>(operation), transport);
      b.inbox.arrivals.clear();
      ASSERT_EQ(SendResult::kAccepted, way->send(s, nullptr, 0, false, nullptr));
      ASSERT_EQ(1u, b.poll());
      const Segment& got = b.inbox.arrivals.at(0).segment;
      EXPECT_EQ(s.operation, got.operation);
      EXPECT_EQ(s.transport, got.transport);
      EXPECT_EQ(s.flags, got.flags);
      EXPECT_EQ(s.syndrome, got.syndrome);
      EXPECT_EQ(s.service_level, got.service_level);
      EXPECT_EQ(s.dest_qpn, got.dest_qpn);
      EXPECT_EQ(s.src_qpn, got.src_qpn);
      EXPECT_EQ(s.psn, got.psn);
      EXPECT_EQ(s.base_psn, got.base_psn);
      EXPECT_EQ(s.pkey, got.pkey);
      EXPECT_EQ(s.packets, got.packets);
      const bool answer = s.operation == Operation::kAck || s.operation == Operation::kReadResponse ||
                          s.operation == Operation::kAtomicResponse;
      EXPECT_EQ(answer ? s.msn : s.immediate, answer ? got.msn : got.immediate);
      if (s.operation == Operation::kWrite || s.operation == Operation::kReadRequest ||
          s.operation == Operation::kAtomicWrite || s.operation == Operation::kFlush) {
        EXPECT_EQ(s.remote_address, got.remote_address);
        EXPECT_EQ(s.rkey, got.rkey);
        EXPECT_EQ(s.total_length, got.total_length);
      }
      if (s.operation == Operation::kCompareSwap) {
        EXPECT_EQ(s.compare, got.compare);
        EXPECT_EQ(s.swap_or_add, got.swap_or_add);
      }
      if (transport == Transport::kUd) {
        EXPECT_EQ(s.qkey, got.qkey);
        EXPECT_EQ(s.flow_label, got.flow_label);
        EXPECT_EQ(s.traffic_class, got.traffic_class);
        EXPECT_EQ(s.hop_limit, got.hop_limit);
        EXPECT_EQ(s.gid_type, got.gid_type);
        EXPECT_TRUE(got.has_grh);
        EXPECT_EQ(s.source_gid, got.source_gid);
        EXPECT_EQ(s.dest_gid, got.dest_gid);
      }
      if (transport == Transport::kXrc) {
        EXPECT_EQ(s.srqn, got.srqn);
      }
      if (transport == Transport::kDc) {
        EXPECT_EQ(s.access_key, got.access_key);
        EXPECT_EQ(s.connection, got.connection);
      }
    }
}

TEST_F(ShmLink, PayloadsOfAllSizesArriveWhole) {
  std::vector<size_t> sizes = {4095, 4096, 4097, 8128, 8160, 8191, 8192};
  for (size_t size = 0; size < 200; size++) sizes.push_back(size);
  const bool pulls = way->payload_max(true) > kEagerBytesMax;
  EXPECT_EQ(kEagerBytesMax, way->payload_max(false));
  if (pulls) sizes.insert(sizes.end(), {8193, 65536, (1u << 20) + 13, 5u << 20});
  for (const size_t size : sizes) {
    const std::vector<char> bytes = pattern(size, static_cast<unsigned>(size));
    b.inbox.arrivals.clear();
    ASSERT_EQ(SendResult::kAccepted, a.send(way, bytes, 1, true)) << size;
    ASSERT_EQ(1u, b.poll()) << size;
    EXPECT_EQ(CopyResult::kDone, b.inbox.arrivals[0].result);
    EXPECT_TRUE(bytes == b.inbox.arrivals[0].bytes) << size;
  }
}

TEST(ShmEntry, ASmallSendFitsOneSlot) {
  Segment send;
  EXPECT_EQ(32u, head_bytes(form_of(send)));
}

TEST_F(ShmLink, OrderHoldsThroughManyLapsAndPads) {
  std::mt19937 random(1);
  std::vector<size_t> sent;
  size_t next = 0;
  for (uint32_t psn = 0; psn < 20000; psn++) {
    const size_t size = random() % 4 == 0 ? random() % 8193 : random() % 100;
    const SendResult result = a.send(way, pattern(size, psn), psn);
    if (result == SendResult::kBusy) {
      ASSERT_GT(b.poll(), 0u);
      psn--;
    } else {
      ASSERT_EQ(SendResult::kAccepted, result);
      sent.push_back(size);
    }
    if (random() % 50 == 0) b.poll(random() % 60);
    for (const Inbox::Arrival& arrival : b.inbox.arrivals) {
      ASSERT_EQ(next, arrival.segment.psn);
      ASSERT_TRUE(pattern(sent[next], static_cast<unsigned>(next)) == arrival.bytes);
      next++;
    }
    b.inbox.arrivals.clear();
  }
  b.poll();
  EXPECT_EQ(20000u, b.inbox.count);
}

TEST_F(ShmLink, AFullRingSaysBusyAndTellsOfRoom) {
  const std::vector<char> bytes = pattern(1000, 1);
  uint32_t accepted = 0;
  while (a.send(way, bytes, accepted) == SendResult::kAccepted) ASSERT_LT(accepted++, kRingSlots);
  EXPECT_GT(accepted, 100u);
  a.poll();
  EXPECT_EQ(0, a.inbox.rooms);
  uint32_t got = 0;
  while (const uint32_t n = b.poll()) got += n;
  EXPECT_EQ(accepted, got);
  EXPECT_TRUE(readable(a.fabric->wake_fd())) << "the receiver did not wake a sender that waits for room";
  a.poll();
  EXPECT_EQ(1, a.inbox.rooms);
  EXPECT_EQ(SendResult::kAccepted, a.send(way, bytes, accepted));
}

TEST_F(ShmLink, PollKeepsToItsBudget) {
  for (uint32_t i = 0; i < 10; i++) a.send(way, {}, i);
  EXPECT_EQ(4u, b.poll(4));
  EXPECT_TRUE(b.fabric->pending());
  EXPECT_EQ(6u, b.poll(100));
  EXPECT_FALSE(b.fabric->pending());
}

TEST_F(ShmLink, FaultsSayWhichSideIsBad) {
  char* bad = page_without_access();
  Segment s;
  s.length = 64;
  const Piece unreadable{bad, 64};
  EXPECT_EQ(SendResult::kSourceFault, way->send(s, &unreadable, 1, false, nullptr));
  EXPECT_EQ(0u, b.poll());
  b.inbox.target = bad;
  ASSERT_EQ(SendResult::kAccepted, a.send(way, pattern(64, 1), 1));
  b.poll();
  EXPECT_EQ(CopyResult::kDestinationFault, b.inbox.arrivals.back().result);
  if (way->payload_max(true) > kEagerBytesMax) {
    const std::vector<char> kept = pattern(1 << 20, 1);
    ASSERT_EQ(SendResult::kAccepted, a.send(way, kept, 1, true));
    b.poll();
    EXPECT_EQ(CopyResult::kDestinationFault, b.inbox.arrivals.back().result);
  }
  munmap(bad, kPage);
}

// The unreadable page holds the last few bytes only, behind a start that is not on a page border.
TEST_F(ShmLink, APullFindsABadLastPage) {
  if (way->payload_max(true) <= kEagerBytesMax) GTEST_SKIP() << "no cross-memory access here";
  char* area = static_cast<char*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(area + 3 * kPage, kPage, PROT_NONE);
  const size_t start = kPage - 100;
  const Piece piece{area + start, 3 * kPage - start + 50};
  Segment s;
  s.length = static_cast<uint32_t>(piece.length);
  ASSERT_EQ(SendResult::kAccepted, way->send(s, &piece, 1, true, nullptr));
  b.poll();
  EXPECT_EQ(CopyResult::kSourceFault, b.inbox.arrivals.back().result);
  munmap(area, 4 * kPage);
}

TEST_F(ShmLink, DirectAccessMovesBytesOrSaysNo) {
  if (!way->published()) GTEST_SKIP() << "no cross-memory access here";
  b.fabric->published()[5] = std::byte{0x77};
  EXPECT_EQ(std::byte{0x77}, way->published()[5]);
  std::vector<char> from = pattern(30000, 3), to(30000), back(30000);
  const uint64_t remote = reinterpret_cast<uint64_t>(to.data());
  const Piece pieces[2] = {{from.data(), 9999}, {from.data() + 9999, 20001}};
  const Piece into{back.data(), back.size()};
  EXPECT_TRUE(way->write_direct(remote, pieces, 2));
  EXPECT_TRUE(from == to);
  EXPECT_TRUE(way->read_direct(remote, &into, 1));
  EXPECT_TRUE(from == back);
  EXPECT_FALSE(way->write_direct(8, pieces, 2));
  EXPECT_NE(nullptr, way->published()) << "a bad address is no reason to give up direct access";
}

TEST(ShmLinkWithoutCrossMemory, EverythingGoesThroughTheRing) {
  setenv("VERBATIM_NO_CMA", "1", 1);
  Town town;
  House a(town, 3, 100), b(town, 7, 101);
  Channel* way = a.to(7);
  unsetenv("VERBATIM_NO_CMA");
  ASSERT_NE(nullptr, way);
  EXPECT_EQ(nullptr, way->published());
  EXPECT_EQ(kEagerBytesMax, way->payload_max(true));
  std::vector<char> bytes = pattern(100, 1), back(100);
  const Piece into{back.data(), back.size()};
  EXPECT_FALSE(way->read_direct(reinterpret_cast<uint64_t>(bytes.data()), &into, 1));
  EXPECT_EQ(SendResult::kAccepted, a.send(way, bytes, 1, true));
  EXPECT_EQ(1u, b.poll());
  EXPECT_TRUE(bytes == b.inbox.arrivals[0].bytes);
}

TEST_F(ShmLink, OnlyASleeperIsWoken) {
  ASSERT_EQ(SendResult::kAccepted, a.send(way, {}, 1));
  EXPECT_FALSE(readable(b.fabric->wake_fd()));
  EXPECT_FALSE(b.fabric->want_wake(true));
  ASSERT_EQ(SendResult::kAccepted, a.send(way, {}, 2));
  EXPECT_TRUE(readable(b.fabric->wake_fd()));
  uint64_t count = 0;
  ASSERT_EQ(static_cast<ssize_t>(sizeof count), read(b.fabric->wake_fd(), &count, sizeof count));
  ASSERT_EQ(SendResult::kAccepted, a.send(way, {}, 3));
  EXPECT_FALSE(readable(b.fabric->wake_fd())) << "one wake-up is enough";
}

// Whether the one who looks has met the one who counts must not matter.
void expect_wait_for(Channel& way, House& owner) {
  const uint32_t ticket = way.enter_access();
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    owner.fabric->wait_for_peers();
    returned = true;
  });
  usleep(100'000);
  EXPECT_FALSE(returned) << "returned while an access was open";
  const uint32_t later = way.enter_access();
  way.leave_access(later);
  way.leave_access(ticket);
  waiter.join();
  owner.fabric->wait_for_peers();
}

TEST_F(ShmLink, TheOwnerWaitsForOpenAccesses) {
  expect_wait_for(*way, b);  // b has never polled, so it does not know a
  b.poll();
  expect_wait_for(*way, b);
  expect_wait_for(*b.to(7), b);
}

TEST_F(ShmLink, ALoopbackSendIsAnsweredAtOnce) {
  Channel* own = a.to(3);
  const std::vector<char> bytes = pattern(70000, 1);
  Segment s, answer;
  s.length = 70000;
  s.psn = 9;
  const Piece piece{const_cast<char*>(bytes.data()), bytes.size()};
  EXPECT_EQ(SendResult::kAnswered, own->send(s, &piece, 1, true, &answer));
  EXPECT_EQ(Operation::kAck, answer.operation);
  EXPECT_EQ(9u, answer.psn);
  EXPECT_TRUE(bytes == a.inbox.arrivals.at(0).bytes);
  a.fabric->add_own_slot(12);
  EXPECT_EQ(own, a.to(12));
}

TEST_F(ShmLink, MulticastReachesAllMembers) {
  Channel* ways[8];
  EXPECT_EQ(2u, a.fabric->multicast(Gid{}, ways, 8));
  EXPECT_EQ(1u, a.fabric->multicast(Gid{}, ways, 1));
}

TEST_F(ShmLink, NobodyAndElsewhereAreNoChannel) {
  Gid elsewhere;
  elsewhere.bytes[0] = 1;
  EXPECT_EQ(nullptr, a.fabric->channel(elsewhere, qpn_of(7)));
  EXPECT_EQ(nullptr, a.to(9));
  EXPECT_EQ(way, a.to(7));
  EXPECT_EQ(1, town.introductions);
}

TEST_F(ShmLink, ASlotsNextOwnerStartsClean) {
  ASSERT_EQ(SendResult::kAccepted, a.send(way, pattern(500, 1), 1));
  ASSERT_EQ(1u, b.poll());
  ASSERT_EQ(SendResult::kAccepted, b.send(b.to(3), {}, 1));
  a.poll();
  town.remove(3);
  b.fabric->peer_gone(3, 100, b.inbox);
  EXPECT_EQ(1, b.inbox.gone);
  EXPECT_EQ(nullptr, b.to(3));
  House next(town, 3, 102);
  Channel* again = next.to(7);
  ASSERT_NE(nullptr, again);
  for (uint32_t i = 0; i < 3000; i++) {
    ASSERT_EQ(SendResult::kAccepted, next.send(again, pattern(40, i), i));
    ASSERT_EQ(1u, b.poll());
    ASSERT_EQ(i, b.inbox.arrivals.back().segment.psn);
  }
  Channel* to_next = b.to(3);
  ASSERT_NE(nullptr, to_next);
  EXPECT_EQ(SendResult::kAccepted, b.send(to_next, pattern(40, 1), 1));
  EXPECT_EQ(1u, next.poll());
}

TEST_F(ShmLink, ANewcomerWaitsUntilItsForerunnersRingIsCleared) {
  ASSERT_EQ(SendResult::kAccepted, a.send(way, {}, 1));
  b.poll();
  House next(town, 3, 102);  // the agent's word that 100 is gone has not come yet
  EXPECT_EQ(nullptr, next.to(7));
  EXPECT_TRUE(readable(b.fabric->wake_fd())) << "the receiver is asked to clear it";
  b.fabric->peer_gone(3, 100, b.inbox);
  usleep(25'000);
  EXPECT_NE(nullptr, next.to(7));
}

// Its sender died before the receiver met it, and no word of that came (the agent died as well).
TEST_F(ShmLink, ARingOfNobodyIsNotWaitedForForever) {
  ASSERT_EQ(SendResult::kAccepted, a.send(way, {}, 1));
  town.remove(3);
  EXPECT_TRUE(b.fabric->pending());
  b.poll();
  EXPECT_FALSE(b.fabric->pending());
  House next(town, 3, 102);
  EXPECT_EQ(nullptr, next.to(7));
  usleep(25'000);
  EXPECT_TRUE(b.fabric->pending());
  b.poll();
  EXPECT_NE(nullptr, next.to(7));
}

TEST(ShmFile, OnlySealedFilesOfTheRightSizeAreMapped) {
  const int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(0, ftruncate(plain, kPage));
  EXPECT_FALSE(SharedFile::adopt(fcntl(plain, F_DUPFD_CLOEXEC, 0), kPage, SharedFile::Peers::kWrite));
  fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_TRUE(SharedFile::adopt(fcntl(plain, F_DUPFD_CLOEXEC, 0), kPage, SharedFile::Peers::kWrite));
  EXPECT_FALSE(SharedFile::adopt(fcntl(plain, F_DUPFD_CLOEXEC, 0), 2 * kPage, SharedFile::Peers::kWrite));
  EXPECT_FALSE(SharedFile::adopt(fcntl(plain, F_DUPFD_CLOEXEC, 0), kPage, SharedFile::Peers::kRead));
  EXPECT_FALSE(SharedFile::adopt(-1, kPage, SharedFile::Peers::kRead));
  close(plain);
}

TEST(ShmFile, PeersCannotWriteWhatIsPublished) {
  auto made = SharedFile::create("published", kPage, SharedFile::Peers::kRead);
  ASSERT_TRUE(made);
  made->data()[0] = std::byte{1};
  EXPECT_EQ(MAP_FAILED, mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, made->file(), 0));
  EXPECT_NE(0, ftruncate(made->file(), 0));
  EXPECT_NE(1, pwrite(made->file(), "x", 1, 0));
}

}  // namespace
}  // namespace verbatim::wire::shm
