// SPDX-License-Identifier: MIT
// Frames between queue pairs and a network outside: a TAP device whose other end is the kernel's, and an
// interface that is there already. In a network namespace of the test's own, which an ordinary user may make,
// too.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <poll.h>

#include <cstdlib>

#include "testing/private_network.h"
#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

using testing_support::kNotPermitted;

constexpr Mac kTo{2, 3, 3, 3, 3, 3}, kOther{2, 3, 3, 3, 3, 4};
constexpr size_t kPlace = 8192, kRoom = 4096;
constexpr uint16_t kArp = 0x0806;

/// A plain reader and writer of an interface's frames, as tcpdump is one.
class PacketSocket {
 public:
  explicit PacketSocket(const char* interface) : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    address_.sll_family = AF_PACKET;
    address_.sll_protocol = htons(ETH_P_ALL);
    address_.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    bound_ = ::bind(socket_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0;
  }
  ~PacketSocket() { ::close(socket_); }
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  bool bound() const { return bound_; }
  bool write(const std::vector<uint8_t>& frame) const {
    return ::send(socket_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
  }
  /// Whether the frame comes within five seconds; others pass by.
  bool sees(const std::vector<uint8_t>& frame) const {
    std::vector<uint8_t> found(kRoom);
    pollfd watched{socket_, POLLIN, 0};
    while (::poll(&watched, 1, 5000) == 1) {
      const ssize_t bytes = ::recv(socket_, found.data(), found.size(), 0);
      if (bytes == static_cast<ssize_t>(frame.size()) &&
          std::memcmp(found.data(), frame.data(), frame.size()) == 0)
        return true;
    }
    return false;
  }

 private:
  int socket_;
  sockaddr_ll address_{};
  bool bound_ = false;
};

/// The next frame that a queue pair gets within five seconds is this one.
bool gets(Endpoint& self, const std::vector<uint8_t>& frame) {
  const ibv_wc wc = self.wait();
  return wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == frame.size() &&
         lies_at(self, kPlace + wc.wr_id * kRoom, frame);
}

bool take_frames(Endpoint& self) {
  bool ready = self.connect({}) == 0;
  for (uint64_t i = 0; i < 4; i++) ready = ready && self.receive(kPlace + i * kRoom, kRoom, i) == 0;
  return ready;
}

/// A queue pair that is sent what the kernel broadcasts to find an address.
bool hears_the_kernel(Endpoint& self) {
  ibv_flow_spec_eth arp{};
  arp.type = IBV_FLOW_SPEC_ETH;
  arp.val.ether_type = big16(kArp);
  arp.mask.ether_type = 0xffff;
  Rule rule;
  if (rule.add(arp).put_in_force(self) != 0) return false;
  const uint8_t own[] = {10, 77, 1, 1};
  if (!testing_support::set_interface("frames0", IFF_UP, own)) return false;
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  const uint8_t wanted[] = {10, 77, 1, 9};
  std::memcpy(&to.sin_addr, wanted, 4);
  const bool sent = ::sendto(socket, "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 1;
  ::close(socket);
  const ibv_wc wc = self.wait();
  const uint8_t* asked = &self.buffer[kPlace + wc.wr_id * kRoom + 14 + 24];
  return sent && wc.status == IBV_WC_SUCCESS && std::memcmp(asked, wanted, 4) == 0;
}

/// A process of its own with a rule for kOther: 0 when the frame has come.
int other_process(int ready, const std::vector<uint8_t>& frame) {
  Endpoint self(kFrames);
  Rule rule;
  if (!take_frames(self) || rule.to(kOther).put_in_force(self) != 0) return 1;
  if (::write(ready, "!", 1) != 1) return 2;
  return gets(self, frame) && !testing::Test::HasFailure() ? 0 : 3;
}

/// Returns the number of the step that failed.
int with_tap() {
  const int tun = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (tun < 0) return kNotPermitted;
  ::close(tun);
  ::setenv("VERBATIM_DEVICES", "mlx5_0:mlx5:tap=frames0", 1);
  int ready[2];
  if (::pipe(ready) != 0) return 1;
  const std::vector<uint8_t> to_other = frame_of({.to = kOther, .seed = 9});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(other_process(ready[1], to_other));
  char mark = 0;
  if (::read(ready[0], &mark, 1) != 1) return 2;

  Endpoint self(kFrames);
  Rule rule;
  if (!take_frames(self) || rule.to(kTo).put_in_force(self) != 0) return 3;
  const PacketSocket kernel("frames0");
  if (!kernel.bound()) return 4;
  const std::vector<uint8_t> out = frame_of({.to = kSource}),
                             in = frame_of({.to = kTo, .vlan = 5, .seed = 3});
  send(self, out);
  if (!kernel.sees(out)) return 5;
  if (!kernel.write(frame_of({.to = kSource})) || !kernel.write(in) || !gets(self, in)) return 6;
  if (!kernel.write(to_other)) return 7;
  int status = -1;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return 10 + WEXITSTATUS(status);
  if (!self.quiet()) return 8;
  if (!hears_the_kernel(self)) return 9;
  return testing::Test::HasFailure() ? 20 : 0;
}

TEST(FrameOutlets, AreTapDevices) { testing_support::run_in_private_network(with_tap); }

/// Makes a TAP device that stands for any interface: what is written to its other end comes in.
int make_interface(const char* name) {
  const int tap = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (tap < 0 || ::ioctl(tap, TUNSETIFF, &request) != 0 ||
      !testing_support::set_interface(name, IFF_UP | IFF_RUNNING, nullptr))
    return -1;
  return tap;
}

bool comes_out(int tap, const std::vector<uint8_t>& frame) {
  std::vector<uint8_t> found(kRoom);
  pollfd watched{tap, POLLIN, 0};
  while (::poll(&watched, 1, 5000) == 1) {
    const ssize_t bytes = ::read(tap, found.data(), found.size());
    if (bytes == static_cast<ssize_t>(frame.size()) &&
        std::memcmp(found.data(), frame.data(), frame.size()) == 0)
      return true;
  }
  return false;
}

int with_interface() {
  const int wire = make_interface("wire0");
  if (wire < 0) return kNotPermitted;
  ::setenv("VERBATIM_DEVICES", "mlx5_0:mlx5:interface=wire0", 1);
  Endpoint self(kFrames);
  Rule rule;
  if (!take_frames(self) || rule.to(kTo).put_in_force(self) != 0) return 1;
  const std::vector<uint8_t> out = frame_of({.to = kSource}),
                             in = frame_of({.to = kTo, .vlan = 5, .seed = 3});
  send(self, out);
  if (!comes_out(wire, out)) return 2;
  if (::write(wire, in.data(), in.size()) != static_cast<ssize_t>(in.size()) || !gets(self, in)) return 3;
  if (!self.quiet()) return 4;
  return testing::Test::HasFailure() ? 20 : 0;
}

TEST(FrameOutlets, AreInterfacesThatAreThere) { testing_support::run_in_private_network(with_interface); }

int without_interface() {
  ::setenv("VERBATIM_DEVICES", "mlx5_0:mlx5:interface=nowhere0", 1);
  ibv_device** devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) return 1;
  if (ibv_open_device(devices[0]) != nullptr) return 2;
  return errno == ENODEV ? 0 : 3;
}

TEST(FrameOutlets, HaveToBeThere) { testing_support::run_in_private_network(without_interface); }

}  // namespace
}  // namespace verbatim::conformance
