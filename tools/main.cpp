// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "tools/commands.h"

int main(int argc, char** argv) {
  using namespace verbatim::tools;
  CLI::App app("Run RDMA programs where there is no RDMA hardware, and see what they do.", "verbatim");
  app.set_version_flag("--version", "verbatim " VERBATIM_VERSION);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);

  std::vector<std::string> command;
  CLI::App* run_command =
      app.add_subcommand("run", "Run a program on these libraries: verbatim run [--] PROGRAM [ARGUMENTS]");
  run_command->add_option("program", command, "The program and its arguments")->required();
  run_command->prefix_command(false);
  run_command->positionals_at_end(false);

  bool json = false, follow = false;
  CLI::App* devices_command =
      app.add_subcommand("devices", "List the devices that programs see (VERBATIM_DEVICES chooses)");
  devices_command->add_flag("--json", json, "Print JSON");
  CLI::App* status_command =
      app.add_subcommand("status", "List live processes, their objects and queue pairs");
  status_command->add_flag("--json", json, "Print JSON");
  CLI::App* explain_command =
      app.add_subcommand("explain", "Print recent errors with their reasons, newest last");
  explain_command->add_flag("--json", json, "Print one JSON object a line");
  explain_command->add_flag("--follow", follow, "Go on with what comes");
  std::string shell;
  CLI::App* completion_command = app.add_subcommand("completion", "Print a completion script");
  completion_command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  // Everything behind `run` belongs to the program, whatever it looks like.
  if (argc > 2 && std::string(argv[1]) == "run" && std::string(argv[2]) != "--help" &&
      std::string(argv[2]) != "-h") {
    const int first = std::string(argv[2]) == "--" ? 3 : 2;
    command.assign(argv + first, argv + argc);
    if (!command.empty()) return run(command);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (run_command->parsed()) return run(command);
  if (devices_command->parsed()) return devices(json);
  if (status_command->parsed()) return status(json);
  if (explain_command->parsed()) return explain(json, follow);
  return completion(shell);
}
