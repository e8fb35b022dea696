// SPDX-License-Identifier: MIT
// Ethernet frames of raw packet queue pairs: the port is one of a switch in this host. Processes with rules
// (steering.h) are members of a group; a sender hands its frame to all of them, and each looks at its own
// rules. A frame that no rule wants vanishes.
#include <algorithm>
#include <mutex>

#include "base/fault_copy.h"
#include "engine/elements.h"
#include "engine/engine.h"
#include "engine/frame_checksums.h"
#include "engine/message.h"
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

}  // namespace

Expected<uint32_t> Engine::add_flow(QueuePair* qp, const FlowRule& rule) {
  if (qp->type() != QpType::kRaw)
    return Error{EOPNOTSUPP, "rules steer to raw packet queue pairs; datagrams find theirs by number"};
  if (Outcome joined = host_.join(kFrameGroup); !joined) return joined.error();
  return steering_.add(qp, rule);
}

Outcome Engine::remove_flow(uint32_t number) {
  if (!steering_.remove(number)) return Error{EINVAL, "there is no such rule"};
  return host_.leave(kFrameGroup);
}

void Engine::forget_flows(const QueuePair* qp) {
  if (qp->type() != QpType::kRaw) return;
  for (uint32_t left = steering_.forget(qp); left > 0; left--) (void)host_.leave(kFrameGroup);
}

bool Engine::deliver_frame(const Segment& segment, wire::Payload& payload) {
  if (segment.length < kFrameBytesMin || segment.length > kFrameBytesMax) return false;
  alignas(8) uint8_t frame[kFrameBytesMax];
  const wire::Piece all{frame, segment.length};
  if (payload.copy_to(0, &all, 1) != wire::CopyResult::kDone) return false;
  const ParsedFrame parsed = parse_frame(frame, segment.length);
  FrameFacts facts{parsed.headers.network, parsed.headers.transport, 0, 0};
  const std::vector<Steering::Target> targets = steering_.match(parsed.headers);
  if (targets.empty()) return false;
  facts.right_checksums = right_checksums(frame, parsed);
  const bool multicast = parsed.headers.is_multicast();
  for (const auto& [qp, tag] : targets) {
    if (multicast && qp->spec().deaf_to_itself && segment.src_qpn == qp->number()) continue;
    facts.tag = tag;
    qp->responder().take_frame(frame, segment.length, facts);
  }
  return false;
}

void Responder::take_frame(const uint8_t* frame, uint32_t bytes, const FrameFacts& facts) {
  std::lock_guard<SpinLock> hold(lock_);
  if (!takes_frames(qp_.state()) || qp_.spec().port->down) return;
  count_arrived_frame(bytes);
  message_ = Progress{};
  if (take_work(false) != Verdict::kDone) return;
  if (work_->capacity() < bytes) {
    receive_error(Status::kLocalLength, "the frame does not fit the receive request", 0);
    return;
  }
  if (const char* why = receive_memory().store(0, frame, bytes, true)) {
    receive_error(Status::kLocalProtection, why, 0);
    return;
  }
  count_message(bytes);
  ReceiveCompletion completion;
  completion.index = work_->index;
  completion.opcode = Opcode::kSend;
  completion.bytes = bytes;
  completion.frame = &facts;
  complete(completion);
  message_ = Progress{};
}

// Copies the frame together where it is not one piece, or has to change.
const char* Requester::stage_frame(const Message& message, Window& window, uint8_t* buffer) const {
  const uint8_t checksums = message.work.checksums;
  if (message.scattered) {
    if (const char* why = gather_datagram(message, window, buffer)) return why;
  } else {
    window.count = message.count;
    std::copy_n(message.pieces, message.count, window.pieces);
  }
  if (checksums == 0) return nullptr;
  uint8_t* to = buffer;
  for (uint32_t i = 0; i < window.count; to += window.pieces[i].length, i++)
    if (window.pieces[i].base != to && !fault_copy(to, window.pieces[i].base, window.pieces[i].length))
      return "memory of the work request is not mapped";
  write_checksums(buffer, message.length, checksums);
  window.count = 1;
  window.pieces[0] = {buffer, message.length};
  return nullptr;
}

Requester::Step Requester::send_frame(Message& message) {
  const auto fail = [&](Status status, const char* why) {
    return fail_local(message.index, message.next_index, message.work, status, why);
  };
  if (message.length < kFrameBytesMin)
    return fail(Status::kLocalLength, "the frame is shorter than an Ethernet header of 14 bytes");
  Window window;
  uint8_t buffer[kFrameBytesMax];
  if (const char* why = stage_frame(message, window, buffer)) return fail(Status::kLocalProtection, why);

  wire::Fabric& fabric = engine_.fabric();
  wire::Channel* ways[kMembersMax];
  uint32_t count = qp_.spec().port->down ? 0 : fabric.multicast(kFrameGroup, ways, kMembersMax);
  count = static_cast<uint32_t>(
      std::remove_if(ways, ways + count, [](const wire::Channel* way) { return way->is_wire(); }) - ways);
  // This process last, which is never busy: until then a frame for one other may wait for room.
  std::stable_partition(ways, ways + count, [own = fabric.neighbor(qp_.number())](const wire::Channel* way) {
    return way != own;
  });
  Segment segment = frame_segment(qp_.number(), message.length);
  for (uint32_t i = 0; i < count; i++) {
    Segment unused;
    const uint32_t room = engine_.room_epoch();
    if (i > 0) segment.flags |= wire::kRepeated;
    const SendResult result = ways[i]->send(segment, window.pieces, window.count, false, &unused);
    if (result == SendResult::kSourceFault)
      return fail(Status::kLocalProtection, "memory of the work request is not mapped");
    // A slow process must not hold up several: its copy is dropped, as a switch does.
    if (result == SendResult::kBusy && i == 0 && (count == 1 || ways[1] == fabric.neighbor(qp_.number()))) {
      engine_.wait_for_room(qp_, room);
      return Step::kStop;
    }
  }
  count_sent_frame(message.length);
  charge(message.length);
  return after_message(message);
}

}  // namespace verbatim::engine
