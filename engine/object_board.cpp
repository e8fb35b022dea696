// SPDX-License-Identifier: MIT
#include "engine/object_board.h"

#include <algorithm>

namespace verbatim::engine {

std::optional<uint32_t> ObjectBoard::show(std::string_view kind, uint32_t number) {
  const std::lock_guard hold(lock_);
  uint32_t place = end_;
  if (!free_.empty()) {
    place = free_.back();
    free_.pop_back();
  } else if (end_ == kShownMax) {
    return {};
  } else {
    end_++;
  }
  PublishedObject& object = published_.shown[place];
  object.number = number;
  const size_t length = std::min(kind.size(), sizeof object.kind - 1);
  std::fill(std::copy_n(kind.data(), length, object.kind), std::end(object.kind), '\0');
  object.shown.store(1, std::memory_order_release);
  published_.header.shown_end.store(end_, std::memory_order_release);
  return place;
}

void ObjectBoard::hide(uint32_t place) {
  const std::lock_guard hold(lock_);
  published_.shown[place].shown.store(0, std::memory_order_release);
  free_.push_back(place);
}

}  // namespace verbatim::engine
