// SPDX-License-Identifier: MIT
#include "agent/device_config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "engine/port.h"

namespace verbatim::agent {

namespace {

constexpr size_t kDevicesMax = 32;
constexpr unsigned long kPartition = 0x7fff;  ///< of a P_Key, apart from the kind of membership
constexpr size_t kNameMax = 63;               // IBV_SYSFS_NAME_MAX less its end

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Programs make paths of names, and options.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kNameMax && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; });
}

/// "tap=NAME" or "interface=NAME", with the name of an interface.
bool is_outlet(const std::string& option) {
  constexpr size_t kInterfaceNameMax = 15;  // IFNAMSIZ less its end
  for (const char* kind : {"tap=", "interface="}) {
    const std::string head = kind;
    if (option.starts_with(head))
      return option.size() <= head.size() + kInterfaceNameMax && is_name(option.substr(head.size()));
  }
  return false;
}

/// "pkeys=0x8001+0x0002": those of further partitions, behind the first entry of the table.
bool read_pkeys(const std::string& option, std::vector<uint16_t>& pkeys) {
  constexpr std::string_view kHead = "pkeys=";
  if (!option.starts_with(kHead) || !pkeys.empty()) return false;
  for (const char* at = option.c_str() + kHead.size();; at++) {
    char* end = nullptr;
    const unsigned long pkey = is_digit(*at) ? std::strtoul(at, &end, 0) : 0;
    if (pkey > 0xffff || (pkey & kPartition) == 0 || pkeys.size() == engine::kPkeysMade) return false;
    pkeys.push_back(static_cast<uint16_t>(pkey));
    at = end;
    if (*at != '+') return *at == 0;
  }
}

/// Cuts the text up to the next `end` off its beginning.
std::string cut(std::string& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  std::string first = text.substr(0, at);
  text.erase(0, at + 1);
  return first;
}

/// "name[:kind[:option...]]"
Expected<DeviceConfig> parse_device(std::string item) {
  DeviceConfig device;
  device.name = cut(item, ':');
  device.kind = item.empty() ? "mlx5" : cut(item, ':');
  if (!is_name(device.name))
    return Error{EINVAL, "VERBATIM_DEVICES: '" + device.name + "' is not a device name"};
  if (device.kind != "mlx5")
    return Error{EINVAL, "VERBATIM_DEVICES: there is no kind '" + device.kind + "'; the kinds are: mlx5"};
  while (!item.empty()) {
    const std::string option = cut(item, ':');
    if (option == "data-direct")
      device.data_direct = true;
    else if (option == "lag")
      device.lag = true;
    else if (option == "infiniband")
      device.infiniband = true;
    else if (read_pkeys(option, device.pkeys))
      continue;
    else if (is_outlet(option) && device.outlet.empty())
      device.outlet = option;
    else
      return Error{EINVAL, "VERBATIM_DEVICES: mlx5 has no option '" + option +
                               "'; the options are: data-direct, lag, infiniband, pkeys=0x8001+0x2..., "
                               "tap=NAME or interface=NAME"};
  }
  if (!device.infiniband && !device.pkeys.empty())
    return Error{EINVAL, "VERBATIM_DEVICES: " + device.name + " has no use for P_Keys without infiniband"};
  if (device.infiniband && !device.outlet.empty())
    return Error{EINVAL, "VERBATIM_DEVICES: " + device.name +
                             " cannot have both: Ethernet frames go to an interface, not InfiniBand's"};
  if (device.lag && device.infiniband)
    return Error{EINVAL,
                 "VERBATIM_DEVICES: " + device.name + " cannot have both: a LAG is of Ethernet ports"};
  return device;
}

}  // namespace

Expected<std::vector<DeviceConfig>> parse_devices(const std::string& text) {
  std::vector<DeviceConfig> devices;
  if (text.empty() || is_number(text)) {
    const size_t count = text.empty() ? 1 : text.size() > 3 ? SIZE_MAX : std::stoul(text);
    if (count > kDevicesMax) return Error{EINVAL, "VERBATIM_DEVICES asks for more than 32 devices"};
    for (size_t i = 0; i < count; i++) devices.push_back({"mlx5_" + std::to_string(i), "mlx5"});
    return devices;
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    Expected<DeviceConfig> device = parse_device(text.substr(at, end - at));
    if (!device) return device.error();
    if (std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d.name == device->name; }))
      return Error{EINVAL, "VERBATIM_DEVICES names " + device->name + " twice"};
    if (devices.size() == kDevicesMax) return Error{EINVAL, "VERBATIM_DEVICES asks for more than 32 devices"};
    devices.push_back(std::move(*device));
    at = end + 1;
  }
  return devices;
}

Expected<std::vector<DeviceConfig>> configured_devices() {
  const char* text = std::getenv("VERBATIM_DEVICES");
  return parse_devices(text ? text : "");
}

}  // namespace verbatim::agent
