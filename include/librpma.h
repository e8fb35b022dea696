// SPDX-License-Identifier: MIT
/**
 * @file librpma.h
 * Remote persistent memory access: connections, memory and one-sided operations in few calls.
 *
 * A peer stands for a device; an endpoint listens; a connection request becomes a connection; operations are posted
 * on connections and complete on their completion queues. Objects are opaque. docs/librpma.md has an overview.
 *
 * Results. Functions return 0 or a negative RPMA_E_* value, and what they write through pointers stays as it was on a
 * failure, unless a comment says otherwise. Not said each time: RPMA_E_INVAL for null arguments, RPMA_E_NOMEM where
 * something is made, RPMA_E_PROVIDER with errno where a call to libibverbs or librdmacm fails. The log names the
 * cause. Functions that end an object take a pointer to its pointer and set that to null; a pointer to null is no
 * error.
 *
 * Threads. Each function may be called by several threads at a time, for one object, too, as far as the object is not
 * being ended meanwhile; a connection request and the events of an endpoint belong to one thread at a time. Nothing
 * here is safe in signal handlers.
 *
 * Descriptors that a program polls (rpma_ep_get_fd, rpma_conn_get_event_fd, rpma_cq_get_fd, rpma_conn_get_compl_fd)
 * belong to their objects. Calls that wait return at once where a program has set O_NONBLOCK on them.
 *
 * Manual pages: librpma(7), and one per function.
 */
#ifndef LIBRPMA_H
#define LIBRPMA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Errors @{ */
#define RPMA_E_UNKNOWN (-100000)         /**< no cause is known */
#define RPMA_E_NOSUPP (-100001)          /**< not supported */
#define RPMA_E_PROVIDER (-100002)        /**< a verbs or connection manager call failed; errno holds its reason */
#define RPMA_E_NOMEM (-100003)           /**< out of memory */
#define RPMA_E_INVAL (-100004)           /**< an argument has no meaning */
#define RPMA_E_NO_COMPLETION (-100005)   /**< no completion waits */
#define RPMA_E_NO_EVENT (-100006)        /**< no event waits */
#define RPMA_E_AGAIN (-100007)           /**< try again */
#define RPMA_E_SHARED_CHANNEL (-100008)  /**< the queue's completion channel is shared: use rpma_conn_wait */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /**< the completion channel is not shared: use rpma_cq_wait */
/** @} */

/** Time that making a connection may take, unless rpma_conn_cfg_set_timeout says otherwise. */
#define RPMA_DEFAULT_TIMEOUT_MS 1000

/** @name What registered memory is for, to be combined @{ */
#define RPMA_MR_USAGE_READ_SRC (1 << 0)              /**< the other side reads it */
#define RPMA_MR_USAGE_READ_DST (1 << 1)              /**< reads bring bytes into it */
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)             /**< writes take bytes from it */
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)             /**< the other side writes to it */
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4) /**< the other side flushes it to where programs see it */
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5) /**< the other side flushes it into persistence */
#define RPMA_MR_USAGE_SEND (1 << 6)                  /**< messages are sent from it */
#define RPMA_MR_USAGE_RECV (1 << 7)                  /**< messages are received into it */
/** @} */

/** @name Flags of operations @{ */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)                               /**< complete only if it fails */
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR) /**< complete in any case */
/** @} */

/** The target of rpma_atomic_write must be a multiple of this, as is its size in bytes. */
#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

/** Flag of rpma_conn_wait: wait for a completion of either queue. */
#define RPMA_W_WAIT_FOR_COMPLETION (1)

/** A device and a protection domain on it. */
struct rpma_peer;
/** What a peer is able to do, to be told to the other side. */
struct rpma_peer_cfg;
/** Parameters of a connection. */
struct rpma_conn_cfg;
/** A listening address. */
struct rpma_ep;
/** A connection in the making, on either side. */
struct rpma_conn_req;
/** A connection. */
struct rpma_conn;
/** A completion queue of a connection or shared receive queue. */
struct rpma_cq;
/** A shared receive queue. */
struct rpma_srq;
/** Parameters of a shared receive queue. */
struct rpma_srq_cfg;
/** Registered local memory. */
struct rpma_mr_local;
/** Memory of the other side, known by its descriptor. */
struct rpma_mr_remote;

/** Private data of a connection request or answer. */
struct rpma_conn_private_data {
    void *ptr;
    uint8_t len; /**< bytes */
};

/** Which side an address given to rpma_utils_get_ibv_context is on. */
enum rpma_util_ibv_context_type {
    RPMA_UTIL_IBV_CONTEXT_LOCAL, /**< the device that has this address */
    RPMA_UTIL_IBV_CONTEXT_REMOTE /**< the device that leads to this address */
};

/** What has happened to a connection. */
enum rpma_conn_event {
    RPMA_CONN_UNDEFINED = -1, /**< nothing known */
    RPMA_CONN_ESTABLISHED,    /**< both sides may post */
    RPMA_CONN_CLOSED,         /**< ended in an orderly way */
    RPMA_CONN_LOST,           /**< ended by a failure */
    RPMA_CONN_REJECTED,       /**< the other side said no */
    RPMA_CONN_UNREACHABLE     /**< the other side did not answer */
};

/** How far rpma_flush pushes the data. */
enum rpma_flush_type {
    RPMA_FLUSH_TYPE_PERSISTENT, /**< into persistence */
    RPMA_FLUSH_TYPE_VISIBILITY  /**< to where the other side's programs see it */
};

/** @name Utilities @{ */

/**
 * Opens the device that belongs to an address, for the port space of connections (RDMA_PS_TCP). It stays open while
 * the process lives. rpma_utils_get_ibv_context(3)
 * @param addr IPv4 or IPv6 address, or host name
 * @return also RPMA_E_INVAL: no such type; RPMA_E_PROVIDER: the address is not known, or of no device
 */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
                               struct ibv_context **ibv_ctx_ptr);

/**
 * Tells whether a device does reads and writes of reliable connections on memory for on-demand paging.
 * rpma_utils_ibv_context_is_odp_capable(3)
 * @param is_odp_capable set to 0 or 1
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/** What an event means; a fixed text for values without meaning. rpma_utils_conn_event_2str(3) */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/** What an error means; a fixed text for values without meaning. rpma_err_2str(3) */
const char *rpma_err_2str(int ret);

/** @} */
/** @name What a peer can do @{ */

/** Makes a description with everything off. rpma_peer_cfg_new(3) */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
/** Ends a description; connections that it was applied to go on. rpma_peer_cfg_delete(3) */
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);
/**
 * Says whether writes go to persistent memory directly, so that they can be flushed into persistence.
 * rpma_peer_cfg_set_direct_write_to_pmem(3)
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
/** Reads what was said; false before. rpma_peer_cfg_get_direct_write_to_pmem(3) */
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);
/**
 * Writes the description as bytes for the other side. rpma_peer_cfg_get_descriptor(3)
 * @param desc room for rpma_peer_cfg_get_descriptor_size bytes
 */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
/** The size of that form in bytes: 1. rpma_peer_cfg_get_descriptor_size(3) */
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);
/**
 * Makes a description of the bytes that the other side wrote. Whoever can change them on their way decides whether
 * flushes are believed. rpma_peer_cfg_from_descriptor(3)
 * @param desc_size bytes at `desc`; what follows the description is left alone
 * @return also RPMA_E_INVAL: too short
 */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/**
 * Makes a peer on an opened device. rpma_peer_new(3)
 * @return also RPMA_E_UNKNOWN: the device has no protection domain, and does not say why
 */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);
/**
 * Ends a peer. What was made on it must be gone. rpma_peer_delete(3)
 * @return also RPMA_E_PROVIDER: it is not; the peer stays
 */
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/** @} */
/** @name Memory @{ */

/**
 * Registers memory. Nothing is pinned. rpma_mr_reg(3)
 * @param size bytes, at least 1
 * @param usage RPMA_MR_USAGE_*, at least one
 * @return also RPMA_E_INVAL: no bytes, or no such usage; RPMA_E_PROVIDER: not mapped, or without the rights for its
 *         usage
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);
/** Ends a registration: on return nobody touches the memory through it. It stays on a failure. rpma_mr_dereg(3) */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
/**
 * Writes a registration as bytes for the other side. rpma_mr_get_descriptor(3)
 * @param desc room for rpma_mr_get_descriptor_size bytes
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
/** The size of that form in bytes: 21. rpma_mr_get_descriptor_size(3) */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);
/** The start of registered memory. rpma_mr_get_ptr(3) */
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
/** The size of registered memory in bytes. rpma_mr_get_size(3) */
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);
/**
 * Advises the device about a range. Memory that is not paged on demand was there when it was registered: then nothing
 * is left to do. rpma_mr_advise(3)
 * @param offset bytes from the start of the registration
 * @param len bytes, less than 4 GiB
 * @param advice enum ib_uverbs_advise_mr_advice
 * @param flags 0 or IBV_ADVISE_MR_FLAG_FLUSH
 * @return also RPMA_E_INVAL: not within the registration, no such flags, or fetching for writes what nobody writes;
 *         RPMA_E_NOSUPP: no such advice
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/**
 * Makes an object of memory that the other side described. Whoever can change the bytes on their way decides what is
 * written to. rpma_mr_remote_from_descriptor(3)
 * @param desc_size bytes at `desc`; what follows the description is left alone
 * @return also RPMA_E_INVAL: too short; RPMA_E_NOSUPP: it describes no memory, or memory for no use
 */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);
/** Ends it; the other side's registration stays. rpma_mr_remote_delete(3) */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
/** The size of the other side's memory in bytes. rpma_mr_remote_get_size(3) */
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);
/**
 * The kinds of flush that it is registered for: RPMA_MR_USAGE_FLUSH_TYPE_* combined, or 0.
 * rpma_mr_remote_get_flush_type(3)
 */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/** @} */
/**
 * @name Parameters of connections
 * They are read when a request is made or taken. Numbers beyond what the device has make that fail.
 * @{
 */

/** Makes parameters with their defaults. rpma_conn_cfg_new(3) */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
/** Ends them; connections made with them go on. rpma_conn_cfg_delete(3) */
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);
/**
 * Time for finding the address, and again for finding the way there, in milliseconds, not negative; 1000 by default.
 * rpma_conn_cfg_set_timeout(3)
 */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
/** Reads the timeout. rpma_conn_cfg_get_timeout(3) */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);
/** Entries of the completion queue, at least; 10 by default. rpma_conn_cfg_set_cq_size(3) */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
/** Reads the size of the completion queue. rpma_conn_cfg_get_cq_size(3) */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);
/**
 * Entries of a completion queue for receives, at least; 0, the default, for none: receives then complete on the other
 * one. rpma_conn_cfg_set_rcq_size(3)
 */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
/** Reads the size of the completion queue for receives. rpma_conn_cfg_get_rcq_size(3) */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);
/** Entries of the send queue, at least; 10 by default. rpma_conn_cfg_set_sq_size(3) */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
/** Reads the size of the send queue. rpma_conn_cfg_get_sq_size(3) */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
/** Entries of the receive queue, at least; 10 by default. rpma_conn_cfg_set_rq_size(3) */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
/** Reads the size of the receive queue. rpma_conn_cfg_get_rq_size(3) */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);
/**
 * One completion channel for both completion queues (rpma_conn_wait) or one for each (rpma_cq_wait, the default).
 * rpma_conn_cfg_set_compl_channel(3)
 */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
/** Reads whether the completion channel is shared. rpma_conn_cfg_get_compl_channel(3) */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);
/**
 * Receives come from a shared receive queue, which must outlive the connections; null, the default, for none.
 * rpma_conn_cfg_set_srq(3)
 */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
/** Reads the shared receive queue, null for none. rpma_conn_cfg_get_srq(3) */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/** @} */
/** @name Connections @{ */

/** A descriptor that is readable when rpma_conn_next_event has something. rpma_conn_get_event_fd(3) */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);
/**
 * Waits for the next event of a connection. rpma_conn_next_event(3)
 * @param event also set, to RPMA_CONN_UNDEFINED, with RPMA_E_UNKNOWN
 * @return also RPMA_E_NO_EVENT: none, and the descriptor does not wait; RPMA_E_UNKNOWN: one that means nothing here
 */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);
/**
 * The private data that the other side gave, from RPMA_CONN_ESTABLISHED on; null and 0 for none. It belongs to the
 * connection, is not protected on its way, and may be followed by zeroes. rpma_conn_get_private_data(3)
 */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);
/** Takes over what the other side can do, for the check of rpma_flush. rpma_conn_apply_remote_peer_cfg(3) */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);
/**
 * Starts the end of a connection, or agrees to it; RPMA_CONN_CLOSED follows at the side that started.
 * rpma_conn_disconnect(3)
 */
int rpma_conn_disconnect(struct rpma_conn *conn);
/** Frees a connection, on a failure, too. rpma_conn_delete(3) */
int rpma_conn_delete(struct rpma_conn **conn_ptr);
/** The completion queue, which belongs to the connection. rpma_conn_get_cq(3) */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
/** The completion queue for receives, null where the connection has none of its own. rpma_conn_get_rcq(3) */
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);
/**
 * A descriptor that is readable when the shared completion channel has something. rpma_conn_get_compl_fd(3)
 * @return also RPMA_E_NOT_SHARED_CHNL
 */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);
/**
 * Waits on the shared completion channel. All completions should be collected before it is called again.
 * rpma_conn_wait(3)
 * @param flags RPMA_W_WAIT_FOR_COMPLETION or 0
 * @param cq the queue to collect from
 * @param is_rcq whether that is the one for receives; may be null
 * @return also RPMA_E_NO_COMPLETION: none, and the descriptor does not wait; RPMA_E_NOT_SHARED_CHNL; RPMA_E_UNKNOWN:
 *         of a queue that is not the connection's
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);
/** The number of the queue pair, as in the completions of a shared receive queue. rpma_conn_get_qp_num(3) */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/**
 * Finds the way to a listening address, and makes what a connection needs. rpma_conn_req_new(3)
 * @param addr IPv4 or IPv6 address, or host name
 * @param port a number
 * @param cfg null for defaults
 * @return also RPMA_E_INVAL: a shared completion channel, and a shared receive queue that completes elsewhere
 */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
                      struct rpma_conn_req **req_ptr);
/** Gives a request up, on a failure, too; on the passive side this declines it. rpma_conn_req_delete(3) */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);
/**
 * Asks for a connection, or agrees to it; rpma_conn_next_event tells what comes of it. Ends the request in any case.
 * rpma_conn_req_connect(3)
 * @param pdata 1 to 56 bytes for the other side on the active side, 1 to 196 on the passive one; null for none
 * @return also RPMA_E_INVAL: private data without bytes
 */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
                          struct rpma_conn **conn_ptr);
/**
 * Posts a receive before the connection is there, so that the first message finds it. rpma_conn_req_recv(3)
 * @param op_context wr_id of the completion; may be null
 * @return as rpma_recv
 */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len,
                       const void *op_context);
/** The private data that a request brought; null and 0 on the active side. rpma_conn_req_get_private_data(3) */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/** Listens at an address of the peer's device. @param port a number. rpma_ep_listen(3) */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);
/** Stops listening; requests and connections go on. The endpoint stays on a failure. rpma_ep_shutdown(3) */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);
/** A descriptor that is readable when a request waits. rpma_ep_get_fd(3) */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);
/**
 * Waits for the next request. One that cannot be taken is declined. rpma_ep_next_conn_req(3)
 * @param cfg null for defaults
 * @return also RPMA_E_NO_EVENT: none, and the descriptor does not wait; RPMA_E_INVAL: something else has happened, or
 *         as rpma_conn_req_new
 */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/** @} */
/** @name Shared receive queues @{ */

/** Makes parameters with their defaults. rpma_srq_cfg_new(3) */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
/** Ends them; queues made with them go on. rpma_srq_cfg_delete(3) */
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);
/** Entries of the queue, at least; 100 by default. rpma_srq_cfg_set_rq_size(3) */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
/** Reads the size of the queue. rpma_srq_cfg_get_rq_size(3) */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);
/**
 * Entries of its completion queue, at least, 100 by default; 0 for none: receives then complete on their connections'
 * queues. rpma_srq_cfg_set_rcq_size(3)
 */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
/** Reads the size of its completion queue. rpma_srq_cfg_get_rcq_size(3) */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);
/** Makes a shared receive queue. @param cfg null for defaults. rpma_srq_new(3) */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
/** Ends it, on a failure, too. Its connections must be gone. rpma_srq_delete(3) */
int rpma_srq_delete(struct rpma_srq **srq_ptr);
/** Posts a receive to it. Parameters and results as of rpma_recv. rpma_srq_recv(3) */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);
/** Its completion queue, null where there is none; it belongs to the shared receive queue. rpma_srq_get_rcq(3) */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/** @} */
/**
 * @name Operations
 * They are posted here and complete, as `flags` (RPMA_F_COMPLETION_*, not 0) say, with `op_context` as wr_id. Offsets
 * and lengths are in bytes; an operation moves less than 4 GiB. Null memory objects with offsets and length 0 mean an
 * operation without data. Ranges are checked by the devices: what is wrong with them a completion tells.
 * RPMA_E_PROVIDER with ENOMEM: the queue is full; one with RPMA_F_COMPLETION_ON_ERROR gives its place back when a
 * later one completes.
 * @{
 */

/** Reads from the other side's memory into local memory. IBV_WC_RDMA_READ. rpma_read(3) */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
              size_t src_offset, size_t len, int flags, const void *op_context);
/** Writes local memory to the other side's. IBV_WC_RDMA_WRITE. rpma_write(3) */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
               size_t src_offset, size_t len, int flags, const void *op_context);
/**
 * Writes, and completes a receive of the other side's as IBV_WC_RECV_RDMA_WITH_IMM. rpma_write_with_imm(3)
 * @param imm in host byte order; in network byte order in the other side's completion
 */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
                        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
                        const void *op_context);
/**
 * Writes 8 bytes at once, after the flushes posted before. IBV_WC_ATOMIC_WRITE where the device has such an
 * operation, else IBV_WC_RDMA_WRITE. rpma_atomic_write(3)
 * @param dst_offset a multiple of RPMA_ATOMIC_WRITE_ALIGNMENT
 * @param src 8 bytes, free on return
 * @return also RPMA_E_INVAL: no such multiple
 */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char *src,
                      int flags, const void *op_context);
/**
 * Completes when the writes posted before have reached what `type` says. IBV_WC_FLUSH where the device has such an
 * operation, else IBV_WC_RDMA_READ. rpma_flush(3)
 * @return also RPMA_E_INVAL: no such type; RPMA_E_NOSUPP: the memory is not registered for it, or, into persistence,
 *         the other side's description (rpma_conn_apply_remote_peer_cfg) has no direct write to persistent memory
 */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
               enum rpma_flush_type type, int flags, const void *op_context);
/** Sends a message. IBV_WC_SEND. rpma_send(3) */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
              const void *op_context);
/**
 * Sends a message with immediate data. IBV_WC_SEND. rpma_send_with_imm(3)
 * @param imm in host byte order; in network byte order in the other side's completion
 */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
                       uint32_t imm, const void *op_context);
/**
 * Posts a receive, which always completes: IBV_WC_RECV, or IBV_WC_RECV_RDMA_WITH_IMM. Programs must not rely on the
 * order in which receives are taken. rpma_recv(3)
 * @return also RPMA_E_PROVIDER: the queue is full, or the connection has a shared one
 */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/** @} */
/** @name Completions @{ */

/** A descriptor that is readable when completions have come; the shared one where there is one. rpma_cq_get_fd(3) */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);
/**
 * Waits for completions. All of them should be collected before it is called again; it may return without any, for
 * those that were collected without waiting. rpma_cq_wait(3)
 * @return also RPMA_E_NO_COMPLETION: none, and the descriptor does not wait; RPMA_E_SHARED_CHANNEL: wait with
 *         rpma_conn_wait
 */
int rpma_cq_wait(struct rpma_cq *cq);
/**
 * Collects completions, without waiting. Of failed ones only wr_id, status, qp_num and vendor_err mean something.
 * rpma_cq_get_wc(3)
 * @param num_entries room at `wc`, at least 1
 * @param num_entries_got number collected; may be null when num_entries is 1
 * @return also RPMA_E_NO_COMPLETION; RPMA_E_INVAL: no room, or null for several
 */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/** @} */
/** @name Log @{ */

/** How important a message is, the most important first. */
enum rpma_log_level {
    RPMA_LOG_DISABLED = -1, /**< as a threshold: nothing is logged */
    RPMA_LOG_LEVEL_FATAL,
    RPMA_LOG_LEVEL_ERROR,
    RPMA_LOG_LEVEL_WARNING,
    RPMA_LOG_LEVEL_NOTICE,
    RPMA_LOG_LEVEL_INFO,
    RPMA_LOG_LEVEL_DEBUG
};

/** Which messages there are, and which of them go to standard error. */
enum rpma_log_threshold {
    RPMA_LOG_THRESHOLD,     /**< the log function is called up to this level: RPMA_LOG_LEVEL_WARNING by default */
    RPMA_LOG_THRESHOLD_AUX, /**< the library's own log function writes these to standard error, besides the system log:
                                 RPMA_LOG_DISABLED by default. Others may read it for what they like */
    RPMA_LOG_THRESHOLD_MAX  /**< number of thresholds */
};

/**
 * Takes a message: where it comes from in the library, and a printf format with its arguments, which ends a line.
 * Called from any thread.
 */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
                               const char *function_name, const char *message_format, ...);

/** Makes rpma_log_set_function go back to the library's own function. */
#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/** Sets the function that takes messages; it may be called by several threads at a time. rpma_log_set_function(3) */
int rpma_log_set_function(rpma_log_function *log_function);
/**
 * Sets a threshold. rpma_log_set_threshold(3)
 * @return also RPMA_E_INVAL: no such threshold or level
 */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
/** Reads a threshold. rpma_log_get_threshold(3) */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
