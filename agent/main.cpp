// SPDX-License-Identifier: MIT
// verbatimd: what the kernel's part of RDMA is elsewhere, for the processes of one user in one network
// namespace.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "agent/server.h"

namespace {

constexpr const char* kUsage =
    "usage: verbatimd [--background] [--help] [--version]\n"
    "\n"
    "Introduces the processes of one user to each other. Programs start it when they need it, and it leaves "
    "when the\n"
    "last one has gone.\n"
    "  --background  return when the agent is ready to be asked (or another one is)\n"
    "\n"
    "Exit status: 0 done, 2 wrong usage, 3 another agent runs; with --background else the errno value of "
    "what\n"
    "went wrong.\n";

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Opens and serves. `ready`: where to tell how the opening went, one byte, an errno value; -1: nowhere.
int serve(int ready) {
  auto server = verbatim::agent::Server::open(verbatim::agent::agent_name());
  const unsigned char result = server ? 0 : static_cast<unsigned char>(server.error().code);
  if (ready >= 0) {
    const bool told = write(ready, &result, 1) == 1;
    close(ready);
    if (!told) return 1;
  }
  if (server) return (*server)->run();
  if (server.error().code == EADDRINUSE) return 3;
  std::fprintf(stderr, "verbatimd: %s\n", server.error().reason.c_str());
  return 1;
}

// The serving process is the one that listens, because peers see that one's credentials.
int serve_in_background() {
  int ends[2];
  if (pipe(ends) != 0) return errno;
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    close(ends[0]);
    setsid();
    return serve(ends[1]);
  }
  close(ends[1]);
  unsigned char result = ECHILD;
  ssize_t got;
  do got = read(ends[0], &result, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) result = ECHILD;
  return result == EADDRINUSE ? 0 : result;
}

}  // namespace

int main(int argc, char** argv) {
  bool background = false;
  for (int i = 1; i < argc; i++) {
    if (std::strcmp(argv[i], "--background") == 0) {
      background = true;
    } else if (std::strcmp(argv[i], "--version") == 0) {
      std::puts("verbatimd " VERBATIM_VERSION);
      return 0;
    } else {
      const bool help = std::strcmp(argv[i], "--help") == 0;
      std::fputs(kUsage, help ? stdout : stderr);
      return help ? 0 : 2;
    }
  }
  signal(SIGPIPE, SIG_IGN);
  raise_file_limit();
  return background ? serve_in_background() : serve(-1);
}
