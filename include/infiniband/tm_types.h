// SPDX-License-Identifier: MIT
/**
 * @file tm_types.h
 * Headers that a sender puts in front of a message for a tag-matching receive queue.
 *
 * Every field beyond the first word is big endian. Source: ibv_srq_init_attr_ex with
 * IBV_SRQT_TM, ibv_create_srq_ex(3).
 */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <linux/types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the message behind a tag-matching header is. */
enum ibv_tmh_op {
    IBV_TMH_NO_TAG = 0, /**< carries no tag: completes as IBV_WC_TM_NO_TAG */
    IBV_TMH_RNDV = 1,   /**< rendezvous: a struct ibv_rvh follows, the device fetches the data */
    IBV_TMH_FIN = 2,    /**< ends a rendezvous that the receiver's device carried out */
    IBV_TMH_EAGER = 3,  /**< the payload follows directly */
};

/** Tag-matching header: the first 16 bytes of a message to a TM-SRQ. */
struct ibv_tmh {
    uint8_t opcode;      /**< enum ibv_tmh_op */
    uint8_t reserved[3]; /**< zero */
    __be32 app_ctx;      /**< the program's own word, reported as ibv_wc_tm_info.priv */
    __be64 tag;          /**< compared with posted tags under their masks */
};

/** Rendezvous header: where the receiver's device reads the data from. */
struct ibv_rvh {
    __be64 va;   /**< sender's virtual address */
    __be32 rkey; /**< sender's remote key */
    __be32 len;  /**< bytes */
};

#ifdef __cplusplus
}
#endif

#endif
