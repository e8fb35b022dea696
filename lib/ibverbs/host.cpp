// SPDX-License-Identifier: MIT
// Helpers that concern the host rather than a device: sysfs and fork.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/ibverbs/undeclared.h"

extern "C" {

const char* ibv_get_sysfs_path(void) {
  static const std::string path = [] {
    const char* given = ::secure_getenv("SYSFS_PATH");
    std::string chosen = given != nullptr ? given : "/sys";
    while (chosen.size() > 1 && chosen.back() == '/') chosen.pop_back();
    return chosen;
  }();
  return path.c_str();
}

int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size) {
  const std::string path = std::string(dir) + "/" + file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = ::read(fd, buf, size);
  ::close(fd);
  if (length > 0 && buf[length - 1] == '\n') buf[--length] = '\0';
  return static_cast<int>(length);
}

// Nothing is pinned: a child's copies of pages never take a device's away.
int ibv_fork_init(void) { return 0; }
ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void* /*base*/, size_t /*size*/) { return 0; }
int ibv_dofork_range(void* /*base*/, size_t /*size*/) { return 0; }

}  // extern "C"
