// SPDX-License-Identifier: MIT
#pragma once

// The opcodes of the base transport header: what each is and which extended headers follow it.

#include <cstdint>
#include <string>

namespace verbatim::roce {

/// The upper three bits of an opcode.
enum class Transport : uint8_t {
  kRc = 0x00,
  kUc = 0x20,
  kRd = 0x40,
  kUd = 0x60,
  kCnp = 0x80,
  kXrc = 0xa0,
  kDc = 0xc0,  ///< dynamic connections, among the opcodes left to manufacturers: understood here alone
};

/// The lower five.
enum class Operation : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImmediate = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kFlush = 0x1c,
  kAtomicWrite = 0x1d,
  kDisconnect = 0x1f,  ///< transport kDc alone
};

/// Any byte: what the table does not know can still be carried and printed.
enum class Opcode : uint8_t {};

constexpr Opcode opcode(Transport transport, Operation operation) {
  return static_cast<Opcode>(static_cast<uint8_t>(transport) | static_cast<uint8_t>(operation));
}
constexpr Transport transport_of(Opcode code) {
  return static_cast<Transport>(static_cast<uint8_t>(code) & 0xe0);
}
constexpr Operation operation_of(Opcode code) {
  return static_cast<Operation>(static_cast<uint8_t>(code) & 0x1f);
}

/// Congestion notification.
constexpr Opcode kCnp = static_cast<Opcode>(0x81);

/// Extended headers, in their order on the wire, each a bit of OpcodeInfo::headers.
enum Header : uint16_t {
  kXrcEth = 1 << 0,
  kDeth = 1 << 1,
  kFeth = 1 << 2,
  kReth = 1 << 3,
  kAtomicEth = 1 << 4,
  kAeth = 1 << 5,
  kAtomicAckEth = 1 << 6,
  kImmDt = 1 << 7,
  kIeth = 1 << 8,
  kDcEth = 1 << 9,  ///< before all others
};

/// Where a packet stands in its message.
enum class Place : uint8_t { kOnly, kFirst, kMiddle, kLast };

/// What may follow the headers.
enum class PayloadRule : uint8_t {
  kAny,
  kNone,
  kUnpadded,  ///< at least a byte, and whole words: the packet is not its message's last
  kEight,     ///< the 8 bytes of an atomic write
  kSixteen,   ///< the reserved bytes of a CNP
};

struct OpcodeInfo {
  bool known = false;
  bool request = false;  ///< to a responder; false: an answer to a requester, or a CNP
  Place place = Place::kOnly;
  PayloadRule payload = PayloadRule::kAny;
  uint16_t headers = 0;      ///< of Header
  uint8_t header_bytes = 0;  ///< BTH and extended headers
};

struct OpcodeTable {
  OpcodeInfo infos[256];
};
extern const OpcodeTable kOpcodes;

inline const OpcodeInfo& info_of(Opcode code) { return kOpcodes.infos[static_cast<uint8_t>(code)]; }

/// "RC RDMA WRITE FIRST", "opcode 0x5f"
std::string name_of(Opcode code);

}  // namespace verbatim::roce
