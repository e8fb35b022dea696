// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rpma/device.h"
#include "lib/rpma/public.h"

/// A device's protection domain and what the device can do.
struct rpma_peer {
  ibv_pd* domain = nullptr;
  verbatim::rpma::Capabilities can;
};
