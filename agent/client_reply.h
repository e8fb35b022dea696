// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>

#include "agent/client.h"

namespace verbatim::agent {

inline Request outlet_request(const std::string& name) {
  Request request{};
  request.ask = Ask::kOutlet;
  std::copy_n(name.c_str(), std::min(name.size(), sizeof request.text - 1), request.text);
  return request;
}

/// An answer and the descriptors beside it, which are closed unless somebody takes them.
struct AgentClient::Reply {
  Answer answer{};
  int files[kFilesMax];
  int count = 0;
  Reply() = default;
  Reply(Reply&& other) noexcept : answer(other.answer), count(std::exchange(other.count, 0)) {
    std::copy_n(other.files, count, files);
  }
  ~Reply() { close_files(files, count); }
};

}  // namespace verbatim::agent
