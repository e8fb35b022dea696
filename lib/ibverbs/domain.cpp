// SPDX-License-Identifier: MIT
// Protection domains, thread domains and parent domains.
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kParentMask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
                                 IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;

ProtectionDomain* new_domain(Context& context, hw::Pd* device) {
  auto* domain = new (std::nothrow) ProtectionDomain;
  if (domain == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  domain->base = {&context.verbs.context, device->number};
  domain->context = &context;
  domain->device = device;
  return domain;
}

ibv_td* alloc_td(ibv_context* public_context, ibv_td_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->comp_mask != 0)
    return refuse_pointer(*context, EOPNOTSUPP, "ibv_alloc_td: unknown bits in comp_mask");
  auto* domain = new (std::nothrow) ThreadDomain;
  if (domain == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  domain->base.context = public_context;
  return &domain->base;
}

int dealloc_td(ibv_td* td) {
  auto* domain = reinterpret_cast<ThreadDomain*>(td);
  if (domain->users != 0) return EBUSY;
  delete domain;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* public_context, ibv_parent_domain_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->pd == nullptr || (attributes->comp_mask & ~kParentMask) != 0)
    return refuse_pointer(*context, EINVAL, "ibv_alloc_parent_domain: no pd, or unknown bits in comp_mask");
  if ((attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0 &&
      (attributes->alloc == nullptr || attributes->free == nullptr))
    return refuse_pointer(*context, EINVAL, "ibv_alloc_parent_domain: allocators come in pairs");
  if (attributes->pd->context != public_context ||
      (attributes->td != nullptr && attributes->td->context != public_context))
    return refuse_pointer(*context, EINVAL, "ibv_alloc_parent_domain: pd and td are not of the same context");
  ProtectionDomain* origin = ProtectionDomain::of(attributes->pd);
  if (origin->origin != nullptr)
    return refuse_pointer(*context, EINVAL, "ibv_alloc_parent_domain: pd is a parent domain itself");
  ProtectionDomain* domain = new_domain(*context, origin->device);
  if (domain == nullptr) return nullptr;
  domain->origin = origin;
  ++origin->users;
  domain->parent = *attributes;
  if (attributes->td != nullptr) {
    domain->thread_domain = reinterpret_cast<ThreadDomain*>(attributes->td);
    ++domain->thread_domain->users;
  }
  return &domain->base;
}

int release_parent_domain(ProtectionDomain* domain) {
  if (domain->thread_domain != nullptr) --domain->thread_domain->users;
  --domain->origin->users;
  delete domain;
  return 0;
}

}  // namespace

void install_domain_operations(verbs_context& verbs) {
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  verbs.alloc_parent_domain = alloc_parent_domain;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* public_context) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  auto device = context->hca->create_pd();
  if (!device) return refuse_pointer(*context, device.error());
  ProtectionDomain* domain = new_domain(*context, *device);
  if (domain == nullptr) {
    static_cast<void>(context->hca->destroy_pd(*device));
    return nullptr;
  }
  if (context->board != nullptr && !context->imported) context->board->show_domain(domain->base.handle);
  return &domain->base;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  ProtectionDomain* domain = ProtectionDomain::of(pd);
  Context& context = *domain->context;
  if (context.abandoned) {
    delete domain;
    return 0;
  }
  if (domain->users != 0)
    return refuse(context, EBUSY, "ibv_dealloc_pd: objects still belong to the protection domain");
  if (domain->origin != nullptr) return release_parent_domain(domain);
  if (const int error = settle(context, context.hca->destroy_pd(domain->device))) return error;
  if (context.board != nullptr && !context.imported && !domain->imported)
    context.board->hide_domain(domain->base.handle);
  delete domain;
  return 0;
}

}  // extern "C"
