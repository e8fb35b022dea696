// SPDX-License-Identifier: MIT
// Extended polling: the entry is left where it is and read field by field. The queue is locked from
// start_poll to end_poll.
#include <cstring>
#include <ctime>

#include "lib/mlx5/completion.h"

namespace verbatim::mlx5 {
namespace {

using connectx::Cqe;

/// Steps to the next entry that belongs to a queue pair. False: there is none.
bool step(CompletionQueue& cq) {
  while (const Cqe* cqe = cq.written(cq.consumed)) {
    QueuePair* qp = nullptr;
    const uint64_t wr_id = take(cq, *cqe, qp);
    if (qp == nullptr) continue;
    const auto kind = static_cast<uint8_t>(cqe->opcode_owner >> 4);
    const bool failed = kind == connectx::kCqeRequestError || kind == connectx::kCqeReceiveError;
    cq.current = cqe;
    cq.current_qp = qp;
    cq.ex.wr_id = wr_id;
    cq.ex.status = failed            ? status_of(reinterpret_cast<const connectx::ErrorCqe*>(cqe)->syndrome)
                   : is_tagged(*cqe) ? cq.tag_status
                                     : IBV_WC_SUCCESS;
    return true;
  }
  return false;
}

int start_poll(ibv_cq_ex* public_cq, ibv_poll_cq_attr* attributes) {
  CompletionQueue& cq = CompletionQueue::of(public_cq);
  if (attributes->comp_mask != 0) return EINVAL;
  if (!cq.seems_written()) {
    cq.hca->poll();
    if (!cq.seems_written()) return ENOENT;
  }
  cq.note_poll();
  cq.lock.lock();
  if (step(cq)) return 0;
  cq.publish_consumed();
  cq.lock.unlock();
  return ENOENT;
}

int next_poll(ibv_cq_ex* public_cq) { return step(CompletionQueue::of(public_cq)) ? 0 : ENOENT; }

void end_poll(ibv_cq_ex* public_cq) {
  CompletionQueue& cq = CompletionQueue::of(public_cq);
  cq.publish_consumed();
  cq.lock.unlock();
}

const Cqe& current(ibv_cq_ex* cq) { return *CompletionQueue::of(cq).current; }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return opcode_of(CompletionQueue::of(cq), current(cq)); }
uint32_t read_vendor_err(ibv_cq_ex* cq) {
  const auto& error = reinterpret_cast<const connectx::ErrorCqe&>(current(cq));
  return cq->status == IBV_WC_SUCCESS || is_tagged(current(cq)) ? 0 : error.vendor_syndrome;
}
uint32_t read_byte_len(ibv_cq_ex* cq) { return bytes_of(current(cq)); }
// Invalidated keys are read through the same call, in host order.
__be32 read_imm_data(ibv_cq_ex* cq) {
  const Cqe& cqe = current(cq);
  if (cqe.opcode_owner >> 4 == connectx::kCqeSendInvalidate) return cqe.immediate;
  return cqe.immediate.raw();
}
uint32_t read_qp_num(ibv_cq_ex* cq) { return CompletionQueue::of(cq).current_qp->number_in(current(cq)); }
uint32_t read_src_qp(ibv_cq_ex* cq) { return current(cq).flags_rqpn & 0xffffff; }
unsigned int read_wc_flags(ibv_cq_ex* cq) { return wc_flags_of(CompletionQueue::of(cq), current(cq)); }
uint32_t read_slid(ibv_cq_ex* cq) { return current(cq).slid; }
uint8_t read_sl(ibv_cq_ex* cq) { return current(cq).flags_rqpn >> 24 & 0xf; }
uint8_t read_dlid_path_bits(ibv_cq_ex* /*cq*/) { return 0; }
uint64_t read_completion_ts(ibv_cq_ex* cq) { return current(cq).timestamp; }
uint16_t read_cvlan(ibv_cq_ex* cq) {
  const uint32_t frame = current(cq).frame;
  return (frame & connectx::kFrameVlanStripped) != 0 ? static_cast<uint16_t>(frame) : 0;
}
uint32_t read_flow_tag(ibv_cq_ex* cq) {
  const Cqe& cqe = current(cq);
  // Those of other types have the number of their queue pair there, and no tag.
  const bool tagged = CompletionQueue::of(cq).current_qp->frames;
  return tagged && is_receive(static_cast<uint8_t>(cqe.opcode_owner >> 4)) ? cqe.opcode_qpn & 0xffffff : 0;
}

void read_tm_info(ibv_cq_ex* cq, ibv_wc_tm_info* info) {
  connectx::TagHeader header;
  std::memcpy(static_cast<void*>(&header), current(cq).head, sizeof header);
  *info = {header.tag, header.context};
}

// Where the entry does not tell it: the device's clock and the wall clock, read together now, give the
// distance to the moment of the completion.
uint64_t read_completion_wallclock_ns(ibv_cq_ex* public_cq) {
  const CompletionQueue& cq = CompletionQueue::of(public_cq);
  const uint64_t entry = cq.current->timestamp;
  if (cq.real_time) return (entry >> 32) * 1'000'000'000u + (entry & 0xffffffff);
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const uint64_t age_ticks = cq.hca->hardware_clock() - entry;
  const uint64_t now_ns =
      static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(wall.tv_nsec);
  return now_ns -
         static_cast<uint64_t>(static_cast<double>(age_ticks) * 1e6 / static_cast<double>(cq.clock_khz));
}

}  // namespace

void install_extended_polling(CompletionQueue& cq) {
  ibv_cq_ex& ex = cq.ex;
  ex.start_poll = start_poll;
  ex.next_poll = next_poll;
  ex.end_poll = end_poll;
  ex.read_opcode = read_opcode;
  ex.read_vendor_err = read_vendor_err;
  ex.read_byte_len = read_byte_len;
  ex.read_imm_data = read_imm_data;
  ex.read_qp_num = read_qp_num;
  ex.read_src_qp = read_src_qp;
  ex.read_wc_flags = read_wc_flags;
  ex.read_slid = read_slid;
  ex.read_sl = read_sl;
  ex.read_dlid_path_bits = read_dlid_path_bits;
  ex.read_completion_ts = read_completion_ts;
  ex.read_cvlan = read_cvlan;
  ex.read_flow_tag = read_flow_tag;
  ex.read_tm_info = read_tm_info;
  ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace verbatim::mlx5
