// SPDX-License-Identifier: MIT
// What the device does for objects that commands make: they have no host side of their own, so that their
// events and doorbells go other ways.
#include <cstring>

#include "device/connectx/connectx_hca.h"

namespace verbatim::connectx {

namespace {

/// The object's events name itself (EventRouter::on_async).
template <class Face, class Object>
void belong_to(Object& object, uint16_t uid) {
  object.owner = static_cast<Face*>(&object);
  object.maker = uid;
  object.by_command = true;
}

}  // namespace

Expected<CqObject*> ConnectxHca::create_cq_for(uint16_t uid, const hw::CqSpec& spec) {
  Expected<CqObject*> made = make_cq(spec, router_);
  if (made) belong_to<hw::Cq>(**made, uid);
  return made;
}

Expected<SrqObject*> ConnectxHca::create_srq_for(uint16_t uid, const hw::SrqSpec& spec) {
  Expected<SrqObject*> made = make_srq(uid, spec, router_);
  if (made) belong_to<hw::Srq>(**made, uid);
  return made;
}

Expected<QpObject*> ConnectxHca::create_qp_for(uint16_t uid, const hw::QpSpec& spec) {
  Expected<QpObject*> made = make_qp(uid, spec, router_);
  if (made) belong_to<hw::Qp>(**made, uid);
  return made;
}

void ConnectxHca::ring_register(uint32_t page, uint32_t offset, uint64_t bytes) {
  if (offset == kArmEqRegister || offset == kConsumeEqRegister) {
    uint32_t raw;
    std::memcpy(&raw, &bytes, sizeof raw);
    router_.ring(page, Be32::from_raw(raw), offset == kArmEqRegister);
  } else if (offset == kArmCqRegister) {
    uars_.ring(page, UarTable::Doorbell::kArm);
  } else if (offset >= kFirstSendRegister) {
    uars_.ring(page, UarTable::Doorbell::kSend);
  }
}

}  // namespace verbatim::connectx
