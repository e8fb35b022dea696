// SPDX-License-Identifier: MIT
#pragma once

// Doorbells that programs ring by plain stores.
//
// A program that holds raw queue pointers writes its entries, then a word of a doorbell record, then a
// register of a UAR page; nobody calls the device. The engine thread looks at the doorbell records while it
// is awake. Before it sleeps it write-protects the pages (userfaultfd) and looks once more:
//
//   store to the page before it was protected -> the record written before it is seen by that last look
//   store to the page afterwards              -> a fault that the thread sleeps on; the store is done once it
//   wakes
//
// so that no doorbell is lost and none costs anything while nothing is rung. Where userfaultfd is not
// allowed, sleep is bounded instead (kUnguardedSleepNs).
//
// What is in the page does not matter where a doorbell record says all. Registers that carry something of
// their own are read and cleared, which a thread that has protected the page leaves to the time after it has
// slept.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "device/hw/raw_doorbells.h"

namespace verbatim::runtime {

class DoorbellWatch final : public hw::RawDoorbells {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr uint64_t kUnguardedSleepNs = 1'000'000;

  /// `wake` makes the engine thread run; called without locks.
  explicit DoorbellWatch(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~DoorbellWatch() override;
  DoorbellWatch(const DoorbellWatch&) = delete;
  DoorbellWatch& operator=(const DoorbellWatch&) = delete;

  // hw::RawDoorbells
  std::byte* take_page() override;
  void give_back(std::byte* page) override;
  void watch_registers(std::byte* page, std::span<const uint16_t> offsets, hw::Hca& hca,
                       uint32_t number) override;
  bool watch(const uint32_t* word, hw::Hca& hca, hw::Qp* qp) override;
  bool watch(const uint32_t* word, hw::Hca& hca, hw::Cq* cq) override;
  void forget(const uint32_t* word) override;
  void forget_all(const hw::Hca& hca) override;

  // The engine thread.

  bool anything() const { return count_.load(std::memory_order_relaxed) != 0; }
  /// Rings what has moved; true: something had.
  bool look();
  /// Before sleep. True: a store to a page makes fd() readable from now on; false: sleep must be bounded.
  bool protect();
  /// After it: lets the threads that wait in a store go on.
  void unprotect();
  /// Readable when a thread waits in a store; -1: there is no such thing here.
  int fd() const { return fd_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    const uint32_t* word;
    uint32_t seen;
    hw::Hca* hca;
    hw::Qp* qp;  ///< or nullptr
    hw::Cq* cq;
  };
  struct Page {
    std::byte* base;
    hw::Hca* hca = nullptr;  ///< or nobody takes what is stored
    uint32_t number = 0;
    std::span<const uint16_t> offsets;
  };
  bool add(const Entry& entry);
  bool look_at_registers();
  void count();
  template <class Which>
  void erase(Which which);
  bool guard(std::byte* page);
  bool set_protection(bool on);

  const std::function<void()> wake_;
  std::mutex lock_;
  std::vector<Entry> entries_;
  std::vector<Page> pages_;
  bool protected_ = false;
  bool unguarded_ = false;          ///< a page that userfaultfd does not guard
  std::atomic<uint32_t> count_{0};  ///< of what is watched
  std::atomic<int> fd_{-1};
};

}  // namespace verbatim::runtime
