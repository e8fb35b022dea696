// SPDX-License-Identifier: MIT
#include "agent/outlets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::agent {

namespace {

constexpr const char* kTap = "tap=";
constexpr const char* kInterface = "interface=";

/// Closed at the end of its scope, unless it is taken out.
class File {
 public:
  explicit File(int file) : file_(file) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return file_; }
  int take() { return std::exchange(file_, -1); }

 private:
  int file_;
};

ifreq request_of(const std::string& name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  return request;
}

Error failed(const std::string& what) {
  const int code = errno;
  return {code, what + ": " + std::strerror(code)};
}

/// The kernel's end is good for nothing while it is down. Whoever may make it may raise it.
void raise(const std::string& name) {
  const File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_of(name);
  if (socket.get() < 0 || ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  (void)ioctl(socket.get(), SIOCSIFFLAGS, &request);
}

/// With several queues, so that a later agent can open the same one while processes still have this one's.
Expected<int> open_tap(const std::string& name) {
  File tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (tap.get() < 0) return failed("/dev/net/tun could not be opened");
  ifreq request = request_of(name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE;
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0)
    return failed("the TAP device " + name + " could not be opened");
  raise(name);
  return tap.take();
}

Expected<int> open_interface(const std::string& name) {
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0) return failed("there is no interface " + name);
  File socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failed("a packet socket for interface " + name + " could not be made");
  const int on = 1;
  packet_mreq everything{};
  everything.mr_ifindex = static_cast<int>(index);
  everything.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  const auto set = [&](int option, const void* value, socklen_t bytes) {
    return setsockopt(socket.get(), SOL_PACKET, option, value, bytes) == 0;
  };
  // What is sent here must not come back; tags come beside the frame.
  if (!set(PACKET_IGNORE_OUTGOING, &on, sizeof on) || !set(PACKET_AUXDATA, &on, sizeof on) ||
      !set(PACKET_ADD_MEMBERSHIP, &everything, sizeof everything) ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed("the packet socket could not be bound to interface " + name);
  return socket.take();
}

}  // namespace

Outlets::~Outlets() {
  for (const auto& [name, outlet] : outlets_) close(outlet.file);
}

Expected<int> Outlets::open(uint32_t slot, const std::string& name) {
  const auto found = outlets_.find(name);
  if (found != outlets_.end()) {
    found->second.users.insert(slot);
    return found->second.file;
  }
  const Expected<int> file = name.starts_with(kTap) ? open_tap(name.substr(std::strlen(kTap)))
                             : name.starts_with(kInterface)
                                 ? open_interface(name.substr(std::strlen(kInterface)))
                                 : Error{EINVAL, "'" + name + "' is no outlet"};
  if (file) outlets_[name] = {*file, {slot}};
  return file;
}

bool Outlets::take_back(uint32_t slot, const std::string& name, int file) {
  Outlet& outlet = outlets_[name];
  outlet.users.insert(slot);
  if (outlet.file >= 0) return false;
  outlet.file = file;
  return true;
}

void Outlets::leave(uint32_t slot) {
  for (auto at = outlets_.begin(); at != outlets_.end();) {
    Outlet& outlet = at->second;
    outlet.users.erase(slot);
    if (!outlet.users.empty()) {
      ++at;
      continue;
    }
    close(outlet.file);
    at = outlets_.erase(at);
  }
}

}  // namespace verbatim::agent
