// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/expected.h"

namespace verbatim::agent {

/// What an XRC domain is associated with.
struct XrcFile {
  uint64_t device = 0, inode = 0;
  auto operator<=>(const XrcFile&) const = default;
};

/// Which domain is meant: each device has its own.
struct XrcName {
  uint32_t device = 0;  ///< index of the RDMA device
  XrcFile file;
  auto operator<=>(const XrcName&) const = default;
};

/// The XRC domains that processes share by files: the agent's state, apart from sockets. A domain exists as
/// long as somebody has it open.
class XrcDomains {
 public:
  explicit XrcDomains(uint64_t first_identity) : next_(first_identity) {}

  /// Its identity. EAGAIN: there is no such domain, and it is not to be made; EINVAL: there is one already.
  Expected<uint64_t> open(uint32_t slot, const XrcName& name, bool create, bool exclusive);
  /// One that the process has had from an earlier agent. EBUSY: somebody has made another one since.
  Outcome take_back(uint32_t slot, const XrcName& name, uint64_t identity);
  void close(uint32_t slot, uint64_t identity);
  /// The process has gone.
  void leave(uint32_t slot);
  size_t size() const { return domains_.size(); }

 private:
  struct Domain {
    uint64_t identity = 0;
    std::vector<uint32_t> users;  ///< slots, one for each opening
  };
  std::map<XrcName, Domain> domains_;
  uint64_t next_;
};

}  // namespace verbatim::agent
