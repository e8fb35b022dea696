// SPDX-License-Identifier: MIT
#include "device/connectx/command_device.h"

#include <cerrno>
#include <string>

#include "device/connectx/bsf.h"
#include "device/connectx/connectx_hca.h"
#include "device/connectx/prm/sizes.h"

namespace verbatim::connectx {

CommandDevice::CommandDevice(ConnectxHca& hca, ObjectNumbers& numbers, ProtectionDevice& protection)
    : hca_(hca), numbers_(numbers), protection_(protection) {}

void CommandDevice::destroy_leftovers() {
  const std::lock_guard hold(numbers_.lock);
  // These refer to objects of the store, which others of the store may refer to.
  while (!numbers_.xrc_srqs.empty())
    if (!hca_.destroy_srq(numbers_.xrc_srqs.begin()->second)) break;
  objects_.clear();
  queues_.destroy_leftovers();
  while (!numbers_.srqs.empty())
    if (!hca_.destroy_srq(numbers_.srqs.begin()->second)) break;
  for (const auto& [number, umem] : numbers_.umems) delete umem;
  numbers_.umems.clear();
  while (!numbers_.pds.empty()) {
    PdObject* pd = numbers_.pds.begin()->second;
    pd->users = 0;
    (void)hca_.destroy_pd(pd);
  }
}

const hw::Limits& CommandDevice::limits() const { return hca_.limits(); }
hw::PortState CommandDevice::port() { return hca_.port(); }
Expected<uint16_t> CommandDevice::pkey(uint32_t index) { return hca_.pkey(index); }
void CommandDevice::train_link() { hca_.train_link(); }

hw::GidEntry CommandDevice::gid(uint32_t index) {
  return index < hca_.port().gid_entries ? hca_.gid(index) : hw::GidEntry{};
}

Expected<uint32_t> CommandDevice::alloc_pd(uint16_t uid) {
  const Expected<hw::Pd*> made = hca_.create_pd();
  if (!made) return made.error();
  auto* pd = static_cast<PdObject*>(*made);
  pd->maker = uid;
  pd->by_command = true;
  return (*made)->number;
}

Outcome CommandDevice::dealloc_pd(uint16_t uid, uint32_t number) {
  PdObject* pd = own(numbers_.pds, uid, number);
  return pd ? hca_.destroy_pd(pd) : Outcome(nobodys("protection domain", number));
}

Expected<uint32_t> CommandDevice::alloc_uar(uint16_t uid) { return hca_.uars().take(uid); }
Outcome CommandDevice::dealloc_uar(uint16_t uid, uint32_t uar) { return hca_.uars().give_back(uid, uar); }

Expected<uint32_t> CommandDevice::create_mkey(uint16_t uid, const prm::MkeySpec& wanted) {
  PdObject* pd = visible(numbers_.pds, uid, wanted.pd);
  if (!pd) return nobodys("protection domain", wanted.pd);
  hw::MrSpec spec;
  spec.pd = pd;
  spec.length = wanted.length;
  spec.start = wanted.start;
  spec.access = wanted.access;
  spec.queue = wanted.queue;
  UmemObject* umem = nullptr;
  const Expected<hw::Mr*> region =
      wanted.access & engine::kIndirect
          ? hca_.create_list_key(
                spec,
                {wanted.room, wanted.log_entry_size ? uint64_t{1} << wanted.log_entry_size : 0,
                 wanted.protectable, wanted.encrypts ? unconfigured_crypto() : nullptr},
                wanted.list, wanted.variant)
          : make_umem_key(uid, spec, wanted, umem);
  if (!region) return region.error();
  const uint32_t index = (*region)->lkey >> 8;
  mkeys_[index] = {uid, wanted, *region, umem};
  mkeys_[index].spec.list.clear();
  return index;
}

Expected<hw::Mr*> CommandDevice::make_umem_key(uint16_t uid, const hw::MrSpec& part,
                                               const prm::MkeySpec& wanted, UmemObject*& umem) {
  umem = visible(numbers_.umems, uid, wanted.umem);
  if (umem == nullptr) return nobodys("umem", wanted.umem);
  constexpr uint32_t kWrites = engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteAtomic;
  if ((wanted.access & kWrites) && !(umem->spec.access & engine::kLocalWrite))
    return Error{EINVAL, "the key is to write to a umem that was registered for reading"};
  if (wanted.umem_offset > umem->spec.length || wanted.length > umem->spec.length - wanted.umem_offset)
    return Error{EINVAL, "the key reaches beyond its umem"};
  hw::MrSpec spec = part;
  spec.address = umem->spec.address + wanted.umem_offset;
  const Expected<hw::Mr*> region = hca_.create_mkey(spec, wanted.variant);
  if (region) umem->users++;
  return region;
}

prm::SpecialKeys CommandDevice::special_keys() {
  prm::SpecialKeys keys;
  keys.null_mkey = keys.dump_fill_mkey = engine::KeyTable::kNullKey;
  keys.terminate_scatter_list = kInvalidKey;
  keys.repeated_mkey = kRepeatKey;
  return keys;
}

Expected<prm::MkeySpec> CommandDevice::query_mkey(uint16_t uid, uint32_t index) {
  const auto found = mkeys_.find(index);
  if (found == mkeys_.end() || found->second.maker != uid) return nobodys("memory key", index);
  prm::MkeySpec spec = found->second.spec;
  hca_.show_key(index, spec);
  return spec;
}

Outcome CommandDevice::destroy_mkey(uint16_t uid, uint32_t index) {
  const auto found = mkeys_.find(index);
  if (found == mkeys_.end() || found->second.maker != uid) return nobodys("memory key", index);
  const Mkey key = found->second;
  mkeys_.erase(found);
  if (key.umem) key.umem->users--;
  return hca_.destroy_mr(key.region);
}

bool CommandDevice::has_rate(uint16_t index) { return hca_.has_pacing(index); }

Expected<uint32_t> CommandDevice::create_scheduling_element(uint16_t uid, const hw::SchedulingSpec& spec) {
  const Expected<uint32_t> number = hca_.create_scheduling_element(spec);
  if (number) scheduling_makers_[*number] = uid;
  return number;
}

Outcome CommandDevice::modify_scheduling_element(uint16_t uid, uint32_t number, uint32_t mask,
                                                 const hw::SchedulingSpec& spec) {
  const auto found = scheduling_makers_.find(number);
  if (found == scheduling_makers_.end() || found->second != uid) return nobodys("scheduling element", number);
  return hca_.modify_scheduling_element(number, mask, spec);
}

Outcome CommandDevice::destroy_scheduling_element(uint16_t uid, uint32_t number) {
  const auto found = scheduling_makers_.find(number);
  if (found == scheduling_makers_.end() || found->second != uid) return nobodys("scheduling element", number);
  Outcome destroyed = hca_.destroy_scheduling_element(number);
  if (destroyed) scheduling_makers_.erase(found);
  return destroyed;
}

Expected<prm::QpFacts> CommandDevice::query_qp(uint16_t uid, uint32_t qpn) {
  QpObject* qp = visible(numbers_.qps, uid, qpn);
  if (!qp) return nobodys("queue pair", qpn);
  prm::QpFacts facts;
  facts.type = qp->type;
  facts.attributes = hca_.query_qp(qp);
  facts.extras = hca_.qp_extras(qp);
  if (qp->pd) facts.pd = qp->pd->number;
  if (qp->send_cq) facts.send_cqn = qp->send_cq->number;
  if (qp->receive_cq) facts.receive_cqn = qp->receive_cq->number;
  facts.xrcd = qp->xrcd;
  if (qp->srq) facts.srqn = qp->srq->number;
  facts.user_index = qp->user_index;
  facts.log_send_blocks = prm::log2_of(qp->send_entries);
  facts.log_receive_entries = prm::log2_of(qp->receive_entries);
  facts.receive_stride = qp->receive_stride;
  facts.sends = qp->send_entries != 0;
  if (const prm::QpContext* made = queues_.context_of_qp(qpn)) {
    facts.uar = made->uar;
    facts.doorbell = made->doorbell;
    facts.in_umems = true;
  }
  return facts;
}

Outcome CommandDevice::change_qp(uint16_t uid, uint32_t qpn, uint32_t mask, const hw::QpExtras& extras) {
  QpObject* qp = visible(numbers_.qps, uid, qpn);
  return qp ? hca_.change_qp(qp, mask, extras) : Outcome(nobodys("queue pair", qpn));
}

Outcome CommandDevice::reset_stream(uint16_t uid, uint32_t qpn, uint16_t stream) {
  QpObject* qp = visible(numbers_.qps, uid, qpn);
  return qp ? hca_.reset_stream(qp, stream) : Outcome(nobodys("queue pair", qpn));
}

Outcome CommandDevice::modify_qp(uint16_t uid, uint32_t qpn, const hw::QpAttributes& attributes,
                                 uint32_t mask) {
  QpObject* qp = visible(numbers_.qps, uid, qpn);
  return qp ? hca_.modify_qp(qp, attributes, mask) : Outcome(nobodys("queue pair", qpn));
}

}  // namespace verbatim::connectx
