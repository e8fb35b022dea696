// SPDX-License-Identifier: MIT
#include "agent/own_folders.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace verbatim::agent {

namespace {

// A user whom nobody else is, so that no agent has folders of that name.
constexpr uid_t kUser = 1'987'654'321;

// Root may become any user; others may within a user namespace, if the host lets them.
bool become_user() {
  if (geteuid() == 0) return setresuid(kUser, kUser, kUser) == 0;
  const uid_t before = geteuid();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream map("/proc/self/uid_map");
  map << kUser << ' ' << before << " 1" << std::flush;
  return geteuid() == kUser;
}

enum Outcome { kAsWanted, kNotAsWanted, kNoOtherUser };

Outcome looks_in_child(const std::string& wanted) {
  const pid_t child = fork();
  if (child == 0) {
    if (!become_user()) _exit(kNoOtherUser);
    const std::vector<std::string> found = own_folders();
    const bool has = std::find(found.begin(), found.end(), wanted) != found.end();
    const bool own = std::all_of(found.begin(), found.end(), is_private_folder);
    for (const std::string& each : found) rmdir(each.c_str());
    _exit(has && own ? kAsWanted : kNotAsWanted);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : kNotAsWanted;
}

}  // namespace

TEST(OwnFolders, AreTheUsersByName) {
  const std::string folder = "/tmp/verbatim-" + std::to_string(kUser);
  const Outcome outcome = looks_in_child(folder);
  if (outcome == kNoOtherUser) GTEST_SKIP() << "this host has no user namespaces";
  EXPECT_EQ(outcome, kAsWanted);
}

TEST(OwnFolders, AreOthersWhereTheNameIsTaken) {
  const std::string folder = "/tmp/verbatim-" + std::to_string(kUser);
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const Outcome outcome = looks_in_child(folder + ".1");
  rmdir(folder.c_str());
  if (outcome == kNoOtherUser) GTEST_SKIP() << "this host has no user namespaces";
  EXPECT_EQ(outcome, kAsWanted);
}

}  // namespace verbatim::agent
