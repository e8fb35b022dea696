// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "lib/rdmacm/rsocket_conduit.h"
#include "lib/rdmacm/rsocket_socket.h"
#include "lib/rdmacm/rsocket_spin.h"

namespace verbatim::rdmacm {

/// An IP address and a port.
struct Peer {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  Peer() = default;
  Peer(const sockaddr* from, socklen_t length);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  bool operator<(const Peer& other) const;
};

/// What stands in front of a datagram between queue pairs: whose it is. Released libraries are peers.
struct DatagramHeader {
  uint8_t version;  ///< 4 or 6
  uint8_t length;   ///< of this: 8 or 24
  uint16_t port;    ///< network byte order, as all here
  union {
    uint32_t v4;
    struct {
      uint32_t flow;
      uint8_t address[16];
    } v6;
  };
};
static_assert(sizeof(DatagramHeader) == 24);

/// A queue pair for the datagrams of one local address.
class DatagramPort {
 public:
  static constexpr uint32_t kSlot = 2048;

  /// Null with errno set.
  static std::unique_ptr<DatagramPort> make(const Peer& local, uint32_t sends, uint32_t receives);
  ~DatagramPort();

  const DatagramHeader& header() const { return header_; }
  uint32_t qpn() const { return id_->qp->qp_num; }
  ibv_comp_channel* events() const { return channel_; }
  void arm() { ibv_req_notify_cq(cq_, 0); }
  void take_events();

  struct Arrival {
    uint32_t slot;
    uint32_t bytes;  ///< header included
  };
  /// The next datagram that has come, if any. Takes ended sends back, too.
  bool take(Arrival& arrival);
  const uint8_t* bytes_of(uint32_t slot) const { return receive_memory_.at(slot * size_t{kSlot}); }
  void give_back(uint32_t slot);

  bool can_send() const { return !free_slots_.empty(); }
  bool all_sent() const { return free_slots_.size() == sends_; }
  /// 0, or -1 with errno set; can_send() first.
  int send(ibv_ah* ah, uint32_t qpn, Gather& from, size_t bytes);
  /// The way to a queue pair at an address; null with errno set.
  ibv_ah* make_address(const Peer& peer);

 private:
  DatagramPort() = default;
  bool make_queue_pair();

  rdma_cm_id* id_ = nullptr;
  DatagramHeader header_{};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  uint32_t sends_ = 0, receives_ = 0, inline_bytes_ = 0;
  RegisteredMemory send_memory_, receive_memory_;
  std::vector<uint32_t> free_slots_;
};

/// A datagram socket: a UDP socket of the kernel's that holds the name and carries the first datagrams to a
/// peer, and queue pairs for those that know each other's.
class DatagramSocket final : public Socket {
 public:
  DatagramSocket(int udp, int all, int domain);
  ~DatagramSocket() override;

  int descriptor() const override { return udp_; }
  int bind(const sockaddr* address, socklen_t bytes) override;
  int listen(int backlog) override;
  std::shared_ptr<Socket> accept() override;
  int connect(const sockaddr* address, socklen_t bytes) override;
  int shutdown(int how) override;
  void close() override;
  ssize_t receive(const iovec* pieces, int count, int flags, sockaddr* from, socklen_t* bytes) override;
  ssize_t send(const iovec* pieces, int count, int flags, const sockaddr* to, socklen_t bytes) override;
  int own_name(sockaddr* address, socklen_t* bytes) override;
  int peer_name(sockaddr* address, socklen_t* bytes) override;
  int set_option(int level, int name, const void* value, socklen_t bytes) override;
  int get_option(int level, int name, void* value, socklen_t* bytes) override;
  short ready(short events) override;
  uint64_t edges() override { return edges_; }
  Waits prepare_to_wait() override;
  void woken() override;
  off_t map(void* start, size_t bytes, int prot, off_t offset) override;
  int unmap(void* start, size_t bytes) override;
  ssize_t write_to_mapping(const void* from, size_t bytes, off_t offset, int flags) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Destination {
    DatagramPort* port = nullptr;
    ibv_ah* way = nullptr;  ///< null: its queue pair is not known yet
    uint32_t qpn = 0;
  };
  /// A datagram that nobody has read: in a slot of a port, or here if it came over UDP.
  struct Waiting {
    DatagramPort* port = nullptr;
    DatagramPort::Arrival place{};
    std::vector<uint8_t> bytes;
    Peer from;
  };

  enum class Udp : bool { kNowAndThen, kLook };
  void drain(Udp udp);
  void drain_udp();
  size_t waiting_max() const { return receive_bytes_ / DatagramPort::kSlot; }
  void take_udp(const uint8_t* bytes, size_t count, const Peer& from);
  bool has_name();
  DatagramPort* port_for(const Peer& peer);
  Destination* destination(const Peer& peer);
  ssize_t send_udp(const Destination& to, const Peer& peer, const iovec* pieces, int count, uint8_t what);
  bool spin_until(Lock& lock, const std::function<bool()>& test);
  /// Something has called for this thread.
  void take_news();
  int wait(Lock& lock, bool nonblocking, const std::function<bool()>& test);
  size_t hand_out(const Waiting& datagram, Gather& to, size_t bytes_max, sockaddr* from, socklen_t* bytes);

  const int udp_;
  const int all_;  ///< an epoll set of everything that datagrams come by
  const int domain_;
  std::mutex lock_;
  Spin spin_;
  bool named_ = false;
  std::chrono::steady_clock::time_point looked_at_udp_;
  uint64_t edges_ = 1;
  uint32_t send_bytes_ = 1 << 17, receive_bytes_ = 1 << 17;
  std::map<Peer, std::unique_ptr<DatagramPort>> ports_;  ///< by local address
  std::map<Peer, Destination> destinations_;
  std::deque<Waiting> waiting_;
  Peer connected_;
};

}  // namespace verbatim::rdmacm
