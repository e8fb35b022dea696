// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbatim::engine {

class DataTransform;

/// Hears of errors that the transform of a memory key records while bytes of a message pass it. Called with a
/// lock of the queue pair held.
class KeyErrors {
 public:
  virtual void on_key_error(uint32_t key, DataTransform& transform) = 0;

 protected:
  ~KeyErrors() = default;
};

}  // namespace verbatim::engine
