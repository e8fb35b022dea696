// SPDX-License-Identifier: MIT
/**
 * @file rdma_cma.h
 * Connection manager: addresses as sockets have them, connections and multicast for queue pairs.
 *
 * A `struct rdma_cm_id` plays the part of a socket. The active side resolves an address, resolves a route and
 * connects; the passive side binds, listens, and accepts the ids that requests bring. With an event channel,
 * calls start something and its end arrives as an event; with a null channel, they return when it has ended.
 *
 * Unless a comment says otherwise, functions return 0, or -1 with errno set. Different ids may be used from
 * different threads; calls on one id, and the wait for its events, must be ordered by the program, except that
 * any thread may wait on an event channel. Manual pages: rdma_cm(7) and one per function.
 */
#ifndef RDMA_RDMA_CMA_H
#define RDMA_RDMA_CMA_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an event reports. An event with a non-zero `status` carries a negative errno or a CM reject reason there. */
enum rdma_cm_event_type {
    RDMA_CM_EVENT_ADDR_RESOLVED,     /**< rdma_resolve_addr found a device and the peer's address */
    RDMA_CM_EVENT_ADDR_ERROR,        /**< rdma_resolve_addr failed */
    RDMA_CM_EVENT_ROUTE_RESOLVED,    /**< rdma_resolve_route found a path */
    RDMA_CM_EVENT_ROUTE_ERROR,       /**< rdma_resolve_route failed */
    RDMA_CM_EVENT_CONNECT_REQUEST,   /**< passive side: a new id wants a connection; `listen_id` was asked */
    RDMA_CM_EVENT_CONNECT_RESPONSE,  /**< active side without a QP on the id: the peer agreed, call rdma_establish */
    RDMA_CM_EVENT_CONNECT_ERROR,     /**< the connection failed while it was made */
    RDMA_CM_EVENT_UNREACHABLE,       /**< the peer did not answer in time or cannot be reached */
    RDMA_CM_EVENT_REJECTED,          /**< the peer said no; `status` holds the reason */
    RDMA_CM_EVENT_ESTABLISHED,       /**< both ends may send */
    RDMA_CM_EVENT_DISCONNECTED,      /**< the connection has ended */
    RDMA_CM_EVENT_DEVICE_REMOVAL,    /**< the device goes away; destroy the id */
    RDMA_CM_EVENT_MULTICAST_JOIN,    /**< the group is joined; `param.ud` says how to send to it */
    RDMA_CM_EVENT_MULTICAST_ERROR,   /**< the join failed or the membership was lost */
    RDMA_CM_EVENT_ADDR_CHANGE,       /**< the local address moved to another device */
    RDMA_CM_EVENT_TIMEWAIT_EXIT,     /**< after a disconnect: the QP number may be used again */
    RDMA_CM_EVENT_ADDRINFO_RESOLVED, /**< rdma_resolve_addrinfo is done, see rdma_query_addrinfo */
    RDMA_CM_EVENT_ADDRINFO_ERROR,    /**< rdma_resolve_addrinfo failed */
    RDMA_CM_EVENT_USER,              /**< queued by rdma_write_cm_event; `param.arg` is the program's */
    RDMA_CM_EVENT_INTERNAL           /**< used inside the library, never delivered */
};

/** Port spaces: which kind of service a port number names. */
enum rdma_port_space {
    RDMA_PS_IPOIB = 0x0002, /**< UD, interoperable with IP over InfiniBand */
    RDMA_PS_TCP = 0x0106,   /**< connected, reliable (RC) */
    RDMA_PS_UDP = 0x0111,   /**< datagrams (UD) */
    RDMA_PS_IB = 0x013F     /**< any InfiniBand service */
};

/** @name Service ids: the upper bits name the port space, the lowest 16 the port. Host byte order. @{ */
#define RDMA_IB_IP_PS_MASK 0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP 0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP 0x0000000001110000ULL
#define RDMA_IB_PS_IB 0x00000000013F0000ULL
/** @} */

/** Q_Key of every queue pair in RDMA_PS_UDP and RDMA_PS_IPOIB groups made here. */
#define RDMA_UDP_QKEY 0x01234567

/** The InfiniBand side of an address, known once the id has a device. */
struct rdma_ib_addr {
    union ibv_gid sgid; /**< local */
    union ibv_gid dgid; /**< the peer's */
    __be16 pkey;        /**< partition */
};

/** Both ends of an id. A family of 0 means not known yet. */
struct rdma_addr {
    union {
        struct sockaddr src_addr;
        struct sockaddr_in src_sin;
        struct sockaddr_in6 src_sin6;
        struct sockaddr_storage src_storage;
    };
    union {
        struct sockaddr dst_addr;
        struct sockaddr_in dst_sin;
        struct sockaddr_in6 dst_sin6;
        struct sockaddr_storage dst_storage;
    };
    union {
        struct rdma_ib_addr ibaddr;
    } addr;
};

/** Addresses and the resolved paths between them. The library owns `path_rec`. */
struct rdma_route {
    struct rdma_addr addr;
    struct ibv_sa_path_rec *path_rec; /**< `num_paths` entries: the first for traffic, the second to fail over to */
    int num_paths;
};

/** Where events arrive. `fd` becomes readable when one waits and may be made non-blocking. */
struct rdma_event_channel {
    int fd;
};

/** A communication identifier. Programs read it and change `context` only. */
struct rdma_cm_id {
    struct ibv_context *verbs; /**< the device, null until an address binds the id to one */
    struct rdma_event_channel *channel;
    void *context; /**< the program's */
    struct ibv_qp *qp;
    struct rdma_route route;
    enum rdma_port_space ps;
    uint8_t port_num;            /**< 1-based, 0 before the device is known */
    struct rdma_cm_event *event; /**< of an id without channel: the last event, valid until the next call */
    struct ibv_comp_channel *send_cq_channel;
    struct ibv_cq *send_cq; /**< made by rdma_create_qp where the program gave none */
    struct ibv_comp_channel *recv_cq_channel;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;
    struct ibv_pd *pd;
    enum ibv_qp_type qp_type;
};

/** Values of responder_resources and initiator_depth that mean: as much as the device allows. */
enum { RDMA_MAX_RESP_RES = 0xFF, RDMA_MAX_INIT_DEPTH = 0xFF };

/** How a connection is to be made, or in an event how the peer asks for it. */
struct rdma_conn_param {
    const void *private_data;    /**< carried to the peer; in events valid until the event is acknowledged */
    uint8_t private_data_len;    /**< bytes; RC: at most 56 in a request, 196 in an acceptance, 148 in a refusal */
    uint8_t responder_resources; /**< RDMA reads and atomics that the local side serves at a time */
    uint8_t initiator_depth;     /**< RDMA reads and atomics that the local side has in flight at most */
    uint8_t flow_control;        /**< non-zero: credits for receives, where the hardware has them */
    uint8_t retry_count;         /**< 0..7 resends of a lost packet; not used when accepting */
    uint8_t rnr_retry_count;     /**< 0..6 resends to a peer without a receive posted, 7: without end */
    uint8_t srq;                 /**< non-zero: receives come from an SRQ. Used only where the id has no QP */
    uint32_t qp_num;             /**< likewise */
};

/** What a datagram program needs to send to the peer. */
struct rdma_ud_param {
    const void *private_data; /**< valid until the event is acknowledged */
    uint8_t private_data_len; /**< at most 180 in a request, 136 in an answer */
    struct ibv_ah_attr ah_attr;
    uint32_t qp_num;
    uint32_t qkey;
};

/** One event; give it back with rdma_ack_cm_event. */
struct rdma_cm_event {
    struct rdma_cm_id *id;
    struct rdma_cm_id *listen_id; /**< of a connect request: the id that was listening */
    enum rdma_cm_event_type event;
    int status; /**< 0, a negative errno, or the reason of a rejection */
    union {
        struct rdma_conn_param conn; /**< connected port spaces */
        struct rdma_ud_param ud;     /**< datagram port spaces and multicast */
        uint64_t arg;                /**< RDMA_CM_EVENT_USER */
    } param;
};

/** @name Flags of rdma_addrinfo @{ */
#define RAI_PASSIVE 0x00000001     /**< the address will be listened on */
#define RAI_NUMERICHOST 0x00000002 /**< the node is a numeric address: no name look-up */
#define RAI_NOROUTE 0x00000004     /**< find no path */
#define RAI_FAMILY 0x00000008      /**< ai_family of the hints says how to read the node */
#define RAI_SA 0x00000010          /**< ask the subnet administrator */
#define RAI_DNS 0x00000020         /**< ask the name service; not together with RAI_SA */
/** @} */

/** An address, and what is needed to reach it. A list made by rdma_getaddrinfo, freed as a whole. */
struct rdma_addrinfo {
    int ai_flags;      /**< RAI_* */
    int ai_family;     /**< AF_INET, AF_INET6 or AF_IB */
    int ai_qp_type;    /**< enum ibv_qp_type */
    int ai_port_space; /**< enum rdma_port_space */
    socklen_t ai_src_len;
    socklen_t ai_dst_len;
    struct sockaddr *ai_src_addr; /**< local, may be null */
    struct sockaddr *ai_dst_addr; /**< the peer's, may be null */
    char *ai_src_canonname;
    char *ai_dst_canonname;
    size_t ai_route_len; /**< bytes at ai_route */
    void *ai_route;      /**< paths, struct ibv_path_data[] */
    size_t ai_connect_len;
    void *ai_connect; /**< goes in front of the private data of the connect request */
    struct rdma_addrinfo *ai_next;
};

/** Which members of rdma_cm_join_mc_attr_ex are set. */
enum rdma_cm_join_mc_attr_mask {
    RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1 << 0,
    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
    RDMA_CM_JOIN_MC_ATTR_RESERVED = 1 << 2 /**< the first bit without meaning */
};

/** How to be a member of a multicast group. */
enum rdma_cm_mc_join_flags {
    RDMA_MC_JOIN_FLAG_FULLMEMBER,          /**< send and receive */
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, /**< send, receive nothing */
    RDMA_MC_JOIN_FLAG_RESERVED
};

/** Arguments of rdma_join_multicast_ex. */
struct rdma_cm_join_mc_attr_ex {
    uint32_t comp_mask;    /**< enum rdma_cm_join_mc_attr_mask */
    uint32_t join_flags;   /**< one of enum rdma_cm_mc_join_flags */
    struct sockaddr *addr; /**< the group */
};

/** Opens a channel for events. Returns null and sets errno on failure. */
struct rdma_event_channel *rdma_create_event_channel(void);

/** Closes a channel. Its ids must be destroyed and its events acknowledged before. */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/**
 * Makes an id, as socket() makes a socket.
 * @param channel where its events go; null makes an id whose calls return when they are done
 * @param context kept in the id for the program
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);

/**
 * Makes an id without channel from the result of rdma_getaddrinfo: bound and ready to listen (RAI_PASSIVE), or
 * with address and route resolved and, when `qp_init_attr` is given, a QP.
 * @param pd protection domain of the QP, null for one that the library keeps per device
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *qp_init_attr);

/** Destroys an id from rdma_create_ep or rdma_get_request with the QP and SRQ on it. */
void rdma_destroy_ep(struct rdma_cm_id *id);

/** Destroys an id. Its QP must be destroyed before; waits until its events are acknowledged. */
int rdma_destroy_id(struct rdma_cm_id *id);

/** Sets the local address. A specific address also binds the id to its device; port 0 picks one. */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/**
 * Finds the device that leads to `dst_addr` and the peer's address on its link; binds the id to that device.
 * Ends with RDMA_CM_EVENT_ADDR_RESOLVED or RDMA_CM_EVENT_ADDR_ERROR.
 * @param src_addr local address, or null
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms);

/** Finds a path to the resolved address. Ends with RDMA_CM_EVENT_ROUTE_RESOLVED or RDMA_CM_EVENT_ROUTE_ERROR. */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/**
 * Makes a QP on the id; the library then moves it through its states. Connected QPs come in INIT, datagram ones in RTS.
 * Where no CQ is given, CQs and completion channels are made too.
 * @param pd null for one that the library keeps per device
 * @param qp_init_attr its capabilities are updated to what was given
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/** As rdma_create_qp, with the extended attributes. */
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/** Destroys the QP of an id, with the CQs that the library made for it. */
void rdma_destroy_qp(struct rdma_cm_id *id);

/**
 * Active side: asks the peer for a connection, or for a datagram program its QP number and Q_Key.
 * Ends with ESTABLISHED (or CONNECT_RESPONSE where the id has no QP), REJECTED, UNREACHABLE or CONNECT_ERROR.
 * @param conn_param null for defaults
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/** Active side without a QP on the id: completes the connection after RDMA_CM_EVENT_CONNECT_RESPONSE. */
int rdma_establish(struct rdma_cm_id *id);

/** Passive side: takes requests at the bound address. @param backlog requests that may wait; 0 picks a default */
int rdma_listen(struct rdma_cm_id *id, int backlog);

/** Waits for the next request at a listening id without channel and returns its id. */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);

/** Passive side: agrees to a request. @param conn_param null for what the request asked */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/** Passive side: declines a request, with private data for the peer. */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/** Declines because the offered ECE options do not fit; the peer sees reject reason 35. */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/** Tells the connection manager of an async event; IBV_EVENT_COMM_EST counts as the peer's confirmation. */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/** Ends a connection and moves its QP to the error state. Both ends get RDMA_CM_EVENT_DISCONNECTED. */
int rdma_disconnect(struct rdma_cm_id *id);

/** Joins a multicast group and attaches the QP of the id, if any. Ends with MULTICAST_JOIN or MULTICAST_ERROR. */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);

/** Leaves a group that this id joined and detaches the QP. */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/** As rdma_join_multicast, with a choice of membership. */
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context);

/** Takes the next event of a channel; waits for one unless `fd` is non-blocking (then EAGAIN). */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/** Gives an event back; its memory, private data included, is no longer valid. */
int rdma_ack_cm_event(struct rdma_cm_event *event);

/** The local port in network byte order, 0 while there is none. */
__be16 rdma_get_src_port(struct rdma_cm_id *id);

/** The peer's port in network byte order, 0 while there is none. */
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/** The local address, as long as the id lives. */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id) {
    return &id->route.addr.src_addr;
}

/** The peer's address, as long as the id lives. */
static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id) {
    return &id->route.addr.dst_addr;
}

/** The opened devices that the library uses, as a list that ends with null; null on failure. */
struct ibv_context **rdma_get_devices(int *num_devices);

/** Frees a list of rdma_get_devices. The devices stay open. */
void rdma_free_devices(struct ibv_context **list);

/** The name of an event type; a fixed text for values without meaning. */
const char *rdma_event_str(enum rdma_cm_event_type event);

/** Levels of rdma_set_option. */
enum { RDMA_OPTION_ID = 0, RDMA_OPTION_IB = 1 };

/** Options at RDMA_OPTION_ID. */
enum {
    RDMA_OPTION_ID_TOS = 0,        /**< uint8_t: type of service (RFC 2474) */
    RDMA_OPTION_ID_REUSEADDR = 1,  /**< int: as SO_REUSEADDR */
    RDMA_OPTION_ID_AFONLY = 2,     /**< int: as IPV6_V6ONLY */
    RDMA_OPTION_ID_ACK_TIMEOUT = 3 /**< uint8_t, 0..31: the QP waits 4.096 us * 2^n for an acknowledgement */
};

/** Options at RDMA_OPTION_IB. */
enum {
    RDMA_OPTION_IB_PATH = 1 /**< struct ibv_path_data[]: the route, instead of rdma_resolve_route */
};

/** Sets an option of an id. @param optlen bytes at `optval` */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/** Moves an id, with the events that wait for it, to another channel; null makes its calls wait. */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/**
 * Resolves names to addresses and, unless RAI_NOROUTE is set, paths.
 * @return 0, an EAI_* value as of getaddrinfo(3), or -1 with errno set
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **res);

/** Frees a list of rdma_getaddrinfo or rdma_query_addrinfo. */
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/** What the state of the id asks of a QP that the program moves itself: ibv_modify_qp's arguments for `qp_state`. */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/** Offers ECE options to the peer; call before connecting or accepting an id without QP. */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/** The ECE options that the peer sent with its request or answer. */
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/**
 * Queues an event of the program's own on the channel of an id.
 * @param event RDMA_CM_EVENT_USER, nothing else
 * @param status kept in the event
 * @param arg `param.arg` of the event
 */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

/** Resolves a name to addresses without waiting. Ends with ADDRINFO_RESOLVED or ADDRINFO_ERROR. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints);

/** The result of rdma_resolve_addrinfo; the caller frees it with rdma_freeaddrinfo. */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

#ifdef __cplusplus
}
#endif

#endif
