// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/published.h"

namespace verbatim::engine {

/// Shows other processes which objects this one has made by commands. Thread safe.
class ObjectBoard {
 public:
  explicit ObjectBoard(Published& published) : published_(published) {}

  /// Its place, to hide it again; nothing when all places are taken: then it is not shown.
  std::optional<uint32_t> show(std::string_view kind, uint32_t number);
  void hide(uint32_t place);

 private:
  Published& published_;
  std::mutex lock_;
  std::vector<uint32_t> free_;
  uint32_t end_ = 0;
};

}  // namespace verbatim::engine
