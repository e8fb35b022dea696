// SPDX-License-Identifier: MIT
// Multicast attachments of this process's queue pairs, and delivery to them.
#include <algorithm>
#include <cerrno>

#include "engine/engine.h"
#include "engine/queue_pair.h"

namespace verbatim::engine {

Outcome Engine::attach_multicast(QueuePair* qp, const Gid& group) {
  if (qp->type() != QpType::kUd)
    return Error{EINVAL, "only a UD queue pair can be attached to a multicast group"};
  if (!group.is_multicast()) return Error{EINVAL, "the GID is not a multicast GID"};
  std::lock_guard<std::mutex> hold(groups_lock_);
  for (const Attachment& entry : attachments_)
    if (entry.qp == qp && entry.group == group) return Done{};
  if (Outcome joined = host_.join(group); !joined) return joined;
  attachments_.push_back({group, qp});
  return Done{};
}

Outcome Engine::detach_multicast(QueuePair* qp, const Gid& group) {
  std::lock_guard<std::mutex> hold(groups_lock_);
  const auto found = std::find_if(attachments_.begin(), attachments_.end(), [&](const Attachment& entry) {
    return entry.qp == qp && entry.group == group;
  });
  if (found == attachments_.end()) return Error{EINVAL, "the queue pair is not attached to this group"};
  attachments_.erase(found);
  return host_.leave(group);
}

bool Engine::deliver_multicast(wire::Channel& from, const wire::Segment& segment, wire::Payload& payload) {
  if (segment.transport != wire::Transport::kUd) return false;
  std::vector<QueuePair*> listeners;
  {
    std::lock_guard<std::mutex> hold(groups_lock_);
    for (const Attachment& entry : attachments_)
      if (entry.group == segment.dest_gid) listeners.push_back(entry.qp);
  }
  for (QueuePair* qp : listeners)
    if (!qp->spec().deaf_to_itself || segment.src_qpn != qp->number())
      qp->responder().on_request(from, segment, payload, nullptr);
  return false;
}

}  // namespace verbatim::engine
