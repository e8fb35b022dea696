// SPDX-License-Identifier: MIT
// Stream sockets: how connections begin and end.
#include "lib/rdmacm/rsocket_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/sockaddr.h"
#include "lib/rdmacm/transitions.h"

namespace verbatim::rdmacm {
namespace {

constexpr int kTries = 7;
constexpr int kFirstTimeoutMs = 1000;  // doubled with each try

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

void set_flag(int descriptor, int flag, bool on) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  ::fcntl(descriptor, F_SETFL, on ? flags | flag : flags & ~flag);
}

bool greeting_of(const rdma_cm_event& event, StreamGreeting& greeting) {
  const rdma_conn_param& from = event.param.conn;
  if (from.private_data == nullptr || from.private_data_len < sizeof greeting) return false;
  std::memcpy(&greeting, from.private_data, sizeof greeting);
  return greeting.version == StreamGreeting::kVersion;
}

}  // namespace

StreamSocket::StreamSocket(rdma_cm_id* id, int domain) : id_(id) {
  id_->context = this;
  if (id_->route.addr.src_addr.sa_family == 0)
    id_->route.addr.src_addr.sa_family = static_cast<sa_family_t>(domain);
}

StreamSocket::~StreamSocket() {
  conduit_.reset();
  rdma_destroy_id(id_);
}

void StreamSocket::set_waiting(bool waits) { set_flag(id_->channel->fd, O_NONBLOCK, !waits); }

int StreamSocket::bind(const sockaddr* address, socklen_t bytes) {
  if (bytes < length_of(address)) return fail(EINVAL);
  return rdma_bind_addr(id_, const_cast<sockaddr*>(address));
}

int StreamSocket::listen(int backlog) {
  const Lock lock(lock_);
  if (phase_ == Phase::kListening) return 0;
  if (phase_ != Phase::kFresh) return fail(EINVAL);
  if (rdma_listen(id_, backlog) != 0) return -1;
  phase_ = Phase::kListening;
  return 0;
}

std::shared_ptr<Socket> StreamSocket::accept() {
  if (phase_ != Phase::kListening) return fail_pointer(EINVAL);
  set_waiting(!is_nonblocking(0));
  rdma_cm_id* child = nullptr;
  if (rdma_get_request(id_, &child) != 0) return nullptr;
  StreamGreeting greeting{};
  const bool understood = greeting_of(*child->event, greeting);
  auto socket = std::make_shared<StreamSocket>(child, id_->route.addr.src_addr.sa_family);
  socket->sizes_ = sizes_;
  socket->status_flags = status_flags.load();
  socket->descriptor_flags = descriptor_flags.load();
  if (understood && socket->accept_from(greeting) == 0) return socket;
  // EINVAL: who asked has gone meanwhile.
  const int error = !understood ? ENOTSUP : errno == EINVAL ? ECONNABORTED : errno;
  rdma_reject(child, nullptr, 0);
  return fail_pointer(error);
}

int StreamSocket::accept_from(const StreamGreeting& greeting) {
  conduit_ = Conduit::make(*id_, sizes_);
  if (conduit_ == nullptr) return -1;
  if (!conduit_->take(greeting)) return fail(ENOTSUP);
  rdma_conn_param answer = id_->event->param.conn;
  const StreamGreeting own = conduit_->greeting();
  answer.private_data = &own;
  answer.private_data_len = sizeof own;
  set_waiting(!is_nonblocking(0));
  phase_ = Phase::kAccepting;
  const int accepted = rdma_accept(id_, &answer);
  // An acceptance that goes on is one.
  if (accepted != 0) return would_block() ? 0 : -1;
  phase_ = Phase::kOpen;
  conduit_->open();
  return 0;
}

int StreamSocket::connect(const sockaddr* address, socklen_t bytes) {
  const Lock lock(lock_);
  if (phase_ == Phase::kFresh) {
    if (length_of(address) == 0 || bytes < length_of(address)) return fail(EINVAL);
    std::memcpy(&id_->route.addr.dst_storage, address, length_of(address));
  } else if (phase_ == Phase::kOpen) {
    return fail(EISCONN);
  } else if (!is_opening()) {
    return fail(EINVAL);
  }
  return advance(!is_nonblocking(0));
}

int StreamSocket::advance(bool waits) {
  if (phase_ == Phase::kFailed) return fail(ENOTCONN);
  set_waiting(waits);
  while (phase_ != Phase::kOpen) {
    if (step() == 0) continue;
    if (would_block()) return fail(EINPROGRESS);
    if (errno == EINTR) return -1;
    phase_ = Phase::kFailed;
    error_ = errno;
    return -1;
  }
  conduit_->open();
  return 0;
}

int StreamSocket::step() {
  switch (phase_) {
    case Phase::kFresh:
      return resolve_address();
    case Phase::kResolvingAddress:
      if (complete(*Id::of(id_)) != 0)
        return errno == ETIMEDOUT && retries_ < kTries ? resolve_address() : -1;
      retries_ = 0;
      return resolve_route();
    case Phase::kResolvingRoute:
      if (complete(*Id::of(id_)) != 0) return errno == ETIMEDOUT && retries_ < kTries ? resolve_route() : -1;
      retries_ = 0;
      return ask_for_connection();
    case Phase::kConnecting:
      return complete(*Id::of(id_)) == 0 ? take_answer() : -1;
    case Phase::kAccepting:
      if (complete(*Id::of(id_)) != 0) return -1;
      phase_ = Phase::kOpen;
      return 0;
    case Phase::kListening:
    case Phase::kOpen:
    case Phase::kFailed:
      break;
  }
  return fail(EINVAL);
}

// Each of these begins something whose end the next step waits for; a channel that waits has it at once.
int StreamSocket::resolve_address() {
  phase_ = Phase::kResolvingAddress;
  const int timeout_ms = kFirstTimeoutMs << retries_++;
  // The address is the id's own, which the call writes to.
  sockaddr_storage peer = id_->route.addr.dst_storage;
  if (rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&peer), timeout_ms) != 0) return -1;
  retries_ = 0;
  return resolve_route();
}

int StreamSocket::resolve_route() {
  phase_ = Phase::kResolvingRoute;
  const int timeout_ms = kFirstTimeoutMs << retries_++;
  if (!route_.empty()) {
    if (rdma_set_option(id_, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, route_.data(), route_.size()) != 0)
      return -1;
    if (complete(*Id::of(id_)) != 0) return -1;
  } else if (rdma_resolve_route(id_, timeout_ms) != 0) {
    return -1;
  }
  retries_ = 0;
  return ask_for_connection();
}

int StreamSocket::ask_for_connection() {
  if (conduit_ == nullptr) conduit_ = Conduit::make(*id_, sizes_);
  if (conduit_ == nullptr) return -1;
  const StreamGreeting own = conduit_->greeting();
  rdma_conn_param request{};
  request.private_data = &own;
  request.private_data_len = sizeof own;
  request.flow_control = 1;
  request.retry_count = request.rnr_retry_count = 7;
  phase_ = Phase::kConnecting;
  return rdma_connect(id_, &request) == 0 ? take_answer() : -1;
}

int StreamSocket::take_answer() {
  StreamGreeting greeting{};
  if (!greeting_of(*id_->event, greeting) || !conduit_->take(greeting)) return fail(ENOTSUP);
  phase_ = Phase::kOpen;
  return 0;
}

int StreamSocket::shutdown(int how) {
  Lock lock(lock_);
  if (phase_ != Phase::kOpen) return fail(ENOTCONN);
  Conduit& conduit = *conduit_;
  if (conduit.is_connected()) {
    const bool both = how == SHUT_RDWR;
    if (both || how == SHUT_RD) conduit.stop_reading();
    if (both || how == SHUT_WR) conduit.stop_writing();
    // A direction that is not read any more is the peer's business only when the other one ends, too.
    if (conduit.is_writable()) return 0;
    const StreamControl message =
        conduit.is_readable() ? StreamControl::kShutdown : StreamControl::kDisconnect;
    if (wait_until(lock, false, [&] { return conduit.can_control() || !conduit.is_connected(); }) != 0)
      return -1;
    if (conduit.is_connected()) conduit.control(message);
    wait_until(lock, false, [&] { return conduit.all_sent() || !conduit.is_connected(); });
  }
  if (!conduit.is_connected()) move_to_error(*Id::of(id_));
  watchers.tell();
  return 0;
}

void StreamSocket::close() {
  if (phase_ == Phase::kOpen && conduit_->is_connected()) shutdown(SHUT_RDWR);
}

int StreamSocket::own_name(sockaddr* address, socklen_t* bytes) {
  copy_name(rdma_get_local_addr(id_), address, bytes);
  return 0;
}

int StreamSocket::peer_name(sockaddr* address, socklen_t* bytes) {
  if (phase_ == Phase::kFresh || phase_ == Phase::kListening) return fail(ENOTCONN);
  copy_name(rdma_get_peer_addr(id_), address, bytes);
  return 0;
}

std::shared_ptr<Socket> make_stream_socket(int domain) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return nullptr;
  return std::make_shared<StreamSocket>(id, domain);
}

}  // namespace verbatim::rdmacm
