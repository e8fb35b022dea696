// SPDX-License-Identifier: MIT
#pragma once

#include <unordered_map>

#include "device/connectx/prm/queue_unit.h"

namespace verbatim::connectx {

class ConnectxHca;
struct ObjectNumbers;
struct UmemObject;

/// The queues that commands make in umems: see prm::QueueUnit. All calls are made with `numbers.lock` held.
class CommandQueues {
 public:
  /// Both must outlive it.
  CommandQueues(ConnectxHca& hca, ObjectNumbers& numbers) : hca_(hca), numbers_(numbers) {}
  /// Takes down what is left, once the device has ended its queue pairs.
  void destroy_leftovers();

  Expected<uint32_t> create_eq(uint16_t uid, const prm::EqContext& context);
  Expected<prm::EqFacts> query_eq(uint16_t uid, uint32_t eqn);
  Outcome destroy_eq(uint16_t uid, uint32_t eqn);

  Expected<uint32_t> create_cq(uint16_t uid, const prm::CqContext& context);
  Expected<prm::CqFacts> query_cq(uint16_t uid, uint32_t cqn);
  Outcome modify_cq(uint16_t uid, uint32_t cqn, const prm::CqContext& context);
  Outcome resize_cq(uint16_t uid, uint32_t cqn, const prm::Place& ring, uint32_t entries);
  Outcome destroy_cq(uint16_t uid, uint32_t cqn);

  Expected<uint32_t> create_qp(uint16_t uid, const prm::QpContext& context);
  Outcome destroy_qp(uint16_t uid, uint32_t qpn);
  /// What a queue pair was made from; nullptr: no command made it.
  const prm::QpContext* context_of_qp(uint32_t qpn) const {
    const auto made = qps_.find(qpn);
    return made == qps_.end() ? nullptr : &made->second;
  }

  Expected<uint32_t> create_dct(uint16_t uid, const prm::DctContext& context);
  Expected<prm::DctFacts> query_dct(uint16_t uid, uint32_t dctn);
  Outcome drain_dct(uint16_t uid, uint32_t dctn);
  Outcome arm_dct(uint16_t uid, uint32_t dctn);
  Outcome destroy_dct(uint16_t uid, uint32_t dctn);

  Expected<uint32_t> create_rmp(uint16_t uid, const prm::RmpContext& context);
  Expected<prm::RmpFacts> query_rmp(uint16_t uid, uint32_t rmpn);
  Outcome arm_rmp(uint16_t uid, uint32_t rmpn, uint32_t limit);
  Outcome destroy_rmp(uint16_t uid, uint32_t rmpn);

 private:
  ConnectxHca& hca_;
  ObjectNumbers& numbers_;
  // What they were made from, by number: what they keep in use goes with them.
  std::unordered_map<uint32_t, prm::CqContext> cqs_;
  std::unordered_map<uint32_t, prm::QpContext> qps_;
  std::unordered_map<uint32_t, prm::RmpContext> rmps_;
};

}  // namespace verbatim::connectx
