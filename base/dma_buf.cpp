// SPDX-License-Identifier: MIT
#include "base/dma_buf.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim {

namespace {

// How the kernel marks the file system behind them (linux/magic.h; older headers lack it).
constexpr uint32_t kDmaBufMagic = 0x444d4142;
constexpr uint64_t kDeviceBytes = uint64_t{1} << 62;  ///< what a device has tells the mapping alone

Expected<uint64_t> bytes_of(int file) {
  struct statfs system {};
  struct stat about {};
  if (fstatfs(file, &system) != 0 || fstat(file, &about) != 0)
    return Error{errno, "the descriptor is not open"};
  const auto magic = static_cast<uint32_t>(system.f_type);
  if (magic == kDmaBufMagic) {
    const off_t end = lseek(file, 0, SEEK_END);
    if (end < 0) return Error{errno, "the length of the DMA-buf cannot be found"};
    return static_cast<uint64_t>(end);
  }
  if (S_ISCHR(about.st_mode)) return kDeviceBytes;
  if (!S_ISREG(about.st_mode)) return Error{EINVAL, "the descriptor is no DMA-buf, no file and no device"};
  return static_cast<uint64_t>(about.st_size);
}

}  // namespace

Expected<DmaBuf> DmaBuf::map(int file, uint64_t offset, uint64_t length, bool writable) {
  const Expected<uint64_t> all = bytes_of(file);
  if (!all) return all.error();
  if (length == 0 || offset > *all || length > *all - offset)
    return Error{
        EINVAL, "the range is empty or reaches beyond the " + std::to_string(*all) + " bytes of the DMA-buf"};
  DmaBuf made;
  made.in_page_ = offset & (static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) - 1);
  made.mapped_ = length + made.in_page_;
  void* pages = mmap(nullptr, made.mapped_, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file,
                     static_cast<off_t>(offset - made.in_page_));
  if (pages == MAP_FAILED) {
    const bool refused = errno == ENODEV || errno == EINVAL || errno == ENOTTY;
    return Error{refused ? EOPNOTSUPP : errno, "the DMA-buf cannot be mapped with these rights"};
  }
  made.pages_ = pages;
  return made;
}

DmaBuf::~DmaBuf() {
  if (pages_ != nullptr) munmap(pages_, mapped_);
}

}  // namespace verbatim
