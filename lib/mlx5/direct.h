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

/// The same, for calls that need the device. Without it errno says why: EOPNOTSUPP, or EIO, as it has failed.
inline verbs::Context* working(ibv_context* public_context) {
  verbs::Context* context = own(public_context);
  if (context != nullptr && !context->failed.load(std::memory_order_relaxed)) return context;
  errno = context != nullptr ? EIO : EOPNOTSUPP;
  return nullptr;
}

/// Of completions that are told together; a receive here has no hash, checksum or stride, so that they differ
/// in name alone.
inline constexpr uint32_t kCompressedFormats =
    MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM | MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX;

}  // namespace verbatim::mlx5
