// SPDX-License-Identifier: MIT
/**
 * @file rdma_verbs.h
 * Short forms of the verbs for programs that keep everything on a rdma_cm_id.
 *
 * All of them act on the queue pair, queues and protection domain of the id. Functions with an int result return
 * 0, or -1 with errno set; the `context` argument comes back as wr_id of the completion. As thread safe as the
 * verbs they call. Manual pages: one per function.
 */
#ifndef RDMA_RDMA_VERBS_H
#define RDMA_RDMA_VERBS_H

#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Turns a verbs result (0 or an errno value) into 0 or -1 with errno set. */
static inline int rdma_seterrno(int ret) {
    if (ret == 0) return 0;
    errno = ret;
    return -1;
}

/**
 * Makes a shared receive queue on an id; QPs made on it afterwards use it.
 * @param pd null for the one that the library keeps for the device
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/** As rdma_create_srq, with the extended attributes. */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);

/** Destroys the shared receive queue of an id. */
void rdma_destroy_srq(struct rdma_cm_id *id);

/** Registers memory for sends and receives. Null with errno set on failure. */
static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length) {
    return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

/** Registers memory that the peer may read. Null with errno set on failure. */
static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length) {
    return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/** Registers memory that the peer may write. Null with errno set on failure. */
static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length) {
    return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/** Ends a registration. */
static inline int rdma_dereg_mr(struct ibv_mr *mr) {
    return rdma_seterrno(ibv_dereg_mr(mr));
}

/** One piece of memory as a gather/scatter entry. A null registration is for inline data, which needs no key. */
static inline struct ibv_sge rdma_verbs_piece(void *addr, size_t length, const struct ibv_mr *mr) {
    struct ibv_sge piece;
    piece.addr = (uint64_t)(uintptr_t)addr;
    piece.length = (uint32_t)length;
    piece.lkey = mr ? mr->lkey : 0;
    return piece;
}

/** A single send request with everything but the operation's own arguments set. */
static inline struct ibv_send_wr rdma_verbs_request(enum ibv_wr_opcode opcode, void *context, struct ibv_sge *sgl,
                                                    int nsge, int flags) {
    struct ibv_send_wr request;
    memset(&request, 0, sizeof request);
    request.wr_id = (uint64_t)(uintptr_t)context;
    request.sg_list = sgl;
    request.num_sge = nsge;
    request.opcode = opcode;
    request.send_flags = (unsigned int)flags;
    return request;
}

/** Posts one request to the send queue. */
static inline int rdma_verbs_post(struct rdma_cm_id *id, struct ibv_send_wr *request) {
    struct ibv_send_wr *refused;
    return rdma_seterrno(ibv_post_send(id->qp, request, &refused));
}

/** Posts a receive of several pieces, to the SRQ of the id if it has one. */
static inline int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge) {
    struct ibv_recv_wr request, *refused;
    request.wr_id = (uint64_t)(uintptr_t)context;
    request.next = NULL;
    request.sg_list = sgl;
    request.num_sge = nsge;
    return rdma_seterrno(id->srq ? ibv_post_srq_recv(id->srq, &request, &refused)
                                 : ibv_post_recv(id->qp, &request, &refused));
}

/** Posts a send of several pieces. @param flags IBV_SEND_* */
static inline int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags) {
    struct ibv_send_wr request = rdma_verbs_request(IBV_WR_SEND, context, sgl, nsge, flags);
    return rdma_verbs_post(id, &request);
}

/** Posts an RDMA read into several pieces. */
static inline int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags,
                                  uint64_t remote_addr, uint32_t rkey) {
    struct ibv_send_wr request = rdma_verbs_request(IBV_WR_RDMA_READ, context, sgl, nsge, flags);
    request.wr.rdma.remote_addr = remote_addr;
    request.wr.rdma.rkey = rkey;
    return rdma_verbs_post(id, &request);
}

/** Posts an RDMA write of several pieces. */
static inline int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge, int flags,
                                   uint64_t remote_addr, uint32_t rkey) {
    struct ibv_send_wr request = rdma_verbs_request(IBV_WR_RDMA_WRITE, context, sgl, nsge, flags);
    request.wr.rdma.remote_addr = remote_addr;
    request.wr.rdma.rkey = rkey;
    return rdma_verbs_post(id, &request);
}

/** Posts a receive into one piece of registered memory. */
static inline int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr) {
    struct ibv_sge piece = rdma_verbs_piece(addr, length, mr);
    assert((uint8_t *)addr >= (uint8_t *)mr->addr);
    assert((uint8_t *)addr + length <= (uint8_t *)mr->addr + mr->length);
    return rdma_post_recvv(id, context, &piece, 1);
}

/** Posts a send of one piece. @param mr may be null with IBV_SEND_INLINE */
static inline int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr,
                                 int flags) {
    struct ibv_sge piece = rdma_verbs_piece(addr, length, mr);
    return rdma_post_sendv(id, context, &piece, 1, flags);
}

/** Posts an RDMA read into one piece. */
static inline int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr,
                                 int flags, uint64_t remote_addr, uint32_t rkey) {
    struct ibv_sge piece = rdma_verbs_piece(addr, length, mr);
    return rdma_post_readv(id, context, &piece, 1, flags, remote_addr, rkey);
}

/** Posts an RDMA write of one piece. @param mr may be null with IBV_SEND_INLINE */
static inline int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length, struct ibv_mr *mr,
                                  int flags, uint64_t remote_addr, uint32_t rkey) {
    struct ibv_sge piece = rdma_verbs_piece(addr, length, mr);
    return rdma_post_writev(id, context, &piece, 1, flags, remote_addr, rkey);
}

/** Posts a datagram with Q_Key RDMA_UDP_QKEY. @param mr may be null with IBV_SEND_INLINE */
static inline int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
                                    struct ibv_mr *mr, int flags, struct ibv_ah *ah, uint32_t remote_qpn) {
    struct ibv_sge piece = rdma_verbs_piece(addr, length, mr);
    struct ibv_send_wr request = rdma_verbs_request(IBV_WR_SEND, context, &piece, 1, flags);
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = remote_qpn;
    request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    return rdma_verbs_post(id, &request);
}

/** Waits on `channel` until `cq` yields a completion; polls again after arming, so that none slips between. */
static inline int rdma_verbs_completion(struct ibv_comp_channel *channel, struct ibv_cq *cq, struct ibv_wc *wc) {
    for (;;) {
        struct ibv_cq *notified;
        void *notified_context;
        int got = ibv_poll_cq(cq, 1, wc);
        if (got == 0) {
            int refused = ibv_req_notify_cq(cq, 0);
            if (refused) return rdma_seterrno(refused);
            got = ibv_poll_cq(cq, 1, wc);
        }
        if (got > 0) return got;
        if (got < 0) return rdma_seterrno(EIO);
        if (ibv_get_cq_event(channel, &notified, &notified_context)) return -1;
        ibv_ack_cq_events(notified, 1);
    }
}

/** Waits for the next completion of the send queue. Returns 1, or -1 with errno set. */
static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc) {
    return rdma_verbs_completion(id->send_cq_channel, id->send_cq, wc);
}

/** Waits for the next completion of the receive queue. Returns 1, or -1 with errno set. */
static inline int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc) {
    return rdma_verbs_completion(id->recv_cq_channel, id->recv_cq, wc);
}

#ifdef __cplusplus
}
#endif

#endif
