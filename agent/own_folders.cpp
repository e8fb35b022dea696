// SPDX-License-Identifier: MIT
#include "agent/own_folders.h"

#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::agent {

namespace {

constexpr int kNamesMax = 16;

// Empty: no name is to be had there.
std::string own_folder(const std::string& name) {
  for (int i = 0; i < kNamesMax; i++) {
    const std::string folder = i ? name + "." + std::to_string(i) : name;
    mkdir(folder.c_str(), 0700);
    if (is_private_folder(folder)) return folder;
  }
  return "";
}

}  // namespace

bool is_private_folder(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Not below TMPDIR: the agent and the programs of a user must agree.
std::vector<std::string> own_folders() {
  const std::string user = std::to_string(geteuid());
  std::vector<std::string> found;
  for (const std::string& name :
       {"/run/user/" + user + "/verbatim", "/tmp/verbatim-" + user, "/dev/shm/verbatim-" + user})
    if (std::string folder = own_folder(name); !folder.empty()) found.push_back(std::move(folder));
  return found;
}

}  // namespace verbatim::agent
