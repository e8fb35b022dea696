// SPDX-License-Identifier: MIT
// Completion channels.
#include "lib/ibverbs/channel.h"

#include <fcntl.h>
#include <poll.h>

#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/waiting.h"
#include "lib/ibverbs/waiting_in_place.h"

namespace verbatim::verbs {

void Context::on_completion(hw::Cq& device_cq) {
  auto* cq = static_cast<CompletionQueue*>(device_cq.owner);
  if (cq->cq.channel == nullptr) return;
  Channel::of(cq->cq.channel)->events.push({cq, &cq->completions_reported, 0});
}

namespace {

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

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
  Context* context = usable(channel->context);
  if (context == nullptr) return -1;
  context->hca->poll();
  EventQueue& events = Channel::of(channel)->events;
  Event event;
  int error = events.take_at_once(event);
  if (error == EAGAIN && blocks(events.fd())) {
    pollfd wanted{events.fd(), POLLIN, 0};
    while (context->opened->wait(&wanted, 1, -1) == 0) context->hca->poll();
    error = events.take(event);
  }
  if (error != 0) {
    errno = error;
    return -1;
  }
  *cq = &static_cast<CompletionQueue*>(event.subject)->cq;
  *cq_context = (*cq)->cq_context;
  return 0;
}

int verbatim_wait(ibv_context* public_context, pollfd* files, nfds_t count, int timeout_ms) {
  Context* context = usable(public_context);
  if (context == nullptr) return -1;
  return context->opened->wait(files, static_cast<uint32_t>(count), timeout_ms);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) {
  acknowledge(*cq, cq->comp_events_completed, nevents);
}

}  // extern "C"
