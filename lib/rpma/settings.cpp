// SPDX-License-Identifier: MIT
// Parameters of connections and of shared receive queues.
#include "lib/rpma/settings.h"

using namespace verbatim::rpma;

extern "C" {

int rpma_conn_cfg_new(rpma_conn_cfg** cfg_ptr) { return make(cfg_ptr); }
int rpma_conn_cfg_delete(rpma_conn_cfg** cfg_ptr) { return destroy(cfg_ptr); }

int rpma_conn_cfg_set_timeout(rpma_conn_cfg* cfg, int timeout_ms) {
  if (timeout_ms < 0) return fail(RPMA_E_INVAL, "a timeout of {} ms is negative", timeout_ms);
  return set(cfg, &rpma_conn_cfg::timeout_ms, timeout_ms);
}
int rpma_conn_cfg_get_timeout(const rpma_conn_cfg* cfg, int* timeout_ms) {
  return get(cfg, &rpma_conn_cfg::timeout_ms, timeout_ms);
}

int rpma_conn_cfg_set_cq_size(rpma_conn_cfg* cfg, uint32_t cq_size) {
  return set(cfg, &rpma_conn_cfg::cq_size, cq_size);
}
int rpma_conn_cfg_get_cq_size(const rpma_conn_cfg* cfg, uint32_t* cq_size) {
  return get(cfg, &rpma_conn_cfg::cq_size, cq_size);
}

int rpma_conn_cfg_set_rcq_size(rpma_conn_cfg* cfg, uint32_t rcq_size) {
  return set(cfg, &rpma_conn_cfg::rcq_size, rcq_size);
}
int rpma_conn_cfg_get_rcq_size(const rpma_conn_cfg* cfg, uint32_t* rcq_size) {
  return get(cfg, &rpma_conn_cfg::rcq_size, rcq_size);
}

int rpma_conn_cfg_set_sq_size(rpma_conn_cfg* cfg, uint32_t sq_size) {
  return set(cfg, &rpma_conn_cfg::sq_size, sq_size);
}
int rpma_conn_cfg_get_sq_size(const rpma_conn_cfg* cfg, uint32_t* sq_size) {
  return get(cfg, &rpma_conn_cfg::sq_size, sq_size);
}

int rpma_conn_cfg_set_rq_size(rpma_conn_cfg* cfg, uint32_t rq_size) {
  return set(cfg, &rpma_conn_cfg::rq_size, rq_size);
}
int rpma_conn_cfg_get_rq_size(const rpma_conn_cfg* cfg, uint32_t* rq_size) {
  return get(cfg, &rpma_conn_cfg::rq_size, rq_size);
}

int rpma_conn_cfg_set_compl_channel(rpma_conn_cfg* cfg, bool shared) {
  return set(cfg, &rpma_conn_cfg::shared_channel, shared);
}
int rpma_conn_cfg_get_compl_channel(const rpma_conn_cfg* cfg, bool* shared) {
  return get(cfg, &rpma_conn_cfg::shared_channel, shared);
}

int rpma_conn_cfg_set_srq(rpma_conn_cfg* cfg, rpma_srq* srq) { return set(cfg, &rpma_conn_cfg::srq, srq); }
int rpma_conn_cfg_get_srq(const rpma_conn_cfg* cfg, rpma_srq** srq_ptr) {
  return get(cfg, &rpma_conn_cfg::srq, srq_ptr);
}

int rpma_srq_cfg_new(rpma_srq_cfg** cfg_ptr) { return make(cfg_ptr); }
int rpma_srq_cfg_delete(rpma_srq_cfg** cfg_ptr) { return destroy(cfg_ptr); }

int rpma_srq_cfg_set_rq_size(rpma_srq_cfg* cfg, uint32_t rq_size) {
  return set(cfg, &rpma_srq_cfg::rq_size, rq_size);
}
int rpma_srq_cfg_get_rq_size(const rpma_srq_cfg* cfg, uint32_t* rq_size) {
  return get(cfg, &rpma_srq_cfg::rq_size, rq_size);
}

int rpma_srq_cfg_set_rcq_size(rpma_srq_cfg* cfg, uint32_t rcq_size) {
  return set(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}
int rpma_srq_cfg_get_rcq_size(const rpma_srq_cfg* cfg, uint32_t* rcq_size) {
  return get(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}

}  // extern "C"
