// SPDX-License-Identifier: MIT
// What packets of RoCEv2 cost, apart from the system calls.
// usage: packet_costs parse|seal|check|icrc    prints one number:
//   parse, seal   ns to parse, to complete a packet of 64 bytes
//   check         ns to parse one of 4096 bytes and check its ICRC
//   icrc          GB/s of the CRC over 4096 bytes
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "wire/format/packet.h"

namespace {

using namespace verbatim::roce;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 2'000'000;

/// The compiler takes `bytes` to be read and written here.
void look_at(const void* bytes) { asm volatile("" : : "r"(bytes) : "memory"); }

template <class Work>
double ns(Work work) {
  for (int i = 0; i < kRounds / 10; i++) work();
  const auto begin = Clock::now();
  for (int i = 0; i < kRounds; i++) work();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kRounds;
}

struct Sample {
  Envelope envelope;
  Headers headers;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kPacketBytesMax);
  size_t bytes = 0;

  explicit Sample(size_t payload_bytes) {
    envelope.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    envelope.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    envelope.source_port = 0xc000;
    headers.bth.opcode = opcode(Transport::kRc, Operation::kWriteOnly);
    headers.bth.destination = 0x123456;
    headers.reth = {0x7f0000001000, 0x1234, static_cast<uint32_t>(payload_bytes)};
    bytes = PacketWriter(envelope).seal(buffer, headers, payload_bytes);
  }
  std::span<const uint8_t> datagram() const { return std::span(buffer).first(bytes); }
};

double parse() {
  const Sample sample(64);
  return ns([&] {
    look_at(sample.buffer.data());
    const auto packet = Packet::parse(sample.datagram());
    look_at(&packet);
  });
}

double seal() {
  Sample sample(64);
  const PacketWriter writer(sample.envelope);
  return ns([&] {
    sample.headers.bth.psn++;
    writer.seal(sample.buffer, sample.headers, 64);
    look_at(sample.buffer.data());
  });
}

double check() {
  const Sample sample(4096);
  return ns([&] {
    look_at(sample.buffer.data());
    const auto packet = Packet::parse(sample.datagram(), sample.envelope, true);
    look_at(&packet);
  });
}

double icrc() {
  const std::vector<uint8_t> bytes(4096, 0x5a);
  uint32_t state = kCrc32Start;
  return 4096 / ns([&] {
           state = crc32_update(state, bytes);
           look_at(&state);
         });
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count == 2 ? words[1] : "";
  double (*const measure)() = what == "parse"   ? parse
                              : what == "seal"  ? seal
                              : what == "check" ? check
                              : what == "icrc"  ? icrc
                                                : nullptr;
  if (measure == nullptr) {
    std::fprintf(stderr, "usage: packet_costs parse|seal|check|icrc\n");
    return 2;
  }
  std::printf("%.3f\n", measure());
  return 0;
}
