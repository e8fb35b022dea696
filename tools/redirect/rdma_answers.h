// SPDX-License-Identifier: MIT
#pragma once

#include <linux/netlink.h>

namespace verbatim::redirect {

/// Takes one message of an answer, whole.
struct Deliver {
  void (*call)(const Deliver& self, const nlmsghdr& message);
};

/// Answers a request about RDMA devices (NETLINK_RDMA) as a kernel would that had those of the tree: devices
/// and ports, one or all. What else there is to ask is refused with EOPNOTSUPP.
void answer(const nlmsghdr& request, const Deliver& deliver);

}  // namespace verbatim::redirect
