// SPDX-License-Identifier: MIT
#include "device/connectx/frame_hash.h"

#include <algorithm>
#include <utility>

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
      symmetric_(context[prm::Tirc::rx_hash_symmetric]) {
  const auto outer = context[prm::Tirc::rx_hash_field_selector_outer];
  ipv6_ = outer[prm::RxHashFieldSelect::l3_prot_type];
  udp_ = outer[prm::RxHashFieldSelect::l4_prot_type];
  fields_ = outer[prm::RxHashFieldSelect::selected_fields];
  for (size_t i = 0; i < kToeplitzKeyBytes; i++)
    key_[i] = static_cast<uint8_t>(context.at(prm::Tirc::rx_hash_toeplitz_key, i / 4) >> (24 - 8 * (i % 4)));
}

uint32_t FrameHash::of(const engine::FrameHeaders& frame) const {
  if (function_ == prm::RxHash::kNone || frame.network != (ipv6_ ? 6 : 4)) return 0;
  const bool ports = (fields_ & (kSourcePort | kDestinationPort)) != 0;
  if (ports && frame.transport != (udp_ ? engine::kProtocolUdp : engine::kProtocolTcp)) return 0;
  if ((fields_ & kSpi) != 0 && frame.is_esp == 0) return 0;
  const size_t address = ipv6_ ? 16 : 4;
  const uint8_t* ends[] = {frame.source_ip, frame.destination_ip};
  const uint8_t* gates[] = {frame.source_port, frame.destination_port};
  if (symmetric_ && std::lexicographical_compare(ends[1], ends[1] + address, ends[0], ends[0] + address)) {
    std::swap(ends[0], ends[1]);
    std::swap(gates[0], gates[1]);
  }
  Fields fields;
  if ((fields_ & kSourceIp) != 0) fields.add(ends[0], address);
  if ((fields_ & kDestinationIp) != 0) fields.add(ends[1], address);
  if ((fields_ & kSourcePort) != 0) fields.add(gates[0], 2);
  if ((fields_ & kDestinationPort) != 0) fields.add(gates[1], 2);
  if ((fields_ & kSpi) != 0 && !ports) fields.add(frame.esp_index, 4);
  return function_ == prm::RxHash::kToeplitz ? toeplitz(key_, fields.bytes(), fields.size())
                                             : inverted_xor(fields);
}

}  // namespace verbatim::connectx
