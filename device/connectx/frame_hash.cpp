// SPDX-License-Identifier: MIT
#include "device/connectx/frame_hash.h"

#include <algorithm>
#include <utility>

#include "device/connectx/formats.h"

namespace verbatim::connectx {

namespace {

enum SelectedField : uint32_t {
  kSourceIp = 1,
  kDestinationIp = 2,
  kSourcePort = 4,
  kDestinationPort = 8,
  kSpi = 16
};

/// The fields that are hashed, one behind the other.
class Fields {
 public:
  void add(const uint8_t* from, size_t count) {
    std::copy_n(from, count, bytes_ + size_);
    size_ += count;
  }
  const uint8_t* bytes() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  uint8_t bytes_[2 * 16 + 4] = {};
  size_t size_ = 0;
};

uint32_t inverted_xor(const Fields& fields) {
  uint8_t sum = 0;
  for (size_t i = 0; i < fields.size(); i++) sum ^= fields.bytes()[i];
  return static_cast<uint8_t>(~sum);
}

}  // namespace

uint32_t toeplitz(const std::array<uint8_t, kToeplitzKeyBytes>& key, const uint8_t* bytes, size_t count) {
  uint32_t window = uint32_t{key[0]} << 24 | uint32_t{key[1]} << 16 | uint32_t{key[2]} << 8 | key[3];
  uint32_t hash = 0;
  for (size_t i = 0; i < std::min(count, kToeplitzKeyBytes - 4); i++) {
    for (int bit = 7; bit >= 0; bit--) {
      if ((bytes[i] >> bit & 1) != 0) hash ^= window;
      window = window << 1 | (key[i + 4] >> bit & 1u);
    }
  }
  return hash;
}

FrameHash::FrameHash(prm::View<prm::Tirc> context)
    : function_(context.as<prm::RxHash>(prm::Tirc::rx_hash_fn)),
      symmetric_(context[prm::Tirc::rx_hash_symmetric]),
      looks_into_tunnels_(context[prm::Tirc::tunneled_offload_en]) {
  const auto inner = context[prm::Tirc::rx_hash_field_selector_inner];
  inner_ = inner[prm::RxHashFieldSelect::selected_fields] != 0;
  const auto selector = inner_ ? inner : context[prm::Tirc::rx_hash_field_selector_outer];
  ipv6_ = selector[prm::RxHashFieldSelect::l3_prot_type];
  udp_ = selector[prm::RxHashFieldSelect::l4_prot_type];
  fields_ = selector[prm::RxHashFieldSelect::selected_fields];
  for (size_t i = 0; i < kToeplitzKeyBytes; i++)
    key_[i] = static_cast<uint8_t>(context.at(prm::Tirc::rx_hash_toeplitz_key, i / 4) >> (24 - 8 * (i % 4)));
}

// What is in ESP within a tunnel is not looked for.
bool FrameHash::has_fields(const engine::FrameHeaders& frame, const engine::PacketHeaders& packet) const {
  if (packet.network != (ipv6_ ? 6 : 4)) return false;
  const bool ports = (fields_ & (kSourcePort | kDestinationPort)) != 0;
  if (ports && packet.transport != (udp_ ? engine::kProtocolUdp : engine::kProtocolTcp)) return false;
  return (fields_ & kSpi) == 0 || (!inner_ && frame.is_esp != 0);
}

uint8_t FrameHash::kind() const {
  const uint8_t network = ipv6_ ? kHashIpv6 : kHashIpv4;
  const uint8_t transport = (fields_ & kSpi) != 0 ? kHashSpi : udp_ ? kHashUdp : kHashTcp;
  const auto of = [this](uint32_t field, uint8_t code, uint32_t shift) {
    return (fields_ & field) != 0 ? code << shift : 0;
  };
  return static_cast<uint8_t>(of(kSourceIp, network, kHashSourceIpShift) |
                              of(kDestinationIp, network, kHashDestinationIpShift) |
                              of(kSourcePort, transport, kHashSourcePortShift) |
                              of(kDestinationPort | kSpi, transport, kHashDestinationPortShift));
}

FrameHash::Result FrameHash::of(const engine::FrameHeaders& frame) const {
  const engine::PacketHeaders& packet = inner_ ? frame.inner : frame;
  if (function_ == prm::RxHash::kNone || !has_fields(frame, packet)) return {};
  const size_t address = ipv6_ ? 16 : 4;
  const uint8_t* ends[] = {packet.source_ip, packet.destination_ip};
  const uint8_t* gates[] = {packet.source_port, packet.destination_port};
  if (symmetric_ && std::lexicographical_compare(ends[1], ends[1] + address, ends[0], ends[0] + address)) {
    std::swap(ends[0], ends[1]);
    std::swap(gates[0], gates[1]);
  }
  const bool ports = (fields_ & (kSourcePort | kDestinationPort)) != 0;
  Fields fields;
  if ((fields_ & kSourceIp) != 0) fields.add(ends[0], address);
  if ((fields_ & kDestinationIp) != 0) fields.add(ends[1], address);
  if ((fields_ & kSourcePort) != 0) fields.add(gates[0], 2);
  if ((fields_ & kDestinationPort) != 0) fields.add(gates[1], 2);
  if ((fields_ & kSpi) != 0 && !ports) fields.add(frame.esp_index, 4);
  const uint32_t value = function_ == prm::RxHash::kToeplitz ? toeplitz(key_, fields.bytes(), fields.size())
                                                             : inverted_xor(fields);
  return {value, kind()};
}

}  // namespace verbatim::connectx
