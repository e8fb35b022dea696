// SPDX-License-Identifier: MIT
// The sockets of the process, by descriptor.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "lib/rdmacm/rsocket_socket.h"
#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {
namespace {

struct Table {
  std::shared_mutex lock;
  std::vector<std::shared_ptr<Socket>> sockets;
};

Table& table() {
  // Never destroyed: threads may still use it while the process ends.
  static Table& sockets = *new Table;
  return sockets;
}

}  // namespace

std::shared_ptr<Socket> find_socket(int descriptor) {
  Table& all = table();
  const std::shared_lock guard(all.lock);
  if (descriptor < 0 || static_cast<size_t>(descriptor) >= all.sockets.size()) return nullptr;
  return all.sockets[static_cast<size_t>(descriptor)];
}

void add_socket(std::shared_ptr<Socket> socket) {
  Table& all = table();
  const std::unique_lock guard(all.lock);
  const auto place = static_cast<size_t>(socket->descriptor());
  if (place >= all.sockets.size()) all.sockets.resize(place + 1);
  all.sockets[place] = std::move(socket);
}

std::shared_ptr<Socket> remove_socket(int descriptor) {
  Table& all = table();
  const std::unique_lock guard(all.lock);
  if (descriptor < 0 || static_cast<size_t>(descriptor) >= all.sockets.size()) return nullptr;
  return std::move(all.sockets[static_cast<size_t>(descriptor)]);
}

void copy_name(const sockaddr* from, sockaddr* to, socklen_t* bytes) {
  const socklen_t whole = std::max<socklen_t>(length_of(from), sizeof(sa_family_t));
  std::memcpy(to, from, std::min(*bytes, whole));
  *bytes = whole;
}

}  // namespace verbatim::rdmacm
