// SPDX-License-Identifier: MIT
// XRC domains, and the receivers in them.
//
// A domain is that of a file: whoever opens it by a descriptor of the same file, in any process, has the same
// one. The agent knows which there are.
#include "lib/ibverbs/xrc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <unordered_map>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"
#include "lib/ibverbs/waiting.h"

namespace verbatim::verbs {
namespace {

constexpr uint32_t kDomainMask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

/// The receivers of the process, by number. Never freed: other destructors may still end some.
struct Receivers {
  std::mutex lock;
  std::unordered_map<uint32_t, XrcReceiver*> by_number;
};
Receivers& receivers() {
  static Receivers* const kept = new Receivers;
  return *kept;
}

/// The identity of the domain of a file; 0: of none, the domain is its own.
Expected<uint64_t> identity_of(Context& context, int fd, int flags) {
  if (fd == -1) return uint64_t{0};
  struct stat file {};
  if (fstat(fd, &file) != 0) return Error{EBADF, "ibv_open_xrcd: the descriptor is not open"};
  return context.opened->open_xrc_domain({file.st_dev, file.st_ino}, (flags & O_CREAT) != 0,
                                         (flags & O_EXCL) != 0);
}

ibv_xrcd* open_xrcd(ibv_context* public_context, ibv_xrcd_init_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if (attributes->comp_mask != kDomainMask)
    return refuse_pointer(*context, (attributes->comp_mask & ~kDomainMask) != 0 ? EOPNOTSUPP : EINVAL,
                          "ibv_open_xrcd: comp_mask is to name fd and oflags, and nothing else");
  auto domain = std::unique_ptr<XrcDomain>(new (std::nothrow) XrcDomain);
  if (domain == nullptr) return refuse_pointer(*context, ENOMEM, "no memory for an XRC domain");
  const auto identity = identity_of(*context, attributes->fd, attributes->oflags);
  if (!identity) return refuse_pointer(*context, identity.error());
  const auto number = context->hca->create_xrcd(*identity);
  if (!number) {
    if (*identity != 0) context->opened->close_xrc_domain(*identity);
    return refuse_pointer(*context, number.error());
  }
  domain->base.context = public_context;
  domain->number = *number;
  domain->identity = *identity;
  return &domain.release()->base;
}

int close_xrcd(ibv_xrcd* public_domain) {
  XrcDomain* domain = XrcDomain::of(public_domain);
  Context& context = *Context::of(public_domain->context);
  if (!context.abandoned) {
    if (domain->users != 0)
      return refuse(context, EBUSY, "ibv_close_xrcd: queues still belong to the XRC domain");
    if (const int error = settle(context, context.hca->destroy_xrcd(domain->number))) return error;
    if (domain->identity != 0) context.opened->close_xrc_domain(domain->identity);
  }
  delete domain;
  return 0;
}

QueuePair* add_handle(Context& context, XrcReceiver& receiver) {
  QueuePair* handle = context.provider->open_qp(context, *receiver.behind);
  if (handle == nullptr) return nullptr;
  handle->context = &context;
  handle->receiver = &receiver;
  const std::lock_guard guard(receiver.lock);
  receiver.handles.push_back(handle);
  return handle;
}

ibv_qp* open_qp(ibv_context* public_context, ibv_qp_open_attr* attributes) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  Context* context = usable(public_context);
  if (context == nullptr) return nullptr;
  if ((attributes->comp_mask & kNeeded) != kNeeded ||
      (attributes->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0)
    return refuse_pointer(*context, EINVAL, "ibv_open_qp: comp_mask is to name number, domain and type");
  if (attributes->xrcd == nullptr) return refuse_pointer(*context, EINVAL, "ibv_open_qp: no XRC domain");
  const XrcDomain& domain = *XrcDomain::of(attributes->xrcd);
  const std::lock_guard hold(receivers().lock);
  const auto found = receivers().by_number.find(attributes->qp_num);
  const bool same_domain = found != receivers().by_number.end() &&
                           (found->second->domain == &domain ||
                            (domain.identity != 0 && found->second->identity == domain.identity));
  if (attributes->qp_type != IBV_QPT_XRC_RECV || !same_domain)
    return refuse_pointer(*context, EINVAL,
                          "ibv_open_qp: this process has no XRC_RECV queue pair of that number in the domain",
                          attributes->qp_num);
  XrcReceiver& receiver = *found->second;
  QueuePair* handle = add_handle(*context, receiver);
  if (handle == nullptr) return nullptr;
  ibv_qp& base = handle->qp;
  base.context = public_context;
  if ((attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) base.qp_context = attributes->qp_context;
  base.handle = base.qp_num = attributes->qp_num;
  base.qp_type = IBV_QPT_XRC_RECV;
  base.state = static_cast<ibv_qp_state>(receiver.behind->context->hca->query_qp(handle->device).state);
  init_waiting(base);
  add_object(*context, *handle);
  return &base;
}

}  // namespace

QueuePair* make_receiver(Context& context, QueuePair* behind, XrcDomain& domain) {
  auto* receiver = new (std::nothrow) XrcReceiver;
  behind->context = &context;
  QueuePair* handle = nullptr;
  if (receiver != nullptr) {
    receiver->behind = behind;
    receiver->domain = &domain;
    receiver->identity = domain.identity;
    behind->receiver = receiver;
    handle = add_handle(context, *receiver);
  }
  if (handle == nullptr) {
    static_cast<void>(context.provider->destroy_qp(*behind));
    context.provider->free_qp(*behind);
    delete receiver;
    return refuse_pointer(context, ENOMEM, "no memory for a queue pair");
  }
  ++domain.users;
  const std::lock_guard hold(receivers().lock);
  receivers().by_number[behind->device->number] = receiver;
  return handle;
}

bool is_last_handle(QueuePair& handle) {
  const std::lock_guard hold(receivers().lock);
  XrcReceiver& receiver = *handle.receiver;
  const std::lock_guard guard(receiver.lock);
  if (receiver.handles.size() > 1) {
    std::erase(receiver.handles, &handle);
    return false;
  }
  receivers().by_number.erase(receiver.behind->device->number);  // nobody opens it any more
  return true;
}

void leave_receiver(QueuePair& handle) {
  const std::lock_guard guard(handle.receiver->lock);
  std::erase(handle.receiver->handles, &handle);
}

void release_receiver(XrcReceiver* receiver) {
  --receiver->domain->users;
  receiver->behind->context->provider->free_qp(*receiver->behind);
  delete receiver;
}

void install_xrc_operations(verbs_context& verbs) {
  verbs.open_xrcd = open_xrcd;
  verbs.close_xrcd = close_xrcd;
  verbs.open_qp = open_qp;
}

}  // namespace verbatim::verbs
