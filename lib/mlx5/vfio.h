// SPDX-License-Identifier: MIT
#pragma once

#include "lib/mlx5/mlx5.h"

namespace verbatim::mlx5 {

/// Whether the device is one that mlx5dv_get_vfio_device_list() made.
bool is_taken_over(const verbs::Device& device);
/// Gives a context of such a device the port, and makes its events never block.
void take_over(verbs::Context& context);

}  // namespace verbatim::mlx5
