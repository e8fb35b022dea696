// SPDX-License-Identifier: MIT
// Completion channels.
#include "lib/ibverbs/channel.h"

#include <fcntl.h>

#include <new>

#include "base/restarting_signals.h"
#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/waiting.h"

namespace verbatim::verbs {

void Context::on_completion(hw::Cq& device_cq) {
  auto* cq = static_cast<CompletionQueue*>(device_cq.owner);
  if (cq->cq.channel == nullptr) return;
  Channel::of(cq->cq.channel)->events.push({cq, &cq->completions_reported, 0});
}

namespace {

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

// A thread that waits takes in what other hosts send itself, rather than be woken by who does. While there
// are events it does not look for more: an answer to what they tell of takes the acknowledgement along.
int take(Context& context, EventQueue& events, Event& event) {
  if (events.has_unread()) return events.take(event);
  context.hca->poll();
  if (blocks(events.fd()))
    while (context.opened->wait(events.fd()) == runtime::Waited::kInterrupted)
      if (!signals_restart_calls()) return EINTR;
  return events.take(event);
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* public_context) {
  if (usable(public_context) == nullptr) return nullptr;
  auto channel = std::unique_ptr<Channel>(new (std::nothrow) Channel);
  if (channel == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (const int error = channel->events.open()) {
    errno = error;
    return nullptr;
  }
  channel->base.context = public_context;
  channel->base.fd = channel->events.fd();
  return &channel.release()->base;
}

int ibv_destroy_comp_channel(ibv_comp_channel* public_channel) {
  Channel* channel = Channel::of(public_channel);
  ibv_context* context = public_channel->context;
  pthread_mutex_lock(&context->mutex);
  const bool busy = public_channel->refcnt != 0;
  pthread_mutex_unlock(&context->mutex);
  if (busy) {
    Context* owner = Context::of(context);
    return owner->abandoned ? EBUSY : refuse(*owner, EBUSY, "completion queues still use the channel");
  }
  delete channel;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  Context* context = still_there(channel->context);
  if (context == nullptr) return -1;
  Event event;
  if (const int error = take(*context, Channel::of(channel)->events, event)) {
    errno = error;
    return -1;
  }
  *cq = &static_cast<CompletionQueue*>(event.subject)->cq;
  *cq_context = (*cq)->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) {
  acknowledge(*cq, cq->comp_events_completed, nevents);
}

}  // extern "C"
