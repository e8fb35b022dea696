// SPDX-License-Identifier: MIT
// Protection domains and memory regions of other opened devices, used through this one as well.
//
// Within a process there is one table of keys: an imported region is the same key, and an imported domain has
// the number of the original. Regions of other processes get a key here that reaches over to the original.
#include <cerrno>

#include "device/connectx/connectx_hca.h"
#include "engine/foreign_memory.h"

namespace verbatim::connectx {

namespace {

/// What an imported key may not have: an atomic wants a word of this process's memory.
constexpr uint32_t kNotShared = engine::kRemoteAtomic;

}  // namespace

Expected<hw::Pd*> ConnectxHca::import_pd(const hw::Origin& origin) {
  return origin.process ? add_pd({}) : add_pd(origin.pd);
}

Expected<uint32_t> ConnectxHca::import_key(hw::MrSpec& spec, wire::Channel& process,
                                           const engine::KeyView& original) {
  if (original.access & engine::kOwnersOnly & ~engine::kNullRegion)
    return Error{EOPNOTSUPP, "the key is no memory region's, and stays its process's own"};
  if (original.access & engine::kNullRegion)
    return engine_.keys().create({spec.pd->number, engine::kNullRegion | spec.access, 0, UINT64_MAX, 0, 0});
  spec.access &= ~kNotShared;
  char probe = 0;
  const wire::Piece here{&probe, 1};
  if (original.length > 0 && original.length < UINT64_MAX && !process.read_direct(original.address, &here, 1))
    return Error{EOPNOTSUPP, "the kernel lets nobody reach the memory of the region's process"};
  return engine_.keys().create_namesake(original.key,
                                        {spec.pd->number, spec.access, spec.start, spec.length, 0, 0},
                                        std::make_unique<const engine::KeyLayout>(
                                            engine::KeyShape{}, std::vector<engine::KeyLayout::Entry>{}, 1,
                                            std::make_shared<engine::ForeignMemory>(process, original)));
}

Expected<hw::ImportedMr> ConnectxHca::import_mr(hw::Pd* pd, const hw::Origin& origin, uint32_t index) {
  engine::KeyView original;
  const bool found = origin.process ? engine::read_foreign_key(*origin.process, index, original)
                                    : engine_.keys().look(index, original);
  if (!found || original.domain != origin.pd)
    return Error{ENOENT, "the protection domain has no memory region of that handle"};
  hw::MrSpec spec;
  spec.pd = pd;
  spec.start = original.start;
  spec.length = original.length;
  spec.access = original.access & ~engine::kOwnersOnly;
  uint32_t key = original.key;
  if (origin.process) {
    const Expected<uint32_t> made = import_key(spec, *origin.process, original);
    if (!made) return made.error();
    key = *made;
  }
  auto* mr = static_cast<MrObject*>(note_mr(spec, key));
  mr->imported = true;
  mr->borrowed = !origin.process;
  return hw::ImportedMr{mr, spec.start, spec.length, spec.access};
}

}  // namespace verbatim::connectx
