// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace verbatim {

/// A queue that takes no memory before something is in it; std::deque takes some hundred bytes at once. An
/// element that has left is replaced by an empty one at once; its place goes later, with others.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == places_.size(); }
  size_t size() const { return places_.size() - first_; }
  T& front() { return places_[first_]; }
  T& back() { return places_.back(); }
  auto begin() { return places_.begin() + static_cast<ptrdiff_t>(first_); }
  auto end() { return places_.end(); }

  void push_back(T element) {
    if (first_ >= kPlacesKept && first_ >= size()) {
      places_.erase(places_.begin(), begin());
      first_ = 0;
    }
    places_.push_back(std::move(element));
  }
  void pop_front() {
    places_[first_++] = T{};
    if (empty()) clear();
  }
  void pop_back() {
    places_.pop_back();
    if (empty()) clear();
  }
  void clear() {
    places_.clear();
    first_ = 0;
  }

 private:
  static constexpr size_t kPlacesKept = 16;

  std::vector<T> places_;
  size_t first_ = 0;  ///< places before it are empty
};

}  // namespace verbatim
