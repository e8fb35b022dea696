// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "device/connectx/objects.h"

namespace verbatim::connectx {

/// Memory that commands name by number: queues and translations of keys lie in it.
struct UmemObject : hw::Umem {
  hw::UmemSpec spec;
  uint32_t users = 0;  ///< guarded by ObjectNumbers::lock
};

/// The objects that command mailboxes name. Whoever destroys one holds the lock, and a command holds it while
/// it runs, so that nothing it has found goes away. Recursive: a command destroys, too.
struct ObjectNumbers {
  std::recursive_mutex lock;
  std::unordered_map<uint32_t, PdObject*> pds;
  std::unordered_map<uint32_t, CqObject*> cqs;
  std::unordered_map<uint32_t, QpObject*> qps;
  std::unordered_map<uint32_t, UmemObject*> umems;
  NumberSpace umem_numbers;
};

}  // namespace verbatim::connectx
