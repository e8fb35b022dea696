// SPDX-License-Identifier: MIT
/**
 * @file hnsdv.h
 * Direct verbs for hns (HiSilicon HIP08 and later): congestion control per queue pair.
 *
 * A function returning int returns 0 or a positive errno value, one returning a pointer returns
 * NULL with errno set. All may be called by several threads at once. Integers are in host byte
 * order. Source: hnsdv(7).
 */
#ifndef __HNSDV_H__
#define __HNSDV_H__

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Congestion control algorithms: a set in a capability, one alone for a QP. */
enum hnsdv_qp_congest_ctrl_type {
    HNSDV_QP_CREATE_ENABLE_DCQCN = 1 << 0, /**< Data Center Quantized Congestion Notification */
    HNSDV_QP_CREATE_ENABLE_LDCP = 1 << 1,  /**< Low Delay Control Protocol */
    HNSDV_QP_CREATE_ENABLE_HC3 = 1 << 2,   /**< Huawei Converged Congestion Control */
    HNSDV_QP_CREATE_ENABLE_DIP = 1 << 3,   /**< DCQCN kept per destination address */
};

/** hnsdv_qp_init_attr.comp_mask */
enum hnsdv_qp_init_attr_mask {
    HNSDV_QP_INIT_ATTR_MASK_QP_CONGEST_TYPE = 1 << 1, /**< congest_type */
};

/** hns options of a QP. */
struct hnsdv_qp_init_attr {
    uint64_t comp_mask;    /**< hnsdv_qp_init_attr_mask */
    uint32_t create_flags; /**< must be 0 */
    uint8_t congest_type;  /**< one hnsdv_qp_congest_ctrl_type */
    uint8_t reserved[3];
};

/** hnsdv_context.comp_mask: which members are valid. */
enum hnsdv_query_context_comp_mask {
    HNSDV_CONTEXT_MASK_CONGEST_TYPE = 1 << 0, /**< congest_type */
};

/** What hnsdv_query_device() reports. */
struct hnsdv_context {
    uint64_t comp_mask;   /**< hnsdv_query_context_comp_mask */
    uint64_t flags;       /**< 0 */
    uint8_t congest_type; /**< set of hnsdv_qp_congest_ctrl_type */
    uint8_t reserved[7];
};

/**
 * Whether device belongs to this library; no other hnsdv call may be used on it if not.
 * Source: hnsdv_is_supported(3).
 */
bool hnsdv_is_supported(struct ibv_device *device);

/**
 * Reports abilities of the device that ibv_query_device_ex() does not know.
 * Errors: EOPNOTSUPP (not an hns device), EINVAL. Source: hnsdv_query_device(3).
 */
int hnsdv_query_device(struct ibv_context *ctx_in, struct hnsdv_context *attrs_out);

/**
 * ibv_create_qp_ex() with hns options. Destroy with ibv_destroy_qp().
 * Errors: EOPNOTSUPP (not an hns device, or no such algorithm), EINVAL, ENOMEM.
 * Source: hnsdv_create_qp(3).
 */
struct ibv_qp *hnsdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_attr,
                               struct hnsdv_qp_init_attr *hns_qp_attr);

#ifdef __cplusplus
}
#endif

#endif
