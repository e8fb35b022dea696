// SPDX-License-Identifier: MIT
#include "base/process_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim {

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

/// Reads /proc/self/maps a character at a time, without memory of its own.
class Characters {
 public:
  explicit Characters(int file) : file_(file) {}
  /// -1 at the end.
  int next() {
    if (at_ == have_) {
      at_ = 0;
      have_ = pread(file_, buffer_, sizeof buffer_, offset_);
      if (have_ <= 0) return have_ = 0, -1;
      offset_ += have_;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }
  /// A number and the character after it.
  uint64_t number(unsigned base) {
    uint64_t value = 0;
    for (int c = next();; c = next()) {
      const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                                                    : base;
      if (digit >= base) return value;
      value = value * base + digit;
    }
  }

 private:
  int file_;
  off_t offset_ = 0;
  ssize_t at_ = 0, have_ = 0;
  char buffer_[256];
};

/// "first-end rwxp offset major:minor inode      path". False at the end.
bool read_line(Characters& from, Mapping& line) {
  line.first = from.number(16);
  line.end = from.number(16);
  line.readable = from.next() == 'r';
  line.writable = from.next() == 'w';
  for (int i = 0; i < 3; i++) from.next();
  from.number(16);
  line.device_major = static_cast<uint32_t>(from.number(16));
  line.device_minor = static_cast<uint32_t>(from.number(16));
  line.inode = from.number(10);
  int c = 0;
  do c = from.next();
  while (c != '\n' && c != -1);
  return c == '\n';
}

}  // namespace

ProcessMap::ProcessMap() : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

ProcessMap::~ProcessMap() {
  if (file_ >= 0) close(file_);
}

ProcessMap::Answer ProcessMap::find(uint64_t address, Mapping& found) const {
  if (file_ < 0) return Answer::kUnknown;
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_addr = address;
  if (ioctl(file_, kProcmapQuery, &query) == 0) {
    found = {query.vma_start,
             query.vma_end,
             (query.vma_flags & kVmaReadable) != 0,
             (query.vma_flags & kVmaWritable) != 0,
             query.inode,
             query.dev_major,
             query.dev_minor};
    return Answer::kMapped;
  }
  if (errno == ENOENT) return Answer::kUnmapped;
  Characters text(file_);
  bool any = false;
  while (read_line(text, found)) {
    any = true;
    if (found.first > address) return Answer::kUnmapped;
    if (address < found.end) return Answer::kMapped;
  }
  return any ? Answer::kUnmapped : Answer::kUnknown;
}

}  // namespace verbatim
