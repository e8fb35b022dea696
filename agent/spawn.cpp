// SPDX-License-Identifier: MIT
#include "agent/spawn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

extern char** environ;

namespace verbatim::agent {

namespace {

constexpr size_t kStackBytes = 64 << 10;

std::string folder_of_this() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&find_agent), &info) || !info.dli_fname) return ".";
  char resolved[4096];
  const std::string path = realpath(info.dli_fname, resolved) ? resolved : info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

struct Start {
  const char* path;
  int error = 0;
};

// Runs in the memory of the program that waits for it: only system calls, nothing that allocates or locks.
int run_child(void* argument) {
  auto* start = static_cast<Start*>(argument);
  setsid();
  for (int signal_number = 1; signal_number < NSIG; signal_number++) {
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal_number, &plain, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (chdir("/") != 0) return 1;
  const int null = open("/dev/null", O_RDWR);
  for (int file = 0; file < 3; file++) dup2(null, file);
  if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
    for (int file = 3; file < 65536; file++) close(file);
  char background[] = "--background";
  char* arguments[] = {const_cast<char*>(start->path), background, nullptr};
  execve(start->path, arguments, environ);
  start->error = errno;
  return 127;
}

}  // namespace

Expected<std::string> find_agent() {
  if (const char* set = std::getenv("VERBATIM_AGENT"); set && *set) {
    if (access(set, X_OK) == 0) return std::string(set);
    return Error{ENOENT, "VERBATIM_AGENT names " + std::string(set) + ", which cannot be run"};
  }
  const std::string here = folder_of_this();
  std::string tried;
  for (const std::string& place :
       {here + "/../bin/verbatimd", here + "/verbatimd", here + "/../../bin/verbatimd",
        std::string("/usr/libexec/verbatim/verbatimd"), std::string("/usr/local/bin/verbatimd"),
        std::string("/usr/bin/verbatimd")}) {
    if (access(place.c_str(), X_OK) == 0) return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error{ENOENT,
               "the agent verbatimd is not found (looked for " + tried + "; VERBATIM_AGENT may name it)"};
}

Outcome start_agent() {
  Expected<std::string> path = find_agent();
  if (!path) return path.error();
  Start start{path->c_str()};
  const std::unique_ptr<char[]> stack(new char[kStackBytes]);
  // No signal is asked for when the child ends (a plain fork would raise SIGCHLD in the program).
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  char* top =
      reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(stack.get() + kStackBytes) & ~uintptr_t{15});
  const pid_t child = clone(run_child, top, CLONE_VM | CLONE_VFORK, &start);
  const int clone_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0)
    return Error{clone_error, "no process for the agent: " + std::string(std::strerror(clone_error))};
  int status = 0;
  while (waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
  }
  if (start.error != 0)
    return Error{start.error, "the agent " + *path + " cannot be run: " + std::strerror(start.error)};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{ECHILD, "the agent " + *path + " failed to start"};
  return Done{};
}

}  // namespace verbatim::agent
