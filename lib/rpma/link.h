// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <memory>

#include "lib/rpma/completions.h"
#include "lib/rpma/peer.h"
#include "lib/rpma/settings.h"

namespace verbatim::rpma {

/// A copy of the private data that the other side gave.
class PrivateData {
 public:
  void take(const rdma_conn_param& from) {
    bytes_ = from.private_data != nullptr ? from.private_data_len : 0;
    if (bytes_ > 0) std::memcpy(data_.data(), from.private_data, bytes_);
  }
  bool empty() const { return bytes_ == 0; }
  /// As the program sees it: no pointer where there is nothing.
  rpma_conn_private_data view() const { return {bytes_ > 0 ? data_.data() : nullptr, bytes_}; }

 private:
  mutable std::array<uint8_t, UINT8_MAX> data_{};
  uint8_t bytes_ = 0;
};

/// What a connection is made of: id, queues and events. A request makes it and its connection takes it over.
struct Link {
  rpma_peer* peer = nullptr;
  rdma_cm_id* id = nullptr;
  rdma_event_channel* events = nullptr;
  ibv_comp_channel* shared_channel = nullptr;
  std::unique_ptr<rpma_cq> cq, rcq;
  PrivateData data;
  bool is_asked = false;  ///< the other side has asked and was not answered

  Link() = default;
  ~Link() { close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Makes queues and an event channel for `id`. 0, RPMA_E_INVAL, RPMA_E_PROVIDER or RPMA_E_NOMEM.
  int build(const rpma_conn_cfg& settings);
  /// Frees everything, and declines what was not answered. 0 or RPMA_E_PROVIDER.
  int close();
};

}  // namespace verbatim::rpma
