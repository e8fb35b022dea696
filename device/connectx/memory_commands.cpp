// SPDX-License-Identifier: MIT
// Protection domains and memory regions.
#include <algorithm>
#include <cerrno>

#include "base/fault_copy.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/key_list.h"
#include "device/connectx/memory_range.h"

namespace verbatim::connectx {

namespace {

// Numbers are unique in the process, so that several devices of it can share the engine's key table.
std::atomic<uint32_t> next_domain{1};

bool is_implicit(const hw::MrSpec& spec) {
  return (spec.access & engine::kOnDemand) && spec.address == 0 && spec.length == UINT64_MAX;
}

engine::KeyTable::Spec key_spec(const hw::MrSpec& spec, uint32_t device_access) {
  constexpr uint32_t kOptional = 0x3ff00000;
  const uint32_t bound = spec.queue ? engine::kBound : 0;
  return {spec.pd->number, (spec.access & ~kOptional) | device_access | bound,
          spec.start,      spec.length,
          spec.address,    spec.queue};
}

}  // namespace

Expected<hw::Pd*> ConnectxHca::create_pd() { return add_pd({}); }

// Several opened devices of the process may have domains of one number.
Expected<hw::Pd*> ConnectxHca::add_pd(std::optional<uint32_t> number) {
  if (pds_.fetch_add(1) >= limits_.max_pd) {
    pds_--;
    return Error{ENOMEM, "all protection domains of the device are in use"};
  }
  auto* pd = new PdObject;
  pd->number = number ? *number : next_domain.fetch_add(1) & 0xffffff;
  {
    const std::lock_guard hold(numbers_.lock);
    numbers_.pds.emplace(pd->number, pd);  // another that stands for the same may be there
  }
  count(1, 1);
  return static_cast<hw::Pd*>(pd);
}

Outcome ConnectxHca::destroy_pd(hw::Pd* face) {
  auto* pd = static_cast<PdObject*>(face);
  const std::lock_guard hold(numbers_.lock);
  if (pd->users != 0) return Error{EBUSY, "the protection domain still has objects"};
  if (const auto found = numbers_.pds.find(pd->number); found != numbers_.pds.end() && found->second == pd)
    numbers_.pds.erase(found);
  delete pd;
  pds_--;
  count(1, -1);
  return Done{};
}

Outcome ConnectxHca::check_mr(const hw::MrSpec& spec) const {
  constexpr uint32_t kNeedsLocalWrite = engine::kRemoteWrite | engine::kRemoteAtomic;
  constexpr uint32_t kKnown = engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead |
                              engine::kRemoteAtomic | engine::kMwBind | engine::kZeroBased |
                              engine::kOnDemand | engine::kHugetlb | engine::kFlushGlobal |
                              engine::kFlushPersistent | engine::kRelaxedOrdering;
  if (spec.access & ~kKnown & ~0x3ff00000u) return Error{EINVAL, "unknown access flags"};
  if ((spec.access & kNeedsLocalWrite) && !(spec.access & engine::kLocalWrite))
    return Error{EINVAL, "remote write and remote atomic access need local write access too"};
  if (is_implicit(spec)) return Done{};
  if (spec.dm && spec.length == 0) return Done{};
  if (spec.length == 0) return Error{EINVAL, "the region's length is 0"};
  if (spec.address + spec.length < spec.address || spec.start + spec.length - 1 < spec.start)
    return Error{EINVAL, "the region wraps around the address space"};
  if (spec.access & engine::kOnDemand) return Done{};
  return check_range(spec.address, spec.length,
                     (spec.access & (engine::kLocalWrite | kNeedsLocalWrite)) != 0);
}

Expected<hw::Mr*> ConnectxHca::make_mr(const hw::MrSpec& spec, uint32_t device_access,
                                       std::optional<uint8_t> variant) {
  Expected<uint32_t> key = engine_.keys().create(key_spec(spec, device_access), variant);
  if (!key) return key.error();
  hw::Mr* mr = note_mr(spec, *key);
  static_cast<MrObject*>(mr)->null_region = device_access != 0;
  return mr;
}

hw::Mr* ConnectxHca::note_mr(const hw::MrSpec& spec, uint32_t key) {
  auto* mr = new MrObject;
  mr->spec = spec;
  mr->lkey = mr->rkey = key;
  static_cast<PdObject*>(spec.pd)->users++;
  if (spec.dm) static_cast<DmObject*>(spec.dm)->users++;
  count(2, 1);
  std::lock_guard<std::mutex> hold(lock_);
  mrs_list_.add(mr);
  return mr;
}

Expected<hw::Mr*> ConnectxHca::create_mr(const hw::MrSpec& wanted) {
  refresh_fault_guard();
  hw::MrSpec spec = wanted;
  if (!spec.pd) return Error{EINVAL, "a memory region needs a protection domain"};
  if (spec.dm)
    if (Outcome located = locate_in_dm(spec); !located) return located.error();
  if (Outcome sound = check_mr(spec); !sound) return sound.error();
  return make_mr(spec, 0);
}

Expected<hw::Mr*> ConnectxHca::create_mkey(const hw::MrSpec& spec, uint8_t variant) {
  refresh_fault_guard();
  if (spec.length == 0) return Error{EINVAL, "the key's length is 0"};
  if (spec.start + spec.length - 1 < spec.start)
    return Error{EINVAL, "the key wraps around the address space"};
  return make_mr(spec, 0, variant);
}

Expected<hw::Mr*> ConnectxHca::create_list_key(const hw::MrSpec& spec, const engine::KeyShape& shape,
                                               std::span<const uint8_t> octowords, uint8_t variant) {
  KeyList list;
  if (const char* why = decode_list(std::as_bytes(octowords), shape, list)) return Error{EINVAL, why};
  const Expected<uint32_t> key = engine_.keys().create_indirect(
      key_spec(spec, 0),
      std::make_unique<const engine::KeyLayout>(shape, std::move(list.entries), list.rounds,
                                                shape.transform_at_first),
      variant);
  if (!key) return key.error();
  return note_mr(spec, *key);
}

void ConnectxHca::show_key(uint32_t index, prm::MkeySpec& spec) {
  constexpr size_t kShown = 2;
  const engine::AccessScope scope;
  engine::KeyView view;
  if (!engine_.keys().look(index, view)) return;
  spec.variant = static_cast<uint8_t>(view.key);
  spec.access = view.access;
  spec.queue = view.access & engine::kBound ? view.queue : 0;
  spec.start = view.start;
  spec.length = view.length;
  const engine::KeyLayout* layout = engine::KeyTable::layout_of(view);
  for (size_t i = 0; layout && i < std::min(kShown, layout->entries().size()); i++) {
    const engine::KeyLayout::Entry& entry = layout->entries()[i];
    const ListEntry shown{static_cast<uint32_t>(entry.length), entry.key, entry.address};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&shown);
    spec.list.insert(spec.list.end(), bytes, bytes + sizeof shown);
  }
}

Expected<hw::Mr*> ConnectxHca::create_null_mr(hw::Pd* pd) {
  hw::MrSpec spec;
  spec.pd = pd;
  spec.length = UINT64_MAX;
  spec.access = engine::kLocalWrite | engine::kRemoteRead | engine::kRemoteWrite;
  return make_mr(spec, engine::kNullRegion);
}

Outcome ConnectxHca::modify_mr(hw::Mr* face, uint32_t mask, const hw::MrSpec& wanted) {
  auto* mr = static_cast<MrObject*>(face);
  if (mr->imported) return Error{EINVAL, "an imported region cannot be changed"};
  if (mr->null_region) return Error{EINVAL, "the null region cannot be changed"};
  if (mr->spec.dm) return Error{EINVAL, "a region of device memory cannot be changed"};
  hw::MrSpec spec = mr->spec;
  if (mask & kTranslation)
    spec.address = wanted.address, spec.length = wanted.length, spec.start = wanted.start;
  if (mask & kPd) spec.pd = wanted.pd;
  if (mask & kAccess) spec.access = wanted.access;
  if (Outcome sound = check_mr(spec); !sound) return sound;
  static_cast<PdObject*>(spec.pd)->users++;
  engine_.keys().replace(mr->lkey, key_spec(spec, 0));
  static_cast<PdObject*>(mr->spec.pd)->users--;
  mr->spec = spec;
  return Done{};
}

Outcome ConnectxHca::destroy_mr(hw::Mr* face) {
  auto* mr = static_cast<MrObject*>(face);
  if (!mr->borrowed) engine_.keys().destroy(mr->lkey);
  static_cast<PdObject*>(mr->spec.pd)->users--;
  if (mr->spec.dm) static_cast<DmObject*>(mr->spec.dm)->users--;
  count(2, -1);
  {
    std::lock_guard<std::mutex> hold(lock_);
    mrs_list_.remove(mr);
  }
  delete mr;
  return Done{};
}

}  // namespace verbatim::connectx
