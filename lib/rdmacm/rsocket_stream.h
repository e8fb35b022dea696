// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "lib/rdmacm/rsocket_conduit.h"
#include "lib/rdmacm/rsocket_defaults.h"
#include "lib/rdmacm/rsocket_socket.h"
#include "lib/rdmacm/rsocket_spin.h"

namespace verbatim::rdmacm {

/// A stream socket: an id without channel of the program's, and its conduit once there is a peer.
class StreamSocket final : public Socket {
 public:
  explicit StreamSocket(rdma_cm_id* id, int domain);
  ~StreamSocket() override;

  int descriptor() const override { return id_->channel->fd; }
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
  uint64_t edges() override;
  Waits prepare_to_wait() override;
  void woken() override;

  off_t map(void* start, size_t bytes, int prot, off_t offset) override;
  int unmap(void* start, size_t bytes) override;
  ssize_t write_to_mapping(const void* from, size_t bytes, off_t offset, int flags) override;

 private:
  enum class Phase : uint8_t {
    kFresh,
    kListening,
    kResolvingAddress,
    kResolvingRoute,
    kConnecting,
    kAccepting,
    kOpen,  ///< has been connected: the conduit says more
    kFailed,
  };
  using Lock = std::unique_lock<std::mutex>;

  bool is_opening() const { return phase_ >= Phase::kResolvingAddress && phase_ <= Phase::kAccepting; }
  /// Goes on with a connection, as far as that goes now unless it waits: 0 it stands, or -1.
  int advance(bool waits);
  /// One step: 0 and the next phase, or -1.
  int step();
  int resolve_address();
  int resolve_route();
  int ask_for_connection();
  int take_answer();
  int take_request();
  int accept_from(const StreamGreeting& greeting);
  /// The id's channel waits, as its calls do.
  void set_waiting(bool waits);

  /// Waits until the test is true: 0; or -1. The lock is let go meanwhile.
  int wait_until(Lock& lock, bool nonblocking, const std::function<bool()>& test);
  bool spin_until(Lock& lock, const std::function<bool()>& test);
  void take_manager_event();
  /// Something has called for this thread: takes in what it was.
  void take_news(bool completions, bool of_manager);
  /// Opens what is still opening, for a call that needs it open; the lock is held. 0, or -1.
  int need_open();

  int wait_to_send(Lock& lock, int flags);
  int tell_of_mappings(Lock& lock, int flags);
  /// Sends piece after piece, of growing sizes, so that the first is on its way while the next is copied.
  ssize_t send_all(Lock& lock, size_t bytes, int flags, const std::function<ssize_t(size_t most)>& send_some);

  int set_socket_option(int name, const void* value, socklen_t bytes);
  int set_tcp_option(int name, const void* value, socklen_t bytes);
  int set_rdma_option(int name, const void* value, socklen_t bytes);
  bool get_socket_option(int name, void* value, socklen_t* bytes);
  bool get_tcp_option(int name, void* value, socklen_t* bytes);
  bool get_rdma_option(int name, void* value, socklen_t* bytes);

  rdma_cm_id* const id_;
  std::mutex lock_;
  Spin spin_;
  Phase phase_ = Phase::kFresh;
  int retries_ = 0;
  int error_ = 0;  ///< of the connection, for SO_ERROR
  StreamSizes sizes_ = socket_defaults().sizes;
  std::unique_ptr<Conduit> conduit_;
  std::vector<uint8_t> route_;  ///< of RDMA_ROUTE
  bool reuse_address_ = false, reuse_port_ = false, out_of_band_inline_ = false, linger_ = true,
       keep_alive_ = false;
  bool no_delay_ = false, v6_only_ = false;
  int type_of_service_ = 0, keep_idle_s_ = 7200;
};

}  // namespace verbatim::rdmacm
