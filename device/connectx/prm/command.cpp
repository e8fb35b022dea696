// SPDX-License-Identifier: MIT
#include "device/connectx/prm/command.h"

#include <cerrno>

namespace verbatim::prm {

namespace {

/// FNV-1a, cut to the 24 bits that syndromes of a ConnectX have, never 0.
uint32_t syndrome_of(std::string_view reason) {
  uint32_t hash = 2166136261u;
  for (const char letter : reason.substr(0, reason.find_first_of("0123456789")))
    hash = (hash ^ static_cast<uint8_t>(letter)) * 16777619u;
  return (hash ^ hash >> 24) & 0xffffff ?: 1;
}

Status status_of(int code) {
  switch (code) {
    case EINVAL:
    case EFAULT:
      return Status::kBadParamErr;
    case ENOMEM:
      return Status::kLimErr;
    case EBUSY:
      return Status::kBadResStateErr;
    case ENOENT:
      return Status::kBadResErr;
    case EOPNOTSUPP:
      return Status::kBadOpErr;
    default:
      return Status::kIntErr;
  }
}

}  // namespace

Result refuse(Status status, std::string reason) {
  const uint32_t syndrome = syndrome_of(reason);
  return {status, syndrome, std::move(reason)};
}

Result refuse(const Error& error) { return refuse(status_of(error.code), error.reason); }

Result result_of(const Outcome& outcome) { return outcome ? Result{} : refuse(outcome.error()); }

}  // namespace verbatim::prm
