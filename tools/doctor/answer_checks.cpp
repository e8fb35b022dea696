// SPDX-License-Identifier: MIT
#include "tools/doctor/answer_checks.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/question.h"
#include "wire/format/headers.h"
#include "wire/format/icrc.h"
#include "wire/format/ip.h"
#include "wire/format/mad.h"
#include "wire/format/path_mtu.h"

namespace verbatim::doctor {

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint16_t kClosedPort = 33434;  ///< where traceroute begins: nobody listens there
constexpr uint64_t kSoonNs = 300 * kMs;  ///< in which an answer comes where all is well
constexpr uint64_t kAgainNs = 1000 * kMs;
constexpr uint64_t kEchoNs = 700 * kMs;

int milliseconds_until(uint64_t then, uint64_t now) {
  return then <= now ? 0 : static_cast<int>((then - now) / kMs + 1);
}

/// What came back while a host was asked.
struct Signs {
  bool answered = false;
  bool alive = false;                 ///< something in it answered
  std::optional<Refusal> about_port;  ///< what was said about packets to port 4791
  std::optional<Refusal> about_host;  ///< about packets to another port
};

class Patient {
 public:
  Patient(const Address& host, Question& question, uint64_t patience_ns)
      : host_(host),
        question_(question),
        patience_ns_(patience_ns),
        port_(host, roce::kRocePort),
        other_(host, kClosedPort) {}

  /// Errors: the question could not be asked.
  Outcome examine(Signs& signs) {
    if (Outcome asked = ask(); !asked) return asked;
    const uint64_t begin = clock_.now_ns();
    listen(begin + kSoonNs, signs);
    if (signs.answered) return Done{};
    signs.about_port = port_.send(0);
    signs.about_host = other_.send(0);
    for (uint64_t now = clock_.now_ns(); !settled(signs) && now < begin + patience_ns_;
         now = clock_.now_ns()) {
      if (Outcome asked = ask(); !asked) return asked;
      listen(std::min(now + kAgainNs, begin + patience_ns_), signs);
    }
    return Done{};
  }

 private:
  // Where the next machine on the way is silent, nothing can be asked: packets show that better than this
  // does.
  Outcome ask() {
    if (next_is_silent_) return Done{};
    Outcome asked = question_.ask(host_);
    next_is_silent_ = !asked && asked.error().code == ETIMEDOUT;
    return next_is_silent_ ? Outcome(Done{}) : asked;
  }
  static bool settled(const Signs& signs) { return signs.answered || signs.about_port.has_value(); }

  void listen(uint64_t until, Signs& signs) {
    for (uint64_t now = clock_.now_ns(); !settled(signs) && now < until; now = clock_.now_ns()) {
      pollfd waits[3] = {{question_.file(), POLLIN, 0}, {port_.file(), 0, 0}, {other_.file(), 0, 0}};
      poll(waits, 3, milliseconds_until(until, now));
      if (waits[0].revents != 0)
        if (const auto news = question_.news()) signs.answered |= news->answered;
      if (waits[2].revents != 0)
        if (const auto told = other_.told()) signs.about_host = told;
      if (waits[1].revents != 0)
        if (const auto told = port_.told()) signs.about_port = told;
    }
    signs.alive = signs.about_host && signs.about_host->kind == Refusal::Kind::kPortClosed;
  }

  const SystemClock clock_;
  const Address& host_;
  Question& question_;
  const uint64_t patience_ns_;
  Probe port_, other_;
  bool next_is_silent_ = false;
};

std::string teller(const Refusal& refusal) {
  if (refusal.told_by.empty() || refusal.by_itself) return "this host's kernel";
  return refusal.told_by;
}

void report_refusal(Report& report, const std::string& host, const Route& route, const Refusal& refusal) {
  switch (refusal.kind) {
    case Refusal::Kind::kPortClosed:
      return report.problem(
          "answer", host + " is up, and nobody there has UDP port 4791",
          "start the program there first, or `verbatim doctor --listen`: on the host, or in the network "
          "namespace, that has this address");
    case Refusal::Kind::kProhibited:
      return report.problem("answer", teller(refusal) + " says that packets to UDP port 4791 are prohibited",
                            "open UDP port 4791 in its firewall");
    case Refusal::Kind::kTooBig:
      return report.problem("mtu", teller(refusal) + " says that the smallest packets are too big",
                            "raise the MTU of the way");
    case Refusal::Kind::kHere:
      if (refusal.error == EPERM)
        return report.problem("answer", "this host's own firewall keeps packets to UDP port 4791 back",
                              "open UDP port 4791 for outgoing packets (nft list ruleset)");
      return report.problem("answer",
                            std::string("this host's kernel sends nothing: ") + std::strerror(refusal.error),
                            "look at ip route get " + host);
    case Refusal::Kind::kUnreachable:
      break;
  }
  if (refusal.by_itself && route.gateway.is_zero())
    return report.problem("answer", "no machine on the link says that it has " + host,
                          "look whether it is up, and has this address on this network");
  if (refusal.by_itself)
    return report.problem("answer", "the gateway " + text_of(route.gateway) + " does not answer",
                          "look whether it is up, or change the route");
  report.problem("answer",
                 teller(refusal) + " cannot deliver packets to " + host + ": " + std::strerror(refusal.error),
                 "look at its routes and firewall, and whether the host is up");
}

void report_silence(Report& report, const std::string& host, const Signs& signs) {
  if (signs.alive)
    return report.problem("answer", host + " is up, and says nothing about packets to UDP port 4791",
                          "a firewall drops them, or the answers: open UDP port 4791 there and here");
  report.problem(
      "answer", host + " says nothing at all",
      "it is down, a firewall drops everything, or it has no route back: run verbatim doctor there");
}

/// What becomes of packets of one size.
enum class Fate : uint8_t { kArrives, kLost, kTooBig, kUnknown };

/// Sends packets to a port that is closed: who says so has got them.
class Sizes {
 public:
  explicit Sizes(const Address& host) : probe_(host, kClosedPort) {}

  Fate fate(uint32_t bytes) {
    constexpr int kTries = 2;
    for (int tries = 0; tries < kTries; tries++) {
      std::optional<Refusal> told = probe_.send(bytes);
      for (const uint64_t until = clock_.now_ns() + kEchoNs; !told && clock_.now_ns() < until;) {
        pollfd wait{probe_.file(), 0, 0};
        poll(&wait, 1, milliseconds_until(until, clock_.now_ns()));
        told = probe_.told();
      }
      if (!told) continue;
      last_ = *told;
      if (told->kind == Refusal::Kind::kPortClosed) return Fate::kArrives;
      return told->kind == Refusal::Kind::kTooBig ? Fate::kTooBig : Fate::kUnknown;
    }
    return Fate::kLost;
  }
  const Refusal& last() const { return last_; }

 private:
  const SystemClock clock_;
  Probe probe_;
  Refusal last_;
};

// What all packets have.
uint32_t frame_bytes(const Address& host) {
  const size_t ip = host.family == AF_INET ? roce::Ipv4::kBytes : roce::Ipv6::kBytes;
  return static_cast<uint32_t>(ip + roce::Udp::kBytes + roce::Bth::kBytes + roce::kIcrcBytes);
}

}  // namespace

uint32_t packet_bytes(uint32_t path_mtu, const Address& host) {
  return frame_bytes(host) + static_cast<uint32_t>(roce::Reth::kBytes + roce::ImmDt::kBytes) + path_mtu;
}

uint32_t message_bytes(const Address& host) {
  return frame_bytes(host) + static_cast<uint32_t>(roce::Deth::kBytes + roce::kMadBytes);
}

void check_answer(Report& report, const Address& host, const Route& route, uint64_t patience_ns) {
  const std::string text = text_of(host.address);
  auto question = Question::open();
  Signs signs;
  Outcome examined =
      question ? Patient(host, **question, patience_ns).examine(signs) : Outcome(question.error());
  if (!examined)
    return report.problem("answer", "the agent cannot ask " + text + ": " + examined.error().reason,
                          "see what is said above of the port and the source");
  if (signs.answered) return report.well("answer", text + " answers at its queue pair 1");
  if (signs.about_port) return report_refusal(report, text, route, *signs.about_port);
  if (signs.about_host && !signs.alive) return report_refusal(report, text, route, *signs.about_host);
  report_silence(report, text, signs);
}

void check_large_packets(Report& report, const Address& host, uint32_t path_mtu) {
  Sizes sizes(host);
  const bool says_so = sizes.fate(0) == Fate::kArrives;
  const Fate largest = says_so ? sizes.fate(packet_bytes(path_mtu, host)) : Fate::kUnknown;
  // It may have said so often enough for now: then silence means nothing.
  if (!says_so || (largest == Fate::kLost && sizes.fate(0) != Fate::kArrives))
    return report.note("sizes", text_of(host.address) + " does not say whether packets of path MTU " +
                                    std::to_string(path_mtu) + " arrive");
  if (largest == Fate::kArrives)
    return report.well("sizes", "packets of path MTU " + std::to_string(path_mtu) + " arrive");
  const std::string packets = "packets of path MTU " + std::to_string(path_mtu) + " (" +
                              std::to_string(packet_bytes(path_mtu, host)) + " bytes) ";
  if (largest == Fate::kTooBig)
    return report.note(
        "sizes",
        packets + "are too big for " + teller(sizes.last()) +
            (sizes.last().mtu != 0 ? ", which takes " + std::to_string(sizes.last().mtu) : "") +
            ": they go in fragments",
        "adapters of hardware take no fragments: give both interfaces the MTU that the way has");
  uint32_t fits = path_mtu / 2;
  while (fits >= roce::kPathMtuMin && sizes.fate(packet_bytes(fits, host)) != Fate::kArrives) fits /= 2;
  report.problem(
      "sizes", packets + "are lost on the way",
      fits < roce::kPathMtuMin
          ? "raise the MTU of the way: not even path MTU 256 passes"
          : "give both interfaces the MTU that the way has, or programs path MTU " + std::to_string(fits));
}

}  // namespace verbatim::doctor
