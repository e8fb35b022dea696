// SPDX-License-Identifier: MIT
#pragma once

#include "lib/mlx5/mlx5.h"
#include "lib/mlx5/public.h"

namespace verbatim::mlx5 {

/// The context if it is one of this library's that works; else nullptr.
inline verbs::Context* own(ibv_context* public_context) {
  verbs::Context* context = verbs::Context::of(public_context);
  return context->provider == &kProvider && !context->abandoned ? context : nullptr;
}

}  // namespace verbatim::mlx5
