// SPDX-License-Identifier: MIT
#pragma once

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5 {

/// What the device says of itself; zeros where it has no such offload.
mlx5dv_sig_caps signature_caps(verbs::Context& context);
mlx5dv_crypto_caps crypto_caps(verbs::Context& context);

}  // namespace verbatim::mlx5

/// A data encryption key in the device.
struct mlx5dv_dek {
  verbatim::verbs::Context* context;
  uint32_t number;
};

/// A login at the device's crypto engine.
struct mlx5dv_crypto_login_obj {
  verbatim::verbs::Context* context;
  uint32_t number;
};
