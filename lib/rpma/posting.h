// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rpma/log.h"
#include "lib/rpma/memory.h"

namespace verbatim::rpma {

/// Logs why a work request was not taken. RPMA_E_PROVIDER.
int fail_of_posting(const char* what, int error, std::source_location here = std::source_location::current());

inline int post(ibv_qp& qp, ibv_recv_wr& request) {
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(&qp, &request, &bad);
}
inline int post(ibv_srq& srq, ibv_recv_wr& request) {
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(&srq, &request, &bad);
}

/// A message longer than a work request can name.
inline int check_length(size_t bytes, std::source_location here = std::source_location::current()) {
  if (bytes <= UINT32_MAX) return 0;
  log_at(RPMA_LOG_LEVEL_ERROR, here, "{} bytes are more than an operation moves", bytes);
  return RPMA_E_INVAL;
}

/// Posts a receive to a queue pair or shared receive queue. `to`: null, with zeroes, for messages without
/// data.
template <class Queue>
int post_receive(Queue& queue, const rpma_mr_local* to, size_t offset, size_t bytes, const void* op_context,
                 std::source_location here = std::source_location::current()) {
  ibv_recv_wr request{};
  ibv_sge part{};
  request.wr_id = reinterpret_cast<uintptr_t>(op_context);
  if (to != nullptr) {
    if (const int result = check_length(bytes, here); result != 0) return result;
    part = part_of(*to, offset, bytes);
    request.sg_list = &part;
    request.num_sge = 1;
  } else if (offset != 0 || bytes != 0) {
    return fail_of_null("dst, and offset or len is not 0", here);
  }
  const int error = post(queue, request);
  return error == 0 ? 0 : fail_of_posting("a receive", error, here);
}

}  // namespace verbatim::rpma
