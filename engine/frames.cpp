// SPDX-License-Identifier: MIT
// Ethernet frames of raw packet queue pairs: the port is one of a switch in this host. Processes with rules
// (steering.h) are members of a group; a sender hands its frame to all of them, and each looks at its own
// rules. A frame that no rule wants vanishes. A port may have an outlet, too, to a network outside.
#include <algorithm>
#include <mutex>

#include "engine/engine.h"
#include "engine/frame_checksums.h"
#include "engine/frame_shape.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::Segment;
using wire::SendResult;

namespace {

constexpr uint32_t kMembersMax = 256;

/// Interface-local scope (RFC 4291, 2.7): nothing for it ever leaves the host.
constexpr Gid kFrameGroup{{0xff, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 'f', 'r', 'a', 'm', 'e', 's'}};

Segment frame_segment(uint32_t from, uint32_t bytes) {
  Segment segment;
  segment.operation = wire::Operation::kSend;
  segment.transport = wire::Transport::kUd;
  segment.flags = wire::kFirst | wire::kLast | wire::kFrame;
  segment.src_qpn = from;
  segment.length = segment.total_length = bytes;
  segment.qkey = segment.flow_label = 0;
  segment.traffic_class = segment.hop_limit = 0;
  segment.gid_type = GidType::kRoceV2;
  segment.source_lid = segment.dest_lid = 0;
  return segment;
}

bool takes_frames(QpState state) {
  return state != QpState::kReset && state != QpState::kInit && state != QpState::kError;
}

/// A copy for a target whose rule changes what it gets.
void change_and_take(const ArrivedFrame& frame, const Steering::Target& target) {
  uint8_t copy[kFrameBytesMax];
  std::copy_n(frame.bytes, frame.length, copy);
  const uint32_t bytes = target.action->apply(copy, frame.length, kFrameBytesMax);
  if (bytes < kFrameBytesMin) return;
  const ParsedFrame parsed = parse_frame(copy, bytes);
  target.to->take_frame({copy, bytes, parsed, right_checksums(copy, parsed), frame.sender}, target.tag);
}

}  // namespace

uint32_t Engine::first_number() const { return block_slots_[0].load(std::memory_order_relaxed) * kQpBlock; }

Expected<uint32_t> Engine::join_and_add(FrameTarget* to, const FlowRule& rule,
                                        std::shared_ptr<FrameTarget> hold) {
  if (Outcome joined = host_.join(kFrameGroup); !joined) return joined.error();
  return steering_.add(to, rule, std::move(hold));
}

Expected<uint32_t> Engine::add_flow(QueuePair* qp, const FlowRule& rule) {
  if (qp->type() != QpType::kRaw)
    return Error{EOPNOTSUPP, "rules steer to raw packet queue pairs; datagrams find theirs by number"};
  return join_and_add(qp, rule, nullptr);
}

Expected<uint32_t> Engine::add_flow(std::shared_ptr<FrameTarget> to, const FlowRule& rule) {
  FrameTarget* target = to.get();
  return join_and_add(target, rule, std::move(to));
}

Outcome Engine::remove_flow(uint32_t number) {
  if (!steering_.remove(number)) return Error{EINVAL, "there is no such rule"};
  return host_.leave(kFrameGroup);
}

void Engine::forget_flows(const FrameTarget* target) {
  for (uint32_t left = steering_.forget(target); left > 0; left--) (void)host_.leave(kFrameGroup);
}

bool Engine::deliver_frame(const Segment& segment, wire::Payload& payload) {
  if (segment.length < kFrameBytesMin || segment.length > kFrameBytesMax) return false;
  alignas(8) uint8_t bytes[kFrameBytesMax];
  const wire::Piece all{bytes, segment.length};
  if (payload.copy_to(0, &all, 1) != wire::CopyResult::kDone) return false;
  const ParsedFrame parsed = parse_frame(bytes, segment.length);
  const std::vector<Steering::Target> targets = steering_.match(parsed.headers, segment.length);
  if (targets.empty()) return false;
  const ArrivedFrame frame{bytes, segment.length, parsed, right_checksums(bytes, parsed), segment.src_qpn};
  for (const Steering::Target& target : targets) {
    if (target.action)
      change_and_take(frame, target);
    else
      target.to->take_frame(frame, target.tag);
  }
  return false;
}

SendResult Engine::spread_frame(const Port& port, uint32_t sender, const wire::Piece* pieces, uint32_t count,
                                uint32_t bytes) {
  if (port.down) return SendResult::kAccepted;
  wire::Channel* ways[kMembersMax];
  uint32_t members = fabric_.multicast(kFrameGroup, ways, kMembersMax);
  members = static_cast<uint32_t>(
      std::remove_if(ways, ways + members, [](const wire::Channel* way) { return way->is_wire(); }) - ways);
  // This process last, which is never busy: until then a frame for one other may wait for room.
  const wire::Channel* own = fabric_.neighbor(first_number());
  std::stable_partition(ways, ways + members, [own](const wire::Channel* way) { return way != own; });
  Segment segment = frame_segment(sender, bytes);
  for (uint32_t i = 0; i < members; i++) {
    Segment unused;
    if (i > 0) segment.flags |= wire::kRepeated;
    const SendResult result = ways[i]->send(segment, pieces, count, false, &unused);
    if (result == SendResult::kSourceFault) return result;
    // A slow process must not hold up several: its copy is dropped, as a switch does.
    if (result == SendResult::kBusy && i == 0 && (members == 1 || ways[1] == own)) return result;
  }
  if (port.outlet != nullptr && sender != 0 && !port.outlet->send(pieces, count))
    return SendResult::kSourceFault;
  return SendResult::kAccepted;
}

void Engine::take_outside_frame(const uint8_t* frame, uint32_t bytes) {
  if (bytes < kFrameBytesMin || bytes > kFrameBytesMax) return;
  const AccessScope scope;
  const wire::Piece piece{const_cast<uint8_t*>(frame), bytes};
  (void)spread_frame(kEthernetPort, 0, &piece, 1, bytes);
}

void QueuePair::take_frame(const ArrivedFrame& frame, uint32_t tag) {
  const bool multicast = frame.parsed.headers.is_multicast();
  if (multicast && spec_.deaf_to_itself && frame.sender == number_) return;
  responder_.take_frame(ShapedFrame(frame, spec_.frame_wishes, tag));
}

void Responder::take_frame(const ShapedFrame& frame) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!takes_frames(qp_.state()) || qp_.spec().port->down) return;
  message_ = Progress{};
  if (take_work(false) != Verdict::kDone) return;
  if (work_->capacity() < frame.bytes()) {
    receive_error(Status::kLocalLength, "the frame does not fit the receive request", 0);
    return;
  }
  if (const char* why = frame.store(receive_memory())) {
    receive_error(Status::kLocalProtection, why, 0);
    return;
  }
  count_message(frame.bytes());
  ReceiveCompletion completion;
  completion.index = work_->index;
  completion.opcode = Opcode::kSend;
  completion.bytes = frame.bytes();
  completion.frame = &frame.facts();
  complete(completion);
  message_ = Progress{};
}

}  // namespace verbatim::engine
