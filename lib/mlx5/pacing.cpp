// SPDX-License-Identifier: MIT
// Entries of the table of rates.
#include <algorithm>
#include <new>

#include "abi/prm/scheduling.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5 {
namespace {

constexpr size_t kContextBytes = prm::SetPpRateLimitContext::kBits / 8;

struct Pacing {
  mlx5dv_pp shown{};
  verbs::Context* context = nullptr;
};

/// What a program writes into its context; what it leaves out is 0.
hw::PacingSpec read(std::span<const uint8_t> context) {
  using Rate = prm::SetPpRateLimitContext;
  uint8_t whole[kContextBytes] = {};
  std::copy(context.begin(), context.end(), whole);
  const prm::View<Rate> view(whole);
  return {view[Rate::rate_limit], view[Rate::burst_upper_bound], view[Rate::typical_packet_size]};
}

mlx5dv_pp* take(verbs::Context& context, std::span<const uint8_t> wanted, uint32_t flags) {
  if (wanted.empty()) return verbs::refuse_pointer(context, EINVAL, "mlx5dv_pp_alloc: there is no context");
  if (wanted.size() > kContextBytes)
    return verbs::refuse_pointer(context, EOPNOTSUPP, "mlx5dv_pp_alloc: the context has more than 48 bytes");
  auto pacing = std::unique_ptr<Pacing>(new (std::nothrow) Pacing);
  if (pacing == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const bool dedicated = (flags & MLX5DV_PP_ALLOC_FLAGS_DEDICATED_INDEX) != 0;
  const auto index = context.hca->take_pacing(read(wanted), dedicated);
  if (!index) return verbs::refuse_pointer(context, index.error());
  pacing->context = &context;
  pacing->shown.index = *index;
  return &pacing.release()->shown;
}

}  // namespace
}  // namespace verbatim::mlx5

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_pp* mlx5dv_pp_alloc(ibv_context* public_context, size_t pp_context_sz, const void* pp_context,
                           uint32_t flags) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return nullptr;
  constexpr uint32_t kKnown = MLX5DV_PP_ALLOC_FLAGS_DEDICATED_INDEX;
  if ((flags & ~kKnown) == 0)
    return take(*context, {static_cast<const uint8_t*>(pp_context), pp_context_sz}, flags);
  errno = EOPNOTSUPP;
  return nullptr;
}

void mlx5dv_pp_free(mlx5dv_pp* shown) {
  auto* pacing = reinterpret_cast<Pacing*>(shown);
  if (!pacing->context->abandoned)
    static_cast<void>(verbs::settle(*pacing->context, pacing->context->hca->give_back_pacing(shown->index)));
  delete pacing;
}

}  // extern "C"
