// SPDX-License-Identifier: MIT
#pragma once

#include <unordered_map>

#include "device/connectx/command_queues.h"
#include "device/connectx/counter_sets.h"
#include "device/connectx/object_numbers.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/protection_device.h"
#include "device/connectx/raw_queue.h"

namespace verbatim::connectx {

class ConnectxHca;

/// What the command mailboxes of an opened device act on: its typed commands, by number. Objects that the
/// host side made may be asked and changed by every user context, and are destroyed by the host side only.
class CommandDevice final : public prm::CommandUnit, private prm::DeviceObjects {
 public:
  /// All three must outlive it. All calls are made with `numbers.lock` held.
  CommandDevice(ConnectxHca& hca, ObjectNumbers& numbers, ProtectionDevice& protection);
  /// Takes down what commands made, once the device has ended its queue pairs and keys.
  void destroy_leftovers();
  /// What rules steer to by the number of a TIR. ENOENT: there is none.
  Expected<std::shared_ptr<engine::FrameTarget>> frame_target(uint32_t tirn);
  /// Objects have changed that such targets are made of.
  void follow_objects();
  /// Removes the rules that steer to them.
  void forget_targets();
  /// A queue pair is about to be destroyed.
  void retire(QpObject& qp) { counters_.retire(qp); }

  const hw::Limits& limits() const override;
  hw::PortState port() override;
  hw::GidEntry gid(uint32_t index) override;
  Expected<uint16_t> pkey(uint32_t index) override;
  void train_link() override;
  prm::SpecialKeys special_keys() override;
  prm::ProtectionUnit& protection() override { return protection_; }

  Expected<uint32_t> alloc_pd(uint16_t uid) override;
  Outcome dealloc_pd(uint16_t uid, uint32_t pd) override;
  Expected<uint32_t> alloc_uar(uint16_t uid) override;
  Outcome dealloc_uar(uint16_t uid, uint32_t uar) override;
  bool has_user_context(uint16_t uid) override;
  bool has_objects_of(uint16_t uid) override;
  prm::ObjectStore& objects() override { return objects_; }
  Expected<uint32_t> create_umem(uint16_t uid, const hw::UmemSpec& spec) override;
  Outcome destroy_umem(uint16_t uid, uint32_t umem) override;
  Expected<std::unique_ptr<prm::RawQueueBody>> make_raw_queue(const prm::RawQueueSpec& spec) override;

  bool has_rate(uint16_t index) override;
  Outcome count_in(uint16_t uid, uint32_t qpn, uint32_t set) override;
  Expected<prm::QueueCounts> queue_counts(uint16_t uid, uint32_t set, bool clear) override;
  prm::PortCounts port_counts(bool clear) override { return counters_.port(clear); }

  Expected<uint32_t> create_mkey(uint16_t uid, const prm::MkeySpec& spec) override;
  Expected<prm::MkeySpec> query_mkey(uint16_t uid, uint32_t index) override;
  Outcome destroy_mkey(uint16_t uid, uint32_t index) override;

  Expected<uint32_t> create_scheduling_element(uint16_t uid, const hw::SchedulingSpec& spec) override;
  Outcome modify_scheduling_element(uint16_t uid, uint32_t number, uint32_t mask,
                                    const hw::SchedulingSpec& spec) override;
  Outcome destroy_scheduling_element(uint16_t uid, uint32_t number) override;
  Expected<uint32_t> create_eq(uint16_t uid, const prm::EqContext& context) override {
    return queues_.create_eq(uid, context);
  }
  Expected<prm::EqFacts> query_eq(uint16_t uid, uint32_t eqn) override { return queues_.query_eq(uid, eqn); }
  Outcome destroy_eq(uint16_t uid, uint32_t eqn) override { return queues_.destroy_eq(uid, eqn); }
  Expected<uint32_t> create_cq(uint16_t uid, const prm::CqContext& context) override {
    return queues_.create_cq(uid, context);
  }
  Expected<prm::CqFacts> query_cq(uint16_t uid, uint32_t cqn) override { return queues_.query_cq(uid, cqn); }
  Outcome modify_cq(uint16_t uid, uint32_t cqn, const prm::CqContext& context) override {
    return queues_.modify_cq(uid, cqn, context);
  }
  Outcome resize_cq(uint16_t uid, uint32_t cqn, const prm::Place& ring, uint32_t entries) override {
    return queues_.resize_cq(uid, cqn, ring, entries);
  }
  Outcome destroy_cq(uint16_t uid, uint32_t cqn) override { return queues_.destroy_cq(uid, cqn); }
  Expected<uint32_t> create_qp(uint16_t uid, const prm::QpContext& context) override {
    return queues_.create_qp(uid, context);
  }
  Outcome destroy_qp(uint16_t uid, uint32_t qpn) override { return queues_.destroy_qp(uid, qpn); }
  Expected<uint32_t> create_dct(uint16_t uid, const prm::DctContext& context) override {
    return queues_.create_dct(uid, context);
  }
  Expected<prm::DctFacts> query_dct(uint16_t uid, uint32_t dctn) override {
    return queues_.query_dct(uid, dctn);
  }
  Outcome drain_dct(uint16_t uid, uint32_t dctn) override { return queues_.drain_dct(uid, dctn); }
  Outcome arm_dct(uint16_t uid, uint32_t dctn) override { return queues_.arm_dct(uid, dctn); }
  Outcome destroy_dct(uint16_t uid, uint32_t dctn) override { return queues_.destroy_dct(uid, dctn); }
  Expected<uint32_t> create_rmp(uint16_t uid, const prm::RmpContext& context) override {
    return queues_.create_rmp(uid, context);
  }
  Expected<prm::RmpFacts> query_rmp(uint16_t uid, uint32_t rmpn) override {
    return queues_.query_rmp(uid, rmpn);
  }
  Outcome arm_rmp(uint16_t uid, uint32_t rmpn, uint32_t limit) override {
    return queues_.arm_rmp(uid, rmpn, limit);
  }
  Outcome destroy_rmp(uint16_t uid, uint32_t rmpn) override { return queues_.destroy_rmp(uid, rmpn); }

  Expected<prm::QpFacts> query_qp(uint16_t uid, uint32_t qpn) override;
  Outcome change_qp(uint16_t uid, uint32_t qpn, uint32_t mask, const hw::QpExtras& extras) override;
  Outcome reset_stream(uint16_t uid, uint32_t qpn, uint16_t stream) override;
  Outcome modify_qp(uint16_t uid, uint32_t qpn, const hw::QpAttributes& attributes, uint32_t mask) override;

 private:
  struct Mkey {
    uint16_t maker;
    prm::MkeySpec spec;
    hw::Mr* region;
    UmemObject* umem;  ///< nullptr: it stands for other keys
  };
  Expected<hw::Mr*> make_umem_key(uint16_t uid, const hw::MrSpec& spec, const prm::MkeySpec& wanted,
                                  UmemObject*& umem);
  std::shared_ptr<const SpreadTarget::Plan> plan_of(const prm::Object& tir);
  Outcome hold(uint16_t uid, prm::ObjectId id) override;
  void let_go(prm::ObjectId id) override;

  ConnectxHca& hca_;
  ObjectNumbers& numbers_;
  ProtectionDevice& protection_;
  CommandQueues queues_{hca_, numbers_};
  std::unordered_map<uint32_t, Mkey> mkeys_;  ///< by index
  std::unordered_map<uint32_t, uint16_t> scheduling_makers_;
  prm::ObjectStore objects_{*this};
  std::unordered_map<uint32_t, std::weak_ptr<SpreadTarget>> spread_targets_;  ///< by the number of the TIR
  CounterSets counters_{numbers_, objects_};
};

}  // namespace verbatim::connectx
