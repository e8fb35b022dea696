// SPDX-License-Identifier: MIT
#include "wire/link/udp/steering.h"

#include <sys/socket.h>

#include <cerrno>

namespace verbatim::wire::udp {

namespace {

constexpr uint32_t kDestinationAt = 4;  ///< of the BTH: a reserved byte and the queue pair's number
constexpr uint32_t kNumberMask = 0xffffff, kSlotShift = 14;

}  // namespace

std::vector<sock_filter> steering_program(const std::vector<Route>& routes, uint32_t otherwise) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationAt),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kNumberMask),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kSlotShift),
  };
  for (const Route& route : routes) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, route.slot, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, route.socket));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, otherwise));
  return program;
}

Outcome steer(int socket, std::vector<sock_filter> program) {
  const sock_fprog whole = {static_cast<unsigned short>(program.size()), program.data()};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &whole, sizeof whole) == 0) return Done{};
  return Error{errno, "the kernel does not let packets be told apart by their queue pair"};
}

}  // namespace verbatim::wire::udp
