// SPDX-License-Identifier: MIT
// Shared receive queues, and the XRC domains that some of them belong to. Those have numbers of the process,
// as queue pairs have, since messages name them; the others' are the device's.
#include <cerrno>

#include "device/connectx/connectx_hca.h"
#include "device/connectx/queue_checks.h"

namespace verbatim::connectx {

namespace {

/// What an XRC domain keeps in the store of objects, if it was opened with an identity.
struct XrcIdentity final : prm::ObjectBody {
  explicit XrcIdentity(uint64_t value) : identity(value) {}
  const uint64_t identity;
};

constexpr uint64_t kOfItsOwn = 1ull << 63;  ///< the identity of a domain that nobody else can open
constexpr uint32_t kOpenedShift = 24, kSlotShift = 44;

/// Tells opened devices of the process apart.
uint32_t next_device() {
  static std::atomic<uint32_t> opened{0};
  return opened.fetch_add(1) & ((1u << (kSlotShift - kOpenedShift)) - 1);
}

}  // namespace

Expected<hw::Srq*> ConnectxHca::create_srq(const hw::SrqSpec& spec) {
  return face_of<hw::Srq>(make_srq(0, spec, sink_));
}

Expected<SrqObject*> ConnectxHca::make_srq(uint16_t uid, const hw::SrqSpec& spec, hw::EventSink& sink) {
  if (Outcome fits = check_queue(spec.ring, "shared receive"); !fits) return fits.error();
  const uint32_t smallest = spec.bare ? sizeof(DataSegment) : sizeof(SharedNextSegment) + sizeof(DataSegment);
  if (!spec.pd || !spec.doorbell || spec.ring.entries > 65536 || spec.ring.stride < smallest)
    return Error{EINVAL,
                 "a shared receive queue needs a domain, a doorbell record, and at most 65536 entries that "
                 "hold one element or more"};
  if (spec.xrcd && !spec.cq)
    return Error{EINVAL, "a shared receive queue of an XRC domain needs a completion queue"};
  if (spec.tags && (!spec.cq || spec.xrcd || spec.tags > kTagsMax))
    return Error{
        EINVAL,
        "a shared receive queue with a tag list needs a completion queue, no XRC domain, and at most " +
            std::to_string(kTagsMax) + " tags"};
  auto srq = std::make_unique<SrqObject>(spec, sink);
  const std::lock_guard hold_numbers(numbers_.lock);
  {
    const std::lock_guard hold(lock_);
    if (srq_count_ == limits_.max_srq)
      return Error{ENOMEM, "all shared receive queues of the device are in use"};
    srq_count_++;
  }
  if (Outcome numbered = number_srq(uid, *srq); !numbered) {
    const std::lock_guard hold(lock_);
    srq_count_--;
    return numbered.error();
  }
  if (spec.limit) srq->ring.set_limit(spec.limit);
  srq->pd->users++;
  count(5, 1);
  return srq.release();
}

// With the lock of numbers held.
Outcome ConnectxHca::number_srq(uint16_t uid, SrqObject& srq) {
  if (srq.xrcd == 0) {
    const std::lock_guard hold(lock_);
    if ((srq.number = srq_numbers_.take()) == 0)
      return Error{ENOMEM, "all shared receive queues of the device are in use"};
    numbers_.srqs.emplace(srq.number, &srq);
    if (srq.tags) srq.cq->work_queues++;
    return Done{};
  }
  const Expected<uint64_t> domain = hold_xrcd(uid, srq.xrcd);
  if (!domain) return domain.error();
  const Expected<uint32_t> number = engine_.add_shared_queue({*domain, {srq.pd->number, &srq.ring, &srq}});
  if (!number) {
    let_go_of_xrcd(srq.xrcd);
    return number.error();
  }
  srq.number = *number;
  srq.kind = "XRC_SRQ";
  srq.cq->work_queues++;
  numbers_.xrc_srqs.emplace(srq.number, &srq);
  return Done{};
}

Outcome ConnectxHca::destroy_srq(hw::Srq* face) {
  auto* srq = static_cast<SrqObject*>(face);
  const std::lock_guard hold_numbers(numbers_.lock);
  if (srq->users != 0) return Error{EBUSY, "queue pairs still use the shared receive queue"};
  srq->pd->users--;
  if (srq->xrcd != 0) {
    numbers_.xrc_srqs.erase(srq->number);
    engine_.remove_shared_queue(srq->number);
    srq->cq->work_queues--;
    let_go_of_xrcd(srq->xrcd);
  }
  if (srq->tags) srq->cq->work_queues--;
  {
    const std::lock_guard hold(lock_);
    srq_count_--;
    if (srq->xrcd == 0) {
      numbers_.srqs.erase(srq->number);
      srq_numbers_.give_back(srq->number);
    }
  }
  delete srq;
  count(5, -1);
  return Done{};
}

Outcome ConnectxHca::arm_srq(hw::Srq* face, uint32_t limit) {
  static_cast<SrqObject*>(face)->ring.set_limit(limit);
  return Done{};
}

uint32_t ConnectxHca::srq_limit(hw::Srq* face) { return static_cast<SrqObject*>(face)->ring.limit(); }

Expected<uint32_t> ConnectxHca::create_xrcd(uint64_t identity) {
  const std::lock_guard hold(numbers_.lock);
  prm::Object object;
  if (identity != 0) object.body = std::make_unique<XrcIdentity>(identity);
  return commands_.objects().create(0, prm::ObjectKind::kXrcd, std::move(object));
}

Outcome ConnectxHca::destroy_xrcd(uint32_t number) {
  const std::lock_guard hold(numbers_.lock);
  return commands_.objects().destroy(0, {prm::ObjectKind::kXrcd, number});
}

// The identity of a domain, which stays until it is let go of.
Expected<uint64_t> ConnectxHca::hold_xrcd(uint16_t uid, uint32_t number) {
  const std::lock_guard hold(numbers_.lock);
  const prm::ObjectId id{prm::ObjectKind::kXrcd, number};
  if (Outcome held = commands_.objects().hold(uid, id); !held) return held.error();
  if (const auto* body = static_cast<const XrcIdentity*>(commands_.objects().at(id).body.get()))
    return body->identity;
  const Expected<uint32_t> slot = engine_.host().qpn_slot(0);
  static_assert(sizeof(number) * 8 > kOpenedShift);
  if (xrc_device_ == 0) xrc_device_ = kOfItsOwn | uint64_t{next_device()} << kOpenedShift;
  return xrc_device_ | (slot ? uint64_t{*slot} << kSlotShift : 0) | number;
}

void ConnectxHca::let_go_of_xrcd(uint32_t number) {
  const std::lock_guard hold(numbers_.lock);
  commands_.objects().let_go({prm::ObjectKind::kXrcd, number});
}

}  // namespace verbatim::connectx
