// SPDX-License-Identifier: MIT
// What programs reach through the device's management: registers, and management datagrams to the port
// itself.
#include <algorithm>

#include "abi/prm/ports.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/handlers.h"
#include "device/connectx/prm/subnet_management.h"

namespace verbatim::prm {

namespace {

using Access = Command<AccessRegister>;
constexpr uint32_t kPort = 1;

/// Administrative and operational state.
Result port_state(Access& c, bool write) {
  constexpr uint32_t kUp = 1, kDown = 2;
  const auto asked = c.in.overlay<PaosReg>(AccessRegisterIn::register_data);
  if (asked[PaosReg::local_port] != kPort)
    return refuse(Status::kBadParamErr, "PAOS: the device has only port 1");
  if (write && asked[PaosReg::ase] && asked[PaosReg::admin_status] != kUp)
    return refuse(Status::kBadParamErr,
                  "PAOS: the port's state follows the host's interfaces, it cannot be put down");
  if (write && asked[PaosReg::ase]) c.unit.train_link();
  const auto answer = c.out.overlay<PaosReg>(AccessRegisterOut::register_data);
  answer.set(PaosReg::local_port, kPort);
  answer.set(PaosReg::admin_status, kUp);
  answer.set(PaosReg::oper_status, c.unit.port().active ? kUp : kDown);
  return {};
}

Result port_mtu(Access& c, bool write) {
  const auto asked = c.in.overlay<PmtuReg>(AccessRegisterIn::register_data);
  if (asked[PmtuReg::local_port] != kPort)
    return refuse(Status::kBadParamErr, "PMTU: the device has only port 1");
  if (write) return refuse(Status::kBadParamErr, "PMTU: the port's MTU follows the host's interfaces");
  const auto answer = c.out.overlay<PmtuReg>(AccessRegisterOut::register_data);
  const uint32_t mtu = c.unit.gid(0).mtu;
  answer.set(PmtuReg::local_port, kPort);
  answer.set(PmtuReg::max_mtu, mtu);
  answer.set(PmtuReg::admin_mtu, mtu);
  answer.set(PmtuReg::oper_mtu, mtu);
  return {};
}

struct Register {
  uint32_t number;
  uint32_t bits;
  Result (*access)(Access& c, bool write);
};

constexpr Register kRegisters[] = {
    {0x5003, PmtuReg::kBits, port_mtu},
    {0x5006, PaosReg::kBits, port_state},
};

Result access_register(Access& c) {
  const uint32_t number = c.in[AccessRegisterIn::register_id];
  const auto* found = std::ranges::find(kRegisters, number, &Register::number);
  if (found == std::end(kRegisters))
    return refuse(Status::kBadParamErr, "there is no register " + std::to_string(number));
  const uint32_t words = found->bits / 32;
  if (c.in.size(AccessRegisterIn::register_data) < words)
    return refuse(Status::kBadInpLenErr, "the input is shorter than the register");
  if (c.out.size(AccessRegisterOut::register_data) < words)
    return refuse(Status::kBadOutpLenErr, "the output is shorter than the register");
  return found->access(c, c.in.as<RegisterAccess>(AccessRegisterIn::op_mod) == RegisterAccess::kWrite);
}

/// Answers as the port's management agent does.
Result mad_ifc(Command<MadIfc>& c) {
  ManagementDatagram mad;
  for (size_t i = 0; i < mad.size(); i++) mad[i] = static_cast<uint8_t>(c.in.at(MadIfcIn::mad, i));
  answer_management(c.unit, mad);
  for (size_t i = 0; i < mad.size(); i++) c.out.set(MadIfcOut::response_mad_packet, i, mad[i]);
  return {};
}

}  // namespace

std::span<const Entry> register_commands() {
  static constexpr Entry kEntries[] = {entry<access_register>(), entry<mad_ifc>()};
  return kEntries;
}

}  // namespace verbatim::prm
