// SPDX-License-Identifier: MIT
#include "agent/sysfs_entries.h"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <set>

#include "agent/directory.h"
#include "agent/subnet.h"
#include "engine/port.h"

namespace verbatim::agent {

namespace {

using Kind = SysfsEntry::Kind;
using engine::kSubnetGids;
using engine::kSubnetPkeys;

// A domain of its own: no host has devices in it.
constexpr const char* kPciDomain = "5642";
constexpr uint32_t kVendor = 0x15b3;
constexpr const char* kBoard = "MT_0000000838";
constexpr uint32_t kPortCapabilities = 1u << 16 | 1u << 26;  // connection management, GIDs from IP addresses
constexpr uint32_t kSubnetPortCapabilities = 1u << 11 | 1u << 16;  // system image GUID, connection management
// The kernel has attributes of every GID entry, and reading those of an unused one fails (EINVAL). So it is
// with what this names: whoever asks can open it, and it has no contents.
constexpr const char* kUnreadable = "/proc/self/ns/mnt";

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string guid_text(uint64_t guid) {
  return format("%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                static_cast<unsigned>(guid & 0xffff));
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.bytes.size(); i += 2)
    text += format(i ? ":%02x%02x" : "%02x%02x", gid.bytes[i], gid.bytes[i + 1]);
  return text;
}

std::string interface_name(uint32_t index) {
  char name[IF_NAMESIZE] = "";
  return if_indextoname(index, name) ? name : "";
}

std::string rate_text(uint32_t speed_mbps) {
  const char* const generation = speed_mbps >= 400'000   ? "NDR"
                                 : speed_mbps >= 200'000 ? "HDR"
                                 : speed_mbps >= 100'000 ? "EDR"
                                                         : "FDR";
  return format("%u Gb/sec (4X %s)", speed_mbps / 1000, generation);
}

// Every processor is near: 32 a word, the highest first.
std::string all_processors() {
  const long count = std::max(sysconf(_SC_NPROCESSORS_CONF), 1L);
  std::string text;
  for (long word = (count - 1) / 32; word >= 0; word--) {
    const long here = std::min(count - word * 32, 32L);
    const auto bits = static_cast<unsigned>((uint64_t{1} << here) - 1);
    text += text.empty() ? format("%x", bits) : format(",%08x", bits);
  }
  return text;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

class Builder {
 public:
  /// A file whose text ends with a line end, as all of these do.
  void file(const std::string& path, const std::string& text) { add(path, Kind::kFile, text + "\n"); }
  void counter(const std::string& path, const std::string& text) { add(path, Kind::kCounter, text + "\n"); }
  void link(const std::string& path, const std::string& to) { add(path, Kind::kLink, to); }
  void twin(const std::string& path, const std::string& of) { add(path, Kind::kTwin, of); }
  void folder(const std::string& path) {
    if (path.empty() || !folders_.insert(path).second) return;
    above(path);
    entries_.push_back({path, Kind::kFolder, ""});
  }
  std::vector<SysfsEntry> take() { return std::move(entries_); }

 private:
  void above(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) folder(path.substr(0, slash));
  }
  void add(const std::string& path, Kind kind, const std::string& text) {
    above(path);
    entries_.push_back({path, kind, text});
  }
  std::vector<SysfsEntry> entries_;
  std::set<std::string> folders_;
};

void add_function(Builder& build, const std::string& at, const std::string& address,
                  const SysfsDevice& device, const PortView& port) {
  const unsigned part = device.part_id;
  build.file(at + "/vendor", format("0x%04x", kVendor));
  build.file(at + "/device", format("0x%04x", part));
  build.file(at + "/subsystem_vendor", format("0x%04x", kVendor));
  build.file(at + "/subsystem_device", "0x0000");
  build.file(at + "/class", "0x020000");
  build.file(at + "/revision", "0x00");
  build.file(at + "/modalias", format("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", kVendor, part, kVendor, 0u));
  build.file(at + "/numa_node", "-1");
  build.file(at + "/local_cpus", all_processors());
  build.file(at + "/local_cpulist", format("0-%ld", std::max(sysconf(_SC_NPROCESSORS_CONF), 1L) - 1));
  for (const char* which : {"current", "max"}) {
    build.file(at + "/" + which + "_link_speed", "32.0 GT/s PCIe");
    build.file(at + "/" + which + "_link_width", "16");
  }
  build.file(at + "/uevent",
             format("DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0000\n"
                    "PCI_SLOT_NAME=%s",
                    kVendor, part, kVendor, address.c_str()));
  build.link(at + "/driver", "../../../bus/pci/drivers/mlx5_core");
  build.link(at + "/subsystem", "../../../bus/pci");
  build.link("bus/pci/devices/" + address, "../../../" + at);
  build.link("bus/pci/drivers/mlx5_core/" + address, "../../../../" + at);
  if (device.infiniband) return;  // no interface of the host is its
  for (const engine::GidEntry& entry : port.gids) {
    const std::string name = interface_name(entry.interface_index);
    if (entry.gid.is_zero() || name.empty()) continue;
    build.link(at + "/net/" + name, "/sys/class/net/" + name);
    break;  // the port's interface is that of its first GID
  }
}

std::string function_address(uint32_t index, unsigned number) {
  return format("%s:%02x:00.%u", kPciDomain, index + 1, number);
}
std::string function_path(const std::string& address) {
  return format("devices/pci%s:00/%s", kPciDomain, address.c_str());
}

/// A function of its own beside that of the device.
void add_data_direct(Builder& build, uint32_t index) {
  const std::string address = function_address(index, 1);
  const std::string at = function_path(address);
  build.file(at + "/vendor", format("0x%04x", kVendor));
  build.file(at + "/device", "0x2100");
  build.file(at + "/class", "0x080000");
  build.file(at + "/numa_node", "-1");
  build.link(at + "/subsystem", "../../../bus/pci");
  build.link("bus/pci/devices/" + address, "../../../" + at);
}

/// A file for each entry of a table, whose text is empty if the entry is unused. Those of unused entries are
/// names of one that `add_unused` makes, the last one's: more names cost less than more files.
template <class Text, class AddUnused>
void add_table(Builder& build, const std::string& at, size_t entries, const Text& text_of,
               const AddUnused& add_unused) {
  const std::string last = at + "/" + std::to_string(entries - 1);
  const bool shared = text_of(entries - 1).empty();
  if (shared) add_unused(last);
  for (size_t i = 0; i < (shared ? entries - 1 : entries); i++) {
    const std::string path = at + "/" + std::to_string(i), text = text_of(i);
    if (!text.empty())
      build.file(path, text);
    else if (shared)
      build.twin(path, last);
    else
      add_unused(path);
  }
}

/// The whole table of an Ethernet port is there, whatever is in use.
void add_gids(Builder& build, const std::string& at, const PortView& port, bool infiniband) {
  std::vector<engine::GidEntry> gids = port.gids;
  if (!infiniband && gids.size() < kGidsMax) gids.resize(kGidsMax);
  const auto used = [&](size_t i) { return !gids[i].gid.is_zero(); };
  add_table(
      build, at + "/gids", gids.size(), [&](size_t i) { return used(i) ? gid_text(gids[i].gid) : ""; },
      [&](const std::string& path) { build.file(path, gid_text({})); });
  const auto add_unreadable = [&](const std::string& path) { build.link(path, kUnreadable); };
  add_table(
      build, at + "/gid_attrs/types", gids.size(),
      [&](size_t i) -> std::string {
        return !used(i) ? "" : gids[i].type == GidType::kRoceV2 ? "RoCE v2" : "IB/RoCE v1";
      },
      add_unreadable);
  add_table(
      build, at + "/gid_attrs/ndevs", gids.size(),
      [&](size_t i) { return used(i) ? interface_name(gids[i].interface_index) : ""; }, add_unreadable);
}

/// What differs between the link layers.
void add_link(Builder& build, const std::string& at, const SysfsDevice& device,
              const engine::PortSetting& setting) {
  const bool infiniband = device.infiniband;
  build.file(at + "/link_layer", infiniband ? "InfiniBand" : "Ethernet");
  build.file(at + "/cap_mask", format("0x%08x", infiniband ? kSubnetPortCapabilities : kPortCapabilities));
  build.file(at + "/lid", format("0x%x", !infiniband   ? 0u
                                         : setting.lid ? setting.lid
                                                       : lid_of(device.index)));
  build.file(at + "/sm_lid", format("0x%x", !infiniband      ? 0u
                                            : setting.sm_lid ? setting.sm_lid
                                                             : kManagerLid));
  std::vector<uint16_t> pkeys{engine::kDefaultPkey};
  pkeys.insert(pkeys.end(), device.pkeys.begin(), device.pkeys.end());
  pkeys.insert(pkeys.end(), setting.pkeys.begin(), setting.pkeys.end());
  pkeys.resize(infiniband ? kSubnetPkeys : 1);
  for (size_t i = 0; i < pkeys.size(); i++)
    build.file(at + "/pkeys/" + std::to_string(i), format("0x%04x", unsigned{pkeys[i]}));
}

/// What a port of the InfiniBand subnet has in place of the host's addresses.
PortView subnet_port(const SysfsDevice& device, const PortView& host) {
  PortView port{true, std::vector<engine::GidEntry>(kSubnetGids), {}};
  port.gids[0] = {subnet_gid(device.guid), GidType::kInfiniband};
  port.settings = host.settings;
  return port;
}

void add_port(Builder& build, const std::string& at, const SysfsDevice& device, const PortView& port,
              const PortSums& sums) {
  const engine::PortSetting setting =
      device.index < port.settings.size() ? port.settings[device.index] : engine::PortSetting{};
  const bool up = port.up && !setting.down;
  build.file(at + "/state", up ? "4: ACTIVE" : "1: DOWN");
  build.file(at + "/phys_state", up ? "5: LinkUp" : "3: Disabled");
  build.file(at + "/rate", rate_text(device.speed_mbps));
  add_link(build, at, device, setting);
  build.file(at + "/lid_mask_count", "0");
  build.file(at + "/sm_sl", "0");
  for (const CounterFile& each : counter_files())
    build.counter(at + "/" + each.path, std::to_string(each.value(sums)));
  add_gids(build, at, port, device.infiniband);
}

void add_device(Builder& build, const SysfsDevice& device, const PortView& port, const PortSums& sums) {
  const std::string address = function_address(device.index, 0);
  const std::string function = function_path(address);
  add_function(build, function, address, device, port);
  if (device.data_direct) add_data_direct(build, device.index);

  const std::string clock = format("ptp%s%02u", kPciDomain, device.index);
  build.file(function + "/ptp/" + clock + "/clock_name", "mlx5_ptp");
  build.link("dev/" + clock, "/dev/null");

  const std::string at = function + "/infiniband/" + device.name;
  build.file(at + "/node_type", "1: CA");
  build.file(at + "/node_guid", guid_text(device.guid));
  build.file(at + "/sys_image_guid", guid_text(device.guid));
  build.file(at + "/node_desc", host_name() + " " + device.name);
  build.file(at + "/fw_ver", device.firmware);
  build.file(at + "/hca_type", "MT" + std::to_string(device.part_id));
  build.file(at + "/board_id", kBoard);
  build.file(at + "/hw_rev", "0");
  build.link(at + "/device", "../../../" + address);
  build.link(at + "/subsystem", "../../../../../class/infiniband");
  add_port(build, at + "/ports/1", device, port, sums);
  build.link("class/infiniband/" + device.name, "../../" + at);

  const std::string node = "uverbs" + std::to_string(device.index);
  const std::string verbs = function + "/infiniband_verbs/" + node;
  build.file(verbs + "/ibdev", device.name);
  build.file(verbs + "/abi_version", "1");
  build.file(verbs + "/dev", format("231:%u", 192 + device.index));
  build.link(verbs + "/device", "../../../" + address);
  build.link("class/infiniband_verbs/" + node, "../../" + verbs);
  build.link("dev/infiniband/" + node, "/dev/null");
}

}  // namespace

std::string pci_address(uint32_t device_index) { return function_address(device_index, 0); }

std::string data_direct_path(uint32_t index) { return "/" + function_path(function_address(index, 1)); }

std::vector<SysfsEntry> sysfs_entries(const std::vector<SysfsDevice>& devices, const PortView& port,
                                      const HostSums& sums) {
  Builder build;
  for (const char* folder : {"class/infiniband", "class/infiniband_verbs", "bus/pci/devices",
                             "bus/pci/drivers/mlx5_core", "dev/infiniband"})
    build.folder(folder);
  build.file("class/infiniband_verbs/abi_version", "6");
  for (const SysfsDevice& device : devices)
    add_device(build, device, device.infiniband ? subnet_port(device, port) : port,
               device.index < sums.size() ? sums[device.index] : PortSums{});
  return build.take();
}

}  // namespace verbatim::agent
