// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>

#include "lib/rdmacm/public.h"
#include "lib/rdmacm/rsocket_watchers.h"

namespace verbatim::rdmacm {

/// A socket over RDMA. Calls are those of the interface; results are -1 with errno set where they fail.
class Socket {
 public:
  virtual ~Socket() = default;

  /// Names it to the program: a descriptor of the process that nothing else has.
  virtual int descriptor() const = 0;
  virtual int bind(const sockaddr* address, socklen_t bytes) = 0;
  virtual int listen(int backlog) = 0;
  /// Null where there is none.
  virtual std::shared_ptr<Socket> accept() = 0;
  virtual int connect(const sockaddr* address, socklen_t bytes) = 0;
  virtual int shutdown(int how) = 0;
  /// Before the last reference goes.
  virtual void close() = 0;

  virtual ssize_t receive(const iovec* pieces, int count, int flags, sockaddr* from, socklen_t* bytes) = 0;
  virtual ssize_t send(const iovec* pieces, int count, int flags, const sockaddr* to, socklen_t bytes) = 0;

  virtual int own_name(sockaddr* address, socklen_t* bytes) = 0;
  virtual int peer_name(sockaddr* address, socklen_t* bytes) = 0;
  virtual int set_option(int level, int name, const void* value, socklen_t bytes) = 0;
  virtual int get_option(int level, int name, void* value, socklen_t* bytes) = 0;

  /// POLLIN and the like, of what is asked for and what is always told. Takes in what has arrived; never
  /// waits.
  virtual short ready(short events) = 0;
  /// Changes whenever something new arrived or there is new room; up to date after ready().
  virtual uint64_t edges() = 0;
  /// What to wait on until ready() may say something else; ready() once more before waiting.
  struct Waits {
    int descriptors[2];  ///< negative: none
  };
  virtual Waits prepare_to_wait() = 0;
  /// Some of these have become readable.
  virtual void woken() = 0;

  virtual off_t map(void* start, size_t bytes, int prot, off_t offset) = 0;
  virtual int unmap(void* start, size_t bytes) = 0;
  virtual ssize_t write_to_mapping(const void* from, size_t bytes, off_t offset, int flags) = 0;

  bool is_nonblocking(int flags) const {
    return (status_flags & O_NONBLOCK) != 0 || (flags & MSG_DONTWAIT) != 0;
  }

  Watchers watchers;                     ///< told when something was taken that may have been waited for
  std::atomic<int> status_flags{0};      ///< O_NONBLOCK, as of F_SETFL
  std::atomic<int> descriptor_flags{0};  ///< FD_CLOEXEC, as of F_SETFD
};

/// Makes sockets; null with errno set.
std::shared_ptr<Socket> make_stream_socket(int domain);
std::shared_ptr<Socket> make_datagram_socket(int domain);

/// Sockets by descriptor. Thread safe.
std::shared_ptr<Socket> find_socket(int descriptor);
void add_socket(std::shared_ptr<Socket> socket);
std::shared_ptr<Socket> remove_socket(int descriptor);

/// Copies an address out as getsockname() does.
void copy_name(const sockaddr* from, sockaddr* to, socklen_t* bytes);

}  // namespace verbatim::rdmacm
