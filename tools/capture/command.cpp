// SPDX-License-Identifier: MIT
#include "tools/capture/command.h"

namespace verbatim::capture {

Command::Command(CLI::App& app)
    : command_(app.add_subcommand("capture",
                                  "Write the packets of your programs to a pcapng file, for Wireshark")) {
  command_->add_option("-w,--write", options_.file, "The file; - or none: standard output, which is a pipe");
  command_->add_option("--device", options_.device, "Only those of this device, such as mlx5_0");
  command_->add_option("--qp", options_.qpn, "Only those from or to this queue pair, such as 0x4010");
  command_->add_option("--count", options_.count, "Stop after so many")->check(CLI::PositiveNumber);
  command_->add_option("--snaplen", options_.snap_bytes, "Write only the first so many bytes of each")
      ->check(CLI::Range(14, 65535));
  command_
      ->add_option("--buffer", options_.ring_mebibytes,
                   "Room, in MiB, for what each process has sent and is not written yet; 16 without it")
      ->check(CLI::Range(1, 512));
}

int Command::run() const { return capture(options_); }

}  // namespace verbatim::capture
