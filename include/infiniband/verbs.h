// SPDX-License-Identifier: MIT
/**
 * @file verbs.h
 * The verbs interface of libibverbs: devices, memory, queues and work requests.
 *
 * Records and calls are those of rdma-core 65, bit for bit: a program compiled against this
 * header runs on either library. Sections, in order: basics; contexts and dispatch; devices;
 * ports and GIDs; asynchronous events; domains; memory; memory windows; completions;
 * completion counters; addresses; work requests; shared receive queues; queue pairs;
 * posting; receive work queues; flow steering; counters; strings.
 *
 * Unless a call says otherwise:
 *  - calls that return `int` return 0 or a positive errno value (EOPNOTSUPP: the device
 *    cannot do it); calls that return a pointer return NULL and set errno;
 *  - every call may be made from any thread at any time, on the same object too. Destroying
 *    an object while another thread uses it is the program's error;
 *  - a `comp_mask` says which of a record's optional fields are valid; unknown bits are
 *    refused with EINVAL or EOPNOTSUPP. Reserved fields and flags are zero;
 *  - integers are in host byte order; __be16, __be32 and __be64 are big endian;
 *  - lengths are in bytes;
 *  - objects are made by the library: programs read their fields and never allocate or
 *    copy them.
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/types.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <infiniband/verbs_api.h>

#ifdef __cplusplus
#include <limits>

extern "C" {
#endif

/* ---------------------------------------------------------------------------------------
 * Basics
 * ------------------------------------------------------------------------------------- */

struct ibv_ah;
struct ibv_ah_attr;
struct ibv_alloc_dm_attr;
struct ibv_async_event;
struct ibv_buf;
struct ibv_comp_channel;
struct ibv_comp_cntr;
struct ibv_context;
struct ibv_counter_attach_attr;
struct ibv_counters;
struct ibv_counters_init_attr;
struct ibv_cq;
struct ibv_cq_ex;
struct ibv_cq_init_attr_ex;
struct ibv_device;
struct ibv_device_attr;
struct ibv_device_attr_ex;
struct ibv_dm;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_flow;
struct ibv_flow_action;
struct ibv_flow_action_esp_attr;
struct ibv_flow_attr;
struct ibv_modify_cq_attr;
struct ibv_mr;
struct ibv_mr_init_attr;
struct ibv_mw;
struct ibv_mw_bind;
struct ibv_ops_wr;
struct ibv_parent_domain_init_attr;
struct ibv_pd;
struct ibv_port_attr;
struct ibv_qp;
struct ibv_qp_init_attr_ex;
struct ibv_qp_open_attr;
struct ibv_qp_rate_limit_attr;
struct ibv_query_device_ex_input;
struct ibv_recv_wr;
struct ibv_rwq_ind_table;
struct ibv_rwq_ind_table_init_attr;
struct ibv_send_wr;
struct ibv_sge;
struct ibv_srq;
struct ibv_srq_init_attr_ex;
struct ibv_td;
struct ibv_td_init_attr;
struct ibv_values_ex;
struct ibv_wc;
struct ibv_wq;
struct ibv_wq_attr;
struct ibv_wq_init_attr;
struct ibv_xrcd;
struct ibv_xrcd_init_attr;

/** Non-zero if a record of which only `sz` bytes exist reaches as far as its field `fld`. */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/** Global identifier of a port: an IPv6 address in form. Big endian. */
union ibv_gid {
    uint8_t raw[16];
    struct {
        __be64 subnet_prefix;
        __be64 interface_id;
    } global;
};

/** What a node is; ibv_device.node_type. */
enum ibv_node_type {
    IBV_NODE_UNKNOWN = -1,
    IBV_NODE_CA = 1, /**< channel adapter: InfiniBand or RoCE */
    IBV_NODE_SWITCH,
    IBV_NODE_ROUTER,
    IBV_NODE_RNIC, /**< iWARP */
    IBV_NODE_USNIC,
    IBV_NODE_USNIC_UDP,
    IBV_NODE_UNSPECIFIED, /**< a protocol of its own, e.g. EFA */
};

/** Protocol family that a node speaks; ibv_device.transport_type. */
enum ibv_transport_type {
    IBV_TRANSPORT_UNKNOWN = -1,
    IBV_TRANSPORT_IB = 0, /**< InfiniBand and RoCE */
    IBV_TRANSPORT_IWARP,
    IBV_TRANSPORT_USNIC,
    IBV_TRANSPORT_USNIC_UDP,
    IBV_TRANSPORT_UNSPECIFIED,
};

/** Kinds of memory window; see ibv_alloc_mw(). */
enum ibv_mw_type {
    IBV_MW_TYPE_1 = 1, /**< bound by ibv_bind_mw(), belongs to the protection domain */
    IBV_MW_TYPE_2 = 2, /**< bound by a work request, belongs to one queue pair */
};

/* ---------------------------------------------------------------------------------------
 * Contexts and dispatch
 *
 * Fast-path calls go through tables of function pointers that the provider fills when it
 * opens a device. Programs call the ibv_ functions, never the tables.
 * ------------------------------------------------------------------------------------- */

/** Unused; keeps the place of two functions in struct ibv_device. */
struct _ibv_device_ops {
    struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
    void (*_dummy2)(struct ibv_context *context);
};

/** Sizes of the strings in struct ibv_device, terminating zero included. */
enum {
    IBV_SYSFS_NAME_MAX = 64,
    IBV_SYSFS_PATH_MAX = 256
};

/** A device of this machine, from ibv_get_device_list(3). */
struct ibv_device {
    struct _ibv_device_ops _ops;
    enum ibv_node_type node_type;
    enum ibv_transport_type transport_type;
    char name[IBV_SYSFS_NAME_MAX];        /**< kernel device, e.g. "mlx5_0" */
    char dev_name[IBV_SYSFS_NAME_MAX];    /**< character device, e.g. "uverbs0" */
    char dev_path[IBV_SYSFS_PATH_MAX];    /**< below /sys/class/infiniband_verbs */
    char ibdev_path[IBV_SYSFS_PATH_MAX];  /**< below /sys/class/infiniband */
};

/** Never defined: the type of ibv_query_port()'s argument in the library's own signature. */
struct _compat_ibv_port_attr;

/**
 * First table of a context's operations. Its size is frozen; the _compat_ members only keep
 * the places of calls that the library exports by name.
 */
struct ibv_context_ops {
    int (*_compat_query_device)(struct ibv_context *context, struct ibv_device_attr *device_attr);
    int (*_compat_query_port)(struct ibv_context *context, uint8_t port_num,
                              struct _compat_ibv_port_attr *port_attr);
    void *(*_compat_alloc_pd)(void);
    void *(*_compat_dealloc_pd)(void);
    void *(*_compat_reg_mr)(void);
    void *(*_compat_rereg_mr)(void);
    void *(*_compat_dereg_mr)(void);
    struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
    int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
    int (*dealloc_mw)(struct ibv_mw *mw);
    void *(*_compat_create_cq)(void);
    int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
    int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
    void *(*_compat_cq_event)(void);
    void *(*_compat_resize_cq)(void);
    void *(*_compat_destroy_cq)(void);
    void *(*_compat_create_srq)(void);
    void *(*_compat_modify_srq)(void);
    void *(*_compat_query_srq)(void);
    void *(*_compat_destroy_srq)(void);
    int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
                         struct ibv_recv_wr **bad_recv_wr);
    void *(*_compat_create_qp)(void);
    void *(*_compat_query_qp)(void);
    void *(*_compat_modify_qp)(void);
    void *(*_compat_destroy_qp)(void);
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
    void *(*_compat_create_ah)(void);
    void *(*_compat_destroy_ah)(void);
    void *(*_compat_attach_mcast)(void);
    void *(*_compat_detach_mcast)(void);
    void *(*_compat_async_event)(void);
};

/** An opened device: ibv_open_device(3). Every other object hangs off one. */
struct ibv_context {
    struct ibv_device *device;
    struct ibv_context_ops ops;
    int cmd_fd;           /**< may be passed to ibv_import_device() in another process */
    int async_fd;         /**< readable while ibv_get_async_event() would not block */
    int num_comp_vectors; /**< valid completion vectors: 0 to this, exclusive */
    pthread_mutex_t mutex;
    void *abi_compat; /**< __VERBS_ABI_IS_EXTENDED: part of a struct verbs_context */
};

/**
 * Second table of a context's operations, in memory just below the struct ibv_context that
 * programs hold. It grows downwards: a new operation is added at the top, and `sz` says how
 * many bytes, counted back from the end, the library knows. Use verbs_get_ctx_op().
 */
struct verbs_context {
    void (*free_buf)(struct ibv_buf *buf);
    void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
    int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
    struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
    int (*dealloc_dmah)(struct ibv_dmah *dmah);
    struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port_num,
                      struct ibv_port_attr *port_attr, size_t port_attr_len);
    int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge *sg_list, uint32_t num_sges);
    struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
    int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value,
                         uint32_t ncounters, uint32_t flags);
    int (*attach_counters_point_flow)(struct ibv_counters *counters,
                                      struct ibv_counter_attach_attr *attr,
                                      struct ibv_flow *flow);
    struct ibv_counters *(*create_counters)(struct ibv_context *context,
                                            struct ibv_counters_init_attr *init_attr);
    int (*destroy_counters)(struct ibv_counters *counters);
    struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
                                size_t length, unsigned int access);
    struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
    int (*free_dm)(struct ibv_dm *dm);
    int (*modify_flow_action_esp)(struct ibv_flow_action *action,
                                  struct ibv_flow_action_esp_attr *attr);
    int (*destroy_flow_action)(struct ibv_flow_action *action);
    struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
                                                      struct ibv_flow_action_esp_attr *attr);
    int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
    struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
                                          struct ibv_parent_domain_init_attr *attr);
    int (*dealloc_td)(struct ibv_td *td);
    struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
    int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
    int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
    int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
    struct ibv_rwq_ind_table *(*create_rwq_ind_table)(
        struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr);
    int (*destroy_wq)(struct ibv_wq *wq);
    int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
    struct ibv_wq *(*create_wq)(struct ibv_context *context,
                                struct ibv_wq_init_attr *wq_init_attr);
    int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
    struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
                                      struct ibv_cq_init_attr_ex *init_attr);
    struct verbs_ex_private *priv; /**< the library's own */
    int (*query_device_ex)(struct ibv_context *context,
                           const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t attr_size);
    int (*ibv_destroy_flow)(struct ibv_flow *flow);
    void (*ABI_placeholder2)(void);
    struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
    void (*ABI_placeholder1)(void);
    struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
                                   struct ibv_qp_init_attr_ex *qp_init_attr_ex);
    int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
    struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
                                     struct ibv_srq_init_attr_ex *srq_init_attr_ex);
    struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context,
                                  struct ibv_xrcd_init_attr *xrcd_init_attr);
    int (*close_xrcd)(struct ibv_xrcd *xrcd);
    uint64_t _ABI_placeholder3;
    size_t sz; /**< bytes of this record, from its first known operation to its end */
    struct ibv_context context;
};

/** Value of ibv_context.abi_compat that marks a context with a struct verbs_context. */
#ifdef __cplusplus
#define __VERBS_ABI_IS_EXTENDED ((void *)std::numeric_limits<uintptr_t>::max())
#else
#define __VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)
#endif

/** The record around `ctx`, or NULL if a library older than 2011 opened it. */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
    if (ctx->abi_compat == __VERBS_ABI_IS_EXTENDED)
        return (struct verbs_context *)((char *)ctx - offsetof(struct verbs_context, context));
    return NULL;
}

/**
 * The struct verbs_context of `ctx` if operation `op` can be called through it; otherwise
 * NULL, either because the library is older than the operation or the device lacks it.
 */
#define verbs_get_ctx_op(ctx, op)                                                             \
    __extension__({                                                                           \
        struct verbs_context *__vctx = verbs_get_ctx(ctx);                                    \
        if (__vctx &&                                                                         \
            (__vctx->sz < sizeof(*__vctx) - offsetof(struct verbs_context, op) || !__vctx->op)) \
            __vctx = NULL;                                                                    \
        __vctx;                                                                               \
    })

/* ---------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------- */

/**
 * Lists the devices of this machine: an array that ends with NULL, to be given to
 * ibv_free_device_list(). `num_devices`, if not NULL, receives its length, 0 on failure.
 * No device is an empty array, not an error. errno: EPERM, ENOMEM, ENOSYS (no RDMA here).
 * ibv_get_device_list(3)
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

#ifdef RDMA_STATIC_PROVIDERS
/*
 * Programs that link statically name their providers: -DRDMA_STATIC_PROVIDERS=mlx5,mlx4
 * (or all, or none). Taking each one's address pulls it out of its archive.
 */
struct verbs_device_ops;
extern const struct verbs_device_ops verbs_provider_all;
extern const struct verbs_device_ops verbs_provider_bnxt_re;
extern const struct verbs_device_ops verbs_provider_cxgb4;
extern const struct verbs_device_ops verbs_provider_efa;
extern const struct verbs_device_ops verbs_provider_erdma;
extern const struct verbs_device_ops verbs_provider_hfi1verbs;
extern const struct verbs_device_ops verbs_provider_hns;
extern const struct verbs_device_ops verbs_provider_ionic;
extern const struct verbs_device_ops verbs_provider_ipathverbs;
extern const struct verbs_device_ops verbs_provider_irdma;
extern const struct verbs_device_ops verbs_provider_mana;
extern const struct verbs_device_ops verbs_provider_mlx4;
extern const struct verbs_device_ops verbs_provider_mlx5;
extern const struct verbs_device_ops verbs_provider_mthca;
extern const struct verbs_device_ops verbs_provider_none;
extern const struct verbs_device_ops verbs_provider_ocrdma;
extern const struct verbs_device_ops verbs_provider_qedr;
extern const struct verbs_device_ops verbs_provider_rxe;
extern const struct verbs_device_ops verbs_provider_siw;
extern const struct verbs_device_ops verbs_provider_vmw_pvrdma;

#define _RDMA_STATIC_PREFIX_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, \
                             _16, _17, _18, _19, _20, ...)                                     \
    &verbs_provider_##_1, &verbs_provider_##_2, &verbs_provider_##_3, &verbs_provider_##_4,    \
        &verbs_provider_##_5, &verbs_provider_##_6, &verbs_provider_##_7,                      \
        &verbs_provider_##_8, &verbs_provider_##_9, &verbs_provider_##_10,                     \
        &verbs_provider_##_11, &verbs_provider_##_12, &verbs_provider_##_13,                   \
        &verbs_provider_##_14, &verbs_provider_##_15, &verbs_provider_##_16,                   \
        &verbs_provider_##_17, &verbs_provider_##_18, &verbs_provider_##_19,                   \
        &verbs_provider_##_20
#define _RDMA_STATIC_PREFIX(arg)                                                               \
    _RDMA_STATIC_PREFIX_(arg, none, none, none, none, none, none, none, none, none, none,      \
                         none, none, none, none, none, none, none, none, none)

/** Does nothing; its arguments keep the linker from dropping the providers. */
void ibv_static_providers(void *unused, ...);

static inline struct ibv_device **__ibv_get_device_list(int *num_devices)
{
    ibv_static_providers(NULL, _RDMA_STATIC_PREFIX(RDMA_STATIC_PROVIDERS), NULL);
    return ibv_get_device_list(num_devices);
}
#define ibv_get_device_list(num_devices) __ibv_get_device_list(num_devices)
#endif

/**
 * Frees a list. Devices of it that are not open become invalid: open first, then free.
 * ibv_free_device_list(3)
 */
void ibv_free_device_list(struct ibv_device **list);

/**
 * The kernel's name of a device, e.g. "mlx5_0"; valid as long as `device`.
 * ibv_get_device_name(3)
 */
const char *ibv_get_device_name(struct ibv_device *device);

/**
 * A number that stays with the device until the machine restarts, or -1 if the kernel has
 * none. ibv_get_device_index(3)
 */
int ibv_get_device_index(struct ibv_device *device);

/** Node GUID of a device, big endian; 0 on failure. ibv_get_device_guid(3) */
__be64 ibv_get_device_guid(struct ibv_device *device);

/**
 * Opens a device. Contexts are independent of each other: objects of one cannot be used
 * with another. ibv_open_device(3)
 */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/**
 * Closes a context and returns 0, or -1. Its objects must be gone: what is left is released
 * by the kernel, the program's memory for it leaks. ibv_close_device(3)
 */
int ibv_close_device(struct ibv_context *context);

/**
 * Makes a context from another process's cmd_fd (sent over a socket). Both share objects by
 * handle; the fd belongs to the new context. ibv_import_device(3)
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/** Whether memory that a device uses survives fork(2). ibv_is_fork_initialized(3) */
enum ibv_fork_status {
    IBV_FORK_DISABLED,
    IBV_FORK_ENABLED,
    IBV_FORK_UNNEEDED, /**< the kernel copies such memory for the child by itself */
};

/**
 * Makes registered memory safe against fork(2): a child must not touch it, the parent's
 * pages stay where they are. Call before any other verb; EINVAL if it is too late.
 * ibv_fork_init(3)
 */
int ibv_fork_init(void);

/** See enum ibv_fork_status. ibv_is_fork_initialized(3) */
enum ibv_fork_status ibv_is_fork_initialized(void);

/** Capabilities of a device: bits of ibv_device_attr.device_cap_flags. */
enum ibv_device_cap_flags {
    IBV_DEVICE_RESIZE_MAX_WR = 1,       /**< a queue pair's max_wr can be modified */
    IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,  /**< counts bad P_Keys per port */
    IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,  /**< counts bad Q_Keys per port */
    IBV_DEVICE_RAW_MULTI = 1 << 3,
    IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
    IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
    IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
    IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7, /**< takes IBV_QP_CUR_STATE */
    IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
    IBV_DEVICE_INIT_TYPE = 1 << 9,
    IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10, /**< raises IBV_EVENT_PORT_ACTIVE */
    IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
    IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
    IBV_DEVICE_SRQ_RESIZE = 1 << 13,
    IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
    IBV_DEVICE_MEM_WINDOW = 1 << 17,
    IBV_DEVICE_UD_IP_CSUM = 1 << 18,
    IBV_DEVICE_XRC = 1 << 20,
    IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21, /**< SEND_WITH_INV, LOCAL_INV, type 2 windows */
    IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
    IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
    IBV_DEVICE_RC_IP_CSUM = 1 << 25,
    IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
    IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29 /**< takes ibv_create_flow() */
};

/* More capabilities, in ibv_device_attr_ex.device_cap_flags_ex only. */
#define IBV_DEVICE_RAW_SCATTER_FCS (1ULL << 34)       /**< can leave the FCS in raw packets */
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36) /**< can pad writes to cache lines */
#define IBV_DEVICE_CC_DMA_BOUNCE (1ULL << 41)         /**< confidential guest: DMA is bounced */

/** What atomic operations are atomic with respect to. */
enum ibv_atomic_cap {
    IBV_ATOMIC_NONE, /**< no atomic operations */
    IBV_ATOMIC_HCA,  /**< queue pairs of this device */
    IBV_ATOMIC_GLOB  /**< the CPU and other devices, too */
};

/** Attributes of a device. Counts and sizes are upper limits. ibv_query_device(3) */
struct ibv_device_attr {
    char fw_ver[64];
    __be64 node_guid;
    __be64 sys_image_guid;
    uint64_t max_mr_size;
    uint64_t page_size_cap; /**< bit n: pages of 2^n bytes */
    uint32_t vendor_id;     /**< IEEE OUI, e.g. 0x02c9 */
    uint32_t vendor_part_id;
    uint32_t hw_ver;
    int max_qp;
    int max_qp_wr; /**< of one queue */
    unsigned int device_cap_flags; /**< enum ibv_device_cap_flags */
    int max_sge;                   /**< of one work request, reads on the next line */
    int max_sge_rd;
    int max_cq;
    int max_cqe; /**< of one completion queue */
    int max_mr;
    int max_pd;
    int max_qp_rd_atom;      /**< reads and atomics that a queue pair can answer at a time */
    int max_ee_rd_atom;      /**< ee: end-to-end contexts, of reliable datagrams */
    int max_res_rd_atom;     /**< the same for the whole device */
    int max_qp_init_rd_atom; /**< reads and atomics that a queue pair can have under way */
    int max_ee_init_rd_atom;
    enum ibv_atomic_cap atomic_cap;
    int max_ee;
    int max_rdd;
    int max_mw;
    int max_raw_ipv6_qp;
    int max_raw_ethy_qp;
    int max_mcast_grp;
    int max_mcast_qp_attach; /**< queue pairs per group */
    int max_total_mcast_qp_attach;
    int max_ah;
    int max_fmr;
    int max_map_per_fmr;
    int max_srq;
    int max_srq_wr;
    int max_srq_sge;
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay; /**< n: answers take up to 4.096 us * 2^n */
    uint8_t phys_port_cnt;      /**< ports are numbered from 1 */
};

/** What to ask ibv_query_device_ex() for: nothing yet. */
struct ibv_query_device_ex_input {
    uint32_t comp_mask; /**< 0 */
};

/** ibv_odp_caps.general_caps */
enum ibv_odp_general_caps {
    IBV_ODP_SUPPORT = 1 << 0,          /**< IBV_ACCESS_ON_DEMAND */
    IBV_ODP_SUPPORT_IMPLICIT = 1 << 1, /**< a region that is the whole address space */
};

/** Operations that may touch on-demand memory. */
enum ibv_odp_transport_cap_bits {
    IBV_ODP_SUPPORT_SEND = 1 << 0,
    IBV_ODP_SUPPORT_RECV = 1 << 1,
    IBV_ODP_SUPPORT_WRITE = 1 << 2,
    IBV_ODP_SUPPORT_READ = 1 << 3,
    IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
    IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
    IBV_ODP_SUPPORT_FLUSH = 1 << 6,
    IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

/** On-demand paging. */
struct ibv_odp_caps {
    uint64_t general_caps; /**< enum ibv_odp_general_caps */
    struct {
        uint32_t rc_odp_caps; /**< enum ibv_odp_transport_cap_bits, all three */
        uint32_t uc_odp_caps;
        uint32_t ud_odp_caps;
    } per_transport_caps;
};

/** TCP segmentation offload. */
struct ibv_tso_caps {
    uint32_t max_tso;        /**< bytes of payload in one request; 0: not supported */
    uint32_t supported_qpts; /**< see ibv_is_qpt_supported() */
};

/** How a received packet's fields are turned into a hash. */
enum ibv_rx_hash_function_flags {
    IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

/**
 * Packet fields that enter a receive hash. One queue pair takes either IPv4 or IPv6 and
 * either TCP or UDP.
 */
__extension__ enum ibv_rx_hash_fields {
    IBV_RX_HASH_SRC_IPV4 = 1 << 0,
    IBV_RX_HASH_DST_IPV4 = 1 << 1,
    IBV_RX_HASH_SRC_IPV6 = 1 << 2,
    IBV_RX_HASH_DST_IPV6 = 1 << 3,
    IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
    IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
    IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
    IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
    IBV_RX_HASH_IPSEC_SPI = 1 << 8,
    IBV_RX_HASH_INNER = (1UL << 31), /**< fields of the packet inside a tunnel */
};

/** Receive-side scaling. */
struct ibv_rss_caps {
    uint32_t supported_qpts;
    uint32_t max_rwq_indirection_tables;
    uint32_t max_rwq_indirection_table_size; /**< entries */
    uint64_t rx_hash_fields_mask;            /**< enum ibv_rx_hash_fields */
    uint8_t rx_hash_function;                /**< enum ibv_rx_hash_function_flags */
};

/** Packet pacing; rates in kbit/s. */
struct ibv_packet_pacing_caps {
    uint32_t qp_rate_limit_min;
    uint32_t qp_rate_limit_max; /**< 0: not supported */
    uint32_t supported_qpts;
};

/** ibv_device_attr_ex.raw_packet_caps */
enum ibv_raw_packet_caps {
    IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
    IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
    IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
    IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
};

/** ibv_tm_caps.flags */
enum ibv_tm_cap_flags {
    IBV_TM_CAP_RC = 1 << 0, /**< tag matching for reliable connections */
};

/** Tag matching; see enum ibv_srq_type. */
struct ibv_tm_caps {
    uint32_t max_rndv_hdr_size; /**< bytes of a rendezvous request's header */
    uint32_t max_num_tags;      /**< posted tags of one queue; 0: not supported */
    uint32_t flags;             /**< enum ibv_tm_cap_flags */
    uint32_t max_ops;           /**< list operations outstanding */
    uint32_t max_sge;           /**< of one tagged buffer */
};

/** Completion queue moderation; see ibv_modify_cq(). */
struct ibv_cq_moderation_caps {
    uint16_t max_cq_count;
    uint16_t max_cq_period; /**< microseconds */
};

/** Operand sizes of atomics over PCI: bits of struct ibv_pci_atomic_caps. */
enum ibv_pci_atomic_op_size {
    IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
    IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
    IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
};

/** Atomics that the device itself issues on its bus. */
struct ibv_pci_atomic_caps {
    uint16_t fetch_add;
    uint16_t swap;
    uint16_t compare_swap;
};

/** All attributes of a device; those it knows nothing of are 0. ibv_query_device_ex(3) */
struct ibv_device_attr_ex {
    struct ibv_device_attr orig_attr;
    uint32_t comp_mask;
    struct ibv_odp_caps odp_caps;
    uint64_t completion_timestamp_mask; /**< bits of a raw timestamp that count; 0: none */
    uint64_t hca_core_clock;            /**< kHz, of raw timestamps */
    uint64_t device_cap_flags_ex;       /**< device_cap_flags and the IBV_DEVICE_ macros */
    struct ibv_tso_caps tso_caps;
    struct ibv_rss_caps rss_caps;
    uint32_t max_wq_type_rq; /**< receive work queues */
    struct ibv_packet_pacing_caps packet_pacing_caps;
    uint32_t raw_packet_caps; /**< enum ibv_raw_packet_caps */
    struct ibv_tm_caps tm_caps;
    struct ibv_cq_moderation_caps cq_mod_caps;
    uint64_t max_dm_size; /**< bytes of device memory; 0: none */
    struct ibv_pci_atomic_caps pci_atomic_caps;
    uint32_t xrc_odp_caps;     /**< enum ibv_odp_transport_cap_bits */
    uint32_t phys_port_cnt_ex; /**< ports, where phys_port_cnt is too small */
};

/** Reads a device's attributes. ibv_query_device(3) */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/**
 * Reads all of a device's attributes; a library without this call fills orig_attr and
 * clears the rest. `input` may be NULL. EINVAL: input->comp_mask is not 0.
 * ibv_query_device_ex(3)
 */
static inline int ibv_query_device_ex(struct ibv_context *context,
                                      const struct ibv_query_device_ex_input *input,
                                      struct ibv_device_attr_ex *attr)
{
    struct verbs_context *vctx;

    if (input && input->comp_mask)
        return EINVAL;

    vctx = verbs_get_ctx_op(context, query_device_ex);
    if (vctx) {
        int ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));

        if (ret != EOPNOTSUPP && ret != ENOSYS)
            return ret;
    }
    memset(attr, 0, sizeof(*attr));
    return ibv_query_device(context, &attr->orig_attr);
}

/** Fields of struct ibv_values_ex. */
enum ibv_values_mask {
    IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
    IBV_VALUES_MASK_RESERVED = 1 << 1
};

/** Values of a device at this moment. */
struct ibv_values_ex {
    uint32_t comp_mask;         /**< in: what is asked; out: what was answered */
    struct timespec raw_clock;  /**< tv_nsec: ticks of the free-running clock; tv_sec: 0 */
};

/** Reads a device's values of this moment. ibv_query_rt_values_ex(3) */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, query_rt_values);

    return vctx ? vctx->query_rt_values(context, values) : EOPNOTSUPP;
}

/* ---------------------------------------------------------------------------------------
 * Ports, GIDs and partition keys
 * ------------------------------------------------------------------------------------- */

/** Largest payload of a packet. */
enum ibv_mtu {
    IBV_MTU_256 = 1,
    IBV_MTU_512 = 2,
    IBV_MTU_1024 = 3,
    IBV_MTU_2048 = 4,
    IBV_MTU_4096 = 5
};

/** Logical state of a port. */
enum ibv_port_state {
    IBV_PORT_NOP = 0,
    IBV_PORT_DOWN = 1,
    IBV_PORT_INIT = 2,
    IBV_PORT_ARMED = 3,
    IBV_PORT_ACTIVE = 4, /**< carries data */
    IBV_PORT_ACTIVE_DEFER = 5
};

/** What lies under a port: ibv_port_attr.link_layer. Unspecified means InfiniBand. */
enum {
    IBV_LINK_LAYER_UNSPECIFIED,
    IBV_LINK_LAYER_INFINIBAND,
    IBV_LINK_LAYER_ETHERNET,
};

/** Capabilities of a port: CapabilityMask of PortInfo. */
enum ibv_port_cap_flags {
    IBV_PORT_SM = 1 << 1,
    IBV_PORT_NOTICE_SUP = 1 << 2,
    IBV_PORT_TRAP_SUP = 1 << 3,
    IBV_PORT_OPT_IPD_SUP = 1 << 4,
    IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
    IBV_PORT_SL_MAP_SUP = 1 << 6,
    IBV_PORT_MKEY_NVRAM = 1 << 7,
    IBV_PORT_PKEY_NVRAM = 1 << 8,
    IBV_PORT_LED_INFO_SUP = 1 << 9,
    IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
    IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
    IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
    IBV_PORT_CAP_MASK2_SUP = 1 << 15, /**< port_cap_flags2 is valid */
    IBV_PORT_CM_SUP = 1 << 16,
    IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
    IBV_PORT_REINIT_SUP = 1 << 18,
    IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
    IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
    IBV_PORT_DR_NOTICE_SUP = 1 << 21,
    IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
    IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
    IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
    IBV_PORT_CLIENT_REG_SUP = 1 << 25,
    IBV_PORT_IP_BASED_GIDS = 1 << 26 /**< GIDs are IP addresses: RoCE */
};

/** More capabilities of a port: CapabilityMask2 of PortInfo. */
enum ibv_port_cap_flags2 {
    IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
    IBV_PORT_INFO_EXT_SUP = 1 << 1,
    IBV_PORT_VIRT_SUP = 1 << 2,
    IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
    IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
    IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
    IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
    IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
};

/** Attributes of a port. ibv_query_port(3) */
struct ibv_port_attr {
    enum ibv_port_state state;
    enum ibv_mtu max_mtu;
    enum ibv_mtu active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags; /**< enum ibv_port_cap_flags */
    uint32_t max_msg_sz;     /**< bytes of one message */
    uint32_t bad_pkey_cntr;
    uint32_t qkey_viol_cntr;
    uint16_t pkey_tbl_len;
    uint16_t lid; /**< 0 on Ethernet */
    uint16_t sm_lid;
    uint8_t lmc; /**< the port answers to 2^lmc LIDs from lid on */
    uint8_t max_vl_num;
    uint8_t sm_sl;
    uint8_t subnet_timeout; /**< n: packets take up to 4.096 us * 2^n */
    uint8_t init_type_reply;
    uint8_t active_width; /**< lanes: 1: 1, 2: 4, 4: 8, 8: 12, 16: 2 */
    uint8_t active_speed; /**< Gbit/s of a lane: 1: 2.5, 2: 5, 4 and 8: 10, 16: 14, 32: 25,
                               64: 50, 128: 100 */
    uint8_t phys_state;   /**< 1 sleep, 2 polling, 3 disabled, 4 training, 5 up, 6 recovery,
                               7 test */
    uint8_t link_layer;   /**< IBV_LINK_LAYER_* */
    uint8_t flags;        /**< IBV_QPF_* */
    uint16_t port_cap_flags2; /**< enum ibv_port_cap_flags2 */
    uint32_t active_speed_ex; /**< speed where active_speed is too small; 0: use that */
};

/** The exported call fills the record's first fields only: call the macro below. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *port_attr);

/** ibv_query_port() with a record of which the library knows the size. */
static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
                                    struct ibv_port_attr *port_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

    if (vctx)
        return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));

    memset(port_attr, 0, sizeof(*port_attr));
    return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)port_attr);
}

/**
 * Reads the attributes of port `port_num` (from 1) into a struct ibv_port_attr.
 * EINVAL: no such port. ibv_query_port(3)
 */
#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

/**
 * Reads a port's bandwidth in units of 100 Mbit/s, all lanes together.
 * ibv_query_port_speed(3)
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/** Protocol that a GID stands for. */
enum ibv_gid_type {
    IBV_GID_TYPE_IB,
    IBV_GID_TYPE_ROCE_V1, /**< Ethernet frames of type 0x8915 */
    IBV_GID_TYPE_ROCE_V2, /**< UDP to port 4791 */
};

/** An entry of a port's GID table. */
struct ibv_gid_entry {
    union ibv_gid gid;
    uint32_t gid_index;
    uint32_t port_num;
    uint32_t gid_type;     /**< enum ibv_gid_type */
    uint32_t ndev_ifindex; /**< network interface; 0: none */
};

/**
 * Reads GID `index` of a port; an empty entry is all zeros. Returns 0, or -1 with errno set.
 * ibv_query_gid(3)
 */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/** ibv_query_gid_ex() for a record of `entry_size` bytes. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

/**
 * Reads entry `gid_index` of a port's GID table with its type and interface. `flags` is 0.
 * ENODATA: the entry is empty; EINVAL: no such port or index. ibv_query_gid_ex(3)
 */
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
                                   uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
{
    return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/** ibv_query_gid_table() for records of `entry_size` bytes. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size);

/**
 * Reads the entries in use of all ports' GID tables. `flags` is 0. Returns how many were
 * written, or a negative errno value (EINVAL: they are more than `max_entries`).
 * ibv_query_gid_table(3)
 */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
                                          struct ibv_gid_entry *entries, size_t max_entries,
                                          uint32_t flags)
{
    return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/** Reads partition key `index` of a port. Returns 0, or -1 with errno set. ibv_query_pkey(3) */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/** Index of a partition key in a port's table, or -1 with errno set. ibv_get_pkey_index(3) */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* ---------------------------------------------------------------------------------------
 * Asynchronous events
 * ------------------------------------------------------------------------------------- */

/** What happened. The member of ibv_async_event.element that is valid stands in brackets. */
enum ibv_event_type {
    IBV_EVENT_CQ_ERR,            /**< [cq] overrun */
    IBV_EVENT_QP_FATAL,          /**< [qp] error that no completion can report */
    IBV_EVENT_QP_REQ_ERR,        /**< [qp] the responder saw an invalid request */
    IBV_EVENT_QP_ACCESS_ERR,     /**< [qp] the responder saw an access violation */
    IBV_EVENT_COMM_EST,          /**< [qp] first packet while still in RTR */
    IBV_EVENT_SQ_DRAINED,        /**< [qp] the send queue is drained: SQD */
    IBV_EVENT_PATH_MIG,          /**< [qp] the alternate path is in use */
    IBV_EVENT_PATH_MIG_ERR,      /**< [qp] the alternate path failed */
    IBV_EVENT_DEVICE_FATAL,      /**< nothing on the device works any more */
    IBV_EVENT_PORT_ACTIVE,       /**< [port_num], and the next five */
    IBV_EVENT_PORT_ERR,
    IBV_EVENT_LID_CHANGE,
    IBV_EVENT_PKEY_CHANGE,
    IBV_EVENT_SM_CHANGE,
    IBV_EVENT_SRQ_ERR,             /**< [srq] */
    IBV_EVENT_SRQ_LIMIT_REACHED,   /**< [srq] fewer receives left than srq_limit */
    IBV_EVENT_QP_LAST_WQE_REACHED, /**< [qp] in error and takes no more from its SRQ */
    IBV_EVENT_CLIENT_REREGISTER,   /**< [port_num] the subnet manager lost its records */
    IBV_EVENT_GID_CHANGE,          /**< [port_num] */
    IBV_EVENT_WQ_FATAL,            /**< [wq] */
    IBV_EVENT_DEVICE_SPEED_CHANGE, /**< [port_num] */
};

/** An asynchronous event. */
struct ibv_async_event {
    union {
        struct ibv_cq *cq;
        struct ibv_qp *qp;
        struct ibv_srq *srq;
        struct ibv_wq *wq;
        int port_num;
    } element;
    enum ibv_event_type event_type;
};

/**
 * Takes the next event of a context, waiting for one unless async_fd is non-blocking.
 * Returns 0, or -1 with errno set (EAGAIN). Each event must be acknowledged.
 * ibv_get_async_event(3)
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/**
 * Acknowledges an event. Destroying a queue waits until all of its events are acknowledged,
 * so that no thread is left with a dangling pointer. ibv_ack_async_event(3)
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* ---------------------------------------------------------------------------------------
 * Domains
 * ------------------------------------------------------------------------------------- */

/** Protection domain: queues and memory work together only within one. */
struct ibv_pd {
    struct ibv_context *context;
    uint32_t handle; /**< for ibv_import_pd() */
};

/** Makes a protection domain. ibv_alloc_pd(3) */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/** Releases a protection domain. EBUSY: objects still belong to it. ibv_dealloc_pd(3) */
int ibv_dealloc_pd(struct ibv_pd *pd);

/**
 * A second handle to a protection domain of the process that `context` came from.
 * ibv_import_pd(3)
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/** Drops an imported handle; the domain itself stays. ibv_unimport_pd(3) */
void ibv_unimport_pd(struct ibv_pd *pd);

/** Thread domain: its queues are used by one thread at a time, which spares their locks. */
struct ibv_td {
    struct ibv_context *context;
};

/** What kind of thread domain: there is one. */
struct ibv_td_init_attr {
    uint32_t comp_mask; /**< 0 */
};

/** Makes a thread domain, to be named in a parent domain. ibv_alloc_td(3) */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
                                          struct ibv_td_init_attr *init_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_td);

    if (vctx)
        return vctx->alloc_td(context, init_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Releases a thread domain. EBUSY: a parent domain names it. ibv_dealloc_td(3) */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
    struct verbs_context *vctx = verbs_get_ctx_op(td->context, dealloc_td);

    return vctx ? vctx->dealloc_td(td) : EOPNOTSUPP;
}

/** Fields of struct ibv_parent_domain_init_attr, and one option. */
enum ibv_parent_domain_init_attr_mask {
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0, /**< alloc, free */
    IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
    /** Confidential guest: ibv_alloc_buf() gives memory that is shared with the host. */
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/** What ibv_parent_domain_init_attr.alloc returns to leave an allocation to the provider. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/** A protection domain with additions. */
struct ibv_parent_domain_init_attr {
    struct ibv_pd *pd;
    struct ibv_td *td;  /**< or NULL */
    uint32_t comp_mask; /**< enum ibv_parent_domain_init_attr_mask */
    /**
     * Allocates memory of a queue that the device and the program share. `resource_type`:
     * upper half enum rdma_driver_id, lower half the driver's own. NULL: out of memory.
     */
    void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
                   uint64_t resource_type);
    /** Frees what alloc() returned. */
    void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
    void *pd_context; /**< passed to both */
};

/**
 * Makes a domain to use in place of attr->pd, which must outlive it. Released with
 * ibv_dealloc_pd(). ibv_alloc_parent_domain(3)
 */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
                                                     struct ibv_parent_domain_init_attr *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_parent_domain);

    if (vctx)
        return vctx->alloc_parent_domain(context, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Fields of struct ibv_xrcd_init_attr; both are required. */
enum ibv_xrcd_init_attr_mask {
    IBV_XRCD_INIT_ATTR_FD = 1 << 0,
    IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
    IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2
};

/** Which extended reliable connection (XRC) domain to open. */
struct ibv_xrcd_init_attr {
    uint32_t comp_mask; /**< enum ibv_xrcd_init_attr_mask */
    int fd;             /**< processes with the same inode share the domain; -1: nobody does */
    int oflags;         /**< O_CREAT, O_EXCL as for open(2) */
};

/** XRC domain: its shared receive queues are reached through any of its XRC_RECV queue pairs. */
struct ibv_xrcd {
    struct ibv_context *context;
};

/** Opens or creates an XRC domain. ibv_open_xrcd(3) */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
                                             struct ibv_xrcd_init_attr *xrcd_init_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, open_xrcd);

    if (vctx)
        return vctx->open_xrcd(context, xrcd_init_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Drops a reference to an XRC domain. EBUSY: queues still belong to it. ibv_close_xrcd(3) */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
    return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

/* ---------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------- */

/**
 * What may be done to memory. Local reading is always allowed. Flags from
 * IBV_ACCESS_OPTIONAL_FIRST on are hints: a device that does not know them ignores them.
 */
enum ibv_access_flags {
    IBV_ACCESS_LOCAL_WRITE = 1, /**< required with remote write and remote atomic */
    IBV_ACCESS_REMOTE_WRITE = 1 << 1,
    IBV_ACCESS_REMOTE_READ = 1 << 2,
    IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
    IBV_ACCESS_MW_BIND = 1 << 4,    /**< memory windows may be bound to it */
    IBV_ACCESS_ZERO_BASED = 1 << 5, /**< addresses count from its start, not from addr */
    IBV_ACCESS_ON_DEMAND = 1 << 6,  /**< pages are not pinned */
    IBV_ACCESS_HUGETLB = 1 << 7,    /**< with ON_DEMAND: all of it is huge pages */
    IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
    IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST, /**< writes may pass each other */
};

/** Memory region: memory that work requests can name. */
struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle; /**< for ibv_import_mr() */
    uint32_t lkey;   /**< for struct ibv_sge */
    uint32_t rkey;   /**< for the peer */
};

/**
 * Registers memory with exactly these flags: access must hold no optional flag. Programs
 * meet the macro below.
 */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/** As ibv_reg_mr(), and the region is addressed from `iova` on. */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access);

/** As ibv_reg_mr_iova(), and drops optional flags that the device does not know. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access);

/**
 * Goes to the oldest call that serves: one that knows optional flags is needed only if
 * there may be some.
 */
__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access,
             int is_access_const)
{
    if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
        return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
    return ibv_reg_mr(pd, addr, length, (int)access);
}

/** The same for ibv_reg_mr_iova(). */
__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                  unsigned int access, int is_access_const)
{
    if (!is_access_const || (access & IBV_ACCESS_OPTIONAL_RANGE))
        return ibv_reg_mr_iova2(pd, addr, length, iova, access);
    return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
}

/**
 * Registers `length` bytes at `addr` for `access` (enum ibv_access_flags). With
 * IBV_ACCESS_ON_DEMAND, addr 0 and length SIZE_MAX, that is the whole address space.
 * errno: EFAULT (not mapped, or read-only and access needs writing), EINVAL (flags that
 * exclude each other), ENOMEM. ibv_reg_mr(3)
 */
#define ibv_reg_mr(pd, addr, length, access) \
    __ibv_reg_mr(pd, addr, length, access,   \
                 __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/**
 * As ibv_reg_mr(); work requests and peers address the region from `iova` on. iova and addr
 * must lie equally within a page. ibv_reg_mr_iova(3)
 */
#define ibv_reg_mr_iova(pd, addr, length, iova, access) \
    __ibv_reg_mr_iova(pd, addr, length, iova, access,   \
                      __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/**
 * Registers `length` bytes from `offset` of a DMA-buf. iova and offset must lie equally
 * within a page; the fd may be closed afterwards. ibv_reg_dmabuf_mr(3)
 */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access);

/** Fields of struct ibv_mr_init_attr. ADDR, FD (with FD_OFFSET) or BUF with ADDR is required. */
enum ibv_mr_init_attr_mask {
    IBV_REG_MR_MASK_IOVA = 1 << 0,
    IBV_REG_MR_MASK_ADDR = 1 << 1,
    IBV_REG_MR_MASK_FD = 1 << 2,
    IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
    IBV_REG_MR_MASK_DMAH = 1 << 4,
    IBV_REG_MR_MASK_BUF = 1 << 5,
};

/** What to register. */
struct ibv_mr_init_attr {
    size_t length;
    int access;         /**< enum ibv_access_flags */
    uint64_t comp_mask; /**< enum ibv_mr_init_attr_mask */
    uint64_t iova;      /**< first address of the region; addr or 0 if not given */
    void *addr;
    int fd; /**< a DMA-buf */
    uint64_t fd_offset;
    struct ibv_dmah *dmah; /**< hints for the device's bus transactions */
    struct ibv_buf *buf;   /**< from ibv_alloc_buf() */
};

/** Registers memory of any kind. EINVAL: sources contradict each other. ibv_reg_mr_ex(3) */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/** What ibv_rereg_mr() changes. */
enum ibv_rereg_mr_flags {
    IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /**< addr, length */
    IBV_REREG_MR_CHANGE_PD = 1 << 1,
    IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
    IBV_REREG_MR_FLAGS_SUPPORTED = (IBV_REREG_MR_CHANGE_ACCESS << 1) - 1
};

/** Return values of ibv_rereg_mr(). */
enum ibv_rereg_mr_err_code {
    IBV_REREG_MR_ERR_INPUT = -1,         /**< the region is as it was, and so is the next case */
    IBV_REREG_MR_ERR_DONT_FORK_NEW = -2, /**< the new range could not be kept from a fork */
    IBV_REREG_MR_ERR_DO_FORK_OLD = -3,   /**< the region is new; the old range stays unforked */
    IBV_REREG_MR_ERR_CMD = -4,           /**< the region is unusable: deregister it */
    IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5, /**< both */
};

/**
 * Changes a region in place, as `flags` say; lkey and rkey may change. No work request that
 * names it may be outstanding. Returns 0 or an enum ibv_rereg_mr_err_code. ibv_rereg_mr(3)
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access);

/**
 * Deregisters a region: on return nobody, here or at a peer, touches its memory through it.
 * EBUSY: memory windows are bound to it. ibv_dereg_mr(3)
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/**
 * A second handle to a region of the process that the domain came from; addr and length are
 * 0. ibv_import_mr(3)
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/** Drops an imported handle; the region stays. ibv_unimport_mr(3) */
void ibv_unimport_mr(struct ibv_mr *mr);

/**
 * Makes a region of all addresses that reads as zeros and swallows writes, to leave gaps in
 * scatter lists; local use only. ibv_alloc_null_mr(3)
 */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
    struct verbs_context *vctx = verbs_get_ctx_op(pd->context, alloc_null_mr);

    if (vctx)
        return vctx->alloc_null_mr(pd);
    errno = EOPNOTSUPP;
    return NULL;
}

/**
 * Tells the device what is about to happen to ranges of registered memory, e.g.
 * IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE. `flags`: 0 or IBV_ADVISE_MR_FLAG_FLUSH, which waits.
 * EFAULT: a range is not mapped; ENOENT: no such lkey; EPERM: no access. ibv_advise_mr(3)
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                                struct ibv_sge *sg_list, uint32_t num_sge)
{
    struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

    return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) : EOPNOTSUPP;
}

/**
 * Allocates `size` bytes in the way that suits the domain and stores a handle in `buf`.
 * Returns the address. Free before the domain. ibv_alloc_buf(3)
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/** Frees what ibv_alloc_buf() made. ibv_free_buf(3) */
void ibv_free_buf(struct ibv_buf *buf);

/**
 * Registers a part of a buffer. EINVAL: `pd` is not the buffer's, or the range leaves it.
 * ibv_reg_buf_mr(3)
 */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);

/**
 * A new file descriptor of the DMA-buf under a buffer, for the caller to close; or -1 with
 * errno set (ENODATA: there is none). ibv_export_buf_dmabuf_fd(3)
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/** DMA handle: hints that the device puts on its bus transactions. */
struct ibv_dmah {
    struct ibv_context *context;
};

/** Kind of memory behind a DMA handle. */
enum ibv_tph_mem_type {
    IBV_TPH_MEM_TYPE_VM, /**< volatile */
    IBV_TPH_MEM_TYPE_PM, /**< persistent */
};

/** Fields of struct ibv_dmah_init_attr. */
enum ibv_dmah_init_attr_mask {
    IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
    IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
    IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
};

/** Hints of a DMA handle. */
struct ibv_dmah_init_attr {
    uint32_t comp_mask;   /**< enum ibv_dmah_init_attr_mask */
    uint32_t cpu_id;      /**< whose cache the data should go to */
    uint8_t ph;           /**< PCI Express processing hint, 0..3 */
    uint8_t tph_mem_type; /**< enum ibv_tph_mem_type */
};

/** Makes a DMA handle for ibv_reg_mr_ex(). ibv_alloc_dmah(3) */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/** Releases a DMA handle. EBUSY: a region uses it. ibv_dealloc_dmah(3) */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/** How much device memory to allocate. */
struct ibv_alloc_dm_attr {
    size_t length;
    uint32_t log_align_req; /**< n: aligned to 2^n */
    uint32_t comp_mask;     /**< 0 */
};

/** Fields of struct ibv_dm that are valid. */
enum ibv_dm_mask {
    IBV_DM_MASK_HANDLE = 1 << 0,
};

/** Memory on the device. */
struct ibv_dm {
    struct ibv_context *context;
    int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
                        size_t length);
    int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length);
    uint32_t comp_mask; /**< enum ibv_dm_mask */
    uint32_t handle;    /**< for ibv_import_dm() */
};

/** Allocates device memory; its content is undefined. ibv_alloc_dm(3) */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
                                          struct ibv_alloc_dm_attr *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dm);

    if (vctx)
        return vctx->alloc_dm(context, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Frees device memory. EBUSY: it is registered. ibv_free_dm(3) */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
    struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

    return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/**
 * Copies into device memory. Offset and length may have to be multiples of 4.
 * EFAULT: the range leaves the allocation. ibv_memcpy_to_dm(3)
 */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
                                   size_t length)
{
    return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/** Copies out of device memory; see ibv_memcpy_to_dm(). ibv_memcpy_from_dm(3) */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
                                     size_t length)
{
    return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/**
 * Registers a part of device memory, addressed from 0: access must hold
 * IBV_ACCESS_ZERO_BASED. ibv_reg_dm_mr(3)
 */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
                                           size_t length, unsigned int access)
{
    struct verbs_context *vctx = verbs_get_ctx_op(pd->context, reg_dm_mr);

    if (vctx)
        return vctx->reg_dm_mr(pd, dm, dm_offset, length, access);
    errno = EOPNOTSUPP;
    return NULL;
}

/**
 * A DMA-buf file descriptor of device memory, for the caller to close; or -1 with errno set.
 * ibv_dm_export_dmabuf_fd(3)
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/** A second handle to device memory of the process that `context` came from. ibv_import_dm(3) */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/** Drops an imported handle; the memory stays. ibv_unimport_dm(3) */
void ibv_unimport_dm(struct ibv_dm *dm);

/* ---------------------------------------------------------------------------------------
 * Memory windows
 * ------------------------------------------------------------------------------------- */

/** Memory window: remote access to a part of a region, granted and withdrawn quickly. */
struct ibv_mw {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t rkey;
    uint32_t handle;
    enum ibv_mw_type type;
};

/** What to bind a window to. */
struct ibv_mw_bind_info {
    struct ibv_mr *mr; /**< with IBV_ACCESS_MW_BIND; NULL and length 0 unbinds (type 1) */
    uint64_t addr;
    uint64_t length;
    unsigned int mw_access_flags; /**< remote flags and IBV_ACCESS_ZERO_BASED */
};

/** A bind request of ibv_bind_mw(). */
struct ibv_mw_bind {
    uint64_t wr_id;
    unsigned int send_flags; /**< enum ibv_send_flags */
    struct ibv_mw_bind_info bind_info;
};

/** Makes a window, bound to nothing. ibv_alloc_mw(3) */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    if (pd->context->ops.alloc_mw)
        return pd->context->ops.alloc_mw(pd, type);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Unbinds and releases a window. ibv_dealloc_mw(3) */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
    return mw->context->ops.dealloc_mw(mw);
}

/**
 * Posts the binding of a type 1 window to a send queue (RC, UC, XRC_SEND); mw->rkey is the new
 * key at once, peers may use it when the request completes. Windows of type 2 are bound with
 * IBV_WR_BIND_MW. EINVAL: not type 1, or a range without a region; EPERM: another protection
 * domain; ENOMEM: the queue is full. ibv_bind_mw(3)
 */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
    const struct ibv_mw_bind_info *info = &mw_bind->bind_info;

    if (mw->type != IBV_MW_TYPE_1)
        return EINVAL;
    if (info->mr) {
        if (info->mr->pd != mw->pd)
            return EPERM;
    } else if (info->addr || info->length) {
        return EINVAL;
    }
    return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

/** The next key of a type 2 window: the low byte, its tag, is the program's. ibv_inc_rkey(3) */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
    return (rkey & 0xffffff00u) | ((rkey + 1) & 0xffu);
}

/* ---------------------------------------------------------------------------------------
 * Completions
 * ------------------------------------------------------------------------------------- */

/** How a work request ended. After the first error a queue pair's others are flushed. */
enum ibv_wc_status {
    IBV_WC_SUCCESS,
    IBV_WC_LOC_LEN_ERR,        /**< message longer than the receive buffer or the limit */
    IBV_WC_LOC_QP_OP_ERR,      /**< the request is malformed */
    IBV_WC_LOC_EEC_OP_ERR,
    IBV_WC_LOC_PROT_ERR,       /**< bad lkey, range or access here */
    IBV_WC_WR_FLUSH_ERR,       /**< not carried out: the queue is in error */
    IBV_WC_MW_BIND_ERR,
    IBV_WC_BAD_RESP_ERR,       /**< the peer answered something unexpected */
    IBV_WC_LOC_ACCESS_ERR,     /**< a peer's write with immediate met a protection error here */
    IBV_WC_REM_INV_REQ_ERR,    /**< the peer found the request invalid, e.g. too long */
    IBV_WC_REM_ACCESS_ERR,     /**< bad rkey, range or access there */
    IBV_WC_REM_OP_ERR,         /**< the peer could not carry it out */
    IBV_WC_RETRY_EXC_ERR,      /**< retry_cnt retries, no answer */
    IBV_WC_RNR_RETRY_EXC_ERR,  /**< rnr_retry retries, no receive posted */
    IBV_WC_LOC_RDD_VIOL_ERR,
    IBV_WC_REM_INV_RD_REQ_ERR,
    IBV_WC_REM_ABORT_ERR,
    IBV_WC_INV_EECN_ERR,
    IBV_WC_INV_EEC_STATE_ERR,
    IBV_WC_FATAL_ERR,          /**< the device failed */
    IBV_WC_RESP_TIMEOUT_ERR,
    IBV_WC_GENERAL_ERR,        /**< another error of the transport */
    IBV_WC_TM_ERR,
    IBV_WC_TM_RNDV_INCOMPLETE, /**< the program must fetch the rendezvous data itself */
};

/** A status in words; "unknown" for others. Never NULL. ibv_wc_status_str(3) */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/** What completed. All receives have the bit IBV_WC_RECV. */
enum ibv_wc_opcode {
    IBV_WC_SEND,
    IBV_WC_RDMA_WRITE,
    IBV_WC_RDMA_READ,
    IBV_WC_COMP_SWAP,
    IBV_WC_FETCH_ADD,
    IBV_WC_BIND_MW,
    IBV_WC_LOCAL_INV,
    IBV_WC_TSO,
    IBV_WC_FLUSH,
    IBV_WC_ATOMIC_WRITE = 9,
    IBV_WC_RECV = 1 << 7,
    IBV_WC_RECV_RDMA_WITH_IMM, /**< a peer's write with immediate */
    IBV_WC_TM_ADD,             /**< tag list operations, and the next two */
    IBV_WC_TM_DEL,
    IBV_WC_TM_SYNC,
    IBV_WC_TM_RECV,   /**< a message for a posted tag */
    IBV_WC_TM_NO_TAG, /**< a message that carries no tag */
    IBV_WC_DRIVER1,   /**< the provider's own, and the next two */
    IBV_WC_DRIVER2,
    IBV_WC_DRIVER3,
};

/** Position of IBV_WC_IP_CSUM_OK, for code that sets it from a boolean. */
enum {
    IBV_WC_IP_CSUM_OK_SHIFT = 2
};

/** More about a completion. */
enum ibv_wc_flags {
    IBV_WC_GRH = 1 << 0,      /**< the first 40 bytes of the buffer are a GRH (datagrams) */
    IBV_WC_WITH_IMM = 1 << 1, /**< imm_data is valid */
    IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
    IBV_WC_WITH_INV = 1 << 3,      /**< invalidated_rkey is valid */
    IBV_WC_TM_SYNC_REQ = 1 << 4,   /**< the program should post IBV_WR_TAG_SYNC */
    IBV_WC_TM_MATCH = 1 << 5,      /**< a tag matched */
    IBV_WC_TM_DATA_VALID = 1 << 6, /**< the data is in the tagged buffer */
};

/** A work completion. If status is not IBV_WC_SUCCESS: wr_id, qp_num, vendor_err only. */
struct ibv_wc {
    uint64_t wr_id; /**< of the work request */
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    uint32_t vendor_err;
    uint32_t byte_len; /**< of receives, reads and atomics; includes a datagram's 40 GRH bytes */
    union {
        __be32 imm_data;           /**< as the sender gave it */
        uint32_t invalidated_rkey; /**< key that the sender invalidated */
    };
    uint32_t qp_num;     /**< the local queue pair */
    uint32_t src_qp;     /**< the sender (datagrams) */
    unsigned int wc_flags; /**< enum ibv_wc_flags */
    uint16_t pkey_index;   /**< of GSI queue pairs */
    uint16_t slid;         /**< source LID (datagrams) */
    uint8_t sl;
    uint8_t dlid_path_bits;
};

/** Completion channel: a file descriptor that tells when completions have arrived. */
struct ibv_comp_channel {
    struct ibv_context *context;
    int fd;     /**< readable while ibv_get_cq_event() would not block */
    int refcnt; /**< completion queues that use it */
};

/** Makes a completion channel. ibv_create_comp_channel(3) */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/** Releases a channel. EBUSY: completion queues use it. ibv_destroy_comp_channel(3) */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/**
 * Takes the next event of a channel, waiting for one unless fd is non-blocking: some of
 * `cq`'s completions arrived after it was armed. Returns 0, or -1 with errno set (EAGAIN).
 * Each event must be acknowledged. ibv_get_cq_event(3)
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/**
 * Acknowledges `nevents` events; takes a lock, so many at once are cheaper. Destroying the
 * queue waits until all are acknowledged. ibv_ack_cq_events(3)
 */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/** Completion queue. */
struct ibv_cq {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    void *cq_context; /**< the program's */
    uint32_t handle;
    int cqe; /**< completions that fit */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed;
    uint32_t async_events_completed;
};

/**
 * Makes a completion queue of at least `cqe` entries (1 to max_cqe). `channel` may be NULL;
 * `comp_vector`, below num_comp_vectors, picks the CPU that events go to. ibv_create_cq(3)
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector);

/**
 * Changes a queue's size to at least `cqe`; its completions stay. EINVAL: they are more than
 * that. ibv_resize_cq(3)
 */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/**
 * Releases a completion queue, after all its events have been acknowledged.
 * EBUSY: queue pairs use it. ibv_destroy_cq(3)
 */
int ibv_destroy_cq(struct ibv_cq *cq);

/**
 * Takes up to `num_entries` completions, oldest first. Returns how many, or a negative value
 * if the queue failed. Never blocks. ibv_poll_cq(3)
 */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
    return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/**
 * Arms a queue: the next completion raises one event on its channel; with `solicited_only`,
 * the next that a peer's IBV_SEND_SOLICITED brings, or that failed. Poll once more after
 * arming: completions that were already there raise none. ibv_req_notify_cq(3)
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/** What ibv_modify_cq() changes. */
enum ibv_cq_attr_mask {
    IBV_CQ_ATTR_MODERATE = 1 << 0,
    IBV_CQ_ATTR_RESERVED = 1 << 1,
};

/** An armed queue raises its event after this many completions or this time. 0: at once. */
struct ibv_moderate_cq {
    uint16_t cq_count;
    uint16_t cq_period; /**< microseconds */
};

/** New attributes of a completion queue. */
struct ibv_modify_cq_attr {
    uint32_t attr_mask; /**< enum ibv_cq_attr_mask */
    struct ibv_moderate_cq moderate;
};

/** Changes a completion queue's attributes. ibv_modify_cq(3) */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(cq->context, modify_cq);

    return vctx ? vctx->modify_cq(cq, attr) : EOPNOTSUPP;
}

/** Fields of completions that an extended queue can deliver: ibv_cq_init_attr_ex.wc_flags. */
enum ibv_create_cq_wc_flags {
    IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
    IBV_WC_EX_WITH_IMM = 1 << 1,
    IBV_WC_EX_WITH_QP_NUM = 1 << 2,
    IBV_WC_EX_WITH_SRC_QP = 1 << 3,
    IBV_WC_EX_WITH_SLID = 1 << 4,
    IBV_WC_EX_WITH_SL = 1 << 5,
    IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
    IBV_WC_EX_WITH_CVLAN = 1 << 8,
    IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
    IBV_WC_EX_WITH_TM_INFO = 1 << 10,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
};

/** Sets of them: those that struct ibv_wc has, and all. */
enum {
    IBV_WC_STANDARD_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                            IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
                            IBV_WC_EX_WITH_DLID_PATH_BITS,
    IBV_CREATE_CQ_SUP_WC_FLAGS =
        IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN |
        IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO |
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
};

/** Fields of struct ibv_cq_init_attr_ex. */
enum ibv_cq_init_attr_mask {
    IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
    IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1, /**< parent_domain */
};

/** Options of an extended completion queue. */
enum ibv_create_cq_attr_flags {
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /**< one thread at a time: needs no lock */
    IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,  /**< overwrite instead of failing */
};

/** Attributes of a new extended completion queue. */
struct ibv_cq_init_attr_ex {
    uint32_t cqe;
    void *cq_context;
    struct ibv_comp_channel *channel; /**< or NULL */
    uint32_t comp_vector;
    uint64_t wc_flags;  /**< enum ibv_create_cq_wc_flags */
    uint32_t comp_mask; /**< enum ibv_cq_init_attr_mask */
    uint32_t flags;     /**< enum ibv_create_cq_attr_flags */
    struct ibv_pd *parent_domain;
};

/** How to poll: nothing to choose yet. */
struct ibv_poll_cq_attr {
    uint32_t comp_mask; /**< 0 */
};

/** Tag matching information of a completion. */
struct ibv_wc_tm_info {
    uint64_t tag;
    uint32_t priv; /**< ibv_tmh.app_ctx of the sender */
};

/**
 * Extended completion queue: a struct ibv_cq whose completions are read in place, field by
 * field. wr_id and status belong to the current completion; the functions below read the
 * others. Only fields that wc_flags asked for may be read.
 */
struct ibv_cq_ex {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    void *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed;
    uint32_t async_events_completed;

    uint32_t comp_mask;
    enum ibv_wc_status status;
    uint64_t wr_id;
    int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
    int (*next_poll)(struct ibv_cq_ex *current);
    void (*end_poll)(struct ibv_cq_ex *current);
    enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
    uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
    uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
    __be32 (*read_imm_data)(struct ibv_cq_ex *current);
    uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
    uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
    unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
    uint32_t (*read_slid)(struct ibv_cq_ex *current);
    uint8_t (*read_sl)(struct ibv_cq_ex *current);
    uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
    uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
    uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
    uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
    void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
    uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/** Makes an extended completion queue. ibv_create_cq_ex(3) */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
                                                 struct ibv_cq_init_attr_ex *cq_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_cq_ex);

    if (vctx)
        return vctx->create_cq_ex(context, cq_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** The same queue, for calls that take a struct ibv_cq. ibv_cq_ex_to_cq(3) */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
    return (struct ibv_cq *)cq;
}

/**
 * Begins to poll and stands on the first completion. ENOENT: the queue is empty, and then
 * ibv_end_poll() must not be called. Until then the queue is locked. ibv_start_poll(3)
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    return cq->start_poll(cq, attr);
}

/** Steps to the next completion. ENOENT: there is none. ibv_next_poll(3) */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
    return cq->next_poll(cq);
}

/** Ends polling and gives back the entries that were read. ibv_end_poll(3) */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
    cq->end_poll(cq);
}

/** What completed. ibv_wc_read_opcode(3), as all that follow */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
    return cq->read_opcode(cq);
}

/** The device's own error code. */
static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
    return cq->read_vendor_err(cq);
}

/** Bytes transferred; see ibv_wc.byte_len. */
static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
    return cq->read_byte_len(cq);
}

/** Immediate data, as the sender gave it. Valid with IBV_WC_WITH_IMM. */
static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
    return cq->read_imm_data(cq);
}

/** Key that the sender invalidated, in host byte order. Valid with IBV_WC_WITH_INV. */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
#ifdef __CHECKER__
    return (__attribute__((force)) uint32_t)cq->read_imm_data(cq);
#else
    return cq->read_imm_data(cq);
#endif
}

/** Number of the local queue pair. */
static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
    return cq->read_qp_num(cq);
}

/** Number of the sender's queue pair. */
static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
    return cq->read_src_qp(cq);
}

/** enum ibv_wc_flags */
static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
    return cq->read_wc_flags(cq);
}

/** Source LID. */
static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
    return cq->read_slid(cq);
}

/** Service level. */
static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
    return cq->read_sl(cq);
}

/** Low bits of the LID that the message was sent to. */
static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
    return cq->read_dlid_path_bits(cq);
}

/** When it completed, in ticks of hca_core_clock. */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
    return cq->read_completion_ts(cq);
}

/** When it completed, in nanoseconds since the epoch. */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
    return cq->read_completion_wallclock_ns(cq);
}

/** VLAN tag that was stripped from the packet. */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
    return cq->read_cvlan(cq);
}

/** tag_id of the flow rule that the packet matched. */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
    return cq->read_flow_tag(cq);
}

/** Tag of a message; valid for IBV_WC_TM_RECV. */
static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
    cq->read_tm_info(cq, tm_info);
}

/* ---------------------------------------------------------------------------------------
 * Completion counters
 * ------------------------------------------------------------------------------------- */

/** Operations that a completion counter can count on a queue pair. */
enum ibv_qp_attach_comp_cntr_op {
    IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
    IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3, /**< the peer reads */
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5, /**< the peer writes */
};

/** What a device's completion counters can do. */
struct ibv_comp_cntr_caps {
    uint64_t max_value; /**< counters wrap beyond it */
    uint32_t max_counters;
    uint32_t supported_qp_attach_ops; /**< enum ibv_qp_attach_comp_cntr_op */
};

/** ibv_query_comp_cntr_caps() for a record of `caps_size` bytes. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
                              size_t caps_size);

/**
 * Reads what a device's completion counters can do. ENOTSUP: it has none.
 * ibv_query_comp_cntr_caps(3)
 */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context,
                                           struct ibv_comp_cntr_caps *caps)
{
    return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/** Completion counter: two 64-bit values, of operations that succeeded and that failed. */
struct ibv_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
};

/** What a completion counter counts. */
enum ibv_comp_cntr_type {
    IBV_COMP_CNTR_TYPE_WRS,   /**< work requests */
    IBV_COMP_CNTR_TYPE_BYTES, /**< bytes */
};

/** Attributes of a new completion counter. */
struct ibv_comp_cntr_init_attr {
    uint32_t comp_mask; /**< 0 */
    enum ibv_comp_cntr_type type;
    uint32_t flags; /**< 0 */
};

/**
 * Makes a completion counter, both values 0. errno: ENOTSUP, ENOMEM, EINVAL.
 * ibv_create_comp_cntr(3)
 */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct ibv_comp_cntr_init_attr *cc_attr);

/** Releases a counter. EBUSY: queue pairs use it. ibv_destroy_comp_cntr(3) */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/** Sets the count of successes. A read may see the old value for a moment. ibv_set_comp_cntr(3) */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/** Sets the count of errors. ibv_set_err_comp_cntr(3) */
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/** Adds to the count of successes. ibv_inc_comp_cntr(3) */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/** Adds to the count of errors. ibv_inc_err_comp_cntr(3) */
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/** Reads the count of successes. ibv_read_comp_cntr(3) */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/** Reads the count of errors. ibv_read_err_comp_cntr(3) */
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/** What to count on a queue pair. */
struct ibv_qp_attach_comp_cntr_attr {
    uint32_t comp_mask; /**< 0 */
    uint32_t op_mask;   /**< enum ibv_qp_attach_comp_cntr_op */
};

/**
 * Counts operations of a queue pair, which must be in RESET or INIT (else EINVAL), until it
 * is destroyed. Several queue pairs may share a counter; EBUSY: one of these operations has
 * a counter already. ENOTSUP: the device cannot count one. ibv_qp_attach_comp_cntr(3)
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
                            struct ibv_qp_attach_comp_cntr_attr *attr);

/* ---------------------------------------------------------------------------------------
 * Addresses
 * ------------------------------------------------------------------------------------- */

/** Global part of an address; the fields of a GRH. */
struct ibv_global_route {
    union ibv_gid dgid;
    uint32_t flow_label; /**< 20 bits */
    uint8_t sgid_index;  /**< of the local port's GID table */
    uint8_t hop_limit;
    uint8_t traffic_class;
};

/** Global routing header, as it lies in front of a received datagram. Big endian. */
struct ibv_grh {
    __be32 version_tclass_flow; /**< 31..28 version, 27..20 traffic class, 19..0 flow label */
    __be16 paylen;              /**< bytes that follow, ICRC included */
    uint8_t next_hdr;
    uint8_t hop_limit;
    union ibv_gid sgid;
    union ibv_gid dgid;
};

/** Upper limit of a sender's rate. */
enum ibv_rate {
    IBV_RATE_MAX = 0, /**< no limit */
    IBV_RATE_2_5_GBPS = 2,
    IBV_RATE_5_GBPS = 5,
    IBV_RATE_10_GBPS = 3,
    IBV_RATE_20_GBPS = 6,
    IBV_RATE_30_GBPS = 4,
    IBV_RATE_40_GBPS = 7,
    IBV_RATE_60_GBPS = 8,
    IBV_RATE_80_GBPS = 9,
    IBV_RATE_120_GBPS = 10,
    IBV_RATE_14_GBPS = 11,
    IBV_RATE_56_GBPS = 12,
    IBV_RATE_112_GBPS = 13,
    IBV_RATE_168_GBPS = 14,
    IBV_RATE_25_GBPS = 15,
    IBV_RATE_100_GBPS = 16,
    IBV_RATE_200_GBPS = 17,
    IBV_RATE_300_GBPS = 18,
    IBV_RATE_28_GBPS = 19,
    IBV_RATE_50_GBPS = 20,
    IBV_RATE_400_GBPS = 21,
    IBV_RATE_600_GBPS = 22,
    IBV_RATE_800_GBPS = 23,
    IBV_RATE_1200_GBPS = 24,
};

/**
 * A rate as a multiple of 2.5 Gbit/s (28 Gbit/s count as 11); -1 for rates that are none.
 * ibv_rate_to_mult(3)
 */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);

/** The rate of a multiple of 2.5 Gbit/s; IBV_RATE_MAX if there is none. mult_to_ibv_rate(3) */
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/**
 * A rate in Mbit/s of the link, e.g. 103125 for 100 Gbit/s; -1 if it is none.
 * ibv_rate_to_mbps(3)
 */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);

/** The rate of a number of Mbit/s; IBV_RATE_MAX if there is none. mbps_to_ibv_rate(3) */
__attribute__((const)) enum ibv_rate mbps_to_ibv_rate(int mbps);

/** Where to send to, and from which port. */
struct ibv_ah_attr {
    struct ibv_global_route grh; /**< if is_global */
    uint16_t dlid;               /**< 0 on Ethernet */
    uint8_t sl;                  /**< 0..15 */
    uint8_t src_path_bits;
    uint8_t static_rate; /**< enum ibv_rate */
    uint8_t is_global;   /**< required on Ethernet */
    uint8_t port_num;
};

/** Address handle: a destination of datagrams. */
struct ibv_ah {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t handle;
};

/** Makes an address handle. EINVAL: bad port or sgid_index. ibv_create_ah(3) */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/**
 * Releases an address handle; requests that were posted with it keep their copy.
 * ibv_destroy_ah(3)
 */
int ibv_destroy_ah(struct ibv_ah *ah);

/**
 * Fills `ah_attr` with the way back to the sender of a received datagram. `grh`, the first
 * 40 bytes of its buffer, is read only if wc says IBV_WC_GRH. Returns 0, or -1 with errno
 * set. ibv_init_ah_from_wc(3)
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/** Makes an address handle of the sender of a received datagram. ibv_create_ah_from_wc(3) */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num);

/** Bytes of an Ethernet address. */
#define ETHERNET_LL_SIZE ETH_ALEN

/**
 * Finds the Ethernet address and VLAN that packets to attr->grh.dgid carry; resolves
 * neighbours, so it may take time. `vid` is 0xffff for no VLAN.
 * ibv_resolve_eth_l2_from_gid(3)
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/**
 * Joins a datagram queue pair to a multicast group: it receives what is sent to `gid` (and
 * `lid`, host byte order, on InfiniBand). The port must be a member of the group, too.
 * ibv_attach_mcast(3)
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/** Undoes ibv_attach_mcast(). ibv_detach_mcast(3) */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* RoCE v2: UDP source ports and the flow labels that they are made from. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK (0x000FFFFF)

/**
 * UDP source port, 0xC000..0xFFFF, of packets with flow label `fl` (20 bits): its upper 6
 * bits are folded into the lower 14. ibv_flow_label_to_udp_sport(3)
 */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
    uint32_t folded = (fl & 0x3fff) ^ ((fl & IB_GRH_FLOWLABEL_MASK) >> 14);

    return (uint16_t)(folded | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

/* ---------------------------------------------------------------------------------------
 * Work requests
 * ------------------------------------------------------------------------------------- */

/** Scatter/gather element: a piece of a region. */
struct ibv_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

/** A piece of the program's memory, for inline data. */
struct ibv_data_buf {
    void *addr;
    size_t length;
};

/** A list of file descriptors. */
struct ibv_fd_arr {
    int *arr;
    uint32_t count;
};

/** What a send request does. */
enum ibv_wr_opcode {
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, /**< consumes a receive of the peer */
    IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM,
    IBV_WR_RDMA_READ,
    IBV_WR_ATOMIC_CMP_AND_SWP,   /**< 8 bytes, aligned */
    IBV_WR_ATOMIC_FETCH_AND_ADD, /**< 8 bytes, aligned */
    IBV_WR_LOCAL_INV,            /**< withdraws a key of this side */
    IBV_WR_BIND_MW,
    IBV_WR_SEND_WITH_INV, /**< and withdraws a key of the peer */
    IBV_WR_TSO,
    IBV_WR_DRIVER1,
    IBV_WR_FLUSH = 14,
    IBV_WR_ATOMIC_WRITE = 15, /**< 8 bytes, aligned */
};

/** An opcode in words; "unknown" for others. Never NULL. ibv_wr_opcode_str(3) */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/** How a send request is treated. */
enum ibv_send_flags {
    IBV_SEND_FENCE = 1 << 0,     /**< waits for earlier reads and atomics */
    IBV_SEND_SIGNALED = 1 << 1,  /**< completes also when it succeeds */
    IBV_SEND_SOLICITED = 1 << 2, /**< see ibv_req_notify_cq() */
    IBV_SEND_INLINE = 1 << 3,    /**< copy the data now; lkeys are not looked at */
    IBV_SEND_IP_CSUM = 1 << 4    /**< compute IPv4, TCP and UDP checksums */
};

/** How far a flush brings earlier writes: bits. */
enum ibv_placement_type {
    IBV_FLUSH_GLOBAL = 1U << 0,     /**< visible to all of the peer's machine */
    IBV_FLUSH_PERSISTENT = 1U << 1, /**< survive a power failure */
};

/** What a flush covers. */
enum ibv_selectivity_level {
    IBV_FLUSH_RANGE = 0, /**< the given addresses */
    IBV_FLUSH_MR,        /**< the whole region */
};

/** A send request. The list may be changed or freed once it is posted; data may not. */
struct ibv_send_wr {
    uint64_t wr_id;           /**< the program's; comes back in the completion */
    struct ibv_send_wr *next; /**< or NULL */
    struct ibv_sge *sg_list;
    int num_sge;
    enum ibv_wr_opcode opcode;
    unsigned int send_flags; /**< enum ibv_send_flags */
    union {
        __be32 imm_data; /**< carried as it is */
        uint32_t invalidate_rkey;
    };
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma; /**< write, read */
        struct {
            uint64_t remote_addr;
            uint64_t compare_add; /**< value to compare with, or to add */
            uint64_t swap;
            uint32_t rkey;
        } atomic;
        struct {
            struct ibv_ah *ah;
            uint32_t remote_qpn;
            uint32_t remote_qkey; /**< bit 31 set: take the queue pair's own */
        } ud;
    } wr;
    union {
        struct {
            uint32_t remote_srqn;
        } xrc;
    } qp_type;
    union {
        struct {
            struct ibv_mw *mw;
            uint32_t rkey; /**< the new one; see ibv_inc_rkey() */
            struct ibv_mw_bind_info bind_info;
        } bind_mw;
        struct {
            void *hdr; /**< headers up to TCP, put before each segment */
            uint16_t hdr_sz;
            uint16_t mss; /**< payload of a segment */
        } tso;
    };
};

/** A receive request. The list may be changed or freed once it is posted. */
struct ibv_recv_wr {
    uint64_t wr_id;           /**< the program's; comes back in the completion */
    struct ibv_recv_wr *next; /**< or NULL */
    struct ibv_sge *sg_list;
    int num_sge;
};

/* ---------------------------------------------------------------------------------------
 * Shared receive queues
 * ------------------------------------------------------------------------------------- */

/** Shared receive queue: receives for several queue pairs. */
struct ibv_srq {
    struct ibv_context *context;
    void *srq_context; /**< the program's */
    struct ibv_pd *pd;
    uint32_t handle;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

/** What ibv_modify_srq() changes. */
enum ibv_srq_attr_mask {
    IBV_SRQ_MAX_WR = 1 << 0,
    IBV_SRQ_LIMIT = 1 << 1
};

/** Attributes of a shared receive queue. */
struct ibv_srq_attr {
    uint32_t max_wr;    /**< receives outstanding */
    uint32_t max_sge;   /**< of one receive */
    uint32_t srq_limit; /**< one event when fewer are left; 0: none. Ignored at creation */
};

/** Attributes of a new shared receive queue. */
struct ibv_srq_init_attr {
    void *srq_context;
    struct ibv_srq_attr attr; /**< out: the actual sizes, at least what was asked for */
};

/** Makes a shared receive queue. errno: EINVAL (size), ENOMEM. ibv_create_srq(3) */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/** Kinds of shared receive queue. */
enum ibv_srq_type {
    IBV_SRQT_BASIC,
    IBV_SRQT_XRC, /**< reached through an XRC domain */
    IBV_SRQT_TM,  /**< the device matches messages with posted tags; see tm_types.h */
};

/** Fields of struct ibv_srq_init_attr_ex. */
enum ibv_srq_init_attr_mask {
    IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
    IBV_SRQ_INIT_ATTR_PD = 1 << 1,
    IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
    IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
    IBV_SRQ_INIT_ATTR_TM = 1 << 4,
    IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
};

/** Sizes of a tag matching list. */
struct ibv_tm_cap {
    uint32_t max_num_tags;
    uint32_t max_ops; /**< list operations outstanding */
};

/** Attributes of a new shared receive queue of any kind; begins like ibv_srq_init_attr. */
struct ibv_srq_init_attr_ex {
    void *srq_context;
    struct ibv_srq_attr attr;
    uint32_t comp_mask; /**< enum ibv_srq_init_attr_mask */
    enum ibv_srq_type srq_type;
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;
    struct ibv_cq *cq; /**< of XRC and TM */
    struct ibv_tm_cap tm_cap;
};

/** Makes a shared receive queue of any kind. ibv_create_srq_ex(3) */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
                                                struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
    const uint32_t basic_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
    uint32_t mask = srq_init_attr_ex->comp_mask;
    int is_basic = !(mask & IBV_SRQ_INIT_ATTR_TYPE) || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC;
    struct verbs_context *vctx;

    /* What the plain call can express goes through it: every library has that one. */
    if ((mask & IBV_SRQ_INIT_ATTR_PD) && !(mask & ~basic_mask) && is_basic)
        return ibv_create_srq(srq_init_attr_ex->pd, (struct ibv_srq_init_attr *)srq_init_attr_ex);

    vctx = verbs_get_ctx_op(context, create_srq_ex);
    if (vctx)
        return vctx->create_srq_ex(context, srq_init_attr_ex);
    errno = EOPNOTSUPP;
    return NULL;
}

/**
 * Resizes a queue (to no less than what is posted) or sets its limit, as `srq_attr_mask`
 * (enum ibv_srq_attr_mask) says. A limit holds for one event. ibv_modify_srq(3)
 */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/** Reads a queue's attributes; srq_limit is 0 once the event was raised. ibv_query_srq(3) */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/** Number under which XRC senders reach a queue. EOPNOTSUPP: it has none. ibv_get_srq_num(3) */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
    struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

    return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

/** Releases a queue. EBUSY: queue pairs use it. ibv_destroy_srq(3) */
int ibv_destroy_srq(struct ibv_srq *srq);

/**
 * Posts a list of receives. On failure `bad_recv_wr` points to the first that was not
 * posted. ENOMEM: the queue is full; EINVAL: too many elements. ibv_post_srq_recv(3)
 */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
                                    struct ibv_recv_wr **bad_recv_wr)
{
    return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/** Operations on a tag matching list. */
enum ibv_ops_wr_opcode {
    IBV_WR_TAG_ADD,  /**< posts a buffer for a tag; sets handle */
    IBV_WR_TAG_DEL,  /**< withdraws the buffer of a handle */
    IBV_WR_TAG_SYNC, /**< reports unexpected_cnt only */
};

/** How an operation on a tag matching list is treated. */
enum ibv_ops_flags {
    IBV_OPS_SIGNALED = 1 << 0, /**< completes also when it succeeds */
    IBV_OPS_TM_SYNC = 1 << 1,  /**< unexpected_cnt is valid */
};

/** An operation on a tag matching list. */
struct ibv_ops_wr {
    uint64_t wr_id;
    struct ibv_ops_wr *next;
    enum ibv_ops_wr_opcode opcode;
    int flags; /**< enum ibv_ops_flags */
    struct {
        uint32_t unexpected_cnt; /**< unexpected messages that the program has seen so far */
        uint32_t handle;         /**< out for ADD, in for DEL */
        struct {
            uint64_t recv_wr_id; /**< of the completion of the message */
            struct ibv_sge *sg_list;
            int num_sge;
            uint64_t tag;
            uint64_t mask; /**< bits of the tag that count */
        } add;
    } tm;
};

/**
 * Posts operations on a tag matching list. On failure `bad_op` points to the first that was
 * not posted. ibv_post_srq_ops(3)
 */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
                                   struct ibv_ops_wr **bad_op)
{
    struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

    if (vctx)
        return vctx->post_srq_ops(srq, op, bad_op);
    *bad_op = op;
    return EOPNOTSUPP;
}

/* ---------------------------------------------------------------------------------------
 * Queue pairs
 * ------------------------------------------------------------------------------------- */

/** Transport service of a queue pair. */
enum ibv_qp_type {
    IBV_QPT_RC = 2, /**< reliable connection */
    IBV_QPT_UC,     /**< unreliable connection: send and write only, losses go unseen */
    IBV_QPT_UD,     /**< unreliable datagrams of one packet, to any queue pair */
    IBV_QPT_RAW_PACKET = 8, /**< whole Ethernet frames */
    IBV_QPT_XRC_SEND = 9,
    IBV_QPT_XRC_RECV,
    IBV_QPT_DRIVER = 0xff, /**< the provider's own, e.g. DC or SRD */
};

/** Non-zero if `caps` (a supported_qpts field) has the type `qpt`. ibv_is_qpt_supported(3) */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
    return !!(caps & (1 << qpt));
}

/** States of a queue pair. */
enum ibv_qp_state {
    IBV_QPS_RESET,
    IBV_QPS_INIT, /**< takes receives */
    IBV_QPS_RTR,  /**< receives */
    IBV_QPS_RTS,  /**< sends, too */
    IBV_QPS_SQD,  /**< finishes sends under way and starts none */
    IBV_QPS_SQE,  /**< a send failed (UC, UD); still receives */
    IBV_QPS_ERR,  /**< flushes everything */
    IBV_QPS_UNKNOWN
};

/** Path migration of a connection. */
enum ibv_mig_state {
    IBV_MIG_MIGRATED,
    IBV_MIG_REARM,
    IBV_MIG_ARMED
};

/** Queue pair. */
struct ibv_qp {
    struct ibv_context *context;
    void *qp_context; /**< the program's */
    struct ibv_pd *pd;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;
    uint32_t handle;
    uint32_t qp_num; /**< 24 bits; peers address it */
    enum ibv_qp_state state; /**< as last set or read by this process */
    enum ibv_qp_type qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

/** Sizes of a queue pair's queues. */
struct ibv_qp_cap {
    uint32_t max_send_wr;
    uint32_t max_recv_wr; /**< ignored with a shared receive queue */
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data; /**< bytes */
};

/** Attributes of a new queue pair. */
struct ibv_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;   /**< or NULL */
    struct ibv_qp_cap cap; /**< out: the actual sizes, at least what was asked for */
    enum ibv_qp_type qp_type;
    int sq_sig_all; /**< non-zero: every send is signaled */
};

/**
 * Makes a queue pair in state RESET. errno: EINVAL (size, queues), ENOMEM, EOPNOTSUPP.
 * ibv_create_qp(3)
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/** Fields of struct ibv_qp_init_attr_ex. */
enum ibv_qp_init_attr_mask {
    IBV_QP_INIT_ATTR_PD = 1 << 0,
    IBV_QP_INIT_ATTR_XRCD = 1 << 1,
    IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
    IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
    IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

/** Options of a queue pair. */
enum ibv_qp_create_flags {
    IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1, /**< gets no multicast of its own */
    IBV_QP_CREATE_SCATTER_FCS = 1 << 8,         /**< leaves the FCS in received packets */
    IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
    IBV_QP_CREATE_SOURCE_QPN = 1 << 10, /**< source_qpn is valid */
    IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/** Operations that the ibv_wr_ functions are to offer: ibv_qp_init_attr_ex.send_ops_flags. */
enum ibv_qp_create_send_ops_flags {
    IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
    IBV_QP_EX_WITH_SEND = 1 << 2,
    IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
    IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
    IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
    IBV_QP_EX_WITH_BIND_MW = 1 << 8,
    IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
    IBV_QP_EX_WITH_TSO = 1 << 10,
    IBV_QP_EX_WITH_FLUSH = 1 << 11,
    IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
};

/** Receive hash of a queue pair over an indirection table. */
struct ibv_rx_hash_conf {
    uint8_t rx_hash_function; /**< enum ibv_rx_hash_function_flags */
    uint8_t rx_hash_key_len;  /**< 40 for Toeplitz */
    uint8_t *rx_hash_key;
    uint64_t rx_hash_fields_mask; /**< enum ibv_rx_hash_fields */
};

/** Attributes of a new queue pair of any kind; begins like ibv_qp_init_attr. */
struct ibv_qp_init_attr_ex {
    void *qp_context;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp_cap cap;
    enum ibv_qp_type qp_type;
    int sq_sig_all;

    uint32_t comp_mask; /**< enum ibv_qp_init_attr_mask */
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;   /**< of XRC_RECV */
    uint32_t create_flags;   /**< enum ibv_qp_create_flags */
    uint16_t max_tso_header; /**< bytes */
    struct ibv_rwq_ind_table *rwq_ind_tbl;
    struct ibv_rx_hash_conf rx_hash_conf;
    uint32_t source_qpn;     /**< number that sent packets carry */
    uint64_t send_ops_flags; /**< enum ibv_qp_create_send_ops_flags */
};

/** Makes a queue pair of any kind. ibv_create_qp_ex(3) */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
                                              struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
    struct verbs_context *vctx;

    /* What the plain call can express goes through it: every library has that one. */
    if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
        return ibv_create_qp(qp_init_attr_ex->pd, (struct ibv_qp_init_attr *)qp_init_attr_ex);

    vctx = verbs_get_ctx_op(context, create_qp_ex);
    if (vctx)
        return vctx->create_qp_ex(context, qp_init_attr_ex);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Fields of struct ibv_qp_open_attr; all but CONTEXT are required. */
enum ibv_qp_open_attr_mask {
    IBV_QP_OPEN_ATTR_NUM = 1 << 0,
    IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
    IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
    IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
    IBV_QP_OPEN_ATTR_RESERVED = 1 << 4
};

/** Which XRC_RECV queue pair to open. */
struct ibv_qp_open_attr {
    uint32_t comp_mask; /**< enum ibv_qp_open_attr_mask */
    uint32_t qp_num;
    struct ibv_xrcd *xrcd;
    void *qp_context;
    enum ibv_qp_type qp_type; /**< IBV_QPT_XRC_RECV */
};

/** Opens a queue pair that another process made in a shared XRC domain. ibv_open_qp(3) */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
                                         struct ibv_qp_open_attr *qp_open_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, open_qp);

    if (vctx)
        return vctx->open_qp(context, qp_open_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Fields of struct ibv_qp_attr. */
enum ibv_qp_attr_mask {
    IBV_QP_STATE = 1 << 0,
    IBV_QP_CUR_STATE = 1 << 1,
    IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
    IBV_QP_ACCESS_FLAGS = 1 << 3,
    IBV_QP_PKEY_INDEX = 1 << 4,
    IBV_QP_PORT = 1 << 5,
    IBV_QP_QKEY = 1 << 6,
    IBV_QP_AV = 1 << 7,
    IBV_QP_PATH_MTU = 1 << 8,
    IBV_QP_TIMEOUT = 1 << 9,
    IBV_QP_RETRY_CNT = 1 << 10,
    IBV_QP_RNR_RETRY = 1 << 11,
    IBV_QP_RQ_PSN = 1 << 12,
    IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
    IBV_QP_ALT_PATH = 1 << 14,
    IBV_QP_MIN_RNR_TIMER = 1 << 15,
    IBV_QP_SQ_PSN = 1 << 16,
    IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
    IBV_QP_PATH_MIG_STATE = 1 << 18,
    IBV_QP_CAP = 1 << 19,
    IBV_QP_DEST_QPN = 1 << 20,
    IBV_QP_RATE_LIMIT = 1 << 25,
};

/** Attributes of a queue pair. */
struct ibv_qp_attr {
    enum ibv_qp_state qp_state;     /**< to go to */
    enum ibv_qp_state cur_qp_state; /**< that the program believes it is in */
    enum ibv_mtu path_mtu;
    enum ibv_mig_state path_mig_state;
    uint32_t qkey;                /**< datagrams with another are dropped */
    uint32_t rq_psn;              /**< 24 bits: first packet to expect */
    uint32_t sq_psn;              /**< 24 bits: first packet to send */
    uint32_t dest_qp_num;         /**< the peer's */
    unsigned int qp_access_flags; /**< remote flags of enum ibv_access_flags */
    struct ibv_qp_cap cap;
    struct ibv_ah_attr ah_attr; /**< the peer's address */
    struct ibv_ah_attr alt_ah_attr;
    uint16_t pkey_index;
    uint16_t alt_pkey_index;
    uint8_t en_sqd_async_notify; /**< raise IBV_EVENT_SQ_DRAINED */
    uint8_t sq_draining;         /**< out: in SQD and not yet drained */
    uint8_t max_rd_atomic;       /**< reads and atomics under way */
    uint8_t max_dest_rd_atomic;  /**< reads and atomics answered at a time */
    uint8_t min_rnr_timer;       /**< 0..31: how long a peer waits when no receive is posted;
                                      0: 655.36 ms, 1: 10 us, rising to 31: 491.52 ms */
    uint8_t port_num;
    uint8_t timeout;   /**< 0..31: resend after 4.096 us * 2^n; 0: never */
    uint8_t retry_cnt; /**< 0..7 */
    uint8_t rnr_retry; /**< 0..7; 7: for ever */
    uint8_t alt_port_num;
    uint8_t alt_timeout;
    uint32_t rate_limit; /**< kbit/s of a raw packet queue pair; 0: none */
};

/**
 * Changes the attributes that `attr_mask` (enum ibv_qp_attr_mask) names. Required, besides
 * IBV_QP_STATE, on the way to RTS:
 *     to    RC                                             UC                  UD
 *     INIT  PKEY_INDEX PORT ACCESS_FLAGS                   the same            PKEY_INDEX PORT QKEY
 *     RTR   AV PATH_MTU DEST_QPN RQ_PSN                    AV PATH_MTU         none
 *           MAX_DEST_RD_ATOMIC MIN_RNR_TIMER               DEST_QPN RQ_PSN
 *     RTS   SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY             SQ_PSN              SQ_PSN
 *           MAX_QP_RD_ATOMIC
 * Any state may go to RESET or ERR. EINVAL: transition, mask or value. ibv_modify_qp(3)
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/**
 * Reads a queue pair's attributes; `attr_mask` is a hint, others may be filled, too. Updates
 * qp->state. ibv_query_qp(3)
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr);

/**
 * Releases a queue pair, after all its events have been acknowledged. Its completions are
 * taken out of the completion queues. EBUSY: attached to a multicast group.
 * ibv_destroy_qp(3)
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/** Packet pacing of a queue pair. */
struct ibv_qp_rate_limit_attr {
    uint32_t rate_limit;     /**< kbit/s; 0: none */
    uint32_t max_burst_sz;   /**< bytes; 0: the device's choice */
    uint16_t typical_pkt_sz; /**< bytes; 0: the device's choice */
    uint32_t comp_mask;      /**< 0 */
};

/** Sets packet pacing of a queue pair that sends. ibv_modify_qp_rate_limit(3) */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

    return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/** What to ask ibv_query_qp_data_in_order(). */
enum ibv_query_qp_data_in_order_flags {
    IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0, /**< return the bits below */
    IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1, /**< leave the CPU out of account */
};

/** How data becomes visible at the receiver. */
enum ibv_query_qp_data_in_order_caps {
    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
    IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1, /**< within each such block */
};

/**
 * Tells whether data of one operation `op` (write, send, read) becomes visible in address
 * order, so that its last byte may be polled. Without flags: 1 for WHOLE_MSG, else 0; with
 * RETURN_CAPS: enum ibv_query_qp_data_in_order_caps. ibv_query_qp_data_in_order(3)
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/** Enhanced connection establishment: features of the vendor that both ends agree on. */
struct ibv_ece {
    uint32_t vendor_id; /**< IEEE OUI; 0: no options */
    uint32_t options;   /**< the vendor's */
    uint32_t comp_mask; /**< 0 */
};

/**
 * Asks for options, e.g. those of the peer, before the transitions that they bear on; `ece`
 * returns the accepted ones. ibv_set_ece(3)
 */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/** Reads a queue pair's options as they stand. ibv_query_ece(3) */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* ---------------------------------------------------------------------------------------
 * Posting
 * ------------------------------------------------------------------------------------- */

/**
 * Posts a list of sends. On failure `bad_wr` points to the first that was not posted; those
 * before it were. ENOMEM: the queue is full; EINVAL: opcode, flags, too many elements, too
 * much inline data. Data stays in use until the completion, or until the return if inline.
 * ibv_post_send(3)
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                                struct ibv_send_wr **bad_wr)
{
    return qp->context->ops.post_send(qp, wr, bad_wr);
}

/**
 * Posts a list of receives; see ibv_post_send(). A datagram's data begins 40 bytes into the
 * buffer. ibv_post_recv(3)
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                                struct ibv_recv_wr **bad_wr)
{
    return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/**
 * Queue pair whose sends are built in place, without lists: set wr_id and wr_flags, call
 * one builder, then its setters; between ibv_wr_start() and ibv_wr_complete() as many as
 * fit. Errors are reported by ibv_wr_complete() only. ibv_wr_post(3)
 */
struct ibv_qp_ex {
    struct ibv_qp qp_base;
    uint64_t comp_mask;

    uint64_t wr_id;        /**< of the next request */
    unsigned int wr_flags; /**< enum ibv_send_flags of the next request */

    void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap);
    void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add);
    void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *bind_info);
    void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
    void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
    void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
    void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data);
    void (*wr_send)(struct ibv_qp_ex *qp);
    void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
    void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
    void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
    void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
                           uint32_t remote_qkey);
    void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
    void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
    void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t num_buf,
                                    const struct ibv_data_buf *buf_list);
    void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
    void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list);
    void (*wr_start)(struct ibv_qp_ex *qp);
    int (*wr_complete)(struct ibv_qp_ex *qp);
    void (*wr_abort)(struct ibv_qp_ex *qp);
    void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                            const void *atomic_wr);
    void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
                     uint8_t type, uint8_t level);
};

/** The same queue pair; NULL if it was not made with send_ops_flags. ibv_qp_to_qp_ex(3) */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/** Begins a batch. Locks the queue pair until the batch ends. ibv_wr_start(3) */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
    qp->wr_start(qp);
}

/**
 * Posts the batch. On failure nothing of it is posted: ENOMEM (the queue is full), EINVAL.
 * ibv_wr_complete(3)
 */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
    return qp->wr_complete(qp);
}

/** Drops the batch. ibv_wr_abort(3) */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
    qp->wr_abort(qp);
}

/** Builds a send. RC, UC, UD, XRC_SEND, raw packet. ibv_wr_send(3) */
static inline void ibv_wr_send(struct ibv_qp_ex *qp)
{
    qp->wr_send(qp);
}

/** Builds a send with 32 bits for the receiver's completion. ibv_wr_send_imm(3) */
static inline void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
    qp->wr_send_imm(qp, imm_data);
}

/** Builds a send that withdraws a key of the receiver. RC, UC, XRC_SEND. ibv_wr_send_inv(3) */
static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    qp->wr_send_inv(qp, invalidate_rkey);
}

/**
 * Builds a send that is cut into segments of `mss` bytes, each behind a copy of the headers.
 * UD, raw packet. ibv_wr_send_tso(3)
 */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
    qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/** Builds a write to the peer's memory. RC, UC, XRC_SEND. ibv_wr_rdma_write(3) */
static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    qp->wr_rdma_write(qp, rkey, remote_addr);
}

/** Builds a write that completes a receive of the peer with 32 bits. ibv_wr_rdma_write_imm(3) */
static inline void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                         __be32 imm_data)
{
    qp->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

/** Builds a read of the peer's memory. RC, XRC_SEND. ibv_wr_rdma_read(3) */
static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    qp->wr_rdma_read(qp, rkey, remote_addr);
}

/**
 * Builds an atomic: if the 8 bytes equal `compare` they become `swap`. The local buffer gets
 * what they were. RC, XRC_SEND. ibv_wr_atomic_cmp_swp(3)
 */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                         uint64_t compare, uint64_t swap)
{
    qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

/** Builds an atomic: adds to 8 bytes; see ibv_wr_atomic_cmp_swp(). ibv_wr_atomic_fetch_add(3) */
static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
                                           uint64_t remote_addr, uint64_t add)
{
    qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/**
 * Builds a write of the 8 bytes at `atomic_wr` that nobody sees in part. RC.
 * ibv_wr_atomic_write(3)
 */
static inline void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                       const void *atomic_wr)
{
    qp->wr_atomic_write(qp, rkey, remote_addr, atomic_wr);
}

/**
 * Builds a flush of earlier writes. `type`: enum ibv_placement_type; `level`: enum
 * ibv_selectivity_level. RC, XRC_SEND. ibv_wr_flush(3)
 */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                size_t len, uint8_t type, uint8_t level)
{
    qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

/**
 * Builds the binding of a type 2 window under the key `rkey`. Takes no setters.
 * ibv_wr_bind_mw(3)
 */
static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
                                  const struct ibv_mw_bind_info *bind_info)
{
    qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/** Builds the withdrawal of a key of this side. Takes no setters. ibv_wr_local_inv(3) */
static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    qp->wr_local_inv(qp, invalidate_rkey);
}

/** Sets the destination of a datagram; see ibv_send_wr.wr.ud. ibv_wr_set_ud_addr(3) */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
                                      uint32_t remote_qkey)
{
    qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/** Sets the shared receive queue of an XRC request. ibv_wr_set_xrc_srqn(3) */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
    qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/** Sets the data: one piece of a region. ibv_wr_set_sge(3) */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
                                  uint32_t length)
{
    qp->wr_set_sge(qp, lkey, addr, length);
}

/** Sets the data: several pieces of regions. ibv_wr_set_sge_list(3) */
static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge,
                                       const struct ibv_sge *sg_list)
{
    qp->wr_set_sge_list(qp, num_sge, sg_list);
}

/** Sets the data of a send or write by copying it now. ibv_wr_set_inline_data(3) */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    qp->wr_set_inline_data(qp, addr, length);
}

/** The same from several pieces. ibv_wr_set_inline_data_list(3) */
static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
                                               const struct ibv_data_buf *buf_list)
{
    qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/* ---------------------------------------------------------------------------------------
 * Receive work queues
 * ------------------------------------------------------------------------------------- */

/** Kinds of work queue. */
enum ibv_wq_type {
    IBV_WQT_RQ
};

/** States of a work queue. */
enum ibv_wq_state {
    IBV_WQS_RESET,
    IBV_WQS_RDY,
    IBV_WQS_ERR,
    IBV_WQS_UNKNOWN
};

/** Work queue: the receive half of a queue pair on its own, for receive-side scaling. */
struct ibv_wq {
    struct ibv_context *context;
    void *wq_context; /**< the program's */
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint32_t wq_num;
    uint32_t handle;
    enum ibv_wq_state state;
    enum ibv_wq_type wq_type;
    int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
                     struct ibv_recv_wr **bad_recv_wr);
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
    uint32_t comp_mask;
};

/** Fields of struct ibv_wq_init_attr. */
enum ibv_wq_init_attr_mask {
    IBV_WQ_INIT_ATTR_FLAGS = 1 << 0, /**< create_flags */
    IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
};

/** Options of a work queue. */
enum ibv_wq_flags {
    IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
    IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
    IBV_WQ_FLAGS_DELAY_DROP = 1 << 2, /**< wait a while for a receive before dropping */
    IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
    IBV_WQ_FLAGS_RESERVED = 1 << 4,
};

/** Attributes of a new work queue. */
struct ibv_wq_init_attr {
    void *wq_context;
    enum ibv_wq_type wq_type;
    uint32_t max_wr;  /**< out: the actual size, at least what was asked for */
    uint32_t max_sge; /**< out: likewise */
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint32_t comp_mask;    /**< enum ibv_wq_init_attr_mask */
    uint32_t create_flags; /**< enum ibv_wq_flags */
};

/** Makes a work queue in state RESET. ibv_create_wq(3) */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
                                           struct ibv_wq_init_attr *wq_init_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
    struct ibv_wq *wq;

    if (!vctx) {
        errno = EOPNOTSUPP;
        return NULL;
    }

    /* Providers leave these members to the caller. */
    wq = vctx->create_wq(context, wq_init_attr);
    if (wq) {
        wq->wq_context = wq_init_attr->wq_context;
        wq->events_completed = 0;
        pthread_mutex_init(&wq->mutex, NULL);
        pthread_cond_init(&wq->cond, NULL);
    }
    return wq;
}

/** Fields of struct ibv_wq_attr. */
enum ibv_wq_attr_mask {
    IBV_WQ_ATTR_STATE = 1 << 0,
    IBV_WQ_ATTR_CURR_STATE = 1 << 1,
    IBV_WQ_ATTR_FLAGS = 1 << 2,
    IBV_WQ_ATTR_RESERVED = 1 << 3,
};

/** New attributes of a work queue. */
struct ibv_wq_attr {
    uint32_t attr_mask;         /**< enum ibv_wq_attr_mask */
    enum ibv_wq_state wq_state; /**< to go to */
    enum ibv_wq_state curr_wq_state;
    uint32_t flags;      /**< enum ibv_wq_flags */
    uint32_t flags_mask; /**< flags to change */
};

/** Changes a work queue's attributes. ibv_modify_wq(3) */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(wq->context, modify_wq);

    return vctx ? vctx->modify_wq(wq, wq_attr) : EOPNOTSUPP;
}

/** Releases a work queue. EBUSY: an indirection table uses it. ibv_destroy_wq(3) */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
    struct verbs_context *vctx = verbs_get_ctx_op(wq->context, destroy_wq);

    return vctx ? vctx->destroy_wq(wq) : EOPNOTSUPP;
}

/** Posts a list of receives; see ibv_post_recv(). ibv_post_wq_recv(3) */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
                                   struct ibv_recv_wr **bad_recv_wr)
{
    return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/** Indirection table: the low bits of a packet's hash choose its work queue. */
struct ibv_rwq_ind_table {
    struct ibv_context *context;
    int ind_tbl_handle;
    int ind_tbl_num;
    uint32_t comp_mask;
};

/** Fields of struct ibv_rwq_ind_table_init_attr: none yet. */
enum ibv_ind_table_init_attr_mask {
    IBV_CREATE_IND_TABLE_RESERVED = 1 << 0
};

/** Attributes of a new indirection table. */
struct ibv_rwq_ind_table_init_attr {
    uint32_t log_ind_tbl_size; /**< n: 2^n entries */
    struct ibv_wq **ind_tbl;
    uint32_t comp_mask; /**< 0 */
};

/** Makes an indirection table. ibv_create_rwq_ind_table(3) */
static inline struct ibv_rwq_ind_table *
ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_rwq_ind_table);

    if (vctx)
        return vctx->create_rwq_ind_table(context, init_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Releases an indirection table. EBUSY: a queue pair uses it. ibv_destroy_rwq_ind_table(3) */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
    struct verbs_context *vctx = verbs_get_ctx_op(rwq_ind_table->context, destroy_rwq_ind_table);

    return vctx ? vctx->destroy_rwq_ind_table(rwq_ind_table) : EOPNOTSUPP;
}

/* ---------------------------------------------------------------------------------------
 * Flow steering
 *
 * A rule is a struct ibv_flow_attr with its specifications right behind it in memory, each
 * beginning with type and size. A packet matches if it equals `val` in the bits of `mask`.
 * ------------------------------------------------------------------------------------- */

/** Options of a rule. */
enum ibv_flow_flags {
    IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1, /**< the packet goes on to later rules, too */
    IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,    /**< for packets that leave */
};

/** What a rule applies to. */
enum ibv_flow_attr_type {
    IBV_FLOW_ATTR_NORMAL = 0x0,      /**< what its specifications say */
    IBV_FLOW_ATTR_ALL_DEFAULT = 0x1, /**< what no other rule takes; no specifications */
    IBV_FLOW_ATTR_MC_DEFAULT = 0x2,  /**< multicast that no other rule takes */
    IBV_FLOW_ATTR_SNIFFER = 0x3,     /**< a copy of everything */
};

/** Kinds of specification. */
enum ibv_flow_spec_type {
    IBV_FLOW_SPEC_ETH = 0x20,
    IBV_FLOW_SPEC_IPV4 = 0x30,
    IBV_FLOW_SPEC_IPV6 = 0x31,
    IBV_FLOW_SPEC_IPV4_EXT = 0x32,
    IBV_FLOW_SPEC_ESP = 0x34,
    IBV_FLOW_SPEC_TCP = 0x40,
    IBV_FLOW_SPEC_UDP = 0x41,
    IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
    IBV_FLOW_SPEC_GRE = 0x51,
    IBV_FLOW_SPEC_MPLS = 0x60,
    IBV_FLOW_SPEC_INNER = 0x100, /**< or-ed: the header inside a tunnel */
    IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
    IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
    IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
    IBV_FLOW_SPEC_ACTION_COUNT = 0x1003,
};

/** Ethernet header. ether_type and vlan_tag are big endian. */
struct ibv_flow_eth_filter {
    uint8_t dst_mac[ETHERNET_LL_SIZE];
    uint8_t src_mac[ETHERNET_LL_SIZE];
    uint16_t ether_type;
    uint16_t vlan_tag;
};

/** IBV_FLOW_SPEC_ETH */
struct ibv_flow_spec_eth {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_eth_filter val;
    struct ibv_flow_eth_filter mask;
};

/** IPv4 addresses, big endian. */
struct ibv_flow_ipv4_filter {
    uint32_t src_ip;
    uint32_t dst_ip;
};

/** IBV_FLOW_SPEC_IPV4 */
struct ibv_flow_spec_ipv4 {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv4_filter val;
    struct ibv_flow_ipv4_filter mask;
};

/** IPv4 header; addresses are big endian. */
struct ibv_flow_ipv4_ext_filter {
    uint32_t src_ip;
    uint32_t dst_ip;
    uint8_t proto;
    uint8_t tos;
    uint8_t ttl;
    uint8_t flags;
};

/** IBV_FLOW_SPEC_IPV4_EXT */
struct ibv_flow_spec_ipv4_ext {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv4_ext_filter val;
    struct ibv_flow_ipv4_ext_filter mask;
};

/** IPv6 header; flow_label is big endian. */
struct ibv_flow_ipv6_filter {
    uint8_t src_ip[16];
    uint8_t dst_ip[16];
    uint32_t flow_label;
    uint8_t next_hdr;
    uint8_t traffic_class;
    uint8_t hop_limit;
};

/** IBV_FLOW_SPEC_IPV6 */
struct ibv_flow_spec_ipv6 {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv6_filter val;
    struct ibv_flow_ipv6_filter mask;
};

/** ESP header, big endian. */
struct ibv_flow_esp_filter {
    uint32_t spi;
    uint32_t seq;
};

/** IBV_FLOW_SPEC_ESP */
struct ibv_flow_spec_esp {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_esp_filter val;
    struct ibv_flow_esp_filter mask;
};

/** Ports, big endian. */
struct ibv_flow_tcp_udp_filter {
    uint16_t dst_port;
    uint16_t src_port;
};

/** IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP */
struct ibv_flow_spec_tcp_udp {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_tcp_udp_filter val;
    struct ibv_flow_tcp_udp_filter mask;
};

/** GRE header, big endian. */
struct ibv_flow_gre_filter {
    uint16_t c_ks_res0_ver; /**< flags and version */
    uint16_t protocol;      /**< an EtherType */
    uint32_t key;
};

/** IBV_FLOW_SPEC_GRE */
struct ibv_flow_spec_gre {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_gre_filter val;
    struct ibv_flow_gre_filter mask;
};

/** MPLS label stack entry, big endian. */
struct ibv_flow_mpls_filter {
    uint32_t label; /**< 31..12 label, 11..9 class, 8 bottom of stack, 7..0 TTL */
};

/** IBV_FLOW_SPEC_MPLS */
struct ibv_flow_spec_mpls {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_mpls_filter val;
    struct ibv_flow_mpls_filter mask;
};

/** VXLAN network identifier, big endian. */
struct ibv_flow_tunnel_filter {
    uint32_t tunnel_id;
};

/** IBV_FLOW_SPEC_VXLAN_TUNNEL */
struct ibv_flow_spec_tunnel {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_tunnel_filter val;
    struct ibv_flow_tunnel_filter mask;
};

/** IBV_FLOW_SPEC_ACTION_TAG: completions report tag_id. */
struct ibv_flow_spec_action_tag {
    enum ibv_flow_spec_type type;
    uint16_t size;
    uint32_t tag_id; /**< 24 bits */
};

/** IBV_FLOW_SPEC_ACTION_DROP: the packet is dropped. */
struct ibv_flow_spec_action_drop {
    enum ibv_flow_spec_type type;
    uint16_t size;
};

/** IBV_FLOW_SPEC_ACTION_HANDLE: the action is applied. */
struct ibv_flow_spec_action_handle {
    enum ibv_flow_spec_type type;
    uint16_t size;
    const struct ibv_flow_action *action;
};

/** IBV_FLOW_SPEC_ACTION_COUNT: the packet is counted. */
struct ibv_flow_spec_counter_action {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_counters *counters;
};

/** Any specification. */
struct ibv_flow_spec {
    union {
        struct {
            enum ibv_flow_spec_type type;
            uint16_t size;
        } hdr;
        struct ibv_flow_spec_eth eth;
        struct ibv_flow_spec_ipv4 ipv4;
        struct ibv_flow_spec_tcp_udp tcp_udp;
        struct ibv_flow_spec_ipv4_ext ipv4_ext;
        struct ibv_flow_spec_ipv6 ipv6;
        struct ibv_flow_spec_esp esp;
        struct ibv_flow_spec_tunnel tunnel;
        struct ibv_flow_spec_gre gre;
        struct ibv_flow_spec_mpls mpls;
        struct ibv_flow_spec_action_tag flow_tag;
        struct ibv_flow_spec_action_drop drop;
        struct ibv_flow_spec_action_handle handle;
        struct ibv_flow_spec_counter_action flow_count;
    };
};

/** Head of a rule. */
struct ibv_flow_attr {
    uint32_t comp_mask; /**< 0 */
    enum ibv_flow_attr_type type;
    uint16_t size;     /**< bytes of this record and all its specifications */
    uint16_t priority; /**< the lowest number wins */
    uint8_t num_of_specs;
    uint8_t port;
    uint32_t flags; /**< enum ibv_flow_flags */
};

/** A rule in force. */
struct ibv_flow {
    uint32_t comp_mask;
    struct ibv_context *context;
    uint32_t handle;
};

/**
 * Steers matching packets to a raw packet or datagram queue pair. errno: EINVAL, ENOMEM,
 * EPERM. ibv_create_flow(3)
 */
static inline struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
{
    struct verbs_context *vctx = verbs_get_ctx_op(qp->context, ibv_create_flow);

    if (vctx)
        return vctx->ibv_create_flow(qp, flow);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Removes a rule. ibv_destroy_flow(3) */
static inline int ibv_destroy_flow(struct ibv_flow *flow_id)
{
    struct verbs_context *vctx = verbs_get_ctx_op(flow_id->context, ibv_destroy_flow);

    return vctx ? vctx->ibv_destroy_flow(flow_id) : EOPNOTSUPP;
}

/** An action for rules. */
struct ibv_flow_action {
    struct ibv_context *context;
};

/** Fields of struct ibv_flow_action_esp_attr. */
enum ibv_flow_action_esp_mask {
    IBV_FLOW_ACTION_ESP_MASK_ESN = 1UL << 0,
};

/** IPsec encryption or decryption by the device. */
struct ibv_flow_action_esp_attr {
    struct ibv_flow_action_esp *esp_attr;

    enum ibv_flow_action_esp_keymat keymat_proto;
    uint16_t keymat_len; /**< bytes at keymat_ptr */
    void *keymat_ptr;    /**< struct ibv_flow_action_esp_keymat_aes_gcm */

    enum ibv_flow_action_esp_replay replay_proto;
    uint16_t replay_len; /**< bytes at replay_ptr */
    void *replay_ptr;    /**< struct ibv_flow_action_esp_replay_bmp */

    struct ibv_flow_action_esp_encap *esp_encap;

    uint32_t comp_mask; /**< enum ibv_flow_action_esp_mask */
    uint32_t esn;       /**< upper half of the extended sequence number */
};

/** Makes an ESP action. ibv_create_flow_action_esp(3) */
static inline struct ibv_flow_action *
ibv_create_flow_action_esp(struct ibv_context *ctx, struct ibv_flow_action_esp_attr *esp)
{
    struct verbs_context *vctx = verbs_get_ctx_op(ctx, create_flow_action_esp);

    if (vctx)
        return vctx->create_flow_action_esp(ctx, esp);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Changes an ESP action: its sequence number, mostly. ibv_modify_flow_action_esp(3) */
static inline int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
                                             struct ibv_flow_action_esp_attr *esp)
{
    struct verbs_context *vctx = verbs_get_ctx_op(action->context, modify_flow_action_esp);

    return vctx ? vctx->modify_flow_action_esp(action, esp) : EOPNOTSUPP;
}

/** Releases an action. EBUSY: a rule uses it. ibv_destroy_flow_action(3) */
static inline int ibv_destroy_flow_action(struct ibv_flow_action *action)
{
    struct verbs_context *vctx = verbs_get_ctx_op(action->context, destroy_flow_action);

    return vctx ? vctx->destroy_flow_action(action) : EOPNOTSUPP;
}

/* ---------------------------------------------------------------------------------------
 * Counters
 * ------------------------------------------------------------------------------------- */

/** A set of counters, read together. */
struct ibv_counters {
    struct ibv_context *context;
};

/** What kind of set: there is one. */
struct ibv_counters_init_attr {
    uint32_t comp_mask; /**< 0 */
};

/** What a counter counts. */
enum ibv_counter_description {
    IBV_COUNTER_PACKETS,
    IBV_COUNTER_BYTES,
};

/** A counter of a set. */
struct ibv_counter_attach_attr {
    enum ibv_counter_description counter_desc;
    uint32_t index;     /**< where ibv_read_counters() puts it */
    uint32_t comp_mask; /**< 0 */
};

/** How to read counters. */
enum ibv_read_counters_flags {
    IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0, /**< a little old will do */
};

/** Makes a set of counters. ibv_create_counters(3) */
static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
                                                       struct ibv_counters_init_attr *init_attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_counters);

    if (vctx)
        return vctx->create_counters(context, init_attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/** Releases a set of counters. EBUSY: a rule uses it. ibv_destroy_counters(3) */
static inline int ibv_destroy_counters(struct ibv_counters *counters)
{
    struct verbs_context *vctx = verbs_get_ctx_op(counters->context, destroy_counters);

    return vctx ? vctx->destroy_counters(counters) : EOPNOTSUPP;
}

/**
 * Adds a counter to a set. `flow`: a rule in force, or NULL for rules that will name the
 * set in IBV_FLOW_SPEC_ACTION_COUNT. ibv_attach_counters_point_flow(3)
 */
static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
                                                 struct ibv_counter_attach_attr *attr,
                                                 struct ibv_flow *flow)
{
    struct verbs_context *vctx = verbs_get_ctx_op(counters->context, attach_counters_point_flow);

    return vctx ? vctx->attach_counters_point_flow(counters, attr, flow) : EOPNOTSUPP;
}

/**
 * Reads the first `ncounters` counters. `flags`: enum ibv_read_counters_flags.
 * ibv_read_counters(3)
 */
static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
                                    uint32_t ncounters, uint32_t flags)
{
    struct verbs_context *vctx = verbs_get_ctx_op(counters->context, read_counters);

    return vctx ? vctx->read_counters(counters, counters_value, ncounters, flags) : EOPNOTSUPP;
}

/* ---------------------------------------------------------------------------------------
 * Strings
 * ------------------------------------------------------------------------------------- */

/** A node type in words; "unknown" for others. Never NULL. ibv_node_type_str(3) */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/** A port state in words, e.g. "active"; "unknown" for others. Never NULL. ibv_port_state_str(3) */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/** An event type in words; "unknown" for others. Never NULL. ibv_event_type_str(3) */
const char *ibv_event_type_str(enum ibv_event_type event);

#ifdef __cplusplus
}
#endif

#endif
