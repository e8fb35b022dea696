// SPDX-License-Identifier: MIT
// The devices that ids use, opened on first use.
#include "lib/rdmacm/device.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "lib/rdmacm/result.h"

namespace verbatim::rdmacm {
namespace {

/// The list of devices, freed at the end. Opened devices outlive it.
class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ibv_device** begin() const { return devices_; }
  ibv_device** end() const { return devices_ + (devices_ != nullptr ? count_ : 0); }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

bool is_ethernet(ibv_context* verbs) {
  ibv_port_attr port;
  return ibv_query_port(verbs, 1, &port) == 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

}  // namespace

Devices& Devices::of_process() {
  // Never destroyed: threads may still use it while the process ends.
  static Devices& devices = *new Devices;
  return devices;
}

// A child of a fork opens its own. The parent's are left to the ids that came along.
void Devices::forget_those_of_the_parent() {
  if (process_ != ::getpid()) devices_.clear();
  process_ = ::getpid();
}

Device* Devices::open(ibv_device* device) {
  ibv_context* verbs = ibv_open_device(device);
  if (verbs == nullptr) return fail_pointer(ENODEV);
  ibv_device_attr attributes;
  const int error = ibv_query_device(verbs, &attributes);
  if (error != 0) {
    ibv_close_device(verbs);
    return fail_pointer(error);
  }
  auto opened = std::make_unique<Device>();
  opened->verbs = verbs;
  opened->ethernet = is_ethernet(verbs);
  opened->max_initiator_depth = static_cast<uint8_t>(std::min(attributes.max_qp_init_rd_atom, 255));
  opened->max_responder_resources = static_cast<uint8_t>(std::min(attributes.max_qp_rd_atom, 255));
  opened->max_queue_entries = static_cast<uint32_t>(attributes.max_qp_wr);
  return devices_.emplace_back(opened.release());
}

Device* Devices::opened(ibv_device* device) {
  for (Device* each : devices_)
    if (each->verbs->device == device) return each;
  return open(device);
}

Device* Devices::find_port() {
  for (ibv_device* each : DeviceList()) {
    Device* device = opened(each);
    if (device != nullptr && device->ethernet) return device;
  }
  return fail_pointer(ENODEV);
}

Device* Devices::hold_port() {
  const std::scoped_lock guard(lock_);
  forget_those_of_the_parent();
  Device* device = find_port();
  if (device == nullptr) return nullptr;
  if (device->pd == nullptr) device->pd = ibv_alloc_pd(device->verbs);
  if (device->pd == nullptr) return nullptr;
  ++device->users;
  return device;
}

void Devices::release(Device* device) {
  const std::scoped_lock guard(lock_);
  if (--device->users > 0) return;
  // A domain that the program still uses stays, and serves the next user.
  if (device->xrcd != nullptr && ibv_close_xrcd(device->xrcd) == 0) device->xrcd = nullptr;
  if (ibv_dealloc_pd(device->pd) == 0) device->pd = nullptr;
}

ibv_xrcd* Devices::domain_of_xrc(Device& device) {
  const std::scoped_lock guard(lock_);
  if (device.xrcd == nullptr) {
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = -1;
    attributes.oflags = O_CREAT;
    device.xrcd = ibv_open_xrcd(device.verbs, &attributes);
  }
  return device.xrcd;
}

std::vector<ibv_context*> Devices::all() {
  const std::scoped_lock guard(lock_);
  forget_those_of_the_parent();
  std::vector<ibv_context*> contexts;
  for (ibv_device* each : DeviceList())
    if (const Device* device = opened(each)) contexts.push_back(device->verbs);
  return contexts;
}

}  // namespace verbatim::rdmacm

using verbatim::rdmacm::Devices;
using verbatim::rdmacm::fail_pointer;

extern "C" {

ibv_context** rdma_get_devices(int* num_devices) {
  const std::vector<ibv_context*> contexts = Devices::of_process().all();
  if (num_devices != nullptr) *num_devices = static_cast<int>(contexts.size());
  if (contexts.empty()) return fail_pointer(ENODEV);
  auto** list = static_cast<ibv_context**>(std::calloc(contexts.size() + 1, sizeof(ibv_context*)));
  if (list == nullptr) {
    if (num_devices != nullptr) *num_devices = 0;
    return nullptr;
  }
  std::copy(contexts.begin(), contexts.end(), list);
  return list;
}

void rdma_free_devices(ibv_context** list) { std::free(list); }

}  // extern "C"
