// SPDX-License-Identifier: MIT
#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/port_view.h"
#include "agent/subnet.h"
#include "runtime/process.h"
#include "tools/commands.h"
#include "tools/survey.h"

namespace verbatim::tools {

namespace {

using nlohmann::json;

int fail(const char* command, const Error& error) {
  std::fprintf(stderr, "verbatim %s: %s\n", command, error.reason.c_str());
  return 1;
}

std::string number(uint32_t qpn) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%06x", qpn);
  return text;
}

std::string hex(const Gid& gid) {
  std::string text;
  char part[8];
  for (size_t i = 0; i < 16; i += 2) {
    std::snprintf(part, sizeof part, "%s%02x%02x", i ? ":" : "", gid.bytes[i], gid.bytes[i + 1]);
    text += part;
  }
  return text;
}

std::string clock_text(uint64_t time_ns) {
  const time_t seconds = static_cast<time_t>(time_ns / 1'000'000'000);
  tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  const size_t length = strftime(text, sizeof text, "%F %T", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03u",
                static_cast<unsigned>(time_ns / 1'000'000 % 1000));
  return text;
}

json to_json(const ProcessRow& row) {
  json out = {{"pid", row.pid},
              {"slot", row.slot},
              {"program", row.program},
              {"contexts", row.contexts},
              {"protection_domains", row.domains},
              {"memory_regions", row.regions},
              {"completion_queues", row.completion_queues},
              {"shared_receive_queues", row.shared_queues},
              {"address_handles", row.address_handles},
              {"completion_channels", row.channels},
              {"queue_pairs", json::array()},
              {"command_objects", json::array()}};
  for (const ObjectRow& each : row.command_objects)
    out["command_objects"].push_back({{"kind", each.kind}, {"numbers", each.numbers}});
  for (const QpRow& qp : row.queue_pairs)
    out["queue_pairs"].push_back({{"qpn", qp.qpn},
                                  {"type", qp.type},
                                  {"state", qp.state},
                                  {"remote_qpn", qp.remote_qpn},
                                  {"path_mtu", qp.path_mtu},
                                  {"send_messages", qp.send_messages},
                                  {"send_bytes", qp.send_bytes},
                                  {"receive_messages", qp.receive_messages},
                                  {"receive_bytes", qp.receive_bytes},
                                  {"rnr_naks", qp.rnr_naks},
                                  {"retries", qp.retries},
                                  {"errors", qp.errors}});
  return out;
}

void print(const agent::Explanation& each, bool as_json) {
  if (as_json) {
    const json out = {{"time_ns", each.time_ns},
                      {"program", each.program},
                      {"pid", each.pid},
                      {"qpn", each.qpn},
                      {"status", status_name(each.status)},
                      {"reason", each.text}};
    std::printf("%s\n", out.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    return;
  }
  const std::string where = each.qpn ? " QP " + number(each.qpn) : "";
  std::printf("%s  %s[%u]%s  %s: %s\n", clock_text(each.time_ns).c_str(), printable(each.program).c_str(),
              each.pid, where.c_str(), status_name(each.status).c_str(), printable(each.text).c_str());
}

/// A device whose port is one of the host's InfiniBand subnet.
json describe_subnet_port(const runtime::DeviceEntry& device, bool as_json) {
  const uint16_t lid = agent::lid_of(device.index);
  const std::string gid = hex(agent::subnet_gid(device.guid));
  if (!as_json)
    std::printf("%s  %s  port 1 active\n  LID %u  InfiniBand\n  GID 0    %s\n", device.name.c_str(),
                device.provider.c_str(), lid, gid.c_str());
  return {{"name", device.name},
          {"kind", device.provider},
          {"port", "active"},
          {"lid", lid},
          {"gids", json::array({{{"index", 0}, {"gid", gid}, {"type", "IB"}}})}};
}

json describe_ethernet_port(const runtime::DeviceEntry& device, const agent::PortView& port, bool as_json) {
  const char* state = port.up ? "active" : "down";
  json entry = {{"name", device.name}, {"kind", device.provider}, {"port", state}, {"gids", json::array()}};
  if (!as_json) std::printf("%s  %s  port 1 %s\n", device.name.c_str(), device.provider.c_str(), state);
  for (size_t i = 0; i < port.gids.size(); i++) {
    const engine::GidEntry& gid = port.gids[i];
    if (gid.gid.is_zero()) continue;
    const char* type = gid.type == GidType::kRoceV2 ? "RoCE v2" : "RoCE v1";
    char interface[IF_NAMESIZE] = "";
    if_indextoname(gid.interface_index, interface);
    if (!as_json) std::printf("  GID %-3zu %s  %s  %s\n", i, hex(gid.gid).c_str(), type, interface);
    entry["gids"].push_back({{"index", i}, {"gid", hex(gid.gid)}, {"type", type}, {"interface", interface}});
  }
  return entry;
}

}  // namespace

int devices(bool as_json) {
  auto configured = runtime::list_devices();
  if (!configured) return fail("devices", configured.error());
  auto found = agent::port_view();
  if (!found) return fail("devices", found.error());
  if (configured->empty() && !as_json) std::printf("no devices: VERBATIM_DEVICES is 0\n");
  json out = json::array();
  for (const runtime::DeviceEntry& device : *configured)
    out.push_back(device.infiniband ? describe_subnet_port(device, as_json)
                                    : describe_ethernet_port(device, *found, as_json));
  if (as_json) std::printf("%s\n", out.dump(2).c_str());
  return 0;
}

/// "  MKEY 12: 0x000101 0x000102 ...", with as many as fit a line.
void print(const ObjectRow& row) {
  constexpr size_t kOnALine = 8;
  std::printf("  %s %zu:", printable(row.kind).c_str(), row.numbers.size());
  for (size_t i = 0; i < std::min(row.numbers.size(), kOnALine); i++)
    std::printf(" %s", number(row.numbers[i]).c_str());
  std::printf("%s\n", row.numbers.size() > kOnALine ? " ..." : "");
}

void print(const ProcessRow& row) {
  std::printf(
      "%s  pid %u  slot %u  contexts %u  PDs %u  MRs %u  CQs %u  SRQs %u  AHs %u  channels %u  QPs %zu\n",
      printable(row.program).c_str(), row.pid, row.slot, row.contexts, row.domains, row.regions,
      row.completion_queues, row.shared_queues, row.address_handles, row.channels, row.queue_pairs.size());
  for (const QpRow& qp : row.queue_pairs)
    std::printf("  %s  %s  %-5s  to %s  sent %" PRIu64 " (%" PRIu64 " B)  received %" PRIu64 " (%" PRIu64
                " B)  RNR %" PRIu64 "  retries %" PRIu64 "  errors %" PRIu64 "\n",
                number(qp.qpn).c_str(), qp.type.c_str(), qp.state.c_str(), number(qp.remote_qpn).c_str(),
                qp.send_messages, qp.send_bytes, qp.receive_messages, qp.receive_bytes, qp.rnr_naks,
                qp.retries, qp.errors);
  for (const ObjectRow& each : row.command_objects) print(each);
}

int status(bool as_json) {
  auto rows = survey();
  if (!rows) return fail("status", rows.error());
  if (as_json) {
    json out = {{"processes", json::array()}};
    for (const ProcessRow& row : *rows) out["processes"].push_back(to_json(row));
    std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    return 0;
  }
  if (rows->empty()) std::printf("no process has a device open\n");
  for (const ProcessRow& row : *rows) print(row);
  return 0;
}

int explain(bool as_json, bool follow) {
  constexpr int kFollowMs = 300;
  std::set<agent::Explanation> shown;
  for (bool first = true;; first = false) {
    auto found = explanations();
    if (!found) return fail("explain", found.error());
    if (first && found->empty() && !follow && !as_json) std::printf("no errors are remembered\n");
    // A process may end between two questions: its reasons are then seen twice, but each is one.
    std::set<agent::Explanation> seen;
    for (const agent::Explanation& each : *found)
      if (seen.insert(each).second && !shown.count(each)) print(each, as_json);
    shown = std::move(seen);
    if (std::fflush(stdout) != 0) return 1;
    if (!follow) return 0;
    poll(nullptr, 0, kFollowMs);
  }
}

}  // namespace verbatim::tools
