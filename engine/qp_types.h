// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/gid.h"

namespace verbatim::engine {

/// Values are those of IBV_QPT_*. The dynamically connected ones have none there.
enum class QpType : uint8_t {
  kRc = 2,
  kUc = 3,
  kUd = 4,
  kRaw = 8,          ///< whole Ethernet frames
  kXrcSend = 9,      ///< its work requests name shared receive queues behind the peer; sends only
  kXrcReceive = 10,  ///< the peer of one; receives only, into any shared receive queue of its XRC domain
  kDci = 64,         ///< DC initiator: connects to the target that each work request names; sends only
  kDct = 65,         ///< DC target: answers any number of initiators; receives only
};

/// What is sent is acknowledged, or sent again.
inline bool is_reliable(QpType type) {
  return type == QpType::kRc || type == QpType::kXrcSend || type == QpType::kXrcReceive ||
         type == QpType::kDci || type == QpType::kDct;
}

/// Values are those of IBV_QPS_*.
enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kError };

/// Most reads and atomics outstanding in one direction of a connection.
inline constexpr uint8_t kReadsMax = 16;

/// Which fields of QpAttributes a modify names; bit values are those of IBV_QP_*.
enum QpMask : uint32_t {
  kQpState = 1 << 0,
  kQpCurState = 1 << 1,
  kQpEnSqdAsyncNotify = 1 << 2,
  kQpAccessFlags = 1 << 3,
  kQpPkeyIndex = 1 << 4,
  kQpPort = 1 << 5,
  kQpQkey = 1 << 6,
  kQpAv = 1 << 7,
  kQpPathMtu = 1 << 8,
  kQpTimeout = 1 << 9,
  kQpRetryCnt = 1 << 10,
  kQpRnrRetry = 1 << 11,
  kQpRqPsn = 1 << 12,
  kQpMaxQpRdAtomic = 1 << 13,
  kQpAltPath = 1 << 14,
  kQpMinRnrTimer = 1 << 15,
  kQpSqPsn = 1 << 16,
  kQpMaxDestRdAtomic = 1 << 17,
  kQpPathMigState = 1 << 18,
  kQpCap = 1 << 19,
  kQpDestQpn = 1 << 20,
  kQpRateLimit = 1 << 25,
};

/// The address part of a path (ibv_ah_attr).
struct AddressAttributes {
  Gid dgid;
  uint32_t flow_label = 0;
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint8_t source_path_bits = 0;
  uint8_t static_rate = 0;
  uint8_t port = 1;
  uint16_t dlid = 0;
  bool is_global = false;
};

/// Everything that modify sets and query returns; units as in ibv_qp_attr, path MTU in bytes.
struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;
  uint32_t path_mtu = 1024;  ///< bytes: 256, 512, 1024, 2048, 4096
  uint8_t path_mig_state = 0;
  uint32_t qkey = 0;
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint32_t dest_qpn = 0;
  uint32_t access = 0;
  AddressAttributes path;
  AddressAttributes alternate_path;
  uint16_t pkey_index = 0;
  uint16_t alternate_pkey_index = 0;
  uint8_t en_sqd_async_notify = 0;
  bool sq_draining = false;
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;  ///< code 0..31 (IBA table 46)
  uint8_t port = 0;
  uint8_t timeout = 0;  ///< 4.096 us * 2^timeout; 0: for ever
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;  ///< 7: for ever
  uint8_t alternate_port = 0;
  uint8_t alternate_timeout = 0;
  uint32_t rate_limit = 0;   ///< kbit/s, of a sender of frames; 0: none
  uint32_t burst_bytes = 0;  ///< that may go at once within it; 0: the device's choice
};

/// Affiliated and port events; values are those of IBV_EVENT_*.
enum class AsyncEvent : uint8_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommEstablished = 4,
  kSqDrained = 5,
  kPathMigrated = 6,
  kPathMigrateError = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kLidChange = 11,
  kPkeyChange = 12,
  kSmChange = 13,
  kSrqError = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
  // Of DC targets, for programs below verbs; IBV_EVENT_* has none of these.
  kTargetDrained = 64,
  kTargetKeyViolation = 65,
};

}  // namespace verbatim::engine
