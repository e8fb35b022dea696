// SPDX-License-Identifier: MIT
#include "lib/rdmacm/memory_of_manager.h"

#include <rdma/rdma_cma.h>
#include <sys/uio.h>

namespace verbatim::rdmacm {

void MemoryOfManager::drain(int eventfd) {
  uint64_t one;
  iovec piece{&one, sizeof one};
  while (::preadv2(eventfd, &piece, 1, -1, RWF_NOWAIT) == sizeof one) {
  }
}

void MemoryOfManager::learn_of_testament(uint32_t id, const Answer& answer) {
  const auto found = ids_.find(id);
  if (found != ids_.end() && answer.testament.bytes > 0) found->second.testament = answer.testament;
}

void MemoryOfManager::forget_id(uint32_t id) {
  ids_.erase(id);
  std::erase_if(memberships_, [id](const auto& each) { return each.second.join.id == id; });
}

void MemoryOfManager::learn_of_event(const Request& request, const Answer& answer) {
  const agent::cm::Event& event = answer.event;
  switch (event.type) {
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      ids_[event.id] = {request.channel, 0, {}};
      break;
    default:
      break;
  }
  learn_of_testament(event.id, answer);
}

void MemoryOfManager::learn(const Request& request, const Answer& answer, int file) {
  switch (request.what) {
    case Do::kOpenChannel:
      channels_[answer.channel] = file;
      return;
    case Do::kCloseChannel:
      channels_.erase(request.channel);
      return;
    case Do::kGetEvent:
      return learn_of_event(request, answer);
    case Do::kCreateId:
      ids_[answer.id] = {request.channel, request.context, {}};
      return learn_of_testament(answer.id, answer);
    case Do::kDestroyId:
      return forget_id(request.id);
    case Do::kJoinMulticast:
      memberships_[answer.id] = {request, answer.id};
      return;
    case Do::kLeaveMulticast:
      std::erase_if(memberships_, [&](const auto& each) { return each.second.number == request.id; });
      return;
    case Do::kMigrate:
      ids_[request.id].channel = request.channel;
      break;
    case Do::kAccept:
      ids_[request.id].context = request.context;
      break;
    default:
      break;
  }
  learn_of_testament(request.id, answer);
}

void MemoryOfManager::translate(Request& request) const {
  if (request.what != Do::kLeaveMulticast) return;
  const auto found = memberships_.find(request.id);
  if (found != memberships_.end()) request.id = found->second.number;
}

bool MemoryOfManager::recall(uint32_t id, agent::cm::Testament& testament) const {
  const auto found = ids_.find(id);
  if (found == ids_.end() || found->second.testament.bytes == 0) return false;
  testament = found->second.testament;
  return true;
}

void MemoryOfManager::forget_all() {
  channels_.clear();
  ids_.clear();
  memberships_.clear();
}

}  // namespace verbatim::rdmacm
