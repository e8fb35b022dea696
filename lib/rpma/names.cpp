// SPDX-License-Identifier: MIT
// Errors and events in words.
#include "lib/rpma/public.h"

extern "C" {

const char* rpma_err_2str(int ret) {
  switch (ret) {
    case 0:
      return "success";
    case RPMA_E_NOSUPP:
      return "not supported";
    case RPMA_E_PROVIDER:
      return "a call to libibverbs or librdmacm failed";
    case RPMA_E_NOMEM:
      return "out of memory";
    case RPMA_E_INVAL:
      return "invalid argument";
    case RPMA_E_NO_COMPLETION:
      return "no completion waits";
    case RPMA_E_NO_EVENT:
      return "no event waits";
    case RPMA_E_AGAIN:
      return "try again";
    case RPMA_E_SHARED_CHANNEL:
      return "the completion channel is shared";
    case RPMA_E_NOT_SHARED_CHNL:
      return "the completion channel is not shared";
    default:
      return "unknown error";
  }
}

const char* rpma_utils_conn_event_2str(rpma_conn_event conn_event) {
  switch (conn_event) {
    case RPMA_CONN_UNDEFINED:
      return "undefined connection event";
    case RPMA_CONN_ESTABLISHED:
      return "connection established";
    case RPMA_CONN_CLOSED:
      return "connection closed";
    case RPMA_CONN_LOST:
      return "connection lost";
    case RPMA_CONN_REJECTED:
      return "connection rejected";
    case RPMA_CONN_UNREACHABLE:
      return "connection unreachable";
  }
  return "unsupported connection event";
}

}  // extern "C"
