// SPDX-License-Identifier: MIT
#include "device/connectx/objects.h"

#include <cerrno>

#include "device/connectx/bsf.h"
#include "engine/frame_checksums.h"

namespace verbatim::connectx {

namespace {

uint8_t cqe_opcode(engine::Opcode opcode) {
  switch (opcode) {
    case engine::Opcode::kWriteImmediate:
      return kCqeWriteImmediate;
    case engine::Opcode::kSendImmediate:
      return kCqeSendImmediate;
    case engine::Opcode::kSendInvalidate:
      return kCqeSendInvalidate;
    case engine::Opcode::kSend:
    case engine::Opcode::kSegmentedSend:
    case engine::Opcode::kWrite:
    case engine::Opcode::kRead:
    case engine::Opcode::kCompareSwap:
    case engine::Opcode::kFetchAdd:
    case engine::Opcode::kAtomicWrite:
    case engine::Opcode::kFlush:
    case engine::Opcode::kNop:
    case engine::Opcode::kKeyUpdate:
    case engine::Opcode::kSignatureValue:
    case engine::Opcode::kMemoryCopy:
    case engine::Opcode::kTagList:
      return kCqeSend;
  }
  return kCqeSend;
}

/// Cqe::frame
uint32_t frame_word(const engine::FrameFacts& facts) {
  uint32_t word = 0;
  if ((facts.right_checksums & engine::kNetworkChecksum) != 0) word |= kFrameNetworkRight;
  if ((facts.right_checksums & engine::kTransportChecksum) != 0) word |= kFrameTransportRight;
  if (facts.network != 0) word |= (facts.network == 4 ? kFrameIpv4 : kFrameIpv6) << kFrameNetworkShift;
  if (facts.transport != 0)
    word |= (facts.transport == engine::kProtocolTcp ? kFrameTcp : kFrameUdp) << kFrameTransportShift;
  if (facts.stripped) word |= kFrameVlanStripped | facts.vlan;
  return word;
}

bool has_head(const engine::FrameFacts& facts) {
  return facts.hash != 0 || facts.tunnel != 0 || facts.strided;
}

FrameHead frame_head(const engine::FrameFacts& facts) {
  FrameHead head{};
  if (facts.tunnel != 0) head.tunnel = kFrameInTunnel;
  if (facts.tunnel == 6) head.tunnel |= kFrameTunnelIpv6;
  head.entry = facts.entry;
  head.hash = facts.hash;
  return head;
}

}  // namespace

void push_receive(CompletionRing& ring, const engine::ReceiveCompletion& done, uint32_t user_index,
                  uint32_t application) {
  if (done.status != engine::Status::kSuccess) {
    ring.push_error(kCqeReceiveError, done.status, done.vendor_detail, done.qpn, user_index,
                    static_cast<uint16_t>(done.index));
    return;
  }
  CompletionRing::Received cqe;
  cqe.cqe_opcode = cqe_opcode(done.opcode);
  cqe.solicited = done.solicited;
  // On a RoCE port the service level field of a datagram's entry tells which network header lies in front.
  const uint32_t header = done.is_ipv4 ? kL3Ipv4 : kL3Ipv6;
  const bool header_told = done.has_grh && done.source_lid == 0;
  cqe.flags_rqpn = (done.has_grh ? 1u << 28 : 0) | done.src_qpn |
                   (header_told ? header : static_cast<uint32_t>(done.service_level & 0xf)) << 24;
  cqe.slid = done.source_lid;
  cqe.user_index = user_index;
  cqe.immediate_raw =
      done.opcode == engine::Opcode::kSendInvalidate ? Be32(done.immediate).raw() : done.immediate;
  cqe.bytes = done.bytes;
  cqe.qpn = done.frame ? done.frame->tag : done.qpn;
  cqe.counter = static_cast<uint16_t>(done.index);
  FrameHead head;
  if (done.frame) {
    cqe.frame = frame_word(*done.frame);
    cqe.hash_kind = done.frame->hash_kind;
    if (has_head(*done.frame)) {
      head = frame_head(*done.frame);
      cqe.head = &head;
    }
  }
  cqe.application = application;
  ring.push_receive(cqe);
}

Outcome CqObject::idle() {
  const std::lock_guard hold(lock);
  if (!users.empty()) return Error{EBUSY, "queue pairs still complete into the completion queue"};
  if (work_queues != 0) return Error{EBUSY, "work queues still complete into the completion queue"};
  return Done{};
}

// Completions were lost: queue pairs cannot be trusted any more.
void CqObject::fail_users() {
  const std::lock_guard hold(lock);
  for (QpObject* qp : users)
    if (!qp->ending && qp->queue_pair->state() != hw::QpState::kError)
      qp->queue_pair->fail(hw::AsyncEvent::kQpFatal, "its completion queue overran: completions were lost");
}

QpObject::QpObject(const hw::QpSpec& s, hw::EventSink& event_sink)
    : type(s.type),
      pd(static_cast<PdObject*>(s.pd)),
      srq(static_cast<SrqObject*>(s.srq)),
      user_index(s.user_index),
      xrcd(s.xrcd),
      access_key(s.access_key),
      send_entries(s.send.entries),
      receive_entries(s.receive.entries),
      receive_stride(s.receive.stride),
      sink(event_sink),
      send_cq(static_cast<CqObject*>(s.send_cq)),
      receive_cq(static_cast<CqObject*>(s.receive_cq)),
      send(s.send, s.doorbell, s.type, send_cq ? &send_cq->ring : nullptr, s.user_index),
      receive(s.receive, s.doorbell) {
  owner = s.owner;
}

void QpObject::complete(const engine::ReceiveCompletion& done) {
  if (OperationCounters* each = receive_counters.load(std::memory_order_acquire)) [[unlikely]]
    each->count(hw::kCountReceives, done.status == engine::Status::kSuccess, done.bytes);
  push_receive(receive_cq->ring, done, user_index);
}

void QpObject::on_remote(engine::Opcode opcode, bool succeeded, uint64_t bytes) {
  const bool read = opcode == engine::Opcode::kRead;
  if (OperationCounters* each = receive_counters.load(std::memory_order_acquire))
    each->count(read ? hw::kCountRemoteReads : hw::kCountRemoteWrites, succeeded, bytes);
}

Outcome QpObject::attach(CounterObject& counter, uint32_t operations) {
  if (!counters) counters = std::make_unique<OperationCounters>();
  const Outcome attached = counters->attach(counter, operations);
  send.set_counters(*counters);
  receive_counters.store(counters.get(), std::memory_order_release);
  return attached;
}

void SrqObject::complete(const engine::ReceiveCompletion& done) { push_receive(cq->ring, done, user_index); }

void SrqObject::on_key_error(uint32_t key, engine::DataTransform& transform) {
  if (const auto fault = take_fault(transform)) cq->ring.push_signature_error(key, *fault);
}

void QpObject::on_key_error(uint32_t key, engine::DataTransform& transform) {
  if (!receive_cq) return;
  if (const auto fault = take_fault(transform)) receive_cq->ring.push_signature_error(key, *fault);
}

}  // namespace verbatim::connectx
