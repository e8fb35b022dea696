// SPDX-License-Identifier: MIT
#pragma once

#include <unordered_map>

#include "device/connectx/object_numbers.h"
#include "device/connectx/prm/command_unit.h"

namespace verbatim::connectx {

class ConnectxHca;

/// What the command mailboxes of an opened device act on: its typed commands, by number. Objects that the
/// host side made may be asked and changed by every user context, and are destroyed by the host side only.
class CommandDevice final : public prm::CommandUnit {
 public:
  /// Both must outlive it. All calls are made with `numbers.lock` held.
  CommandDevice(ConnectxHca& hca, ObjectNumbers& numbers);
  /// Takes down what commands made, once the device has ended its queue pairs and keys.
  void destroy_leftovers();

  const hw::Limits& limits() const override;
  hw::PortState port() override;
  hw::GidEntry gid(uint32_t index) override;
  Expected<uint16_t> pkey(uint32_t index) override;
  prm::SpecialKeys special_keys() override;

  Expected<uint32_t> alloc_pd(uint16_t uid) override;
  Outcome dealloc_pd(uint16_t uid, uint32_t pd) override;
  Expected<uint32_t> alloc_uar(uint16_t uid) override;
  Outcome dealloc_uar(uint16_t uid, uint32_t uar) override;
  Expected<uint32_t> alloc_transport_domain(uint16_t uid) override;
  Outcome dealloc_transport_domain(uint16_t uid, uint32_t domain) override;

  Expected<uint32_t> create_mkey(uint16_t uid, const prm::MkeySpec& spec) override;
  Expected<prm::MkeySpec> query_mkey(uint16_t uid, uint32_t index) override;
  Outcome destroy_mkey(uint16_t uid, uint32_t index) override;

  Expected<uint32_t> create_scheduling_element(uint16_t uid, const hw::SchedulingSpec& spec) override;
  Outcome modify_scheduling_element(uint16_t uid, uint32_t number, uint32_t mask,
                                    const hw::SchedulingSpec& spec) override;
  Outcome destroy_scheduling_element(uint16_t uid, uint32_t number) override;

  Expected<prm::QpFacts> query_qp(uint16_t uid, uint32_t qpn) override;
  Outcome modify_qp(uint16_t uid, uint32_t qpn, const hw::QpAttributes& attributes, uint32_t mask) override;

 private:
  struct Mkey {
    uint16_t maker;
    prm::MkeySpec spec;
    hw::Mr* region;
    UmemObject* umem;  ///< nullptr: it stands for other keys
  };
  Expected<hw::Mr*> make_umem_key(const hw::MrSpec& spec, const prm::MkeySpec& wanted, UmemObject*& umem);
  /// Objects that are a number and nothing else.
  class Plain {
   public:
    Plain(const char* what, size_t most) : what_(what), most_(most) {}
    Expected<uint32_t> take(uint16_t uid);
    Outcome give_back(uint16_t uid, uint32_t number);

   private:
    const char* what_;
    size_t most_;
    NumberSpace numbers_;
    std::unordered_map<uint32_t, uint16_t> makers_;
  };

  ConnectxHca& hca_;
  ObjectNumbers& numbers_;
  Plain uars_, domains_;
  std::unordered_map<uint32_t, Mkey> mkeys_;  ///< by index
  std::unordered_map<uint32_t, uint16_t> scheduling_makers_;
};

}  // namespace verbatim::connectx
