// SPDX-License-Identifier: MIT
#include "engine/transitions.h"

namespace verbatim::engine {

namespace {

struct Rule {
  QpState from, to;
  QpType type;
  uint32_t required;
  uint32_t optional;
};

using enum QpState;
using enum QpType;

// Alternate paths are for InfiniBand ports only: RoCE has none, and allows their attribute nowhere.
constexpr uint32_t kInitConnected = kQpPkeyIndex | kQpPort | kQpAccessFlags;
constexpr uint32_t kInitDatagram = kQpPkeyIndex | kQpPort | kQpQkey;
constexpr uint32_t kRtrUc = kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
constexpr uint32_t kRtrOptional = kQpAccessFlags | kQpPkeyIndex;
constexpr uint32_t kRtsRc = kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic;
constexpr uint32_t kRunUc = kQpCurState | kQpAccessFlags | kQpPathMigState;
constexpr uint32_t kRunRc = kRunUc | kQpMinRnrTimer;
constexpr uint32_t kRunUd = kQpCurState | kQpQkey;
// A raw packet queue pair has neither keys nor numbers, and alone a rate.
// A DC initiator learns of its peers from its work requests; a DC target is ready from RTR on and goes
// nowhere from there.
constexpr uint32_t kInitDci = kQpPkeyIndex | kQpPort;
constexpr uint32_t kRtrDct = kQpMinRnrTimer | kQpAv | kQpPathMtu;
// An XRC sender is the half of RC that asks, a receiver the one that answers.
constexpr uint32_t kRtsXrc = kQpTimeout | kQpSqPsn;
constexpr uint32_t kDrainedUc = kQpAv | kQpAccessFlags | kQpPkeyIndex | kQpPathMigState;
constexpr uint32_t kDrainedRc = kDrainedUc | kQpPort | kQpTimeout | kQpRetryCnt | kQpRnrRetry |
                                kQpMaxQpRdAtomic | kQpMaxDestRdAtomic | kQpMinRnrTimer;
constexpr uint32_t kDrainedXrcSend =
    kDrainedUc | kQpPort | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;
constexpr uint32_t kDrainedXrcReceive =
    kDrainedUc | kQpPort | kQpTimeout | kQpMaxDestRdAtomic | kQpMinRnrTimer;

constexpr Rule kRules[] = {
    {kReset, kInit, kRc, kInitConnected, 0},
    {kReset, kInit, kUc, kInitConnected, 0},
    {kReset, kInit, kUd, kInitDatagram, 0},
    {kReset, kInit, kRaw, kQpPort, 0},
    {kReset, kInit, kDci, kInitDci, 0},
    {kReset, kInit, kDct, kInitConnected, 0},
    {kReset, kInit, kXrcSend, kInitConnected, 0},
    {kReset, kInit, kXrcReceive, kInitConnected, 0},
    {kInit, kInit, kRc, 0, kInitConnected},
    {kInit, kInit, kUc, 0, kInitConnected},
    {kInit, kInit, kUd, 0, kInitDatagram},
    {kInit, kInit, kRaw, 0, kQpPort},
    {kInit, kInit, kDci, 0, kInitDci},
    {kInit, kInit, kXrcSend, 0, kInitConnected},
    {kInit, kInit, kXrcReceive, 0, kInitConnected},
    {kInit, kRtr, kRc, kRtrUc | kQpMaxDestRdAtomic | kQpMinRnrTimer, kRtrOptional},
    {kInit, kRtr, kUc, kRtrUc, kRtrOptional},
    {kInit, kRtr, kUd, 0, kQpPkeyIndex | kQpQkey},
    {kInit, kRtr, kRaw, 0, 0},
    {kInit, kRtr, kDci, kQpPathMtu, kQpAv | kQpPkeyIndex},
    {kInit, kRtr, kDct, kRtrDct, 0},
    {kInit, kRtr, kXrcSend, kRtrUc, kRtrOptional},
    {kInit, kRtr, kXrcReceive, kRtrUc | kQpMaxDestRdAtomic | kQpMinRnrTimer, kRtrOptional},
    {kRtr, kRts, kRc, kRtsRc, kRunRc},
    {kRtr, kRts, kUc, kQpSqPsn, kRunUc},
    {kRtr, kRts, kUd, kQpSqPsn, kRunUd},
    {kRtr, kRts, kRaw, 0, kQpCurState | kQpRateLimit},
    {kRtr, kRts, kDci, kRtsRc, kQpMinRnrTimer},
    {kRtr, kRts, kXrcSend, kRtsRc, kRunUc},
    {kRtr, kRts, kXrcReceive, kRtsXrc, kRunRc},
    {kRts, kRts, kRc, 0, kRunRc},
    {kRts, kRts, kUc, 0, kRunUc},
    {kRts, kRts, kUd, 0, kRunUd},
    {kRts, kRts, kRaw, 0, kQpCurState | kQpRateLimit},
    {kRts, kRts, kDci, 0, kQpMinRnrTimer},
    {kRts, kRts, kXrcSend, 0, kRunUc},
    {kRts, kRts, kXrcReceive, 0, kRunRc},
    {kRts, kSqd, kRc, 0, kQpEnSqdAsyncNotify},
    {kRts, kSqd, kUc, 0, kQpEnSqdAsyncNotify},
    {kRts, kSqd, kUd, 0, kQpEnSqdAsyncNotify},
    {kRts, kSqd, kXrcSend, 0, kQpEnSqdAsyncNotify},
    {kRts, kSqd, kXrcReceive, 0, kQpEnSqdAsyncNotify},
    {kSqd, kRts, kRc, 0, kRunRc},
    {kSqd, kRts, kUc, 0, kRunUc},
    {kSqd, kRts, kUd, 0, kRunUd},
    {kSqd, kRts, kXrcSend, 0, kRunUc},
    {kSqd, kRts, kXrcReceive, 0, kRunRc},
    {kSqd, kSqd, kRc, 0, kDrainedRc},
    {kSqd, kSqd, kUc, 0, kDrainedUc},
    {kSqd, kSqd, kUd, 0, kQpPkeyIndex | kQpQkey},
    {kSqd, kSqd, kXrcSend, 0, kDrainedXrcSend},
    {kSqd, kSqd, kXrcReceive, 0, kDrainedXrcReceive},
    {kSqe, kRts, kUc, 0, kQpCurState | kQpAccessFlags},
    {kSqe, kRts, kUd, 0, kRunUd},
};

struct MaskName {
  uint32_t bit;
  const char* name;
};
constexpr MaskName kMaskNames[] = {
    {kQpAccessFlags, "access flags"},
    {kQpPkeyIndex, "P_Key index"},
    {kQpPort, "port"},
    {kQpQkey, "Q_Key"},
    {kQpAv, "address vector"},
    {kQpPathMtu, "path MTU"},
    {kQpTimeout, "timeout"},
    {kQpRetryCnt, "retry count"},
    {kQpRnrRetry, "RNR retry count"},
    {kQpRqPsn, "RQ PSN"},
    {kQpMaxQpRdAtomic, "max_rd_atomic"},
    {kQpAltPath, "alternate path"},
    {kQpMinRnrTimer, "min RNR timer"},
    {kQpSqPsn, "SQ PSN"},
    {kQpMaxDestRdAtomic, "max_dest_rd_atomic"},
    {kQpPathMigState, "path migration state"},
    {kQpCap, "capabilities"},
    {kQpDestQpn, "destination QPN"},
    {kQpCurState, "current state"},
    {kQpEnSqdAsyncNotify, "SQD notification"},
    {kQpRateLimit, "rate limit"},
};

std::string names(uint32_t mask) {
  std::string text;
  for (const MaskName& entry : kMaskNames) {
    if (!(mask & entry.bit)) continue;
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text.empty() ? "unknown attribute bits" : text;
}

}  // namespace

const char* state_name(QpState state) {
  switch (state) {
    case kReset:
      return "RESET";
    case kInit:
      return "INIT";
    case kRtr:
      return "RTR";
    case kRts:
      return "RTS";
    case kSqd:
      return "SQD";
    case kSqe:
      return "SQE";
    case kError:
      return "ERR";
  }
  return "?";
}

std::string check_transition(QpType type, QpState from, QpState to, uint32_t mask) {
  const uint32_t named = mask & ~static_cast<uint32_t>(kQpState);
  // Nothing has happened in RESET yet that could be an error.
  if (type != kDct && (to == kReset || (to == kError && from != kReset)))
    return named ? std::string("not allowed on the way to ") + state_name(to) + ": " + names(named) : "";
  for (const Rule& rule : kRules) {
    if (rule.from != from || rule.to != to || rule.type != type) continue;
    if (uint32_t missing = rule.required & ~named)
      return std::string(state_name(from)) + " to " + state_name(to) + " lacks: " + names(missing);
    if (uint32_t extra = named & ~(rule.required | rule.optional))
      return std::string(state_name(from)) + " to " + state_name(to) + " does not allow: " + names(extra);
    return "";
  }
  return std::string("no transition from ") + state_name(from) + " to " + state_name(to) +
         " for this service type";
}

std::string check_attributes(const QpAttributes& a, uint32_t mask) {
  const bool mtu_ok = a.path_mtu == 256 || a.path_mtu == 512 || a.path_mtu == 1024 || a.path_mtu == 2048 ||
                      a.path_mtu == 4096;
  if ((mask & kQpPort) && a.port != 1) return "port number is not 1";
  if ((mask & kQpPathMtu) && !mtu_ok) return "path MTU is not one of 256, 512, 1024, 2048, 4096";
  if ((mask & kQpDestQpn) && a.dest_qpn > 0xffffff) return "destination QPN has more than 24 bits";
  if ((mask & kQpMinRnrTimer) && a.min_rnr_timer > 31) return "min RNR timer is above 31";
  if ((mask & kQpTimeout) && a.timeout > 31) return "timeout is above 31";
  if ((mask & kQpRetryCnt) && a.retry_count > 7) return "retry count is above 7";
  if ((mask & kQpRnrRetry) && a.rnr_retry > 7) return "RNR retry count is above 7";
  if ((mask & kQpMaxQpRdAtomic) && a.max_rd_atomic > kReadsMax) return "max_rd_atomic is above 16";
  if ((mask & kQpMaxDestRdAtomic) && a.max_dest_rd_atomic > kReadsMax)
    return "max_dest_rd_atomic is above 16";
  if ((mask & kQpAv) && a.path.port != 1) return "port number of the address vector is not 1";
  return "";
}

}  // namespace verbatim::engine
