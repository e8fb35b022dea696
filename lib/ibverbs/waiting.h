// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <cstdint>

namespace verbatim::verbs {

// Acknowledgement of events. T is one of the public records with a mutex and a condition: ibv_cq, ibv_qp,
// ibv_srq.

template <class T>
void acknowledge(T& object, uint32_t& completed, uint32_t count) {
  pthread_mutex_lock(&object.mutex);
  completed += count;
  pthread_cond_broadcast(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}

/// Returns when as many events were acknowledged as were read.
template <class T>
void wait_for_acknowledgements(T& object, const uint32_t& completed, uint32_t reported) {
  pthread_mutex_lock(&object.mutex);
  while (completed != reported) pthread_cond_wait(&object.cond, &object.mutex);
  pthread_mutex_unlock(&object.mutex);
}

template <class T>
void init_waiting(T& object) {
  pthread_mutex_init(&object.mutex, nullptr);
  pthread_cond_init(&object.cond, nullptr);
}

template <class T>
void destroy_waiting(T& object) {
  pthread_cond_destroy(&object.cond);
  pthread_mutex_destroy(&object.mutex);
}

}  // namespace verbatim::verbs
