// SPDX-License-Identifier: MIT
#pragma once

namespace verbatim::connectx {

/// An object's place in the list of its device, which takes down what is left when it is closed.
template <class T>
struct Linked {
  T* previous = nullptr;
  T* next = nullptr;
};

template <class T>
class LinkedList {
 public:
  void add(T* object) {
    object->next = first_;
    if (first_) first_->previous = object;
    first_ = object;
  }
  void remove(T* object) {
    (object->previous ? object->previous->next : first_) = object->next;
    if (object->next) object->next->previous = object->previous;
    object->previous = object->next = nullptr;
  }
  T* first() const { return first_; }

 private:
  T* first_ = nullptr;
};

}  // namespace verbatim::connectx
