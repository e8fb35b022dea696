// SPDX-License-Identifier: MIT
#include "device/connectx/prm/object_store.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "device/connectx/prm/object_limits.h"

namespace verbatim::prm {

namespace {

struct KindFacts {
  ObjectKind kind;
  const char* name;
  uint32_t log_most = 24;  ///< so many objects at once
  uint32_t first = 1, last = 0xffffff;
};

/// In the order of ObjectKind. A counter set has a number of 8 bits, a user context of 16, whose first is the
/// host side's program.
constexpr KindFacts kKinds[] = {
    {ObjectKind::kTransportDomain, "transport domain", kLogTransportDomainsMax},
    {ObjectKind::kXrcd, "XRC domain", kLogXrcdsMax},
    {ObjectKind::kQCounter, "counter set", 8, 1, 0xff},
    {ObjectKind::kUserContext, "user context", kLogUserContextsMax, 2, 0xffff},
    {ObjectKind::kReceiveQueue, "receive queue", kLogWorkQueuesMax},
    {ObjectKind::kSendQueue, "send queue", kLogWorkQueuesMax},
    {ObjectKind::kTir, "TIR", kLogTransportInterfacesMax},
    {ObjectKind::kTis, "TIS", kLogTransportInterfacesMax},
    {ObjectKind::kReceiveTable, "receive queue table", kLogReceiveTablesMax},
    {ObjectKind::kPd, "protection domain"},
    {ObjectKind::kCq, "completion queue"},
    {ObjectKind::kUmem, "umem"},
    {ObjectKind::kUar, "UAR"},
    {ObjectKind::kRmp, "RMP"},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kKinds); i++)
    if (static_cast<size_t>(kKinds[i].kind) != i) return false;
  return true;
}
static_assert(in_order());

const KindFacts& facts_of(ObjectKind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

const char* name_of(ObjectKind kind) { return facts_of(kind).name; }

Error no_such(ObjectId id) {
  return {ENOENT,
          std::string("the context has no ") + name_of(id.kind) + " of number " + std::to_string(id.number)};
}

ObjectStore::ObjectStore(DeviceObjects& device) : device_(device) {
  for (size_t i = 0; i < kStoredKinds; i++)
    shelves_[i].numbers = NumberSpace(kKinds[i].first, kKinds[i].last);
}

Expected<uint32_t> ObjectStore::create(uint16_t uid, ObjectKind kind, Object object) {
  Shelf& to = shelf(kind);
  const Error full{ENOMEM, std::string("the device has no ") + name_of(kind) + " left"};
  if (to.objects.size() >= size_t{1} << facts_of(kind).log_most) return full;
  if (Outcome held = hold_all(uid, object.references); !held) return held.error();
  const uint32_t number = to.numbers.take();
  if (number == 0) {
    for (const ObjectId& id : object.references) let_go(id);
    return full;
  }
  object.maker = uid;
  object.users = 0;
  to.objects.emplace(number, std::move(object));
  return number;
}

Expected<Object*> ObjectStore::find(uint16_t uid, ObjectId id) {
  auto& objects = shelf(id.kind).objects;
  const auto found = objects.find(id.number);
  if (found == objects.end()) return no_such(id);
  Object& object = found->second;
  if (object.maker != 0 && object.maker != uid) return no_such(id);
  return &object;
}

Outcome ObjectStore::refer(uint16_t uid, Object& object, std::vector<ObjectId> references) {
  if (Outcome held = hold_all(uid, references); !held) return held;
  std::swap(object.references, references);
  for (const ObjectId& id : references) let_go(id);
  return Done{};
}

Outcome ObjectStore::destroy(uint16_t uid, ObjectId id) {
  const Expected<Object*> object = find(uid, id);
  if (!object) return object.error();
  if ((*object)->maker != uid) return no_such(id);
  if ((*object)->users != 0) return Error{EBUSY, std::string("others refer to the ") + name_of(id.kind)};
  const auto node = shelf(id.kind).objects.extract(id.number);
  shelf(id.kind).numbers.give_back(id.number);
  for (const ObjectId& reference : node.mapped().references) let_go(reference);
  return Done{};
}

Outcome ObjectStore::hold(uint16_t uid, ObjectId id) {
  if (!is_stored(id.kind)) return device_.hold(uid, id);
  const Expected<Object*> object = find(uid, id);
  if (!object) return object.error();
  (*object)->users++;
  return Done{};
}

void ObjectStore::let_go(ObjectId id) {
  if (is_stored(id.kind))
    shelf(id.kind).objects.at(id.number).users--;
  else
    device_.let_go(id);
}

Outcome ObjectStore::hold_all(uint16_t uid, const std::vector<ObjectId>& references) {
  for (size_t i = 0; i < references.size(); i++) {
    Outcome held = hold(uid, references[i]);
    if (held) continue;
    while (i-- > 0) let_go(references[i]);
    return held;
  }
  return Done{};
}

bool ObjectStore::has_objects_of(uint16_t uid) const {
  return std::ranges::any_of(shelves_, [uid](const Shelf& shelf) {
    return std::ranges::any_of(shelf.objects, [uid](const auto& entry) { return entry.second.maker == uid; });
  });
}

void ObjectStore::clear() {
  for (Shelf& shelf : shelves_)
    for (auto& [number, object] : shelf.objects)
      for (const ObjectId& id : object.references)
        if (!is_stored(id.kind)) device_.let_go(id);
  for (size_t i = 0; i < kStoredKinds; i++) shelves_[i] = {NumberSpace(kKinds[i].first, kKinds[i].last), {}};
}

}  // namespace verbatim::prm
