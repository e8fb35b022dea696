// SPDX-License-Identifier: MIT
#pragma once

// Objects that hold parameters: fields of their own, each read and written at once.

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>

#include "lib/rpma/log.h"

/// Parameters of a connection. Thread safe.
struct rpma_conn_cfg {
  std::atomic<int> timeout_ms = RPMA_DEFAULT_TIMEOUT_MS;
  std::atomic<uint32_t> cq_size = 10;
  std::atomic<uint32_t> rcq_size = 0;
  std::atomic<uint32_t> sq_size = 10;
  std::atomic<uint32_t> rq_size = 10;
  std::atomic<bool> shared_channel = false;
  std::atomic<rpma_srq*> srq = nullptr;
};

/// Parameters of a shared receive queue. Thread safe.
struct rpma_srq_cfg {
  std::atomic<uint32_t> rq_size = 100;
  std::atomic<uint32_t> rcq_size = 100;
};

namespace verbatim::rpma {

template <class Settings>
int make(Settings** to, std::source_location here = std::source_location::current()) {
  if (to == nullptr) return fail_of_null("cfg_ptr", here);
  auto* made = new (std::nothrow) Settings;
  if (made == nullptr) return fail_of_memory(here);
  *to = made;
  return 0;
}

template <class Settings>
int destroy(Settings** settings, std::source_location here = std::source_location::current()) {
  if (settings == nullptr) return fail_of_null("cfg_ptr", here);
  delete *settings;
  *settings = nullptr;
  return 0;
}

template <class Settings, class Value>
int set(Settings* settings, std::atomic<Value> Settings::*field, std::type_identity_t<Value> value,
        std::source_location here = std::source_location::current()) {
  if (settings == nullptr) return fail_of_null("cfg", here);
  settings->*field = value;
  return 0;
}

template <class Settings, class Value>
int get(const Settings* settings, std::atomic<Value> Settings::*field, std::type_identity_t<Value>* to,
        std::source_location here = std::source_location::current()) {
  if (settings == nullptr || to == nullptr) return fail_of_null("cfg or the place for its value", here);
  *to = settings->*field;
  return 0;
}

/// A number of entries as libibverbs takes it.
inline int as_entries(uint32_t size) { return static_cast<int>(std::min<uint32_t>(size, INT_MAX)); }

}  // namespace verbatim::rpma
