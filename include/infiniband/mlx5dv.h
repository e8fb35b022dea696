// SPDX-License-Identifier: MIT
/**
 * @file mlx5dv.h
 * Direct verbs for mlx5 (ConnectX-4 and later): what ibv_* calls leave out.
 *
 * Three layers, each usable without the next:
 *   - verbs with more options: mlx5dv_create_qp(), mlx5dv_create_cq(), mkeys, steering;
 *   - the hardware's own queues: mlx5dv_init_obj() shows their memory, the WQE and CQE records
 *     below say how to write and read them;
 *   - DEVX: command mailboxes in the device's format.
 *
 * Conventions, unless a comment says otherwise:
 *   - a function returning int returns 0 or a positive errno value, one returning a pointer
 *     returns NULL with errno set; EOPNOTSUPP where the device lacks the feature;
 *   - calls may come from several threads at once; destroying an object while another call uses
 *     it is the caller's mistake; setters of work requests belong to the thread that holds
 *     ibv_wr_start() open;
 *   - a comp_mask says which optional members are valid; bits unknown to the library are refused
 *     in input (EINVAL or EOPNOTSUPP) and never set in output;
 *   - __be16, __be32 and __be64 are big-endian, everything else is in host byte order;
 *   - sizes are bytes; a member named log_x is the base-2 logarithm of x.
 *
 * Sources: mlx5dv(7) and the manual page of each function; ConnectX Programmer's Reference
 * Manual (PRM) for everything the device reads or writes.
 */
#ifndef VERBATIM_INFINIBAND_MLX5DV_H
#define VERBATIM_INFINIBAND_MLX5DV_H

#include <endian.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

#include <infiniband/mlx5_api.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** For helpers so small that a call would cost more than their work. */
#ifdef __GNUC__
#define MLX5DV_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define MLX5DV_ALWAYS_INLINE inline
#endif

struct mlx5dv_crypto_login_obj; /**< a session that may load wrapped keys */
struct mlx5dv_dek;              /**< a data encryption key held by the device */
struct mlx5dv_devx_obj;         /**< an object made by a DEVX command */
struct mlx5dv_dr_action;        /**< what happens to a packet that hits a rule */
struct mlx5dv_dr_domain;        /**< the tables of one pipeline */
struct mlx5dv_dr_matcher;       /**< rules of one table that look at the same fields */
struct mlx5dv_dr_rule;          /**< values to match and actions to run */
struct mlx5dv_dr_table;         /**< matchers, tried in order of priority */
struct mlx5dv_flow_matcher;     /**< fields that rules of mlx5dv_create_flow() look at */
struct mlx5dv_sched_leaf;       /**< scheduling element that QPs attach to */
struct mlx5dv_sched_node;       /**< scheduling element that shares bandwidth among others */
struct mlx5_wqe_av;

/* ======================================================================================== */
/* Opening a device                                                                         */
/* ======================================================================================== */

/** Whether device belongs to this library; no other mlx5dv call may be used on it if not. */
bool mlx5dv_is_supported(struct ibv_device *device);

/** mlx5dv_context_attr.flags */
enum mlx5dv_context_attr_flags {
    MLX5DV_CONTEXT_FLAGS_DEVX = 1 << 0, /**< the context may issue DEVX commands */
};

/** mlx5dv_context_attr.comp_mask */
enum mlx5dv_context_attr_comp_mask {
    MLX5DV_CONTEXT_ATTR_MASK_FD_ARRAY = 1 << 0, /**< fds is valid */
};

/** How to open a device, for mlx5dv_open_device(). */
struct mlx5dv_context_attr {
    uint32_t flags;     /**< mlx5dv_context_attr_flags */
    uint64_t comp_mask; /**< mlx5dv_context_attr_comp_mask */
    struct ibv_fd_arr *fds; /**< command descriptors to adopt */
};

/**
 * Opens a device with mlx5 options; close it with ibv_close_device().
 *
 * Errors: EOPNOTSUPP (not an mlx5 device, or DEVX is not allowed), EINVAL (unknown bits).
 * Source: mlx5dv_open_device(3).
 */
struct ibv_context *mlx5dv_open_device(struct ibv_device *device,
                                       struct mlx5dv_context_attr *attr);

/** mlx5dv_set_context_attr(): what attr points to. */
enum mlx5dv_set_ctx_attr_type {
    MLX5DV_CTX_ATTR_BUF_ALLOCATORS = 1, /**< struct mlx5dv_ctx_allocators */
};

/** Callbacks that supply the memory of queues and doorbell records. */
struct mlx5dv_ctx_allocators {
    void *(*alloc)(size_t size, void *priv_data); /**< NULL means: use the library's own */
    void (*free)(void *ptr, void *priv_data);
    void *data; /**< handed to both as priv_data */
};

/** Resource kinds in ibv_alloc_parent_domain() callbacks: what the memory is wanted for. */
#define MLX5DV_RES_TYPE_QP ((uint64_t)RDMA_DRIVER_MLX5 << 32 | 1)
#define MLX5DV_RES_TYPE_RWQ ((uint64_t)RDMA_DRIVER_MLX5 << 32 | 2)
#define MLX5DV_RES_TYPE_DBR ((uint64_t)RDMA_DRIVER_MLX5 << 32 | 3)
#define MLX5DV_RES_TYPE_SRQ ((uint64_t)RDMA_DRIVER_MLX5 << 32 | 4)
#define MLX5DV_RES_TYPE_CQ ((uint64_t)RDMA_DRIVER_MLX5 << 32 | 5)

/**
 * Changes a property of an open device for objects created from now on.
 *
 * Not safe against calls that create objects on the same context. Errors: EINVAL.
 * Source: mlx5dv(7).
 */
int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type,
                            void *attr);

/** Commands in the offset of an mmap() on the device's command descriptor. */
enum {
    MLX5_MMAP_GET_REGULAR_PAGES_CMD = 0, /**< doorbell page, write-combining */
    MLX5_MMAP_GET_NC_PAGES_CMD = 3,      /**< doorbell page, not cached */
};

/* ---- VFIO ------------------------------------------------------------------------------- */

/** mlx5dv_vfio_context_attr.flags */
enum mlx5dv_vfio_context_attr_flags {
    MLX5DV_VFIO_CTX_FLAGS_INIT_LINK_DOWN = 1 << 0, /**< leave the link down after start */
};

/** Which PCI function to drive from user space. */
struct mlx5dv_vfio_context_attr {
    const char *pci_name; /**< as in "0000:08:00.0" */
    uint32_t flags;       /**< mlx5dv_vfio_context_attr_flags */
    uint64_t comp_mask;   /**< must be 0 */
};

/**
 * Lists the functions that attr names and VFIO owns, ended by a NULL entry.
 *
 * Free the list with ibv_free_device_list() once the wanted devices are open.
 * Source: mlx5dv_get_vfio_device_list(3).
 */
struct ibv_device **mlx5dv_get_vfio_device_list(struct mlx5dv_vfio_context_attr *attr);

/** Descriptor, owned by the library, that is readable while mlx5dv_vfio_process_events() has work. */
int mlx5dv_vfio_get_events_fd(struct ibv_context *ibctx);

/** Handles pending device events of a VFIO context; also checks the device's health. */
int mlx5dv_vfio_process_events(struct ibv_context *context);

/* ======================================================================================== */
/* Capabilities                                                                             */
/* ======================================================================================== */

/** mlx5dv_context.comp_mask: in, what the caller asks for; out, what was filled in. */
enum mlx5dv_context_comp_mask {
    MLX5DV_CONTEXT_MASK_CQE_COMPRESION = 1 << 0,
    MLX5DV_CONTEXT_MASK_SWP = 1 << 1,
    MLX5DV_CONTEXT_MASK_STRIDING_RQ = 1 << 2,
    MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS = 1 << 3,
    MLX5DV_CONTEXT_MASK_DYN_BFREGS = 1 << 4,
    MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE = 1 << 5,
    MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS = 1 << 6,
    MLX5DV_CONTEXT_MASK_DC_ODP_CAPS = 1 << 7,
    MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK = 1 << 8,
    MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS = 1 << 9,
    MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD = 1 << 10,
    MLX5DV_CONTEXT_MASK_DCI_STREAMS = 1 << 11,
    MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH = 1 << 12,
    MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD = 1 << 13,
    MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM = 1 << 14,
    MLX5DV_CONTEXT_MASK_REG_C0 = 1 << 15,
    MLX5DV_CONTEXT_MASK_OOO_RECV_WRS = 1 << 16,
};

/** mlx5dv_context.flags */
enum mlx5dv_context_flags {
    MLX5DV_CONTEXT_FLAGS_CQE_V1 = 1 << 0,  /**< completions carry the user index */
    MLX5DV_CONTEXT_FLAGS_OBSOLETE = 1 << 1,
    MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED = 1 << 2,  /**< multi-packet send WQEs */
    MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW = 1 << 3, /**< ... with inline data and padding */
    MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP = 1 << 4, /**< 128-byte CQEs can be compressed */
    MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD = 1 << 5,  /**< 128-byte CQEs can be padded */
    MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE = 1 << 6, /**< see the QP create flag */
    MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS = 1 << 7, /**< wall-clock CQs get UTC timestamps */
    MLX5DV_CONTEXT_FLAGS_BLUEFLAME = 1 << 8,    /**< WQEs may be written into the doorbell page */
};

/** CQE compression: layouts of the mini CQEs in a compressed block. */
enum mlx5dv_cqe_comp_res_format {
    MLX5DV_CQE_RES_FORMAT_HASH = 1 << 0,
    MLX5DV_CQE_RES_FORMAT_CSUM = 1 << 1,
    MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX = 1 << 2,
};

/** CQE compression limits. */
struct mlx5dv_cqe_comp_caps {
    uint32_t max_num;          /**< most completions in one block; 0: no compression */
    uint32_t supported_format; /**< mlx5dv_cqe_comp_res_format */
};

/** Send offloads that work on header offsets given by software in each WQE. */
enum mlx5dv_sw_parsing_offloads {
    MLX5DV_SW_PARSING = 1 << 0,
    MLX5DV_SW_PARSING_CSUM = 1 << 1,
    MLX5DV_SW_PARSING_LSO = 1 << 2,
};

/** Software parsing limits. */
struct mlx5dv_sw_parsing_caps {
    uint32_t sw_parsing_offloads; /**< mlx5dv_sw_parsing_offloads */
    uint32_t supported_qpts;      /**< bit n: enum ibv_qp_type value n */
};

/** Striding receive queue limits, for mlx5dv_create_wq(). */
struct mlx5dv_striding_rq_caps {
    uint32_t min_single_stride_log_num_of_bytes;
    uint32_t max_single_stride_log_num_of_bytes;
    uint32_t min_single_wqe_log_num_of_strides;
    uint32_t max_single_wqe_log_num_of_strides;
    uint32_t supported_qpts; /**< bit n: enum ibv_qp_type value n */
};

/** DCI stream limits, for mlx5dv_create_qp(). */
struct mlx5dv_dci_streams_caps {
    uint8_t max_log_num_concurent; /**< streams in flight at a time */
    uint8_t max_log_num_errored;   /**< failed streams a DCI survives */
};

/** Tunnels whose inner headers a raw packet QP can offload. */
enum mlx5dv_tunnel_offloads {
    MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN = 1 << 0,
    MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE = 1 << 1,
    MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE = 1 << 2,
    MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_GRE = 1 << 3,
    MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_UDP = 1 << 4,
};

/** IPsec ESP (AES-GCM) flow action abilities. */
enum mlx5dv_flow_action_cap_flags {
    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM = 1 << 0,
    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA = 1 << 1,
    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING = 1 << 2,
    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_FULL_OFFLOAD = 1 << 3,
    MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN = 1 << 4,
};

/* ---- Signature -------------------------------------------------------------------------- */

/** Families of per-block integrity fields. */
enum mlx5dv_sig_type {
    MLX5DV_SIG_TYPE_T10DIF = 0, /**< 8 bytes: guard, application tag, reference tag */
    MLX5DV_SIG_TYPE_CRC = 1,    /**< 4 or 8 bytes of CRC */
};

/** Bit n: the device knows mlx5dv_sig_type n. */
enum mlx5dv_sig_prot_caps {
    MLX5DV_SIG_PROT_CAP_T10DIF = 1 << MLX5DV_SIG_TYPE_T10DIF,
    MLX5DV_SIG_PROT_CAP_CRC = 1 << MLX5DV_SIG_TYPE_CRC,
};

/** How a T10-DIF guard is computed. */
enum mlx5dv_sig_t10dif_bg_type {
    MLX5DV_SIG_T10DIF_CRC = 0,  /**< CRC-16 of T10 */
    MLX5DV_SIG_T10DIF_CSUM = 1, /**< IP checksum */
};

/** Bit n: the device knows mlx5dv_sig_t10dif_bg_type n. */
enum mlx5dv_sig_t10dif_bg_caps {
    MLX5DV_SIG_T10DIF_BG_CAP_CRC = 1 << MLX5DV_SIG_T10DIF_CRC,
    MLX5DV_SIG_T10DIF_BG_CAP_CSUM = 1 << MLX5DV_SIG_T10DIF_CSUM,
};

/** CRC polynomials. */
enum mlx5dv_sig_crc_type {
    MLX5DV_SIG_CRC_TYPE_CRC32 = 0,      /**< 4 bytes */
    MLX5DV_SIG_CRC_TYPE_CRC32C = 1,     /**< 4 bytes, Castagnoli */
    MLX5DV_SIG_CRC_TYPE_CRC64_XP10 = 2, /**< 8 bytes */
};

/** Bit n: the device knows mlx5dv_sig_crc_type n. */
enum mlx5dv_sig_crc_type_caps {
    MLX5DV_SIG_CRC_TYPE_CAP_CRC32 = 1 << MLX5DV_SIG_CRC_TYPE_CRC32,
    MLX5DV_SIG_CRC_TYPE_CAP_CRC32C = 1 << MLX5DV_SIG_CRC_TYPE_CRC32C,
    MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10 = 1 << MLX5DV_SIG_CRC_TYPE_CRC64_XP10,
};

/** Bytes of data per signature block or crypto data unit. */
enum mlx5dv_block_size {
    MLX5DV_BLOCK_SIZE_512 = 0,
    MLX5DV_BLOCK_SIZE_520 = 1,
    MLX5DV_BLOCK_SIZE_4048 = 2,
    MLX5DV_BLOCK_SIZE_4096 = 3,
    MLX5DV_BLOCK_SIZE_4160 = 4,
};

/** Bit n: the device knows mlx5dv_block_size n. */
enum mlx5dv_block_size_caps {
    MLX5DV_BLOCK_SIZE_CAP_512 = 1 << MLX5DV_BLOCK_SIZE_512,
    MLX5DV_BLOCK_SIZE_CAP_520 = 1 << MLX5DV_BLOCK_SIZE_520,
    MLX5DV_BLOCK_SIZE_CAP_4048 = 1 << MLX5DV_BLOCK_SIZE_4048,
    MLX5DV_BLOCK_SIZE_CAP_4096 = 1 << MLX5DV_BLOCK_SIZE_4096,
    MLX5DV_BLOCK_SIZE_CAP_4160 = 1 << MLX5DV_BLOCK_SIZE_4160,
};

/** Signature offload abilities; all zero where there are none. */
struct mlx5dv_sig_caps {
    uint64_t block_size; /**< mlx5dv_block_size_caps */
    uint32_t block_prot; /**< mlx5dv_sig_prot_caps */
    uint16_t t10dif_bg;  /**< mlx5dv_sig_t10dif_bg_caps */
    uint16_t crc_type;   /**< mlx5dv_sig_crc_type_caps */
};

/* ---- Crypto ----------------------------------------------------------------------------- */

/** Ciphers the device can run on data in flight. */
enum mlx5dv_crypto_engines_caps {
    MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS = 1 << 0, /**< older name of the next */
    MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK = 1 << 1, /**< one data unit per transfer */
    MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK = 1 << 2,
};

/** Ciphers whose keys must be given wrapped, which needs a crypto login. */
enum mlx5dv_crypto_wrapped_import_method_caps {
    MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS = 1 << 0,
};

/** mlx5dv_crypto_caps.flags */
enum mlx5dv_crypto_caps_flags {
    MLX5DV_CRYPTO_CAPS_CRYPTO = 1 << 0,              /**< crypto is enabled */
    MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL = 1 << 1, /**< logins are possible */
    MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_GOING_TO_COMMISSIONING = 1 << 2, /**< not after a reset */
};

/** Crypto offload abilities. */
struct mlx5dv_crypto_caps {
    uint16_t failed_selftests;     /**< 0: all passed; else the engines may be unusable */
    uint8_t crypto_engines;        /**< mlx5dv_crypto_engines_caps */
    uint8_t wrapped_import_method; /**< mlx5dv_crypto_wrapped_import_method_caps */
    uint8_t log_max_num_deks;      /**< data encryption keys at a time */
    uint32_t flags;                /**< mlx5dv_crypto_caps_flags */
};

/* ---- The whole -------------------------------------------------------------------------- */

/** Longest receive queue of an out-of-order QP (MLX5DV_QP_CREATE_OOO_DP), per type; 0: none. */
struct mlx5dv_ooo_recv_wrs_caps {
    uint32_t max_rc;
    uint32_t max_xrc;
    uint32_t max_dct;
    uint32_t max_ud;
    uint32_t max_uc;
};

/** What mlx5dv_query_device() reports. Members from cqe_comp_caps on depend on comp_mask. */
struct mlx5dv_context {
    uint8_t version;    /**< format of the hardware records in this header: 0 */
    uint64_t flags;     /**< mlx5dv_context_flags */
    uint64_t comp_mask; /**< mlx5dv_context_comp_mask */
    struct mlx5dv_cqe_comp_caps cqe_comp_caps;
    struct mlx5dv_sw_parsing_caps sw_parsing_caps;
    struct mlx5dv_striding_rq_caps striding_rq_caps;
    uint32_t tunnel_offloads_caps; /**< mlx5dv_tunnel_offloads */
    uint32_t max_dynamic_bfregs;   /**< doorbell registers that can be allocated one by one */
    uint64_t max_clock_info_update_nsec; /**< longest useful age of an mlx5dv_clock_info */
    uint32_t flow_action_flags;    /**< mlx5dv_flow_action_cap_flags */
    uint32_t dc_odp_caps;          /**< enum ibv_odp_transport_cap_bits */
    void *hca_core_clock;          /**< mapped free-running 64-bit device clock, or NULL */
    uint8_t num_lag_ports;         /**< above 1: the ports form a LAG */
    struct mlx5dv_sig_caps sig_caps;
    struct mlx5dv_dci_streams_caps dci_streams_caps;
    size_t max_wr_memcpy_length;   /**< longest mlx5dv_wr_memcpy(); 0: none */
    struct mlx5dv_crypto_caps crypto_caps;
    uint64_t max_dc_rd_atom;      /**< reads and atomics a DCT answers at a time */
    uint64_t max_dc_init_rd_atom; /**< reads and atomics a DCI keeps in flight */
    struct mlx5dv_reg reg_c0;     /**< marks packets of the own vport in the FDB */
    struct mlx5dv_ooo_recv_wrs_caps ooo_recv_wrs_caps;
};

/**
 * Reports abilities of the device that ibv_query_device_ex() does not know.
 *
 * Set attrs_out->comp_mask to the parts wanted; on return it holds those that are valid.
 * Source: mlx5dv_query_device(3).
 */
int mlx5dv_query_device(struct ibv_context *ctx_in, struct mlx5dv_context *attrs_out);

/** mlx5dv_query_port() for a record of info_len bytes. */
int _mlx5dv_query_port(struct ibv_context *context, uint32_t port_num, struct mlx5dv_port *info,
                       size_t info_len);

/**
 * Reports the embedded switch's view of a port (1 .. number of ports); info->flags says which
 * members are valid. Errors: EINVAL (no such port). Source: mlx5dv_query_port(3).
 */
static inline int mlx5dv_query_port(struct ibv_context *context, uint32_t port_num,
                                    struct mlx5dv_port *info)
{
    return _mlx5dv_query_port(context, port_num, info, sizeof(*info));
}

/**
 * Writes the sysfs path (without the leading /sys/) of the Data Direct function into buf.
 *
 * Errors: ENODEV (there is none), ENOSPC (buf_len is too small).
 * Source: mlx5dv_get_data_direct_sysfs_path(3).
 */
int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *buf, size_t buf_len);

/* ---- Device clock ----------------------------------------------------------------------- */

/** A reading of the device clock beside the wall clock, and the rate between them. */
struct mlx5dv_clock_info {
    uint64_t nsec;        /**< wall clock at the reading, nanoseconds */
    uint64_t last_cycles; /**< device clock at the reading, cycles */
    uint64_t frac;        /**< part of a nanosecond left over, in units of 2^-shift */
    uint32_t mult;        /**< nanoseconds per cycle, in units of 2^-shift */
    uint32_t shift;
    uint64_t mask;        /**< which bits the device clock has */
};

/**
 * Takes a reading for mlx5dv_ts_to_ns(); good for max_clock_info_update_nsec.
 * Source: mlx5dv_get_clock_info(3).
 */
int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *clock_info);

/**
 * Translates a completion's timestamp (cycles) to wall-clock nanoseconds.
 *
 * A timestamp that lies less than half the clock's range after the reading counts as later,
 * any other as earlier. Source: mlx5dv_ts_to_ns(3).
 */
static inline uint64_t mlx5dv_ts_to_ns(struct mlx5dv_clock_info *clock_info,
                                       uint64_t device_timestamp)
{
    const uint64_t mask = clock_info->mask;
    const uint64_t after = (device_timestamp - clock_info->last_cycles) & mask;

    if (after <= mask / 2)
        return clock_info->nsec +
               ((after * clock_info->mult + clock_info->frac) >> clock_info->shift);

    const uint64_t before = (clock_info->last_cycles - device_timestamp) & mask;
    return clock_info->nsec -
           ((before * clock_info->mult - clock_info->frac) >> clock_info->shift);
}

/* ======================================================================================== */
/* The memory behind verbs objects                                                          */
/* ======================================================================================== */

/** Index of each half of a queue pair's doorbell record. */
enum {
    MLX5_RCV_DBR = 0, /**< receive counter */
    MLX5_SND_DBR = 1, /**< send counter */
};

/** mlx5dv_qp.comp_mask: in, wanted; out, valid. */
enum mlx5dv_qp_comp_mask {
    MLX5DV_QP_MASK_UAR_MMAP_OFFSET = 1 << 0, /**< uar_mmap_offset */
    MLX5DV_QP_MASK_RAW_QP_HANDLES = 1 << 1,  /**< tirn, tisn, rqn, sqn of a raw packet QP */
    MLX5DV_QP_MASK_RAW_QP_TIR_ADDR = 1 << 2, /**< tir_icm_addr of a raw packet QP */
};

/** The queues of a QP. To send: write the WQE, then dbrec[MLX5_SND_DBR], then bf.reg. */
struct mlx5dv_qp {
    __be32 *dbrec; /**< two counters of WQE blocks, MLX5_RCV_DBR and MLX5_SND_DBR */
    struct {
        void *buf;
        uint32_t wqe_cnt; /**< blocks in the ring, a power of two */
        uint32_t stride;  /**< MLX5_SEND_WQE_BB */
    } sq;
    struct {
        void *buf;
        uint32_t wqe_cnt; /**< WQEs in the ring, a power of two; 0 with an SRQ */
        uint32_t stride;  /**< bytes per WQE, a power of two */
    } rq;
    struct {
        void *reg;     /**< where to store the first 8 bytes of the WQE */
        uint32_t size; /**< bytes of a BlueFlame buffer, two of which alternate; 0: doorbell only */
    } bf;
    uint64_t comp_mask;    /**< mlx5dv_qp_comp_mask */
    off_t uar_mmap_offset; /**< maps the doorbell page in another process */
    uint32_t tirn;
    uint32_t tisn;
    uint32_t rqn;
    uint32_t sqn;
    uint64_t tir_icm_addr;
};

/** The ring of a CQ. Asking for it leaves the consumer index to the caller: no ibv_poll_cq(). */
struct mlx5dv_cq {
    void *buf;
    __be32 *dbrec;     /**< [0] consumer index, [1] arm request: MLX5_CQ_DB_* with sequence */
    uint32_t cqe_cnt;  /**< entries in the ring, a power of two */
    uint32_t cqe_size; /**< 64 or 128; of 128, the last 64 bytes are the CQE */
    void *cq_uar;      /**< doorbell page; arm by a store at MLX5_CQ_DOORBELL */
    uint32_t cqn;
    uint64_t comp_mask; /**< 0 */
};

/** mlx5dv_srq.comp_mask: in, wanted; out, valid. */
enum mlx5dv_srq_comp_mask {
    MLX5DV_SRQ_MASK_SRQN = 1 << 0,
};

/** The ring of an SRQ, whose free WQEs are linked through mlx5_wqe_srq_next_seg. */
struct mlx5dv_srq {
    void *buf;
    __be32 *dbrec;      /**< counter of posted WQEs */
    uint32_t stride;    /**< bytes per WQE, a power of two */
    uint32_t head;      /**< index of the first free WQE */
    uint32_t tail;      /**< index of the last free WQE */
    uint64_t comp_mask; /**< mlx5dv_srq_comp_mask */
    uint32_t srqn;
};

/** The ring of a receive work queue (ibv_wq). */
struct mlx5dv_rwq {
    void *buf;
    __be32 *dbrec;    /**< counter of posted WQEs */
    uint32_t wqe_cnt; /**< a power of two */
    uint32_t stride;  /**< bytes per WQE, a power of two */
    uint64_t comp_mask;
};

/** mlx5dv_dm.comp_mask: in, wanted; out, valid. */
enum mlx5dv_dm_comp_mask {
    MLX5DV_DM_MASK_REMOTE_VA = 1 << 0,
};

/** Device memory as the program sees it. */
struct mlx5dv_dm {
    void *buf;          /**< mapping; NULL for memory that only the device can reach */
    uint64_t length;
    uint64_t comp_mask; /**< mlx5dv_dm_comp_mask */
    uint64_t remote_va; /**< address to use in steering commands */
};

/** An address handle in the form that a WQE wants it. */
struct mlx5dv_ah {
    struct mlx5_wqe_av *av; /**< lives as long as the handle; read only */
    uint64_t comp_mask;
};

/** A protection domain's number. */
struct mlx5dv_pd {
    uint32_t pdn;
    uint64_t comp_mask;
};

/** A DEVX object's handle on the command interface. */
struct mlx5dv_devx {
    uint32_t handle;
};

/** Pairs of a verbs object to look into and a record to fill, for mlx5dv_init_obj(). */
struct mlx5dv_obj {
    struct {
        struct ibv_qp *in;
        struct mlx5dv_qp *out;
    } qp;
    struct {
        struct ibv_cq *in;
        struct mlx5dv_cq *out;
    } cq;
    struct {
        struct ibv_srq *in;
        struct mlx5dv_srq *out;
    } srq;
    struct {
        struct ibv_wq *in;
        struct mlx5dv_rwq *out;
    } rwq;
    struct {
        struct ibv_dm *in;
        struct mlx5dv_dm *out;
    } dm;
    struct {
        struct ibv_ah *in;
        struct mlx5dv_ah *out;
    } ah;
    struct {
        struct ibv_pd *in;
        struct mlx5dv_pd *out;
    } pd;
    struct {
        struct mlx5dv_devx_obj *in;
        struct mlx5dv_devx *out;
    } devx;
};

/** Which pairs of an mlx5dv_obj to work on; may be combined. */
enum mlx5dv_obj_type {
    MLX5DV_OBJ_QP = 1 << 0,
    MLX5DV_OBJ_CQ = 1 << 1,
    MLX5DV_OBJ_SRQ = 1 << 2,
    MLX5DV_OBJ_RWQ = 1 << 3,
    MLX5DV_OBJ_DM = 1 << 4,
    MLX5DV_OBJ_AH = 1 << 5,
    MLX5DV_OBJ_PD = 1 << 6,
    MLX5DV_OBJ_DEVX = 1 << 7,
};

/**
 * Fills the out records of the pairs that obj_type (mlx5dv_obj_type bits) selects.
 *
 * The pointers stay valid until the object is destroyed or resized. Posting both through verbs
 * and through the raw queue of one object is not supported.
 * Errors: EINVAL (obj_type selects nothing), EOPNOTSUPP (not an mlx5 object).
 * Source: mlx5dv_init_obj(3).
 */
int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type);

/* ======================================================================================== */
/* Completion queue entries                                                                 */
/* ======================================================================================== */

/** mlx5dv_get_cqe_opcode() values, and the owner bit beside them. */
enum {
    MLX5_CQE_OWNER_MASK = 1,    /**< differs from the lap's parity while the device owns it */
    MLX5_CQE_REQ = 0,           /**< a send queue WQE is done */
    MLX5_CQE_RESP_WR_IMM = 1,   /**< arrived: RDMA write with immediate */
    MLX5_CQE_RESP_SEND = 2,     /**< arrived: send */
    MLX5_CQE_RESP_SEND_IMM = 3, /**< arrived: send with immediate */
    MLX5_CQE_RESP_SEND_INV = 4, /**< arrived: send with invalidate */
    MLX5_CQE_RESIZE_CQ = 5,     /**< continue in the new buffer */
    MLX5_CQE_NO_PACKET = 6,     /**< tag matching: no message involved */
    MLX5_CQE_SIG_ERR = 12,      /**< an mkey's signature did not verify */
    MLX5_CQE_REQ_ERR = 13,      /**< mlx5_err_cqe of a send queue WQE */
    MLX5_CQE_RESP_ERR = 14,     /**< mlx5_err_cqe of a receive WQE */
    MLX5_CQE_INVALID = 15,      /**< never written by the device */
};

/** Flags in mlx5_cqe64.op_own: the payload lies in the CQE (last 32 or first 64 bytes). */
enum {
    MLX5_INLINE_SCATTER_32 = 4,
    MLX5_INLINE_SCATTER_64 = 8,
};

/** mlx5_err_cqe.syndrome */
enum {
    MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR = 0x01,
    MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR = 0x02,
    MLX5_CQE_SYNDROME_LOCAL_PROT_ERR = 0x04,
    MLX5_CQE_SYNDROME_WR_FLUSH_ERR = 0x05,
    MLX5_CQE_SYNDROME_MW_BIND_ERR = 0x06,
    MLX5_CQE_SYNDROME_BAD_RESP_ERR = 0x10,
    MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR = 0x11,
    MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR = 0x12,
    MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR = 0x13,
    MLX5_CQE_SYNDROME_REMOTE_OP_ERR = 0x14,
    MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR = 0x15,
    MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR = 0x16,
    MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR = 0x22,
};

/** mlx5_err_cqe.vendor_err_synd: page fault on memory registered on demand. */
enum {
    MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT = 0x93,
};

/** Bits 0..2 of mlx5_cqe64.hds_ip_ext: which checksums of a received packet were good. */
enum {
    MLX5_CQE_L2_OK = 1 << 0,
    MLX5_CQE_L3_OK = 1 << 1,
    MLX5_CQE_L4_OK = 1 << 2,
};

/** Bits 2..3 of mlx5_cqe64.l4_hdr_type_etc: the packet's network layer. */
enum {
    MLX5_CQE_L3_HDR_TYPE_NONE = 0,
    MLX5_CQE_L3_HDR_TYPE_IPV6 = 1,
    MLX5_CQE_L3_HDR_TYPE_IPV4 = 2,
};

/** Offset in the doorbell page where a CQ is armed. */
enum {
    MLX5_CQ_DOORBELL = 0x20,
};

/** What an armed CQ waits for, in the arm word of its doorbell record. */
enum {
    MLX5_CQ_DB_REQ_NOT_SOL = 1 << 24, /**< a solicited or failed completion */
    MLX5_CQ_DB_REQ_NOT = 0 << 24,     /**< any completion */
};

/** A failed completion (MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR). Multi-byte members are big-endian. */
struct mlx5_err_cqe {
    uint8_t rsvd0[32];
    uint32_t srqn;
    uint8_t rsvd1[18];
    uint8_t vendor_err_synd;   /**< reported as ibv_wc.vendor_err */
    uint8_t syndrome;          /**< MLX5_CQE_SYNDROME_*, becomes ibv_wc.status */
    uint32_t s_wqe_opcode_qpn; /**< WQE opcode in the top byte, QP number below */
    uint16_t wqe_counter;
    uint8_t signature;
    uint8_t op_own;
};

/** Tag matching state in a CQE. */
struct mlx5_tm_cqe {
    __be32 success; /**< MLX5_TMC_SUCCESS */
    __be16 hw_phase_cnt;
    uint8_t rsvd0[12];
};

/** mlx5_tm_cqe.success: the operation on the tag list worked. */
enum {
    MLX5_TMC_SUCCESS = 0x80000000U,
};

/**
 * A completion: 64 bytes, valid once op_own says so. Read the rest after op_own.
 * Source: PRM, completion queue entry format.
 */
struct mlx5_cqe64 {
    union {
        struct {
            uint8_t rsvd0[2];
            __be16 wqe_id; /**< index of the WQE in a shared receive pool */
            uint8_t rsvd4[13];
            uint8_t ml_path;
            uint8_t rsvd20[4];
            __be16 slid;
            __be32 flags_rqpn;  /**< bits 29..28 GRH kind, 27..24 service level, below source QP */
            uint8_t hds_ip_ext; /**< MLX5_CQE_L2_OK and so on */
            uint8_t l4_hdr_type_etc;
            __be16 vlan_info;
        };
        struct mlx5_tm_cqe tm_cqe; /**< MLX5_CQE_NO_PACKET */
        struct ibv_tmh tmh;        /**< header of a matched or rendezvous message */
    };
    __be32 srqn_uidx;      /**< SRQ number or user index in the low 24 bits */
    __be32 imm_inval_pkey; /**< immediate, invalidated key, or P_Key index */
    uint8_t app;
    uint8_t app_op;
    __be16 app_info;
    __be32 byte_cnt;     /**< bytes received, or read */
    __be64 timestamp;    /**< device cycles, or UTC: seconds above, nanoseconds below */
    __be32 sop_drop_qpn; /**< send opcode or flow tag in the top byte, QP number below */
    __be16 wqe_counter;  /**< block index of the finished WQE, modulo 2^16 */
    uint8_t signature;   /**< makes the XOR of all bytes 0xff, where enabled */
    uint8_t op_own;      /**< opcode 7..4, format or inline flags 3..2, solicited 1, owner 0 */
};

/** The owner bit of a CQE. */
static MLX5DV_ALWAYS_INLINE uint8_t mlx5dv_get_cqe_owner(struct mlx5_cqe64 *cqe)
{
    return cqe->op_own & MLX5_CQE_OWNER_MASK;
}

/** Sets the owner bit of a CQE to the lowest bit of val. */
static MLX5DV_ALWAYS_INLINE void mlx5dv_set_cqe_owner(struct mlx5_cqe64 *cqe, uint8_t val)
{
    const unsigned others = cqe->op_own & 0xfeU;

    cqe->op_own = (uint8_t)(others | (val & MLX5_CQE_OWNER_MASK));
}

/** 1 if the sender asked for a solicited event. */
static MLX5DV_ALWAYS_INLINE uint8_t mlx5dv_get_cqe_se(struct mlx5_cqe64 *cqe)
{
    return (uint8_t)(cqe->op_own >> 1 & 1);
}

/** The CQE format: 0 none inline, 1 32 bytes inline, 2 64 bytes inline, 3 compressed. */
static MLX5DV_ALWAYS_INLINE uint8_t mlx5dv_get_cqe_format(struct mlx5_cqe64 *cqe)
{
    return (uint8_t)(cqe->op_own >> 2 & 3);
}

/** What the CQE reports: MLX5_CQE_REQ, MLX5_CQE_RESP_SEND, ... */
static MLX5DV_ALWAYS_INLINE uint8_t mlx5dv_get_cqe_opcode(struct mlx5_cqe64 *cqe)
{
    return (uint8_t)(cqe->op_own >> 4);
}

/* ======================================================================================== */
/* Work queue entries                                                                       */
/* ======================================================================================== */

/** A send WQE is a run of 64-byte blocks; its segments follow each other in 16-byte units. */
enum {
    MLX5_SEND_WQE_BB = 64,
    MLX5_SEND_WQE_SHIFT = 6,
};

/** Operations of a send WQE, in the control segment. */
enum {
    MLX5_OPCODE_NOP = 0x00,
    MLX5_OPCODE_SEND_INVAL = 0x01,
    MLX5_OPCODE_RDMA_WRITE = 0x08,
    MLX5_OPCODE_RDMA_WRITE_IMM = 0x09,
    MLX5_OPCODE_SEND = 0x0a,
    MLX5_OPCODE_SEND_IMM = 0x0b,
    MLX5_OPCODE_TSO = 0x0e,
    MLX5_OPCODE_RDMA_READ = 0x10,
    MLX5_OPCODE_ATOMIC_CS = 0x11,
    MLX5_OPCODE_ATOMIC_FA = 0x12,
    MLX5_OPCODE_ATOMIC_MASKED_CS = 0x14,
    MLX5_OPCODE_ATOMIC_MASKED_FA = 0x15,
    MLX5_OPCODE_FMR = 0x19,
    MLX5_OPCODE_LOCAL_INVAL = 0x1b,
    MLX5_OPCODE_CONFIG_CMD = 0x1f,
    MLX5_OPCODE_SET_PSV = 0x20,
    MLX5_OPCODE_UMR = 0x25,
    MLX5_OPCODE_TAG_MATCHING = 0x28,
    MLX5_OPCODE_FLOW_TBL_ACCESS = 0x2c,
    MLX5_OPCODE_MMO = 0x2f,
};

/** mlx5_wqe_ctrl_seg.fm_ce_se */
enum {
    MLX5_WQE_CTRL_CQ_UPDATE = 2 << 2, /**< write a CQE even on success */
    MLX5_WQE_CTRL_SOLICITED = 1 << 1,
    MLX5_WQE_CTRL_FENCE = 4 << 5,               /**< wait for earlier reads and atomics */
    MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE = 1 << 5, /**< wait for earlier local operations */
};

/** First segment of every send WQE. Source: PRM, WQE control segment. */
struct mlx5_wqe_ctrl_seg {
    __be32 opmod_idx_opcode; /**< modifier 31..24, block index 23..8, opcode 7..0 */
    __be32 qpn_ds;           /**< QP number 31..8, size in 16-byte units 5..0 */
    uint8_t signature;
    __be16 dci_stream_channel_id;
    uint8_t fm_ce_se; /**< MLX5_WQE_CTRL_* */
    __be32 imm;       /**< immediate data, key to invalidate, or mkey of a UMR */
} __attribute__((__packed__, __aligned__(4)));

/** Data segment's lkey that ends a receive WQE's list early. */
enum {
    MLX5_INVALID_LKEY = 0x100,
};

/** Bit of byte_count in a data segment: the data follows instead of an address. */
enum {
    MLX5_INLINE_SEG = 0x80000000U,
};

/** One scatter/gather element. A byte count of 0 means 2 GiB. */
struct mlx5_wqe_data_seg {
    __be32 byte_count;
    __be32 lkey;
    __be64 addr;
};

/** Head of inline data, which follows and is padded to 16 bytes. */
struct mlx5_wqe_inl_data_seg {
    uint32_t byte_count; /**< big-endian, with MLX5_INLINE_SEG */
};

/** Head of an SRQ WQE: links the free list. */
struct mlx5_wqe_srq_next_seg {
    uint8_t rsvd0[2];
    __be16 next_wqe_index;
    uint8_t signature;
    uint8_t rsvd1[11];
};

/** A multi-packet (striding) receive WQE. */
struct mlx5_mprq_wqe {
    struct mlx5_wqe_srq_next_seg nseg;
    struct mlx5_wqe_data_seg dseg;
};

/** Bit of mlx5_wqe_av.dqp_dct: the address vector is 48 bytes, not 16. */
enum {
    MLX5_EXTENDED_UD_AV = 0x80000000U,
};

/** Where a datagram or DC message goes. Source: PRM, UD address vector. */
struct mlx5_wqe_av {
    union {
        struct {
            __be32 qkey;
            __be32 reserved;
        } qkey;
        __be64 dc_key;
    } key;
    __be32 dqp_dct; /**< QP or DCT number, MLX5_EXTENDED_UD_AV */
    uint8_t stat_rate_sl;
    uint8_t fl_mlid;
    __be16 rlid; /**< LID, or UDP source port of RoCE v2 */
    uint8_t reserved0[4];
    uint8_t rmac[ETHERNET_LL_SIZE];
    uint8_t tclass;
    uint8_t hop_limit;
    __be32 grh_gid_fl; /**< GRH present 30, source GID index 27..20, flow label 19..0 */
    uint8_t rgid[16];
};

/** Second segment of a UD or DCI send. */
struct mlx5_wqe_datagram_seg {
    struct mlx5_wqe_av av;
};

/** Target of RDMA write, read and atomics. */
struct mlx5_wqe_raddr_seg {
    __be64 raddr;
    __be32 rkey;
    __be32 reserved;
};

/** Operands of an 8-byte atomic. */
struct mlx5_wqe_atomic_seg {
    __be64 swap_add; /**< value to swap in, or to add */
    __be64 compare;
};

/** mlx5_wqe_eth_seg.cs_flags: checksums that the device fills in. */
enum {
    MLX5_ETH_WQE_L3_CSUM = 1 << 6,
    MLX5_ETH_WQE_L4_CSUM = 1 << 7,
};

/** Second segment of a raw packet send: offloads and the first bytes of the frame. */
struct mlx5_wqe_eth_seg {
    __be32 rsvd0;
    uint8_t cs_flags; /**< MLX5_ETH_WQE_* */
    uint8_t rsvd1;
    __be16 mss; /**< TCP payload per packet of a TSO send, else 0 */
    __be32 rsvd2;
    __be16 inline_hdr_sz;
    uint8_t inline_hdr_start[2]; /**< the inline header starts here and runs on below */
    uint8_t inline_hdr[16];
};

/** Tag list operation of an SRQ. */
struct mlx5_wqe_tm_seg {
    uint8_t opcode;
    uint8_t flags;
    __be16 index;
    uint8_t rsvd0[2];
    __be16 sw_cnt; /**< unexpected messages software has seen */
    uint8_t rsvd1[8];
    __be64 append_tag;
    __be64 append_mask;
};

/* ---- Memory key updates (UMR) ----------------------------------------------------------- */

/** mlx5_wqe_umr_ctrl_seg.flags */
enum {
    MLX5_WQE_UMR_CTRL_FLAG_INLINE = 1 << 7,             /**< the list is in the WQE */
    MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE = 1 << 5,         /**< fail unless the mkey is free */
    MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET = 1 << 4,  /**< update part of the list */
    MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN = 1 << 3,          /**< fail unless the QP owns the mkey */
};

/** mlx5_wqe_umr_ctrl_seg.mkey_mask: which members of the mkey context change. */
enum {
    MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN = 1 << 0,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR = 1 << 6,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_SIG_ERR = 1 << 9,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_BSF_ENABLE = 1 << 12,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY = 1 << 13,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN = 1 << 14,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE = 1 << 18,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ = 1 << 19,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE = 1 << 20,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC = 1 << 21,
    MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE = 1 << 29,
};

/** Second segment of a UMR. Source: PRM, UMR control segment. */
struct mlx5_wqe_umr_ctrl_seg {
    uint8_t flags; /**< MLX5_WQE_UMR_CTRL_FLAG_* */
    uint8_t rsvd0[3];
    __be16 klm_octowords; /**< length of the list, 16-byte units */
    union {
        __be16 translation_offset;
        __be16 bsf_octowords;
    };
    __be64 mkey_mask; /**< MLX5_WQE_UMR_CTRL_MKEY_MASK_* */
    uint8_t rsvd1[32];
};

/** One piece of an indirect mkey: a range of another key, at most 2 GiB. */
struct mlx5_wqe_umr_klm_seg {
    __be32 byte_count;
    __be32 mkey;
    __be64 address;
};

/** An inline entry of a UMR's list. */
union mlx5_wqe_umr_inline_seg {
    struct mlx5_wqe_umr_klm_seg klm;
};

/** One column of an interleaved (strided) layout. */
struct mlx5_wqe_umr_repeat_ent_seg {
    __be16 stride;     /**< from one piece to the next */
    __be16 byte_count; /**< bytes taken of each */
    __be32 memkey;
    __be64 va;
};

/** Head of an interleaved layout. */
struct mlx5_wqe_umr_repeat_block_seg {
    __be32 byte_count; /**< of one round over all entries */
    __be32 op;
    __be32 repeat_count;
    __be16 reserved;
    __be16 num_ent;
    struct mlx5_wqe_umr_repeat_ent_seg entries[0];
};

/** mlx5_wqe_mkey_context_seg.free: the key is not in use. */
enum {
    MLX5_WQE_MKEY_CONTEXT_FREE = 1 << 6,
};

/** mlx5_wqe_mkey_context_seg.access_flags */
enum {
    MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC = 1 << 6,
    MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE = 1 << 5,
    MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ = 1 << 4,
    MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE = 1 << 3,
    MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ = 1 << 2,
};

/** Third segment of a UMR: the new mkey context. Source: PRM, mkey context. */
struct mlx5_wqe_mkey_context_seg {
    uint8_t free; /**< MLX5_WQE_MKEY_CONTEXT_FREE */
    uint8_t reserved1;
    uint8_t access_flags;
    uint8_t sf;
    __be32 qpn_mkey; /**< QP number 31..8, variant of the key 7..0 */
    __be32 reserved2;
    __be32 flags_pd; /**< PD number in the low 24 bits */
    __be64 start_addr;
    __be64 len;
    __be32 bsf_octword_size;
    __be32 reserved3[4];
    __be32 translations_octword_size; /**< size of the list, 16-byte units */
    uint8_t reserved4[3];
    uint8_t log_page_size;
    __be32 reserved;
    union mlx5_wqe_umr_inline_seg inseg[0];
};

/* ---- Writing segments ------------------------------------------------------------------- */

/**
 * Fills the control segment, except dci_stream_channel_id.
 *
 * @param pi        block index of the WQE, counted modulo 2^16 whatever the ring's size
 * @param opmod     opcode modifier
 * @param qp_num    QP or SQ number, 24 bits
 * @param fm_ce_se  MLX5_WQE_CTRL_* bits
 * @param ds        length of the WQE in 16-byte units, 1..63
 * @param imm       stored as it is: pass immediate data in network order, keys through htobe32()
 */
static MLX5DV_ALWAYS_INLINE void mlx5dv_set_ctrl_seg(struct mlx5_wqe_ctrl_seg *seg, uint16_t pi,
                                                     uint8_t opcode, uint8_t opmod,
                                                     uint32_t qp_num, uint8_t fm_ce_se,
                                                     uint8_t ds, uint8_t signature, uint32_t imm)
{
    seg->opmod_idx_opcode = htobe32((uint32_t)opmod << 24 | (uint32_t)pi << 8 | opcode);
    seg->qpn_ds = htobe32(qp_num << 8 | ds);
    seg->signature = signature;
    seg->fm_ce_se = fm_ce_se;
    seg->imm = imm;
}

/** Fills a data segment: length bytes at address, under lkey. */
static MLX5DV_ALWAYS_INLINE void mlx5dv_set_data_seg(struct mlx5_wqe_data_seg *seg,
                                                     uint32_t length, uint32_t lkey,
                                                     uintptr_t address)
{
    seg->byte_count = htobe32(length);
    seg->lkey = htobe32(lkey);
    seg->addr = htobe64(address);
}

/**
 * Fills a datagram segment.
 *
 * @param key           DC key, or Q_Key in the upper 32 bits
 * @param dqp_dct       destination QP or DCT number, 24 bits
 * @param ext           1: the vector has its full 48 bytes (MLX5_EXTENDED_UD_AV)
 * @param stat_rate_sl  rate limit in the upper half, service level or priority in the lower
 * @param fl_mlid       bit 7 force loopback, below the source path bits
 * @param rmac          6 bytes
 * @param grh_gid_fi    GRH present, source GID index, flow label: see mlx5_wqe_av.grh_gid_fl
 * @param rgid          16 bytes
 */
static MLX5DV_ALWAYS_INLINE void
mlx5dv_set_dgram_seg(struct mlx5_wqe_datagram_seg *seg, uint64_t key, uint32_t dqp_dct,
                     uint8_t ext, uint8_t stat_rate_sl, uint8_t fl_mlid, uint16_t rlid,
                     uint8_t *rmac, uint8_t tclass, uint8_t hop_limit, uint32_t grh_gid_fi,
                     uint8_t *rgid)
{
    struct mlx5_wqe_av *av = &seg->av;

    av->key.dc_key = htobe64(key);
    av->dqp_dct = htobe32((uint32_t)ext << 31 | dqp_dct);
    av->stat_rate_sl = stat_rate_sl;
    av->fl_mlid = fl_mlid;
    av->rlid = htobe16(rlid);
    memcpy(av->rmac, rmac, sizeof(av->rmac));
    av->tclass = tclass;
    av->hop_limit = hop_limit;
    av->grh_gid_fl = htobe32(grh_gid_fi);
    memcpy(av->rgid, rgid, sizeof(av->rgid));
}

/**
 * Fills an Ethernet segment and copies the inline header behind it.
 *
 * @param mss               TCP payload per packet for TSO, else 0
 * @param inline_hdr_sz     bytes of inline_hdr_start; the WQE must have room for those beyond 18
 */
static MLX5DV_ALWAYS_INLINE void mlx5dv_set_eth_seg(struct mlx5_wqe_eth_seg *seg, uint8_t cs_flags,
                                                    uint16_t mss, uint16_t inline_hdr_sz,
                                                    uint8_t *inline_hdr_start)
{
    /* Through a plain pointer: the header may run past the two bytes the member declares. */
    uint8_t *header = (uint8_t *)seg + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start);

    seg->cs_flags = cs_flags;
    seg->mss = htobe16(mss);
    seg->inline_hdr_sz = htobe16(inline_hdr_sz);
    memcpy(header, inline_hdr_start, inline_hdr_sz);
}

#if defined(__SSSE3__)
/**
 * mlx5dv_set_ctrl_seg() in one 16-byte store; also clears dci_stream_channel_id.
 * Pays off in loops over many WQEs.
 */
static MLX5DV_ALWAYS_INLINE void
mlx5dv_x86_set_ctrl_seg(struct mlx5_wqe_ctrl_seg *seg, uint16_t pi, uint8_t opcode, uint8_t opmod,
                        uint32_t qp_num, uint8_t fm_ce_se, uint8_t ds, uint8_t signature,
                        uint32_t imm)
{
    const uint32_t operation = (uint32_t)opmod << 24 | (uint32_t)pi << 8 | opcode;
    const uint32_t queue = qp_num << 8 | ds;
    const uint32_t flags = (uint32_t)signature << 24 | fm_ce_se;
    const __m128i words = _mm_set_epi32((int)imm, (int)flags, (int)queue, (int)operation);
    /* Swaps the bytes of the first three words; the immediate is in order already. */
    const __m128i order = _mm_set_epi8(15, 14, 13, 12, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);

    _mm_storeu_si128((__m128i *)(void *)seg, _mm_shuffle_epi8(words, order));
}

/** mlx5dv_set_data_seg() in one 16-byte store. Pays off in loops over many segments. */
static MLX5DV_ALWAYS_INLINE void mlx5dv_x86_set_data_seg(struct mlx5_wqe_data_seg *seg,
                                                         uint32_t length, uint32_t lkey,
                                                         uintptr_t address)
{
    const uint64_t place = (uint64_t)length << 32 | lkey;
    const __m128i halves = _mm_set_epi64x((long long)address, (long long)place);
    const __m128i order = _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);

    _mm_storeu_si128((__m128i *)(void *)seg, _mm_shuffle_epi8(halves, order));
}
#endif

/* ======================================================================================== */
/* Completion queues, queue pairs and work queues with more options                         */
/* ======================================================================================== */

/** mlx5dv_cq_init_attr.comp_mask */
enum mlx5dv_cq_init_attr_mask {
    MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE = 1 << 0, /**< cqe_comp_res_format */
    MLX5DV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 1,          /**< flags */
    MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE = 1 << 2,       /**< cqe_size */
};

/** mlx5dv_cq_init_attr.flags */
enum mlx5dv_cq_init_attr_flags {
    MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD = 1 << 0, /**< pad to 128 bytes; needs cqe_size 128 */
    MLX5DV_CQ_INIT_ATTR_FLAGS_RESERVED = 1 << 1,
};

/** mlx5 options of a CQ. */
struct mlx5dv_cq_init_attr {
    uint64_t comp_mask;          /**< mlx5dv_cq_init_attr_mask */
    uint8_t cqe_comp_res_format; /**< one mlx5dv_cqe_comp_res_format: compress in this layout */
    uint32_t flags;              /**< mlx5dv_cq_init_attr_flags */
    uint16_t cqe_size;           /**< 64 or 128 */
};

/**
 * ibv_create_cq_ex() with mlx5 options. Destroy with ibv_destroy_cq().
 *
 * Errors: EINVAL (cqe_size, format, unknown bits), EOPNOTSUPP, ENOMEM.
 * Source: mlx5dv_create_cq(3).
 */
struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *cq_attr,
                                   struct mlx5dv_cq_init_attr *mlx5_cq_attr);

/** mlx5dv_qp_init_attr.comp_mask */
enum mlx5dv_qp_init_attr_mask {
    MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS = 1 << 0, /**< create_flags */
    MLX5DV_QP_INIT_ATTR_MASK_DC = 1 << 1,              /**< dc_init_attr */
    MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS = 1 << 2,  /**< send_ops_flags */
    MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS = 1 << 3,     /**< dc_init_attr.dci_streams */
};

/** mlx5dv_qp_init_attr.create_flags */
enum mlx5dv_qp_create_flags {
    MLX5DV_QP_CREATE_TUNNEL_OFFLOADS = 1 << 0, /**< check inner headers of tunnels */
    MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC = 1 << 1, /**< receive own unicast */
    MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC = 1 << 2, /**< receive own multicast */
    MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE = 1 << 3, /**< small payloads go to memory too */
    MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE = 1 << 4,   /**< ... to the CQE even if unsignaled */
    MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE = 1 << 5, /**< both ends must agree */
    MLX5DV_QP_CREATE_SIG_PIPELINING = 1 << 6, /**< a signature error drains the send queue */
    MLX5DV_QP_CREATE_OOO_DP = 1 << 7, /**< messages may arrive out of order; both ends must agree */
};

/** The two ends of dynamically connected (DC) transport, made as IBV_QPT_DRIVER. */
enum mlx5dv_dc_type {
    MLX5DV_DCTYPE_DCT = 1, /**< target: receives from many, through an SRQ */
    MLX5DV_DCTYPE_DCI = 2, /**< initiator: names a target in each work request */
};

/** Streams of a DCI; work requests of different streams may overtake each other. */
struct mlx5dv_dci_streams {
    uint8_t log_num_concurent; /**< streams in flight at a time */
    uint8_t log_num_errored;   /**< failed streams before the whole DCI fails */
};

/** DC options. */
struct mlx5dv_dc_init_attr {
    enum mlx5dv_dc_type dc_type;
    union {
        uint64_t dct_access_key;               /**< DCT: senders must present it */
        struct mlx5dv_dci_streams dci_streams; /**< DCI, if its comp_mask bit is set */
    };
};

/** mlx5 work requests beyond ibv_qp_create_send_ops_flags. */
enum mlx5dv_qp_create_send_ops_flags {
    MLX5DV_QP_EX_WITH_MR_INTERLEAVED = 1 << 0,
    MLX5DV_QP_EX_WITH_MR_LIST = 1 << 1,
    MLX5DV_QP_EX_WITH_MKEY_CONFIGURE = 1 << 2,
    MLX5DV_QP_EX_WITH_RAW_WQE = 1 << 3,
    MLX5DV_QP_EX_WITH_MEMCPY = 1 << 4,
};

/** mlx5 options of a QP. */
struct mlx5dv_qp_init_attr {
    uint64_t comp_mask;    /**< mlx5dv_qp_init_attr_mask */
    uint32_t create_flags; /**< mlx5dv_qp_create_flags */
    struct mlx5dv_dc_init_attr dc_init_attr;
    uint64_t send_ops_flags; /**< mlx5dv_qp_create_send_ops_flags */
};

/**
 * ibv_create_qp_ex() with mlx5 options; the only way to make DC queue pairs.
 * Destroy with ibv_destroy_qp().
 *
 * Errors: EINVAL (flags that contradict each other or the type, a DCT without an SRQ), EOPNOTSUPP,
 * ENOMEM. Source: mlx5dv_create_qp(3).
 */
struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_attr,
                                struct mlx5dv_qp_init_attr *mlx5_qp_attr);

/** mlx5dv_wq_init_attr.comp_mask */
enum mlx5dv_wq_init_attr_mask {
    MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ = 1 << 0,
};

/** A receive WQE cut into equal strides, each of which takes one packet or more. */
struct mlx5dv_striding_rq_init_attr {
    uint32_t single_stride_log_num_of_bytes; /**< within mlx5dv_striding_rq_caps */
    uint32_t single_wqe_log_num_of_strides;  /**< within mlx5dv_striding_rq_caps */
    uint8_t two_byte_shift_en;               /**< 1: two zero bytes before each packet */
};

/** mlx5 options of a work queue. */
struct mlx5dv_wq_init_attr {
    uint64_t comp_mask; /**< mlx5dv_wq_init_attr_mask */
    struct mlx5dv_striding_rq_init_attr striding_rq_attrs;
};

/**
 * ibv_create_wq() with mlx5 options. Destroy with ibv_destroy_wq().
 *
 * Errors: EINVAL (a stride outside the limits), EOPNOTSUPP, ENOMEM.
 */
struct ibv_wq *mlx5dv_create_wq(struct ibv_context *context,
                                struct ibv_wq_init_attr *wq_init_attr,
                                struct mlx5dv_wq_init_attr *mlx5_wq_attr);

/* ---- Changing a queue pair afterwards --------------------------------------------------- */

/**
 * Reports the LAG port a QP was given and the one it uses now (both from 1).
 * Errors: EOPNOTSUPP (no LAG). Source: mlx5dv_query_qp_lag_port(3).
 */
int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port_num, uint8_t *active_port_num);

/**
 * Binds a QP to a LAG port (from 1). A later change of state may move it again.
 * Errors: EOPNOTSUPP (no LAG), EINVAL. Source: mlx5dv_modify_qp_lag_port(3).
 */
int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port_num);

/**
 * Sets the UDP source port (host order) of an RC or UC queue pair in state RTS.
 * Errors: EINVAL (state), EOPNOTSUPP (type). Source: mlx5dv_modify_qp_udp_sport(3).
 */
int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport);

/**
 * Puts a failed stream of a DCI back to work, once all its work requests are flushed.
 * Errors: EINVAL (not a DCI, or no such stream). Source: mlx5dv_dci_stream_id_reset(3).
 */
int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id);

/**
 * Lets datagrams and DC messages to ah follow the congestion control that qp_num negotiated.
 *
 * A hint: a second mapping is ignored. It ends with the address handle.
 * Source: mlx5dv_map_ah_to_qp(3).
 */
int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qp_num);

/**
 * Reserves a QP number that no queue pair will get, for connection managers.
 * Errors: EOPNOTSUPP, ENOMEM. Source: mlx5dv_reserved_qpn_alloc(3).
 */
int mlx5dv_reserved_qpn_alloc(struct ibv_context *ctx, uint32_t *qpn);

/** Gives back a number of mlx5dv_reserved_qpn_alloc(). Errors: EINVAL. */
int mlx5dv_reserved_qpn_dealloc(struct ibv_context *ctx, uint32_t qpn);

/* ---- Packet pacing and scheduling ------------------------------------------------------- */

/** A packet pacing entry. */
struct mlx5dv_pp {
    uint16_t index; /**< for DEVX commands that name a rate */
};

/**
 * Makes or shares an entry of the device's rate table.
 *
 * @param pp_context  set_pp_rate_limit_context in device format, pp_context_sz bytes
 * @param flags       MLX5DV_PP_ALLOC_FLAGS_*
 * Errors: EINVAL, EOPNOTSUPP, ENOSPC. Source: mlx5dv_pp_alloc(3).
 */
struct mlx5dv_pp *mlx5dv_pp_alloc(struct ibv_context *context, size_t pp_context_sz,
                                  const void *pp_context, uint32_t flags);

/** Ends the use of a packet pacing entry. */
void mlx5dv_pp_free(struct mlx5dv_pp *pp);

/** mlx5dv_sched_attr.flags */
enum mlx5dv_sched_elem_attr_flags {
    MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE = 1 << 0,   /**< bw_share */
    MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW = 1 << 1, /**< max_avg_bw */
};

/** Place and weight of an element in the tree of transmit schedulers. */
struct mlx5dv_sched_attr {
    struct mlx5dv_sched_node *parent; /**< NULL: a root, which has neither share nor limit */
    uint32_t flags;                   /**< mlx5dv_sched_elem_attr_flags */
    uint32_t bw_share;                /**< weight among siblings; 0: the device's default */
    uint32_t max_avg_bw;              /**< Mbit/s; 0: no limit */
    uint64_t comp_mask;               /**< must be 0 */
};

/**
 * Adds an inner element. Errors: EINVAL, EOPNOTSUPP. Source: mlx5dv_sched_node_create(3).
 */
struct mlx5dv_sched_node *mlx5dv_sched_node_create(struct ibv_context *context,
                                                   const struct mlx5dv_sched_attr *sched_attr);

/** Adds an element that queue pairs can attach to; it needs a parent. Errors as for a node. */
struct mlx5dv_sched_leaf *mlx5dv_sched_leaf_create(struct ibv_context *context,
                                                   const struct mlx5dv_sched_attr *sched_attr);

/** Changes share or limit of a node, not its parent. */
int mlx5dv_sched_node_modify(struct mlx5dv_sched_node *node,
                             const struct mlx5dv_sched_attr *sched_attr);

/** Changes share or limit of a leaf, not its parent. */
int mlx5dv_sched_leaf_modify(struct mlx5dv_sched_leaf *leaf,
                             const struct mlx5dv_sched_attr *sched_attr);

/** Removes a node without children. */
int mlx5dv_sched_node_destroy(struct mlx5dv_sched_node *node);

/** Removes a leaf without queue pairs. */
int mlx5dv_sched_leaf_destroy(struct mlx5dv_sched_leaf *leaf);

/**
 * Attaches a QP to leaves for its requests and its responses; NULL detaches.
 * Source: mlx5dv_modify_qp_sched_elem(3).
 */
int mlx5dv_modify_qp_sched_elem(struct ibv_qp *qp, const struct mlx5dv_sched_leaf *requestor,
                                const struct mlx5dv_sched_leaf *responder);

/* ======================================================================================== */
/* Indirect memory keys                                                                     */
/* ======================================================================================== */

/** mlx5dv_mkey_init_attr.create_flags */
enum mlx5dv_mkey_init_attr_flags {
    MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT = 1 << 0, /**< required */
    MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE = 1 << 1,
    MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO = 1 << 2,
    MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG = 1 << 3,
    MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE = 1 << 4,
};

/** What an mkey can become. */
struct mlx5dv_mkey_init_attr {
    struct ibv_pd *pd;
    uint32_t create_flags; /**< mlx5dv_mkey_init_attr_flags */
    uint16_t max_entries;  /**< in: pieces wanted; out: pieces given, at least as many */
};

/** A key over pieces of other memory regions, addressed from 0. */
struct mlx5dv_mkey {
    uint32_t lkey;
    uint32_t rkey;
};

/**
 * Makes an mkey without content; work requests give it a layout. Needs a DEVX context.
 *
 * Scatter to CQE does not work with it: switch that off on the QP.
 * Errors: EOPNOTSUPP (not indirect, no DEVX), ENOMEM. Source: mlx5dv_create_mkey(3).
 */
struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *mkey_init_attr);

/** Destroys an mkey that no work request uses any more. */
int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey);

/** One column of an interleaved layout: take bytes_count, skip bytes_skip, repeat. */
struct mlx5dv_mr_interleaved {
    uint64_t addr;
    uint32_t bytes_count;
    uint32_t bytes_skip;
    uint32_t lkey;
};

/** mlx5dv_mkey_conf_attr.conf_flags */
enum mlx5dv_mkey_conf_flags {
    MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR = 1 << 0, /**< forget the signature settings */
};

/** Options of mlx5dv_wr_mkey_configure(). */
struct mlx5dv_mkey_conf_attr {
    uint32_t conf_flags; /**< mlx5dv_mkey_conf_flags */
    uint64_t comp_mask;  /**< must be 0 */
};

/* ---- Signature -------------------------------------------------------------------------- */

/** mlx5dv_sig_t10dif.flags */
enum mlx5dv_sig_t10dif_flags {
    MLX5DV_SIG_T10DIF_FLAG_REF_REMAP = 1 << 0,      /**< reference tag grows by 1 per block */
    MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE = 1 << 1,     /**< app tag 0xffff: do not check */
    MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE = 1 << 2, /**< ... and reference tag 0xffffffff */
};

/** T10-DIF parameters. */
struct mlx5dv_sig_t10dif {
    enum mlx5dv_sig_t10dif_bg_type bg_type;
    uint16_t bg; /**< start value of the guard: 0 or 0xffff */
    uint16_t app_tag;
    uint32_t ref_tag; /**< of the first block */
    uint16_t flags;   /**< mlx5dv_sig_t10dif_flags */
};

/** CRC parameters. */
struct mlx5dv_sig_crc {
    enum mlx5dv_sig_crc_type type;
    uint64_t seed; /**< all zeros or all ones */
};

/** Integrity fields of the data on one side. */
struct mlx5dv_sig_block_domain {
    enum mlx5dv_sig_type sig_type; /**< which member of sig is set */
    union {
        const struct mlx5dv_sig_t10dif *dif;
        const struct mlx5dv_sig_crc *crc;
    } sig;
    enum mlx5dv_block_size block_size;
    uint64_t comp_mask; /**< must be 0 */
};

/** Bits of check_mask and copy_mask that cover whole parts of a field, one bit per byte. */
enum mlx5dv_sig_mask {
    MLX5DV_SIG_MASK_T10DIF_GUARD = 0xc0,
    MLX5DV_SIG_MASK_T10DIF_APPTAG = 0x30,
    MLX5DV_SIG_MASK_T10DIF_REFTAG = 0x0f,
    MLX5DV_SIG_MASK_CRC32 = 0xf0,
    MLX5DV_SIG_MASK_CRC32C = MLX5DV_SIG_MASK_CRC32,
    MLX5DV_SIG_MASK_CRC64_XP10 = 0xff,
};

/** mlx5dv_sig_block_attr.flags */
enum mlx5dv_sig_block_attr_flags {
    MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK = 1 << 0, /**< copy_mask is valid */
};

/** Signature settings: the device adds, checks, strips or replaces fields between two sides. */
struct mlx5dv_sig_block_attr {
    const struct mlx5dv_sig_block_domain *mem;  /**< NULL: no fields in memory */
    const struct mlx5dv_sig_block_domain *wire; /**< NULL: no fields on the wire */
    uint32_t flags;      /**< mlx5dv_sig_block_attr_flags */
    uint8_t check_mask;  /**< bytes of the incoming field to check */
    uint8_t copy_mask;   /**< bytes to pass on unchanged; both sides must be alike */
    uint64_t comp_mask;  /**< must be 0 */
};

/** What an mkey found wrong first. */
enum mlx5dv_mkey_err_type {
    MLX5DV_MKEY_NO_ERR = 0,
    MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD = 1,
    MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG = 2,
    MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG = 3,
};

/** A field that did not verify. */
struct mlx5dv_sig_err {
    uint64_t actual_value;   /**< computed from the data */
    uint64_t expected_value; /**< found in the field */
    uint64_t offset;         /**< of the block, from the start of the transfer */
};

/** Answer of mlx5dv_mkey_check(). */
struct mlx5dv_mkey_err {
    enum mlx5dv_mkey_err_type err_type;
    union {
        struct mlx5dv_sig_err sig; /**< undefined if there is no error */
    } err;
};

/** mlx5dv_mkey_check() for a record of err_info_size bytes. */
int _mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err_info,
                       size_t err_info_size);

/**
 * Fetches and clears the first signature error of an mkey. Call it after the transfer is known
 * to be over. Errors: EINVAL. Source: mlx5dv_mkey_check(3).
 */
static inline int mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err_info)
{
    return _mlx5dv_mkey_check(mkey, err_info, sizeof(*err_info));
}

/* ---- Crypto ----------------------------------------------------------------------------- */

/** How data is encrypted. */
enum mlx5dv_crypto_standard {
    MLX5DV_CRYPTO_STANDARD_AES_XTS = 0, /**< IEEE 1619-2007 */
};

/** Which comes first on the way out, signature or crypto; on the way in it is the reverse. */
enum mlx5dv_signature_crypto_order {
    MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX = 0,
    MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX = 1,
};

/** Crypto settings of an mkey. */
struct mlx5dv_crypto_attr {
    enum mlx5dv_crypto_standard crypto_standard;
    bool encrypt_on_tx; /**< true: encrypt going out, decrypt coming in; false: the reverse */
    enum mlx5dv_signature_crypto_order signature_crypto_order;
    enum mlx5dv_block_size data_unit_size;
    char initial_tweak[16]; /**< of the first data unit; 128 bits, grows by 1 per unit */
    struct mlx5dv_dek *dek;
    char keytag[8];     /**< must equal the key's, if that has one */
    uint64_t comp_mask; /**< must be 0 */
};

/** Credential for mlx5dv_crypto_login(). */
struct mlx5dv_crypto_login_attr {
    uint32_t credential_id; /**< of the credential stored in the device */
    uint32_t import_kek_id; /**< of the key that unwraps what the program hands over */
    char credential[48];    /**< wrapped with that key (NIST SP 800-38F) */
    uint64_t comp_mask;     /**< must be 0 */
};

/** Credential for mlx5dv_crypto_login_create(), of any length. */
struct mlx5dv_crypto_login_attr_ex {
    uint32_t credential_id;
    uint32_t import_kek_id;
    const void *credential;
    size_t credential_len; /**< bytes */
    uint64_t comp_mask;    /**< must be 0 */
};

/** State of a login. */
enum mlx5dv_crypto_login_state {
    MLX5DV_CRYPTO_LOGIN_STATE_VALID = 0,
    MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN = 1,
    MLX5DV_CRYPTO_LOGIN_STATE_INVALID = 2, /**< its credential or key was deleted */
};

/** Answer of mlx5dv_crypto_login_query(). */
struct mlx5dv_crypto_login_query_attr {
    enum mlx5dv_crypto_login_state state;
    uint64_t comp_mask; /**< must be 0 */
};

/**
 * Logs the context in, which allows wrapped keys; one login per context.
 * Errors: EEXIST, EINVAL (credential). Source: mlx5dv_crypto_login(3).
 */
int mlx5dv_crypto_login(struct ibv_context *context, struct mlx5dv_crypto_login_attr *login_attr);

/** Reports the state of the context's login. */
int mlx5dv_crypto_login_query_state(struct ibv_context *context,
                                    enum mlx5dv_crypto_login_state *state);

/** Ends the context's login; keys already made keep working. Errors: ENOENT. */
int mlx5dv_crypto_logout(struct ibv_context *context);

/**
 * Logs in and returns the login as an object; one per context.
 * Errors: EEXIST, EINVAL. Source: mlx5dv_crypto_login_create(3).
 */
struct mlx5dv_crypto_login_obj *
mlx5dv_crypto_login_create(struct ibv_context *context,
                           struct mlx5dv_crypto_login_attr_ex *login_attr);

/** Reports the state of a login object. */
int mlx5dv_crypto_login_query(struct mlx5dv_crypto_login_obj *crypto_login,
                              struct mlx5dv_crypto_login_query_attr *query_attr);

/** Ends a login; keys already made keep working. */
int mlx5dv_crypto_login_destroy(struct mlx5dv_crypto_login_obj *crypto_login);

/** Length of each of the two AES-XTS keys. */
enum mlx5dv_crypto_key_size {
    MLX5DV_CRYPTO_KEY_SIZE_128 = 0,
    MLX5DV_CRYPTO_KEY_SIZE_256 = 1,
};

/** What a key is for. */
enum mlx5dv_crypto_key_purpose {
    MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS = 0,
};

/** State of a key. */
enum mlx5dv_dek_state {
    MLX5DV_DEK_STATE_READY = 0,
    MLX5DV_DEK_STATE_ERROR = 1, /**< lost; destroy and make it again */
};

/** mlx5dv_dek_init_attr.comp_mask */
enum mlx5dv_dek_init_attr_mask {
    MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN = 1 << 0, /**< crypto_login is valid */
};

/** A new data encryption key. */
struct mlx5dv_dek_init_attr {
    enum mlx5dv_crypto_key_size key_size;
    bool has_keytag; /**< 8 bytes that mkeys must repeat follow the keys */
    enum mlx5dv_crypto_key_purpose key_purpose;
    struct ibv_pd *pd;
    char opaque[8]; /**< a note for the program's own use */
    char key[128];  /**< key 1, key 2, keytag; all wrapped if there is a login */
    uint64_t comp_mask; /**< mlx5dv_dek_init_attr_mask */
    struct mlx5dv_crypto_login_obj *crypto_login; /**< NULL: the key is plain text */
};

/** Answer of mlx5dv_dek_query(). */
struct mlx5dv_dek_attr {
    enum mlx5dv_dek_state state;
    char opaque[8];
    uint64_t comp_mask; /**< must be 0 */
};

/**
 * Loads a key into the device, until it is destroyed or the process ends.
 * Errors: EINVAL, EOPNOTSUPP, ENOMEM. Source: mlx5dv_dek_create(3).
 */
struct mlx5dv_dek *mlx5dv_dek_create(struct ibv_context *context,
                                     struct mlx5dv_dek_init_attr *init_attr);

/** Reports the state of a key; for a wrapped one the login must be valid. */
int mlx5dv_dek_query(struct mlx5dv_dek *dek, struct mlx5dv_dek_attr *attr);

/** Removes a key that no mkey uses. */
int mlx5dv_dek_destroy(struct mlx5dv_dek *dek);

/* ======================================================================================== */
/* Work requests beyond ibv_wr_*                                                            */
/* ======================================================================================== */

/** ibv_wc.opcode of mlx5 work requests. */
enum mlx5dv_wc_opcode {
    MLX5DV_WC_UMR = IBV_WC_DRIVER1,     /**< an mkey was given a layout */
    MLX5DV_WC_RAW_WQE = IBV_WC_DRIVER2, /**< mlx5dv_wr_raw_wqe() */
    MLX5DV_WC_MEMCPY = IBV_WC_DRIVER3,  /**< mlx5dv_wr_memcpy() */
};

/**
 * Work request calls of one QP; use the inline functions below. A builder starts a request, a
 * setter adds to the last one. Errors show in ibv_wr_complete().
 * Source: mlx5dv_wr_post(3), mlx5dv_wr_mkey_configure(3).
 */
struct mlx5dv_qp_ex {
    uint64_t comp_mask; /**< 0 */
    void (*wr_set_dc_addr)(struct mlx5dv_qp_ex *mqp, struct ibv_ah *ah, uint32_t remote_dctn,
                           uint64_t remote_dc_key);
    void (*wr_mr_interleaved)(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey,
                              uint32_t access_flags, uint32_t repeat_count,
                              uint16_t num_interleaved, struct mlx5dv_mr_interleaved *data);
    void (*wr_mr_list)(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey, uint32_t access_flags,
                       uint16_t num_sges, struct ibv_sge *sge);
    void (*wr_mkey_configure)(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey,
                              uint8_t num_setters, struct mlx5dv_mkey_conf_attr *attr);
    void (*wr_set_mkey_access_flags)(struct mlx5dv_qp_ex *mqp, uint32_t access_flags);
    void (*wr_set_mkey_layout_list)(struct mlx5dv_qp_ex *mqp, uint16_t num_sges,
                                    const struct ibv_sge *sge);
    void (*wr_set_mkey_layout_interleaved)(struct mlx5dv_qp_ex *mqp, uint32_t repeat_count,
                                           uint16_t num_interleaved,
                                           const struct mlx5dv_mr_interleaved *data);
    void (*wr_set_mkey_sig_block)(struct mlx5dv_qp_ex *mqp,
                                  const struct mlx5dv_sig_block_attr *attr);
    void (*wr_raw_wqe)(struct mlx5dv_qp_ex *mqp, const void *wqe);
    void (*wr_set_dc_addr_stream)(struct mlx5dv_qp_ex *mqp, struct ibv_ah *ah,
                                  uint32_t remote_dctn, uint64_t remote_dc_key,
                                  uint16_t stream_id);
    void (*wr_memcpy)(struct mlx5dv_qp_ex *mqp, uint32_t dest_lkey, uint64_t dest_addr,
                      uint32_t src_lkey, uint64_t src_addr, size_t length);
    void (*wr_set_mkey_crypto)(struct mlx5dv_qp_ex *mqp, const struct mlx5dv_crypto_attr *attr);
};

/** The mlx5 calls of a QP made with send_ops_flags; the same object, never NULL. */
struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp);

/** Setter, DCI: sends the request to a DCT (24-bit number), over stream 0. */
static inline void mlx5dv_wr_set_dc_addr(struct mlx5dv_qp_ex *mqp, struct ibv_ah *ah,
                                         uint32_t remote_dctn, uint64_t remote_dc_key)
{
    mqp->wr_set_dc_addr(mqp, ah, remote_dctn, remote_dc_key);
}

/** Setter, DCI with streams: sends the request to a DCT over the given stream. */
static inline void mlx5dv_wr_set_dc_addr_stream(struct mlx5dv_qp_ex *mqp, struct ibv_ah *ah,
                                                uint32_t remote_dctn, uint64_t remote_dc_key,
                                                uint16_t stream_id)
{
    mqp->wr_set_dc_addr_stream(mqp, ah, remote_dctn, remote_dc_key, stream_id);
}

/**
 * Builder: lays an mkey over columns that repeat repeat_count times. wr_flags must have
 * IBV_SEND_INLINE; the mkey needs one entry more than num_interleaved.
 */
static inline void mlx5dv_wr_mr_interleaved(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey,
                                            uint32_t access_flags, uint32_t repeat_count,
                                            uint16_t num_interleaved,
                                            struct mlx5dv_mr_interleaved *data)
{
    mqp->wr_mr_interleaved(mqp, mkey, access_flags, repeat_count, num_interleaved, data);
}

/** Builder: lays an mkey over a list of ranges. wr_flags must have IBV_SEND_INLINE. */
static inline void mlx5dv_wr_mr_list(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey,
                                     uint32_t access_flags, uint16_t num_sges,
                                     struct ibv_sge *sge)
{
    mqp->wr_mr_list(mqp, mkey, access_flags, num_sges, sge);
}

/**
 * Builder: changes an mkey by the num_setters wr_set_mkey_* calls that must follow, each kind
 * at most once. wr_flags must have IBV_SEND_INLINE.
 */
static inline void mlx5dv_wr_mkey_configure(struct mlx5dv_qp_ex *mqp, struct mlx5dv_mkey *mkey,
                                            uint8_t num_setters,
                                            struct mlx5dv_mkey_conf_attr *attr)
{
    mqp->wr_mkey_configure(mqp, mkey, num_setters, attr);
}

/** Mkey setter: replaces the access rights (enum ibv_access_flags). */
static inline void mlx5dv_wr_set_mkey_access_flags(struct mlx5dv_qp_ex *mqp,
                                                   uint32_t access_flags)
{
    mqp->wr_set_mkey_access_flags(mqp, access_flags);
}

/** Mkey setter: replaces the layout by a list of ranges. */
static inline void mlx5dv_wr_set_mkey_layout_list(struct mlx5dv_qp_ex *mqp, uint16_t num_sges,
                                                  const struct ibv_sge *sge)
{
    mqp->wr_set_mkey_layout_list(mqp, num_sges, sge);
}

/** Mkey setter: replaces the layout by columns; takes one entry more than num_interleaved. */
static inline void
mlx5dv_wr_set_mkey_layout_interleaved(struct mlx5dv_qp_ex *mqp, uint32_t repeat_count,
                                      uint16_t num_interleaved,
                                      const struct mlx5dv_mr_interleaved *data)
{
    mqp->wr_set_mkey_layout_interleaved(mqp, repeat_count, num_interleaved, data);
}

/** Mkey setter: replaces the signature settings. Source: mlx5dv_wr_set_mkey_sig_block(3). */
static inline void mlx5dv_wr_set_mkey_sig_block(struct mlx5dv_qp_ex *mqp,
                                                const struct mlx5dv_sig_block_attr *attr)
{
    mqp->wr_set_mkey_sig_block(mqp, attr);
}

/** Mkey setter: replaces the crypto settings. Source: mlx5dv_wr_set_mkey_crypto(3). */
static inline void mlx5dv_wr_set_mkey_crypto(struct mlx5dv_qp_ex *mqp,
                                             const struct mlx5dv_crypto_attr *attr)
{
    mqp->wr_set_mkey_crypto(mqp, attr);
}

/**
 * Builder, RC and DCI: copies length bytes inside this host, 1 .. max_wr_memcpy_length.
 * A later request that reads the target needs IBV_SEND_FENCE.
 */
static inline void mlx5dv_wr_memcpy(struct mlx5dv_qp_ex *mqp, uint32_t dest_lkey,
                                    uint64_t dest_addr, uint32_t src_lkey, uint64_t src_addr,
                                    size_t length)
{
    mqp->wr_memcpy(mqp, dest_lkey, dest_addr, src_lkey, src_addr, length);
}

/**
 * Builder: posts a WQE written by the caller, all but block index and signature, which the
 * library sets. wr_flags are ignored; the size is the one in the control segment.
 */
static inline void mlx5dv_wr_raw_wqe(struct mlx5dv_qp_ex *mqp, const void *wqe)
{
    mqp->wr_raw_wqe(mqp, wqe);
}

/**
 * Turns posted sends with this wr_id into no-ops, while the QP is in state SQD.
 *
 * Returns how many, or a negative errno value. The QP needs MLX5DV_QP_CREATE_SIG_PIPELINING.
 * Source: mlx5dv_qp_cancel_posted_send_wrs(3).
 */
int mlx5dv_qp_cancel_posted_send_wrs(struct mlx5dv_qp_ex *mqp, uint64_t wr_id);

/* ======================================================================================== */
/* Device memory and foreign memory                                                         */
/* ======================================================================================== */

/** Which kind of device memory. */
struct mlx5dv_alloc_dm_attr {
    enum mlx5dv_alloc_dm_type type;
    uint64_t comp_mask; /**< must be 0 */
};

/**
 * ibv_alloc_dm() with a choice of memory. Free with ibv_free_dm().
 *
 * Errors: EINVAL, EOPNOTSUPP (kind), ENOMEM. Source: mlx5dv_alloc_dm(3).
 */
struct ibv_dm *mlx5dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *dm_attr,
                               struct mlx5dv_alloc_dm_attr *mlx5_dm_attr);

/**
 * Maps a window where stores act as operation op (device format) on the memory.
 * The mapping ends with dm. Source: mlx5dv_dm_map_op_addr(3).
 */
void *mlx5dv_dm_map_op_addr(struct ibv_dm *dm, uint8_t op);

/**
 * ibv_reg_dmabuf_mr() with mlx5 access bits.
 *
 * @param iova         address of the first byte under the keys; same page offset as offset
 * @param access       enum ibv_access_flags
 * @param mlx5_access  0 or MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
 * Errors: EINVAL, EOPNOTSUPP, EBADF. Source: mlx5dv_reg_dmabuf_mr(3).
 */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, int mlx5_access);

/* ======================================================================================== */
/* DEVX: objects and commands in the device's own format                                    */
/* ======================================================================================== */

/*
 * in and out are command mailboxes as the PRM lays them out: big-endian, in starts with the
 * opcode, out with status and syndrome. Any context will do: MLX5DV_CONTEXT_FLAGS_DEVX only makes
 * opening one fail where commands are not allowed.
 *
 * Errors of every command: EREMOTEIO (the device refused: status and syndrome in out say why),
 * EINVAL (the library refused: wrong opcode for the call, mailbox too short), EOPNOTSUPP, ENOMEM.
 * Source: mlx5dv_devx_obj_create(3).
 */

/** Runs a command that creates an object; out receives the object's number. */
struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in,
                                               size_t inlen, void *out, size_t outlen);

/** Runs a query command on an object. */
int mlx5dv_devx_obj_query(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen, void *out,
                          size_t outlen);

/** Runs a modify command on an object. */
int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen, void *out,
                           size_t outlen);

/** Destroys an object. Errors: EBUSY (another object uses it); it then stays usable. */
int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *obj);

/** Runs a command that concerns no object, such as QUERY_HCA_CAP. */
int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inlen, void *out,
                            size_t outlen);

/* ---- DEVX commands on verbs objects ----------------------------------------------------- */

/** Runs a query command on a CQ. Source: mlx5dv_devx_qp_modify(3), as for the next nine. */
int mlx5dv_devx_cq_query(struct ibv_cq *cq, const void *in, size_t inlen, void *out,
                         size_t outlen);
/** Runs a modify command on a CQ. */
int mlx5dv_devx_cq_modify(struct ibv_cq *cq, const void *in, size_t inlen, void *out,
                          size_t outlen);
/** Runs a query command on a QP. */
int mlx5dv_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen, void *out,
                         size_t outlen);
/** Runs a modify command on a QP. The state that verbs remember does not follow. */
int mlx5dv_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen, void *out,
                          size_t outlen);
/** Runs a query command on an SRQ. */
int mlx5dv_devx_srq_query(struct ibv_srq *srq, const void *in, size_t inlen, void *out,
                          size_t outlen);
/** Runs a modify command on an SRQ. */
int mlx5dv_devx_srq_modify(struct ibv_srq *srq, const void *in, size_t inlen, void *out,
                           size_t outlen);
/** Runs a query command on a work queue. */
int mlx5dv_devx_wq_query(struct ibv_wq *wq, const void *in, size_t inlen, void *out,
                         size_t outlen);
/** Runs a modify command on a work queue. */
int mlx5dv_devx_wq_modify(struct ibv_wq *wq, const void *in, size_t inlen, void *out,
                          size_t outlen);
/** Runs a query command on an indirection table. */
int mlx5dv_devx_ind_tbl_query(struct ibv_rwq_ind_table *ind_tbl, const void *in, size_t inlen,
                              void *out, size_t outlen);
/** Runs a modify command on an indirection table. */
int mlx5dv_devx_ind_tbl_modify(struct ibv_rwq_ind_table *ind_tbl, const void *in, size_t inlen,
                               void *out, size_t outlen);

/* ---- Memory for DEVX objects ------------------------------------------------------------ */

/** Program memory that commands may name by its id. */
struct mlx5dv_devx_umem {
    uint32_t umem_id;
};

/** mlx5dv_devx_umem_in.comp_mask */
enum mlx5dv_devx_umem_in_mask {
    MLX5DV_UMEM_MASK_DMABUF = 1 << 0, /**< dmabuf_fd is valid */
};

/** What mlx5dv_devx_umem_reg_ex() registers. */
struct mlx5dv_devx_umem_in {
    void *addr;   /**< with a dma-buf: offset into it */
    size_t size;
    uint32_t access;      /**< enum ibv_access_flags */
    uint64_t pgsz_bitmap; /**< bit n: pages of 2^n bytes are acceptable */
    uint64_t comp_mask;   /**< mlx5dv_devx_umem_in_mask */
    int dmabuf_fd;
};

/**
 * Makes size bytes at addr reachable for the device.
 * Errors: EFAULT, EINVAL, ENOMEM. Source: mlx5dv_devx_umem_reg(3).
 */
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *ctx, void *addr, size_t size,
                                              uint32_t access);

/** mlx5dv_devx_umem_reg() with a choice of page sizes or a dma-buf. Errors: EINVAL (page size). */
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *ctx,
                                                 struct mlx5dv_devx_umem_in *umem_in);

/** Ends a registration. Errors: EBUSY (an object still uses it). */
int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem);

/** A doorbell page. */
struct mlx5dv_devx_uar {
    void *reg_addr;     /**< where to write doorbells and BlueFlame data */
    void *base_addr;    /**< start of the page */
    uint32_t page_id;   /**< the page's number in commands */
    off_t mmap_off;     /**< maps the page in another process */
    uint64_t comp_mask; /**< 0 */
};

/**
 * Allocates a doorbell page of kind MLX5DV_UAR_ALLOC_TYPE_*.
 * Errors: EOPNOTSUPP (kind), ENOMEM. Source: mlx5dv_devx_alloc_uar(3).
 */
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags);

/** Ends the use of a doorbell page. */
void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *devx_uar);

/**
 * Returns a dma-buf descriptor of the page, for ibv_reg_mr_ex() and the like, or -1 with errno
 * set. The caller closes it. Source: mlx5dv_devx_uar_export_dmabuf_fd(3).
 */
int mlx5dv_devx_uar_export_dmabuf_fd(struct mlx5dv_devx_uar *devx_uar);

/** A virtio doorbell page (VAR); map it through the device's command descriptor. */
struct mlx5dv_var {
    uint32_t page_id;   /**< the page's number in commands */
    uint32_t length;    /**< bytes to map */
    off_t mmap_off;
    uint64_t comp_mask; /**< 0 */
};

/**
 * Allocates a VAR; flags is 0 or MLX5DV_VAR_ALLOC_FLAG_TLP.
 * Errors: EOPNOTSUPP, ENOSPC. Source: mlx5dv_alloc_var(3).
 */
struct mlx5dv_var *mlx5dv_alloc_var(struct ibv_context *context, uint32_t flags);

/** Frees a VAR. */
void mlx5dv_free_var(struct mlx5dv_var *dv_var);

/* ---- Sharing between processes ---------------------------------------------------------- */

/** Bytes that each export function writes. */
struct mlx5dv_export_sizes {
    uint32_t var_attrs_size;
    uint32_t devx_umem_attrs_size;
    uint32_t devx_obj_attrs_size;
};

/** mlx5dv_get_export_sizes() for a record of sizes_len bytes. */
void _mlx5dv_get_export_sizes(struct mlx5dv_export_sizes *sizes, size_t sizes_len);

/** Reports how large the buffers of the export functions must be in this library. */
static inline void mlx5dv_get_export_sizes(struct mlx5dv_export_sizes *sizes)
{
    _mlx5dv_get_export_sizes(sizes, sizeof(*sizes));
}

/*
 * Export writes a description of an object to data. Import turns it into an object again, on a
 * context that shares the same kernel resources (ibv_import_device()). Unimport forgets an
 * imported object and leaves the real one alone; freeing or destroying ends it for everybody.
 * Source: mlx5dv_devx_obj_export(3), mlx5dv_devx_umem_export(3), mlx5dv_var_export(3).
 */

/** Describes a DEVX object in devx_obj_attrs_size bytes. */
int mlx5dv_devx_obj_export(struct mlx5dv_devx_obj *obj, void *data);
/** Turns a description into a DEVX object. Errors: EINVAL. */
struct mlx5dv_devx_obj *mlx5dv_devx_obj_import(struct ibv_context *context, void *data);
/** Forgets an imported DEVX object. */
void mlx5dv_devx_obj_unimport(struct mlx5dv_devx_obj *obj);

/** Describes registered memory in devx_umem_attrs_size bytes. */
int mlx5dv_devx_umem_export(struct mlx5dv_devx_umem *umem, void *data);
/** Turns a description into registered memory. Errors: EINVAL. */
struct mlx5dv_devx_umem *mlx5dv_devx_umem_import(struct ibv_context *context, void *data);
/** Forgets imported registered memory. */
void mlx5dv_devx_umem_unimport(struct mlx5dv_devx_umem *umem);

/** Describes a VAR in var_attrs_size bytes. */
int mlx5dv_var_export(struct mlx5dv_var *dv_var, void *data);
/** Turns a description into a VAR. Errors: EINVAL. */
struct mlx5dv_var *mlx5dv_var_import(struct ibv_context *context, void *data);
/** Forgets an imported VAR. */
void mlx5dv_var_unimport(struct mlx5dv_var *dv_var);

/* ---- Commands that answer later --------------------------------------------------------- */

/** Where answers of asynchronous commands arrive. */
struct mlx5dv_devx_cmd_comp {
    int fd; /**< readable when an answer waits */
};

/** Makes a place for answers. Source: mlx5dv_devx_create_cmd_comp(3). */
struct mlx5dv_devx_cmd_comp *mlx5dv_devx_create_cmd_comp(struct ibv_context *context);

/** Ends it, with the answers not yet read. */
void mlx5dv_devx_destroy_cmd_comp(struct mlx5dv_devx_cmd_comp *cmd_comp);

/** Starts a query command; its answer of outlen bytes arrives at cmd_comp with wr_id. */
int mlx5dv_devx_obj_query_async(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen,
                                size_t outlen, uint64_t wr_id,
                                struct mlx5dv_devx_cmd_comp *cmd_comp);

/**
 * Reads one answer; blocks unless fd is set non-blocking (then EAGAIN).
 *
 * @param cmd_resp_len  bytes at cmd_resp, header and largest outlen; ENOSPC if too few
 */
int mlx5dv_devx_get_async_cmd_comp(struct mlx5dv_devx_cmd_comp *cmd_comp,
                                   struct mlx5dv_devx_async_cmd_hdr *cmd_resp,
                                   size_t cmd_resp_len);

/* ---- Events and event queues ------------------------------------------------------------ */

/** Where device events arrive. */
struct mlx5dv_devx_event_channel {
    int fd; /**< readable when an event waits */
};

/** Makes an event channel. Source: mlx5dv_devx_create_event_channel(3). */
struct mlx5dv_devx_event_channel *
mlx5dv_devx_create_event_channel(struct ibv_context *context,
                                 enum mlx5dv_devx_create_event_channel_flags flags);

/** Ends an event channel and its subscriptions. */
void mlx5dv_devx_destroy_event_channel(struct mlx5dv_devx_event_channel *event_channel);

/**
 * Asks for events on a channel.
 *
 * @param obj         the object they concern, or NULL for events of the device
 * @param events_sz   bytes at events_num
 * @param events_num  event types, PRM numbers
 * @param cookie      comes back with each event
 * Errors: EINVAL, ENOMEM. Source: mlx5dv_devx_subscribe_devx_event(3).
 */
int mlx5dv_devx_subscribe_devx_event(struct mlx5dv_devx_event_channel *event_channel,
                                     struct mlx5dv_devx_obj *obj, uint16_t events_sz,
                                     uint16_t events_num[], uint64_t cookie);

/** Asks that one type of event adds 1 to an eventfd instead. Errors: EBADF, EINVAL. */
int mlx5dv_devx_subscribe_devx_event_fd(struct mlx5dv_devx_event_channel *event_channel, int fd,
                                        struct mlx5dv_devx_obj *obj, uint16_t event_num);

/**
 * Reads one event; blocks unless fd is set non-blocking.
 *
 * Returns the number of bytes, or -1 with errno set: EAGAIN, EOVERFLOW (events were lost), EINVAL
 * (event_resp_len is too small). Source: mlx5dv_devx_get_event(3).
 */
ssize_t mlx5dv_devx_get_event(struct mlx5dv_devx_event_channel *event_channel,
                              struct mlx5dv_devx_async_event_hdr *event_data,
                              size_t event_resp_len);

/** Reports the event queue behind a completion vector. Source: mlx5dv_devx_query_eqn(3). */
int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn);

/** An interrupt for an event queue of one's own. */
struct mlx5dv_devx_msi_vector {
    int vector; /**< for eqc.intr */
    int fd;     /**< non-blocking; readable when the queue has entries */
};

/** Allocates an interrupt. Errors: EOPNOTSUPP, ENOSPC. Source: mlx5dv_devx_alloc_msi_vector(3). */
struct mlx5dv_devx_msi_vector *mlx5dv_devx_alloc_msi_vector(struct ibv_context *ibctx);

/** Frees an interrupt. An event queue that still names it interrupts nobody from then on. */
int mlx5dv_devx_free_msi_vector(struct mlx5dv_devx_msi_vector *msi);

/** An event queue read by the program. */
struct mlx5dv_devx_eq {
    void *vaddr; /**< its entries */
};

/**
 * Creates an event queue; the library fills in eqc.log_page_size and the page list.
 * Source: mlx5dv_devx_create_eq(3).
 */
struct mlx5dv_devx_eq *mlx5dv_devx_create_eq(struct ibv_context *ibctx, const void *in,
                                             size_t inlen, void *out, size_t outlen);

/** Destroys an event queue. */
int mlx5dv_devx_destroy_eq(struct mlx5dv_devx_eq *eq);

/* ---- Reading and writing mailboxes ------------------------------------------------------ */

/*
 * The program describes a layout typ as struct mlx5_ifc_<typ>_bits, in which every bit of the
 * mailbox is one byte: offsets and sizes of its members, in bytes, are the field's in bits.
 * A field of up to 32 bits must not cross a 32-bit boundary, one of 64 bits must be aligned.
 * Mailboxes must be aligned to 4 bytes (8 for the 64-bit calls).
 */

#define __devx_nullp(typ) ((struct mlx5_ifc_##typ##_bits *)NULL)
#define __devx_st_sz_bits(typ) sizeof(struct mlx5_ifc_##typ##_bits)
#define __devx_bit_sz(typ, fld) sizeof(__devx_nullp(typ)->fld)
#define __devx_bit_off(typ, fld) offsetof(struct mlx5_ifc_##typ##_bits, fld)
#define __devx_dw_off(bit_off) ((bit_off) / 32)
#define __devx_64_off(bit_off) ((bit_off) / 64)
/* Bits to the right of the field in its 32-bit word. */
#define __devx_dw_bit_off(bit_sz, bit_off) (32 - (bit_sz) - (bit_off) % 32)
#define __devx_mask(bit_sz) ((uint32_t)(UINT64_MAX >> (64 - (bit_sz))))
#define __devx_dw_mask(bit_sz, bit_off) \
    (__devx_mask(bit_sz) << __devx_dw_bit_off(bit_sz, bit_off))

/** Sizes of a field and of layouts, in bytes, 32-bit and 64-bit words. */
#define DEVX_FLD_SZ_BYTES(typ, fld) (__devx_bit_sz(typ, fld) / 8)
#define DEVX_ST_SZ_BYTES(typ) (__devx_st_sz_bits(typ) / 8)
#define DEVX_ST_SZ_DW(typ) (__devx_st_sz_bits(typ) / 32)
#define DEVX_ST_SZ_QW(typ) (__devx_st_sz_bits(typ) / 64)
#define DEVX_UN_SZ_BYTES(typ) (sizeof(union mlx5_ifc_##typ##_bits) / 8)
#define DEVX_UN_SZ_DW(typ) (sizeof(union mlx5_ifc_##typ##_bits) / 32)

/** Where a field lies: bytes from the start of the layout, and address inside the mailbox p. */
#define DEVX_BYTE_OFF(typ, fld) (__devx_bit_off(typ, fld) / 8)
#define DEVX_ADDR_OF(typ, p, fld) ((unsigned char *)(p) + DEVX_BYTE_OFF(typ, fld))

/** Stores the low bit_sz (1..32) bits of value at bit bit_off of p; use DEVX_SET. */
static inline void _devx_set(void *p, uint32_t value, size_t bit_off, size_t bit_sz)
{
    __be32 *word = (__be32 *)p + __devx_dw_off(bit_off);
    const size_t shift = __devx_dw_bit_off(bit_sz, bit_off);
    const uint32_t others = be32toh(*word) & ~__devx_dw_mask(bit_sz, bit_off);

    *word = htobe32(others | (value & __devx_mask(bit_sz)) << shift);
}

/** Loads the bit_sz (1..32) bits at bit bit_off of p; use DEVX_GET. */
static inline uint32_t _devx_get(const void *p, size_t bit_off, size_t bit_sz)
{
    const uint32_t word = be32toh(((const __be32 *)p)[__devx_dw_off(bit_off)]);

    return word >> __devx_dw_bit_off(bit_sz, bit_off) & __devx_mask(bit_sz);
}

/** Stores a 64-bit field at bit bit_off of p; use DEVX_SET64. */
static inline void _devx_set64(void *p, uint64_t v, size_t bit_off)
{
    ((__be64 *)p)[__devx_64_off(bit_off)] = htobe64(v);
}

/** Loads a 64-bit field from bit bit_off of p; use DEVX_GET64. */
static inline uint64_t _devx_get64(const void *p, size_t bit_off)
{
    return be64toh(((const __be64 *)p)[__devx_64_off(bit_off)]);
}

/** Writes or reads field fld of the mailbox p of layout typ, in host byte order. */
#define DEVX_SET(typ, p, fld, v) \
    _devx_set(p, v, __devx_bit_off(typ, fld), __devx_bit_sz(typ, fld))
#define DEVX_GET(typ, p, fld) _devx_get(p, __devx_bit_off(typ, fld), __devx_bit_sz(typ, fld))
#define DEVX_SET64(typ, p, fld, v) _devx_set64(p, v, __devx_bit_off(typ, fld))
#define DEVX_GET64(typ, p, fld) _devx_get64(p, __devx_bit_off(typ, fld))

/** Writes element idx of an array of 64-bit fields. */
#define DEVX_ARRAY_SET64(typ, p, fld, idx, v) \
    do { \
        DEVX_SET64(typ, p, fld[idx], v); \
    } while (0)

/* ======================================================================================== */
/* Flow steering through the kernel's tables                                                */
/* ======================================================================================== */

/** A match mask or value, in device format (fte_match_param). */
struct mlx5dv_flow_match_parameters {
    size_t match_sz; /**< bytes of match_buf in use */
    uint64_t match_buf[];
};

/** mlx5dv_flow_matcher_attr.comp_mask */
enum mlx5dv_flow_matcher_attr_mask {
    MLX5DV_FLOW_MATCHER_MASK_FT_TYPE = 1 << 0, /**< ft_type */
    MLX5DV_FLOW_MATCHER_MASK_IB_PORT = 1 << 1, /**< ib_port */
};

/** A new matcher. */
struct mlx5dv_flow_matcher_attr {
    enum ibv_flow_attr_type type; /**< IBV_FLOW_ATTR_NORMAL */
    uint32_t flags;               /**< enum ibv_flow_flags: IBV_FLOW_ATTR_FLAGS_EGRESS or 0 */
    uint16_t priority;            /**< low values are tried first */
    uint8_t match_criteria_enable; /**< which parts of the mask count, device format */
    struct mlx5dv_flow_match_parameters *match_mask;
    uint64_t comp_mask; /**< mlx5dv_flow_matcher_attr_mask */
    enum mlx5dv_flow_table_type ft_type;
    uint32_t ib_port; /**< for the RDMA transport tables */
};

/**
 * Makes a matcher: rules that look at the same fields.
 *
 * Errors: EINVAL, EOPNOTSUPP. Source: mlx5dv_create_flow_matcher(3).
 */
struct mlx5dv_flow_matcher *
mlx5dv_create_flow_matcher(struct ibv_context *context,
                           struct mlx5dv_flow_matcher_attr *matcher_attr);

/** Ends a matcher. Errors: EBUSY (it has rules). */
int mlx5dv_destroy_flow_matcher(struct mlx5dv_flow_matcher *matcher);

/** What happens to matching packets. */
enum mlx5dv_flow_action_type {
    MLX5DV_FLOW_ACTION_DEST_IBV_QP = 0,               /**< qp receives them */
    MLX5DV_FLOW_ACTION_DROP = 1,
    MLX5DV_FLOW_ACTION_IBV_COUNTER = 2,               /**< counter counts them */
    MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION = 3,           /**< action changes them */
    MLX5DV_FLOW_ACTION_TAG = 4,                       /**< tag_value goes to the completion */
    MLX5DV_FLOW_ACTION_DEST_DEVX = 5,                 /**< obj, a TIR or table, takes them */
    MLX5DV_FLOW_ACTION_COUNTERS_DEVX = 6,             /**< obj, a flow counter, counts them */
    MLX5DV_FLOW_ACTION_DEFAULT_MISS = 7,              /**< on to where no rule matched */
    MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET = 8, /**< bulk_obj counts them */
};

/** One action of a rule; type says which member counts. */
struct mlx5dv_flow_action_attr {
    enum mlx5dv_flow_action_type type;
    union {
        struct ibv_qp *qp;
        struct ibv_counters *counter;
        struct ibv_flow_action *action;
        uint32_t tag_value;
        struct mlx5dv_devx_obj *obj;
        struct {
            struct mlx5dv_devx_obj *obj;
            uint32_t offset; /**< which counter of the bulk */
        } bulk_obj;
    };
};

/** mlx5dv_create_flow() for actions of attr_len bytes each. */
struct ibv_flow *__mlx5dv_create_flow(struct mlx5dv_flow_matcher *matcher,
                                      struct mlx5dv_flow_match_parameters *match_value,
                                      size_t num_actions,
                                      struct mlx5dv_flow_action_attr actions_attr[],
                                      size_t attr_len);

/** mlx5dv_create_flow() as a function. */
static inline struct ibv_flow *_mlx5dv_create_flow(struct mlx5dv_flow_matcher *matcher,
                                                   struct mlx5dv_flow_match_parameters *match_value,
                                                   size_t num_actions,
                                                   struct mlx5dv_flow_action_attr actions_attr[])
{
    return __mlx5dv_create_flow(matcher, match_value, num_actions, actions_attr,
                                sizeof(*actions_attr));
}

/**
 * Adds a rule; remove it with ibv_destroy_flow(). A macro, because libmlx5 once exported a
 * function of this name that took shorter actions.
 *
 * Errors: EINVAL, EEXIST, EOPNOTSUPP, ENOMEM. Source: mlx5dv_create_flow(3).
 */
#define mlx5dv_create_flow(matcher, match_value, num_actions, actions_attr) \
    _mlx5dv_create_flow(matcher, match_value, num_actions, actions_attr)

/** A place in the kernel's tables that programs' own tables can hand packets back to. */
struct mlx5dv_steering_anchor {
    uint32_t id; /**< flow table number, usable as a destination */
};

/** Where an anchor leads. */
struct mlx5dv_steering_anchor_attr {
    enum mlx5dv_flow_table_type ft_type;
    uint16_t priority;
    uint64_t comp_mask; /**< must be 0 */
};

/** Makes an anchor. Errors: EINVAL, EOPNOTSUPP. Source: mlx5dv_create_steering_anchor(3). */
struct mlx5dv_steering_anchor *
mlx5dv_create_steering_anchor(struct ibv_context *context,
                              struct mlx5dv_steering_anchor_attr *attr);

/** Ends an anchor. */
int mlx5dv_destroy_steering_anchor(struct mlx5dv_steering_anchor *sa);

/* ---- Actions that change packets -------------------------------------------------------- */

/** mlx5dv_flow_action_esp.comp_mask */
enum mlx5dv_flow_action_esp_mask {
    MLX5DV_FLOW_ACTION_ESP_MASK_FLAGS = 1 << 0, /**< action_flags */
};

/** mlx5 options of an ESP action. */
struct mlx5dv_flow_action_esp {
    uint64_t comp_mask;    /**< mlx5dv_flow_action_esp_mask */
    uint32_t action_flags; /**< enum mlx5dv_flow_action_flags */
};

/** ibv_create_flow_action_esp() with mlx5 options. Source: mlx5dv_flow_action_esp(3). */
struct ibv_flow_action *mlx5dv_create_flow_action_esp(struct ibv_context *ctx,
                                                      struct ibv_flow_action_esp_attr *esp,
                                                      struct mlx5dv_flow_action_esp *mlx5_attr);

/**
 * Makes an action that sets, adds or copies header fields.
 *
 * @param actions_sz  bytes at actions
 * @param actions     8 bytes each, big-endian, device format (set_action_in and so on)
 * @param ft_type     the tables whose rules will use it
 * Errors: EINVAL, EOPNOTSUPP. Source: mlx5dv_create_flow_action_modify_header(3).
 */
struct ibv_flow_action *
mlx5dv_create_flow_action_modify_header(struct ibv_context *ctx, size_t actions_sz,
                                        uint64_t actions[], enum mlx5dv_flow_table_type ft_type);

/**
 * Makes an action that adds or strips a tunnel.
 *
 * @param data  data_sz bytes of headers, as reformat_type wants them; NULL to strip to layer 2
 * Errors: EINVAL, EOPNOTSUPP. Source: mlx5dv_create_flow_action_packet_reformat(3).
 */
struct ibv_flow_action *mlx5dv_create_flow_action_packet_reformat(
    struct ibv_context *ctx, size_t data_sz, void *data,
    enum mlx5dv_flow_action_packet_reformat_type reformat_type,
    enum mlx5dv_flow_table_type ft_type);

/* ======================================================================================== */
/* Direct rules: tables that the program writes itself                                      */
/* ======================================================================================== */

/*
 * A packet enters a domain at its table of level 0 (root) and follows actions to tables of higher
 * levels. Objects must be destroyed in reverse order of use: rules, then actions and matchers,
 * then tables, then the domain; otherwise EBUSY.
 * Errors of the create calls: EINVAL, EOPNOTSUPP, ENOMEM. Source: mlx5dv_dr_flow(3).
 */

/** Which packets a domain steers. */
enum mlx5dv_dr_domain_type {
    MLX5DV_DR_DOMAIN_TYPE_NIC_RX = 0, /**< arriving; dropped if nothing matches */
    MLX5DV_DR_DOMAIN_TYPE_NIC_TX = 1, /**< leaving; go on if nothing matches */
    MLX5DV_DR_DOMAIN_TYPE_FDB = 2,    /**< in the switch; go to its manager if nothing matches */
};

/** mlx5dv_dr_domain_sync() flags. */
enum mlx5dv_dr_domain_sync_flags {
    MLX5DV_DR_DOMAIN_SYNC_FLAGS_SW = 1 << 0,  /**< wait until queued changes are written */
    MLX5DV_DR_DOMAIN_SYNC_FLAGS_HW = 1 << 1,  /**< ... and until packets see them */
    MLX5DV_DR_DOMAIN_SYNC_FLAGS_MEM = 1 << 2, /**< give unused device memory back */
};

/** Makes a domain. */
struct mlx5dv_dr_domain *mlx5dv_dr_domain_create(struct ibv_context *ctx,
                                                 enum mlx5dv_dr_domain_type type);

/** Ends a domain. Errors: EBUSY. */
int mlx5dv_dr_domain_destroy(struct mlx5dv_dr_domain *domain);

/** Waits for earlier changes of rules, as flags (mlx5dv_dr_domain_sync_flags) say. */
int mlx5dv_dr_domain_sync(struct mlx5dv_dr_domain *domain, uint32_t flags);

/** Whether unused device memory goes back to the system at once; off at first. */
void mlx5dv_dr_domain_set_reclaim_device_memory(struct mlx5dv_dr_domain *dmn, bool enable);

/** Whether two rules of a matcher below the root may have equal values; on at first. */
void mlx5dv_dr_domain_allow_duplicate_rules(struct mlx5dv_dr_domain *domain, bool allow);

/** Makes a table of a level (0: the root, shared with the kernel). */
struct mlx5dv_dr_table *mlx5dv_dr_table_create(struct mlx5dv_dr_domain *domain, uint32_t level);

/** Ends a table. Errors: EBUSY. */
int mlx5dv_dr_table_destroy(struct mlx5dv_dr_table *table);

/**
 * Makes a matcher.
 *
 * @param priority               low values are tried first; equal ones in any order
 * @param match_criteria_enable  which parts of mask count, device format
 */
struct mlx5dv_dr_matcher *mlx5dv_dr_matcher_create(struct mlx5dv_dr_table *table,
                                                   uint16_t priority,
                                                   uint8_t match_criteria_enable,
                                                   struct mlx5dv_flow_match_parameters *mask);

/** Ends a matcher. Errors: EBUSY. */
int mlx5dv_dr_matcher_destroy(struct mlx5dv_dr_matcher *matcher);

/** mlx5dv_dr_matcher_layout.flags */
enum mlx5dv_dr_matcher_layout_flags {
    MLX5DV_DR_MATCHER_LAYOUT_RESIZABLE = 1 << 0, /**< grow and shrink with the rules */
    MLX5DV_DR_MATCHER_LAYOUT_NUM_RULE = 1 << 1,  /**< log_num_of_rules_hint is valid */
};

/** How a matcher stores its rules. */
struct mlx5dv_dr_matcher_layout {
    uint32_t flags; /**< mlx5dv_dr_matcher_layout_flags */
    uint32_t log_num_of_rules_hint;
};

/** Sets how a matcher stores its rules. Errors: ENOTSUP (not for this matcher), EINVAL. */
int mlx5dv_dr_matcher_set_layout(struct mlx5dv_dr_matcher *matcher,
                                 struct mlx5dv_dr_matcher_layout *layout);

/**
 * Adds a rule: packets whose masked fields equal value get the actions, in their order.
 * It may take effect later: see mlx5dv_dr_domain_sync(). Errors: EEXIST (duplicate).
 */
struct mlx5dv_dr_rule *mlx5dv_dr_rule_create(struct mlx5dv_dr_matcher *matcher,
                                             struct mlx5dv_flow_match_parameters *value,
                                             size_t num_actions,
                                             struct mlx5dv_dr_action *actions[]);

/** Removes a rule. */
int mlx5dv_dr_rule_destroy(struct mlx5dv_dr_rule *rule);

/* ---- Actions: where packets go ---------------------------------------------------------- */

/** Flags of actions that hold device resources. */
enum mlx5dv_dr_action_flags {
    MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL = 1 << 0, /**< for rules of the root table only */
};

/** Delivers to a QP; NIC_RX. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_ibv_qp(struct ibv_qp *ibqp);

/** Goes on in a table of the same domain, not the root. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_table(struct mlx5dv_dr_table *table);

/** Goes on in the root table, at a priority. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_root_table(struct mlx5dv_dr_table *table,
                                                                 uint16_t priority);

/** Sends to a vport; FDB. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_vport(struct mlx5dv_dr_domain *domain,
                                                            uint32_t vport);

/** Sends to a port (from 1, up to phys_port_cnt_ex); FDB. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_dest_ib_port(struct mlx5dv_dr_domain *domain,
                                                              uint32_t ib_port);

/** Delivers to a TIR made with DEVX; NIC_RX. */
struct mlx5dv_dr_action *
mlx5dv_dr_action_create_dest_devx_tir(struct mlx5dv_devx_obj *devx_obj);

/** mlx5dv_dr_action_dest_attr.type */
enum mlx5dv_dr_action_dest_type {
    MLX5DV_DR_ACTION_DEST = 0,          /**< dest */
    MLX5DV_DR_ACTION_DEST_REFORMAT = 1, /**< dest_reformat */
};

/** A destination whose copy is reformatted first. */
struct mlx5dv_dr_action_dest_reformat {
    struct mlx5dv_dr_action *reformat;
    struct mlx5dv_dr_action *dest;
};

/** One of several destinations. */
struct mlx5dv_dr_action_dest_attr {
    enum mlx5dv_dr_action_dest_type type;
    union {
        struct mlx5dv_dr_action *dest;
        struct mlx5dv_dr_action_dest_reformat *dest_reformat;
    };
};

/** Sends a copy to each of num_dest destinations. */
struct mlx5dv_dr_action *
mlx5dv_dr_action_create_dest_array(struct mlx5dv_dr_domain *domain, size_t num_dest,
                                   struct mlx5dv_dr_action_dest_attr *dests[]);

/** Drops; not together with a destination. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_drop(void);

/** Does what the domain does when nothing matches. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_default_miss(void);

/* ---- Actions: counting, marking, metering ----------------------------------------------- */

/** Puts tag_value (24 bits) into the completion; NIC_RX. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_tag(uint32_t tag_value);

/** Counts in entry offset of a bulk of flow counters. */
struct mlx5dv_dr_action *
mlx5dv_dr_action_create_flow_counter(struct mlx5dv_devx_obj *devx_obj, uint32_t offset);

/** A meter, in device format. */
struct mlx5dv_dr_flow_meter_attr {
    struct mlx5dv_dr_table *next_table; /**< where metered packets go on */
    uint8_t active;
    uint8_t reg_c_index;            /**< metadata register that gets the colour */
    size_t flow_meter_parameter_sz; /**< bytes */
    void *flow_meter_parameter;     /**< flow_meter_parameters, device format */
};

/** Colours packets by rate. */
struct mlx5dv_dr_action *
mlx5dv_dr_action_create_flow_meter(struct mlx5dv_dr_flow_meter_attr *attr);

/** Changes the fields of a meter that modify_field_select (device format) names. */
int mlx5dv_dr_action_modify_flow_meter(struct mlx5dv_dr_action *action,
                                       struct mlx5dv_dr_flow_meter_attr *attr,
                                       __be64 modify_field_select);

/** A sampler. */
struct mlx5dv_dr_flow_sampler_attr {
    uint32_t sample_ratio; /**< about one packet in so many is sampled; from 1 */
    struct mlx5dv_dr_table *default_next_table; /**< where all packets go on */
    uint32_t num_sample_actions;
    struct mlx5dv_dr_action **sample_actions; /**< what is done to samples */
    __be64 action; /**< set_action_in run before default_next_table, or 0 */
};

/** Copies a share of the packets to other actions. */
struct mlx5dv_dr_action *
mlx5dv_dr_action_create_flow_sampler(struct mlx5dv_dr_flow_sampler_attr *attr);

/** First-hit objects: flags of mlx5dv_dr_action_create_aso(). */
enum mlx5dv_dr_action_aso_first_hit_flags {
    MLX5DV_DR_ACTION_FLAGS_ASO_FIRST_HIT_SET = 1 << 0, /**< mark the object as hit */
};

/** Flow meters: the colour a packet has before the meter; at most one. */
enum mlx5dv_dr_action_aso_flow_meter_flags {
    MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_RED = 1 << 0,
    MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_YELLOW = 1 << 1,
    MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_GREEN = 1 << 2,
    MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_UNDEFINED = 1 << 3,
};

/** Connection tracking: which side of the TCP connection sends. */
enum mlx5dv_dr_action_aso_ct_flags {
    MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_INITIATOR = 1 << 0,
    MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_RESPONDER = 1 << 1,
};

/**
 * Updates an advanced steering object and copies its value to a metadata register.
 *
 * @param devx_obj      bulk of first-hit, meter or connection tracking objects
 * @param offset        which of the bulk
 * @param flags         one of the mlx5dv_dr_action_aso_* enums, by kind of object
 * @param return_reg_c  index of the register
 */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_aso(struct mlx5dv_dr_domain *domain,
                                                     struct mlx5dv_devx_obj *devx_obj,
                                                     uint32_t offset, uint32_t flags,
                                                     uint8_t return_reg_c);

/** Changes such an action for rules created from now on. */
int mlx5dv_dr_action_modify_aso(struct mlx5dv_dr_action *action, uint32_t offset, uint32_t flags,
                                uint8_t return_reg_c);

/** Lets rules of dmn use a steering object that belongs to peer_dmn; flags as for the action. */
int mlx5dv_dr_aso_other_domain_link(struct mlx5dv_devx_obj *devx_obj,
                                    struct mlx5dv_dr_domain *peer_dmn,
                                    struct mlx5dv_dr_domain *dmn, uint32_t flags,
                                    uint8_t return_reg_c);

/** Ends such a link. */
int mlx5dv_dr_aso_other_domain_unlink(struct mlx5dv_devx_obj *devx_obj,
                                      struct mlx5dv_dr_domain *dmn);

/* ---- Actions: rewriting packets --------------------------------------------------------- */

/** Adds or strips a tunnel: see mlx5dv_create_flow_action_packet_reformat(). */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_packet_reformat(
    struct mlx5dv_dr_domain *domain, uint32_t flags,
    enum mlx5dv_flow_action_packet_reformat_type reformat_type, size_t data_sz, void *data);

/** Changes header fields: see mlx5dv_create_flow_action_modify_header(). */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_modify_header(struct mlx5dv_dr_domain *domain,
                                                               uint32_t flags, size_t actions_sz,
                                                               __be64 actions[]);

/** Removes the outer VLAN tag. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_pop_vlan(void);

/** Adds a VLAN tag: vlan_hdr is its EtherType and tag control information. */
struct mlx5dv_dr_action *mlx5dv_dr_action_create_push_vlan(struct mlx5dv_dr_domain *domain,
                                                           __be32 vlan_hdr);

/** Ends an action. Errors: EBUSY (a rule or an action uses it). */
int mlx5dv_dr_action_destroy(struct mlx5dv_dr_action *action);

/* ---- Looking at it all ------------------------------------------------------------------ */

/** Writes a domain with all it holds to fout, as text. Source: mlx5dv_dump(3). */
int mlx5dv_dump_dr_domain(FILE *fout, struct mlx5dv_dr_domain *domain);
/** Writes a table with its matchers and rules to fout. */
int mlx5dv_dump_dr_table(FILE *fout, struct mlx5dv_dr_table *table);
/** Writes a matcher with its rules to fout. */
int mlx5dv_dump_dr_matcher(FILE *fout, struct mlx5dv_dr_matcher *matcher);
/** Writes a rule to fout. */
int mlx5dv_dump_dr_rule(FILE *fout, struct mlx5dv_dr_rule *rule);

#ifdef __cplusplus
}
#endif

#endif
