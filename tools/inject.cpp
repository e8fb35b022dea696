// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/client.h"
#include "agent/device_config.h"
#include "agent/port_service.h"
#include "tools/agent_connection.h"
#include "tools/commands.h"
#include "tools/survey.h"

namespace verbatim::tools {

namespace {

using agent::Answer;
using agent::Ask;
using agent::Request;

int fail(const Error& error) {
  std::fprintf(stderr, "verbatim inject: %s\n", error.reason.c_str());
  return 1;
}

void print(const Answer& rule) {
  std::printf("%u  %s  matched %" PRIu64 "  hit %" PRIu64 "\n", rule.slot, printable(rule.text).c_str(),
              rule.matched, rule.picked);
}

}  // namespace

int inject_add(const std::string& rules) {
  Expected<int> socket = agent::reach_agent();
  if (!socket) return fail(socket.error());
  const AgentConnection connection(*socket);
  Request request{};
  request.ask = Ask::kAddRules;
  if (rules.size() >= sizeof request.text) return fail({EINVAL, "the rule is too long"});
  std::memcpy(request.text, rules.c_str(), rules.size());
  uint32_t first = 0;
  Outcome done = connection.ask(request, [&](const Answer& answer, int) { first = answer.slot; });
  if (done) done = for_each_rule(connection, first - 1, print);
  return done ? 0 : fail(done.error());
}

int inject_event(const std::string& name, const std::string& device, uint32_t value) {
  const auto event = agent::event_of(name);
  if (!event) return fail({EINVAL, "the events are " + agent::event_names()});
  const auto devices = agent::configured_devices();
  if (!devices) return fail(devices.error());
  uint32_t place = 0;
  while (place < devices->size() && !device.empty() && (*devices)[place].name != device) place++;
  if (place == devices->size()) return fail({ENODEV, "there is no device " + device});
  Expected<int> socket = agent::reach_agent();
  if (!socket) return fail(socket.error());
  Request request{};
  request.ask = Ask::kRaiseEvent;
  request.index = place;
  request.slot = static_cast<uint32_t>(*event);
  request.generation = value;
  const Outcome done = AgentConnection(*socket).ask(request, [](const Answer&, int) {});
  return done ? 0 : fail(done.error());
}

int inject_list(bool as_json) {
  using nlohmann::json;
  json out = json::array();
  bool some = false;
  Expected<int> socket = agent::connect_agent();
  if (socket) {
    const AgentConnection connection(*socket);
    Outcome done = for_each_rule(connection, 0, [&](const Answer& rule) {
      some = true;
      if (as_json)
        out.push_back({{"number", rule.slot},
                       {"rule", printable(rule.text)},
                       {"matched", rule.matched},
                       {"hit", rule.picked}});
      else
        print(rule);
    });
    if (!done) return fail(done.error());
  } else if (socket.error().code != ECONNREFUSED) {
    return fail(socket.error());
  }
  if (as_json)
    std::printf("%s\n", out.dump(2).c_str());
  else if (!some)
    std::printf("no rules\n");
  return 0;
}

int inject_remove(const std::vector<uint32_t>& numbers) {
  Expected<int> socket = agent::connect_agent();
  const bool none_runs = !socket && socket.error().code == ECONNREFUSED;
  if (none_runs && numbers.size() == 1 && numbers[0] == kAllRules) return 0;
  if (!socket) return fail(none_runs ? Error{ENOENT, "there are no rules"} : socket.error());
  const AgentConnection connection(*socket);
  for (const uint32_t number : numbers) {
    Request request{};
    request.ask = Ask::kRemoveRules;
    request.index = number;
    if (Outcome done = connection.ask(request, [](const Answer&, int) {}); !done) return fail(done.error());
  }
  return 0;
}

}  // namespace verbatim::tools
