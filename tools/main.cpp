// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/capture/command.h"
#include "tools/commands.h"
#include "tools/doctor/command.h"
#include "tools/inject_options.h"

int main(int argc, char** argv) {
  using namespace verbatim::tools;
  CLI::App app("Run RDMA programs where there is no RDMA hardware, and see what they do.", "verbatim");
  app.set_version_flag("--version", "verbatim " VERBATIM_VERSION);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.failure_message([argc, argv](const CLI::App* all, const CLI::Error& error) {
    const bool unknown = argc > 1 && argv[1][0] != '-' && all->get_subcommands().empty();
    const std::string what = unknown ? "there is no subcommand '" + std::string(argv[1]) + "'" : error.what();
    return "verbatim: " + what + "\nRun with --help for more information.\n";
  });
  app.footer(
      "Exit status: 0 done, 1 failed, 2 wrong usage; of doctor: 0 they can talk, 1 they cannot; of run: the "
      "program's\n"
      "own, or 127 when it is not found, 126 when it cannot be run.");

  std::vector<std::string> command;
  CLI::App* run_command =
      app.add_subcommand("run", "Run a program on these libraries: verbatim run [--] PROGRAM [ARGUMENTS]");
  run_command->add_option("program", command, "The program and its arguments")->required();

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
  verbatim::doctor::Command doctor_command(app);
  const verbatim::capture::Command capture(app);
  const InjectOptions inject(app);
  std::string shell;
  CLI::App* completion_command = app.add_subcommand("completion", "Print a completion script");
  completion_command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  // Everything from the program's name on belongs to the program, whatever it looks like.
  if (argc > 2 && std::string(argv[1]) == "run") {
    const std::string next = argv[2];
    const int first = next == "--" ? 3 : next[0] == '-' ? argc : 2;
    command.assign(argv + first, argv + argc);
    if (!command.empty()) return run(command);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const int result = run_command->parsed()       ? run(command)
                     : devices_command->parsed() ? devices(json)
                     : status_command->parsed()  ? status(json)
                     : explain_command->parsed() ? explain(json, follow)
                     : doctor_command.parsed()   ? doctor_command.run()
                     : inject.parsed()           ? inject.run()
                     : capture.parsed()          ? capture.run()
                                                 : completion(shell);
  return std::fflush(stdout) == 0 ? result : 1;
}
