// SPDX-License-Identifier: MIT
/**
 * @file mlx5_user_ioctl_verbs.h
 * Values and records that mlx5 direct verbs share with the kernel's ioctl interface.
 *
 * Programs use them by their short names in mlx5_api.h; the long names here are what the kernel
 * calls them. Integers are in host byte order.
 * Source: kernel uAPI, rdma/mlx5_user_ioctl_verbs.h.
 */
#ifndef VERBATIM_INFINIBAND_MLX5_USER_IOCTL_VERBS_H
#define VERBATIM_INFINIBAND_MLX5_USER_IOCTL_VERBS_H

#include <linux/types.h>

/* ---- Flow steering ---------------------------------------------------------------------- */

/** Flags of an IPsec ESP flow action: packets carry a metadata header (EtherType 0x8CE4). */
enum mlx5_ib_uapi_flow_action_flags {
    MLX5_IB_UAPI_FLOW_ACTION_FLAGS_REQUIRE_METADATA = 1 << 0,
};

/** The pipeline a flow table belongs to: which packets, seen at which point of their way. */
enum mlx5_ib_uapi_flow_table_type {
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX = 0,            /**< arriving Ethernet packets */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX = 1,            /**< leaving Ethernet packets */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB = 2,               /**< embedded switch, between vports */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX = 3,           /**< arriving RoCE packets */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX = 4,           /**< leaving RoCE packets */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX = 5, /**< arriving, by transport */
    MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX = 6, /**< leaving, by transport */
};

/** How a packet-reformat action rewrites the outer headers of a packet. */
enum mlx5_ib_uapi_flow_action_packet_reformat_type {
    /** Strip the tunnel; the inner packet starts with an Ethernet header. */
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2 = 0,
    /** Put the given headers in front of the whole frame. */
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL = 1,
    /** Strip the tunnel; the inner packet starts at layer 3 and gets the given L2 header. */
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2 = 2,
    /** Replace the Ethernet header by the given headers. */
    MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL = 3,
};

/* ---- Memory ----------------------------------------------------------------------------- */

/** mlx5-specific access bits of mlx5dv_reg_dmabuf_mr(3). */
enum mlx5_ib_uapi_reg_dmabuf_flags {
    MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT = 1 << 0, /**< go through the Data Direct function */
};

/** Kinds of device memory that mlx5dv_alloc_dm(3) hands out. */
enum mlx5_ib_uapi_dm_type {
    MLX5_IB_UAPI_DM_TYPE_MEMIC = 0,                        /**< on-chip memory for payload */
    MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM = 1,              /**< steering entries, by software */
    MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM = 2,         /**< header-modify arguments */
    MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM = 3, /**< header-modify patterns */
    MLX5_IB_UAPI_DM_TYPE_ENCAP_SW_ICM = 4,                 /**< encapsulation headers */
};

/** How the doorbell page of mlx5dv_devx_alloc_uar(3) is mapped. */
enum mlx5_ib_uapi_uar_alloc_type {
    MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF = 0, /**< write-combining, usable for BlueFlame */
    MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC = 1, /**< not cached: every store is its own write */
};

/** Flags of mlx5dv_alloc_var(3). */
enum mlx5_ib_uapi_var_alloc_flags {
    MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP = 1 << 0, /**< a page for emulation of PCIe TLPs */
};

/** Flags of mlx5dv_pp_alloc(3). */
enum mlx5_ib_uapi_pp_alloc_flags {
    MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX = 1 << 0, /**< share the rate entry with nobody */
};

/* ---- DEVX commands and events ----------------------------------------------------------- */

/** Head of one answer read by mlx5dv_devx_get_async_cmd_comp(3). */
struct mlx5_ib_uapi_devx_async_cmd_hdr {
    __aligned_u64 wr_id; /**< as given to mlx5dv_devx_obj_query_async(3) */
    __u8 out_data[];     /**< the command's output mailbox, in device format */
};

/** Flags of mlx5dv_devx_create_event_channel(3). */
enum mlx5_ib_uapi_devx_create_event_channel_flags {
    MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA = 1 << 0, /**< deliver the cookie only */
};

/** Head of one event read by mlx5dv_devx_get_event(3). */
struct mlx5_ib_uapi_devx_async_event_hdr {
    __aligned_u64 cookie; /**< as given to mlx5dv_devx_subscribe_devx_event(3) */
    __u8 out_data[];      /**< the event queue entry, unless the channel omits data */
};

/* ---- Ports ------------------------------------------------------------------------------ */

/** Which members of mlx5_ib_uapi_query_port are valid. */
enum mlx5_ib_uapi_query_port_flags {
    MLX5_IB_UAPI_QUERY_PORT_VPORT = 1 << 0,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_VHCA_ID = 1 << 1,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_RX = 1 << 2,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_TX = 1 << 3,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_REG_C0 = 1 << 4,
    MLX5_IB_UAPI_QUERY_PORT_ESW_OWNER_VHCA_ID = 1 << 5,
};

/** A match on a metadata register: a packet matches if (register & mask) == value. */
struct mlx5_ib_uapi_reg {
    __u32 value;
    __u32 mask;
};

/** What mlx5dv_query_port(3) reports; a member counts only if its bit is set in flags. */
struct mlx5_ib_uapi_query_port {
    __aligned_u64 flags;                 /**< mlx5_ib_uapi_query_port_flags */
    __u16 vport;                         /**< number of the port's vport in the embedded switch */
    __u16 vport_vhca_id;                 /**< id of the function behind that vport */
    __u16 esw_owner_vhca_id;             /**< id of the function that manages the switch */
    __u16 rsvd0;
    __aligned_u64 vport_steering_icm_rx; /**< ICM address that traffic to the vport jumps to */
    __aligned_u64 vport_steering_icm_tx; /**< ICM address that traffic of the vport jumps to */
    struct mlx5_ib_uapi_reg reg_c0;      /**< marks packets that left this vport */
};

#endif
