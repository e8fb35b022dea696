// SPDX-License-Identifier: MIT
#pragma once

// A capture file in the format pcapng, which Wireshark and others read, with times in nanoseconds.

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace verbatim::capture {

/// A frame of Ethernet.
struct Frame {
  uint64_t time_ns = 0;  ///< since 1970
  bool inbound = false;
  uint32_t original_bytes = 0;  ///< of which `bytes` are the first
  std::vector<uint8_t> bytes;
};

/// Each function is false when the file could not be written to; errno tells.
class PcapngWriter {
 public:
  /// The file stays the caller's.
  explicit PcapngWriter(std::FILE* file) : file_(file) {}

  bool begin(const std::string& program);
  /// The next interface, from number 0 on.
  bool add_interface(const std::string& name, const std::string& description, uint32_t snap_bytes);
  bool add(uint32_t interface, const Frame& frame);
  /// At the end: how many frames there were on an interface, and were lost on the way here.
  bool add_statistics(uint32_t interface, uint64_t start_ns, uint64_t end_ns, uint64_t received,
                      uint64_t lost);
  bool flush() { return std::fflush(file_) == 0; }

 private:
  void put(const void* bytes, size_t count);
  template <class T>
  void put(T value) {
    put(&value, sizeof value);
  }
  void put_time(uint64_t time_ns);
  void put_option(uint16_t code, std::span<const uint8_t> value);
  template <class T>
  void put_number(uint16_t code, T value) {
    put_option(code, {static_cast<const uint8_t*>(static_cast<const void*>(&value)), sizeof value});
  }
  void put_text(uint16_t code, const std::string& text);
  bool write_block(uint32_t type);

  std::FILE* const file_;
  std::vector<uint8_t> body_;  ///< of the block that is being made
};

}  // namespace verbatim::capture
