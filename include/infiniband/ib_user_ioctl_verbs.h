// SPDX-License-Identifier: MIT
/**
 * @file ib_user_ioctl_verbs.h
 * Constants and records that a verbs library shares with the kernel's uverbs interface.
 *
 * Programs meet them through verbs_api.h, under IBV_ names. The include guard is that of
 * Linux' <rdma/ib_user_ioctl_verbs.h>: whichever comes first in a translation unit serves.
 */
#ifndef IB_USER_IOCTL_VERBS_H
#define IB_USER_IOCTL_VERBS_H

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RDMA_UAPI_PTR
#define RDMA_UAPI_PTR(_type, _name) __aligned_u64 _name
#endif

/** First and last access flag that a device may ignore without refusing the registration. */
#define IB_UVERBS_ACCESS_OPTIONAL_FIRST (1 << 20)
#define IB_UVERBS_ACCESS_OPTIONAL_LAST (1 << 29)

/** What the kernel promises to a process that asks for its core support. */
enum ib_uverbs_core_support {
    IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS = 1 << 0,
    IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA = 1 << 1,
};

/** Access to a memory region; the values of IBV_ACCESS_*. */
enum ib_uverbs_access_flags {
    IB_UVERBS_ACCESS_LOCAL_WRITE = 1 << 0,
    IB_UVERBS_ACCESS_REMOTE_WRITE = 1 << 1,
    IB_UVERBS_ACCESS_REMOTE_READ = 1 << 2,
    IB_UVERBS_ACCESS_REMOTE_ATOMIC = 1 << 3,
    IB_UVERBS_ACCESS_MW_BIND = 1 << 4,
    IB_UVERBS_ACCESS_ZERO_BASED = 1 << 5,
    IB_UVERBS_ACCESS_ON_DEMAND = 1 << 6,
    IB_UVERBS_ACCESS_HUGETLB = 1 << 7,
    IB_UVERBS_ACCESS_FLUSH_GLOBAL = 1 << 8,
    IB_UVERBS_ACCESS_FLUSH_PERSISTENT = 1 << 9,

    IB_UVERBS_ACCESS_RELAXED_ORDERING = IB_UVERBS_ACCESS_OPTIONAL_FIRST,
    /** Every optional flag: bits 20 to 29. */
    IB_UVERBS_ACCESS_OPTIONAL_RANGE =
        (IB_UVERBS_ACCESS_OPTIONAL_LAST << 1) - IB_UVERBS_ACCESS_OPTIONAL_FIRST
};

/** Kinds of shared receive queue. */
enum ib_uverbs_srq_type {
    IB_UVERBS_SRQT_BASIC,
    IB_UVERBS_SRQT_XRC,
    IB_UVERBS_SRQT_TM,
};

/** Kinds of work queue. */
enum ib_uverbs_wq_type {
    IB_UVERBS_WQT_RQ,
};

/** Options of a work queue. */
enum ib_uverbs_wq_flags {
    IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
    IB_UVERBS_WQ_FLAGS_SCATTER_FCS = 1 << 1,
    IB_UVERBS_WQ_FLAGS_DELAY_DROP = 1 << 2,
    IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
};

/** Transport services of a queue pair. */
enum ib_uverbs_qp_type {
    IB_UVERBS_QPT_RC = 2,
    IB_UVERBS_QPT_UC,
    IB_UVERBS_QPT_UD,
    IB_UVERBS_QPT_RAW_PACKET = 8,
    IB_UVERBS_QPT_XRC_INI,
    IB_UVERBS_QPT_XRC_TGT,
    IB_UVERBS_QPT_DRIVER = 0xff,
};

/** Options of a queue pair. */
enum ib_uverbs_qp_create_flags {
    IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK = 1 << 1,
    IB_UVERBS_QP_CREATE_SCATTER_FCS = 1 << 8,
    IB_UVERBS_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
    IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
    IB_UVERBS_QP_CREATE_SQ_SIG_ALL = 1 << 12,
};

/** Capabilities of a port: CapabilityMask of PortInfo, but for bit 26. */
__extension__ enum ib_uverbs_query_port_cap_flags {
    IB_UVERBS_PCF_SM = 1 << 1,
    IB_UVERBS_PCF_NOTICE_SUP = 1 << 2,
    IB_UVERBS_PCF_TRAP_SUP = 1 << 3,
    IB_UVERBS_PCF_OPT_IPD_SUP = 1 << 4,
    IB_UVERBS_PCF_AUTO_MIGR_SUP = 1 << 5,
    IB_UVERBS_PCF_SL_MAP_SUP = 1 << 6,
    IB_UVERBS_PCF_MKEY_NVRAM = 1 << 7,
    IB_UVERBS_PCF_PKEY_NVRAM = 1 << 8,
    IB_UVERBS_PCF_LED_INFO_SUP = 1 << 9,
    IB_UVERBS_PCF_SM_DISABLED = 1 << 10,
    IB_UVERBS_PCF_SYS_IMAGE_GUID_SUP = 1 << 11,
    IB_UVERBS_PCF_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
    IB_UVERBS_PCF_EXTENDED_SPEEDS_SUP = 1 << 14,
    IB_UVERBS_PCF_CM_SUP = 1 << 16,
    IB_UVERBS_PCF_SNMP_TUNNEL_SUP = 1 << 17,
    IB_UVERBS_PCF_REINIT_SUP = 1 << 18,
    IB_UVERBS_PCF_DEVICE_MGMT_SUP = 1 << 19,
    IB_UVERBS_PCF_VENDOR_CLASS_SUP = 1 << 20,
    IB_UVERBS_PCF_DR_NOTICE_SUP = 1 << 21,
    IB_UVERBS_PCF_CAP_MASK_NOTICE_SUP = 1 << 22,
    IB_UVERBS_PCF_BOOT_MGMT_SUP = 1 << 23,
    IB_UVERBS_PCF_LINK_LATENCY_SUP = 1 << 24,
    IB_UVERBS_PCF_CLIENT_REG_SUP = 1 << 25,
    IB_UVERBS_PCF_IP_BASED_GIDS = 1 << 26, /**< not of the specification: GIDs are IP addresses */
    IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP = 1 << 27,
    IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP = 1 << 28,
    IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP = 1 << 29,
    IB_UVERBS_PCF_MCAST_FDB_TOP_SUP = 1 << 30,
    IB_UVERBS_PCF_HIERARCHY_INFO_SUP = 1U << 31,
};

/** Flags of a port that the specification does not know. */
enum ib_uverbs_query_port_flags {
    IB_UVERBS_QPF_GRH_REQUIRED = 1 << 0,
};

/** Kinds of key material of an ESP action. */
enum ib_uverbs_flow_action_esp_keymat {
    IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM,
};

/** How an ESP action makes its initialisation vectors. */
enum ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo {
    IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ,
};

/** AES-GCM key of an ESP action. Lengths are in bytes. */
struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    __aligned_u64 iv;
    __u32 iv_algo; /**< enum ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo */
    __u32 salt;
    __u32 icv_len; /**< integrity check value */
    __u32 key_len; /**< 16, 24 or 32 */
    __u32 aes_key[8];
};

/** Replay protection of an ESP action. */
enum ib_uverbs_flow_action_esp_replay {
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE,
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP,
};

/** Replay window kept as a bitmap. */
struct ib_uverbs_flow_action_esp_replay_bmp {
    __u32 size; /**< packets */
};

/** Options of an ESP action. Those with value 0 name the default of their bit. */
enum ib_uverbs_flow_action_esp_flags {
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO = 0,
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD = 1 << 0,

    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL = 0,
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT = 1 << 1,

    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT = 0,
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT = 1 << 2,

    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW = 1 << 3,
};

/** A list of header filters that an ESP tunnel wraps its payload in. */
struct ib_uverbs_flow_action_esp_encap {
    RDMA_UAPI_PTR(void *, val_ptr); /**< the filter, e.g. struct ibv_flow_ipv4_filter */
    RDMA_UAPI_PTR(struct ib_uverbs_flow_action_esp_encap *, next_ptr);
    __u16 len;  /**< bytes at val_ptr */
    __u16 type; /**< enum ibv_flow_spec_type */
};

/** Parameters of an ESP action. */
struct ib_uverbs_flow_action_esp {
    __u32 spi;
    __u32 seq;
    __u32 tfc_pad; /**< bytes of traffic-flow padding */
    __u32 flags;   /**< enum ib_uverbs_flow_action_esp_flags */
    __aligned_u64 hard_limit_pkts;
};

/** How to read counters. */
enum ib_uverbs_read_counters_flags {
    IB_UVERBS_READ_COUNTERS_PREFER_CACHED = 1 << 0,
};

/** What a program expects to do with memory; see IBV_ADVISE_MR_ADVICE_*. */
enum ib_uverbs_advise_mr_advice {
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
};

/** How to take advice. */
enum ib_uverbs_advise_mr_flag {
    IB_UVERBS_ADVISE_MR_FLAG_FLUSH = 1 << 0, /**< return only when it has been carried out */
};

/** The kernel's answer to a port query. */
struct ib_uverbs_query_port_resp_ex {
    struct {
        __u32 port_cap_flags;
        __u32 max_msg_sz;
        __u32 bad_pkey_cntr;
        __u32 qkey_viol_cntr;
        __u32 gid_tbl_len;
        __u16 pkey_tbl_len;
        __u16 lid;
        __u16 sm_lid;
        __u8 state;
        __u8 max_mtu;
        __u8 active_mtu;
        __u8 lmc;
        __u8 max_vl_num;
        __u8 sm_sl;
        __u8 subnet_timeout;
        __u8 init_type_reply;
        __u8 active_width;
        __u8 active_speed;
        __u8 phys_state;
        __u8 link_layer;
        __u8 flags;
        __u8 reserved;
    } legacy_resp;
    __u16 port_cap_flags2;
    __u8 reserved[2];
    __u32 active_speed_ex;
};

/** Sizes of a queue pair's queues. */
struct ib_uverbs_qp_cap {
    __u32 max_send_wr;
    __u32 max_recv_wr;
    __u32 max_send_sge;
    __u32 max_recv_sge;
    __u32 max_inline_data;
};

/** Kernel drivers. The upper half of a driver's resource types, e.g. MLX5DV_RES_TYPE_QP. */
enum rdma_driver_id {
    RDMA_DRIVER_UNKNOWN,
    RDMA_DRIVER_MLX5,
    RDMA_DRIVER_MLX4,
    RDMA_DRIVER_CXGB3,
    RDMA_DRIVER_CXGB4,
    RDMA_DRIVER_MTHCA,
    RDMA_DRIVER_BNXT_RE,
    RDMA_DRIVER_OCRDMA,
    RDMA_DRIVER_NES,
    RDMA_DRIVER_I40IW,
    RDMA_DRIVER_IRDMA = RDMA_DRIVER_I40IW,
    RDMA_DRIVER_VMW_PVRDMA,
    RDMA_DRIVER_QEDR,
    RDMA_DRIVER_HNS,
    RDMA_DRIVER_USNIC,
    RDMA_DRIVER_RXE,
    RDMA_DRIVER_HFI1,
    RDMA_DRIVER_QIB,
    RDMA_DRIVER_EFA,
    RDMA_DRIVER_SIW,
    RDMA_DRIVER_ERDMA,
    RDMA_DRIVER_MANA,
    RDMA_DRIVER_IONIC,
};

/** Kinds of GID; the values of enum ibv_gid_type. */
enum ib_uverbs_gid_type {
    IB_UVERBS_GID_TYPE_IB,
    IB_UVERBS_GID_TYPE_ROCE_V1,
    IB_UVERBS_GID_TYPE_ROCE_V2,
};

/** One entry of a GID table. */
struct ib_uverbs_gid_entry {
    __aligned_u64 gid[2]; /**< big endian, as in union ibv_gid */
    __u32 gid_index;
    __u32 port_num;
    __u32 gid_type;       /**< enum ib_uverbs_gid_type */
    __u32 netdev_ifindex; /**< 0: no network interface */
};

/** What stands behind a buffer that is handed to the kernel. */
enum ib_uverbs_buffer_type {
    IB_UVERBS_BUFFER_TYPE_DMABUF,
    IB_UVERBS_BUFFER_TYPE_VA,
};

/** A buffer that is handed to the kernel. */
struct ib_uverbs_buffer_desc {
    __u32 type; /**< enum ib_uverbs_buffer_type */
    __s32 fd;   /**< of the DMA-buf */
    __u32 flags;          /**< none defined; unknown bits are refused */
    __u32 optional_flags; /**< none defined; unknown bits are ignored */
    __aligned_u64 addr;   /**< offset within the DMA-buf, or virtual address */
    __aligned_u64 length; /**< bytes */
};

/** The two values of a completion counter. */
enum ib_uverbs_comp_cntr_entry {
    IB_UVERBS_COMP_CNTR_ENTRY_COMP,
    IB_UVERBS_COMP_CNTR_ENTRY_ERR,
};

/** What to do to a value of a completion counter. */
enum ib_uverbs_comp_cntr_modify_op {
    IB_UVERBS_COMP_CNTR_MODIFY_OP_SET,
    IB_UVERBS_COMP_CNTR_MODIFY_OP_INC,
};

/** Operations that a completion counter counts; IBV_QP_ATTACH_COMP_CNTR_OP_*. */
enum ib_uverbs_qp_attach_comp_cntr_op {
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
    IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};

#ifdef __cplusplus
}
#endif

#endif
