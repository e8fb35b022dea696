// SPDX-License-Identifier: MIT
#pragma once

// The base transport header and the extended ones, as values. Each has `parse`, which reads the first bytes
// of a span, and `emit`, which writes them and returns their number, 0 where the span is too short. Reserved
// bits are ignored and written as 0.

#include "wire/format/layout.h"
#include "wire/format/opcode.h"

namespace verbatim::roce {

constexpr uint32_t kNumberMask = 0xffffff;  ///< queue pair numbers, PSNs, MSNs: 24 bits
constexpr uint16_t kDefaultPkey = 0xffff;

struct Bth {
  Opcode opcode{};
  bool solicited = false;
  bool migrated = false;  ///< MigReq: the path is the primary one
  uint8_t pad = 0;        ///< bytes after the payload, 0 to 3
  uint8_t version = 0;
  uint16_t pkey = kDefaultPkey;
  bool fecn = false, becn = false;
  uint32_t destination = 0;  ///< queue pair
  bool ack_request = false;
  uint32_t psn = 0;

  using Layout = roce::Layout<12, At<&Bth::opcode, 0, 8>, At<&Bth::solicited, 8, 1>, At<&Bth::migrated, 9, 1>,
                              At<&Bth::pad, 10, 2>, At<&Bth::version, 12, 4>, At<&Bth::pkey, 16, 16>,
                              At<&Bth::fecn, 32, 1>, At<&Bth::becn, 33, 1>, At<&Bth::destination, 40, 24>,
                              At<&Bth::ack_request, 64, 1>, At<&Bth::psn, 72, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Bth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Bth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Bth&, const Bth&) = default;
};

/// Of every packet of a dynamic connection. Those of other makers of DC devices are not published; this one
/// is understood here alone.
struct DcEth {
  uint64_t access_key = 0;  ///< of requests
  uint32_t connection = 0;  ///< which of the initiator's process: a later one has a later number
  uint32_t source = 0;      ///< queue pair
  uint32_t opening = 0;     ///< of requests: the PSN before which the target has answered everything

  using Layout = roce::Layout<20, At<&DcEth::access_key, 0, 64>, At<&DcEth::connection, 64, 32>,
                              At<&DcEth::source, 104, 24>, At<&DcEth::opening, 136, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<DcEth> parse(std::span<const uint8_t> bytes) { return Layout::parse<DcEth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const DcEth&, const DcEth&) = default;
};

/// Of a request to an XRC target.
struct XrcEth {
  uint32_t srqn = 0;

  using Layout = roce::Layout<4, At<&XrcEth::srqn, 8, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<XrcEth> parse(std::span<const uint8_t> bytes) { return Layout::parse<XrcEth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const XrcEth&, const XrcEth&) = default;
};

/// Of a datagram.
struct Deth {
  uint32_t qkey = 0;
  uint32_t source = 0;  ///< queue pair

  using Layout = roce::Layout<8, At<&Deth::qkey, 0, 32>, At<&Deth::source, 40, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Deth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Deth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Deth&, const Deth&) = default;
};

/// Of a flush: what is made visible or persistent.
struct Feth {
  static constexpr uint8_t kGlobalVisibility = 1, kPersistence = 2;  // placement, bits
  static constexpr uint8_t kRange = 0, kRegion = 1;                  // selectivity
  uint8_t selectivity = kRange;
  uint8_t placement = 0;

  using Layout = roce::Layout<4, At<&Feth::selectivity, 26, 2>, At<&Feth::placement, 28, 4>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Feth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Feth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Feth&, const Feth&) = default;
};

struct Reth {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;  ///< of the message

  using Layout =
      roce::Layout<16, At<&Reth::address, 0, 64>, At<&Reth::rkey, 64, 32>, At<&Reth::length, 96, 32>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Reth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Reth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Reth&, const Reth&) = default;
};

struct AtomicEth {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;

  using Layout = roce::Layout<28, At<&AtomicEth::address, 0, 64>, At<&AtomicEth::rkey, 64, 32>,
                              At<&AtomicEth::swap_or_add, 96, 64>, At<&AtomicEth::compare, 160, 64>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<AtomicEth> parse(std::span<const uint8_t> bytes) { return Layout::parse<AtomicEth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

/// What an acknowledgement says.
enum class AckKind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

enum class NakCode : uint8_t {
  kSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperational = 3,
  kInvalidRdRequest = 4,
};

/// Of an acknowledgement and of a response.
struct Aeth {
  static constexpr uint8_t kNoCredits = 31;  ///< the responder counts no credits: send what you like

  AckKind kind = AckKind::kAck;
  uint8_t value = kNoCredits;  ///< 5 bits: a credit code, an RNR timer code or a NakCode
  uint32_t msn = 0;

  static Aeth ack(uint32_t msn, uint8_t credit_code = kNoCredits) {
    return {AckKind::kAck, credit_code, msn};
  }
  static Aeth rnr_nak(uint32_t msn, uint8_t timer_code) { return {AckKind::kRnrNak, timer_code, msn}; }
  static Aeth nak(uint32_t msn, NakCode code) { return {AckKind::kNak, static_cast<uint8_t>(code), msn}; }
  NakCode nak_code() const { return static_cast<NakCode>(value); }

  using Layout = roce::Layout<4, At<&Aeth::kind, 1, 2>, At<&Aeth::value, 3, 5>, At<&Aeth::msn, 8, 24>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Aeth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Aeth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Aeth&, const Aeth&) = default;
};

struct AtomicAckEth {
  uint64_t original = 0;

  using Layout = roce::Layout<8, At<&AtomicAckEth::original, 0, 64>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<AtomicAckEth> parse(std::span<const uint8_t> bytes) {
    return Layout::parse<AtomicAckEth>(bytes);
  }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

struct ImmDt {
  uint32_t data = 0;  ///< as programs give and get it: its memory is what is on the wire

  using Layout = roce::Layout<4, Bytes<&ImmDt::data, 0>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<ImmDt> parse(std::span<const uint8_t> bytes) { return Layout::parse<ImmDt>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const ImmDt&, const ImmDt&) = default;
};

struct Ieth {
  uint32_t rkey = 0;

  using Layout = roce::Layout<4, At<&Ieth::rkey, 0, 32>>;
  static constexpr size_t kBytes = Layout::kBytes;
  static Parsed<Ieth> parse(std::span<const uint8_t> bytes) { return Layout::parse<Ieth>(bytes); }
  size_t emit(std::span<uint8_t> out) const { return Layout::emit(*this, out); }
  friend bool operator==(const Ieth&, const Ieth&) = default;
};

/// How long an RNR timer code, 0 to 31, asks to wait (table 46 of the specification).
uint32_t rnr_timer_ns(uint8_t code);
/// How many messages a credit code, 0 to 30, allows (table 45).
uint32_t credits_of(uint8_t code);

}  // namespace verbatim::roce
