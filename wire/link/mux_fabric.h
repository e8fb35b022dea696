// SPDX-License-Identifier: MIT
#pragma once

#include "wire/link/shm/shm_fabric.h"
#include "wire/link/tap/tap.h"
#include "wire/link/udp/udp_fabric.h"

namespace verbatim::wire {

/// All wires of a process: shared memory to the processes of this host, UDP to others. VERBATIM_WIRE=udp
/// sends everything over UDP, to this host and to the process itself, too. So do rules that damage packets,
/// while there are any: connections that are made then, and datagrams.
class MuxFabric final : public Fabric, private udp::Owners {
 public:
  MuxFabric(shm::ShmFabric& shm, Neighborhood& neighborhood, const Clock& clock);

  udp::UdpFabric& udp() { return udp_; }
  /// Datagrams of other hosts to this group are wanted from now on, or not any more. Counted.
  void join(const Gid& group);
  void leave(const Gid& group) { udp_.leave(group); }
  tap::Tap& tap() { return tap_; }
  /// The agent's board is another, or what is active on it.
  void refresh_taps();
  /// In a forked child.
  void after_fork_child() { udp_.after_fork_child(); }

  Channel* channel(const Gid& dest, uint32_t dest_qpn) override;
  Channel* neighbor(uint32_t dest_qpn) override { return shm_.neighbor(dest_qpn); }
  std::string obstacle(const Gid& dest, uint32_t dest_qpn) override;
  void expect(const Gid& host) override;
  uint32_t multicast(const Gid& group, Channel** out, uint32_t max) override;
  uint32_t poll(Receiver& receiver, uint32_t budget) override;
  bool pending() const override { return shm_.pending() || udp_.busy(); }
  bool worth_polling() override { return shm_.worth_polling() || udp_.due(); }
  bool shares_processor() override { return shm_.shares_processor(); }
  bool want_wake(bool on) override {
    if (on) udp_.want_heard();
    return shm_.want_wake(on);
  }
  void wait_for_peers() override { shm_.wait_for_peers(); }
  std::byte* published() override { return shm_.published(); }
  size_t published_bytes() const override { return shm_.published_bytes(); }

 private:
  bool is_own(uint32_t qpn) const override { return shm_.is_own_qpn(qpn); }
  Channel* other_owner(uint32_t qpn) override { return shm_.neighbor(qpn); }
  bool has_others() const;
  void refresh_capture();
  bool is_forced() const { return forced_ || active_.injects(); }
  bool is_here(const Gid& host) const {
    return neighborhood_.is_local(host) && (!is_forced() || is_made_up(host));
  }
  bool is_made_up(const Gid& own) const;

  shm::ShmFabric& shm_;
  Neighborhood& neighborhood_;
  const bool forced_;
  tap::Tap tap_;
  udp::UdpFabric udp_;
};

}  // namespace verbatim::wire
