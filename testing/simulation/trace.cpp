// SPDX-License-Identifier: MIT
#include "testing/simulation/trace.h"

#include <cstdio>

namespace verbatim::simulation {

namespace {

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::kSent:
      return "sent";
    case Fate::kDropped:
      return "DROPPED";
    case Fate::kDoubled:
      return "DOUBLED";
    case Fate::kDamaged:
      return "DAMAGED";
    case Fate::kDelayed:
      return "DELAYED";
    case Fate::kArrived:
      return "arrived";
    case Fate::kWrongIcrc:
      return "wrong ICRC";
    case Fate::kForged:
      return "FORGED";
  }
  return "?";
}

}  // namespace

void Trace::packet(Fate fate, uint32_t from, uint32_t to, const roce::Headers& headers,
                   size_t payload_bytes) {
  Record record{};
  record.time_ns = clock_.now_ns();
  record.from = from;
  record.to = to;
  record.fate = fate;
  record.opcode = static_cast<uint8_t>(headers.bth.opcode);
  record.psn = headers.bth.psn;
  record.qpn = headers.bth.destination;
  record.ack_request = headers.bth.ack_request;
  record.bytes = static_cast<uint32_t>(payload_bytes);
  if (headers.has(roce::kAeth))
    record.syndrome =
        static_cast<uint8_t>(static_cast<unsigned>(headers.aeth.kind) << 5 | headers.aeth.value);
  note(record);
}

void Trace::event(uint32_t host, uint32_t qpn, const char* what, uint64_t value, uint64_t other) {
  Record record{};
  record.time_ns = clock_.now_ns();
  record.what = what;
  record.from = host;
  record.qpn = qpn;
  record.value = value;
  record.other = other;
  note(record);
}

void Trace::note(const Record& record) {
  const auto mix = [this](uint64_t value) {
    digest_ = (digest_ ^ value) * 0x100000001b3;
    digest_ ^= digest_ >> 29;
  };
  mix(record.time_ns);
  mix(uint64_t{record.from} << 32 | record.to);
  mix(uint64_t{record.psn} << 32 | record.qpn);
  mix(uint64_t{record.bytes} << 32 | static_cast<uint64_t>(record.fate) << 24 | record.opcode << 8 |
      record.syndrome);
  mix(record.value);
  mix(record.other);
  records_.push_back(record);
}

std::string Trace::line(const Record& r) {
  char text[200];
  const double ms = static_cast<double>(r.time_ns - 1'000'000'000) / 1e6;
  if (r.what) {
    std::snprintf(text, sizeof text, "%11.6f ms  host %u  qp 0x%06x  %s %llu %llu\n", ms, r.from, r.qpn,
                  r.what, static_cast<unsigned long long>(r.value), static_cast<unsigned long long>(r.other));
    return text;
  }
  char answer[24] = "";
  const auto opcode = static_cast<roce::Opcode>(r.opcode);
  if (roce::info_of(opcode).headers & roce::kAeth)
    std::snprintf(answer, sizeof answer, " syndrome 0x%02x", r.syndrome);
  std::snprintf(text, sizeof text, "%11.6f ms  %u -> %u  qp 0x%06x  psn %8u  %5u bytes%s%s  %-34s %s\n", ms,
                r.from, r.to, r.qpn, r.psn, r.bytes, r.ack_request ? " A" : "", answer,
                roce::name_of(opcode).c_str(), name_of(r.fate));
  return text;
}

std::string Trace::text(size_t lines_max) const {
  std::string all;
  const size_t first = records_.size() > lines_max ? records_.size() - lines_max : 0;
  if (first > 0) all += "(" + std::to_string(first) + " earlier lines are left out)\n";
  for (size_t i = first; i < records_.size(); i++) all += line(records_[i]);
  return all;
}

}  // namespace verbatim::simulation
