// SPDX-License-Identifier: MIT
#pragma once

// What the commands of all kinds of objects in the store have in common.

#include <utility>

#include "device/connectx/prm/command.h"
#include "device/connectx/prm/command_unit.h"
#include "device/connectx/prm/object_store.h"

namespace verbatim::prm {

/// An object with this context and these references.
template <class Layout>
Object object_of(View<Layout> context, std::vector<ObjectId> references = {}) {
  const auto bytes = context.bytes();
  return {{bytes.begin(), bytes.end()}, std::move(references), nullptr};
}

/// Makes an object and writes its number into the output.
template <class Spec, unsigned kWidth>
Result make(Command<Spec>& c, ObjectKind kind, Object object, Field<typename Spec::Out, kWidth> number) {
  const Expected<uint32_t> made = c.unit.objects().create(c.uid, kind, std::move(object));
  if (!made) return refuse(made.error());
  c.out.set(number, *made);
  return {};
}

/// Writes an object's context into the output.
template <class Spec, class Layout>
Result show(Command<Spec>& c, ObjectId id, Nested<typename Spec::Out, Layout> where) {
  const Expected<Object*> object = c.unit.objects().find(c.uid, id);
  if (!object) return refuse(object.error());
  c.out[where].assign((*object)->context);
  return {};
}

template <class Spec>
Result destroy(Command<Spec>& c, ObjectId id) {
  return result_of(c.unit.objects().destroy(c.uid, id));
}

}  // namespace verbatim::prm
