// SPDX-License-Identifier: MIT
// The subnet management agent of the port: nodes, ports, GUIDs and P_Keys as the InfiniBand specification
// lays them out (chapter 14.2.5). An Ethernet port has one, too, which programs ask for the state of the
// port.
#include "device/connectx/prm/subnet_management.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbatim::prm {

namespace {

constexpr size_t kMethod = 3, kStatus = 4, kAttribute = 16, kModifier = 20, kData = 64, kDataBytes = 64;
constexpr uint8_t kGet = 1, kGetResponse = 0x81;
constexpr uint8_t kUnsupportedAttribute = 0x0c;

enum Attribute : uint32_t {
  kNodeDescription = 0x10,
  kNodeInfo = 0x11,
  kGuidInfo = 0x14,
  kPortInfo = 0x15,
  kPkeyTable = 0x16,
};

/// The attribute's part of the datagram; numbers are big-endian.
class Data {
 public:
  explicit Data(ManagementDatagram& mad) : at_(mad.data() + kData) {
    std::fill_n(at_, kDataBytes, uint8_t{0});
  }
  void put(size_t offset, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) at_[offset + i] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - i));
  }
  void put(size_t offset, const void* from, size_t bytes) { std::memcpy(at_ + offset, from, bytes); }

 private:
  uint8_t* const at_;
};

uint32_t read(const ManagementDatagram& mad, size_t offset, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; i++) value = value << 8 | mad[offset + i];
  return value;
}

void node_description(const hw::Limits& limits, Data data) {
  const std::string text = "ConnectX " + limits.firmware;
  data.put(0, text.data(), std::min(text.size(), kDataBytes));
}

void node_info(const hw::Limits& limits, Data data) {
  constexpr uint64_t kChannelAdapter = 1;
  data.put(0, 1, 1);  // versions of the datagrams
  data.put(1, 1, 1);
  data.put(2, kChannelAdapter, 1);
  data.put(3, 1, 1);  // ports
  for (const size_t guid : {4, 12, 20}) data.put(guid, limits.node_guid, 8);
  data.put(28, limits.max_pkeys, 2);
  data.put(30, limits.vendor_part_id, 2);
  data.put(32, limits.hardware_version, 4);
  data.put(36, 1, 1);  // the port that was asked
  data.put(37, limits.vendor_id, 3);
}

void guid_info(const hw::Limits& limits, uint32_t block, Data data) {
  if (block == 0) data.put(0, limits.node_guid, 8);
}

void port_info(CommandUnit& unit, Data data) {
  constexpr uint32_t kActive = 4, kDown = 1;
  constexpr uint32_t kLinkUp = 5, kPolling = 2;
  constexpr uint32_t kSystemImageGuid = 1u << 11, kCommunicationManagement = 1u << 16;
  constexpr uint32_t kWidth4x = 2, kQdr = 4, kOneLane = 1;
  const hw::PortState port = unit.port();
  const auto mtu = [](uint32_t bytes) { return std::bit_width(bytes / 256); };
  data.put(8, unit.gid(0).gid.bytes.data(), 8);  // the subnet's prefix
  data.put(16, port.lid, 2);
  data.put(18, port.sm_lid, 2);
  data.put(20, kSystemImageGuid | kCommunicationManagement, 4);
  data.put(28, 1, 1);
  for (const size_t width : {29, 30, 31}) data.put(width, kWidth4x, 1);
  data.put(32, port.active ? kActive : kDown, 1);
  data.put(33, (port.active ? kLinkUp : kPolling) << 4 | kPolling, 1);
  data.put(35, kQdr << 4 | kQdr, 1);
  data.put(36, static_cast<uint64_t>(mtu(port.active_mtu)) << 4, 1);
  data.put(37, kOneLane << 4, 1);
  data.put(41, static_cast<uint64_t>(mtu(port.max_mtu)), 1);
  data.put(43, kOneLane << 4, 1);
  data.put(50, port.gid_entries, 1);
}

void pkey_table(CommandUnit& unit, uint32_t block, Data data) {
  constexpr uint32_t kPerBlock = 32;
  for (uint32_t i = 0; i < kPerBlock; i++)
    if (const auto pkey = unit.pkey(block * kPerBlock + i)) data.put(size_t{i} * 2, *pkey, 2);
}

/// False: that is not kept here.
bool fill(CommandUnit& unit, uint32_t attribute, uint32_t modifier, ManagementDatagram& mad) {
  if (attribute == kPortInfo) return port_info(unit, Data(mad)), true;
  if (!unit.port().is_infiniband()) return false;
  switch (attribute) {
    case kNodeDescription:
      return node_description(unit.limits(), Data(mad)), true;
    case kNodeInfo:
      return node_info(unit.limits(), Data(mad)), true;
    case kGuidInfo:
      return guid_info(unit.limits(), modifier, Data(mad)), true;
    case kPkeyTable:
      return pkey_table(unit, modifier & 0xffff, Data(mad)), true;
    default:
      return false;
  }
}

}  // namespace

void answer_management(CommandUnit& unit, ManagementDatagram& mad) {
  const uint32_t attribute = read(mad, kAttribute, 2), modifier = read(mad, kModifier, 4);
  if (mad[kMethod] != kGet || !fill(unit, attribute, modifier, mad)) mad[kStatus + 1] = kUnsupportedAttribute;
  mad[kMethod] = kGetResponse;
}

}  // namespace verbatim::prm
