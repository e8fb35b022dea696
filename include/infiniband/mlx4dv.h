// SPDX-License-Identifier: MIT
/**
 * @file mlx4dv.h
 * Direct verbs for mlx4 (ConnectX-3): the hardware's own queues, and a few more options.
 *
 * Conventions, unless a comment says otherwise:
 *   - a function returning int returns 0 or a positive errno value, one returning a pointer
 *     returns NULL with errno set;
 *   - calls may come from several threads at once on different objects; who works on raw queue
 *     memory does its own locking, and does not mix that with ibv_post_* and ibv_poll_cq();
 *   - a comp_mask says which optional members are valid, in input and in output;
 *   - __be16, __be32 and __be64 are big-endian, everything else is in host byte order;
 *   - sizes are bytes; a shift is the base-2 logarithm of a size.
 *
 * Sources: mlx4dv(7) and the manual page of each function; ConnectX-3 Programmer's Reference
 * Manual (PRM) for everything the device reads or writes.
 */
#ifndef VERBATIM_INFINIBAND_MLX4DV_H
#define VERBATIM_INFINIBAND_MLX4DV_H

#include <endian.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** For helpers so small that a call would cost more than their work. */
#ifdef __GNUC__
#define MLX4DV_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define MLX4DV_ALWAYS_INLINE inline
#endif

/* ======================================================================================== */
/* Device                                                                                   */
/* ======================================================================================== */

/** What mlx4dv_query_device() reports. */
struct mlx4dv_context {
    uint8_t version;          /**< format of the hardware records in this header: 0 */
    uint32_t max_inl_recv_sz; /**< largest mlx4dv_qp_init_attr.inl_recv_sz; 0: none */
    uint64_t comp_mask;       /**< 0 */
};

/**
 * Reports abilities of the device that ibv_query_device_ex() does not know.
 * Errors: EOPNOTSUPP (not an mlx4 device). Source: mlx4dv_query_device(3).
 */
int mlx4dv_query_device(struct ibv_context *ctx_in, struct mlx4dv_context *attrs_out);

/** mlx4dv_set_context_attr(): what attr points to. */
enum mlx4dv_set_ctx_attr_type {
    MLX4DV_SET_CTX_ATTR_LOG_WQS_RANGE_SZ = 0, /**< uint8_t: work queues reserved at a time for RSS */
    MLX4DV_SET_CTX_ATTR_BUF_ALLOCATORS = 1,   /**< struct mlx4dv_ctx_allocators */
};

/** Callbacks that supply the memory of queues and doorbell records. */
struct mlx4dv_ctx_allocators {
    void *(*alloc)(size_t size, void *priv_data);
    void (*free)(void *ptr, void *priv_data);
    void *data; /**< handed to both as priv_data */
};

/**
 * Changes a property of an open device for objects created from now on.
 *
 * Not safe against calls that create objects on the same context.
 * Errors: EOPNOTSUPP, ENOTSUP (unknown type). Source: mlx4dv_set_context_attr(3).
 */
int mlx4dv_set_context_attr(struct ibv_context *context, enum mlx4dv_set_ctx_attr_type attr_type,
                            void *attr);

/* ======================================================================================== */
/* Queue pairs with more options                                                            */
/* ======================================================================================== */

/** mlx4dv_qp_init_attr.comp_mask */
enum mlx4dv_qp_init_attr_mask {
    MLX4DV_QP_INIT_ATTR_MASK_INL_RECV = 1 << 0, /**< inl_recv_sz */
    MLX4DV_QP_INIT_ATTR_MASK_RESERVED = 1 << 1,
};

/** mlx4 options of a QP. */
struct mlx4dv_qp_init_attr {
    uint64_t comp_mask; /**< mlx4dv_qp_init_attr_mask */
    /** In: largest payload the device may put into the receive WQE; out: what it will. */
    uint32_t inl_recv_sz;
};

/**
 * ibv_create_qp_ex() with mlx4 options. Destroy with ibv_destroy_qp().
 * Errors: EINVAL (unknown bits, inl_recv_sz without a receive queue), EOPNOTSUPP, ENOMEM.
 * Source: mlx4dv_create_qp, see mlx4dv(7).
 */
struct ibv_qp *mlx4dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                struct mlx4dv_qp_init_attr *mlx4_qp_attr);

/* ======================================================================================== */
/* The memory behind verbs objects                                                          */
/* ======================================================================================== */

/** mlx4dv_qp.comp_mask: in, wanted; out, valid. */
enum mlx4dv_qp_comp_mask {
    MLX4DV_QP_MASK_UAR_MMAP_OFFSET = 1 << 0,
};

/** The queues of a QP. To send: write the WQE, set its owner bit, store doorbell_qpn to *sdb. */
struct mlx4dv_qp {
    __be32 *rdb;         /**< counter of posted receive WQEs */
    uint32_t *sdb;       /**< send doorbell register */
    __be32 doorbell_qpn; /**< what to store there, as it is */
    struct {
        uint32_t wqe_cnt; /**< WQEs in the ring, a power of two */
        int wqe_shift;
        int offset;       /**< of the ring in buf */
    } sq;
    struct {
        uint32_t wqe_cnt;
        int wqe_shift;
        int offset;
    } rq;
    struct {
        void *buf;
        size_t length;
    } buf;
    uint64_t comp_mask;    /**< mlx4dv_qp_comp_mask */
    off_t uar_mmap_offset; /**< maps the page of sdb in another process */
};

/** mlx4dv_cq.comp_mask: in, wanted; out, valid. */
enum mlx4dv_cq_comp_mask {
    MLX4DV_CQ_MASK_UAR = 1 << 0,
};

/** The ring of a CQ. Asking for it leaves the consumer index to the caller: no ibv_poll_cq(). */
struct mlx4dv_cq {
    struct {
        void *buf;
        size_t length;
    } buf;
    uint32_t cqe_cnt; /**< entries in the ring, a power of two */
    uint32_t cqn;
    __be32 *set_ci_db;  /**< consumer index, 24 bits */
    __be32 *arm_db;     /**< arm request */
    int arm_sn;         /**< sequence number of the next arm request */
    int cqe_size;       /**< 32 or 64; of 64, the last 32 bytes are the CQE */
    uint64_t comp_mask; /**< mlx4dv_cq_comp_mask */
    void *cq_uar;       /**< doorbell page; arm by a store at MLX4_CQ_DOORBELL */
};

/** The ring of an SRQ, whose free WQEs are linked through mlx4_wqe_srq_next_seg. */
struct mlx4dv_srq {
    struct {
        void *buf;
        size_t length;
    } buf;
    int wqe_shift;
    int head;   /**< index of the first free WQE */
    int tail;   /**< index of the last free WQE */
    __be32 *db; /**< counter of posted WQEs */
    uint64_t comp_mask;
};

/** The ring of a receive work queue (ibv_wq). */
struct mlx4dv_rwq {
    __be32 *rdb; /**< counter of posted WQEs */
    struct {
        uint32_t wqe_cnt;
        int wqe_shift;
        int offset;
    } rq;
    struct {
        void *buf;
        size_t length;
    } buf;
    uint64_t comp_mask;
};

/** Pairs of a verbs object to look into and a record to fill, for mlx4dv_init_obj(). */
struct mlx4dv_obj {
    struct {
        struct ibv_qp *in;
        struct mlx4dv_qp *out;
    } qp;
    struct {
        struct ibv_cq *in;
        struct mlx4dv_cq *out;
    } cq;
    struct {
        struct ibv_srq *in;
        struct mlx4dv_srq *out;
    } srq;
    struct {
        struct ibv_wq *in;
        struct mlx4dv_rwq *out;
    } rwq;
};

/** Which pairs of an mlx4dv_obj to work on; may be combined. */
enum mlx4dv_obj_type {
    MLX4DV_OBJ_QP = 1 << 0,
    MLX4DV_OBJ_CQ = 1 << 1,
    MLX4DV_OBJ_SRQ = 1 << 2,
    MLX4DV_OBJ_RWQ = 1 << 3,
};

/**
 * Fills the out records of the pairs that obj_type (mlx4dv_obj_type bits) selects.
 *
 * The pointers stay valid until the object is destroyed or resized.
 * Errors: EOPNOTSUPP (not an mlx4 object). Source: mlx4dv_init_obj(3).
 */
int mlx4dv_init_obj(struct mlx4dv_obj *obj, uint64_t obj_type);

/* ======================================================================================== */
/* Operations                                                                               */
/* ======================================================================================== */

enum {
    /** Operations of a send WQE, repeated in its completion. */
    MLX4_OPCODE_NOP = 0x00,
    MLX4_OPCODE_SEND_INVAL = 0x01,
    MLX4_OPCODE_RDMA_WRITE = 0x08,
    MLX4_OPCODE_RDMA_WRITE_IMM = 0x09,
    MLX4_OPCODE_SEND = 0x0a,
    MLX4_OPCODE_SEND_IMM = 0x0b,
    MLX4_OPCODE_LSO = 0x0e,
    MLX4_OPCODE_RDMA_READ = 0x10,
    MLX4_OPCODE_ATOMIC_CS = 0x11,
    MLX4_OPCODE_ATOMIC_FA = 0x12,
    MLX4_OPCODE_MASKED_ATOMIC_CS = 0x14,
    MLX4_OPCODE_MASKED_ATOMIC_FA = 0x15,
    MLX4_OPCODE_BIND_MW = 0x18,
    MLX4_OPCODE_FMR = 0x19,
    MLX4_OPCODE_LOCAL_INVAL = 0x1b,
    MLX4_OPCODE_CONFIG_CMD = 0x1f,

    /** What arrived, in the completion of a receive WQE. */
    MLX4_RECV_OPCODE_RDMA_WRITE_IMM = 0x00,
    MLX4_RECV_OPCODE_SEND = 0x01,
    MLX4_RECV_OPCODE_SEND_IMM = 0x02,
    MLX4_RECV_OPCODE_SEND_INVAL = 0x03,

    /** Completions of either kind. */
    MLX4_CQE_OPCODE_ERROR = 0x1e,  /**< the entry is an mlx4_err_cqe */
    MLX4_CQE_OPCODE_RESIZE = 0x16, /**< continue in the new buffer */
};

/* ======================================================================================== */
/* Completion queue entries                                                                 */
/* ======================================================================================== */

/** Offset in the doorbell page where a CQ is armed. */
enum {
    MLX4_CQ_DOORBELL = 0x20,
};

/** What an armed CQ waits for: a solicited or failed completion, or any. */
#define MLX4_CQ_DB_REQ_NOT_SOL (1 << 24)
#define MLX4_CQ_DB_REQ_NOT (2 << 24)

/** Parts of mlx4_cqe.vlan_my_qpn. */
enum {
    MLX4_CQE_VLAN_PRESENT_MASK = 1 << 29,
    MLX4_CQE_QPN_MASK = 0xffffff,
};

/** Parts of mlx4_cqe.owner_sr_opcode. */
enum {
    MLX4_CQE_OWNER_MASK = 0x80, /**< changes with each lap of the ring */
    MLX4_CQE_IS_SEND_MASK = 0x40,
    MLX4_CQE_OPCODE_MASK = 0x1f,
};

/** mlx4_err_cqe.syndrome */
enum {
    MLX4_CQE_SYNDROME_LOCAL_LENGTH_ERR = 0x01,
    MLX4_CQE_SYNDROME_LOCAL_QP_OP_ERR = 0x02,
    MLX4_CQE_SYNDROME_LOCAL_PROT_ERR = 0x04,
    MLX4_CQE_SYNDROME_WR_FLUSH_ERR = 0x05,
    MLX4_CQE_SYNDROME_MW_BIND_ERR = 0x06,
    MLX4_CQE_SYNDROME_BAD_RESP_ERR = 0x10,
    MLX4_CQE_SYNDROME_LOCAL_ACCESS_ERR = 0x11,
    MLX4_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR = 0x12,
    MLX4_CQE_SYNDROME_REMOTE_ACCESS_ERR = 0x13,
    MLX4_CQE_SYNDROME_REMOTE_OP_ERR = 0x14,
    MLX4_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR = 0x15,
    MLX4_CQE_SYNDROME_RNR_RETRY_EXC_ERR = 0x16,
    MLX4_CQE_SYNDROME_REMOTE_ABORTED_ERR = 0x22,
};

/** A failed completion (MLX4_CQE_OPCODE_ERROR). Multi-byte members are big-endian. */
struct mlx4_err_cqe {
    uint32_t vlan_my_qpn;
    uint32_t reserved1[5];
    uint16_t wqe_index;
    uint8_t vendor_err; /**< reported as ibv_wc.vendor_err */
    uint8_t syndrome;   /**< MLX4_CQE_SYNDROME_*, becomes ibv_wc.status */
    uint8_t reserved2[3];
    uint8_t owner_sr_opcode;
};

/** mlx4_cqe.status of a received packet. */
enum mlx4_cqe_status {
    MLX4_CQE_STATUS_TCP_UDP_CSUM_OK = 1 << 2,
    MLX4_CQE_STATUS_IPV4_PKT = 1 << 22,
    MLX4_CQE_STATUS_IP_HDR_CSUM_OK = 1 << 28,
    /** All three: an IPv4 packet with nothing wrong. */
    MLX4_CQE_STATUS_IPV4_CSUM_OK = MLX4_CQE_STATUS_IPV4_PKT | MLX4_CQE_STATUS_IP_HDR_CSUM_OK |
                                   MLX4_CQE_STATUS_TCP_UDP_CSUM_OK,
};

/** A completion. Read the rest after owner_sr_opcode. Source: PRM, CQE format. */
struct mlx4_cqe {
    __be32 vlan_my_qpn;       /**< MLX4_CQE_VLAN_PRESENT_MASK, MLX4_CQE_QPN_MASK */
    __be32 immed_rss_invalid; /**< immediate, hash, or invalidated key */
    __be32 g_mlpath_rqpn;     /**< GRH present 31, path bits 30..24, source QP 23..0 */
    union {
        struct {
            __be16 sl_vid; /**< service level 15..12, or VLAN tag */
            __be16 rlid;
        };
        __be32 ts_47_16; /**< timestamp, upper bits */
    };
    __be32 status; /**< mlx4_cqe_status, raw packets */
    __be32 byte_cnt;
    __be16 wqe_index;
    __be16 checksum;
    uint8_t reserved3;
    uint8_t ts_15_8;
    uint8_t ts_7_0;
    uint8_t owner_sr_opcode;
};

/** The owner bit of a CQE in its place: 0 or MLX4_CQE_OWNER_MASK. */
static MLX4DV_ALWAYS_INLINE uint8_t mlx4dv_get_cqe_owner(struct mlx4_cqe *cqe)
{
    return cqe->owner_sr_opcode & MLX4_CQE_OWNER_MASK;
}

/** Sets the owner bit of a CQE to that bit of val (MLX4_CQE_OWNER_MASK). */
static MLX4DV_ALWAYS_INLINE void mlx4dv_set_cqe_owner(struct mlx4_cqe *cqe, uint8_t val)
{
    const unsigned others = cqe->owner_sr_opcode & 0x7fU;

    cqe->owner_sr_opcode = (uint8_t)(others | (val & MLX4_CQE_OWNER_MASK));
}

/** What the CQE reports: an MLX4_OPCODE_* if MLX4_CQE_IS_SEND_MASK is set, else MLX4_RECV_*. */
static MLX4DV_ALWAYS_INLINE uint8_t mlx4dv_get_cqe_opcode(struct mlx4_cqe *cqe)
{
    return cqe->owner_sr_opcode & MLX4_CQE_OPCODE_MASK;
}

/* ======================================================================================== */
/* Work queue entries                                                                       */
/* ======================================================================================== */

/** Offset of the send doorbell in its page. */
enum {
    MLX4_SEND_DOORBELL = 0x14,
};

/** Flags in the low byte of mlx4_wqe_ctrl_seg.srcrb_flags; FENCE goes into fence_size. */
enum {
    MLX4_WQE_CTRL_SOLICIT = 1 << 1,
    MLX4_WQE_CTRL_CQ_UPDATE = 3 << 2, /**< write a CQE even on success */
    MLX4_WQE_CTRL_IP_HDR_CSUM = 1 << 4,
    MLX4_WQE_CTRL_TCP_UDP_CSUM = 1 << 5,
    MLX4_WQE_CTRL_FENCE = 1 << 6, /**< wait for earlier reads and atomics */
    MLX4_WQE_CTRL_STRONG_ORDER = 1 << 7,
};

/** First segment of every send WQE. Source: PRM, control segment. */
struct mlx4_wqe_ctrl_seg {
    __be32 owner_opcode; /**< owner bit 31, MLX4_OPCODE_* in 4..0; write it last */
    union {
        struct {
            uint8_t reserved[3];
            uint8_t fence_size; /**< MLX4_WQE_CTRL_FENCE, size in 16-byte units 5..0 */
        };
        __be32 bf_qpn; /**< QP number 31..8 when the WQE goes to a BlueFlame register */
    };
    union {
        __be32 srcrb_flags; /**< start of a destination MAC 31..8, MLX4_WQE_CTRL_* 7..0 */
        __be16 srcrb_flags16[2];
    };
    __be32 imm; /**< immediate data, key to invalidate, or rest of the MAC */
};

/** Data segment's lkey that ends a receive WQE's list early. */
enum {
    MLX4_INVALID_LKEY = 0x100,
};

/** One scatter/gather element. Of a send WQE, byte_count must be written last. */
struct mlx4_wqe_data_seg {
    __be32 byte_count;
    __be32 lkey;
    __be64 addr;
};

/** Inline data: bit of byte_count, and the boundary that no piece may cross. */
enum {
    MLX4_INLINE_SEG = 0x80000000U,
    MLX4_INLINE_ALIGN = 64,
};

/** Head of inline data, which follows. */
struct mlx4_wqe_inline_seg {
    __be32 byte_count; /**< with MLX4_INLINE_SEG */
};

/** Head of an SRQ WQE: links the free list. */
struct mlx4_wqe_srq_next_seg {
    uint16_t reserved1;
    __be16 next_wqe_index;
    uint32_t reserved2[3];
};

/** Where a datagram goes. Source: PRM, UD address vector. */
struct mlx4_av {
    __be32 port_pd; /**< force loopback 31, port 25..24, PD 23..0 */
    uint8_t reserved1;
    uint8_t g_slid; /**< GRH present 7, path bits 6..0 */
    __be16 dlid;
    uint8_t reserved2;
    uint8_t gid_index;
    uint8_t stat_rate;
    uint8_t hop_limit;
    __be32 sl_tclass_flowlabel; /**< service level 31..28, traffic class 27..20, label 19..0 */
    uint8_t dgid[16];
};

/** Second segment of a UD send. */
struct mlx4_wqe_datagram_seg {
    struct mlx4_av av;
    __be32 dqpn;
    __be32 qkey;
    __be16 vlan;
    uint8_t mac[ETHERNET_LL_SIZE];
};

/** Target of RDMA write, read and atomics. */
struct mlx4_wqe_raddr_seg {
    __be64 raddr;
    __be32 rkey;
    __be32 reserved;
};

/** Operands of an 8-byte atomic. */
struct mlx4_wqe_atomic_seg {
    __be64 swap_add; /**< value to swap in, or to add */
    __be64 compare;
};

/** Head of a large send that the device cuts into packets; the packet header follows. */
struct mlx4_wqe_lso_seg {
    __be32 mss_hdr_size; /**< payload per packet 31..16, bytes of header 9..0 */
    __be32 header[0];
};

/** Second segment of MLX4_OPCODE_LOCAL_INVAL. */
struct mlx4_wqe_local_inval_seg {
    uint64_t reserved1;
    __be32 mem_key;
    uint32_t reserved2;
    uint64_t reserved3[2];
};

/** mlx4_wqe_bind_seg.flags1: what the window allows. */
enum {
    MLX4_WQE_MW_REMOTE_READ = 1 << 29,
    MLX4_WQE_MW_REMOTE_WRITE = 1 << 30,
    MLX4_WQE_MW_ATOMIC = 1U << 31,
};

/** mlx4_wqe_bind_seg.flags2: what kind of window. */
enum {
    MLX4_WQE_BIND_TYPE_2 = 1U << 31,
    MLX4_WQE_BIND_ZERO_BASED = 1 << 30,
};

/** Second segment of MLX4_OPCODE_BIND_MW. */
struct mlx4_wqe_bind_seg {
    __be32 flags1;   /**< MLX4_WQE_MW_* */
    __be32 flags2;   /**< MLX4_WQE_BIND_* */
    __be32 new_rkey; /**< of the window */
    __be32 lkey;     /**< of the region */
    __be64 addr;
    __be64 length;
};

/* ---- Writing segments ------------------------------------------------------------------- */

/**
 * Fills the control segment.
 *
 * @param owner_opcode  owner bit and MLX4_OPCODE_*; stored first: for a WQE that the device may
 *                      be looking at, pass the old owner bit and turn it once all is written
 * @param fence_size    MLX4_WQE_CTRL_FENCE and the length of the WQE in 16-byte units
 * @param srcrb_flags   MLX4_WQE_CTRL_* in the low byte
 * @param imm           stored as it is: pass immediate data in network order, keys through
 *                      htobe32()
 */
static MLX4DV_ALWAYS_INLINE void mlx4dv_set_ctrl_seg(struct mlx4_wqe_ctrl_seg *seg,
                                                     uint32_t owner_opcode, uint8_t fence_size,
                                                     uint32_t srcrb_flags, uint32_t imm)
{
    seg->owner_opcode = htobe32(owner_opcode);
    seg->fence_size = fence_size;
    seg->srcrb_flags = htobe32(srcrb_flags);
    seg->imm = imm;
}

/** Fills a data segment: length bytes at address, under lkey. */
static MLX4DV_ALWAYS_INLINE void mlx4dv_set_data_seg(struct mlx4_wqe_data_seg *seg,
                                                     uint32_t length, uint32_t lkey,
                                                     uintptr_t address)
{
    seg->byte_count = htobe32(length);
    seg->lkey = htobe32(lkey);
    seg->addr = htobe64(address);
}

/**
 * Fills a datagram segment; the packed words are explained at struct mlx4_av.
 *
 * @param dgid  16 bytes
 * @param dqpn  destination QP, 24 bits
 * @param mac   6 bytes; counts, with vlan, on Ethernet only
 */
static MLX4DV_ALWAYS_INLINE void
mlx4dv_set_dgram_seg(struct mlx4_wqe_datagram_seg *seg, uint32_t port_pd, uint8_t g_slid,
                     uint16_t dlid, uint8_t gid_index, uint8_t stat_rate, uint8_t hop_limit,
                     uint32_t sl_tclass_flowlabel, uint8_t *dgid, uint32_t dqpn, uint32_t qkey,
                     uint16_t vlan, uint8_t *mac)
{
    struct mlx4_av *av = &seg->av;

    av->port_pd = htobe32(port_pd);
    av->g_slid = g_slid;
    av->dlid = htobe16(dlid);
    av->gid_index = gid_index;
    av->stat_rate = stat_rate;
    av->hop_limit = hop_limit;
    av->sl_tclass_flowlabel = htobe32(sl_tclass_flowlabel);
    memcpy(av->dgid, dgid, sizeof(av->dgid));
    seg->dqpn = htobe32(dqpn);
    seg->qkey = htobe32(qkey);
    seg->vlan = htobe16(vlan);
    memcpy(seg->mac, mac, sizeof(seg->mac));
}

#ifdef __cplusplus
}
#endif

#endif
