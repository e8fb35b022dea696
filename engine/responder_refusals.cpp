// SPDX-License-Identifier: MIT
// The responder's refusals: requests that cannot be carried out, and what becomes of the queue pair then.
#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

using wire::CopyResult;

Responder::Verdict Responder::copy_refused(CopyResult result) {
  // The receive request is kept for when the message comes again, or for the flush that follows.
  work_held_ = message_.has_work;
  switch (result) {
    case CopyResult::kSourceFault:
      message_ = Progress{};
      return refuse(wire::kNakSourceFault, nullptr);
    case CopyResult::kForbidden:
      message_ = Progress{};
      return refuse(wire::kNakCannotPull, nullptr);
    case CopyResult::kDone:
    case CopyResult::kDestinationFault:
      break;
  }
  work_held_ = false;
  if (message_.is_write)
    return refuse(wire::kNakRemoteAccess, "the memory that was to be written is not mapped");
  return receive_error(Status::kLocalProtection, "memory of the receive request is not mapped",
                       wire::kNakRemoteOperational);
}

Responder::Verdict Responder::refuse(uint8_t syndrome, const char* why) {
  if (!reliable_) {
    if (why) engine_.explain(qp_.number(), static_cast<int>(Status::kRemoteAccess), due_psn_, why);
    drop_message();
    return Verdict::kDropped;
  }
  nak_sent_ = true;
  ack_due_ = true;
  due_syndrome_ = syndrome;
  if (!why) return Verdict::kRefused;
  if (message_.active && message_.is_write) tell_of_write(false);
  if (syndrome == wire::kNakRemoteAccess) qp_.count(PortCount::kAccessRefused);
  engine_.explain(qp_.number(),
                  syndrome == wire::kNakRemoteAccess ? static_cast<int>(Status::kRemoteAccess)
                                                     : static_cast<int>(Status::kRemoteInvalidRequest),
                  due_psn_, why);
  if (qp_.spec().events && !dynamic_)
    qp_.spec().events->on_event(syndrome == wire::kNakRemoteAccess ? AsyncEvent::kQpAccessError
                                                                   : AsyncEvent::kQpRequestError);
  work_held_ |= message_.has_work;
  message_ = Progress{};
  break_off();
  return Verdict::kRefused;
}

// The queue pair fails. A DC target lives on, and what else comes from the initiator on this connection is
// dropped.
void Responder::break_off() {
  if (dynamic_) return abort_receive();
  qp_.enter_error();
  flush();
}

// A receive request was taken for a message that will not end.
void Responder::abort_receive() {
  if (message_.has_work || work_held_) {
    ReceiveCompletion completion;
    completion.index = work_->index;
    completion.status = Status::kRemoteAborted;
    completion.src_qpn = peer_qpn_;
    complete(completion);
  }
  message_ = Progress{};
  work_held_ = false;
}

Responder::Verdict Responder::receive_error(Status status, const char* why, uint8_t syndrome) {
  engine_.explain(qp_.number(), static_cast<int>(status), work_->index, why);
  ReceiveCompletion completion;
  completion.index = work_->index;
  completion.status = status;
  completion.src_qpn = peer_qpn_;
  complete(completion);
  message_ = Progress{};
  nak_sent_ = true;
  if (reliable_) {
    ack_due_ = true;
    due_syndrome_ = syndrome;
  }
  break_off();
  return Verdict::kRefused;
}

}  // namespace verbatim::engine
