// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace verbatim::capture {

/// What is to be captured, and where it goes.
struct Options {
  std::string file;    ///< "" or "-": standard output
  std::string device;  ///< "": all
  std::string qpn;     ///< "": all
  uint64_t count = 0;  ///< 0: until interrupted
  uint32_t snap_bytes = 65535;
  uint32_t ring_mebibytes = 16;  ///< of each process
};

/// `capture` on the command line.
class Command {
 public:
  /// Adds it to `app`, before which this must not go.
  explicit Command(CLI::App& app);
  bool parsed() const { return command_->parsed(); }
  int run() const;

 private:
  CLI::App* command_;
  Options options_;
};

/// Captures until interrupted, or so many packets are there. The exit status.
int capture(const Options& options);

}  // namespace verbatim::capture
