// SPDX-License-Identifier: MIT
#pragma once

// What the tests of the same-host link share: an agent's directory, a receiver that keeps what arrives, and a
// process's end of the link.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/fault_copy.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::wire::shm {

/// A queue pair number that belongs to `slot`.
inline uint32_t qpn_of(uint32_t slot) { return slot << 14 | 5; }

/// Stands in for the agent: descriptors by slot, of this process or of a child.
class Town final : public Neighborhood {
 public:
  Expected<PeerHandles> introduce(uint32_t slot) override {
    introductions++;
    const auto found = houses_.find(slot);
    if (found == houses_.end()) return Error{ESRCH, "nobody has this slot"};
    PeerHandles handles = found->second;
    const bool own = handles.pid == static_cast<uint32_t>(getpid());
    const int process = own ? -1 : static_cast<int>(syscall(SYS_pidfd_open, handles.pid, 0));
    for (int* file : {&handles.published, &handles.inbound, &handles.wake})
      *file = own ? fcntl(*file, F_DUPFD_CLOEXEC, 0)
                  : static_cast<int>(syscall(SYS_pidfd_getfd, process, *file, 0));
    if (process >= 0) close(process);
    return handles;
  }
  uint64_t slot_generation(uint32_t slot) const override {
    const auto found = houses_.find(slot);
    return found == houses_.end() ? 0 : found->second.generation;
  }
  bool is_local(const Gid& gid) const override { return gid == Gid{}; }
  uint32_t members(const Gid&, uint32_t* slots, uint32_t max) const override {
    uint32_t count = 0;
    for (const auto& house : houses_)
      if (count < max) slots[count++] = house.first;
    return count;
  }

  void put(uint32_t slot, PeerHandles handles, uint32_t pid, uint64_t generation) {
    handles.pid = pid;
    handles.generation = generation;
    handles.primary_slot = slot;
    houses_[slot] = handles;
  }
  void remove(uint32_t slot) { houses_.erase(slot); }

  int introductions = 0;

 private:
  std::map<uint32_t, PeerHandles> houses_;
};

/// Keeps what arrives, payloads gathered into two pieces.
class Inbox final : public Receiver {
 public:
  void enter() override {}
  void leave() override {}
  struct Arrival {
    Segment segment;
    std::vector<char> bytes;
    CopyResult result;
  };
  bool on_segment(Channel&, const Segment& segment, Payload& payload, Segment* answer) override {
    Arrival arrival{segment, {}, CopyResult::kDone};
    if (discard) {
      count++;
      return false;
    }
    const size_t length = segment.has(kPlaced) || segment.length > (64u << 20) ? 0 : segment.length;
    arrival.bytes.resize(length);
    const size_t half = length / 3;
    const Piece pieces[2] = {{target ? target : arrival.bytes.data(), half},
                             {arrival.bytes.data() + half, length - half}};
    arrival.result = payload.copy_to(0, pieces, 2);
    arrivals.push_back(std::move(arrival));
    count++;
    if (!answer) return false;
    answer->operation = Operation::kAck;
    answer->psn = segment.psn;
    return true;
  }
  void on_room(Channel&) override { rooms++; }
  void on_gone(Channel&) override { gone++; }

  bool discard = false;
  char* target = nullptr;  ///< where the first third of each payload goes instead
  uint64_t count = 0;
  int rooms = 0, gone = 0;
  std::vector<Arrival> arrivals;
};

/// One process's end of the link.
struct House {
  House(Town& town, uint32_t slot, uint64_t generation) : slot(slot) {
    install_fault_guard();
    auto made = ShmFabric::create(kPage, clock);
    if (!made) throw std::runtime_error(made.error().reason);
    fabric = std::move(*made);
    fabric->attach(town, slot, generation);
    fabric->set_receiver(inbox);
    town.put(slot, fabric->handles(), static_cast<uint32_t>(getpid()), generation);
  }
  Channel* to(uint32_t other) { return fabric->channel(Gid{}, qpn_of(other)); }
  uint32_t poll(uint32_t budget = 1 << 20) { return fabric->poll(inbox, budget); }
  SendResult send(Channel* way, const std::vector<char>& bytes, uint32_t psn, bool may_pull = false) {
    Segment segment;
    segment.flags = kFirst | kLast;
    segment.psn = segment.base_psn = psn & kPsnMask;
    segment.dest_qpn = qpn_of(slot);
    segment.length = static_cast<uint32_t>(bytes.size());
    // Three pieces, so that pieces of no length and odd borders are met.
    char* data = const_cast<char*>(bytes.data());
    const size_t a = bytes.size() / 5, b = bytes.size() / 2;
    const Piece pieces[3] = {{data, a}, {data + a, b - a}, {data + b, bytes.size() - b}};
    return way->send(segment, pieces, 3, may_pull, nullptr);
  }

  const uint32_t slot;
  SystemClock clock;
  Inbox inbox;
  std::unique_ptr<ShmFabric> fabric;
};

inline std::vector<char> pattern(size_t length, unsigned seed) {
  std::vector<char> bytes(length);
  for (size_t i = 0; i < length; i++) bytes[i] = static_cast<char>(seed * 31 + i * 7 + (i >> 8));
  return bytes;
}

}  // namespace verbatim::wire::shm
