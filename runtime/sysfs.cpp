// SPDX-License-Identifier: MIT
#include "runtime/sysfs.h"

#include <pthread.h>
#include <sys/stat.h>

#include <memory>
#include <mutex>

#include "agent/counter_service.h"
#include "agent/protocol.h"
#include "agent/sysfs_tree.h"
#include "device/connectx/limits.h"
#include "runtime/process.h"

namespace verbatim::runtime {

namespace {

struct Served {
  std::mutex lock;
  bool tried = false;
  std::string root;
  std::vector<agent::SysfsDevice> devices;
  std::unique_ptr<agent::SysfsTree> tree;
};

// Never destroyed, only emptied: threads may be at work when the process exits.
Served& served() {
  static Served* const kept = new Served;
  return *kept;
}

// A fork while the engine's thread writes would leave the lock locked in the child.
void before_fork() { served().lock.lock(); }
void after_fork() { served().lock.unlock(); }

struct LetGoAtExit {
  ~LetGoAtExit() {
    std::lock_guard<std::mutex> hold(served().lock);
    served().tree.reset();
  }
};

// Processes with equal keys write equal trees: they see the same addresses and ask for the same devices.
std::string key_of(const std::vector<agent::SysfsDevice>& devices) {
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) != 0) space.st_ino = 0;
  std::string key = agent::agent_name() + " " + std::to_string(space.st_ino);
  for (const agent::SysfsDevice& each : devices)
    key += " " + each.name + "/" + std::to_string(each.guid) + "/" + each.firmware +
           (each.data_direct ? "/data-direct" : "") + (each.infiniband ? "/infiniband" : "");
  for (const agent::SysfsDevice& each : devices)
    for (const uint16_t pkey : each.pkeys) key += "/" + std::to_string(pkey);
  return key;
}

std::vector<agent::SysfsDevice> describe_devices() {
  std::vector<agent::SysfsDevice> described;
  const auto devices = list_devices();
  if (!devices) return described;
  for (const DeviceEntry& each : *devices) {
    const hw::Limits limits = connectx::connectx7_limits(each.guid);
    described.push_back({each.name, each.index, each.guid, limits.firmware, limits.vendor_part_id,
                         hw::PortState{}.speed_mbps, each.data_direct, each.infiniband, each.pkeys});
  }
  return described;
}

void make_tree(Served& now) {
  now.devices = describe_devices();
  const auto port = agent::port_view();
  if (now.devices.empty() || !port) return;
  const agent::HostSums sums = agent::load_sums(agent::sums_path(agent::agent_name()));
  auto tree = agent::SysfsTree::publish(key_of(now.devices), agent::sysfs_entries(now.devices, *port, sums));
  if (!tree) return;
  now.tree = std::move(*tree);
  now.root = now.tree->root();
  static const LetGoAtExit at_exit;
  pthread_atfork(before_fork, after_fork, after_fork);
}

}  // namespace

const std::string& serve_sysfs() {
  Served& now = served();
  std::lock_guard<std::mutex> hold(now.lock);
  if (!now.tried) make_tree(now);
  now.tried = true;
  return now.root;
}

int sysfs_hold() {
  std::lock_guard<std::mutex> hold(served().lock);
  return served().tree ? served().tree->file() : -1;
}

void refresh_sysfs(const agent::PortView& port) {
  Served& now = served();
  std::lock_guard<std::mutex> hold(now.lock);
  if (now.tree) now.tree->refresh(agent::sysfs_entries(now.devices, port));
}

}  // namespace verbatim::runtime
