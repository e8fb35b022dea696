// SPDX-License-Identifier: MIT
// The calls of the C library that take a path. Only paths of RDMA devices become others; everything else goes
// on as it came, and so does errno.
#include <fcntl.h>
#include <stdarg.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "tools/redirect/next.h"
#include "tools/redirect/paths.h"

// The library exports what its version script names.
#pragma GCC visibility push(default)

using verbatim::redirect::concerns;
using verbatim::redirect::Filter;
using verbatim::redirect::g_next;
using verbatim::redirect::is_served;
using verbatim::redirect::Order;
using verbatim::redirect::Target;

namespace {

// Apart, so that the buffer is on the stack only where it is used.
template <class Call>
__attribute__((noinline)) auto elsewhere(const char* path, Call call) {
  const Target target(path);
  return call(target.path());
}

/// Makes the call with the path, or with where it is really found.
template <class Call>
inline auto redirected(const char* path, Call call) {
  return __builtin_expect(concerns(path), 0) ? elsewhere(path, call) : call(path);
}

// Whoever opens a counter waits for it to be written (agent/counter_service.h); below /sys nobody has to ask
// for that.
int openat_with(int folder, const char* path, int flags, unsigned mode) {
  const int file =
      redirected(path, [=](const char* real) { return g_next.openat(folder, real, flags, mode); });
  if (file >= 0 || errno != EAGAIN || (flags & O_NONBLOCK) == 0 || !is_served(folder, path)) return file;
  flags &= ~O_NONBLOCK;
  return redirected(path, [=](const char* real) { return g_next.openat(folder, real, flags, mode); });
}

int open_with(const char* path, int flags, unsigned mode) { return openat_with(AT_FDCWD, path, flags, mode); }

bool makes_a_file(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

#define VERBATIM_MODE(mode)        \
  unsigned mode = 0;               \
  if (makes_a_file(flags)) {       \
    va_list list;                  \
    va_start(list, flags);         \
    mode = va_arg(list, unsigned); \
    va_end(list);                  \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  VERBATIM_MODE(mode)
  return open_with(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  VERBATIM_MODE(mode)
  return open_with(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  VERBATIM_MODE(mode)
  return openat_with(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  VERBATIM_MODE(mode)
  return openat_with(folder, path, flags, mode);
}
int __open_2(const char* path, int flags) { return open_with(path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_with(path, flags, 0); }
int __openat_2(int folder, const char* path, int flags) { return openat_with(folder, path, flags, 0); }
int __openat64_2(int folder, const char* path, int flags) { return openat_with(folder, path, flags, 0); }

FILE* fopen(const char* path, const char* mode) {
  return redirected(path, [=](const char* real) { return g_next.fopen(real, mode); });
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
DIR* opendir(const char* path) {
  return redirected(path, [](const char* real) { return g_next.opendir(real); });
}
int scandir(const char* path, dirent*** found, Filter filter, Order order) {
  return redirected(path, [=](const char* real) { return g_next.scandir(real, found, filter, order); });
}
int scandir64(const char* path, dirent64*** found, int (*filter)(const dirent64*),
              int (*order)(const dirent64**, const dirent64**)) {
  return scandir(path, reinterpret_cast<dirent***>(found), reinterpret_cast<Filter>(filter),
                 reinterpret_cast<Order>(order));
}
int chdir(const char* path) noexcept {
  return redirected(path, [](const char* real) { return g_next.chdir(real); });
}

int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  return redirected(path, [=](const char* real) { return g_next.fstatat(folder, real, status, flags); });
}
int stat(const char* path, struct stat* status) noexcept {
  return redirected(path, [=](const char* real) { return g_next.stat(real, status); });
}
int lstat(const char* path, struct stat* status) noexcept {
  return redirected(path, [=](const char* real) { return g_next.lstat(real, status); });
}
int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
  return redirected(path, [=](const char* real) { return g_next.statx(folder, real, flags, mask, status); });
}
int fstatat64(int folder, const char* path, struct stat64* status, int flags) noexcept {
  return fstatat(folder, path, reinterpret_cast<struct stat*>(status), flags);
}
int stat64(const char* path, struct stat64* status) noexcept {
  return stat(path, reinterpret_cast<struct stat*>(status));
}
int lstat64(const char* path, struct stat64* status) noexcept {
  return lstat(path, reinterpret_cast<struct stat*>(status));
}
// As programs built before glibc 2.33 call them; the version has one value here.
int __xstat(int, const char* path, struct stat* status) { return stat(path, status); }
int __lxstat(int, const char* path, struct stat* status) { return lstat(path, status); }
int __fxstatat(int, int folder, const char* path, struct stat* status, int flags) {
  return fstatat(folder, path, status, flags);
}
int __xstat64(int, const char* path, struct stat64* status) { return stat64(path, status); }
int __lxstat64(int, const char* path, struct stat64* status) { return lstat64(path, status); }
int __fxstatat64(int, int folder, const char* path, struct stat64* status, int flags) {
  return fstatat64(folder, path, status, flags);
}

int access(const char* path, int mode) noexcept {
  return redirected(path, [=](const char* real) { return g_next.access(real, mode); });
}
int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return redirected(path, [=](const char* real) { return g_next.faccessat(folder, real, mode, flags); });
}
int euidaccess(const char* path, int mode) noexcept {
  return redirected(path, [=](const char* real) { return g_next.euidaccess(real, mode); });
}
int eaccess(const char* path, int mode) noexcept { return euidaccess(path, mode); }

ssize_t readlink(const char* path, char* text, size_t bytes) noexcept {
  return redirected(path, [=](const char* real) { return g_next.readlink(real, text, bytes); });
}
ssize_t readlinkat(int folder, const char* path, char* text, size_t bytes) noexcept {
  return redirected(path, [=](const char* real) { return g_next.readlinkat(folder, real, text, bytes); });
}
// The checked forms: the caller's buffer is as long as it says, or the compiler had said so.
ssize_t __readlink_chk(const char* path, char* text, size_t bytes, size_t room) {
  return readlink(path, text, bytes < room ? bytes : room);
}
ssize_t __readlinkat_chk(int folder, const char* path, char* text, size_t bytes, size_t room) {
  return readlinkat(folder, path, text, bytes < room ? bytes : room);
}

ssize_t getxattr(const char* path, const char* name, void* value, size_t bytes) noexcept {
  return redirected(path, [=](const char* real) { return g_next.getxattr(real, name, value, bytes); });
}
ssize_t lgetxattr(const char* path, const char* name, void* value, size_t bytes) noexcept {
  return redirected(path, [=](const char* real) { return g_next.lgetxattr(real, name, value, bytes); });
}

char* realpath(const char* path, char* resolved) noexcept {
  return redirected(path, [=](const char* real) { return g_next.realpath(real, resolved); });
}
char* __realpath_chk(const char* path, char* resolved, size_t) { return realpath(path, resolved); }
char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

}  // extern "C"

#pragma GCC visibility pop
