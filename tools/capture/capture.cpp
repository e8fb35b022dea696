// SPDX-License-Identifier: MIT
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "runtime/process.h"
#include "tools/capture/command.h"
#include "tools/capture/pcapng.h"
#include "tools/capture/rings.h"
#include "tools/capture/session.h"
#include "wire/format/headers.h"
#include "wire/link/tap/rule.h"

namespace verbatim::capture {

namespace {

constexpr int kLookMs = 5;
constexpr int kReadyTries = 200;           ///< looks at whether all processes are ready
constexpr uint64_t kSettleNs = 2'000'000;  ///< in which a process has written what it has a time for
constexpr int kLastWordsMs = 20;

volatile sig_atomic_t interrupted = 0;

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal_number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int fail(const Error& error) {
  std::fprintf(stderr, "verbatim capture: %s\n", error.reason.c_str());
  return 1;
}

/// Of a pipe.
bool reader_is_gone(std::FILE* file) {
  pollfd end{fileno(file), 0, 0};
  return poll(&end, 1, 0) > 0 && end.revents & POLLERR;
}

struct Closer {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};

/// Where frames go: an interface for each device.
class Output {
 public:
  Output(std::FILE* file, const Options& options, std::string usual_device)
      : writer_(file), options_(options), usual_device_(std::move(usual_device)) {}

  bool begin() { return writer_.begin("verbatim") && writer_.flush(); }
  bool full() const { return options_.count != 0 && total_ >= options_.count; }
  uint64_t total() const { return total_; }

  bool add(const std::vector<Captured>& captured) {
    for (const Captured& each : captured) {
      const std::string& device = each.device.empty() ? usual_device_ : each.device;
      if (full() || (!options_.device.empty() && device != options_.device)) continue;
      Interface* interface = find(device);
      if (!interface || !writer_.add(interface->number, each.frame)) return false;
      interface->received++;
      total_++;
    }
    return captured.empty() || writer_.flush();
  }

  /// How many were lost; false: not written.
  bool end(const Losses& losses, uint64_t start_ns, uint64_t end_ns, uint64_t& lost) {
    for (const auto& [device, count] : losses) {
      const std::string& name = device.empty() ? usual_device_ : device;
      Interface* interface = options_.device.empty() || name == options_.device ? find(name) : nullptr;
      if (!interface) continue;
      interface->lost += count;
      lost += count;
    }
    for (const auto& [name, each] : interfaces_)
      if (!writer_.add_statistics(each.number, start_ns, end_ns, each.received, each.lost)) return false;
    return writer_.flush();
  }

 private:
  struct Interface {
    uint32_t number;
    uint64_t received = 0, lost = 0;
  };
  Interface* find(const std::string& device) {
    const auto known = interfaces_.find(device);
    if (known != interfaces_.end()) return &known->second;
    const auto number = static_cast<uint32_t>(interfaces_.size());
    const std::string what = "packets of programs on the Verbatim device " + device;
    if (!writer_.add_interface(device, what, options_.snap_bytes)) return nullptr;
    return &interfaces_.emplace(device, Interface{number}).first->second;
  }

  PcapngWriter writer_;
  const Options& options_;
  const std::string usual_device_;  ///< of who does not say
  std::map<std::string, Interface> interfaces_;
  uint64_t total_ = 0;
};

Expected<uint32_t> queue_pair_of(const std::string& text) {
  if (text.empty()) return wire::tap::kAnyQpn;
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 0);
  if (*end != 0 || number > roce::kNumberMask)
    return Error{EINVAL, "'" + text + "' is not the number of a queue pair"};
  return static_cast<uint32_t>(number);
}

Expected<std::unique_ptr<std::FILE, Closer>> open_output(const std::string& name) {
  if (name.empty() || name == "-") {
    if (isatty(STDOUT_FILENO))
      return Error{EINVAL, "packets go to a file (-w FILE) or a program (| tshark -r -), not to a terminal"};
    return std::unique_ptr<std::FILE, Closer>(stdout);
  }
  std::unique_ptr<std::FILE, Closer> file(std::fopen(name.c_str(), "wbe"));
  if (!file) return Error{errno, name + " cannot be written: " + std::strerror(errno)};
  return file;
}

std::string usual_device() {
  const auto devices = runtime::list_devices();
  return devices && !devices->empty() ? devices->front().name : "mlx5_0";
}

}  // namespace

int capture(const Options& options) {
  const Expected<uint32_t> qpn = queue_pair_of(options.qpn);
  if (!qpn) return fail(qpn.error());
  auto file = open_output(options.file);
  if (!file) return fail(file.error());
  auto rings = Rings::create({options.ring_mebibytes << 20, options.snap_bytes, *qpn});
  if (!rings) return fail(rings.error());
  stop_on_signals();
  Session session(**rings);
  if (Outcome begun = session.begin(); !begun) return fail(begun.error());
  Output output(file->get(), options, usual_device());
  bool written = output.begin();
  for (int tries = 0; tries < kReadyTries && !session.all_write(); tries++) (void)session.wait_ms(kLookMs);
  std::fprintf(stderr, "verbatim capture: begun\n");

  const SystemClock clock;
  const uint64_t start_ns = clock.wall_ns();
  Outcome agent = Done{};
  while (written && agent && !interrupted && !output.full() && !reader_is_gone(file->get())) {
    agent = session.wait_ms(kLookMs);
    written = output.add((*rings)->take(clock.wall_ns() - kSettleNs));
  }
  session.end();
  if (written) {
    poll(nullptr, 0, kLastWordsMs);
    written = output.add((*rings)->take(UINT64_MAX));
  }
  uint64_t lost = 0;
  written = written && output.end((*rings)->losses(), start_ns, clock.wall_ns(), lost);
  if (!agent) (void)fail(agent.error());
  if (!written && errno != EPIPE)
    return fail({errno, std::string("packets cannot be written: ") + std::strerror(errno)});
  std::fprintf(stderr, "verbatim capture: %" PRIu64 " packets, %" PRIu64 " more were lost for want of room\n",
               output.total(), lost);
  return agent ? 0 : 1;
}

}  // namespace verbatim::capture
