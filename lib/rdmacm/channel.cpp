// SPDX-License-Identifier: MIT
// Event channels. What a program polls is an eventfd: a semaphore that the agent raises for each event.
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"

namespace verbatim::rdmacm {

void take_off(const Channel& channel, uint32_t count) {
  // Never waits, whatever the program has set: another thread may have been quicker.
  uint64_t one;
  iovec piece{&one, sizeof one};
  while (count-- > 0)
    if (::preadv2(channel.base.fd, &piece, 1, -1, RWF_NOWAIT) != sizeof one) return;
}

}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

rdma_event_channel* rdma_create_event_channel(void) {
  const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  const uint32_t number = open_channel(fd);
  if (number == 0) {
    const int error = errno;
    ::close(fd);
    return fail_pointer(error);
  }
  auto* channel = new Channel;
  channel->base.fd = fd;
  channel->number = number;
  return &channel->base;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  Request request{};
  request.what = Do::kCloseChannel;
  request.channel = Channel::of(channel)->number;
  Answer answer{};
  ask(request, answer);
  ::close(channel->fd);
  delete Channel::of(channel);
}

}  // extern "C"
