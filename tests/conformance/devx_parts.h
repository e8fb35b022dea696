// SPDX-License-Identifier: MIT
#pragma once

// Queues made by command, and used by writing their entries and ringing their doorbells: what a program does
// that drives a ConnectX without verbs.

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/prm/queue_pairs.h"
#include "device/connectx/formats.h"

namespace verbatim::conformance {

/// Memory that commands name by number, mapped twice: what the device knows may go, the program's own view
/// stays. Ends with the object.
class NamedMemory {
 public:
  NamedMemory(ibv_context* context, size_t bytes, uint32_t access = IBV_ACCESS_LOCAL_WRITE);
  ~NamedMemory();
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;

  uint32_t id() const { return umem_->umem_id; }
  std::byte* at(size_t offset) const { return base_ + offset; }
  uint32_t* word(size_t offset) const { return reinterpret_cast<uint32_t*>(at(offset)); }
  /// Deregisters it early. 0 or an errno value.
  int deregister();
  /// Takes the device's view away while it still names it.
  void unmap();
  /// Lets the device reach its view, or not.
  void protect(bool on);
  /// Its device has been closed, and the registration ended with it.
  mlx5dv_devx_umem* forget() { return std::exchange(umem_, nullptr); }

 private:
  size_t bytes_;
  int file_;
  std::byte *base_, *known_;  ///< the program's view, the device's
  mlx5dv_devx_umem* umem_;
};

/// The first device, taken over through VFIO; nullptr with errno set.
ibv_context* take_over(uint32_t flags = 0);
/// The PCI address that /sys shows for it.
std::string first_address();

/// A device opened for commands, with what nearly everything needs.
struct DevxDevice {
  DevxDevice();
  explicit DevxDevice(ibv_context* opened);
  ~DevxDevice();
  DevxDevice(const DevxDevice&) = delete;
  DevxDevice& operator=(const DevxDevice&) = delete;
  bool good() const { return uar != nullptr; }
  void ring(uint32_t offset, uint64_t bytes) const;

  ibv_context* context = nullptr;
  mlx5dv_devx_obj* pd = nullptr;
  uint32_t pdn = 0, eqn = 0;
  mlx5dv_devx_uar* uar = nullptr;
  ibv_gid gid{};
  uint16_t lid = 0;  ///< on InfiniBand
};

/// A completion queue with its memory: the ring, then the doorbell record.
class DevxCq {
 public:
  DevxCq(DevxDevice& device, uint32_t log_entries, uint32_t eqn, bool wide = false);
  ~DevxCq() { destroy(); }
  DevxCq(const DevxCq&) = delete;

  bool good() const { return object != nullptr; }
  /// The next completion, when there is one; within five seconds with wait().
  std::optional<connectx::Cqe> take();
  std::optional<connectx::Cqe> wait();
  /// Asks for an event, as programs do it: the record first, then the register.
  void arm(bool solicited_only = false);
  /// 0 or an errno value; nothing when it is destroyed already.
  int destroy();

  NamedMemory memory;
  mlx5dv_devx_obj* object = nullptr;
  uint32_t number = 0;
  uint32_t status = 0;  ///< of its creation

 private:
  std::byte* entry(uint32_t index) const;

  DevxDevice& device_;
  const uint32_t entries_, stride_;
  uint32_t consumed_ = 0, sequence_ = 0;
};

/// What a queue pair is like.
struct DevxQpTraits {
  prm::QpService service = prm::QpService::kRc;
  uint32_t log_receives = 4, log_blocks = 4;
  uint32_t rmpn = 0;  ///< shared receive queue instead of an own one
};

/// A queue pair with its memory: the receive queue, the send queue, the doorbell record.
class DevxQp {
 public:
  DevxQp(DevxDevice& device, const DevxCq& cq, const DevxQpTraits& traits = {});
  ~DevxQp() { destroy(); }
  DevxQp(const DevxQp&) = delete;

  bool good() const { return object != nullptr; }
  /// RESET to RTS towards that number of the same host. 0 or an errno value.
  int connect(uint32_t qpn);
  /// Back to RESET, with the records at the beginning again.
  int reset();
  void receive(const connectx::DataSegment& data);
  /// Writes an entry of these segments and rings, unless told to leave that out.
  void post(uint8_t opcode, const connectx::DataSegment& data,
            const connectx::RemoteSegment* remote = nullptr, uint32_t immediate = 0);
  /// The same with any segments after the first, of 16 bytes each.
  void post_segments(uint8_t opcode, std::span<const std::byte> segments, uint32_t immediate = 0);
  void ring();
  int destroy();

 private:
  const DevxQpTraits traits_;
  const size_t send_at_, record_at_;

 public:
  NamedMemory memory;
  mlx5dv_devx_obj* object = nullptr;
  uint32_t number = 0;
  uint32_t status = 0;

 private:
  uint32_t* record(uint32_t word) const { return memory.word(record_at_) + word; }

  DevxDevice& device_;
  uint32_t received_ = 0, block_ = 0;
  uint64_t last_control_ = 0;
};

}  // namespace verbatim::conformance
