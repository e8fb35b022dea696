// SPDX-License-Identifier: MIT
// The list of devices. It never changes while a process runs, so that devices live as long as the library.
#include "lib/ibverbs/device_list.h"

#include <endian.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "lib/ibverbs/undeclared.h"
#include "runtime/sysfs.h"

namespace verbatim::verbs {
namespace {

struct List {
  std::vector<std::unique_ptr<Device>> devices;
  int error = 0;
};

// Below the tree that stands in for /sys, where there is one.
void set_path(char (&field)[IBV_SYSFS_PATH_MAX], const std::string& root, const std::string& below) {
  const std::string path = root + "/class/" + below;
  const bool fits = !root.empty() && path.size() < sizeof field;
  std::snprintf(field, sizeof field, "%s", fits ? path.c_str() : ("/sys/class/" + below).c_str());
}

std::unique_ptr<Device> make_device(const runtime::DeviceEntry& entry, const std::string& root) {
  auto device = std::make_unique<Device>();
  device->entry = entry;
  ibv_device& base = device->base;
  base.node_type = IBV_NODE_CA;
  base.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(base.name, sizeof base.name, "%s", entry.name.c_str());
  std::snprintf(base.dev_name, sizeof base.dev_name, "uverbs%u", entry.index);
  set_path(base.dev_path, root, std::string("infiniband_verbs/") + base.dev_name);
  set_path(base.ibdev_path, root, std::string("infiniband/") + base.name);
  return device;
}

List* make_list() {
  auto list = std::make_unique<List>();
  auto entries = runtime::list_devices();
  if (!entries) {
    explain_aloud(entries.error().reason);
    list->error = entries.error().code;
    return list.release();
  }
  const std::string& root = runtime::serve_sysfs();
  for (const runtime::DeviceEntry& entry : *entries)
    if (find_provider(entry.provider) != nullptr) list->devices.push_back(make_device(entry, root));
  return list.release();
}

// Never freed: other destructors of the process may still use a device.
List& the_list() {
  static List* const list = make_list();
  return *list;
}

}  // namespace

Device* find_device(const std::string& name) {
  for (const auto& device : the_list().devices)
    if (device->entry.name == name) return device.get();
  return nullptr;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  List& list = the_list();
  if (list.error != 0) {
    errno = list.error;
    return nullptr;
  }
  const size_t count = list.devices.size();
  auto** result = static_cast<ibv_device**>(std::calloc(count + 1, sizeof(ibv_device*)));
  if (result == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  for (size_t i = 0; i < count; i++) result[i] = &list.devices[i]->base;
  if (num_devices != nullptr) *num_devices = static_cast<int>(count);
  return result;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(reinterpret_cast<Device*>(device)->entry.index);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(reinterpret_cast<Device*>(device)->entry.guid);
}

// How providers made themselves known before 2008; nothing that is loaded here does.
void ibv_register_driver(const char* /*name*/, void* /*init*/) {}

}  // extern "C"
