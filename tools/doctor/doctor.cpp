// SPDX-License-Identifier: MIT
#include "tools/doctor/doctor.h"

#include <cstdio>

#include "tools/doctor/host_checks.h"
#include "tools/doctor/report.h"
#include "tools/doctor/way_checks.h"

namespace verbatim::doctor {

int doctor(const std::string& host, bool json, uint64_t patience_ns) {
  Report report;
  const Host here = check_host(report);
  if (!host.empty()) check_way(report, here, host, patience_ns);
  json ? print_json(report, host) : print_words(report, host);
  return report.has_problem() ? 1 : 0;
}

int listen() {
  auto membership = Membership::join();
  Outcome opened = membership ? (*membership)->open_port() : Outcome(membership.error());
  if (!opened) {
    std::fprintf(stderr, "verbatim doctor: %s\n", opened.error().reason.c_str());
    return 1;
  }
  std::printf("UDP port 4791 is open; run `verbatim doctor` with an address of this host on the other one\n");
  std::fflush(stdout);
  (*membership)->stay();
  return 0;
}

}  // namespace verbatim::doctor
