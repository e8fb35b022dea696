// SPDX-License-Identifier: MIT
// Constants in words. Indexed tables: a gap says "unknown", too.
#include <array>

#include "lib/ibverbs/public.h"

namespace verbatim::verbs {
namespace {

constexpr const char* kUnknown = "unknown";

template <size_t N>
const char* name_of(const std::array<const char*, N>& names, int value) {
  if (value < 0 || static_cast<size_t>(value) >= N) return kUnknown;
  const char* name = names[static_cast<size_t>(value)];
  return name != nullptr ? name : kUnknown;
}

constexpr std::array<const char*, 8> kNodes = {nullptr,
                                               "InfiniBand channel adapter",
                                               "InfiniBand switch",
                                               "InfiniBand router",
                                               "iWARP NIC",
                                               "usNIC",
                                               "usNIC UDP",
                                               "unspecified"};

constexpr std::array<const char*, 6> kPortStates = {
    "no state change (NOP)", "down", "init", "armed", "active", "active defer"};

constexpr std::array<const char*, 21> kEvents = {"CQ error",
                                                 "local work queue catastrophic error",
                                                 "invalid request local work queue error",
                                                 "local access violation work queue error",
                                                 "communication established",
                                                 "send queue drained",
                                                 "path migrated",
                                                 "path migration request error",
                                                 "local catastrophic error",
                                                 "port active",
                                                 "port error",
                                                 "LID change",
                                                 "P_Key change",
                                                 "SM change",
                                                 "SRQ catastrophic error",
                                                 "SRQ limit reached",
                                                 "last WQE reached",
                                                 "client reregistration",
                                                 "GID table change",
                                                 "WQ fatal",
                                                 "Device link speed change"};

constexpr std::array<const char*, 24> kStatuses = {"success",
                                                   "local length error",
                                                   "local QP operation error",
                                                   "local EE context operation error",
                                                   "local protection error",
                                                   "Work Request Flushed Error",
                                                   "memory management operation error",
                                                   "bad response error",
                                                   "local access error",
                                                   "remote invalid request error",
                                                   "remote access error",
                                                   "remote operation error",
                                                   "transport retry counter exceeded",
                                                   "RNR retry counter exceeded",
                                                   "local RDD violation error",
                                                   "remote invalid RD request",
                                                   "aborted error",
                                                   "invalid EE context number",
                                                   "invalid EE context state",
                                                   "fatal error",
                                                   "response timeout error",
                                                   "general error",
                                                   "TM error",
                                                   "TM software rendezvous"};

constexpr std::array<const char*, 16> kOpcodes = {"rdma-write",
                                                  "rdma-write-with-imm",
                                                  "send",
                                                  "send-with-imm",
                                                  "rdma-read",
                                                  "atomic-cmp-and-swp",
                                                  "atomic-fetch-and-add",
                                                  "local-inv",
                                                  "bind-mw",
                                                  "send-with-inv",
                                                  "tso",
                                                  "driver1",
                                                  nullptr,
                                                  nullptr,
                                                  "flush",
                                                  "atomic-write"};

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

const char* ibv_node_type_str(ibv_node_type node_type) { return name_of(kNodes, node_type); }
const char* ibv_port_state_str(ibv_port_state port_state) { return name_of(kPortStates, port_state); }
const char* ibv_event_type_str(ibv_event_type event) { return name_of(kEvents, event); }
const char* ibv_wc_status_str(ibv_wc_status status) { return name_of(kStatuses, status); }
const char* ibv_wr_opcode_str(ibv_wr_opcode opcode) { return name_of(kOpcodes, opcode); }

}  // extern "C"
