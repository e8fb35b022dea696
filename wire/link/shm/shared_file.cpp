// SPDX-License-Identifier: MIT
#include "wire/link/shm/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbatim::wire::shm {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error failed(const char* what) { return Error{errno, std::string(what) + ": " + std::strerror(errno)}; }

void* map(int file, size_t bytes, int protection) {
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data != MAP_FAILED) madvise(data, bytes, MADV_DONTDUMP);
  return data;
}

}  // namespace

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

SharedFile::~SharedFile() {
  if (data_) munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

Expected<SharedFile> SharedFile::create(const char* name, size_t bytes, Peers peers) {
  SharedFile made;
  made.file_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made.file_ < 0) return failed("no memory file could be made");
  if (ftruncate(made.file_, static_cast<off_t>(bytes)) != 0)
    return failed("a memory file could not be sized");
  void* data = map(made.file_, bytes, PROT_READ | PROT_WRITE);
  if (data == MAP_FAILED) return failed("a memory file could not be mapped");
  made.data_ = static_cast<std::byte*>(data);
  made.bytes_ = bytes;
  const int seals = kSizeSeals | F_SEAL_SEAL | (peers == Peers::kRead ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(made.file_, F_ADD_SEALS, seals) != 0) return failed("a memory file could not be sealed");
  return made;
}

Expected<SharedFile> SharedFile::adopt(int file, size_t bytes, Peers peers) {
  SharedFile adopted;
  adopted.file_ = file;
  const int seals = fcntl(file, F_GET_SEALS);
  const int wanted = kSizeSeals | (peers == Peers::kRead ? F_SEAL_FUTURE_WRITE : 0);
  struct stat status {};
  if (seals < 0 || (seals & wanted) != wanted) return Error{EPROTO, "the peer's shared memory is not sealed"};
  if (fstat(file, &status) != 0 || static_cast<size_t>(status.st_size) != bytes)
    return Error{EPROTO, "the peer's shared memory has another size: a different version?"};
  void* data = map(file, bytes, peers == Peers::kRead ? PROT_READ : PROT_READ | PROT_WRITE);
  if (data == MAP_FAILED) return failed("the peer's shared memory could not be mapped");
  adopted.data_ = static_cast<std::byte*>(data);
  adopted.bytes_ = bytes;
  return adopted;
}

void SharedFile::punch(size_t offset, size_t bytes) {
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(bytes)) != 0)
    std::memset(data_ + offset, 0, bytes);
}

void SharedFile::make_private(Content content) {
  constexpr int kFlags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  const bool keep = content == Content::kKeep;
  if (data_)
    (void)mmap(data_, bytes_, PROT_READ | PROT_WRITE, keep ? kFlags : kFlags | MAP_ANONYMOUS,
               keep ? file_ : -1, 0);
  if (file_ >= 0) close(file_);  // the record lock is the parent's and stays
  file_ = -1;
}

bool SharedFile::lock_as_owner() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(file_, F_SETLK, &lock) == 0;
}

bool SharedFile::owner_lives() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace verbatim::wire::shm
