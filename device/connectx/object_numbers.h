// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "device/connectx/objects.h"

namespace verbatim::connectx {

/// Memory that commands name by number: queues and translations of keys lie in it.
struct UmemObject : hw::Umem, Made {
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
  std::unordered_map<uint32_t, QpObject*> dcts;
  std::unordered_map<uint32_t, SrqObject*> srqs;
  std::unordered_map<uint32_t, SrqObject*> xrc_srqs;
  std::unordered_map<uint32_t, UmemObject*> umems;
  NumberSpace umem_numbers;
};

/// The object of that number, if the user context may ask for it.
template <class T>
T* visible(const std::unordered_map<uint32_t, T*>& objects, uint16_t uid, uint32_t number) {
  const auto found = objects.find(number);
  return found != objects.end() && found->second->is_for(uid) ? found->second : nullptr;
}

/// The object of that number, if the user context made it.
template <class T>
T* own(const std::unordered_map<uint32_t, T*>& objects, uint16_t uid, uint32_t number) {
  T* object = visible(objects, uid, number);
  return object && object->is_by(uid) ? object : nullptr;
}

inline Error nobodys(const char* what, uint32_t number) {
  return {ENOENT, std::string("the context has no ") + what + " of number " + std::to_string(number)};
}

}  // namespace verbatim::connectx
