// SPDX-License-Identifier: MIT
// Memory keys. They stand for one piece of a umem; lists and other kinds are not offered.
#include <algorithm>

#include "abi/prm/memory.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "engine/status.h"

namespace verbatim::prm {

namespace {

constexpr uint32_t kAnyQp = 0xffffff;

struct Right {
  Field<Mkc, 1> field;
  uint32_t access;
};

/// Local reading is always allowed.
constexpr Right kRights[] = {
    {Mkc::lw, engine::kLocalWrite},
    {Mkc::rr, engine::kRemoteRead},
    {Mkc::rw, engine::kRemoteWrite},
    {Mkc::a, engine::kRemoteAtomic},
};

MkeyAccessMode mode_of(View<Mkc> context) {
  return static_cast<MkeyAccessMode>(context[Mkc::access_mode_4_2] << 2 | context[Mkc::access_mode_1_0]);
}

/// What the device would have to do that it cannot, or nullptr.
const char* beyond_us(View<CreateMkeyIn> in, View<Mkc> context) {
  if (mode_of(context) != MkeyAccessMode::kMtt) return "only keys with a page list (MTT) are offered";
  if (!in[CreateMkeyIn::mkey_umem_valid]) return "a user's page list has to lie in a umem";
  if (context[Mkc::free] || context[Mkc::umr_en])
    return "keys that work queue entries change are not offered";
  if (context[Mkc::bsf_en] || context[Mkc::crypto_en]) return "neither signatures nor encryption are offered";
  if (context[Mkc::qpn] != kAnyQp) return "keys of a single queue pair are not offered";
  if (context[Mkc::length64]) return "a umem is not as long as the address space";
  return nullptr;
}

Result create_mkey(Command<CreateMkey>& c) {
  const auto context = c.in[CreateMkeyIn::memory_key_mkey_entry];
  if (const char* reason = beyond_us(c.in, context)) return refuse(Status::kBadParamErr, reason);
  MkeySpec spec;
  spec.pd = context[Mkc::pd];
  spec.variant = static_cast<uint8_t>(context[Mkc::mkey_7_0]);
  spec.start = context[Mkc::start_addr];
  spec.length = context[Mkc::len];
  spec.umem = c.in[CreateMkeyIn::mkey_umem_id];
  spec.umem_offset = c.in[CreateMkeyIn::mkey_umem_offset];
  for (const Right& right : kRights)
    if (context[right.field]) spec.access |= right.access;
  const Expected<uint32_t> index = c.unit.create_mkey(c.uid, spec);
  if (!index) return refuse(index.error());
  c.out.set(CreateMkeyOut::mkey_index, *index);
  return {};
}

Result query_mkey(Command<QueryMkey>& c) {
  const Expected<MkeySpec> spec = c.unit.query_mkey(c.uid, c.in[QueryMkeyIn::mkey_index]);
  if (!spec) return refuse(spec.error());
  const auto context = c.out[QueryMkeyOut::memory_key_mkey_entry];
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kMtt);
  context.set(Mkc::qpn, kAnyQp);
  context.set(Mkc::mkey_7_0, spec->variant);
  context.set(Mkc::pd, spec->pd);
  context.set(Mkc::start_addr, spec->start);
  context.set(Mkc::len, spec->length);
  context.set(Mkc::lr, true);
  for (const Right& right : kRights) context.set(right.field, (spec->access & right.access) != 0);
  return {};
}

Result destroy_mkey(Command<DestroyMkey>& c) {
  return result_of(c.unit.destroy_mkey(c.uid, c.in[DestroyMkeyIn::mkey_index]));
}

}  // namespace

std::span<const Entry> key_commands() {
  static constexpr Entry kEntries[] = {entry<create_mkey>(), entry<query_mkey>(), entry<destroy_mkey>()};
  return kEntries;
}

}  // namespace verbatim::prm
