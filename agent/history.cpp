// SPDX-License-Identifier: MIT
#include "agent/history.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/published.h"
#include "wire/link/shm/layout.h"

namespace verbatim::agent {

namespace {

std::string text_of(const char* field, size_t size) { return std::string(field, strnlen(field, size)); }

}  // namespace

std::vector<Explanation> read_reasons(int file, uint32_t pid) {
  std::vector<Explanation> found;
  constexpr size_t kBytes = offsetof(engine::Published, qps);
  const std::unique_ptr<char[]> copy(new char[kBytes]());
  if (pread(file, copy.get(), kBytes, wire::shm::kPage) != static_cast<ssize_t>(kBytes)) return found;
  const auto& published = *reinterpret_cast<const engine::Published*>(copy.get());
  if (published.header.magic != engine::PublishedHeader::kMagic) return found;
  const std::string program = text_of(published.header.program, sizeof published.header.program);
  for (const engine::Reason& reason : published.reasons) {
    if (reason.number == 0) continue;
    found.push_back(
        {reason.time_ns, pid, reason.qpn, reason.status, program, text_of(reason.text, sizeof reason.text)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return found;
}

void History::add(std::vector<Explanation> reasons) {
  for (Explanation& reason : reasons) kept_.push_back(std::move(reason));
  while (kept_.size() > kMax) kept_.pop_front();
}

}  // namespace verbatim::agent
