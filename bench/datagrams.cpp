// SPDX-License-Identifier: MIT
// What plain UDP sockets do between two network namespaces: the reference for RoCEv2.
//
//   datagrams FROM TO stream PACKET_BYTES SECONDS   MiB/s that arrive of packets of that size, in runs of 64
//   KiB
//                                                   (UDP_SEGMENT and UDP_GRO)
//   datagrams FROM TO rate PACKET_BYTES SECONDS     million packets/s that arrive, by sendmmsg and recvmmsg
//   datagrams FROM TO sleep BYTES COUNT             microseconds one way of a ping-pong by sendto and
//   recvfrom datagrams FROM TO spin BYTES COUNT              the same without ever sleeping in recvfrom
//
// FROM and TO: names of namespaces as `ip netns` has them, each with an ADDRESS behind a comma.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kUdpSegment = 103, kUdpGro = 104;  // linux/udp.h clashes with netinet/udp.h
constexpr int kBufferBytes = 8 << 20;
constexpr size_t kRunBytes = 65000, kAtOnce = 16, kSmallAtOnce = 64, kBytesMax = 65536;
constexpr uint16_t kPort = 4790;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// A socket in a namespace, bound to its address there.
struct End {
  int socket = -1;
  sockaddr_in address{};

  explicit End(const std::string& name_and_address) {
    const size_t comma = name_and_address.find(',');
    if (comma == std::string::npos) fail("NAMESPACE,ADDRESS");
    const int space = open(("/run/netns/" + name_and_address.substr(0, comma)).c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail("namespace");
    close(space);
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, name_and_address.c_str() + comma + 1, &address.sin_addr) != 1 || socket < 0 ||
        bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      fail("socket");
    set(SO_RCVBUFFORCE, kBufferBytes);
    set(SO_SNDBUFFORCE, kBufferBytes);
    const timeval patience{0, 300'000};  // of who receives a stream: then it is over
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  void set(int option, int value) const { setsockopt(socket, SOL_SOCKET, option, &value, sizeof value); }
  void connect_to(const End& peer) const {
    if (connect(socket, reinterpret_cast<const sockaddr*>(&peer.address), sizeof peer.address) != 0)
      fail("connect");
  }
};

/// Buffers of many datagrams.
struct Batch {
  std::vector<char> bytes;
  std::vector<iovec> vectors;
  std::vector<mmsghdr> messages;

  Batch(size_t count, size_t each) : bytes(count * each), vectors(count), messages(count) {
    for (size_t i = 0; i < count; i++) {
      vectors[i] = {bytes.data() + i * each, each};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

void send_for(const End& end, size_t count, size_t each, double seconds) {
  Batch batch(count, each);
  const auto begin = Clock::now();
  while (seconds_since(begin) < seconds)
    if (sendmmsg(end.socket, batch.messages.data(), static_cast<unsigned>(count), 0) < 0 && errno != EAGAIN)
      fail("sendmmsg");
}

struct Received {
  double datagrams = 0, bytes = 0, seconds = 0;
};

Received receive_all(const End& end, size_t count, size_t each) {
  Batch batch(count, each);
  Received all;
  Clock::time_point first, last;
  for (;;) {
    const int got =
        recvmmsg(end.socket, batch.messages.data(), static_cast<unsigned>(count), MSG_WAITFORONE, nullptr);
    if (got <= 0 && errno == EINTR) continue;
    if (got <= 0) break;
    last = Clock::now();
    if (all.datagrams == 0) first = last;
    all.datagrams += got;
    for (int i = 0; i < got; i++) all.bytes += batch.messages[static_cast<size_t>(i)].msg_len;
  }
  all.seconds = std::chrono::duration<double>(last - first).count();
  return all;
}

void stream(const End& from, const End& to, size_t packet, double seconds) {
  const int on = 1, size = static_cast<int>(packet);
  setsockopt(to.socket, IPPROTO_UDP, kUdpGro, &on, sizeof on);
  setsockopt(from.socket, IPPROTO_UDP, kUdpSegment, &size, sizeof size);
  if (fork() == 0) {
    send_for(from, kAtOnce, std::min<size_t>(kRunBytes / packet, 64) * packet, seconds);
    _exit(0);
  }
  const Received all = receive_all(to, kAtOnce, kBytesMax);
  std::printf("%.1f\n", all.bytes / all.seconds / (1 << 20));
}

void rate(const End& from, const End& to, size_t packet, double seconds) {
  if (fork() == 0) {
    send_for(from, kSmallAtOnce, packet, seconds);
    _exit(0);
  }
  const Received all = receive_all(to, kSmallAtOnce, packet);
  std::printf("%.3f\n", all.datagrams / all.seconds / 1e6);
}

void one_turn(const End& end, std::vector<char>& bytes, bool send, int flags) {
  if (send) {
    if (::send(end.socket, bytes.data(), bytes.size(), 0) < 0) fail("send");
    return;
  }
  while (recv(end.socket, bytes.data(), bytes.size(), flags) < 0)
    if (errno != EAGAIN) fail("recv");
}

void ping_pong(const End& from, const End& to, size_t length, long count, int flags) {
  std::vector<char> bytes(length);
  if (fork() == 0) {
    for (long i = 0; i < count; i++) one_turn(to, bytes, false, flags), one_turn(to, bytes, true, flags);
    _exit(0);
  }
  const auto begin = Clock::now();
  for (long i = 0; i < count; i++) one_turn(from, bytes, true, flags), one_turn(from, bytes, false, flags);
  std::printf("%.3f\n", seconds_since(begin) / static_cast<double>(count) / 2 * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const End from(argv[1]), to(argv[2]);
  from.connect_to(to);
  to.connect_to(from);
  const std::string what = argv[3];
  const auto bytes = static_cast<size_t>(std::atol(argv[4]));
  if (what == "stream")
    stream(from, to, bytes, std::atof(argv[5]));
  else if (what == "rate")
    rate(from, to, bytes, std::atof(argv[5]));
  else if (what == "sleep" || what == "spin")
    ping_pong(from, to, bytes, std::atol(argv[5]), what == "spin" ? MSG_DONTWAIT : 0);
  else
    return 2;
  while (wait(nullptr) > 0) continue;
  return 0;
}
