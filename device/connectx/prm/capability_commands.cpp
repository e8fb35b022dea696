// SPDX-License-Identifier: MIT
#include "device/connectx/prm/capabilities.h"
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

namespace {

Result query_hca_cap(Command<QueryHcaCap>& c) {
  if (c.in[QueryHcaCapIn::other_function])
    return refuse(Status::kBadParamErr, "the device has no other function to ask about");
  const auto group = static_cast<CapabilityGroup>(c.in[QueryHcaCapIn::op_mod] >> 1);
  const DeviceFacts facts{c.unit.limits(), c.unit.port(), c.unit.special_keys(),
                          c.unit.protection().crypto_facts()};
  if (!write_capabilities(group, facts, c.out[QueryHcaCapOut::capability]))
    return refuse(Status::kBadParamErr,
                  "there is no group " + std::to_string(c.in[QueryHcaCapIn::op_mod] >> 1));
  return {};
}

}  // namespace

std::span<const Entry> capability_commands() {
  static constexpr Entry kEntries[] = {entry<query_hca_cap>()};
  return kEntries;
}

}  // namespace verbatim::prm
