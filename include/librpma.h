// SPDX-License-Identifier: MIT
/**
 * @file librpma.h
 * Remote persistent memory access: connections, memory and one-sided operations in few calls.
 *
 * A peer stands for a device; an endpoint listens; a connection request becomes a connection; operations are posted
 * on connections and complete on their completion queues. Objects are opaque. Functions that end an object take a
 * pointer to its pointer and set that to null.
 *
 * Unless a comment says otherwise, functions return 0 or a negative RPMA_E_* value, RPMA_E_INVAL for null
 * arguments among them. Calls on different objects are thread safe; configuration objects, and the making and
 * ending of one object, are not. Manual pages: one per function.
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
#define RPMA_MR_USAGE_READ_SRC (1 << 0)
#define RPMA_MR_USAGE_READ_DST (1 << 1)
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4)
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5)
#define RPMA_MR_USAGE_SEND (1 << 6)
#define RPMA_MR_USAGE_RECV (1 << 7)
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
 * Opens the device that belongs to an address.
 * @param addr IPv4 or IPv6 address, or host name
 */
int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type,
                               struct ibv_context **ibv_ctx_ptr);

/** Tells whether a device has what on-demand paging of file mappings needs. @param is_odp_capable set to 0 or 1 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/** The name of an event; a fixed text for values without meaning. */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/** The meaning of an error; a fixed text for values without meaning. */
const char *rpma_err_2str(int ret);

/** @} */
/** @name What a peer can do @{ */

/** Makes a description with everything off. */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
/** Ends a description. */
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);
/** Says whether writes go to persistent memory directly, so that they can be flushed into persistence. */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
/** Reads what rpma_peer_cfg_set_direct_write_to_pmem said. */
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);
/** Writes the description as bytes for the other side. @param desc rpma_peer_cfg_get_descriptor_size bytes */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
/** The size of that form in bytes. */
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);
/** Reads a description that the other side wrote. */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/** Makes a peer on an opened device. */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);
/** Ends a peer. What was made on it must be gone. */
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/** @} */
/** @name Memory @{ */

/**
 * Registers memory.
 * @param usage RPMA_MR_USAGE_*, at least one
 * @return also RPMA_E_PROVIDER with errno of ibv_reg_mr
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);
/** Ends a registration. */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
/** Writes a registration as bytes for the other side. @param desc rpma_mr_get_descriptor_size bytes */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
/** The size of that form in bytes. */
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);
/** The start of registered memory. */
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
/** The size of registered memory in bytes. */
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);
/**
 * Advises the device about a range that is registered for on-demand paging.
 * @param advice enum ib_uverbs_advise_mr_advice
 * @param flags enum ib_uverbs_advise_mr_flag
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/** Makes an object of memory that the other side described. */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);
/** Ends it; the other side's registration stays. */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
/** The size of the other side's memory in bytes. */
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);
/** The kinds of flush that it is registered for: RPMA_MR_USAGE_FLUSH_TYPE_* combined. */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/** @} */
/** @name Parameters of connections @{ */

/** Makes parameters with their defaults. */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
/** Ends them; connections made with them go on. */
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);
/** Time that making the connection may take, in milliseconds. */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
/** Reads the timeout. */
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);
/** Entries of the completion queue, at least. */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
/** Reads the size of the completion queue. */
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);
/** Entries of a completion queue for receives; 0 for none, receives then complete on the other one. */
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
/** Reads the size of the completion queue for receives. */
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);
/** Entries of the send queue, at least. */
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
/** Reads the size of the send queue. */
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
/** Entries of the receive queue, at least. */
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
/** Reads the size of the receive queue. */
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);
/** One completion channel for both completion queues (rpma_conn_wait) or one for each (rpma_cq_wait, the default). */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
/** Reads whether the completion channel is shared. */
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);
/** Receives come from a shared receive queue. */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
/** Reads the shared receive queue, null for none. */
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/** @} */
/** @name Connections @{ */

/** A descriptor that is readable when rpma_conn_next_event has something. */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);
/** Waits for the next event of a connection; RPMA_E_NO_EVENT on a non-blocking descriptor without one. */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);
/** The private data that came with the connection; the connection owns it. */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);
/** Takes over what the other side can do, for the check of rpma_flush. */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);
/** Starts the end of a connection; RPMA_CONN_CLOSED follows at both sides. */
int rpma_conn_disconnect(struct rpma_conn *conn);
/** Frees a connection. */
int rpma_conn_delete(struct rpma_conn **conn_ptr);
/** The completion queue. */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
/** The completion queue for receives, null where there is none. */
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);
/** A descriptor that is readable when the shared completion channel has something; RPMA_E_NOT_SHARED_CHNL without one. */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);
/**
 * Waits on the shared completion channel.
 * @param flags RPMA_W_WAIT_FOR_COMPLETION
 * @param cq the queue to collect from
 * @param is_rcq whether that is the one for receives; may be null
 * @return also RPMA_E_NO_COMPLETION, RPMA_E_NOT_SHARED_CHNL
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);
/** The number of the queue pair, as in the completions of a shared receive queue. */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/** Starts the making of a connection. @param cfg null for defaults */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
                      struct rpma_conn_req **req_ptr);
/** Gives a request up; on the passive side this declines it. */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);
/** Connects, or agrees to connect; ends the request in any case. @param pdata null for none */
int rpma_conn_req_connect(struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata,
                          struct rpma_conn **conn_ptr);
/** Posts a receive before the connection is there, so that the first message finds it. */
int rpma_conn_req_recv(struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len,
                       const void *op_context);
/** The private data of a request; RPMA_E_INVAL on the active side. */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/** Listens at an address. */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);
/** Stops listening. */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);
/** A descriptor that is readable when a request waits. */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);
/** Waits for the next request; RPMA_E_NO_EVENT on a non-blocking descriptor without one. @param cfg null for defaults */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/** @} */
/** @name Shared receive queues @{ */

/** Makes parameters with their defaults. */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
/** Ends them. */
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);
/** Entries of the queue, at least. */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
/** Reads the size of the queue. */
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);
/** Entries of its completion queue; 0 for none, receives then complete on their connections' queues. */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
/** Reads the size of its completion queue. */
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);
/** Makes a shared receive queue. @param cfg null for defaults */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
/** Ends it. */
int rpma_srq_delete(struct rpma_srq **srq_ptr);
/** Posts a receive to it. */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);
/** Its completion queue, null where there is none. */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/** @} */
/**
 * @name Operations
 * They are posted here and complete, as `flags` (RPMA_F_COMPLETION_*) say, with `op_context` as wr_id. Offsets and
 * lengths are in bytes; a null memory object with offset and length 0 means a message without data.
 * @{
 */

/** Reads from the other side's memory into local memory. */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
              size_t src_offset, size_t len, int flags, const void *op_context);
/** Writes local memory to the other side's. */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
               size_t src_offset, size_t len, int flags, const void *op_context);
/** Writes and gives the other side a receive completion. @param imm in host byte order */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
                        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
                        const void *op_context);
/** Writes 8 bytes at once, after the flushes posted before. @param dst_offset a multiple of RPMA_ATOMIC_WRITE_ALIGNMENT */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char *src,
                      int flags, const void *op_context);
/** Completes when the writes posted before have reached what `type` says; RPMA_E_NOSUPP where that cannot be told. */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
               enum rpma_flush_type type, int flags, const void *op_context);
/** Sends a message. */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
              const void *op_context);
/** Sends a message with immediate data. @param imm in host byte order */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
                       uint32_t imm, const void *op_context);
/** Posts a receive. */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/** @} */
/** @name Completions @{ */

/** A descriptor that is readable when completions wait; RPMA_E_SHARED_CHANNEL where the channel is shared. */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);
/** Waits for a completion; RPMA_E_NO_COMPLETION where the wait brought none, RPMA_E_SHARED_CHANNEL as above. */
int rpma_cq_wait(struct rpma_cq *cq);
/**
 * Collects completions.
 * @param num_entries room at `wc`, at least 1
 * @param num_entries_got number collected; may be null when num_entries is 1
 * @return also RPMA_E_NO_COMPLETION
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

/** Where messages go: the first to the system log, the second to standard error as well. */
enum rpma_log_threshold {
    RPMA_LOG_THRESHOLD,
    RPMA_LOG_THRESHOLD_AUX,
    RPMA_LOG_THRESHOLD_MAX /**< number of thresholds */
};

/** Takes a message: where it comes from, and a printf format with its arguments. Called from any thread. */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
                               const char *function_name, const char *message_format, ...);

/** Makes rpma_log_set_function go back to the library's own function. */
#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/** Sets the function that takes messages. */
int rpma_log_set_function(rpma_log_function *log_function);
/** Logs messages up to `level`. Returns 0, RPMA_E_INVAL, or RPMA_E_AGAIN when another thread was faster. */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
/** Reads a threshold. */
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
