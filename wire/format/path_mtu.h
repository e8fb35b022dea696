// SPDX-License-Identifier: MIT
#pragma once

#include "wire/format/packet.h"

namespace verbatim::roce {

constexpr uint32_t kPathMtuMin = 256;
/// Most bytes around a payload, as Linux counts them: GRH, UDP, BTH, XRCETH, AtomicETH, ICRC.
constexpr uint32_t kOverheadMax = 40 + 8 + 12 + 4 + 28 + 4;

/// The largest path MTU whose packets fit an interface; the smallest there is where none do.
constexpr uint32_t path_mtu_of(uint32_t interface_mtu) {
  uint32_t mtu = kPathMtuMin;
  while (mtu < kPathMtuMax && 2 * mtu + kOverheadMax <= interface_mtu) mtu *= 2;
  return mtu;
}

}  // namespace verbatim::roce
