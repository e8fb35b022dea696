// SPDX-License-Identifier: MIT
#include "agent/spawn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

extern char** environ;
// There when the program runs under the thread sanitizer.
extern "C" void __tsan_init() __attribute__((weak));

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

// Folders that PATH names, absolute ones only: what is "here" differs from program to program.
std::vector<std::string> search_path() {
  std::vector<std::string> folders;
  const char* set = secure_getenv("PATH");
  const std::string path = set ? set : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (path[at] == '/') folders.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return folders;
}

/// A piece of stack for a child that shares this process's memory.
class Stack {
 public:
  void* top() const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory_.get() + kStackBytes) & ~uintptr_t{15});
  }

 private:
  std::unique_ptr<char[]> memory_{new char[kStackBytes]};
};

/// What is asked of the children and what they report: in memory that is shared with them in any case.
struct Start {
  const char* path;
  char* const* arguments;
  char* const* environment;
  void* stack;     ///< for the process that becomes the agent
  int flags;       ///< of clone, for both
  int error = 0;   ///< errno value: it could not be run
  int status = 0;  ///< as waitpid gives it
};

// Both functions below run in the memory of the program, whose thread waits meanwhile. So they make system
// calls and nothing else: the C library's wrappers may lock, check for cancellation or, in a program that is
// checked by a sanitizer, keep records of what they are told.
#define VERBATIM_IN_CHILD __attribute__((no_sanitize("thread", "address", "undefined")))

VERBATIM_IN_CHILD int become_agent(void* argument) {
  auto* start = static_cast<Start*>(argument);
  const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
  for (long file = 0; file < 3; file++)
    if (null < 0)
      syscall(SYS_close, file);
    else if (null != file)
      syscall(SYS_dup3, null, file, 0);
  if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
    for (long file = 3; file < 65536; file++) syscall(SYS_close, file);
  const uint64_t none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
  syscall(SYS_execve, start->path, start->arguments, start->environment);
  start->error = errno;
  return 127;
}

// A process that calls exec raises SIGCHLD in its parent when it ends, whatever clone was told. So the
// program gets a child that never does, and that one has the agent for a child.
VERBATIM_IN_CHILD int stand_between(void* argument) {
  auto* start = static_cast<Start*>(argument);
  syscall(SYS_setsid);
  const uint64_t plain[4] = {};  // the kernel's struct sigaction: SIG_DFL
  for (long signal_number = 1; signal_number < NSIG; signal_number++)
    syscall(SYS_rt_sigaction, signal_number, plain, nullptr, sizeof(uint64_t));
  if (syscall(SYS_chdir, "/") != 0) {
    start->error = errno;
    return 1;
  }
  const pid_t child = clone(become_agent, start->stack, start->flags | SIGCHLD, start);
  if (child < 0) {
    start->error = errno;
    return 1;
  }
  while (syscall(SYS_wait4, child, &start->status, 0, nullptr) < 0 && errno == EINTR) {
  }
  return 0;
}

// The program's environment without what would make the agent something else.
std::vector<char*> agent_environment() {
  std::vector<char*> kept;
  for (char** each = environ; each && *each; each++)
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0) kept.push_back(*each);
  kept.push_back(nullptr);
  return kept;
}

Outcome outcome_of(const Start& start) {
  const std::string agent = "the agent " + std::string(start.path);
  if (start.error != 0) return Error{start.error, agent + " cannot be run: " + std::strerror(start.error)};
  if (start.status == 0) return Done{};
  if (!WIFEXITED(start.status))
    return Error{ECHILD, agent + " was ended by signal " + std::to_string(WTERMSIG(start.status))};
  const int code = WEXITSTATUS(start.status);
  if (code > 125) return Error{ECHILD, agent + " failed to start (exit status " + std::to_string(code) + ")"};
  return Error{ECHILD, agent + " failed to start: " + std::strerror(code)};
}

}  // namespace

Expected<std::string> find_agent() {
  if (const char* set = secure_getenv("VERBATIM_AGENT"); set && *set) {
    char resolved[4096];  // the agent is started from another folder
    if (realpath(set, resolved) && access(resolved, X_OK) == 0) return std::string(resolved);
    return Error{ENOENT, "VERBATIM_AGENT names " + std::string(set) + ", which cannot be run"};
  }
  const std::string here = folder_of_this();
  std::vector<std::string> folders = {here + "/../bin", here, here + "/../../bin", "/usr/libexec/verbatim"};
  for (std::string& folder : search_path()) folders.push_back(std::move(folder));
  std::string tried;
  for (const std::string& folder : folders) {
    const std::string place = folder + "/verbatimd";
    if (access(place.c_str(), X_OK) == 0) return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error{ENOENT,
               "the agent verbatimd is not found (looked for " + tried + "; VERBATIM_AGENT may name it)"};
}

Outcome start_agent() {
  Expected<std::string> path = find_agent();
  if (!path) return path.error();
  std::vector<char*> environment = agent_environment();
  const Stack between, becoming;
  char background[] = "--background";
  char* const arguments[] = {path->data(), background, nullptr};
  void* shared = mmap(nullptr, sizeof(Start), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error{errno, "no memory to start the agent"};
  // The thread sanitizer takes every clone for a fork: with memory shared, it would stop watching this
  // thread.
  const int flags = &__tsan_init ? 0 : CLONE_VM | CLONE_VFORK;
  auto* start = new (shared) Start{path->c_str(), arguments, environment.data(), becoming.top(), flags};
  // Neither a signal's handler nor a cancellation may run while the children use this thread's memory.
  int cancelable;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = clone(stand_between, between.top(), start->flags, start);
  const int clone_error = errno;
  while (child > 0 && waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setcancelstate(cancelable, nullptr);
  Outcome outcome = child < 0 ? Outcome(Error{clone_error, "no process for the agent: " +
                                                               std::string(std::strerror(clone_error))})
                              : outcome_of(*start);
  munmap(shared, sizeof(Start));
  return outcome;
}

}  // namespace verbatim::agent
