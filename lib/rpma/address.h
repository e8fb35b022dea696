// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>

namespace verbatim::rpma {

/// Which end an address is for.
enum class End { kListening, kConnecting };

/// What a host name and a port stand for.
class Address {
 public:
  /// 0, RPMA_E_PROVIDER or RPMA_E_NOMEM. `port`: null for any.
  int find(const char* node, const char* port, End end);
  /// Binds an id to it. 0 or RPMA_E_PROVIDER.
  int bind(rdma_cm_id* id) const;
  /// Finds an id's device for it, on an id without channel of the program's. 0 or RPMA_E_PROVIDER.
  int resolve(rdma_cm_id* id, int timeout_ms) const;

 private:
  struct Freeing {
    void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
  };
  std::unique_ptr<rdma_addrinfo, Freeing> info_;
};

}  // namespace verbatim::rpma
