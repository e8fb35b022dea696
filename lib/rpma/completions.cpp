// SPDX-License-Identifier: MIT
// Completion queues.
#include "lib/rpma/completions.h"

#include "lib/rpma/log.h"
#include "lib/rpma/settings.h"

using namespace verbatim::rpma;

namespace verbatim::rpma {

int next_event(ibv_comp_channel* channel, ibv_cq*& of) {
  void* context = nullptr;
  if (ibv_get_cq_event(channel, &of, &context) != 0) {
    log(RPMA_LOG_LEVEL_DEBUG, "no completion event: {}", std::strerror(errno));
    return RPMA_E_NO_COMPLETION;
  }
  ibv_ack_cq_events(of, 1);
  const int error = ibv_req_notify_cq(of, 0);
  return error == 0 ? 0 : fail_of_provider("ibv_req_notify_cq", error);
}

}  // namespace verbatim::rpma

int rpma_cq::make(ibv_context* verbs, uint32_t entries, ibv_comp_channel* shared,
                  std::unique_ptr<rpma_cq>& to) {
  std::unique_ptr<rpma_cq> cq(new (std::nothrow) rpma_cq);
  if (cq == nullptr) return fail_of_memory();
  cq->shares_channel = shared != nullptr;
  cq->channel = shared != nullptr ? shared : ibv_create_comp_channel(verbs);
  if (cq->channel == nullptr) return fail_of_provider("ibv_create_comp_channel", errno);
  cq->queue = ibv_create_cq(verbs, as_entries(entries), nullptr, cq->channel, 0);
  if (cq->queue == nullptr) {
    const int error = errno;
    log(RPMA_LOG_LEVEL_ERROR, "a completion queue of {} entries cannot be had", entries);
    return fail_of_provider("ibv_create_cq", error);
  }
  if (const int error = ibv_req_notify_cq(cq->queue, 0); error != 0)
    return fail_of_provider("ibv_req_notify_cq", error);
  to = std::move(cq);
  return 0;
}

int rpma_cq::close() {
  int result = 0;
  if (queue != nullptr)
    if (const int error = ibv_destroy_cq(queue); error != 0)
      result = fail_of_provider("ibv_destroy_cq", error);
  if (channel != nullptr && !shares_channel)
    if (const int error = ibv_destroy_comp_channel(channel); error != 0)
      keep_first(result, fail_of_provider("ibv_destroy_comp_channel", error));
  queue = nullptr;
  channel = nullptr;
  return result;
}

extern "C" {

int rpma_cq_get_fd(const rpma_cq* cq, int* fd) {
  if (cq == nullptr || fd == nullptr) return fail_of_null("cq or fd");
  *fd = cq->channel->fd;
  return 0;
}

int rpma_cq_wait(rpma_cq* cq) {
  if (cq == nullptr) return fail_of_null("cq");
  if (cq->shares_channel)
    return fail(RPMA_E_SHARED_CHANNEL, "the queue's channel is shared: wait with rpma_conn_wait");
  ibv_cq* of = nullptr;
  return next_event(cq->channel, of);
}

int rpma_cq_get_wc(rpma_cq* cq, int num_entries, ibv_wc* wc, int* num_entries_got) {
  if (cq == nullptr || wc == nullptr) return fail_of_null("cq or wc");
  if (num_entries < 1) return fail(RPMA_E_INVAL, "{} entries cannot be collected", num_entries);
  if (num_entries > 1 && num_entries_got == nullptr)
    return fail(RPMA_E_INVAL, "num_entries_got is null where up to {} entries may be collected", num_entries);
  const int got = ibv_poll_cq(cq->queue, num_entries, wc);
  if (got == 0) {
    log(RPMA_LOG_LEVEL_DEBUG, "no completion waits");
    return RPMA_E_NO_COMPLETION;
  }
  if (got < 0)
    return fail(RPMA_E_PROVIDER, "ibv_poll_cq failed: the queue has overrun or its device is gone");
  if (got > num_entries) return fail(RPMA_E_UNKNOWN, "ibv_poll_cq gave {} entries of {}", got, num_entries);
  if (num_entries_got != nullptr) *num_entries_got = got;
  return 0;
}

}  // extern "C"
