// SPDX-License-Identifier: MIT
#include "wire/link/mux_fabric.h"

#include <cstdlib>
#include <cstring>

namespace verbatim::wire {

namespace {

bool is_forced() {
  const char* wanted = std::getenv("VERBATIM_WIRE");
  return wanted && std::strcmp(wanted, "udp") == 0;
}

}  // namespace

MuxFabric::MuxFabric(shm::ShmFabric& shm, Neighborhood& neighborhood, const Clock& clock)
    : shm_(shm), neighborhood_(neighborhood), forced_(is_forced()), udp_(neighborhood, *this, clock) {
  shm_.on_passed_on([this](const Gid& host) -> Channel& { return udp_.sender(host); });
}

Channel* MuxFabric::channel(const Gid& dest, uint32_t dest_qpn) {
  if (dest.is_zero()) return nullptr;
  return is_here(dest) ? shm_.neighbor(dest_qpn) : udp_.channel(dest);
}

std::string MuxFabric::obstacle(const Gid& dest, uint32_t dest_qpn) {
  return is_here(dest) ? shm_.obstacle(dest, dest_qpn) : udp_.obstacle(dest);
}

void MuxFabric::expect(const Gid& host) {
  const bool somebody = host.is_zero() ? forced_ || neighborhood_.has_others() : !is_here(host);
  if (somebody) (void)udp_.open();
}

uint32_t MuxFabric::poll(Receiver& receiver, uint32_t budget) {
  const uint32_t done = shm_.poll(receiver, budget);
  return udp_.due() ? done + udp_.poll(receiver, budget) : done;
}

}  // namespace verbatim::wire
