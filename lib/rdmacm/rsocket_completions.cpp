// SPDX-License-Identifier: MIT
// What the completions of a stream's queue pair say.
#include <endian.h>

#include "lib/rdmacm/rsocket_conduit.h"

namespace verbatim::rdmacm {
namespace {

// Receives and sends share a completion queue.
constexpr uint64_t kReceive = uint64_t{1} << 63;

}  // namespace

bool Conduit::post_receive() {
  ibv_recv_wr request{}, *refused = nullptr;
  request.wr_id = kReceive;
  const int error = ibv_post_recv(id_.qp, &request, &refused);
  if (error != 0) errno = error;
  return error == 0;
}

void Conduit::drain() {
  constexpr int kAtOnce = 16;
  give_room();
  ibv_wc completions[kAtOnce];
  int count;
  while ((count = ibv_poll_cq(cq_, kAtOnce, completions)) > 0) {
    ++edges_;
    fired_ = true;
    for (int i = 0; i < count; ++i) {
      if ((completions[i].wr_id & kReceive) != 0)
        take_receive(completions[i]);
      else
        take_send(completions[i]);
    }
  }
  if (count < 0) fail(EIO);
  give_room();
}

void Conduit::take_receive(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS || (completion.wc_flags & IBV_WC_WITH_IMM) == 0) return;
  take_message(be32toh(completion.imm_data));
  if (connected_ && !post_receive()) fail(errno);
}

void Conduit::take_message(uint32_t immediate) {
  const uint32_t value = value_of(immediate);
  switch (message_of(immediate)) {
    case StreamMessage::kData:
      take_data(value);
      break;
    case StreamMessage::kTargets:
      sendable_ = static_cast<uint16_t>(value);
      break;
    case StreamMessage::kMapping:
      // It is in the list already; the sender counts it.
      ++received_;
      break;
    case StreamMessage::kControl:
      take_control(static_cast<StreamControl>(value));
      break;
    case StreamMessage::kDirect:
    default:
      break;
  }
}

void Conduit::take_data(uint32_t bytes) {
  // A peer that has not kept to what it was given has overwritten what nobody has read.
  const uint32_t given = 2 * half_ - free_bytes_;
  if (bytes > given - received_bytes_ || arrived_.size() >= sizes_.receive_entries) return fail(EIO);
  if (bytes == 0) {
    ++received_;
    return;
  }
  received_bytes_ += bytes;
  arrived_.push_back(bytes);
}

void Conduit::take_control(StreamControl message) {
  if (message == StreamControl::kDisconnect) return disconnect();
  if (message != StreamControl::kShutdown) return;
  if (writable_)
    readable_ = false;
  else
    disconnect();
}

// With it have ended those before it.
void Conduit::take_send(const ibv_wc& completion) {
  const auto number = static_cast<uint32_t>(completion.wr_id);
  while (!unfinished_.empty() && static_cast<int32_t>(number - first_unfinished_) >= 0) {
    const uint32_t message = unfinished_.front();
    unfinished_.pop_front();
    ++first_unfinished_;
    finish(message);
  }
  if (completion.status != IBV_WC_SUCCESS && connected_) fail(EIO);
}

void Conduit::finish(uint32_t message) {
  switch (message_of(message)) {
    case StreamMessage::kControl:
      if (static_cast<StreamControl>(value_of(message)) == StreamControl::kDisconnect) disconnect();
      [[fallthrough]];
    case StreamMessage::kTargets:
      --controls_in_flight_;
      break;
    case StreamMessage::kMapping:
      --sends_in_flight_;
      send_free_ += sizeof(RemoteMapping);
      break;
    case StreamMessage::kData:
    case StreamMessage::kDirect:
      --sends_in_flight_;
      send_free_ += value_of(message);
      break;
    default:
      break;
  }
}

}  // namespace verbatim::rdmacm
