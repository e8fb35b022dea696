// SPDX-License-Identifier: MIT
#pragma once

// What the replaced calls go on to. Until this library's constructor has looked them up, those that are a
// system call are made as such: a program's allocator may open files before anything can be looked up.

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <cstdio>

namespace verbatim::redirect {

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);

struct Next {
  int (*open)(const char* path, int flags, ...);
  int (*openat)(int folder, const char* path, int flags, ...);
  int (*access)(const char* path, int mode);
  int (*faccessat)(int folder, const char* path, int mode, int flags);
  int (*euidaccess)(const char* path, int mode);
  ssize_t (*readlinkat)(int folder, const char* path, char* text, size_t bytes);
  ssize_t (*readlink)(const char* path, char* text, size_t bytes);
  int (*stat)(const char* path, struct stat* status);
  int (*lstat)(const char* path, struct stat* status);
  int (*fstatat)(int folder, const char* path, struct stat* status, int flags);
  int (*statx)(int folder, const char* path, int flags, unsigned mask, struct statx* status);
  ssize_t (*getxattr)(const char* path, const char* name, void* value, size_t bytes);
  ssize_t (*lgetxattr)(const char* path, const char* name, void* value, size_t bytes);
  int (*chdir)(const char* path);
  FILE* (*fopen)(const char* path, const char* mode);
  DIR* (*opendir)(const char* path);
  int (*scandir)(const char* path, dirent*** found, Filter filter, Order order);
  char* (*realpath)(const char* path, char* resolved);
  int (*sigaction)(int signal, const struct sigaction* wanted, struct sigaction* before);
  sighandler_t (*signal)(int signal, sighandler_t handler);
  sighandler_t (*sysv_signal)(int signal, sighandler_t handler);
  int (*clock_gettime)(clockid_t clock, timespec* now);
  int (*socket)(int domain, int type, int protocol);
  ssize_t (*sendto)(int file, const void* data, size_t bytes, int flags, const sockaddr* to, socklen_t size);
  ssize_t (*sendmsg)(int file, const msghdr* message, int flags);
};

extern Next g_next;

}  // namespace verbatim::redirect
