// SPDX-License-Identifier: MIT
#include "engine/frame_shape.h"

#include "engine/frame_checksums.h"
#include "wire/format/crc32.h"

namespace verbatim::engine {

namespace {

constexpr uint32_t kAddressBytes = 12, kTagBytes = 4, kFcsBytes = 4;

/// Of customers' tags alone: what carriers put in front stays.
bool has_tag_to_strip(const ArrivedFrame& frame) {
  return frame.parsed.headers.is_tagged != 0 && frame.bytes[kAddressBytes] == 0x81 &&
         frame.bytes[kAddressBytes + 1] == 0x00;
}

}  // namespace

ShapedFrame::ShapedFrame(const ArrivedFrame& frame, const FrameWishes& wishes, uint32_t tag)
    : parts_{{frame.bytes, frame.length}, {nullptr, 0}, {nullptr, 0}} {
  const FrameHeaders& headers = frame.parsed.headers;
  facts_ = {headers.network, headers.transport, frame.right_checksums, tag};
  if (wishes.looks_into_tunnels && frame.parsed.is_tunnel()) {
    facts_.tunnel = headers.network;
    facts_.network = headers.inner.network;
    facts_.transport = headers.inner.transport;
    facts_.right_checksums = right_tunnel_checksums(frame.bytes, frame.parsed, frame.right_checksums);
  }
  if (wishes.strips_vlan && has_tag_to_strip(frame)) {
    constexpr uint32_t kRest = kAddressBytes + kTagBytes;
    parts_[0].length = kAddressBytes;
    parts_[1] = {frame.bytes + kRest, frame.length - kRest};
    facts_.stripped = true;
    facts_.vlan = static_cast<uint16_t>(headers.vlan[0] << 8 | headers.vlan[1]);
  }
  if (wishes.keeps_fcs) {
    const uint32_t crc = ~roce::crc32_update(roce::kCrc32Start, frame.bytes, frame.length);
    for (uint32_t i = 0; i < kFcsBytes; i++) fcs_[i] = static_cast<uint8_t>(crc >> 8 * i);
    parts_[2] = {nullptr, kFcsBytes};
  }
  for (const Part& part : parts_) bytes_ += part.length;
}

Refusal ShapedFrame::store(const Elements& memory, uint64_t at) const {
  uint64_t offset = at;
  for (const Part& part : parts_) {
    if (part.length == 0) continue;
    const uint8_t* from = part.from != nullptr ? part.from : fcs_;
    if (Refusal why = memory.store(offset, from, part.length, offset + part.length == at + bytes_))
      return why;
    offset += part.length;
  }
  return nullptr;
}

}  // namespace verbatim::engine
