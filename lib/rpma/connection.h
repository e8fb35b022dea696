// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "lib/rpma/link.h"

/// A connection.
struct rpma_conn {
  std::unique_ptr<verbatim::rpma::Link> link;
  ibv_qp* qp = nullptr;                            ///< the link's
  ibv_qp_ex* atomic_writes = nullptr;              ///< the same where the device has atomic writes
  ibv_qp_ex* flushes = nullptr;                    ///< the same where the device has flushes
  std::atomic<bool> direct_write_to_pmem = false;  ///< of the other side
  /// Where the reads go that take a flush's place.
  alignas(8) uint64_t read_back = 0;
  ibv_mr* read_back_region = nullptr;

  rpma_conn() = default;
  ~rpma_conn() { close(); }
  rpma_conn(const rpma_conn&) = delete;
  rpma_conn& operator=(const rpma_conn&) = delete;

  /// Finds out how operations go on this link. 0 or RPMA_E_PROVIDER.
  int prepare(const verbatim::rpma::Link& of);
  /// Frees what it has. 0 or RPMA_E_PROVIDER.
  int close();
};
