// SPDX-License-Identifier: MIT
#include "lib/rspreload/descriptors.h"

#include <array>
#include <atomic>

#include "lib/rspreload/fork_safety.h"

namespace verbatim::rspreload {
namespace {

// By descriptor: the socket that it means, plus one. By socket: how many descriptors mean it.
std::array<std::atomic<int>, kDescriptors> meanings, users;
std::atomic<uint32_t> used;

}  // namespace

thread_local int Inside::depth_ = 0;

int meaning_of(int descriptor) {
  if (Inside::is_active() || !is_possible(descriptor)) return -1;
  return meanings[static_cast<size_t>(descriptor)].load(std::memory_order_acquire) - 1;
}

int meaning_for_data(int descriptor) {
  turn_over(descriptor);
  return meaning_of(descriptor);
}

void let_mean(int descriptor, int socket) {
  if (!is_possible(descriptor) || !is_possible(socket)) return;
  users[static_cast<size_t>(socket)]++;
  used++;
  meanings[static_cast<size_t>(descriptor)].store(socket + 1, std::memory_order_release);
}

bool forget(int descriptor) {
  const int socket = meanings[static_cast<size_t>(descriptor)].exchange(0) - 1;
  if (socket < 0) return false;
  used--;
  return --users[static_cast<size_t>(socket)] == 0;
}

uint32_t count_of_descriptors() { return used.load(std::memory_order_relaxed); }

}  // namespace verbatim::rspreload
