// SPDX-License-Identifier: MIT
#pragma once

#include "abi/prm/capabilities.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/object_limits.h"
#include "device/connectx/prm/view.h"

namespace verbatim::prm {

/// The groups that QUERY_HCA_CAP knows; op_mod is twice the number, plus 1 for the current values. The table
/// has only some of these numbers, in part doubled already.
enum class CapabilityGroup : uint32_t {
  kGeneral = 0,
  kEthernetOffloads = 1,
  kOnDemandPaging = 2,
  kAtomic = 3,
  kRoce = 4,
  kIpoibOffloads = 5,
  kIpoibEnhancedOffloads = 6,
  kNicFlowTable = 7,
  kEswitchFlowTable = 8,
  kEswitch = 9,
  kVectorCalculation = 11,
  kQos = 12,
  kDebug = 13,
  kDeviceMemory = 15,
  kTls = 17,
  kVirtioEmulation = 19,
  kDeviceEvent = 20,
  kIpsec = 21,
  kCrypto = 26,
  kWqeBasedFlowTable = 27,
  kParseGraph = 28,
  kShampo = 29,
  kMacsec = 31,
  kGeneral2 = 32,
  kPortSelection = 37,
  kAdvancedVirtualization = 38,
};

/// What the capabilities follow from.
struct DeviceFacts {
  const hw::Limits& limits;
  hw::PortState port;
  SpecialKeys keys;
  CryptoFacts crypto;
};

/// Most entries of an indirect memory key's list.
constexpr uint32_t kLogKlmListMax = 16;
/// Most bytes that one copy within the device moves.
constexpr uint32_t kLogCopyBytesMax = 21;

/// Writes a group as far as the device has what it describes, nothing else; the device has the same current
/// and maximal values. Returns false if there is no such group.
bool write_capabilities(CapabilityGroup group, const DeviceFacts& facts, Writer<HcaCapUnion> out);

}  // namespace verbatim::prm
