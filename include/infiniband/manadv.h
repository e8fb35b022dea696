// SPDX-License-Identifier: MIT
/**
 * @file manadv.h
 * Direct verbs for mana (Microsoft Azure Network Adapter): the queues of raw packet QPs.
 *
 * The program gives the queue memory, writes work queue entries and rings doorbells itself.
 * A function returns 0 or a positive errno value. Calls may come from several threads at once
 * on different objects. Integers are in host byte order, sizes are bytes. Source: manadv(7).
 */
#ifndef VERBATIM_INFINIBAND_MANADV_H
#define VERBATIM_INFINIBAND_MANADV_H

#include <endian.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** manadv_set_context_attr(): what attr points to. */
enum manadv_set_ctx_attr_type {
    MANADV_CTX_ATTR_BUF_ALLOCATORS = 0, /**< struct manadv_ctx_allocators */
};

/** Callbacks that supply the memory of queues; without them no raw packet QP can be made. */
struct manadv_ctx_allocators {
    void *(*alloc)(size_t size, void *priv_data); /**< page-aligned memory, or NULL */
    void (*free)(void *ptr, void *priv_data);
    void *data; /**< handed to both as priv_data */
};

/**
 * Changes a property of an open device for objects created from now on.
 *
 * Not safe against calls that create objects on the same context.
 * Errors: EOPNOTSUPP (unknown type). Source: manadv_set_context_attr(3).
 */
int manadv_set_context_attr(struct ibv_context *ibv_ctx, enum manadv_set_ctx_attr_type type,
                            void *attr);

/** The send queue of a raw packet QP. */
struct manadv_qp {
    void *sq_buf;
    uint32_t sq_count;     /**< work requests it was made for */
    uint32_t sq_size;      /**< of sq_buf */
    uint32_t sq_id;        /**< for the doorbell */
    uint32_t tx_vp_offset; /**< virtual port to name in each work queue entry */
    void *db_page;         /**< doorbell page */
};

/** The ring of a CQ. */
struct manadv_cq {
    void *buf;
    uint32_t count; /**< entries in the ring */
    uint32_t cq_id; /**< for the doorbell */
};

/** The ring of a receive work queue (ibv_wq). */
struct manadv_rwq {
    void *buf;
    uint32_t count; /**< work requests it was made for */
    uint32_t size;  /**< of buf */
    uint32_t wq_id; /**< for the doorbell */
    void *db_page;  /**< doorbell page */
};

/** Pairs of a verbs object to look into and a record to fill, for manadv_init_obj(). */
struct manadv_obj {
    struct {
        struct ibv_qp *in;
        struct manadv_qp *out;
    } qp;
    struct {
        struct ibv_cq *in;
        struct manadv_cq *out;
    } cq;
    struct {
        struct ibv_wq *in;
        struct manadv_rwq *out;
    } rwq;
};

/** Which pairs of a manadv_obj to work on; may be combined. */
enum manadv_obj_type {
    MANADV_OBJ_QP = 1 << 0,
    MANADV_OBJ_CQ = 1 << 1,
    MANADV_OBJ_RWQ = 1 << 2,
};

/**
 * Fills the out records of the pairs that obj_type (manadv_obj_type bits) selects.
 *
 * The pointers stay valid until the object is destroyed.
 * Errors: EOPNOTSUPP (unknown bits). Source: manadv_init_obj(3).
 */
int manadv_init_obj(struct manadv_obj *obj, uint64_t obj_type);

#ifdef __cplusplus
}
#endif

#endif
