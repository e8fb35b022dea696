// SPDX-License-Identifier: MIT
#include "tools/inject_options.h"

#include <cstdlib>

#include "agent/port_service.h"
#include "tools/commands.h"

namespace verbatim::tools {

namespace {

struct Item {
  const char* name;
  const char* what;
  bool action = false;  ///< one that may stand without its probability
};

constexpr Item kItems[] = {
    {"drop", "Lose so many packets (1%); without a number: all that are selected", true},
    {"corrupt", "Damage so many, so that the receiver finds a wrong ICRC", true},
    {"duplicate", "Send so many twice", true},
    {"reorder", "Let so many be overtaken by up to three others", true},
    {"delay", "Hold packets back (2ms)"},
    {"jitter", "Hold them back for up to so much more (500us)"},
    {"probability", "How many are delayed; all without it"},
    {"opcode",
     "Only send, write, read, response, ack, atomic, flush, cnp, cm, a name (rc_send_only) or a number; "
     "several "
     "with +"},
    {"qp", "Only from or to this queue pair"},
    {"source", "Only from this queue pair"},
    {"destination", "Only to this queue pair"},
    {"direction", "Packets that this host sends (out, the default), that it receives (in) or both"},
    {"nth", "Only packet number N of those that are selected"},
    {"count", "No more than so many"},
    {"seed", "Makes the choice the same every time"},
};

}  // namespace

InjectOptions::InjectOptions(CLI::App& app) {
  command_ =
      app.add_subcommand("inject",
                         "Damage packets on purpose: loss, delay, duplicates, disorder, wrong bits; let "
                         "things happen to devices");
  command_->require_subcommand(1);
  add_ = command_->add_subcommand("add", "Add rules, which are in force at once, one for each action");
  for (const Item& item : kItems) {
    CLI::Option* option = add_->add_option("--" + std::string(item.name), items_[item.name], item.what);
    if (item.action) option->expected(0, 1)->default_str("100%");
  }
  event_ = command_->add_subcommand("event", "Let something happen to a device or its port");
  event_->add_option("event", event_name_, "One of " + agent::event_names())->required();
  event_->add_option("--device", device_, "Name of the device; the first one without it");
  event_->add_option("--value", value_,
                     "The new LID (lid-change), the manager's (sm-change), 0: as ever; or the "
                     "P_Key that comes, or goes when it is there (pkey-change), 0: all go");
  list_ = command_->add_subcommand("list", "List the rules, and how many packets they have met");
  list_->add_flag("--json", json_, "Print JSON");
  remove_ = command_->add_subcommand("remove", "Remove rules");
  remove_->add_option("number", numbers_, "Numbers of rules")->required()->check(CLI::PositiveNumber);
  command_->add_subcommand("clear", "Remove all rules");
}

int InjectOptions::run() const {
  if (list_->parsed()) return inject_list(json_);
  if (remove_->parsed()) return inject_remove(numbers_);
  if (event_->parsed())
    return inject_event(event_name_, device_,
                        static_cast<uint32_t>(std::strtoul(value_.c_str(), nullptr, 0)));
  if (!add_->parsed()) return inject_remove({kAllRules});
  std::string text;
  for (const auto& [name, value] : items_)
    if (!value.empty()) text += (text.empty() ? "" : ",") + name + "=" + value;
  return inject_add(text);
}

}  // namespace verbatim::tools
