// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "agent/client.h"
#include "agent/device_config.h"
#include "runtime/crypto_setting.h"
#include "runtime/sysfs.h"
#include "tools/agent_connection.h"
#include "tools/commands.h"

namespace verbatim::tools {

namespace {

// The libraries beside this program: ../lib of a build, or of an installation.
std::string library_folder() {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return "";
  self[length] = 0;
  std::string folder(self);
  folder.erase(folder.rfind('/'));
  for (const char* place :
       {"/../lib", "/../lib/x86_64-linux-gnu", "/../lib/aarch64-linux-gnu", "/../lib64"}) {
    char resolved[PATH_MAX];
    if (realpath((folder + place).c_str(), resolved) &&
        access((std::string(resolved) + "/libibverbs.so.1").c_str(), R_OK) == 0)
      return resolved;
  }
  return "";
}

constexpr uint64_t kPatienceNs = 10'000'000'000;

// An agent that is there but does not answer is given time: the machine may be busy.
Outcome await_agent() {
  const SystemClock clock;
  const uint64_t began_ns = clock.now_ns();
  agent::Request request{};
  request.ask = agent::Ask::kDirectory;
  for (bool told = false;; told = true) {
    const Expected<int> socket = agent::reach_agent();
    if (!socket) return socket.error();
    Outcome asked = AgentConnection(*socket).ask(request, [](const agent::Answer&, int) {});
    if (asked || asked.error().code != EAGAIN) return asked;
    const std::string name = "@" + agent::agent_name();
    if (clock.now_ns() - began_ns >= kPatienceNs)
      return Error{
          EAGAIN, "the agent at " + name + " has not answered for 10 s: `verbatim status` names its process"};
    if (!told) std::fprintf(stderr, "verbatim run: waiting for the agent at %s to answer\n", name.c_str());
  }
}

// What would keep a program from its devices, which an errno value is all that it can tell of. Starts the
// agent.
Outcome check_devices() {
  if (auto configured = agent::configured_devices(); !configured) return configured.error();
  if (auto crypto = runtime::crypto_setting(); !crypto) return crypto.error();
  return await_agent();
}

// Before the program looks; in vain, counters stand still.
void serve_counters(const std::string& root) {
  const Expected<int> socket = agent::reach_agent();
  agent::Request request{};
  request.ask = agent::Ask::kServeCounters;
  if (!socket || root.size() >= sizeof request.text) return;
  root.copy(request.text, root.size());
  (void)AgentConnection(*socket).ask(request, [](const agent::Answer&, int) {});
}

// execvp says "permission denied" when it finds nothing and one folder of PATH may not be searched.
bool is_anywhere(const std::string& program) {
  if (program.find('/') != std::string::npos) return true;
  const char* set = std::getenv("PATH");
  std::istringstream folders(set ? set : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder.empty() ? program : folder + "/" + program).c_str(), F_OK) == 0) return true;
  return false;
}

// Numbers that programs do not get for what they open themselves, or close for good measure.
constexpr int kFirstHold = 200;

// Serves /sys/class/infiniband and the like: makes the tree, leaves the descriptor that keeps it to the
// program and preloads what sends the program there. Without the tree the program runs as it is.
void redirect(const std::string& folder) {
  const std::string library = folder + "/verbatim/libverbatim-redirect.so";
  // The loader takes these for the end of a name.
  if (library.find_first_of(" :") != std::string::npos || access(library.c_str(), R_OK) != 0) return;
  const std::string& root = runtime::serve_sysfs();
  if (root.empty()) {
    std::fprintf(
        stderr, "verbatim run: no folder takes what stands in for /sys/class/infiniband (verbatim doctor)\n");
    return;
  }
  serve_counters(root);
  const int kept = runtime::sysfs_hold();
  int file = fcntl(kept, F_DUPFD, kFirstHold);
  if (file < 0) file = fcntl(kept, F_DUPFD, 3);
  if (file < 0) return;
  setenv("VERBATIM_SYSFS", (std::to_string(file) + ":" + root).c_str(), 1);
  const char* before = std::getenv("LD_PRELOAD");
  if (before && std::strstr(before, library.c_str())) return;
  setenv("LD_PRELOAD", (before && *before ? std::string(before) + ":" + library : library).c_str(), 1);
}

}  // namespace

int run(const std::vector<std::string>& command) {
  const std::string folder = library_folder();
  if (folder.empty()) {
    std::fprintf(stderr, "verbatim run: libibverbs.so.1 is not in ../lib beside this program\n");
    return 1;
  }
  if (Outcome checked = check_devices(); !checked) {
    std::fprintf(stderr, "verbatim run: %s\n", checked.error().reason.c_str());
    return 1;
  }
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string path = before && *before ? folder + ":" + before : folder;
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  redirect(folder);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno == EACCES && !is_anywhere(command[0]) ? ENOENT : errno;
  std::fprintf(stderr, "verbatim run: %s: %s\n", arguments[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace verbatim::tools
