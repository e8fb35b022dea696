// SPDX-License-Identifier: MIT
#include "wire/link/mux_fabric.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace verbatim::wire {

namespace {

/// Of interface-local scope (RFC 4291, 2.7), as the group of Ethernet frames: never for other hosts.
bool stays_on_host(const Gid& group) { return group.bytes[0] == 0xff && (group.bytes[1] & 0xf) == 1; }

bool udp_is_wanted() {
  const char* wanted = std::getenv("VERBATIM_WIRE");
  return wanted && std::strcmp(wanted, "udp") == 0;
}

}  // namespace

MuxFabric::MuxFabric(shm::ShmFabric& shm, Neighborhood& neighborhood, const Clock& clock)
    : shm_(shm),
      neighborhood_(neighborhood),
      forced_(udp_is_wanted()),
      tap_(active_, clock),
      udp_(neighborhood, *this, tap_, clock) {
  tap_.recorder().set_slot(shm_.slot());
  shm_.pass_by(tap_);
  refresh_taps();
  shm_.on_passed_on([this](const Gid& host) -> Channel& { return udp_.sender(host); });
}

// The loopback interface has no link-local address, but a device has to have a GID of that kind: packets
// cannot be sent to it.
bool MuxFabric::is_made_up(const Gid& own) const {
  if (own.bytes[0] != 0xfe || (own.bytes[1] & 0xc0) != 0x80) return false;
  constexpr uint32_t kInterfacesMax = 64;
  uint32_t indices[kInterfacesMax];
  const uint32_t count = neighborhood_.interfaces(indices, kInterfacesMax);
  return std::find(indices, indices + count, neighborhood_.interface_of(own)) == indices + count;
}

Channel* MuxFabric::channel(const Gid& dest, uint32_t dest_qpn) {
  if (dest.is_zero()) return nullptr;
  return is_here(dest) ? shm_.neighbor(dest_qpn) : udp_.channel(dest);
}

// Others of this host may send their packets here from now on.
void MuxFabric::refresh_taps() {
  if (tap::Board* board = neighborhood_.board()) tap_.follow(*board);
  if (active_.injects()) (void)udp_.open();
  refresh_capture();
}

// One at a time. While a file cannot be had, packets are not captured.
void MuxFabric::refresh_capture() {
  const tap::Board* board = neighborhood_.board();
  const uint64_t wanted = board ? board->capture.load(std::memory_order_acquire) : 0;
  tap::Recorder& recorder = tap_.recorder();
  if (recorder.number() == wanted) return;
  recorder.close();
  if (wanted == 0) return;
  if (const Expected<int> file = neighborhood_.open_capture(); file) (void)recorder.open(*file);
}

std::string MuxFabric::obstacle(const Gid& dest, uint32_t dest_qpn) {
  return is_here(dest) ? shm_.obstacle(dest, dest_qpn) : udp_.obstacle(dest);
}

void MuxFabric::expect(const Gid& host) {
  if (host.is_zero() ? has_others() : !is_here(host)) (void)udp_.open();
}

bool MuxFabric::has_others() const {
  uint32_t interface;
  return is_forced() || neighborhood_.interfaces(&interface, 1) > 0;
}

void MuxFabric::join(const Gid& group) {
  if (!stays_on_host(group) && has_others()) udp_.join(group);
}

// One packet on the wire for all other hosts; it does not come back to this one.
uint32_t MuxFabric::multicast(const Gid& group, Channel** out, uint32_t max) {
  uint32_t count = shm_.multicast(group, out, max);
  if (!stays_on_host(group) && udp_.file() >= 0 && count < max) out[count++] = udp_.channel(group);
  return count;
}

uint32_t MuxFabric::poll(Receiver& receiver, uint32_t budget) {
  const uint32_t done = shm_.poll(receiver, budget);
  return udp_.due() ? done + udp_.poll(receiver, budget) : done;
}

}  // namespace verbatim::wire
