// SPDX-License-Identifier: MIT
#include "tools/doctor/host_checks.h"

#include <fcntl.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/gid_table.h"
#include "agent/history.h"
#include "runtime/process.h"
#include "tools/agent_connection.h"
#include "tools/doctor/address.h"
#include "tools/doctor/holders.h"
#include "wire/format/path_mtu.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::doctor {

namespace {

constexpr rlim_t kFilesMin = 256;
constexpr int kBufferMin = 1 << 20;

void check_devices(Report& report) {
  const auto devices = runtime::list_devices();
  if (!devices)
    return report.problem("devices", devices.error().reason, "correct VERBATIM_DEVICES, or leave it unset");
  std::string names;
  bool ethernet = false;
  for (const runtime::DeviceEntry& each : *devices) {
    names += (names.empty() ? "" : ", ") + each.name + (each.infiniband ? " (InfiniBand)" : "");
    ethernet |= !each.infiniband;
  }
  if (devices->empty()) return report.problem("devices", "VERBATIM_DEVICES asks for none", "leave it unset");
  if (!ethernet)
    return report.problem("devices", names + ": ports of InfiniBand reach this host only",
                          "have a device without the option 'infiniband' in VERBATIM_DEVICES");
  report.well("devices", names);
}

std::string remedy_of_agent(const Error& error) {
  switch (error.code) {
    case EACCES:
      return "end that process, or give all programs another name in VERBATIM_AGENT_SOCKET";
    case EPROTO:
      return "end the programs of the other build, with the last of which its agent leaves";
    case ENOENT:
      return "set VERBATIM_AGENT to where verbatimd is";
    case EMFILE:
      return "raise the limit on open files (ulimit -n)";
    case EAGAIN:
      return "it may be stopped, or have no processor: look at the process verbatimd";
    default:
      return "look at what the message names; verbatimd can be started by hand, too";
  }
}

uint32_t process_at(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? static_cast<uint32_t>(peer.pid)
                                                                          : 0;
}

// Somebody may have forgotten them.
void check_rules(Report& report, const tools::AgentConnection& connection) {
  std::string rules;
  const Outcome listed = tools::for_each_rule(connection, 0, [&](const agent::Answer& rule) {
    rules += (rules.empty() ? "" : "; ") + std::string(rule.text, strnlen(rule.text, sizeof rule.text));
  });
  if (listed && !rules.empty())
    report.note("rules", "packets are damaged on purpose: " + rules, "verbatim inject clear");
  if (const char* own = std::getenv("VERBATIM_INJECT"); own && *own)
    report.note(
        "rules",
        "programs started from here damage packets on purpose: VERBATIM_INJECT is " + std::string(own),
        "unset it");
}

bool check_agent(Report& report) {
  Expected<int> known = agent::connect_agent();
  const bool ran = known.ok();
  if (ran) close(*known);
  const Expected<int> reached = agent::reach_agent();
  if (!reached) {
    report.problem("agent", reached.error().reason, remedy_of_agent(reached.error()));
    return false;
  }
  const tools::AgentConnection connection(*reached);
  const std::string process = "process " + std::to_string(process_at(*reached));
  agent::Request request{};
  request.ask = agent::Ask::kDirectory;
  if (const Outcome asked = connection.ask(request, [](const agent::Answer&, int) {}); !asked) {
    report.problem("agent", asked.error().reason + " (" + process + ")", remedy_of_agent(asked.error()));
    return false;
  }
  report.well("agent", "verbatimd " + std::string(ran ? "runs" : "was started") + ": " + process +
                           ", name @" + agent::agent_name());
  check_rules(report, connection);
  return true;
}

// Errors are remembered there, and what stands in for /sys.
void check_folder(Report& report) {
  const std::string path = agent::history_path(agent::agent_name());
  const std::string folder = path.substr(0, path.rfind('/'));
  if (path.empty())
    return report.note("folder", "no folder is this user's own: `verbatim explain` forgets ended programs",
                       "make /run/user/UID or /tmp writable, and look whose /tmp/verbatim-UID is");
  const std::string file = folder + "/doctor-" + std::to_string(getpid());
  const int made = open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  const bool written = made >= 0 && write(made, "x", 1) == 1;
  const int error = errno;
  if (made >= 0) close(made);
  unlink(file.c_str());
  if (!written)
    return report.note("folder", folder + " cannot be written: " + std::strerror(error),
                       "programs that read /sys/class/infiniband need it: free space, or make it writable");
  report.well("folder", folder);
}

bool cross_memory_works() {
  char from = 1, to = 0;
  const iovec here{&to, 1}, there{&from, 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 && to == 1;
}

void check_memory(Report& report, Host& host) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kFilesMin)
    report.note("files", "a process may have " + std::to_string(files.rlim_cur) + " files open",
                "each peer on this host takes some: raise the limit (ulimit -n)");
  auto joined = Membership::join();
  if (!joined) return report.problem("memory", joined.error().reason, remedy_of_agent(joined.error()));
  host.membership = std::move(*joined);
  if (cross_memory_works())
    report.well("memory", "shared memory, cross-memory copies");
  else
    report.note("memory", "shared memory; the kernel forbids cross-memory copies",
                "large messages on this host are slower: allow process_vm_readv (seccomp)");
}

std::string describe(const engine::GidEntry& entry, size_t index) {
  char name[IF_NAMESIZE] = "?";
  if_indextoname(entry.interface_index, name);
  return text_of(entry.gid) + " (GID " + std::to_string(index) + ", " + name + ", path MTU " +
         std::to_string(roce::path_mtu_of(entry.mtu)) + ")";
}

void check_addresses(Report& report, Host& host) {
  const Expected<agent::PortView> view = agent::port_view();
  if (!view) return report.problem("addresses", view.error().reason, remedy_of_agent(view.error()));
  host.port = *view;
  std::string reachable;
  for (size_t i = 0; i < view->gids.size(); i++) {
    const engine::GidEntry& entry = view->gids[i];
    if (entry.type != GidType::kRoceV2 || !agent::is_reachable(entry.gid)) continue;
    reachable += (reachable.empty() ? "" : ", ") + describe(entry, i);
  }
  if (reachable.empty())
    report.note("addresses", "there are none that other hosts can reach: loopback and link-local alone",
                "give an interface an address and bring it up, if there are to be other hosts");
  else
    report.well("addresses", reachable);
  if (!view->up)
    report.problem("link", "no interface besides loopback has a link",
                   "bring one up: ip link set DEVICE up; look at its cable or peer");
}

void check_port(Report& report, Host& host) {
  if (!host.membership) return;
  const Outcome opened = host.membership->open_port();
  if (opened) return report.well("port", "UDP port 4791 is this user's, by " + port_holders_in_words());
  const std::string holders = port_holders_in_words();
  const std::string text = opened.error().reason + (holders.empty() ? "" : ": " + holders);
  if (opened.error().code != EADDRINUSE)
    return report.problem("port", text, "programs on this host talk all the same, those elsewhere are lost");
  report.problem("port", text,
                 "end it, unload rdma_rxe, or use another network namespace: one user and agent has it");
}

void check_buffers(Report& report) {
  const Expected<int> opened = wire::udp::open_sending_socket();
  if (!opened) return report.problem("sockets", opened.error().reason, "allow UDP sockets over IPv6");
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(*opened, SOL_SOCKET, SO_RCVBUF, &bytes, &length);
  close(*opened);
  bytes /= 2;  // the kernel counts its own records as well
  const std::string text = "sockets buffer " + std::to_string(bytes >> 10) + " KiB";
  if (bytes >= kBufferMin) return report.well("buffers", text);
  report.note("buffers", text + ": what comes faster than it is read is lost and sent again",
              "sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=4194304, as root of the machine");
}

void check_namespaces(Report& report) {
  struct stat own {
  }, first{};
  if (stat("/proc/self/ns/net", &own) != 0 || stat("/proc/1/ns/net", &first) != 0) return;
  if (own.st_ino != first.st_ino)
    report.note("namespace", "this is a network namespace of its own, with addresses and an agent of its own",
                "other namespaces of this machine are other hosts: they meet over UDP");
}

}  // namespace

Host check_host(Report& report) {
  Host host;
  check_devices(report);
  check_namespaces(report);
  check_folder(report);
  if (!check_agent(report)) return host;
  check_memory(report, host);
  check_addresses(report, host);
  check_port(report, host);
  check_buffers(report);
  return host;
}

}  // namespace verbatim::doctor
