// SPDX-License-Identifier: MIT
#include "tests/fuzz/live_objects.h"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

template <class Wanted>
const LiveObjects::Object* pick_one(const std::vector<LiveObjects::Object>& objects, Random& random,
                                    Wanted wanted) {
  const auto count = static_cast<uint32_t>(std::ranges::count_if(objects, wanted));
  if (count == 0) return nullptr;
  uint32_t skip = random.below(count);
  for (const auto& object : objects)
    if (wanted(object) && skip-- == 0) return &object;
  return nullptr;
}

bool is_made(const LiveObjects::Object& object) { return !object.undo.empty(); }

}  // namespace

const LiveObjects::Object* LiveObjects::pick(std::string_view kind, Random& random) const {
  return pick_one(objects_, random, [kind](const Object& object) { return object.kind == kind; });
}

const LiveObjects::Object* LiveObjects::pick_made(Random& random) const {
  return pick_one(objects_, random, is_made);
}

void LiveObjects::forget(uint16_t undo, uint16_t uid, std::string_view kind, uint32_t number) {
  std::erase_if(objects_, [&](const Object& object) {
    return is_made(object) && object.kind == kind && object.number == number &&
           (object.undo[0] << 8 | object.undo[1]) == undo && (object.undo[2] << 8 | object.undo[3]) == uid;
  });
}

size_t LiveObjects::count_made() const {
  return static_cast<size_t>(std::ranges::count_if(objects_, is_made));
}

}  // namespace verbatim::fuzz
