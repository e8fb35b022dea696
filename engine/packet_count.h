// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::engine {

/// Packets of one direction.
struct PacketCount {
  uint64_t bytes = 0, packets = 0;
};

/// A message of a connection, and the answer to it; without one where nothing answers.
struct Exchange {
  PacketCount request, answer;
};

inline PacketCount sum_of(const Exchange& exchange) {
  return {exchange.request.bytes + exchange.answer.bytes, exchange.request.packets + exchange.answer.packets};
}

}  // namespace verbatim::engine
