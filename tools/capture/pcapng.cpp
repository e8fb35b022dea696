// SPDX-License-Identifier: MIT
#include "tools/capture/pcapng.h"

namespace verbatim::capture {

namespace {

// Blocks and their options, as the format's specification numbers them (draft-ietf-opsawg-pcapng).
constexpr uint32_t kSectionHeader = 0x0a0d0d0a, kInterface = 1, kEnhancedPacket = 6, kStatistics = 5;
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint16_t kEnd = 0, kUserApplication = 4;
constexpr uint16_t kName = 2, kDescription = 3, kTimeResolution = 9;
constexpr uint16_t kFlags = 2;
constexpr uint16_t kStart = 2, kEndTime = 3, kReceived = 4, kDropped = 5;
constexpr uint16_t kEthernet = 1;
constexpr uint32_t kInbound = 1, kOutbound = 2, kUnicast = 1 << 2, kMulticast = 2 << 2;

}  // namespace

void PcapngWriter::put(const void* bytes, size_t count) {
  const auto* first = static_cast<const uint8_t*>(bytes);
  body_.insert(body_.end(), first, first + count);
}

void PcapngWriter::put_time(uint64_t time_ns) {
  put(static_cast<uint32_t>(time_ns >> 32));
  put(static_cast<uint32_t>(time_ns));
}

void PcapngWriter::put_option(uint16_t code, std::span<const uint8_t> value) {
  put(code);
  put(static_cast<uint16_t>(value.size()));
  put(value.data(), value.size());
  body_.resize((body_.size() + 3) / 4 * 4);
}

void PcapngWriter::put_text(uint16_t code, const std::string& text) {
  put_option(code, {static_cast<const uint8_t*>(static_cast<const void*>(text.data())), text.size()});
}

// With its length on both sides, so that it can be read from either.
bool PcapngWriter::write_block(uint32_t type) {
  const auto length = static_cast<uint32_t>(body_.size() + 3 * sizeof(uint32_t));
  const uint32_t head[2] = {type, length};
  const bool written = std::fwrite(head, sizeof head, 1, file_) == 1 &&
                       std::fwrite(body_.data(), 1, body_.size(), file_) == body_.size() &&
                       std::fwrite(&length, sizeof length, 1, file_) == 1;
  body_.clear();
  return written;
}

bool PcapngWriter::begin(const std::string& program) {
  put(kByteOrder);
  put(uint16_t{1});
  put(uint16_t{0});
  put(UINT64_MAX);  // the section's length is not known
  put_text(kUserApplication, program);
  put_option(kEnd, {});
  return write_block(kSectionHeader);
}

bool PcapngWriter::add_interface(const std::string& name, const std::string& description,
                                 uint32_t snap_bytes) {
  put(kEthernet);
  put(uint16_t{0});
  put(snap_bytes);
  put_text(kName, name);
  put_text(kDescription, description);
  put_number(kTimeResolution, uint8_t{9});
  put_option(kEnd, {});
  return write_block(kInterface);
}

bool PcapngWriter::add(uint32_t interface, const Frame& frame) {
  put(interface);
  put_time(frame.time_ns);
  put(static_cast<uint32_t>(frame.bytes.size()));
  put(frame.original_bytes);
  put(frame.bytes.data(), frame.bytes.size());
  body_.resize((body_.size() + 3) / 4 * 4);
  const bool group = !frame.bytes.empty() && frame.bytes[0] & 1;
  put_number(kFlags, (frame.inbound ? kInbound : kOutbound) | (group ? kMulticast : kUnicast));
  put_option(kEnd, {});
  return write_block(kEnhancedPacket);
}

bool PcapngWriter::add_statistics(uint32_t interface, uint64_t start_ns, uint64_t end_ns, uint64_t received,
                                  uint64_t lost) {
  const auto time = [](uint64_t ns) { return ns >> 32 | ns << 32; };  // the upper half comes first
  put(interface);
  put_time(end_ns);
  put_number(kStart, time(start_ns));
  put_number(kEndTime, time(end_ns));
  put_number(kReceived, received);
  put_number(kDropped, lost);
  put_option(kEnd, {});
  return write_block(kStatistics);
}

}  // namespace verbatim::capture
