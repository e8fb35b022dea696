// SPDX-License-Identifier: MIT
#include "device/connectx/memory_range.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::connectx {

namespace {

// PROCMAP_QUERY of Linux 6.11, from the kernel's documentation; older headers lack it.
struct ProcmapQuery {
  uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
  uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
  uint64_t vma_name_addr, build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kVmaReadable = 1, kVmaWritable = 2;

struct CloseFile {
  void operator()(FILE* file) const { fclose(file); }
};

Error unmapped(uint64_t address, bool mapped) {
  char text[96];
  std::snprintf(text, sizeof text, "memory at 0x%" PRIx64 " %s", address,
                mapped ? "does not have the rights that the region asks for" : "is not mapped");
  return Error{EFAULT, text};
}

enum class Answer { kYes, kNo, kUnknown };

Answer ask_kernel(uint64_t address, uint64_t end, uint64_t needed, Outcome& outcome) {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return Answer::kUnknown;
  Answer answer = Answer::kYes;
  while (address < end && answer == Answer::kYes) {
    ProcmapQuery query{};
    query.size = sizeof query;
    query.query_addr = address;
    if (ioctl(file, kProcmapQuery, &query) != 0) {
      answer = errno == ENOENT ? Answer::kNo : Answer::kUnknown;
      if (answer == Answer::kNo) outcome = unmapped(address, false);
    } else if ((query.vma_flags & needed) != needed) {
      answer = Answer::kNo;
      outcome = unmapped(address, true);
    } else {
      address = query.vma_end;
    }
  }
  close(file);
  return answer;
}

Answer read_maps(uint64_t address, uint64_t end, uint64_t needed, Outcome& outcome) {
  std::unique_ptr<FILE, CloseFile> file(fopen("/proc/self/maps", "re"));
  if (!file) return Answer::kUnknown;
  char line[512];
  while (address < end && fgets(line, sizeof line, file.get())) {
    uint64_t from = 0, to = 0;
    char read = '-', write = '-';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c", &from, &to, &read, &write) != 4 || to <= address)
      continue;
    if (from > address) break;
    const uint64_t rights = (read == 'r' ? kVmaReadable : 0) | (write == 'w' ? kVmaWritable : 0);
    if ((rights & needed) != needed) {
      outcome = unmapped(address, true);
      return Answer::kNo;
    }
    address = to;
  }
  if (address >= end) return Answer::kYes;
  outcome = unmapped(address, false);
  return Answer::kNo;
}

}  // namespace

Outcome check_range(uint64_t address, uint64_t length, bool write) {
  if (length == 0) return Done{};
  const uint64_t end = address + length;
  if (end < address) return Error{EINVAL, "the range wraps around the address space"};
  const uint64_t needed = kVmaReadable | (write ? kVmaWritable : 0);
  Outcome outcome = Done{};
  if (ask_kernel(address, end, needed, outcome) != Answer::kUnknown) return outcome;
  if (read_maps(address, end, needed, outcome) != Answer::kUnknown) return outcome;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = address & ~(page - 1);
  if (madvise(reinterpret_cast<void*>(first), end - first,
              write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
    return unmapped(address, errno == EFAULT);
  return Done{};
}

}  // namespace verbatim::connectx
