// SPDX-License-Identifier: MIT
// Options of stream sockets.
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_stream.h"

namespace verbatim::rdmacm {
namespace {

/// An int of the program's. False: it is not as long as one.
bool take(const void* value, socklen_t bytes, int& to) {
  if (value == nullptr || bytes < sizeof to) return false;
  std::memcpy(&to, value, sizeof to);
  return true;
}

template <class T>
bool give(const T& from, void* value, socklen_t* bytes) {
  if (*bytes < sizeof from) return false;
  std::memcpy(value, &from, sizeof from);
  *bytes = sizeof from;
  return true;
}

uint32_t entries(int wanted) {
  return std::clamp<uint32_t>(static_cast<uint32_t>(wanted), kEntriesMin, kEntriesMax);
}

/// Twice what was asked for, as the kernel does.
uint32_t buffer(int wanted) {
  const int64_t doubled = 2 * static_cast<int64_t>(wanted);
  return static_cast<uint32_t>(std::clamp<int64_t>(doubled, kBufferMin, kBufferMax));
}

}  // namespace

int StreamSocket::set_socket_option(int name, const void* value, socklen_t bytes) {
  if (name == SO_LINGER) {
    if (bytes < sizeof(linger)) return fail(EINVAL);
    linger_ = static_cast<const linger*>(value)->l_onoff != 0;
    return 0;
  }
  int number;
  if (!take(value, bytes, number)) return fail(EINVAL);
  switch (name) {
    case SO_REUSEPORT:
      // Whose port is shared with whom is not distinguished; a port has one listener.
      reuse_port_ = number != 0;
      number = reuse_port_ || reuse_address_;
      return phase_ == Phase::kFresh
                 ? rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof number)
                 : 0;
    case SO_REUSEADDR:
      reuse_address_ = number != 0;
      // Bound already: it is too late to matter.
      if (phase_ == Phase::kFresh)
        return rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof number);
      return 0;
    case SO_RCVBUF:
      sizes_.receive_bytes = buffer(number);
      return 0;
    case SO_SNDBUF:
      sizes_.send_bytes = buffer(number);
      return 0;
    case SO_KEEPALIVE:
      // The connection manager sees to it: a peer that has gone disconnects.
      keep_alive_ = number != 0;
      return 0;
    case SO_OOBINLINE:
      out_of_band_inline_ = number != 0;
      return 0;
    default:
      return fail(ENOTSUP);
  }
}

int StreamSocket::set_tcp_option(int name, const void* value, socklen_t bytes) {
  if (name == TCP_CONGESTION || name == TCP_MAXSEG || name == TCP_KEEPCNT || name == TCP_KEEPINTVL) return 0;
  int number;
  if (!take(value, bytes, number)) return fail(EINVAL);
  switch (name) {
    case TCP_NODELAY:
      no_delay_ = number != 0;
      return 0;
    case TCP_KEEPIDLE:
      if (number <= 0) return fail(EINVAL);
      keep_idle_s_ = number;
      return 0;
    default:
      return fail(ENOTSUP);
  }
}

int StreamSocket::set_rdma_option(int name, const void* value, socklen_t bytes) {
  if (phase_ != Phase::kFresh && phase_ != Phase::kListening) return fail(EINVAL);
  if (name == RDMA_ROUTE) {
    const auto* route = static_cast<const uint8_t*>(value);
    route_.assign(route, route + bytes);
    return 0;
  }
  int number;
  if (!take(value, bytes, number) || number < 0) return fail(EINVAL);
  switch (name) {
    case RDMA_SQSIZE:
      sizes_.send_entries = entries(number);
      return 0;
    case RDMA_RQSIZE:
      sizes_.receive_entries = entries(number);
      return 0;
    case RDMA_INLINE:
      sizes_.inline_bytes = std::min(static_cast<uint32_t>(number), kEntriesMax);
      return 0;
    case RDMA_IOMAPSIZE:
      sizes_.mappings =
          unscale_mappings(scale_mappings(std::min(static_cast<uint32_t>(number), kMappingsMax)));
      return 0;
    default:
      return fail(ENOTSUP);
  }
}

int StreamSocket::set_option(int level, int name, const void* value, socklen_t bytes) {
  const Lock lock(lock_);
  int number;
  switch (level) {
    case SOL_SOCKET:
      return set_socket_option(name, value, bytes);
    case IPPROTO_TCP:
      return set_tcp_option(name, value, bytes);
    case SOL_RDMA:
      return set_rdma_option(name, value, bytes);
    case IPPROTO_IP: {
      if (name != IP_TOS) return fail(ENOTSUP);
      if (!take(value, bytes, number)) return fail(EINVAL);
      type_of_service_ = number;
      auto service = static_cast<uint8_t>(number);
      return rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, sizeof service);
    }
    case IPPROTO_IPV6:
      if (name != IPV6_V6ONLY) return fail(ENOTSUP);
      if (!take(value, bytes, number)) return fail(EINVAL);
      v6_only_ = number != 0;
      return rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof number);
    default:
      return fail(ENOTSUP);
  }
}

bool StreamSocket::get_socket_option(int name, void* value, socklen_t* bytes) {
  switch (name) {
    case SO_REUSEADDR:
      return give<int>(reuse_address_, value, bytes);
    case SO_REUSEPORT:
      return give<int>(reuse_port_, value, bytes);
    case SO_KEEPALIVE:
      return give<int>(keep_alive_, value, bytes);
    case SO_OOBINLINE:
      return give<int>(out_of_band_inline_, value, bytes);
    case SO_RCVBUF:
      return give<int>(static_cast<int>(sizes_.receive_bytes), value, bytes);
    case SO_SNDBUF:
      return give<int>(static_cast<int>(sizes_.send_bytes), value, bytes);
    case SO_LINGER:
      return give<linger>({linger_, 0}, value, bytes);
    case SO_TYPE:
      return give<int>(SOCK_STREAM, value, bytes);
    case SO_BROADCAST:
      return give<int>(0, value, bytes);
    case SO_ERROR: {
      const int error = error_ != 0 || conduit_ == nullptr ? error_ : conduit_->error();
      error_ = 0;
      return give<int>(error, value, bytes);
    }
    default:
      return false;
  }
}

bool StreamSocket::get_tcp_option(int name, void* value, socklen_t* bytes) {
  constexpr int kUsualSegment = 2048;
  switch (name) {
    case TCP_NODELAY:
      return give<int>(no_delay_, value, bytes);
    case TCP_KEEPIDLE:
      return give<int>(keep_idle_s_, value, bytes);
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
      return give<int>(1, value, bytes);
    case TCP_MAXSEG:
      return give<int>(id_->route.num_paths > 0 ? 128 << id_->route.path_rec->mtu : kUsualSegment, value,
                       bytes);
    case TCP_INFO: {
      tcp_info info{};
      const bool open = phase_ == Phase::kOpen && conduit_->is_connected();
      info.tcpi_state = open ? TCP_ESTABLISHED : TCP_CLOSE;
      info.tcpi_snd_cwnd = sizes_.send_entries;
      return give(info, value, bytes);
    }
    default:
      return false;
  }
}

bool StreamSocket::get_rdma_option(int name, void* value, socklen_t* bytes) {
  switch (name) {
    case RDMA_SQSIZE:
      return give<int>(static_cast<int>(sizes_.send_entries), value, bytes);
    case RDMA_RQSIZE:
      return give<int>(static_cast<int>(sizes_.receive_entries), value, bytes);
    case RDMA_INLINE:
      return give<int>(static_cast<int>(conduit_ != nullptr ? conduit_->inline_bytes() : sizes_.inline_bytes),
                       value, bytes);
    case RDMA_IOMAPSIZE:
      return give<int>(static_cast<int>(sizes_.mappings), value, bytes);
    case RDMA_ROUTE:
      if (*bytes < route_.size()) return false;
      std::copy(route_.begin(), route_.end(), static_cast<uint8_t*>(value));
      *bytes = static_cast<socklen_t>(route_.size());
      return true;
    default:
      return false;
  }
}

int StreamSocket::get_option(int level, int name, void* value, socklen_t* bytes) {
  const Lock lock(lock_);
  if (value == nullptr || bytes == nullptr) return fail(EFAULT);
  bool given = false;
  switch (level) {
    case SOL_SOCKET:
      given = get_socket_option(name, value, bytes);
      break;
    case IPPROTO_TCP:
      given = get_tcp_option(name, value, bytes);
      break;
    case SOL_RDMA:
      given = get_rdma_option(name, value, bytes);
      break;
    case IPPROTO_IP:
      given = name == IP_TOS && give(type_of_service_, value, bytes);
      break;
    case IPPROTO_IPV6:
      given = name == IPV6_V6ONLY && give<int>(v6_only_, value, bytes);
      break;
    default:
      break;
  }
  return given ? 0 : fail(ENOTSUP);
}

}  // namespace verbatim::rdmacm
