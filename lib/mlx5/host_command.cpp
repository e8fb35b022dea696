// SPDX-License-Identifier: MIT
#include "lib/mlx5/host_command.h"

#include "abi/prm/general.h"
#include "lib/mlx5/devx.h"

namespace verbatim::mlx5 {

int send_for_host(verbs::Context& context, std::span<const uint8_t> in, std::span<uint8_t> out) {
  if (devx::is_lost(context, in)) return EIO;
  context.hca->execute(in, out);
  switch (prm::View<prm::MboxOut>(out).as<prm::Status>(prm::MboxOut::status)) {
    case prm::Status::kOk:
      return 0;
    case prm::Status::kBadOpErr:
      return EOPNOTSUPP;
    case prm::Status::kBadResStateErr:
      return EBUSY;
    case prm::Status::kLimErr:
      return ENOMEM;
    default:
      return EINVAL;
  }
}

}  // namespace verbatim::mlx5
