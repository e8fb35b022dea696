// SPDX-License-Identifier: MIT
/**
 * @file efadv.h
 * Direct verbs for efa (Amazon Elastic Fabric Adapter): SRD queue pairs and raw queues.
 *
 * Conventions, unless a comment says otherwise:
 *   - a function returning int returns 0 or a positive errno value, one returning a pointer
 *     returns NULL with errno set: EOPNOTSUPP (not an efa device), EINVAL (inlen, unknown bits);
 *   - inlen is the sizeof the record in the caller's eyes: a library that knows less of it
 *     accepts the rest if it is zero, one that knows more fills in what fits;
 *   - comp_mask must be 0 in input; in output it is 0 unless a member says otherwise;
 *   - calls may come from several threads at once on different objects;
 *   - integers are in host byte order, sizes are bytes, reserved members must be 0.
 *
 * Source: efadv(7) and the manual page of each function.
 */
#ifndef __EFADV_H__
#define __EFADV_H__

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ======================================================================================== */
/* Device                                                                                   */
/* ======================================================================================== */

/** efadv_device_attr.device_caps */
enum {
    EFADV_DEVICE_ATTR_CAPS_RDMA_READ = 1 << 0,
    EFADV_DEVICE_ATTR_CAPS_RNR_RETRY = 1 << 1,    /**< SRD QPs may set rnr_retry */
    EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID = 1 << 2, /**< completions can tell the source GID */
    EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE = 1 << 3,
    /** QPs can receive a write with immediate without spending a receive work request. */
    EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV = 1 << 4,
    EFADV_DEVICE_ATTR_CAPS_CQ_WITH_EXT_MEM_DMABUF = 1 << 5, /**< CQs can live in a dma-buf */
    EFADV_DEVICE_ATTR_CAPS_COMP_CNTR = 1 << 6,              /**< completion counters */
};

/** What efadv_query_device() reports. */
struct efadv_device_attr {
    uint64_t comp_mask;
    uint32_t max_sq_wr;
    uint32_t max_rq_wr;
    uint16_t max_sq_sge;
    uint16_t max_rq_sge;
    uint16_t inline_buf_size;    /**< kept for older programs; read the next instead */
    uint16_t inline_buf_size_ex; /**< most inline data of one work request */
    uint32_t device_caps;        /**< EFADV_DEVICE_ATTR_CAPS_* */
    uint32_t max_rdma_size;      /**< most data of one RDMA read or write */
};

/** Reports abilities of the device. Source: efadv_query_device(3). */
int efadv_query_device(struct ibv_context *ibvctx, struct efadv_device_attr *attr,
                       uint32_t inlen);

/** efadv_sq_depth_attr.flags */
enum {
    EFADV_SQ_DEPTH_ATTR_INLINE_WRITE = 1 << 0, /**< with inline data in RDMA writes */
};

/** The send queue that efadv_get_max_sq_depth() is asked about. */
struct efadv_sq_depth_attr {
    uint64_t comp_mask;
    uint32_t flags; /**< EFADV_SQ_DEPTH_ATTR_* */
    uint32_t max_send_sge;
    uint32_t max_rdma_sge;
    uint32_t max_inline_data;
};

/**
 * Tells how deep a send queue of this shape can be.
 * Returns the number of work requests, or a negative errno value: -EINVAL (beyond the limits).
 * Source: efadv_get_max_sq_depth(3).
 */
int efadv_get_max_sq_depth(struct ibv_context *ibvctx, struct efadv_sq_depth_attr *attr,
                           uint32_t inlen);

/** The receive queue that efadv_get_max_rq_depth() is asked about. */
struct efadv_rq_depth_attr {
    uint64_t comp_mask;
    uint32_t max_recv_sge;
};

/**
 * Tells how deep a receive queue of this shape can be.
 * Returns the number of work requests, or a negative errno value: -EINVAL (beyond the limits).
 * Source: efadv_get_max_rq_depth(3).
 */
int efadv_get_max_rq_depth(struct ibv_context *ibvctx, struct efadv_rq_depth_attr *attr,
                           uint32_t inlen);

/* ======================================================================================== */
/* Address handles and memory regions                                                       */
/* ======================================================================================== */

/** What efadv_query_ah() reports. */
struct efadv_ah_attr {
    uint64_t comp_mask;
    uint16_t ahn; /**< number to put into work queue entries */
    uint8_t reserved[6];
};

/** Reports the device's number of an address handle. Source: efadv_query_ah(3). */
int efadv_query_ah(struct ibv_ah *ibvah, struct efadv_ah_attr *attr, uint32_t inlen);

/** efadv_mr_attr.ic_id_validity: which of the ids are known. */
enum {
    EFADV_MR_ATTR_VALIDITY_RECV_IC_ID = 1 << 0,
    EFADV_MR_ATTR_VALIDITY_RDMA_READ_IC_ID = 1 << 1,
    EFADV_MR_ATTR_VALIDITY_RDMA_RECV_IC_ID = 1 << 2,
};

/** The physical interconnect by which the device reaches a memory region, per operation. */
struct efadv_mr_attr {
    uint64_t comp_mask;
    uint16_t ic_id_validity;  /**< EFADV_MR_ATTR_VALIDITY_* */
    uint16_t recv_ic_id;      /**< receives */
    uint16_t rdma_read_ic_id; /**< RDMA reads */
    uint16_t rdma_recv_ic_id; /**< RDMA writes that arrive */
};

/** Reports the interconnects of a memory region. Source: efadv_query_mr(3). */
int efadv_query_mr(struct ibv_mr *ibvmr, struct efadv_mr_attr *attr, uint32_t inlen);

/* ======================================================================================== */
/* Queue pairs                                                                              */
/* ======================================================================================== */

/** Queue pair types, made as IBV_QPT_DRIVER. */
enum {
    EFADV_QP_DRIVER_TYPE_SRD = 0, /**< scalable reliable datagram: reliable, in any order */
};

/**
 * Creates a QP of an efa type. Destroy with ibv_destroy_qp().
 * Errors: EOPNOTSUPP (type), EINVAL (beyond the limits), ENOMEM.
 * Source: efadv_create_driver_qp(3).
 */
struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *ibvpd, struct ibv_qp_init_attr *attr,
                                      uint32_t driver_qp_type);

/** efadv_qp_init_attr.flags */
enum {
    /** A write with immediate spends no receive work request of this QP. */
    EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV = 1 << 0,
    EFADV_QP_FLAGS_INLINE_WRITE = 1 << 1, /**< RDMA writes may carry inline data */
};

/** efadv_qp_init_attr.wr_flags: setters that efadv_qp must offer. */
enum {
    EFADV_WR_EX_WITH_PROCESSING_HINTS = 1 << 0,
};

/** efa options of a QP. */
struct efadv_qp_init_attr {
    uint64_t comp_mask;
    uint32_t driver_qp_type; /**< EFADV_QP_DRIVER_TYPE_*, if the type is IBV_QPT_DRIVER */
    uint16_t flags;          /**< EFADV_QP_FLAGS_* */
    uint8_t sl;              /**< service level; 0: the default */
    uint8_t reserved;
    uint64_t wr_flags; /**< EFADV_WR_EX_WITH_* */
};

/**
 * ibv_create_qp_ex() with efa options. Destroy with ibv_destroy_qp().
 * Errors: EOPNOTSUPP (type, flags), EINVAL (beyond the limits), ENOMEM.
 * Source: efadv_create_qp_ex(3).
 */
struct ibv_qp *efadv_create_qp_ex(struct ibv_context *ibvctx,
                                  struct ibv_qp_init_attr_ex *attr_ex,
                                  struct efadv_qp_init_attr *efa_attr, uint32_t inlen);

/** efadv_wq_attr.caps */
enum {
    EFADV_WQ_CAPS_64_BIT_REQ_ID = 1 << 0, /**< entries have room for a 64-bit request id */
};

/** A raw work queue. */
struct efadv_wq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;      /**< entries; those of a send queue are write-only device memory */
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell;   /**< store the counter of posted entries here */
    uint32_t max_batch;   /**< most entries between two doorbells; 0: no limit */
    uint16_t caps;        /**< EFADV_WQ_CAPS_* */
    uint8_t reserved[2];
};

/**
 * Reports the queues of a QP; inlen is the size of each record. Posting both through verbs and
 * through the raw queue is not supported. Source: efadv_query_qp_wqs(3).
 */
int efadv_query_qp_wqs(struct ibv_qp *ibvqp, struct efadv_wq_attr *sq_attr,
                       struct efadv_wq_attr *rq_attr, uint32_t inlen);

/** Hints of efadv_wr_set_processing_hints(). */
enum efadv_wr_processing_hint {
    EFADV_WR_PROCESSING_HINT_BURST_PPS_SENSITIVE = 1 << 0, /**< part of a burst of small messages */
};

/** efa's work request calls of one QP; use the inline function below. */
struct efadv_qp {
    uint64_t comp_mask;
    void (*wr_set_processing_hints)(struct efadv_qp *efadv_qp, uint32_t hints);
};

/** The efa calls of a QP made by efadv_create_qp_ex() with wr_flags; the same object. */
struct efadv_qp *efadv_qp_from_ibv_qp_ex(struct ibv_qp_ex *ibvqpx);

/** Setter: tells the device what to expect around the last work request. */
static inline void efadv_wr_set_processing_hints(struct efadv_qp *efadv_qp, uint32_t hints)
{
    efadv_qp->wr_set_processing_hints(efadv_qp, hints);
}

/* ======================================================================================== */
/* Completion queues and counters                                                           */
/* ======================================================================================== */

/** efadv_cq_init_attr.wc_flags: what completions must be able to tell. */
enum {
    EFADV_WC_EX_WITH_SGID = 1 << 0,           /**< efadv_wc_read_sgid() */
    EFADV_WC_EX_WITH_IS_UNSOLICITED = 1 << 1, /**< efadv_wc_is_unsolicited() */
};

/** efadv_cq_init_attr.flags */
enum {
    EFADV_CQ_INIT_FLAGS_EXT_MEM_DMABUF = 1 << 0, /**< ext_mem_dmabuf is valid */
};

/** efa options of a CQ. */
struct efadv_cq_init_attr {
    uint64_t comp_mask;
    uint64_t wc_flags; /**< EFADV_WC_EX_WITH_* */
    uint64_t flags;    /**< EFADV_CQ_INIT_FLAGS_* */
    struct {
        uint8_t *buffer; /**< mapping in this process; NULL: the CQ cannot be polled by verbs */
        uint64_t length;
        uint64_t offset; /**< of the ring in the dma-buf */
        int32_t fd;
        uint8_t reserved[4];
    } ext_mem_dmabuf;
};

/**
 * ibv_create_cq_ex() with efa options. Destroy with ibv_destroy_cq().
 * Errors: EOPNOTSUPP (flags), EINVAL (length), ENOMEM. Source: efadv_create_cq(3).
 */
struct ibv_cq_ex *efadv_create_cq(struct ibv_context *ibvctx,
                                  struct ibv_cq_init_attr_ex *attr_ex,
                                  struct efadv_cq_init_attr *efa_attr, uint32_t inlen);

/** A raw completion ring. */
struct efadv_cq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell; /**< where to arm the CQ; NULL if it cannot notify */
};

/** Reports the ring of a CQ. Source: efadv_query_cq(3). */
int efadv_query_cq(struct ibv_cq *ibvcq, struct efadv_cq_attr *attr, uint32_t inlen);

/** efa's completion calls of one CQ; use the inline functions below. */
struct efadv_cq {
    uint64_t comp_mask;
    int (*wc_read_sgid)(struct efadv_cq *efadv_cq, union ibv_gid *sgid);
    bool (*wc_is_unsolicited)(struct efadv_cq *efadv_cq);
};

/** The efa calls of a CQ made by efadv_create_cq(); the same object. */
struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ibvcqx);

/**
 * Reads the source GID of the current completion, which is there only while no address handle
 * leads to the sender. Returns 0 or a negative errno value.
 */
static inline int efadv_wc_read_sgid(struct efadv_cq *efadv_cq, union ibv_gid *sgid)
{
    return efadv_cq->wc_read_sgid(efadv_cq, sgid);
}

/** Whether the current receive completion has no work request: an unsolicited write. */
static inline bool efadv_wc_is_unsolicited(struct efadv_cq *efadv_cq)
{
    return efadv_cq->wc_is_unsolicited(efadv_cq);
}

/** efadv_memory_location.type */
enum {
    EFADV_MEMORY_LOCATION_VA = 0,     /**< ptr */
    EFADV_MEMORY_LOCATION_DMABUF = 1, /**< dmabuf */
};

/** Memory that the program supplies. */
struct efadv_memory_location {
    uint8_t *ptr; /**< address; with a dma-buf, its mapping in this process or NULL */
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type; /**< EFADV_MEMORY_LOCATION_* */
    uint8_t reserved[7];
};

/** efadv_comp_cntr_init_attr.flags */
enum {
    EFADV_COMP_CNTR_INIT_WITH_COMP_EXTERNAL_MEM = 1 << 0, /**< comp_cntr_ext_mem is valid */
    EFADV_COMP_CNTR_INIT_WITH_ERR_EXTERNAL_MEM = 1 << 1,  /**< err_cntr_ext_mem is valid */
};

/** efa options of a completion counter: where it counts, 8 bytes each. */
struct efadv_comp_cntr_init_attr {
    uint64_t comp_mask;
    uint32_t flags; /**< EFADV_COMP_CNTR_INIT_* */
    uint32_t reserved;
    struct efadv_memory_location comp_cntr_ext_mem; /**< good completions */
    struct efadv_memory_location err_cntr_ext_mem;  /**< failed completions */
};

/**
 * ibv_create_comp_cntr() with efa options. Destroy with ibv_destroy_comp_cntr().
 * Errors: EOPNOTSUPP, EINVAL, ENOMEM. Source: efadv_create_comp_cntr(3).
 */
struct ibv_comp_cntr *efadv_create_comp_cntr(struct ibv_context *ibvctx,
                                             struct ibv_comp_cntr_init_attr *attr,
                                             struct efadv_comp_cntr_init_attr *efa_attr,
                                             uint32_t inlen);

#ifdef __cplusplus
}
#endif

#endif
