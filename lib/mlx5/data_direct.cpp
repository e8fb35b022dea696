// SPDX-License-Identifier: MIT
// Memory of other devices, and the function that reaches it directly.
#include <cstring>

#include "lib/mlx5/direct.h"

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

int mlx5dv_get_data_direct_sysfs_path(ibv_context* public_context, char* buf, size_t buf_len) {
  constexpr const char* kCall = "mlx5dv_get_data_direct_sysfs_path: ";
  verbs::Context* context = own(public_context);
  if (context == nullptr) return EOPNOTSUPP;
  const std::string& path = context->hca->limits().data_direct_path;
  if (path.empty())
    return verbs::refuse(*context, ENODEV, std::string(kCall) + "the device has no Data Direct function");
  if (buf_len <= path.size())
    return verbs::refuse(*context, ENOSPC,
                         std::string(kCall) + "the path needs " + std::to_string(path.size() + 1) + " bytes");
  std::memcpy(buf, path.c_str(), path.size() + 1);
  return 0;
}

ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access,
                             int mlx5_access) {
  constexpr int kKnown = MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT;
  verbs::Context* context = working(pd->context);
  if (context == nullptr) return nullptr;
  if ((mlx5_access & ~kKnown) != 0)
    return verbs::refuse_pointer(*context, EINVAL, "mlx5dv_reg_dmabuf_mr: unknown bits in mlx5_access");
  // The other function would reach the same memory by a shorter way.
  if (mlx5_access != 0 && context->hca->limits().data_direct_path.empty())
    return verbs::refuse_pointer(*context, EINVAL,
                                 "mlx5dv_reg_dmabuf_mr: the device has no Data Direct function");
  return ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

}  // extern "C"
