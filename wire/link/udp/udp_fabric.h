// SPDX-License-Identifier: MIT
#pragma once

// Other hosts, over UDP port 4791. Nothing is opened before somebody asks for a host or expects one. Sockets
// of several processes share the port; the kernel gives each what is for its queue pairs (steering.h), and
// what comes to the wrong one all the same is passed on.
//
// Several processes send from different ports, and to different processes of a host, too: otherwise the
// receiving kernel would take packets for several of them for one flow, and join them (UDP_GRO).

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/spinlock.h"
#include "wire/format/packet.h"
#include "wire/link/channel.h"
#include "wire/link/shm/neighborhood.h"
#include "wire/link/tap/tap.h"
#include "wire/link/udp/inbox.h"
#include "wire/link/udp/udp_channel.h"

namespace verbatim::wire::udp {

struct Way;

/// Knows the process of this host that a queue pair belongs to.
class Owners {
 public:
  virtual ~Owners() = default;
  /// The queue pair is one of this process.
  virtual bool is_own(uint32_t qpn) const = 0;
  /// The way to the other process that has it; nullptr: none.
  virtual Channel* other_owner(uint32_t qpn) = 0;
};

class UdpFabric {
 public:
  UdpFabric(Neighborhood& neighborhood, Owners& owners, tap::Tap& tap, const Clock& clock);
  ~UdpFabric();

  /// How to wake who waits for `file` to become readable, because it is another, or because he should wait
  /// for it.
  void on_call(std::function<void()> call) {
    call_ = call;
    tap_.on_hold(std::move(call));
  }
  /// Nobody waits for the file now, or somebody does again.
  void leave_unheard(bool unheard) { unheard_.store(unheard, std::memory_order_seq_cst); }
  /// Somebody should wait for it from now on.
  void want_heard() {
    if (unheard_.load(std::memory_order_seq_cst) && !in_place_.load(std::memory_order_relaxed) &&
        file() >= 0 && call_)
      call_();
  }
  /// Whoever wants it heard waits for it himself, until it is found that nobody does.
  void note_heard_in_place() {
    if (!in_place_.load(std::memory_order_relaxed)) in_place_.store(true, std::memory_order_relaxed);
  }
  void note_unheard() { in_place_.store(false, std::memory_order_relaxed); }
  /// Opens this process's socket unless that is done. False: see `obstacle`; tried again now and then.
  bool open();
  /// Datagrams to this group are wanted from now on, or not any more. Counted.
  void join(const Gid& group);
  void leave(const Gid& group);
  /// The channel to a host or group, nullptr: no socket.
  Channel* channel(const Gid& host);
  /// The same for a host that has sent something: of those that nobody has asked for, all have one channel.
  Channel& sender(const Gid& host);
  std::string obstacle(const Gid& host);

  /// Delivers what has arrived, up to about `budget` packets.
  uint32_t poll(Receiver& receiver, uint32_t budget);
  /// It is time to look: at once while packets come and go, else seldom, because a look is a system call.
  bool due() const;
  /// Packets came or went a moment ago.
  bool is_warm() const;
  /// It is now.
  void look_soon() { next_look_.store(0, std::memory_order_relaxed); }
  /// Readable when something has arrived; -1: no socket.
  int file() const { return socket_.load(std::memory_order_acquire); }
  /// A channel waits for room.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  /// When a packet that rules hold back is due; kNever: there is none.
  uint64_t held_until_ns() const {
    return std::min(tap_.next_ns(), held_until_ns_.load(std::memory_order_relaxed));
  }
  /// In a forked child.
  void after_fork_child();

  // --- for channels ---
  /// How a segment travels, in fragments if need be; false: there is no socket.
  bool way_of(const Segment& segment, bool fragments, Way& way);
  void note_sent(bool busy);

 private:
  static constexpr size_t kPorts = 4;
  struct Port {
    std::atomic<int> socket{-1};
    uint16_t number = 0;
  };
  struct Later {
    bool operator()(const Gid& a, const Gid& b) const { return a.bytes < b.bytes; }
  };
  void set_membership(const Gid& group, bool member);
  const Port* sending_port(uint32_t dest_qpn, bool fragments);
  bool open_port(Port& port);
  /// A packet that has come, and is let in later.
  struct HeldArrival {
    Arrival arrival;
    uint16_t number;
    std::vector<uint8_t> datagram;
  };
  /// A run of packets from one sender.
  struct Flow {
    explicit Flow(const Arrival& a) : arrival(a), icrc(envelope(0)) {}
    roce::Envelope envelope(uint16_t identification) const {
      return {arrival.source,  arrival.destination, arrival.source_port,
              roce::kRocePort, identification,      true};
    }
    const Arrival& arrival;
    roce::IcrcFlow icrc;
  };
  uint32_t deliver(const Arrival& arrival, Receiver& receiver);
  uint32_t inject(const Flow& flow, uint16_t number, std::span<const uint8_t> datagram, Receiver& receiver);
  uint32_t deliver_held(Receiver& receiver);
  bool deliver_packet(const Flow& flow, uint16_t number, std::span<const uint8_t> datagram,
                      Receiver& receiver);
  void pass_on(Segment& segment, std::span<const uint8_t> payload);
  void note_traffic();
  void close_all();

  Neighborhood& neighborhood_;
  Owners& owners_;
  tap::Tap& tap_;
  const Clock& clock_;
  std::function<void()> call_;
  std::mutex lock_;
  std::atomic<int> socket_{-1};
  uint64_t retry_at_ns_ = 0;
  std::string obstacle_;
  std::array<Port, kPorts> ports_;
  Port fragmenting_;
  std::map<Gid, uint32_t, Later> groups_;  ///< how often they have been joined

  SpinLock channels_lock_;
  std::map<Gid, std::unique_ptr<UdpChannel>, Later> channels_;
  UdpChannel strangers_;
  // Of the receiving side, one thread at a time.
  std::unique_ptr<Inbox> inbox_;
  Gid last_host_;
  Channel* last_channel_ = nullptr;
  tap::Delayed<HeldArrival> held_;
  std::atomic<uint64_t> held_until_ns_{kNever};

  std::atomic<bool> unheard_{false}, in_place_{false};
  std::atomic<bool> busy_{false}, met_{false};          ///< met: packets of some host have come or gone
  std::atomic<uint64_t> next_look_{0}, warm_until_{0};  ///< in ticks
};

}  // namespace verbatim::wire::udp
