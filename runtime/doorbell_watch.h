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
// Where faults come here first for good (`verbatim run` sees to that), stores to the pages are trapped
// instead (base/store_trap.h), and the thread that stores does what is to be done, as one that calls
// ibv_post_send() would. The engine thread has nothing to look at then.
//
// What is in the page does not matter where a doorbell record says all. Registers that carry something of
// their own are read and cleared, which a thread that has protected the page leaves to the time after it has
// slept.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/store_trap.h"
#include "device/hw/raw_doorbells.h"

namespace verbatim::runtime {

/// Around what a thread of the program rings by a trapped store.
class StoreCompany {
 public:
  virtual ~StoreCompany() = default;
  virtual uint32_t before_ring() = 0;
  /// With what before_ring() has returned.
  virtual void after_ring(uint32_t before) = 0;
};

class DoorbellWatch final : public hw::RawDoorbells, private StoreSink {
 public:
  static constexpr size_t kPageBytes = 4096, kRegisterBytes = 8;
  static constexpr uint64_t kUnguardedSleepNs = 1'000'000;

  /// `wake` makes the engine thread run. Both are called without locks.
  DoorbellWatch(std::function<void()> wake, StoreCompany& company)
      : wake_(std::move(wake)), company_(company) {}
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

  /// Something may be rung that this thread must look at.
  bool anything() const {
    return count_.load(std::memory_order_relaxed) != 0 && !trapping_.load(std::memory_order_relaxed);
  }
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
  // StoreSink
  void on_store(std::byte* page, size_t offset, uint64_t value) override;
  void on_opaque_store() override;

  bool trap(std::byte* page);
  void stop_trapping();
  bool ring_register(const Page& page, size_t offset, uint64_t value);
  bool look_at_registers();
  bool ring_moved();
  void count();
  template <class Which>
  void erase(Which which);
  bool guard(std::byte* page);
  bool set_protection(bool on);

  const std::function<void()> wake_;
  StoreCompany& company_;
  std::shared_mutex lock_;  ///< shared: by those who ring
  std::vector<Entry> entries_;
  std::vector<Page> pages_;
  bool protected_ = false;
  bool unguarded_ = false;          ///< a page that userfaultfd does not guard
  std::atomic<uint32_t> count_{0};  ///< of what is watched
  std::atomic<int> fd_{-1};
  std::atomic<bool> trapping_{false};  ///< all pages are
};

}  // namespace verbatim::runtime
