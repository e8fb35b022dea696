// SPDX-License-Identifier: MIT
#pragma once

// Objects that are a context with references to others: the device keeps the context as it was sent, shows it
// again, and sees to it that what others refer to stays.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "base/number_space.h"

namespace verbatim::prm {

/// What an object is. The last ones are kept by the device itself, the others by the store.
enum class ObjectKind : uint8_t {
  kTransportDomain,
  kXrcd,
  kQCounter,
  kUserContext,
  kReceiveQueue,
  kSendQueue,
  kTir,
  kTis,
  kReceiveTable,
  kPd,
  kCq,
  kUmem,
  kUar,
  kRmp,
};
inline constexpr size_t kStoredKinds = static_cast<size_t>(ObjectKind::kPd);

/// "transport domain", ...
const char* name_of(ObjectKind kind);

struct ObjectId {
  ObjectKind kind;
  uint32_t number;
};

/// ENOENT in words.
Error no_such(ObjectId id);

/// The objects that the device keeps itself, as far as those of the store refer to them.
class DeviceObjects {
 public:
  virtual ~DeviceObjects() = default;
  /// Keeps an object from being destroyed. ENOENT: the user context has none of this number.
  virtual Outcome hold(uint16_t uid, ObjectId id) = 0;
  virtual void let_go(ObjectId id) = 0;
};

/// What works behind an object, if anything does.
class ObjectBody {
 public:
  virtual ~ObjectBody() = default;
};

/// An object of the store.
struct Object {
  std::vector<uint8_t> context;      ///< as queries show it
  std::vector<ObjectId> references;  ///< each stays as long as this object; one may come several times
  std::unique_ptr<ObjectBody> body;
  uint16_t maker = 0;  ///< user context; 0: the host side
  uint32_t users = 0;  ///< references to it
};

/// Not thread safe: the device's commands take turns.
class ObjectStore {
 public:
  explicit ObjectStore(DeviceObjects& device);

  /// Its number. ENOENT: something that it refers to is not there; ENOMEM: there are too many of the kind.
  Expected<uint32_t> create(uint16_t uid, ObjectKind kind, Object object = {});
  /// The object if the user context may ask for it: its own, or the host side's. ENOENT: it may not.
  Expected<Object*> find(uint16_t uid, ObjectId id);
  /// The object, which is there.
  Object& at(ObjectId id) { return shelf(id.kind).objects.at(id.number); }
  /// The object refers to others from now on. ENOENT: nothing has changed.
  Outcome refer(uint16_t uid, Object& object, std::vector<ObjectId> references);
  /// ENOENT: the user context has not made it; EBUSY: others refer to it.
  Outcome destroy(uint16_t uid, ObjectId id);

  /// Keeps an object from being destroyed, be it here or the device's own.
  Outcome hold(uint16_t uid, ObjectId id);
  void let_go(ObjectId id);

  size_t count(ObjectKind kind) const { return shelves_[static_cast<size_t>(kind)].objects.size(); }
  /// Whether a user context has objects here.
  bool has_objects_of(uint16_t uid) const;
  /// Destroys everything, whoever refers to it.
  void clear();

 private:
  struct Shelf {
    NumberSpace numbers;
    std::unordered_map<uint32_t, Object> objects;
  };
  static bool is_stored(ObjectKind kind) { return static_cast<size_t>(kind) < kStoredKinds; }
  Shelf& shelf(ObjectKind kind) { return shelves_[static_cast<size_t>(kind)]; }
  Outcome hold_all(uint16_t uid, const std::vector<ObjectId>& references);

  DeviceObjects& device_;
  std::array<Shelf, kStoredKinds> shelves_;
};

}  // namespace verbatim::prm
