// SPDX-License-Identifier: MIT
/**
 * @file ib.h
 * Native InfiniBand socket addresses, for librdmacm's port space RDMA_PS_IB.
 *
 * Source: rdma_getaddrinfo(3), Linux include/rdma/ib.h.
 */
#ifndef _RDMA_IB_H
#define _RDMA_IB_H

#include <endian.h>
#include <linux/types.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef AF_IB
/** Address family of struct sockaddr_ib. */
#define AF_IB 27
#endif
#ifndef PF_IB
#define PF_IB AF_IB
#endif

/** A 128-bit GID, readable in any width. Big endian. */
struct ib_addr {
    union {
        __u8 uib_addr8[16];
        __be16 uib_addr16[8];
        __be32 uib_addr32[4];
        __be64 uib_addr64[2];
    } ib_u;
#define sib_addr8 ib_u.uib_addr8
#define sib_addr16 ib_u.uib_addr16
#define sib_addr32 ib_u.uib_addr32
#define sib_addr64 ib_u.uib_addr64
#define sib_raw ib_u.uib_addr8
#define sib_subnet_prefix ib_u.uib_addr64[0]
#define sib_interface_id ib_u.uib_addr64[1]
};

/** Non-zero if `a` is the wildcard, all zeros. */
static inline int ib_addr_any(const struct ib_addr *a)
{
    return a->sib_subnet_prefix == 0 && a->sib_interface_id == 0;
}

/** Non-zero if `a` is the loopback address, ::1. */
static inline int ib_addr_loopback(const struct ib_addr *a)
{
    return a->sib_subnet_prefix == 0 && a->sib_interface_id == htobe64(1);
}

/** Fills `addr` from four big-endian words, most significant first. */
static inline void ib_addr_set(struct ib_addr *addr, __be32 w1, __be32 w2, __be32 w3, __be32 w4)
{
    const __be32 words[4] = {w1, w2, w3, w4};

    memcpy(addr->sib_addr32, words, sizeof(words));
}

/** Orders two addresses as memcmp(3) does; 0 means equal. */
static inline int ib_addr_cmp(const struct ib_addr *a1, const struct ib_addr *a2)
{
    return memcmp(a1->sib_raw, a2->sib_raw, sizeof(a1->sib_raw));
}

/** Socket address of an InfiniBand service. */
struct sockaddr_ib {
    unsigned short int sib_family; /**< AF_IB */
    __be16 sib_pkey;
    __be32 sib_flowinfo;
    struct ib_addr sib_addr;
    __be64 sib_sid;      /**< service identifier: port space in the upper bits, port below */
    __be64 sib_sid_mask; /**< bits of sib_sid that count */
    __u64 sib_scope_id;
};

#ifdef __cplusplus
}
#endif

#endif
