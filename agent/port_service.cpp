// SPDX-License-Identifier: MIT
#include "agent/port_service.h"

#include <cerrno>
#include <utility>

#include "engine/port.h"

namespace verbatim::agent {

namespace {

using engine::AsyncEvent;

struct Name {
  const char* name;
  AsyncEvent event;
};
constexpr Name kNames[] = {
    {"device-fatal", AsyncEvent::kDeviceFatal}, {"port-down", AsyncEvent::kPortError},
    {"port-up", AsyncEvent::kPortActive},       {"gid-change", AsyncEvent::kGidChange},
    {"pkey-change", AsyncEvent::kPkeyChange},   {"lid-change", AsyncEvent::kLidChange},
    {"sm-change", AsyncEvent::kSmChange},       {"client-reregister", AsyncEvent::kClientReregister},
};
constexpr uint32_t kPkeyPartition = 0x7fff;  ///< apart from the kind of membership

}  // namespace

std::optional<AsyncEvent> event_of(const std::string& name) {
  for (const Name& each : kNames)
    if (name == each.name) return each.event;
  return {};
}

std::string event_names() {
  std::string text;
  for (const Name& each : kNames) text += (text.empty() ? "" : ", ") + std::string(each.name);
  return text;
}

Outcome PortService::change_pkey(DirectoryPort& port, uint32_t value) {
  if (value > 0xffff || (value != 0 && (value & kPkeyPartition) == 0))
    return Error{EINVAL, "a P_Key has 16 bits, and names a partition"};
  if (value == 0) {
    for (auto& each : port.pkeys) each = 0;
    return Done{};
  }
  for (auto& each : port.pkeys)
    if (each == value) {
      each = 0;
      return Done{};
    }
  for (auto& each : port.pkeys)
    if (each == 0) {
      each = value;
      return Done{};
    }
  return Error{ENOSPC, "the P_Key table is full"};
}

Outcome PortService::raise(uint32_t device, AsyncEvent event, uint32_t value) {
  if (device >= engine::kPortsShown) return Error{EINVAL, "there is no such device"};
  DirectoryPort& port = directory_.ports[device];
  changed_[device] = true;
  switch (event) {
    case AsyncEvent::kPortError:
    case AsyncEvent::kPortActive:
      port.down = event == AsyncEvent::kPortError;
      return Done{};
    case AsyncEvent::kPkeyChange:
      return change_pkey(port, value);
    case AsyncEvent::kLidChange:
    case AsyncEvent::kSmChange:
      if (value > engine::kUnicastLidMax) return Error{EINVAL, "LIDs go from 1 to 0xbfff"};
      (event == AsyncEvent::kLidChange ? port.lid : port.sm_lid) = value;
      return Done{};
    case AsyncEvent::kDeviceFatal:
    case AsyncEvent::kGidChange:
    case AsyncEvent::kClientReregister:
      return Done{};
    default:
      return Error{EINVAL, "that is not an event of a device or its port"};
  }
}

Expected<bool> PortService::take_back(uint32_t device, const engine::PortSetting& setting) {
  if (device >= engine::kPortsShown || setting.lid > engine::kUnicastLidMax ||
      setting.sm_lid > engine::kUnicastLidMax)
    return Error{EINVAL, "no port has been made that"};
  if (std::exchange(changed_[device], true)) return false;
  DirectoryPort& port = directory_.ports[device];
  port.down = setting.down;
  port.lid = setting.lid;
  port.sm_lid = setting.sm_lid;
  for (size_t i = 0; i < setting.pkeys.size(); i++) port.pkeys[i] = setting.pkeys[i];
  return true;
}

bool PortService::any_set() const {
  for (const DirectoryPort& port : directory_.ports) {
    if (port.down || port.lid || port.sm_lid) return true;
    for (const auto& each : port.pkeys)
      if (each) return true;
  }
  return false;
}

}  // namespace verbatim::agent
