// SPDX-License-Identifier: MIT
// Memory keys: a piece of a umem (MTT), or ranges of other keys, each with its own length (KLM) or all of one
// (KSM).
#include <vector>

#include "abi/prm/memory.h"
#include "device/connectx/prm/capabilities.h"
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
    {Mkc::free, engine::kFreeKey},
    {Mkc::umr_en, engine::kUpdatable},
    {Mkc::en_rinval, engine::kRemoteInvalidate},
};

MkeyAccessMode mode_of(View<Mkc> context) {
  return static_cast<MkeyAccessMode>(context[Mkc::access_mode_4_2] << 2 | context[Mkc::access_mode_1_0]);
}

constexpr uint32_t kEntryBytes = Klm::kBits / 8;
constexpr uint32_t kRoomMax = 1u << kLogKlmListMax;
constexpr uint32_t kLogEntrySizeMax = 40;

bool is_list(MkeyAccessMode mode) { return mode == MkeyAccessMode::kKlms || mode == MkeyAccessMode::kKsm; }

/// What the device would have to do that it cannot, or nullptr.
const char* beyond_us(View<CreateMkeyIn> in, View<Mkc> context) {
  const MkeyAccessMode mode = mode_of(context);
  if (mode != MkeyAccessMode::kMtt && !is_list(mode))
    return "only keys with a list of pages (MTT) or of other keys (KLM, KSM) are offered";
  if (mode == MkeyAccessMode::kMtt && !in[CreateMkeyIn::mkey_umem_valid])
    return "a user's page list has to lie in a umem";
  if (is_list(mode) && in[CreateMkeyIn::mkey_umem_valid])
    return "a list of other keys lies in the mailbox, not in a umem";
  if (context[Mkc::free] && !context[Mkc::umr_en]) return "a free key that nothing may change is of no use";
  if ((context[Mkc::bsf_en] || context[Mkc::crypto_en] != 0) && !(is_list(mode) && context[Mkc::umr_en]))
    return "signatures and encryption are for keys that stand for lists and that work queue entries change";
  if (context[Mkc::crypto_en] > 1 || (context[Mkc::crypto_en] != 0 && !context[Mkc::bsf_en]))
    return "the key's encryption has no byte stream format (BSF)";
  if (context[Mkc::length64] && mode == MkeyAccessMode::kMtt)
    return "a umem is not as long as the address space";
  return nullptr;
}

/// The list of an indirect key; nullptr, or what is wrong with it.
const char* read_list(View<CreateMkeyIn> in, View<Mkc> context, MkeySpec& spec) {
  spec.room = context[Mkc::translations_octword_size];
  if (spec.room > kRoomMax) return "the list of the key is longer than log_max_klm_list_size allows";
  if (mode_of(context) == MkeyAccessMode::kKsm) {
    const uint32_t log = context[Mkc::log_page_size];
    if (log == 0 || log > kLogEntrySizeMax)
      return "the entries of the key's list have no size that the device knows";
    spec.log_entry_size = static_cast<uint8_t>(log);
  }
  const uint32_t given = in[CreateMkeyIn::translations_octword_actual_size];
  const size_t words = size_t{given} * kEntryBytes / 4;
  if (given > spec.room) return "the mailbox has a longer list than the key is to have";
  if (words > in.size(CreateMkeyIn::klm_pas_mtt)) return "the mailbox ends before the key's list does";
  for (size_t i = 0; i < words; i++) {
    const uint32_t word = in.at(CreateMkeyIn::klm_pas_mtt, i);
    for (int shift = 24; shift >= 0; shift -= 8) spec.list.push_back(static_cast<uint8_t>(word >> shift));
  }
  return nullptr;
}

Result create_mkey(Command<CreateMkey>& c) {
  const auto context = c.in[CreateMkeyIn::memory_key_mkey_entry];
  if (const char* reason = beyond_us(c.in, context)) return refuse(Status::kBadParamErr, reason);
  MkeySpec spec;
  spec.pd = context[Mkc::pd];
  spec.variant = static_cast<uint8_t>(context[Mkc::mkey_7_0]);
  spec.queue = context[Mkc::qpn] == kAnyQp ? 0 : uint32_t{context[Mkc::qpn]};
  spec.start = context[Mkc::start_addr];
  spec.length = context[Mkc::length64] ? UINT64_MAX : context[Mkc::len];
  spec.umem = c.in[CreateMkeyIn::mkey_umem_id];
  spec.umem_offset = c.in[CreateMkeyIn::mkey_umem_offset];
  for (const Right& right : kRights)
    if (context[right.field]) spec.access |= right.access;
  if (is_list(mode_of(context))) {
    spec.access |= engine::kIndirect;
    spec.protectable = context[Mkc::bsf_en];
    spec.encrypts = context[Mkc::crypto_en] != 0;
    if (const char* reason = read_list(c.in, context, spec)) return refuse(Status::kBadParamErr, reason);
  }
  const Expected<uint32_t> index = c.unit.create_mkey(c.uid, spec);
  if (!index) return refuse(index.error());
  c.out.set(CreateMkeyOut::mkey_index, *index);
  return {};
}

void show_list(const MkeySpec& spec, Writer<QueryMkeyOut> out) {
  const auto context = out[QueryMkeyOut::memory_key_mkey_entry];
  context.set(Mkc::access_mode_1_0, spec.log_entry_size ? MkeyAccessMode::kKsm : MkeyAccessMode::kKlms);
  context.set(Mkc::translations_octword_size, spec.room);
  context.set(Mkc::bsf_en, spec.protectable);
  context.set(Mkc::crypto_en, spec.encrypts);
  context.set(Mkc::log_page_size, spec.log_entry_size);
  for (size_t i = 0; i < spec.list.size() && i < kEntryBytes; i++)
    out.set(QueryMkeyOut::bsf0_klm0_pas_mtt0_1, i, spec.list[i]);
  for (size_t i = kEntryBytes; i < spec.list.size() && i < 2 * kEntryBytes; i++)
    out.set(QueryMkeyOut::bsf1_klm1_pas_mtt2_3, i - kEntryBytes, spec.list[i]);
}

Result query_mkey(Command<QueryMkey>& c) {
  const Expected<MkeySpec> spec = c.unit.query_mkey(c.uid, c.in[QueryMkeyIn::mkey_index]);
  if (!spec) return refuse(spec.error());
  const auto context = c.out[QueryMkeyOut::memory_key_mkey_entry];
  context.set(Mkc::access_mode_1_0, MkeyAccessMode::kMtt);
  context.set(Mkc::qpn, spec->queue ? spec->queue : kAnyQp);
  context.set(Mkc::mkey_7_0, spec->variant);
  context.set(Mkc::pd, spec->pd);
  context.set(Mkc::start_addr, spec->start);
  context.set(Mkc::len, spec->length);
  context.set(Mkc::length64, spec->length == UINT64_MAX);
  context.set(Mkc::lr, true);
  context.set(Mkc::free, (spec->access & engine::kFreeKey) != 0);
  context.set(Mkc::umr_en, (spec->access & engine::kUpdatable) != 0);
  for (const Right& right : kRights) context.set(right.field, (spec->access & right.access) != 0);
  if (spec->access & engine::kIndirect) show_list(*spec, c.out);
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
