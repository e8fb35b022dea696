// SPDX-License-Identifier: MIT
#include "lib/mlx5/tag_list.h"

#include <cstring>
#include <new>

#include "lib/mlx5/completion.h"
#include "lib/mlx5/send_entry.h"

namespace verbatim::mlx5 {

using connectx::Cqe;
using connectx::TagSegment;

namespace {

constexpr uint16_t kUntoldMax = 0x3fff;  ///< unexpected messages before the device should be told
constexpr uint32_t kUnits = 4;           ///< of a change: control, tag, buffer

/// Of an endpoint that talks to nobody but itself, and has nothing to say.
int connect_to_itself(QueuePair& qp) {
  hw::QpAttributes a;
  const hw::PortState port = qp.hca->port();
  a.state = hw::QpState::kInit;
  a.port = 1;
  constexpr uint32_t kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = modify_qp(qp, a, kInit)) return error;
  a.state = hw::QpState::kRtr;
  a.path.dgid = qp.hca->gid(0).gid;
  a.path.is_global = !port.is_infiniband();
  a.path.dlid = port.lid;
  a.dest_qpn = qp.number;
  constexpr uint32_t kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int error = modify_qp(qp, a, kRtr)) return error;
  a.state = hw::QpState::kRts;
  constexpr uint32_t kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify_qp(qp, a, kRts);
}

unsigned int flags_of(uint8_t event) {
  switch (event) {
    case connectx::kTagConsumed:
      return IBV_WC_TM_MATCH;
    case connectx::kTagDataPlaced:
      return IBV_WC_TM_DATA_VALID;
    default:
      return IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
  }
}

}  // namespace

std::unique_ptr<TagList> TagList::make(uint32_t entries) {
  auto made = std::unique_ptr<TagList>(new (std::nothrow) TagList);
  if (made == nullptr) return nullptr;
  made->count_ = entries + 1;
  made->entries_.reset(new (std::nothrow) Entry[made->count_]);
  if (made->entries_ == nullptr) return nullptr;
  for (uint32_t i = 0; i < entries; i++) made->entries_[i].next = i + 1;
  made->free_last_ = entries;
  return made;
}

TagList::~TagList() {
  if (commands_ != nullptr) free_qp(*commands_);
}

int TagList::open(verbs::ProtectionDomain& domain, ibv_srq& srq, ibv_cq& cq, uint32_t operations) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = &cq;
  wanted.srq = &srq;
  wanted.pd = &domain.base;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.cap = {operations, 0, 1, 0, 0};
  verbs::QueuePair* made = create_qp(*domain.context, wanted, nullptr);
  if (made == nullptr) return errno;
  commands_ = static_cast<QueuePair*>(made);
  commands_->context = domain.context;
  commands_->serves = verbs::SharedReceiveQueue::of(&srq);
  commands_->qp.qp_type = IBV_QPT_RC;
  commands_->qp.send_cq = commands_->qp.recv_cq = &cq;
  if (const int error = connect_to_itself(*commands_)) {
    static_cast<void>(close());
    return error;
  }
  return 0;
}

int TagList::close() {
  if (commands_ == nullptr) return 0;
  if (const int error = destroy_qp(*commands_)) return error;
  free_qp(*commands_);
  commands_ = nullptr;
  return 0;
}

void TagList::release(uint32_t index) {
  if (index >= count_ || entries_[index].completions == 0 || --entries_[index].completions != 0) return;
  entries_[free_last_].next = index;
  free_last_ = index;
}

int TagList::append(ibv_ops_wr& wr, TagSegment& segment) {
  if (free_first_ == free_last_) return ENOMEM;
  if (wr.tm.add.num_sge < 0 || wr.tm.add.num_sge > 1) return EINVAL;
  const uint32_t index = free_first_;
  Entry& entry = entries_[index];
  free_first_ = entry.next;
  entry.wr_id = wr.tm.add.recv_wr_id;
  entry.handled = handled_;
  entry.completions = (wr.flags & IBV_OPS_SIGNALED) != 0 ? 2 : 1;
  wr.tm.handle = index;
  segment.operation = connectx::kTagAppend << 4;
  segment.index = static_cast<uint16_t>(free_first_);
  segment.tag = wr.tm.add.tag;
  segment.mask = wr.tm.add.mask;
  return 0;
}

int TagList::write(ibv_ops_wr& wr, uint32_t waiting) {
  QueuePair& qp = *commands_;
  if (qp.send_full(waiting)) return ENOMEM;
  TagSegment segment;
  std::memset(static_cast<void*>(&segment), 0, sizeof segment);
  const bool signaled = (wr.flags & IBV_OPS_SIGNALED) != 0;
  if (signaled) segment.flags |= connectx::kTagCompletion;
  const uint16_t before = handled_;
  if ((wr.flags & IBV_OPS_TM_SYNC) != 0) {
    segment.flags |= connectx::kTagHandledGiven;
    segment.handled = handled_ = static_cast<uint16_t>(wr.tm.unexpected_cnt);
  }
  int error = 0;
  if (wr.opcode == IBV_WR_TAG_ADD) {
    error = append(wr, segment);
  } else if (wr.opcode == IBV_WR_TAG_DEL) {
    if (wr.tm.handle >= count_ || entries_[wr.tm.handle].completions == 0) error = EINVAL;
    segment.operation = connectx::kTagRemove << 4;
    segment.index = static_cast<uint16_t>(wr.tm.handle);
  } else if (wr.opcode != IBV_WR_TAG_SYNC) {
    error = EINVAL;
  }
  if (error != 0) {
    handled_ = before;
    return error;
  }
  std::byte* const start = qp.block_at(qp.block);
  std::byte* at = advance(qp, start, sizeof(connectx::ControlSegment));
  std::memcpy(static_cast<void*>(at), &segment, sizeof segment);
  const bool buffer = wr.opcode == IBV_WR_TAG_ADD && wr.tm.add.num_sge == 1 && wr.tm.add.sg_list->length != 0;
  const ibv_sge& sge = buffer ? *wr.tm.add.sg_list : ibv_sge{0, 0, connectx::kInvalidKey};
  write_data(qp, advance(qp, at, sizeof segment), sge.addr, sge.length, sge.lkey);
  write_control(qp, start, connectx::kOpTagMatching, 0, 0);
  qp.slots[qp.block & (qp.blocks - 1)] = {wr.wr_id, qp.head + waiting + 1, 0};
  finish_entry(qp, kUnits);
  if (wr.opcode != IBV_WR_TAG_DEL) return 0;
  // Without a completion of its own the request ends the wait for the message.
  if (signaled)
    entries_[wr.tm.handle].completions++;
  else
    release(wr.tm.handle);
  return 0;
}

uint64_t TagList::complete_change(const Cqe& cqe, CompletionQueue& cq) {
  const uint32_t word = cqe.application;
  const uint32_t index = word & 0xffff;
  const auto event = static_cast<uint8_t>(word >> 16);
  connectx::TagResult result;
  std::memcpy(static_cast<void*>(&result), cqe.head, sizeof result);
  QueuePair& qp = *commands_;
  const SendSlot& slot = qp.slots[cqe.wqe_counter & (qp.blocks - 1)];
  qp.tail.store(slot.completed, std::memory_order_release);
  cq.special = IBV_WC_TM_SYNC;
  if (event == connectx::kTagNothingDone || index >= count_) return slot.wr_id;
  const bool done = (result.success & connectx::kTagSuccess) != 0;
  const bool removes = event == connectx::kTagRemoved;
  cq.special = removes ? IBV_WC_TM_DEL : IBV_WC_TM_ADD;
  if (!done) cq.tag_status = IBV_WC_TM_ERR;
  if (result.unexpected != entries_[index].handled) cq.tag_flags |= IBV_WC_TM_SYNC_REQ;
  release(index);
  if (removes && done) release(index);  // no message is going to come for it
  return slot.wr_id;
}

uint64_t TagList::complete(const Cqe& cqe, CompletionQueue& cq) {
  const uint32_t word = cqe.application;
  const auto event = static_cast<uint8_t>(word >> 16);
  if (event == connectx::kTagAppended || event == connectx::kTagRemoved || event == connectx::kTagNothingDone)
    return complete_change(cqe, cq);
  const uint32_t index = word & 0xffff;
  cq.special = IBV_WC_TM_RECV;
  if (index >= count_ || entries_[index].completions == 0) {
    cq.tag_status = IBV_WC_GENERAL_ERR;
    return 0;
  }
  const uint64_t wr_id = entries_[index].wr_id;
  cq.tag_flags = flags_of(event);
  if (event == connectx::kTagConsumedForProgram || event == connectx::kTagCanceled)
    cq.tag_status = IBV_WC_TM_RNDV_INCOMPLETE;
  if (event != connectx::kTagConsumed) release(index);
  return wr_id;
}

bool TagList::note_unexpected() {
  found_++;
  return static_cast<uint16_t>(found_ - handled_) > kUntoldMax;
}

uint64_t take_tagged(CompletionQueue& cq, const Cqe& cqe, SharedReceiveQueue& srq) {
  cq.tag_flags = 0;
  cq.tag_status = IBV_WC_SUCCESS;
  const auto event = static_cast<uint8_t>(uint32_t{cqe.application} >> 16);
  if (event != connectx::kTagUnexpected && event != connectx::kTagNoTag) {
    const std::lock_guard guard(srq.lock);
    return srq.tags->complete(cqe, cq);
  }
  cq.special = event == connectx::kTagNoTag ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV;
  const uint32_t entry = cqe.wqe_counter & (srq.entries - 1);
  const uint64_t wr_id = srq.ids[entry];
  srq.release(entry);
  const std::lock_guard guard(srq.lock);
  if (event == connectx::kTagUnexpected && srq.tags->note_unexpected()) cq.tag_flags = IBV_WC_TM_SYNC_REQ;
  return wr_id;
}

int post_srq_ops(ibv_srq* public_srq, ibv_ops_wr* wr, ibv_ops_wr** bad_wr) {
  SharedReceiveQueue& srq = SharedReceiveQueue::of(public_srq);
  *bad_wr = wr;
  if (srq.context->abandoned) return EIO;
  if (srq.tags == nullptr) return EINVAL;
  QueuePair& qp = srq.tags->commands();
  uint32_t posted = 0;
  int error = 0;
  {
    const std::scoped_lock guard(srq.lock, qp.send_lock);
    for (; wr != nullptr && error == 0; wr = wr->next) {
      error = srq.tags->write(*wr, posted);
      if (error != 0)
        *bad_wr = wr;
      else
        posted++;
    }
    if (posted != 0) {
      qp.head += posted;
      qp.publish_send();
    }
  }
  if (posted != 0) qp.hca->ring_send(qp.device);
  return error;
}

}  // namespace verbatim::mlx5
