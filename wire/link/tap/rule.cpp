// SPDX-License-Identifier: MIT
#include "wire/link/tap/rule.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "wire/format/packet.h"

namespace verbatim::wire::tap {

namespace {

constexpr uint32_t kManagementQpn = 1;
constexpr const char* kActionNames[kActions] = {"drop", "delay", "duplicate", "reorder", "corrupt"};

constexpr const char* kKinds[] = {"send", "write", "read", "response", "ack", "atomic", "flush", "cnp"};

/// The name of all opcodes of a kind.
std::string_view kind_of(roce::Opcode code) {
  using On = roce::Operation;
  if (code == roce::kCnp) return "cnp";
  switch (roce::operation_of(code)) {
    case On::kSendFirst:
    case On::kSendMiddle:
    case On::kSendLast:
    case On::kSendLastImmediate:
    case On::kSendOnly:
    case On::kSendOnlyImmediate:
    case On::kSendLastInvalidate:
    case On::kSendOnlyInvalidate:
      return "send";
    case On::kWriteFirst:
    case On::kWriteMiddle:
    case On::kWriteLast:
    case On::kWriteLastImmediate:
    case On::kWriteOnly:
    case On::kWriteOnlyImmediate:
    case On::kAtomicWrite:
      return "write";
    case On::kReadRequest:
      return "read";
    case On::kReadResponseFirst:
    case On::kReadResponseMiddle:
    case On::kReadResponseLast:
    case On::kReadResponseOnly:
    case On::kAtomicAcknowledge:
      return "response";
    case On::kAcknowledge:
      return "ack";
    case On::kCompareSwap:
    case On::kFetchAdd:
      return "atomic";
    case On::kFlush:
      return "flush";
    case On::kDisconnect:
      break;
  }
  return "";
}

Error wrong(const std::string& what) { return Error{EINVAL, what}; }

std::string upper(std::string_view text) {
  std::string out;
  for (const char each : text)
    out +=
        each == '_' || each == '-' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.emplace_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Expected<uint64_t> number_in(const std::string& text, uint64_t most, const char* what) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || *end != 0 || errno != 0 || text[0] == '-' || number > most)
    return wrong("'" + text + "' is not " + what);
  return static_cast<uint64_t>(number);
}

Expected<uint32_t> probability_in(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  const bool percent = *end == '%' && end[1] == 0;
  if (percent) value /= 100;
  if (text.empty() || (*end != 0 && !percent) || !(value >= 0 && value <= 1))
    return wrong("'" + text + "' is not a probability such as 1% or 0.01");
  return static_cast<uint32_t>(std::lround(value * kProbabilityOne));
}

Expected<uint64_t> time_in(const std::string& text) {
  static constexpr struct {
    const char* name;
    double ns;
  } kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  for (const auto& unit : kUnits)
    if (end != text.c_str() && std::string_view(end) == unit.name && value >= 0 && value * unit.ns <= 1e11)
      return static_cast<uint64_t>(std::llround(value * unit.ns));
  return wrong("'" + text + "' is not a time of up to 100 s such as 500us or 2ms");
}

void add(Rule& rule, unsigned code) { rule.opcodes[code / 64] |= 1ull << (code % 64); }

bool add_kind(Rule& rule, const std::string& name) {
  bool found = false;
  for (unsigned code = 0; code < 256; code++) {
    const auto opcode = static_cast<roce::Opcode>(code);
    if (!roce::info_of(opcode).known || kind_of(opcode) != name) continue;
    add(rule, code);
    found = true;
  }
  return found;
}

Outcome add_opcodes(Rule& rule, const std::string& text) {
  for (const std::string& name : split(text, '+')) {
    if (name == "cm") {
      rule.management = 1;
      continue;
    }
    if (add_kind(rule, name)) continue;
    bool found = false;
    for (unsigned code = 0; code < 256 && !found; code++) {
      const auto opcode = static_cast<roce::Opcode>(code);
      found = roce::info_of(opcode).known && upper(name) == roce::name_of(opcode);
      if (found) add(rule, code);
    }
    if (found) continue;
    const Expected<uint64_t> number = number_in(name, 255, "an opcode");
    if (!number)
      return wrong("no opcode '" + name +
                   "'; the kinds are send, write, read, response, ack, atomic, flush, cnp and cm, and there "
                   "are names such as rc_send_only, and numbers");
    add(rule, static_cast<unsigned>(*number));
  }
  return Done{};
}

Outcome set_direction(Rule& rule, const std::string& text) {
  rule.directions = text == "out" ? 1 : text == "in" ? 2 : text == "both" ? 3 : 0;
  if (rule.directions == 0) return wrong("the direction '" + text + "' is none of out, in and both");
  return Done{};
}

template <class T, class Value>
Outcome put(T& to, const Expected<Value>& value) {
  if (!value) return value.error();
  to = static_cast<T>(*value);
  return Done{};
}

/// The items of one list.
struct List {
  Rule selection;
  std::array<bool, kActions> wanted{};
  std::array<uint32_t, kActions> probabilities{};
  uint32_t probability = kProbabilityOne;  ///< of a delay

  Outcome take(const std::string& key, const std::string& value);
};

Outcome List::take(const std::string& key, const std::string& value) {
  constexpr uint32_t kQpnMax = roce::kNumberMask;
  constexpr const char* kQpn = "the number of a queue pair";
  if (key == "probability") return put(probability, probability_in(value));
  if (key == "opcode") return add_opcodes(selection, value);
  if (key == "direction") return set_direction(selection, value);
  if (key == "qp") return put(selection.qpn, number_in(value, kQpnMax, kQpn));
  if (key == "source") return put(selection.source_qpn, number_in(value, kQpnMax, kQpn));
  if (key == "destination") return put(selection.dest_qpn, number_in(value, kQpnMax, kQpn));
  if (key == "nth") return put(selection.nth, number_in(value, UINT64_MAX, "a number"));
  if (key == "count") return put(selection.limit, number_in(value, UINT64_MAX, "a number"));
  if (key == "seed") return put(selection.seed, number_in(value, UINT64_MAX, "a number"));
  const auto delay = static_cast<size_t>(Action::kDelay);
  if (key == "delay" || key == "jitter") {
    wanted[delay] = true;
    return put(key == "delay" ? selection.delay_ns : selection.jitter_ns, time_in(value));
  }
  for (size_t i = 0; i < kActions; i++) {
    if (i == delay || key != kActionNames[i]) continue;
    wanted[i] = true;
    return put(probabilities[i], probability_in(value));
  }
  return wrong("there is nothing called '" + key +
               "'; the actions are drop, delay, jitter, duplicate, reorder and corrupt, and what selects "
               "is opcode, qp, source, destination, direction, probability, nth, count and seed");
}

void append(std::string& text, const std::string& item) { text += (text.empty() ? "" : ",") + item; }

std::string decimal(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.9g%s", value, unit);
  return text;
}

std::string time_text(uint64_t ns) {
  if (ns % 1000 != 0) return std::to_string(ns) + "ns";
  if (ns % 1'000'000 != 0) return std::to_string(ns / 1000) + "us";
  return std::to_string(ns / 1'000'000) + "ms";
}

std::string hex(uint32_t qpn) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", qpn);
  return text;
}

/// Kinds where all their opcodes are in, single ones else.
std::string opcodes_text(const Rule& rule) {
  std::string text = rule.management ? "cm" : "";
  const auto join = [&text](const std::string& name) { text += (text.empty() ? "" : "+") + name; };
  auto left = rule.opcodes;
  for (const char* kind : kKinds) {
    Rule all;
    add_kind(all, kind);
    bool has = true;
    for (size_t i = 0; i < 4; i++) has &= (left[i] & all.opcodes[i]) == all.opcodes[i];
    if (!has) continue;
    join(kind);
    for (size_t i = 0; i < 4; i++) left[i] &= ~all.opcodes[i];
  }
  for (unsigned code = 0; code < 256; code++) {
    if (!(left[code / 64] >> (code % 64) & 1)) continue;
    const auto opcode = static_cast<roce::Opcode>(code);
    std::string name = roce::info_of(opcode).known ? roce::name_of(opcode) : hex(code);
    for (char& each : name)
      each = each == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    join(name);
  }
  return text;
}

}  // namespace

bool Rule::matches(const PacketFacts& packet) const {
  if (!(directions >> static_cast<unsigned>(packet.direction) & 1)) return false;
  const bool to_manager = packet.dest_qpn == kManagementQpn;
  const auto code = static_cast<unsigned>(packet.opcode);
  const bool all = std::all_of(opcodes.begin(), opcodes.end(), [](uint64_t word) { return word == 0; });
  const bool listed = opcodes[code / 64] >> (code % 64) & 1;
  if (management ? !to_manager && !listed : !all && !listed) return false;
  if (qpn != kAnyQpn && qpn != packet.source_qpn && qpn != packet.dest_qpn) return false;
  return (source_qpn == kAnyQpn || source_qpn == packet.source_qpn) &&
         (dest_qpn == kAnyQpn || dest_qpn == packet.dest_qpn);
}

bool Rule::picks(uint64_t number) const {
  if (nth != 0 && number + 1 != nth) return false;
  // Rules of one list share a seed, and do not pick the same packets.
  Random random(seed * 8 + static_cast<uint64_t>(action) + number * 0xd1342543de82ef95);
  return random.next() % kProbabilityOne < probability;
}

Expected<std::vector<Rule>> parse_rules(std::string_view text, uint64_t seed) {
  std::vector<Rule> rules;
  for (const std::string& part : split(text, ';')) {
    if (part.empty()) continue;
    List list;
    list.selection.seed = seed;
    for (const std::string& item : split(part, ',')) {
      const size_t at = item.find('=');
      if (at == std::string::npos) return wrong("'" + item + "' is not like drop=1%");
      const std::string key(trimmed(std::string_view(item).substr(0, at)));
      const std::string value(trimmed(std::string_view(item).substr(at + 1)));
      if (Outcome taken = list.take(key, value); !taken) return taken.error();
    }
    const size_t before = rules.size();
    for (size_t i = 0; i < kActions; i++) {
      if (!list.wanted[i]) continue;
      Rule rule = list.selection;
      rule.action = static_cast<Action>(i);
      const bool delay = rule.action == Action::kDelay;
      rule.probability = delay ? list.probability : list.probabilities[i];
      if (!delay) rule.delay_ns = rule.jitter_ns = 0;
      rules.push_back(rule);
    }
    if (rules.size() == before) return wrong("'" + part + "' does nothing to packets");
  }
  return rules;
}

std::string text_of(const Rule& rule) {
  std::string text;
  const std::string percent = decimal(100.0 * rule.probability / kProbabilityOne, "%");
  if (rule.action == Action::kDelay) {
    append(text, "delay=" + time_text(rule.delay_ns));
    if (rule.jitter_ns != 0) append(text, "jitter=" + time_text(rule.jitter_ns));
    if (rule.probability != kProbabilityOne) append(text, "probability=" + percent);
  } else {
    append(text, std::string(kActionNames[static_cast<size_t>(rule.action) % kActions]) + "=" + percent);
  }
  if (const std::string opcodes = opcodes_text(rule); !opcodes.empty()) append(text, "opcode=" + opcodes);
  if (rule.qpn != kAnyQpn) append(text, "qp=" + hex(rule.qpn));
  if (rule.source_qpn != kAnyQpn) append(text, "source=" + hex(rule.source_qpn));
  if (rule.dest_qpn != kAnyQpn) append(text, "destination=" + hex(rule.dest_qpn));
  if (rule.directions != 1) append(text, rule.directions == 2 ? "direction=in" : "direction=both");
  if (rule.nth != 0) append(text, "nth=" + std::to_string(rule.nth));
  if (rule.limit != 0) append(text, "count=" + std::to_string(rule.limit));
  append(text, "seed=" + std::to_string(rule.seed));
  return text;
}

PacketFacts facts_of(std::span<const uint8_t> datagram, Direction direction) {
  PacketFacts facts;
  facts.direction = direction;
  if (datagram.size() < roce::Bth::kBytes) return facts;
  facts.opcode = static_cast<roce::Opcode>(datagram[0]);
  facts.dest_qpn = roce::Bth::parse(datagram)->destination;
  roce::Headers headers;
  const roce::OpcodeInfo& info = roce::info_of(facts.opcode);
  if (!info.known || datagram.size() < info.header_bytes || !headers.read(datagram)) return facts;
  if (headers.has(roce::kDeth)) facts.source_qpn = headers.deth.source;
  if (headers.has(roce::kDcEth)) facts.source_qpn = headers.dceth.source;
  return facts;
}

}  // namespace verbatim::wire::tap
