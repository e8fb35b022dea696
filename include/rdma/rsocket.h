// SPDX-License-Identifier: MIT
/**
 * @file rsocket.h
 * Sockets over RDMA: each function does what the one without the leading r does, on descriptors of rsocket().
 *
 * Results, errno values and flags are those of the socket call of the same name, in their blocking and non-blocking
 * forms. An rsocket descriptor is not a kernel socket: read(2), poll(2) and the like do not work on it.
 * Thread safe per direction: one thread may send while another receives. Manual page: rsocket(7).
 */
#ifndef RDMA_RSOCKET_H
#define RDMA_RSOCKET_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Opens an rsocket. @param domain AF_INET, AF_INET6 or AF_IB @param type SOCK_STREAM (RC) or SOCK_DGRAM (UD) */
int rsocket(int domain, int type, int protocol);
/** Sets the local address. */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);
/** Takes connections at the bound address. */
int rlisten(int socket, int backlog);
/** Takes the next connection; waits for it unless the socket is non-blocking. */
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);
/** Connects to a peer, or sets a datagram socket's peer. */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);
/** Ends one direction or both. @param how SHUT_RD, SHUT_WR or SHUT_RDWR */
int rshutdown(int socket, int how);
/** Ends the connection in an orderly way and frees the descriptor. */
int rclose(int socket);

/** Receives into one buffer. @param flags 0, MSG_DONTWAIT, MSG_WAITALL or MSG_PEEK */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);
/** Receives and tells where from. */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen);
/** Receives into several buffers. Ancillary data is not supported (ENOTSUP). */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);
/** Sends one buffer. */
ssize_t rsend(int socket, const void *buf, size_t len, int flags);
/** Sends one datagram to an address. */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr,
                socklen_t addrlen);
/** Sends several buffers. Ancillary data is not supported (ENOTSUP). */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);
/** rrecv without flags. */
ssize_t rread(int socket, void *buf, size_t count);
/** Receives into an array of buffers. */
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);
/** rsend without flags. */
ssize_t rwrite(int socket, const void *buf, size_t count);
/** Sends an array of buffers. */
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/** Waits for readiness; `fds` may mix rsockets with other descriptors. @param timeout ms, negative: without end */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);
/** Waits for readiness of rsockets and other descriptors below `nfds`. */
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout);

/** The peer's address. */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);
/** The local address. */
int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);

/** Option level of the options below. */
#define SOL_RDMA 0x10000
/** Options at SOL_RDMA; all but the last must be set before the connection is made. */
enum {
    RDMA_SQSIZE,    /**< int: entries of the send queue */
    RDMA_RQSIZE,    /**< int: entries of the receive queue */
    RDMA_INLINE,    /**< int: bytes sent inline at most */
    RDMA_IOMAPSIZE, /**< int: number of mappings that the peer may write to */
    RDMA_ROUTE      /**< struct ibv_path_data[]: paths to the peer */
};

/** Sets an option at SOL_SOCKET, IPPROTO_TCP, IPPROTO_IPV6 or SOL_RDMA. */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);
/** Reads an option. */
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);
/** F_GETFL and F_SETFL with O_NONBLOCK. */
int rfcntl(int socket, int cmd, ...);

/**
 * Lets the peer write to `buf` with riowrite.
 * @param prot PROT_WRITE
 * @param flags 0
 * @param offset the mapping's name at the peer; -1 lets the library choose
 * @return the offset, or -1 with errno set
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);
/** Takes a mapping back. */
int riounmap(int socket, void *buf, size_t len);
/** Writes to a mapping of the peer without its help. Returns bytes written, or (size_t)-1 with errno set. */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

/** Makes an epoll set that may hold rsockets. @param flags 0 or EPOLL_CLOEXEC */
int repoll_create(int flags);
/** Adds (EPOLL_CTL_ADD), changes or removes a descriptor of a set. */
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
/** Waits for events of a set. @param timeout ms, negative: without end */
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#ifdef __cplusplus
}
#endif

#endif
