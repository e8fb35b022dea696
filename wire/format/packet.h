// SPDX-License-Identifier: MIT
#pragma once

// A RoCEv2 packet: what a UDP datagram to port 4791 carries.
//
// Receiving: `Packet::parse(datagram, envelope, ...)` gives one value, or the check that the datagram failed.
// Without an envelope the ICRC is not looked at: for what sees only the datagram, or may leave damage to
// UDP's checksum.
//
// Sending: a PacketWriter per flow, one Headers value per message. Of it, only opcode, PSN and the like
// change from packet to packet:
//
//   uint8_t* payload = buffer + bytes_of(headers);  // filled in place: no second copy
//   headers.bth.psn = ...;
//   size_t bytes = writer.seal(buffer, headers, payload_bytes);
//
// or, for payload that stays where it is (iovec), begin, add its pieces, finish.

#include <cstring>
#include <span>

#include "wire/format/crc32.h"
#include "wire/format/headers.h"
#include "wire/format/icrc.h"

namespace verbatim::roce {

/// BTH and extended headers; those that the opcode does not have are not looked at.
struct Headers {
  Bth bth;
  DcEth dceth;
  XrcEth xrceth;
  Deth deth;
  Feth feth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  AtomicAckEth atomic_ack;
  ImmDt immediate;
  Ieth invalidate;

  const OpcodeInfo& info() const { return info_of(bth.opcode); }
  bool has(Header header) const { return info().headers & header; }
  /// BTH and extended headers of `bytes`, which hold at least info().header_bytes. False: unknown opcode.
  bool read(std::span<const uint8_t> bytes);
  /// The number of bytes written; 0: no room for them, or an unknown opcode.
  size_t emit(std::span<uint8_t> out) const;
  friend bool operator==(const Headers&, const Headers&) = default;
};

/// On the wire.
inline size_t bytes_of(const Headers& headers) { return headers.info().header_bytes; }

constexpr size_t kPathMtuMax = 4096;
constexpr size_t kHeaderBytesMax = 60;
constexpr size_t kTailBytesMax = 3 + kIcrcBytes;
constexpr size_t kPacketBytesMax = kHeaderBytesMax + kPathMtuMax + kIcrcBytes;

struct Packet {
  Headers headers;
  std::span<const uint8_t> payload;  ///< of the datagram, without pad

  /// Checks everything that can be told from the datagram alone, apart from the ICRC.
  static Parsed<Packet> parse(std::span<const uint8_t> datagram);
  /// And the ICRC, as `check_icrc` does.
  static Parsed<Packet> parse(std::span<const uint8_t> datagram, const Envelope& envelope,
                              bool identification_known);
  /// The same for one of many of a flow.
  static Parsed<Packet> parse(std::span<const uint8_t> datagram, const IcrcFlow& flow,
                              const Envelope& envelope, bool identification_known);
};

/// Writes the packets of a flow.
class PacketWriter {
 public:
  explicit PacketWriter(const Envelope& envelope)
      : flow_(envelope), identification_(envelope.identification) {}

  /// Payload lies at out + bytes_of(headers) already; writes what goes before and behind it. The number of
  /// bytes of the whole packet, 0: no room for it. The pad count of `headers` is not looked at; it is found
  /// from the length.
  size_t seal(std::span<uint8_t> out, const Headers& headers, size_t payload_bytes) const {
    return seal(out, headers, payload_bytes, identification_);
  }
  /// Of a segment of a larger send, which the kernel gives an identification of its own.
  size_t seal(std::span<uint8_t> out, const Headers& headers, size_t payload_bytes,
              uint16_t identification) const;
  /// Copies the payload and seals.
  size_t write(std::span<uint8_t> out, const Headers& headers, std::span<const uint8_t> payload) const {
    if (out.size() < bytes_of(headers) + payload.size()) return 0;
    if (!payload.empty()) std::memcpy(out.data() + bytes_of(headers), payload.data(), payload.size());
    return seal(out, headers, payload.size());
  }

  /// A packet whose payload is gathered from elsewhere.
  struct Gathered {
    size_t header_bytes = 0;  ///< 0: no room for them
    uint8_t pad = 0;
    uint32_t icrc_state = 0;

    /// Its pieces, in order.
    void add(std::span<const uint8_t> piece) { icrc_state = crc32_update(icrc_state, piece); }
    /// Writes pad and ICRC, which go behind the payload; their number.
    size_t finish(std::span<uint8_t, kTailBytesMax> tail);
  };
  Gathered begin(std::span<uint8_t> out, const Headers& headers, size_t payload_bytes) const {
    return begin(out, headers, payload_bytes, identification_);
  }
  Gathered begin(std::span<uint8_t> out, const Headers& headers, size_t payload_bytes,
                 uint16_t identification) const;

 private:
  IcrcFlow flow_;
  uint16_t identification_;
};

}  // namespace verbatim::roce
