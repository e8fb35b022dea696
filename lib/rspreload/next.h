// SPDX-License-Identifier: MIT
#pragma once

// What the replaced calls go on to.

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace verbatim::rspreload {

struct Next {
  int (*socket)(int, int, int);
  int (*bind)(int, const sockaddr*, socklen_t);
  int (*listen)(int, int);
  int (*accept4)(int, sockaddr*, socklen_t*, int);
  int (*connect)(int, const sockaddr*, socklen_t);
  int (*shutdown)(int, int);
  int (*close)(int);
  ssize_t (*recv)(int, void*, size_t, int);
  ssize_t (*recvfrom)(int, void*, size_t, int, sockaddr*, socklen_t*);
  ssize_t (*recvmsg)(int, msghdr*, int);
  ssize_t (*read)(int, void*, size_t);
  ssize_t (*readv)(int, const iovec*, int);
  ssize_t (*recv_chk)(int, void*, size_t, size_t, int);
  ssize_t (*recvfrom_chk)(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
  ssize_t (*read_chk)(int, void*, size_t, size_t);
  ssize_t (*send)(int, const void*, size_t, int);
  ssize_t (*sendto)(int, const void*, size_t, int, const sockaddr*, socklen_t);
  ssize_t (*sendmsg)(int, const msghdr*, int);
  ssize_t (*write)(int, const void*, size_t);
  ssize_t (*writev)(int, const iovec*, int);
  ssize_t (*sendfile)(int, int, off_t*, size_t);
  int (*poll)(pollfd*, nfds_t, int);
  int (*poll_chk)(pollfd*, nfds_t, int, size_t);
  int (*ppoll)(pollfd*, nfds_t, const timespec*, const sigset_t*);
  int (*ppoll_chk)(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
  int (*select)(int, fd_set*, fd_set*, fd_set*, timeval*);
  int (*pselect)(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*);
  int (*epoll_create1)(int);
  int (*epoll_ctl)(int, int, int, epoll_event*);
  int (*epoll_wait)(int, epoll_event*, int, int);
  int (*epoll_pwait)(int, epoll_event*, int, int, const sigset_t*);
  int (*getpeername)(int, sockaddr*, socklen_t*);
  int (*getsockname)(int, sockaddr*, socklen_t*);
  int (*getsockopt)(int, int, int, void*, socklen_t*);
  int (*setsockopt)(int, int, int, const void*, socklen_t);
  int (*fcntl)(int, int, ...);
  int (*ioctl)(int, unsigned long, ...);
  int (*fstat)(int, struct stat*);
  int (*fstat64)(int, struct stat64*);
  int (*dup)(int);
  int (*dup2)(int, int);
};

/// Looked up on first use: other libraries' constructors call before this one's.
const Next& next();

}  // namespace verbatim::rspreload
