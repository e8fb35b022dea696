// SPDX-License-Identifier: MIT
// What the device says of itself apart from its capabilities.
#include "abi/prm/general.h"

#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"

namespace verbatim::prm {

namespace {

/// The version of the command interface that these layouts are of.
constexpr uint32_t kInterface = 1;
constexpr uint32_t kPciVendor = 0x15b3;
/// Stands where a board has its parameter set's name.
constexpr std::string_view kBoard = "VERBATIM";

Result nop(Command<Nop>&) { return {}; }

Result query_issi(Command<QueryIssi>& c) {
  c.out.set(QueryIssiOut::current_issi, kInterface);
  c.out.set(QueryIssiOut::supported_issi_dw0, 1u << kInterface);
  return {};
}

Result query_adapter(Command<QueryAdapter>& c) {
  const auto adapter = c.out[QueryAdapterOut::query_adapter_struct];
  adapter.set(QueryAdapterParamBlock::ieee_vendor_id, c.unit.limits().vendor_id);
  adapter.set(QueryAdapterParamBlock::vsd_vendor_id, kPciVendor);
  for (size_t i = 0; i < kBoard.size(); i++)
    adapter.set(QueryAdapterParamBlock::vsd_contd_psid, i, static_cast<uint8_t>(kBoard[i]));
  return {};
}

Result query_special_contexts(Command<QuerySpecialContexts>& c) {
  const SpecialKeys keys = c.unit.special_keys();
  c.out.set(QuerySpecialContextsOut::resd_lkey, keys.reserved_lkey);
  c.out.set(QuerySpecialContextsOut::null_mkey, keys.null_mkey);
  c.out.set(QuerySpecialContextsOut::dump_fill_mkey, keys.dump_fill_mkey);
  c.out.set(QuerySpecialContextsOut::terminate_scatter_list_mkey, keys.terminate_scatter_list);
  c.out.set(QuerySpecialContextsOut::repeated_mkey, keys.repeated_mkey);
  return {};
}

}  // namespace

std::span<const Entry> general_commands() {
  static constexpr Entry kEntries[] = {
      entry<nop>(),
      entry<query_issi>(),
      entry<query_adapter>(),
      entry<query_special_contexts>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
