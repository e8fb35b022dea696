// SPDX-License-Identifier: MIT
#include "agent/xrc_domains.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::agent {

namespace {

constexpr uint64_t kIdentityMax = (1ull << 63) - 1;  ///< beyond are those that nobody shares

}  // namespace

Expected<uint64_t> XrcDomains::open(uint32_t slot, const XrcName& name, bool create, bool exclusive) {
  const auto found = domains_.find(name);
  if (found == domains_.end() && !create)
    return Error{EAGAIN, "the file has no XRC domain, and O_CREAT is not among the flags"};
  if (found != domains_.end() && exclusive)
    return Error{EINVAL, "the file has an XRC domain already, and O_EXCL is among the flags"};
  Domain& domain = found != domains_.end() ? found->second : domains_[name];
  if (domain.users.empty()) domain.identity = next_++ % kIdentityMax + 1;
  domain.users.push_back(slot);
  return domain.identity;
}

Outcome XrcDomains::take_back(uint32_t slot, const XrcName& name, uint64_t identity) {
  if (identity == 0 || identity > kIdentityMax) return Error{EINVAL, "no such XRC domain"};
  Domain& domain = domains_[name];
  if (!domain.users.empty() && domain.identity != identity)
    return Error{EBUSY, "the file has another XRC domain since"};
  domain.identity = identity;
  domain.users.push_back(slot);
  return Done{};
}

void XrcDomains::close(uint32_t slot, uint64_t identity) {
  for (auto at = domains_.begin(); at != domains_.end(); ++at) {
    if (at->second.identity != identity) continue;
    auto& users = at->second.users;
    const auto one = std::find(users.begin(), users.end(), slot);
    if (one != users.end()) users.erase(one);
    if (users.empty()) domains_.erase(at);
    return;
  }
}

void XrcDomains::leave(uint32_t slot) {
  for (auto& [name, domain] : domains_) std::erase(domain.users, slot);
  std::erase_if(domains_, [](const auto& entry) { return entry.second.users.empty(); });
}

}  // namespace verbatim::agent
