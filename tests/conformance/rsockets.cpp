// SPDX-License-Identifier: MIT
// Sockets over RDMA.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace verbatim::conformance {
namespace {

sockaddr_in loopback(uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

bool ready(int socket, short events, int timeout_ms = 5000) {
  pollfd wanted{socket, events, 0};
  return rpoll(&wanted, 1, timeout_ms) == 1 && (wanted.revents & events) != 0;
}

/// A socket that listens, at `address`.
int listening(sockaddr_in& address) {
  const int socket = rsocket(AF_INET, SOCK_STREAM, 0);
  EXPECT_GE(socket, 0) << strerror(errno);
  address = loopback();
  EXPECT_EQ(rbind(socket, generic(address), sizeof address), 0) << strerror(errno);
  EXPECT_EQ(rlisten(socket, 4), 0) << strerror(errno);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(rgetsockname(socket, generic(address), &bytes), 0);
  EXPECT_EQ(bytes, sizeof address);
  EXPECT_NE(address.sin_port, 0);
  return socket;
}

/// Two connected stream sockets. The active one lets its peer map memory.
struct Streams {
  Streams() {
    heard = listening(address);
    active = rsocket(AF_INET, SOCK_STREAM, 0);
    int mappings = 4;
    EXPECT_EQ(rsetsockopt(active, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof mappings), 0);
    std::thread other(
        [&] { EXPECT_EQ(rconnect(active, generic(address), sizeof address), 0) << strerror(errno); });
    sockaddr_in from{};
    socklen_t bytes = sizeof from;
    passive = raccept(heard, generic(from), &bytes);
    EXPECT_GE(passive, 0) << strerror(errno);
    other.join();
    EXPECT_EQ(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  }
  ~Streams() {
    for (const int each : {active, passive, heard}) {
      if (each >= 0) rclose(each);
    }
  }
  sockaddr_in address{};
  int heard, active, passive;
};

std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 31 + (i >> 12));
  return data;
}

TEST(StreamSockets, CarryMoreThanTheirBuffers) {
  Streams pair;
  const std::vector<uint8_t> data = pattern(3000001);
  std::thread sender([&] {
    size_t done = 0;
    while (done < data.size()) {
      const ssize_t sent = rsend(pair.active, data.data() + done, data.size() - done, 0);
      ASSERT_GT(sent, 0) << strerror(errno);
      done += static_cast<size_t>(sent);
    }
  });
  std::vector<uint8_t> arrived(data.size());
  EXPECT_EQ(rrecv(pair.passive, arrived.data(), arrived.size(), MSG_WAITALL),
            static_cast<ssize_t>(data.size()));
  sender.join();
  EXPECT_EQ(arrived, data);
}

// Each end sends and receives in threads of their own, which must not take each other's news away.
TEST(StreamSockets, CarryMuchBothWaysAtOnce) {
  Streams pair;
  constexpr size_t kBytes = 3'000'001;
  const auto send = [](int socket) {
    const std::vector<char> data(kBytes, 'x');
    EXPECT_EQ(rsend(socket, data.data(), data.size(), 0), static_cast<ssize_t>(kBytes));
  };
  const auto receive = [](int socket) {
    std::vector<char> data(kBytes);
    EXPECT_EQ(rrecv(socket, data.data(), data.size(), MSG_WAITALL), static_cast<ssize_t>(kBytes));
  };
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<std::thread> threads;
    for (const int socket : {pair.active, pair.passive}) {
      threads.emplace_back(send, socket);
      threads.emplace_back(receive, socket);
    }
    for (std::thread& each : threads) each.join();
  }
}

TEST(StreamSockets, CarryPiecesBothWays) {
  Streams pair;
  char one[] = "to ", two[] = "and fro";
  const iovec pieces[2] = {{one, 3}, {two, 7}};
  EXPECT_EQ(rwritev(pair.active, pieces, 2), 10);
  char first[4], second[32] = {};
  const iovec places[2] = {{first, sizeof first}, {second, sizeof second}};
  ASSERT_TRUE(ready(pair.passive, POLLIN));
  EXPECT_EQ(rrecv(pair.passive, second, sizeof second, MSG_PEEK), 10);
  EXPECT_STREQ(second, "to and fro");
  std::memset(second, 0, sizeof second);
  EXPECT_EQ(rreadv(pair.passive, places, 2), 10);
  EXPECT_STREQ(second, "nd fro");
  EXPECT_EQ(rwrite(pair.passive, two, sizeof two), static_cast<ssize_t>(sizeof two));
  EXPECT_EQ(rread(pair.active, second, sizeof second), static_cast<ssize_t>(sizeof two));
  EXPECT_STREQ(second, two);
}

TEST(StreamSockets, CarryMessagesWithoutAncillaryData) {
  Streams pair;
  char text[] = "message", place[16];
  iovec piece{text, sizeof text};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_EQ(rsendmsg(pair.active, &message, 0), static_cast<ssize_t>(sizeof text));
  piece = {place, sizeof place};
  EXPECT_EQ(rrecvmsg(pair.passive, &message, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_STREQ(place, text);
  message.msg_control = text;
  message.msg_controllen = sizeof text;
  EXPECT_EQ(rsendmsg(pair.active, &message, 0), -1);
  EXPECT_EQ(errno, ENOTSUP);
}

TEST(StreamSockets, DoNotBlockWhereTheProgramSaysSo) {
  Streams pair;
  char place[8];
  EXPECT_EQ(rrecv(pair.passive, place, sizeof place, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(rfcntl(pair.active, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(rfcntl(pair.active, F_GETFL), O_NONBLOCK);
  const std::vector<uint8_t> data = pattern(1 << 20);
  const ssize_t some = rsend(pair.active, data.data(), data.size(), 0);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, static_cast<ssize_t>(data.size()));
  EXPECT_FALSE(ready(pair.active, POLLOUT, 0));
  std::vector<uint8_t> arrived(static_cast<size_t>(some));
  EXPECT_EQ(rrecv(pair.passive, arrived.data(), arrived.size(), MSG_WAITALL), some);
  EXPECT_TRUE(ready(pair.active, POLLOUT));
}

TEST(StreamSockets, ConnectWithoutBlocking) {
  sockaddr_in address;
  const int heard = listening(address);
  const int active = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  EXPECT_EQ(rconnect(active, generic(address), sizeof address), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  int passive = -1;
  std::thread other([&] { passive = raccept(heard, nullptr, nullptr); });
  EXPECT_TRUE(ready(active, POLLOUT));
  other.join();
  int error = -1;
  socklen_t bytes = sizeof error;
  EXPECT_EQ(rgetsockopt(active, SOL_SOCKET, SO_ERROR, &error, &bytes), 0);
  EXPECT_EQ(error, 0);
  sockaddr_in peer{};
  bytes = sizeof peer;
  EXPECT_EQ(rgetpeername(active, generic(peer), &bytes), 0);
  EXPECT_EQ(peer.sin_port, address.sin_port);
  for (const int each : {active, passive, heard}) rclose(each);
}

TEST(StreamSockets, SayThatNobodyListens) {
  const int active = rsocket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(htons(9));
  EXPECT_EQ(rconnect(active, generic(address), sizeof address), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(rclose(active), 0);
  EXPECT_EQ(rclose(active), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(StreamSockets, EndOneDirectionOrBoth) {
  Streams pair;
  char text[] = "last words", place[32];
  EXPECT_EQ(rsend(pair.active, text, sizeof text, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rshutdown(pair.active, SHUT_WR), 0);
  EXPECT_EQ(rrecv(pair.passive, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rrecv(pair.passive, place, sizeof place, 0), 0);
  EXPECT_EQ(rsend(pair.active, text, sizeof text, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(rsend(pair.passive, text, sizeof text, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rclose(pair.passive), 0);
  pair.passive = -1;
  EXPECT_EQ(rrecv(pair.active, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rrecv(pair.active, place, sizeof place, 0), 0);
}

TEST(StreamSockets, WriteToMappings) {
  Streams pair;
  std::vector<char> memory(8192);
  ASSERT_EQ(riomap(pair.passive, memory.data(), memory.size(), PROT_WRITE, 0, 0x1000), 0x1000)
      << strerror(errno);
  char text[] = "told", place[8];
  // What is sent after the mapping tells of it.
  EXPECT_EQ(rsend(pair.passive, text, sizeof text, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rrecv(pair.active, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(riowrite(pair.active, text, sizeof text, 0x1000 + 100, 0), sizeof text);
  EXPECT_EQ(rsend(pair.active, text, sizeof text, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rrecv(pair.passive, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_STREQ(memory.data() + 100, text);
  EXPECT_EQ(riowrite(pair.active, text, sizeof text, 0x9000, 0), 0u);
  EXPECT_EQ(riounmap(pair.passive, memory.data(), memory.size()), 0);
  EXPECT_EQ(riounmap(pair.passive, memory.data(), memory.size()), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(StreamSockets, AreWaitedForInSets) {
  Streams pair;
  char text[] = "news", place[8];
  fd_set to_read;
  FD_ZERO(&to_read);
  FD_SET(pair.passive, &to_read);
  timeval soon{0, 1000};
  EXPECT_EQ(rselect(pair.passive + 1, &to_read, nullptr, nullptr, &soon), 0);
  const int set = repoll_create(EPOLL_CLOEXEC);
  ASSERT_GE(set, 0);
  epoll_event wanted{EPOLLIN, {.u64 = 77}}, found{};
  EXPECT_EQ(repoll_ctl(set, EPOLL_CTL_ADD, pair.passive, &wanted), 0);
  EXPECT_EQ(repoll_ctl(set, EPOLL_CTL_ADD, pair.passive, &wanted), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(repoll_wait(set, &found, 1, 1), 0);
  std::thread sender(
      [&] { EXPECT_EQ(rsend(pair.active, text, sizeof text, 0), static_cast<ssize_t>(sizeof text)); });
  EXPECT_EQ(repoll_wait(set, &found, 1, 5000), 1);
  sender.join();
  EXPECT_EQ(found.data.u64, 77u);
  EXPECT_EQ(found.events, static_cast<uint32_t>(EPOLLIN));
  FD_SET(pair.passive, &to_read);
  EXPECT_EQ(rselect(pair.passive + 1, &to_read, nullptr, nullptr, nullptr), 1);
  EXPECT_TRUE(FD_ISSET(pair.passive, &to_read));
  EXPECT_EQ(rrecv(pair.passive, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(repoll_ctl(set, EPOLL_CTL_DEL, pair.passive, nullptr), 0);
  close(set);
}

// A thread that reads must not take news away from one that waits: it took 100 ms to see them once.
TEST(StreamSockets, AreWaitedForWhileOthersUseThem) {
  Streams pair;
  constexpr int kTurns = 200;
  std::atomic<int> seen = 0;
  std::thread waiting([&] {
    while (seen < kTurns) {
      EXPECT_TRUE(ready(pair.passive, POLLIN));
      char part[1];
      if (rrecv(pair.passive, part, sizeof part, MSG_DONTWAIT) == 1) ++seen;
    }
  });
  std::thread reading([&] {
    char part[1];
    while (seen < kTurns && rrecv(pair.passive, part, sizeof part, 0) == 1) ++seen;
  });
  const auto begin = std::chrono::steady_clock::now();
  char text[] = "!";
  // One more at the end for each of the two, should it wait.
  for (int sent = 0; sent < kTurns + 2; ++sent) {
    EXPECT_EQ(rsend(pair.active, text, 1, 0), 1);
    while (seen < std::min(sent, kTurns)) std::this_thread::yield();
  }
  waiting.join();
  reading.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(StreamSockets, WakeThoseWhoWaitWhenTheyAreShut) {
  Streams pair;
  std::thread waiting([&] { EXPECT_TRUE(ready(pair.passive, POLLIN, 20'000)); });
  EXPECT_EQ(rshutdown(pair.passive, SHUT_RDWR), 0);
  waiting.join();
}

TEST(StreamSockets, HaveOptions) {
  const int socket = rsocket(AF_INET, SOCK_STREAM, 0);
  int value = 200;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(rsetsockopt(socket, SOL_RDMA, RDMA_SQSIZE, &value, sizeof value), 0);
  value = 0;
  EXPECT_EQ(rgetsockopt(socket, SOL_RDMA, RDMA_SQSIZE, &value, &bytes), 0);
  EXPECT_EQ(value, 200);
  EXPECT_EQ(rsetsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value), 0);
  value = 1;
  EXPECT_EQ(rsetsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &value, sizeof value), 0);
  value = 0;
  EXPECT_EQ(rgetsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &value, &bytes), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(rsetsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, &value, sizeof value), -1);
  EXPECT_EQ(errno, ENOTSUP);
  rclose(socket);
  EXPECT_EQ(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
  EXPECT_EQ(errno, ENOTSUP);
}

TEST(DatagramSockets, LearnEachOthersQueuePairs) {
  const int left = rsocket(AF_INET, SOCK_DGRAM, 0), right = rsocket(AF_INET, SOCK_DGRAM, 0);
  ASSERT_GE(left, 0);
  ASSERT_GE(right, 0);
  sockaddr_in address = loopback(), from{};
  ASSERT_EQ(rbind(right, generic(address), sizeof address), 0) << strerror(errno);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(rgetsockname(right, generic(address), &bytes), 0);
  char text[] = "datagram", place[64];
  // The first goes over UDP, those after the answer between queue pairs.
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(rsendto(left, text, sizeof text, 0, generic(address), sizeof address),
              static_cast<ssize_t>(sizeof text))
        << strerror(errno);
    ASSERT_TRUE(ready(right, POLLIN));
    bytes = sizeof from;
    ASSERT_EQ(rrecvfrom(right, place, sizeof place, 0, generic(from), &bytes),
              static_cast<ssize_t>(sizeof text));
    EXPECT_STREQ(place, text);
    ASSERT_EQ(rsendto(right, text, 4, 0, generic(from), bytes), 4) << strerror(errno);
    ASSERT_TRUE(ready(left, POLLIN));
    EXPECT_EQ(rrecv(left, place, sizeof place, 0), 4);
  }
  EXPECT_EQ(rconnect(left, generic(address), sizeof address), 0) << strerror(errno);
  EXPECT_EQ(rsend(left, text, sizeof text, 0), static_cast<ssize_t>(sizeof text));
  EXPECT_EQ(rrecv(right, place, sizeof place, 0), static_cast<ssize_t>(sizeof text));
  bytes = sizeof from;
  EXPECT_EQ(rgetpeername(left, generic(from), &bytes), 0);
  EXPECT_EQ(from.sin_port, address.sin_port);
  rclose(left);
  rclose(right);
}

}  // namespace
}  // namespace verbatim::conformance
