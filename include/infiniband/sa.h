// SPDX-License-Identifier: MIT
/**
 * @file sa.h
 * Records of the subnet administrator: paths, multicast memberships, services.
 *
 * The `selector` fields take 0 (greater than), 1 (less than), 2 (exactly), 3 (best).
 * MTUs are enum ibv_mtu, rates enum ibv_rate; a packet lifetime n means 4.096 us * 2^n.
 */
#ifndef INFINIBAND_SA_H
#define INFINIBAND_SA_H

#include <infiniband/verbs.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A path, field by field. librdmacm reports one of these per resolved route. */
struct ibv_sa_path_rec {
    union ibv_gid dgid;
    union ibv_gid sgid;
    __be16 dlid;
    __be16 slid;
    int raw_traffic;   /**< non-zero: raw packets may use the path */
    __be32 flow_label; /**< 20 bits */
    uint8_t hop_limit;
    uint8_t traffic_class;
    int reversible; /**< non-zero: the same path leads back */
    uint8_t numb_path;
    __be16 pkey;
    uint8_t sl; /**< service level, 0..15 */
    uint8_t mtu_selector;
    uint8_t mtu;
    uint8_t rate_selector;
    uint8_t rate;
    uint8_t packet_life_time_selector;
    uint8_t packet_life_time;
    uint8_t preference; /**< 0 is preferred */
};

/** A membership in a multicast group. Integers are in host byte order. */
struct ibv_sa_mcmember_rec {
    union ibv_gid mgid;
    union ibv_gid port_gid;
    uint32_t qkey;
    uint16_t mlid; /**< 0xC000..0xFFFE */
    uint8_t mtu_selector;
    uint8_t mtu;
    uint8_t traffic_class;
    uint16_t pkey;
    uint8_t rate_selector;
    uint8_t rate;
    uint8_t packet_life_time_selector;
    uint8_t packet_life_time;
    uint8_t sl;
    uint32_t flow_label;
    uint8_t hop_limit;
    uint8_t scope;      /**< of the MGID: 2 link local, 5 site, 8 organisation, 14 global */
    uint8_t join_state; /**< bits: full member, non-member, send-only non-member */
    int proxy_join;
};

/** A service registered with the subnet administrator. Integers are in host byte order. */
struct ibv_sa_service_rec {
    uint64_t id;
    union ibv_gid gid;
    uint16_t pkey;
    uint32_t lease; /**< seconds; all ones: for ever */
    uint8_t key[16];
    uint8_t name[64]; /**< UTF-8, ends with zero */
    uint8_t data8[16];
    uint16_t data16[8];
    uint32_t data32[4];
    uint64_t data64[2];
};

/** Bit of ibv_path_record.reversible_numpath. */
#define IBV_PATH_RECORD_REVERSIBLE 0x80

/** A path exactly as a PathRecord lies in a management datagram (big endian, packed by nature). */
struct ibv_path_record {
    __be64 service_id;
    union ibv_gid dgid;
    union ibv_gid sgid;
    __be16 dlid;
    __be16 slid;
    __be32 flowlabel_hoplimit; /**< 31..28 reserved, 27..8 flow label, 7..0 hop limit */
    uint8_t tclass;
    uint8_t reversible_numpath; /**< 7 reversible, 6..0 number of paths */
    __be16 pkey;
    __be16 qosclass_sl;     /**< 15..4 QoS class, 3..0 service level */
    uint8_t mtu;            /**< 7..6 selector, 5..0 value */
    uint8_t rate;           /**< 7..6 selector, 5..0 value */
    uint8_t packetlifetime; /**< 7..6 selector, 5..0 value */
    uint8_t preference;
    uint8_t reserved[6];
};

/** @name ibv_path_data.flags: which of several records plays which part. @{ */
#define IBV_PATH_FLAG_GMP (1 << 0)             /**< for connection-manager messages */
#define IBV_PATH_FLAG_PRIMARY (1 << 1)         /**< the connection's path */
#define IBV_PATH_FLAG_ALTERNATE (1 << 2)       /**< to migrate to */
#define IBV_PATH_FLAG_OUTBOUND (1 << 3)        /**< from here to the peer */
#define IBV_PATH_FLAG_INBOUND (1 << 4)         /**< from the peer to here */
#define IBV_PATH_FLAG_INBOUND_REVERSE (1 << 5) /**< the outbound path, read backwards */
#define IBV_PATH_FLAG_BIDIRECTIONAL (IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE)
/** @} */

/** A path record and its part; RDMA_OPTION_IB_PATH takes an array of them (rdma_set_option(3)). */
struct ibv_path_data {
    uint32_t flags; /**< IBV_PATH_FLAG_* */
    uint32_t reserved;
    struct ibv_path_record path;
};

#ifdef __cplusplus
}
#endif

#endif
