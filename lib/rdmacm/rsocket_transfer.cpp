// SPDX-License-Identifier: MIT
// Stream sockets: waiting, sending, receiving.
#include <poll.h>

#include <algorithm>

#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_stream.h"

namespace verbatim::rdmacm {
namespace {

constexpr size_t kFirstPiece = 2048, kLargestPiece = 65536;

}  // namespace

bool StreamSocket::spin_until(Lock& lock, const std::function<bool()>& test) {
  return spin_.until([&] {
    lock.unlock();
    lock.lock();
    conduit_->drain();
    return test();
  });
}

int StreamSocket::wait_until(Lock& lock, bool nonblocking, const std::function<bool()>& test) {
  conduit_->drain();
  if (test()) return 0;
  if (nonblocking) return fail(EWOULDBLOCK);
  if (spin_until(lock, test)) return 0;
  const Watch watch(watchers);
  for (;;) {
    if (conduit_->arm()) watchers.tell();
    conduit_->drain();
    if (test()) return 0;
    lock.unlock();
    pollfd waits[3] = {
        {conduit_->events()->fd, POLLIN, 0}, {id_->channel->fd, POLLIN, 0}, {watch.bell(), POLLIN, 0}};
    const int woken = ::poll(waits, 3, -1);
    const int error = errno;
    lock.lock();
    if (woken > 0 && waits[2].revents != 0) silence(watch.bell());
    take_news(woken > 0 && waits[0].revents != 0, woken > 0 && waits[1].revents != 0);
    if (test()) return 0;
    if (woken < 0) return fail(error);
  }
}

void StreamSocket::take_news(bool completions, bool of_manager) {
  const uint64_t edges = conduit_->edges();
  if (completions) conduit_->take_events();
  if (of_manager) take_manager_event();
  conduit_->drain();
  if (completions || of_manager || conduit_->edges() != edges) watchers.tell();
}

void StreamSocket::take_manager_event() {
  set_waiting(false);
  Id& id = *Id::of(id_);
  if (complete(id) != 0 && id.base.event == nullptr) return;
  if (id.base.event->event == RDMA_CM_EVENT_DISCONNECTED && conduit_ != nullptr) conduit_->disconnect();
}

int StreamSocket::need_open() {
  if (is_opening() && advance(!is_nonblocking(0)) != 0) return errno == EINPROGRESS ? fail(EAGAIN) : -1;
  return phase_ == Phase::kOpen ? 0 : fail(ENOTCONN);
}

ssize_t StreamSocket::receive(const iovec* pieces, int count, int flags, sockaddr* from, socklen_t* bytes) {
  Lock lock(lock_);
  if (need_open() != 0) return -1;
  const size_t wanted = Gather::bytes_of(pieces, count);
  Gather to(pieces, count);
  const bool peek = (flags & MSG_PEEK) != 0;
  size_t done = 0;
  Conduit& conduit = *conduit_;
  const auto news = [&] { return conduit.has_data() || !conduit.is_readable(); };
  do {
    if (!conduit.has_data() && wait_until(lock, is_nonblocking(flags), news) != 0) {
      if (done == 0) return -1;
      break;
    }
    if (!conduit.has_data() && conduit.error() != 0 && done == 0) return fail(conduit.error());
    done += conduit.receive(to, wanted - done, peek);
  } while (!peek && done < wanted && (flags & MSG_WAITALL) != 0 && conduit.is_readable());
  conduit.drain();
  if (from != nullptr && done > 0) peer_name(from, bytes);
  return static_cast<ssize_t>(done);
}

int StreamSocket::wait_to_send(Lock& lock, int flags) {
  Conduit& conduit = *conduit_;
  const auto possible = [&] { return !conduit.is_writable() || conduit.can_send(); };
  if (!possible() && wait_until(lock, is_nonblocking(flags), possible) != 0) return -1;
  return conduit.is_writable() ? 0 : fail(ECONNRESET);
}

int StreamSocket::tell_of_mappings(Lock& lock, int flags) {
  while (conduit_->has_news_of_mappings()) {
    if (wait_to_send(lock, flags) != 0) return -1;
    if (conduit_->has_news_of_mappings() && conduit_->tell_of_mapping() != 0) return -1;
  }
  return 0;
}

ssize_t StreamSocket::send_all(Lock& lock, size_t bytes, int flags,
                               const std::function<ssize_t(size_t most)>& send_some) {
  if (need_open() != 0 || tell_of_mappings(lock, flags) != 0) return -1;
  size_t done = 0, piece = kFirstPiece;
  while (done < bytes) {
    const bool possible = wait_to_send(lock, flags) == 0;
    const ssize_t sent = possible ? send_some(std::min(piece, bytes - done)) : -1;
    if (sent < 0 && done == 0) return -1;
    if (sent <= 0) break;
    done += static_cast<size_t>(sent);
    piece = std::min(2 * piece, kLargestPiece);
  }
  return static_cast<ssize_t>(done);
}

ssize_t StreamSocket::send(const iovec* pieces, int count, int flags, const sockaddr* to, socklen_t bytes) {
  if (to != nullptr || bytes != 0) return fail(EISCONN);
  Lock lock(lock_);
  Gather from(pieces, count);
  return send_all(lock, Gather::bytes_of(pieces, count), flags,
                  [&](size_t most) { return conduit_->send(from, most); });
}

ssize_t StreamSocket::write_to_mapping(const void* start, size_t bytes, off_t offset, int flags) {
  Lock lock(lock_);
  const iovec piece{const_cast<void*>(start), bytes};
  Gather from(&piece, 1);
  auto at = static_cast<uint64_t>(offset);
  return send_all(lock, bytes, flags, [&](size_t most) {
    const ssize_t sent = conduit_->send_to_mapping(from, most, at);
    if (sent > 0) at += static_cast<uint64_t>(sent);
    return sent;
  });
}

off_t StreamSocket::map(void* start, size_t bytes, int prot, off_t offset) {
  const Lock lock(lock_);
  if (conduit_ == nullptr || (prot & ~(PROT_WRITE | PROT_NONE)) != 0) return fail(EINVAL);
  return conduit_->map(start, bytes, prot, offset);
}

int StreamSocket::unmap(void* start, size_t bytes) {
  const Lock lock(lock_);
  return conduit_ == nullptr ? fail(EINVAL) : conduit_->unmap(start, bytes);
}

short StreamSocket::ready(short events) {
  Lock lock(lock_);
  if (phase_ == Phase::kListening) {
    pollfd requests{id_->channel->fd, static_cast<short>(events & POLLIN), 0};
    return ::poll(&requests, 1, 0) > 0 ? requests.revents : static_cast<short>(0);
  }
  if (is_opening()) advance(false);
  if (phase_ == Phase::kFailed) return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLERR);
  if (phase_ != Phase::kOpen) return phase_ == Phase::kFresh ? POLLOUT | POLLHUP : 0;
  Conduit& conduit = *conduit_;
  conduit.drain();
  int found = 0;
  if ((events & POLLIN) != 0 && (conduit.has_data() || !conduit.is_readable())) found |= POLLIN;
  if ((events & POLLOUT) != 0 && conduit.can_send()) found |= POLLOUT;
  // The end is told of after what came before it.
  if (!conduit.is_connected() && !conduit.has_data()) found |= conduit.error() != 0 ? POLLERR : POLLHUP;
  return static_cast<short>(found);
}

uint64_t StreamSocket::edges() {
  const Lock lock(lock_);
  // Requests and the steps of a connection are always news.
  static std::atomic<uint64_t> always{UINT64_MAX / 2};
  return phase_ == Phase::kOpen ? conduit_->edges() : always.fetch_add(1);
}

Socket::Waits StreamSocket::prepare_to_wait() {
  const Lock lock(lock_);
  if (phase_ != Phase::kOpen) return {{id_->channel->fd, -1}};
  if (conduit_->arm()) watchers.tell();
  return {{conduit_->events()->fd, id_->channel->fd}};
}

void StreamSocket::woken() {
  const Lock lock(lock_);
  if (phase_ != Phase::kOpen) return;
  pollfd waits[2] = {{conduit_->events()->fd, POLLIN, 0}, {id_->channel->fd, POLLIN, 0}};
  const bool any = ::poll(waits, 2, 0) > 0;
  take_news(any && waits[0].revents != 0, any && waits[1].revents != 0);
}

}  // namespace verbatim::rdmacm
