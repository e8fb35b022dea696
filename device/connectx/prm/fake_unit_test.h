// SPDX-License-Identifier: MIT
#pragma once

// A device of numbers only, and mailboxes that fit a command exactly, so that a sanitizer sees every step
// beyond them.

#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/raw_queue.h"

namespace verbatim::prm {

/// Remembers the states that it has been told of.
class FakeQueue final : public RawQueueBody {
 public:
  void wish(const engine::FrameWishes& /*wishes*/) override {}
  bool has_failed() override { return false; }
  explicit FakeQueue(std::vector<RqState>& states) : states_(states) {}
  void enter(RqState state, uint32_t) override { states_.push_back(state); }

 private:
  std::vector<RqState>& states_;
};

/// Says yes to everything.
class FakeProtection final : public ProtectionUnit {
 public:
  CryptoFacts crypto_facts() const override { return facts_; }
  Expected<uint32_t> create_dek(uint16_t, const DekSpec& spec) override {
    dek_ = spec;
    return kNumber;
  }
  Expected<uint64_t> query_dek(uint16_t, uint32_t number) override {
    if (number != kNumber) return Error{ENOENT, "no such key"};
    return dek_.opaque;
  }
  Outcome destroy_dek(uint16_t, uint32_t) override { return Done{}; }
  Expected<uint32_t> create_login(uint16_t, const LoginSpec& spec) override {
    login_ = spec;
    return kNumber;
  }
  Expected<bool> query_login(uint16_t, uint32_t) override { return valid_; }
  Outcome destroy_login(uint16_t, uint32_t) override { return Done{}; }
  Expected<std::vector<uint32_t>> create_psvs(uint16_t, uint32_t, uint32_t count) override {
    std::vector<uint32_t> made;
    for (uint32_t i = 0; i < count; i++) made.push_back(kNumber + i);
    return made;
  }
  Outcome destroy_psv(uint16_t, uint32_t) override { return Done{}; }

  static constexpr uint32_t kNumber = 0x654321;
  CryptoFacts facts_;
  DekSpec dek_;      ///< what the last create_dek asked for
  LoginSpec login_;  ///< and create_login
  bool valid_ = true;
};

class FakeUnit final : public CommandUnit, private DeviceObjects {
 public:
  const hw::Limits& limits() const override { return limits_; }
  hw::PortState port() override { return port_; }
  hw::GidEntry gid(uint32_t index) override { return index < gids_.size() ? gids_[index] : hw::GidEntry{}; }
  Expected<uint16_t> pkey(uint32_t index) override {
    if (index > 0) return Error{EINVAL, "the P_Key table has only entry 0"};
    return uint16_t{0xffff};
  }
  void train_link() override { trained_++; }
  SpecialKeys special_keys() override { return keys_; }
  ProtectionUnit& protection() override { return protection_; }

  Expected<uint32_t> alloc_pd(uint16_t uid) override { return take(pds_, uid); }
  Outcome dealloc_pd(uint16_t uid, uint32_t pd) override {
    return give_back(pds_, uid, pd, "protection domain");
  }
  Expected<uint32_t> alloc_uar(uint16_t uid) override { return take(uars_, uid); }
  Outcome dealloc_uar(uint16_t uid, uint32_t uar) override { return give_back(uars_, uid, uar, "UAR"); }
  bool has_user_context(uint16_t) override { return true; }
  bool has_objects_of(uint16_t uid) override {
    for (const auto& [number, owner] : pds_)
      if (owner == uid) return true;
    return false;
  }
  ObjectStore& objects() override { return objects_; }
  Expected<uint32_t> create_umem(uint16_t uid, const hw::UmemSpec& spec) override {
    umem_ = spec;
    return take(umems_, uid);
  }
  Outcome destroy_umem(uint16_t uid, uint32_t umem) override { return give_back(umems_, uid, umem, "umem"); }
  bool has_rate(uint16_t index) override { return index == kRate; }
  Expected<std::unique_ptr<RawQueueBody>> make_raw_queue(const RawQueueSpec& spec) override {
    queue_ = spec;
    if (spec.bytes > umem_bytes_) return Error{EINVAL, "the work queue reaches beyond its umem"};
    return std::unique_ptr<RawQueueBody>(std::make_unique<FakeQueue>(states_));
  }
  Outcome count_in(uint16_t, uint32_t, uint32_t set) override {
    counted_in_ = set;
    return Done{};
  }
  Expected<QueueCounts> queue_counts(uint16_t uid, uint32_t set, bool) override {
    if (set != 0)
      if (const auto found = objects_.find(uid, {ObjectKind::kQCounter, set}); !found) return found.error();
    return counts_;
  }
  PortCounts port_counts(bool) override { return port_counts_; }

  Expected<uint32_t> create_mkey(uint16_t uid, const MkeySpec& spec) override {
    mkey_ = spec;
    return take(mkeys_, uid);
  }
  Expected<MkeySpec> query_mkey(uint16_t, uint32_t index) override {
    if (!mkeys_.contains(index)) return Error{ENOENT, "no such key"};
    return mkey_;
  }
  Outcome destroy_mkey(uint16_t uid, uint32_t index) override {
    return give_back(mkeys_, uid, index, "memory key");
  }

  Expected<uint32_t> create_scheduling_element(uint16_t uid, const hw::SchedulingSpec& spec) override {
    scheduling_ = spec;
    return take(elements_, uid);
  }
  Outcome modify_scheduling_element(uint16_t, uint32_t number, uint32_t mask,
                                    const hw::SchedulingSpec& spec) override {
    if (!elements_.contains(number)) return Error{ENOENT, "no such element"};
    scheduling_ = spec;
    mask_ = mask;
    return Done{};
  }
  Outcome destroy_scheduling_element(uint16_t uid, uint32_t number) override {
    return give_back(elements_, uid, number, "scheduling element");
  }

  Expected<uint32_t> create_eq(uint16_t uid, const EqContext& context) override {
    eq_.context = context;
    return take(queues_, uid);
  }
  Expected<EqFacts> query_eq(uint16_t, uint32_t eqn) override { return known(eqn, eq_); }
  Outcome destroy_eq(uint16_t uid, uint32_t eqn) override {
    return give_back(queues_, uid, eqn, "event queue");
  }
  Expected<uint32_t> create_cq(uint16_t uid, const CqContext& context) override {
    cq_.context = context;
    return take(queues_, uid);
  }
  Expected<CqFacts> query_cq(uint16_t, uint32_t cqn) override { return known(cqn, cq_); }
  Outcome modify_cq(uint16_t, uint32_t, const CqContext& context) override {
    cq_.context = context;
    return Done{};
  }
  Outcome resize_cq(uint16_t, uint32_t, const Place& ring, uint32_t entries) override {
    cq_.context.ring = ring;
    cq_.context.entries = entries;
    return Done{};
  }
  Outcome destroy_cq(uint16_t uid, uint32_t cqn) override { return give_back(queues_, uid, cqn, "CQ"); }
  Expected<uint32_t> create_qp(uint16_t uid, const QpContext& context) override {
    qp_context_ = context;
    return take(queues_, uid);
  }
  Outcome destroy_qp(uint16_t uid, uint32_t qpn) override {
    return give_back(queues_, uid, qpn, "queue pair");
  }
  Expected<uint32_t> create_dct(uint16_t uid, const DctContext& context) override {
    dct_.context = context;
    return take(queues_, uid);
  }
  Expected<DctFacts> query_dct(uint16_t, uint32_t dctn) override { return known(dctn, dct_); }
  Outcome drain_dct(uint16_t, uint32_t) override {
    dct_.state = DctState::kDraining;
    return Done{};
  }
  Outcome arm_dct(uint16_t, uint32_t) override { return Done{}; }
  Outcome destroy_dct(uint16_t uid, uint32_t dctn) override {
    return give_back(queues_, uid, dctn, "DC target");
  }
  Expected<uint32_t> create_rmp(uint16_t uid, const RmpContext& context) override {
    rmp_.context = context;
    return take(queues_, uid);
  }
  Expected<RmpFacts> query_rmp(uint16_t, uint32_t rmpn) override { return known(rmpn, rmp_); }
  Outcome arm_rmp(uint16_t, uint32_t, uint32_t limit) override {
    rmp_.context.limit = limit;
    return Done{};
  }
  Outcome destroy_rmp(uint16_t uid, uint32_t rmpn) override { return give_back(queues_, uid, rmpn, "RMP"); }

  Expected<QpFacts> query_qp(uint16_t, uint32_t qpn) override {
    if (qpn != kQpn) return Error{ENOENT, "the context has no queue pair of number " + std::to_string(qpn)};
    return qp_;
  }
  Outcome modify_qp(uint16_t, uint32_t, const hw::QpAttributes& attributes, uint32_t mask) override {
    modified_ = attributes;
    qp_.attributes.state = attributes.state;
    mask_ = mask;
    return Done{};
  }

  Outcome reset_stream(uint16_t, uint32_t, uint16_t stream) override {
    stream_ = stream;
    return Done{};
  }
  Outcome change_qp(uint16_t, uint32_t, uint32_t mask, const hw::QpExtras& extras) override {
    extras_ = extras;
    extras_mask_ = mask;
    return Done{};
  }

  static constexpr uint32_t kQpn = 0x123456;
  DctFacts dct_;
  uint16_t stream_ = 0;  ///< what the last reset_stream asked for
  static constexpr uint16_t kRate = 5;
  hw::QpExtras extras_;  ///< what the last change_qp asked for
  uint32_t extras_mask_ = 0;
  hw::SchedulingSpec scheduling_;  ///< what the last call about an element asked for
  // What the last creations and changes of queues asked for, and what queries answer.
  EqFacts eq_;
  CqFacts cq_;
  QpContext qp_context_;
  RmpFacts rmp_;
  static constexpr uint32_t kCqn = 0x77, kUmem = 0x55;   ///< that there are
  hw::UmemSpec umem_;                                    ///< what the last create_umem asked for
  uint64_t umem_bytes_ = 1 << 20;                        ///< of every umem
  RawQueueSpec queue_;                                   ///< what the last make_raw_queue asked for
  std::vector<RqState> states_;                          ///< that queues have entered
  std::map<std::pair<ObjectKind, uint32_t>, int> held_;  ///< references to the device's own objects
  uint32_t counted_in_ = 0;
  QueueCounts counts_;
  PortCounts port_counts_;
  MkeySpec mkey_;  ///< what the last create_mkey asked for
  QpFacts qp_;
  hw::QpAttributes modified_;  ///< what the last modify_qp asked for
  uint32_t mask_ = 0;
  hw::Limits limits_;
  hw::PortState port_;
  uint32_t trained_ = 0;
  std::vector<hw::GidEntry> gids_;
  SpecialKeys keys_;
  FakeProtection protection_;

 private:
  using Owners = std::map<uint32_t, uint16_t>;

  Outcome hold(uint16_t uid, ObjectId id) override {
    const auto owned = [&](const Owners& owners) {
      const auto found = owners.find(id.number);
      return found != owners.end() && found->second == uid;
    };
    const bool there = id.kind == ObjectKind::kPd    ? owned(pds_)
                       : id.kind == ObjectKind::kUar ? owned(uars_)
                       : id.kind == ObjectKind::kCq  ? id.number == kCqn
                                                     : id.kind == ObjectKind::kUmem && id.number == kUmem;
    if (!there) return no_such(id);
    held_[{id.kind, id.number}]++;
    return Done{};
  }
  void let_go(ObjectId id) override { held_[{id.kind, id.number}]--; }

  Expected<uint32_t> take(Owners& owners, uint16_t uid) {
    owners[++last_] = uid;
    return last_;
  }
  template <class Facts>
  Expected<Facts> known(uint32_t number, const Facts& facts) const {
    if (queues_.contains(number)) return facts;
    return Error{ENOENT, "the context has no queue of number " + std::to_string(number)};
  }
  Outcome give_back(Owners& owners, uint16_t uid, uint32_t number, const char* what) {
    const auto found = owners.find(number);
    if (found == owners.end() || found->second != uid)
      return Error{ENOENT,
                   std::string("the context has no ") + what + " of number " + std::to_string(number)};
    owners.erase(found);
    return Done{};
  }

  Owners pds_, uars_, umems_, mkeys_, elements_, queues_;
  ObjectStore objects_{*this};
  uint32_t last_ = 0xabcd00;
};

/// The bytes of a command's input, with opcode and op_mod.
inline std::vector<uint8_t> input_of(uint16_t opcode, uint32_t mod, size_t bytes) {
  std::vector<uint8_t> box(bytes);
  const Writer<MboxIn> head(box);
  head.set(MboxIn::opcode, opcode);
  head.set(MboxIn::op_mod, mod == CommandInfo::kAnyMod ? 0 : mod);
  return box;
}

}  // namespace verbatim::prm
