// SPDX-License-Identifier: MIT
#pragma once

// Event queues that a program makes and reads in memory.

#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "abi/prm/events.h"
#include "device/connectx/formats.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {

inline bool readable(int fd, int milliseconds = 5000) {
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, milliseconds) == 1;
}

/// An event queue with an interrupt of its own, on a page of its own.
struct EventQueue {
  static constexpr uint32_t kLogEntries = 4, kEntries = 1u << kLogEntries;

  EventQueue(ibv_context* context, const std::vector<prm::Event>& wanted) {
    page = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
    vector = mlx5dv_devx_alloc_msi_vector(context);
    Mail<prm::CreateEq> mail;
    const auto eqc = mail.in[prm::CreateEqIn::eq_context_entry];
    eqc.set(prm::Eqc::log_eq_size, kLogEntries);
    eqc.set(prm::Eqc::uar_page, page->page_id);
    eqc.set(prm::Eqc::intr, vector->vector);
    uint64_t mask = 0;
    for (const prm::Event event : wanted) mask |= uint64_t{1} << static_cast<uint32_t>(event);
    mail.in.set(prm::CreateEqIn::event_bitmask, 0, mask);
    shown = mail.create_eq(context);
    number = mail.out[prm::CreateEqOut::eq_number];
  }
  ~EventQueue() {
    EXPECT_EQ(mlx5dv_devx_destroy_eq(shown), 0);
    EXPECT_EQ(mlx5dv_devx_free_msi_vector(vector), 0);
    mlx5dv_devx_free_uar(page);
  }
  /// The doorbell: how far it is read, and whether the next entry interrupts.
  void tell(bool arm) {
    auto* at = static_cast<std::byte*>(page->base_addr) + (arm ? 0x40 : 0x48);
    const uint32_t word = connectx::Be32(number << 24 | (consumed & 0xffffff)).raw();
    __atomic_store_n(reinterpret_cast<uint32_t*>(at), word, __ATOMIC_RELEASE);
  }
  /// Waits for the interrupt; then the next entry. Nothing: there was none.
  std::vector<uint8_t> wait() {
    uint64_t count = 0;
    if (!readable(vector->fd) || read(vector->fd, &count, sizeof count) != sizeof count) return {};
    return take();
  }
  std::vector<uint8_t> take() {
    const auto* entry = static_cast<const uint8_t*>(shown->vaddr) + consumed % kEntries * 64;
    const bool lap = (consumed & kEntries) != 0;
    if ((__atomic_load_n(&entry[63], __ATOMIC_ACQUIRE) & 1) != lap) return {};
    consumed++;
    return {entry, entry + 64};
  }
  mlx5dv_devx_uar* page = nullptr;
  mlx5dv_devx_msi_vector* vector = nullptr;
  mlx5dv_devx_eq* shown = nullptr;
  uint32_t number = 0, consumed = 0;
};

}  // namespace verbatim::conformance
