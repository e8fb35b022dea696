// SPDX-License-Identifier: MIT
// Objects that are no more than a number which others name: domains and UAR pages.
#include "abi/prm/domains.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/object_commands.h"

namespace verbatim::prm {

namespace {

Result alloc_pd(Command<AllocPd>& c) {
  const Expected<uint32_t> pd = c.unit.alloc_pd(c.uid);
  if (!pd) return refuse(pd.error());
  c.out.set(AllocPdOut::pd, *pd);
  return {};
}

Result dealloc_pd(Command<DeallocPd>& c) {
  return result_of(c.unit.dealloc_pd(c.uid, c.in[DeallocPdIn::pd]));
}

Result alloc_uar(Command<AllocUar>& c) {
  const Expected<uint32_t> uar = c.unit.alloc_uar(c.uid);
  if (!uar) return refuse(uar.error());
  c.out.set(AllocUarOut::uar, *uar);
  return {};
}

Result dealloc_uar(Command<DeallocUar>& c) {
  return result_of(c.unit.dealloc_uar(c.uid, c.in[DeallocUarIn::uar]));
}

Result alloc_transport_domain(Command<AllocTransportDomain>& c) {
  return make(c, ObjectKind::kTransportDomain, {}, AllocTransportDomainOut::transport_domain);
}

Result dealloc_transport_domain(Command<DeallocTransportDomain>& c) {
  return destroy(c, {ObjectKind::kTransportDomain, c.in[DeallocTransportDomainIn::transport_domain]});
}

Result alloc_xrcd(Command<AllocXrcd>& c) { return make(c, ObjectKind::kXrcd, {}, AllocXrcdOut::xrcd); }

Result dealloc_xrcd(Command<DeallocXrcd>& c) {
  return destroy(c, {ObjectKind::kXrcd, c.in[DeallocXrcdIn::xrcd]});
}

}  // namespace

std::span<const Entry> domain_commands() {
  static constexpr Entry kEntries[] = {
      entry<alloc_pd>(),
      entry<dealloc_pd>(),
      entry<alloc_uar>(),
      entry<dealloc_uar>(),
      entry<alloc_transport_domain>(),
      entry<dealloc_transport_domain>(),
      entry<alloc_xrcd>(),
      entry<dealloc_xrcd>(),
  };
  return kEntries;
}

}  // namespace verbatim::prm
