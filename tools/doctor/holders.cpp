// SPDX-License-Identifier: MIT
#include "tools/doctor/holders.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "wire/link/udp/port_socket.h"

namespace verbatim::doctor {

namespace {

namespace fs = std::filesystem;

std::string user_name(uint32_t user) {
  const passwd* entry = getpwuid(user);
  return entry ? entry->pw_name : std::to_string(user);
}

// One of its descriptors is the socket.
bool holds(const fs::path& process, const std::string& socket) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (fs::read_symlink(at->path(), unreadable) == socket) return true;
  }
  return false;
}

// "nc (process 12"; empty: not seen.
std::string process_of(uint64_t inode) {
  const std::string socket = "socket:[" + std::to_string(inode) + "]";
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string number = at->path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos || !holds(at->path(), socket)) continue;
    std::string name;
    std::getline(std::ifstream(at->path() / "comm"), name);
    return name + " (process " + number;
  }
  return "";
}

}  // namespace

std::string port_holders_in_words() {
  std::vector<std::string> names;
  for (const wire::udp::PortHolder& each : wire::udp::port_holders()) {
    std::string name;
    if (each.inode == 0) {
      name = "the kernel (its rdma_rxe module, probably)";
    } else {
      const std::string process = process_of(each.inode);
      name = (process.empty() ? "a process (" : process + ", ") + "user " + user_name(each.user) + ")";
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  std::string all;
  for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
  return all;
}

}  // namespace verbatim::doctor
