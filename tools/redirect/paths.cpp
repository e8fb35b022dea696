// SPDX-License-Identifier: MIT
// VERBATIM_SYSFS is "FILE:ROOT": the descriptor whose lock keeps the tree, inherited from program to program,
// and the path that stands for "/" in it.
#include "tools/redirect/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbatim::redirect {

namespace {

constexpr size_t kRootMax = 256;
constexpr int kShared = 1, kAtOnce = 4;  // of flock

struct Place {
  int file = -1;
  size_t length = 0;  // 0: there is no tree
  char root[kRootMax] = {};
};

// Written twice at most, with the same values: by the constructor and by what comes before it.
Place g_place;
bool g_place_known = false;

void find_place() {
  const char* set = std::getenv("VERBATIM_SYSFS");
  if (!set) return;
  int file = 0;
  for (; *set >= '0' && *set <= '9' && file < 1 << 20; set++) file = file * 10 + (*set - '0');
  if (set[0] != ':' || set[1] != '/' || std::strlen(set + 1) >= kRootMax) return;
  std::strcpy(g_place.root, set + 1);
  g_place.file = file;
  g_place.length = std::strlen(g_place.root);
}

const Place& place() {
  if (!g_place_known) {
    find_place();
    g_place_known = true;
  }
  return g_place;
}

// How much of it is the part that stays out of the path in the tree: "/sys", or nothing of "/dev".
size_t strip_of(const char* path) { return path[1] == 's' ? 4 : 0; }

bool begins_with(const char* path, const char* prefix, size_t length) {
  return std::strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

// The program that was here before may have closed what it inherited.
__attribute__((constructor)) void keep_hold() {
  const Place& now = place();
  struct stat held {
  }, named{};
  if (now.length == 0 || syscall(SYS_newfstatat, AT_FDCWD, now.root, &named, 0) != 0) return;
  const bool open_here = fstat(now.file, &held) == 0;
  if (open_here && held.st_ino == named.st_ino && held.st_dev == named.st_dev) return;
  const long file = syscall(SYS_openat, AT_FDCWD, now.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (file < 0) return;
  syscall(SYS_flock, file, kShared | kAtOnce);
  if (!open_here && syscall(SYS_dup3, file, now.file, 0) >= 0) close(static_cast<int>(file));
}

}  // namespace

bool concerns(const char* path) {
  if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd')) return false;
  if (!begins_with(path, "/sys/class/infiniband", 21) &&
      !begins_with(path, "/sys/class/infiniband_verbs", 27) &&
      !begins_with(path, "/sys/devices/pci5642:00", 23) && !begins_with(path, "/dev/infiniband", 15) &&
      std::strncmp(path, "/dev/ptp5642", 12) != 0)
    return false;
  return place().length != 0;
}

bool is_served(int folder, const char* path) {
  if (concerns(path)) return true;
  const Place& now = place();
  char link[32] = "/proc/self/cwd", text[kPathMax];
  if (now.length == 0 || path == nullptr) return false;
  if (path[0] == '/') return begins_with(path, now.root, now.length);
  if (folder != AT_FDCWD) std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text);
  return length > static_cast<long>(now.length) && std::memcmp(text, now.root, now.length) == 0 &&
         text[now.length] == '/';
}

Target::Target(const char* path) {
  const Place& now = place();
  const char* below = path + strip_of(path);
  const size_t length = std::strlen(below);
  if (now.length + length >= sizeof text_) {  // there is no such thing: the empty path says so
    text_[0] = 0;
    return;
  }
  std::memcpy(text_, now.root, now.length);
  std::memcpy(text_ + now.length, below, length + 1);
}

}  // namespace verbatim::redirect
