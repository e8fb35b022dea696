// SPDX-License-Identifier: MIT
#include "engine/service.h"

#include "engine/frame_headers.h"
#include "engine/frame_segments.h"
#include "engine/message.h"

namespace verbatim::engine {

namespace {

bool offers(QpType type, Opcode opcode) {
  const bool send = !awaits_response(opcode) && !is_write(opcode);
  switch (type) {
    case QpType::kUd:
      return send && opcode != Opcode::kSendInvalidate && opcode != Opcode::kSegmentedSend;
    case QpType::kRaw:
      return is_for_frames(opcode);
    case QpType::kUc:
      return !awaits_response(opcode) && opcode != Opcode::kSendInvalidate &&
             opcode != Opcode::kSegmentedSend;
    case QpType::kDci:
      return !is_placement(opcode) && opcode != Opcode::kSegmentedSend;
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
    case QpType::kDct:
      break;
  }
  return opcode != Opcode::kSegmentedSend;
}

}  // namespace

uint32_t offered_by(QpType type) {
  uint32_t offered = 0;
  for (uint8_t opcode = 0; opcode <= static_cast<uint8_t>(Opcode::kTagList); opcode++)
    if (offers(type, static_cast<Opcode>(opcode))) offered |= 1u << opcode;
  return offered;
}

uint32_t longest_of(QpType type) {
  if (type == QpType::kUd) return kDatagramBytesMax;
  return type == QpType::kRaw ? kFrameBytesMax : wire::kMessageBytesMax;
}

const char* wrong_length(const SendWork& work, uint64_t length, uint64_t most) {
  if (work.opcode == Opcode::kFlush) return length == 0 ? nullptr : "a flush has no local memory";
  if (is_atomic(work.opcode) || work.opcode == Opcode::kAtomicWrite)
    return length == 8 ? nullptr : "an atomic needs exactly 8 bytes of local memory";
  if (work.opcode == Opcode::kSegmentedSend) most = work.header_bytes + kSegmentedBytesMax;
  return length <= most ? nullptr : "the message is longer than the service allows";
}

}  // namespace verbatim::engine
