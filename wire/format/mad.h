// SPDX-License-Identifier: MIT
#pragma once

// Management datagrams (MADs), which queue pair 1 sends and receives: the header that all have, and the
// attribute that every class answers for. The connection manager's messages are in cm.h.

#include "base/gid.h"
#include "wire/format/layout.h"

namespace verbatim::roce {

constexpr size_t kMadBytes = 256;
constexpr uint32_t kGeneralServicesQpn = 1;
constexpr uint32_t kGeneralServicesQkey = 0x80010000;

struct MadHeader {
  static constexpr uint8_t kBaseVersion = 1;
  static constexpr uint8_t kGet = 0x01, kSet = 0x02, kSend = 0x03, kGetResponse = 0x81;  // methods
  static constexpr uint8_t kCmClass = 0x07, kCmClassVersion = 2;
  static constexpr uint16_t kClassPortInfo = 0x0001;
  static constexpr uint16_t kUnsupportedMethod = 0x0008, kUnsupportedAttribute = 0x000c;  // status

  uint8_t base_version = kBaseVersion;
  uint8_t management_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction = 0;
  uint16_t attribute = 0;
  uint32_t modifier = 0;  ///< of the attribute; in REQ, REP and SIDR_REP the options of ECE

  using Layout = roce::Layout<24, At<&MadHeader::base_version, 0, 8>, At<&MadHeader::management_class, 8, 8>,
                              At<&MadHeader::class_version, 16, 8>, At<&MadHeader::method, 24, 8>,
                              At<&MadHeader::status, 32, 16>, At<&MadHeader::class_specific, 48, 16>,
                              At<&MadHeader::transaction, 64, 64>, At<&MadHeader::attribute, 128, 16>,
                              At<&MadHeader::modifier, 160, 32>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<MadHeader> parse(std::span<const uint8_t> bytes) { return Layout::parse<MadHeader>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

constexpr size_t kMadDataBytes = kMadBytes - MadHeader::kBytes;

/// Where a class wants its datagrams, or its traps.
struct MadAddress {
  Gid gid;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
  uint16_t lid = 0;
  uint16_t pkey = 0;
  uint8_t hop_limit = 0;  ///< of traps; reserved otherwise
  uint32_t qpn = 0;
  uint32_t qkey = 0;

  using Layout = roce::Layout<32, Bytes<&MadAddress::gid, 0>, At<&MadAddress::traffic_class, 128, 8>,
                              At<&MadAddress::service_level, 136, 4>, At<&MadAddress::flow_label, 140, 20>,
                              At<&MadAddress::lid, 160, 16>, At<&MadAddress::pkey, 176, 16>,
                              At<&MadAddress::hop_limit, 192, 8>, At<&MadAddress::qpn, 200, 24>,
                              At<&MadAddress::qkey, 224, 32>>;
  friend bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// The data of a Get(ClassPortInfo) and its answer begin with it.
struct ClassPortInfo {
  uint8_t base_version = MadHeader::kBaseVersion;
  uint8_t class_version = 0;
  uint16_t capabilities = 0;
  uint32_t more_capabilities = 0;  ///< 27 bits
  uint8_t response_time = 0;       ///< 4.096 us << it
  MadAddress redirect, trap;

  using Layout =
      roce::Layout<72, At<&ClassPortInfo::base_version, 0, 8>, At<&ClassPortInfo::class_version, 8, 8>,
                   At<&ClassPortInfo::capabilities, 16, 16>, At<&ClassPortInfo::more_capabilities, 32, 27>,
                   At<&ClassPortInfo::response_time, 59, 5>,
                   Inner<&ClassPortInfo::redirect, 8, MadAddress::Layout>,
                   Inner<&ClassPortInfo::trap, 40, MadAddress::Layout>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<ClassPortInfo> parse(std::span<const uint8_t> bytes) {
    return Layout::parse<ClassPortInfo>(bytes);
  }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const ClassPortInfo&, const ClassPortInfo&) = default;
};

}  // namespace verbatim::roce
