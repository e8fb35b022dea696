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
    "  --background  return when the agent is ready to be asked (or another one is)\n";

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
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
  auto server = verbatim::agent::Server::open(verbatim::agent::agent_name());
  if (!server) {
    if (server.error().code == EADDRINUSE) return background ? 0 : 3;
    std::fprintf(stderr, "verbatimd: %s\n", server.error().reason.c_str());
    return 1;
  }
  // The name is bound: whoever waits for this process may ask now, and the child goes on.
  if (background) {
    const pid_t child = fork();
    if (child != 0) _exit(child > 0 ? 0 : 1);
    setsid();
  }
  return (*server)->run();
}
