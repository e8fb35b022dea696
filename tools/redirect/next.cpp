// SPDX-License-Identifier: MIT
#include "tools/redirect/next.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::redirect {

namespace {

static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "the 64-bit variants are the same functions");

void look_up();

unsigned mode_of(int flags, va_list list) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, unsigned) : 0;
}

int early_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const unsigned mode = mode_of(flags, list);
  va_end(list);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int early_openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const unsigned mode = mode_of(flags, list);
  va_end(list);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}
int early_access(const char* path, int mode) {
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
}
ssize_t early_readlinkat(int folder, const char* path, char* text, size_t bytes) {
  return syscall(SYS_readlinkat, folder, path, text, bytes);
}
ssize_t early_readlink(const char* path, char* text, size_t bytes) {
  return early_readlinkat(AT_FDCWD, path, text, bytes);
}
int early_fstatat(int folder, const char* path, struct stat* status, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, status, flags));
}
int early_stat(const char* path, struct stat* status) { return early_fstatat(AT_FDCWD, path, status, 0); }
int early_lstat(const char* path, struct stat* status) {
  return early_fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int early_statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) {
  return static_cast<int>(syscall(SYS_statx, folder, path, flags, mask, status));
}
ssize_t early_getxattr(const char* path, const char* name, void* value, size_t bytes) {
  return syscall(SYS_getxattr, path, name, value, bytes);
}
ssize_t early_lgetxattr(const char* path, const char* name, void* value, size_t bytes) {
  return syscall(SYS_lgetxattr, path, name, value, bytes);
}
int early_chdir(const char* path) { return static_cast<int>(syscall(SYS_chdir, path)); }
int early_clock_gettime(clockid_t clock, timespec* now) {
  return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
}
int early_socket(int domain, int type, int protocol) {
  return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}
ssize_t early_sendto(int file, const void* data, size_t bytes, int flags, const sockaddr* to,
                     socklen_t size) {
  return syscall(SYS_sendto, file, data, bytes, flags, to, size);
}
ssize_t early_sendmsg(int file, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, file, message, flags);
}

// These allocate in any case, or are not called that early.
int early_faccessat(int folder, const char* path, int mode, int flags) {
  look_up();
  return g_next.faccessat(folder, path, mode, flags);
}
int early_euidaccess(const char* path, int mode) {
  look_up();
  return g_next.euidaccess(path, mode);
}
FILE* early_fopen(const char* path, const char* mode) {
  look_up();
  return g_next.fopen(path, mode);
}
DIR* early_opendir(const char* path) {
  look_up();
  return g_next.opendir(path);
}
int early_scandir(const char* path, dirent*** found, Filter filter, Order order) {
  look_up();
  return g_next.scandir(path, found, filter, order);
}
char* early_realpath(const char* path, char* resolved) {
  look_up();
  return g_next.realpath(path, resolved);
}
int early_sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) {
  look_up();
  return g_next.sigaction(signal, wanted, before);
}
sighandler_t early_signal(int signal, sighandler_t handler) {
  look_up();
  return g_next.signal(signal, handler);
}
sighandler_t early_sysv_signal(int signal, sighandler_t handler) {
  look_up();
  return g_next.sysv_signal(signal, handler);
}

template <class Function>
void replace(Function& call, const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) call = reinterpret_cast<Function>(found);
}

__attribute__((constructor)) void look_up() {
  replace(g_next.open, "open");
  replace(g_next.openat, "openat");
  replace(g_next.access, "access");
  replace(g_next.faccessat, "faccessat");
  replace(g_next.euidaccess, "euidaccess");
  replace(g_next.readlinkat, "readlinkat");
  replace(g_next.readlink, "readlink");
  replace(g_next.stat, "stat");
  replace(g_next.lstat, "lstat");
  replace(g_next.fstatat, "fstatat");
  replace(g_next.statx, "statx");
  replace(g_next.getxattr, "getxattr");
  replace(g_next.lgetxattr, "lgetxattr");
  replace(g_next.chdir, "chdir");
  replace(g_next.fopen, "fopen");
  replace(g_next.opendir, "opendir");
  replace(g_next.scandir, "scandir");
  replace(g_next.realpath, "realpath");
  replace(g_next.sigaction, "sigaction");
  replace(g_next.signal, "signal");
  replace(g_next.sysv_signal, "__sysv_signal");
  replace(g_next.clock_gettime, "clock_gettime");
  replace(g_next.socket, "socket");
  replace(g_next.sendto, "sendto");
  replace(g_next.sendmsg, "sendmsg");
}

}  // namespace

constinit Next g_next = {
    early_open,        early_openat,        early_access,    early_faccessat, early_euidaccess,
    early_readlinkat,  early_readlink,      early_stat,      early_lstat,     early_fstatat,
    early_statx,       early_getxattr,      early_lgetxattr, early_chdir,     early_fopen,
    early_opendir,     early_scandir,       early_realpath,  early_sigaction, early_signal,
    early_sysv_signal, early_clock_gettime, early_socket,    early_sendto,    early_sendmsg};

}  // namespace verbatim::redirect
