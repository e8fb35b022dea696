// SPDX-License-Identifier: MIT
#include "lib/ibverbs/device_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace verbatim::verbs {
namespace {

constexpr uint64_t kMagic = 0x5645524244455631;
constexpr off_t kPlace = off_t{1} << 32;  ///< in the file: behind all pages of it that programs map
constexpr uint32_t kDomainsMax = 1u << 24;
constexpr uint32_t kMemoriesMax = 4096;
constexpr auto kRelaxed = std::memory_order_relaxed;

/// `bytes` is written last, and 0 first.
struct MemoryRecord {
  std::atomic<uint64_t> bytes, inode;
  std::atomic<int32_t> file;
};

}  // namespace

struct DeviceBoard::Record {
  uint64_t magic;
  uint64_t generation;
  uint32_t slot;
  char device[64];
  std::atomic<uint32_t> next_memory;
  MemoryRecord memories[kMemoriesMax];
  alignas(4096) std::atomic<uint64_t> domains[kDomainsMax / 64];
};

Expected<std::unique_ptr<DeviceBoard>> DeviceBoard::make(int file, const char* device,
                                                         const runtime::ProcessPlace& place) {
  constexpr off_t kEnd = kPlace + static_cast<off_t>(sizeof(Record));
  rlimit longest{};
  if (getrlimit(RLIMIT_FSIZE, &longest) == 0 && longest.rlim_cur < static_cast<rlim_t>(kEnd))
    return Error{EFBIG, "this process may not have files that are long enough"};
  if (ftruncate(file, kEnd) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return Error{errno, "the file of a command descriptor cannot be made long enough"};
  void* mapped = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, file, kPlace);
  if (mapped == MAP_FAILED) return Error{errno, "the file of a command descriptor cannot be mapped"};
  auto* record = static_cast<Record*>(mapped);
  record->generation = place.generation;
  record->slot = place.slot;
  std::snprintf(record->device, sizeof record->device, "%s", device);
  record->magic = kMagic;
  return std::unique_ptr<DeviceBoard>(new DeviceBoard(record));
}

Expected<std::unique_ptr<DeviceBoard>> DeviceBoard::of(int file) {
  struct stat about {};
  if (fstat(file, &about) != 0) return Error{EBADF, "ibv_import_device: the descriptor is not open"};
  const Error other{EINVAL, "ibv_import_device: the descriptor is not that of an opened device"};
  // Nobody may cut short what is mapped here.
  if (!S_ISREG(about.st_mode) || (fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) == 0 ||
      about.st_size < kPlace + static_cast<off_t>(sizeof(Record)))
    return other;
  void* mapped = mmap(nullptr, sizeof(Record), PROT_READ, MAP_SHARED, file, kPlace);
  if (mapped == MAP_FAILED) return other;
  std::unique_ptr<DeviceBoard> board(new DeviceBoard(static_cast<Record*>(mapped)));
  if (board->record_->magic != kMagic) return other;
  return board;
}

DeviceBoard::~DeviceBoard() { munmap(record_, sizeof(Record)); }

std::string DeviceBoard::device() const {
  return {record_->device, strnlen(record_->device, sizeof record_->device)};
}

runtime::ProcessPlace DeviceBoard::place() const { return {record_->slot, record_->generation}; }

void DeviceBoard::show_domain(uint32_t number) {
  if (number < kDomainsMax) record_->domains[number / 64].fetch_or(uint64_t{1} << number % 64);
}

void DeviceBoard::hide_domain(uint32_t number) {
  if (number < kDomainsMax) record_->domains[number / 64].fetch_and(~(uint64_t{1} << number % 64));
}

bool DeviceBoard::has_domain(uint32_t number) const {
  return number < kDomainsMax && (record_->domains[number / 64].load() >> number % 64 & 1) != 0;
}

uint32_t DeviceBoard::show_memory(const Memory& memory) {
  for (uint32_t tried = 0; tried < kMemoriesMax; tried++) {
    const uint32_t place = record_->next_memory.fetch_add(1, kRelaxed) % kMemoriesMax;
    MemoryRecord& record = record_->memories[place];
    int32_t free = 0;
    if (record.bytes.load(kRelaxed) != 0 ||
        !record.file.compare_exchange_strong(free, memory.file + 1))  // 0: the place is free
      continue;
    record.inode.store(memory.inode, kRelaxed);
    record.bytes.store(memory.bytes, std::memory_order_release);
    return place + 1;
  }
  return 0;
}

void DeviceBoard::hide_memory(uint32_t handle) {
  if (handle == 0 || handle > kMemoriesMax) return;
  MemoryRecord& record = record_->memories[handle - 1];
  record.bytes.store(0, std::memory_order_release);
  record.file.store(0, std::memory_order_release);
}

std::optional<DeviceBoard::Memory> DeviceBoard::find_memory(uint32_t handle) const {
  if (handle == 0 || handle > kMemoriesMax) return {};
  const MemoryRecord& record = record_->memories[handle - 1];
  Memory memory;
  memory.bytes = record.bytes.load(std::memory_order_acquire);
  memory.inode = record.inode.load(kRelaxed);
  memory.file = record.file.load(kRelaxed) - 1;
  if (memory.bytes == 0 || memory.file < 0) return {};
  return memory;
}

}  // namespace verbatim::verbs
