// SPDX-License-Identifier: MIT
#include "wire/format/opcode.h"

#include <cstdio>

#include "wire/format/headers.h"

namespace verbatim::roce {

namespace {

/// Which transports besides RC know an operation.
enum Others : uint8_t { kUcToo = 1, kXrcToo = 2, kUdToo = 4 };

struct Row {
  Operation operation;
  const char* name;
  uint16_t headers;
  Place place;
  PayloadRule payload;
  uint8_t others;
  bool request = true;
};

constexpr auto kSpread = static_cast<uint8_t>(kUcToo | kXrcToo);
constexpr auto kEverywhere = static_cast<uint8_t>(kSpread | kUdToo);

// The packets of section 9.2.1 of the specification, those of its annexes A14 (XRC) and A19 (memory
// placement).
constexpr Row kRows[] = {
    {Operation::kSendFirst, "SEND FIRST", 0, Place::kFirst, PayloadRule::kUnpadded, kSpread},
    {Operation::kSendMiddle, "SEND MIDDLE", 0, Place::kMiddle, PayloadRule::kUnpadded, kSpread},
    {Operation::kSendLast, "SEND LAST", 0, Place::kLast, PayloadRule::kAny, kSpread},
    {Operation::kSendLastImmediate, "SEND LAST WITH IMMEDIATE", kImmDt, Place::kLast, PayloadRule::kAny,
     kSpread},
    {Operation::kSendOnly, "SEND ONLY", 0, Place::kOnly, PayloadRule::kAny, kEverywhere},
    {Operation::kSendOnlyImmediate, "SEND ONLY WITH IMMEDIATE", kImmDt, Place::kOnly, PayloadRule::kAny,
     kEverywhere},
    {Operation::kWriteFirst, "RDMA WRITE FIRST", kReth, Place::kFirst, PayloadRule::kUnpadded, kSpread},
    {Operation::kWriteMiddle, "RDMA WRITE MIDDLE", 0, Place::kMiddle, PayloadRule::kUnpadded, kSpread},
    {Operation::kWriteLast, "RDMA WRITE LAST", 0, Place::kLast, PayloadRule::kAny, kSpread},
    {Operation::kWriteLastImmediate, "RDMA WRITE LAST WITH IMMEDIATE", kImmDt, Place::kLast,
     PayloadRule::kAny, kSpread},
    {Operation::kWriteOnly, "RDMA WRITE ONLY", kReth, Place::kOnly, PayloadRule::kAny, kSpread},
    {Operation::kWriteOnlyImmediate, "RDMA WRITE ONLY WITH IMMEDIATE", kReth | kImmDt, Place::kOnly,
     PayloadRule::kAny, kSpread},
    {Operation::kReadRequest, "RDMA READ REQUEST", kReth, Place::kOnly, PayloadRule::kNone, kXrcToo},
    {Operation::kReadResponseFirst, "RDMA READ RESPONSE FIRST", kAeth, Place::kFirst, PayloadRule::kUnpadded,
     kXrcToo, false},
    {Operation::kReadResponseMiddle, "RDMA READ RESPONSE MIDDLE", 0, Place::kMiddle, PayloadRule::kUnpadded,
     kXrcToo, false},
    {Operation::kReadResponseLast, "RDMA READ RESPONSE LAST", kAeth, Place::kLast, PayloadRule::kAny, kXrcToo,
     false},
    {Operation::kReadResponseOnly, "RDMA READ RESPONSE ONLY", kAeth, Place::kOnly, PayloadRule::kAny, kXrcToo,
     false},
    {Operation::kAcknowledge, "ACKNOWLEDGE", kAeth, Place::kOnly, PayloadRule::kNone, kXrcToo, false},
    {Operation::kAtomicAcknowledge, "ATOMIC ACKNOWLEDGE", kAeth | kAtomicAckEth, Place::kOnly,
     PayloadRule::kNone, kXrcToo, false},
    {Operation::kCompareSwap, "COMPARE SWAP", kAtomicEth, Place::kOnly, PayloadRule::kNone, kXrcToo},
    {Operation::kFetchAdd, "FETCH ADD", kAtomicEth, Place::kOnly, PayloadRule::kNone, kXrcToo},
    {Operation::kSendLastInvalidate, "SEND LAST WITH INVALIDATE", kIeth, Place::kLast, PayloadRule::kAny,
     kXrcToo},
    {Operation::kSendOnlyInvalidate, "SEND ONLY WITH INVALIDATE", kIeth, Place::kOnly, PayloadRule::kAny,
     kXrcToo},
    {Operation::kFlush, "FLUSH", kFeth | kReth, Place::kOnly, PayloadRule::kNone, kXrcToo},
    {Operation::kAtomicWrite, "ATOMIC WRITE", kReth, Place::kOnly, PayloadRule::kEight, kXrcToo},
};

constexpr Row kDisconnectRow{Operation::kDisconnect, "DISCONNECT", 0, Place::kOnly, PayloadRule::kNone, 0};

constexpr size_t bytes_of(uint16_t headers) {
  return Bth::kBytes + (headers & kDcEth ? DcEth::kBytes : 0) + (headers & kXrcEth ? XrcEth::kBytes : 0) +
         (headers & kDeth ? Deth::kBytes : 0) + (headers & kFeth ? Feth::kBytes : 0) +
         (headers & kReth ? Reth::kBytes : 0) + (headers & kAtomicEth ? AtomicEth::kBytes : 0) +
         (headers & kAeth ? Aeth::kBytes : 0) + (headers & kAtomicAckEth ? AtomicAckEth::kBytes : 0) +
         (headers & kImmDt ? ImmDt::kBytes : 0) + (headers & kIeth ? Ieth::kBytes : 0);
}

constexpr void add(OpcodeTable& table, Transport transport, const Row& row, uint16_t more_headers) {
  const auto headers = static_cast<uint16_t>(row.headers | more_headers);
  table.infos[static_cast<uint8_t>(opcode(transport, row.operation))] = {
      true, row.request, row.place, row.payload, headers, static_cast<uint8_t>(bytes_of(headers))};
}

constexpr OpcodeTable make_table() {
  OpcodeTable table{};
  for (const Row& row : kRows) {
    add(table, Transport::kRc, row, 0);
    if (row.others & kUcToo) add(table, Transport::kUc, row, 0);
    if (row.others & kXrcToo) add(table, Transport::kXrc, row, row.request ? kXrcEth : 0);
    const bool placement = row.operation == Operation::kFlush || row.operation == Operation::kAtomicWrite;
    if ((row.others & kXrcToo) && !placement) add(table, Transport::kDc, row, kDcEth);
    if (row.others & kUdToo) add(table, Transport::kUd, row, kDeth);
  }
  add(table, Transport::kDc, kDisconnectRow, kDcEth);
  table.infos[static_cast<uint8_t>(kCnp)] = {true, false,      Place::kOnly, PayloadRule::kSixteen,
                                             0,    Bth::kBytes};
  return table;
}

const char* name_of(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return "RC ";
    case Transport::kUc:
      return "UC ";
    case Transport::kRd:
      return "RD ";
    case Transport::kUd:
      return "UD ";
    case Transport::kXrc:
      return "XRC ";
    case Transport::kDc:
      return "DC ";
    case Transport::kCnp:
      break;
  }
  return "";
}

}  // namespace

constinit const OpcodeTable kOpcodes = make_table();

std::string name_of(Opcode code) {
  if (code == kCnp) return "CNP";
  if (code == opcode(Transport::kDc, Operation::kDisconnect)) return "DC DISCONNECT";
  if (info_of(code).known)
    for (const Row& row : kRows)
      if (row.operation == operation_of(code)) return std::string(name_of(transport_of(code))) + row.name;
  char text[16];
  std::snprintf(text, sizeof text, "opcode 0x%02x", static_cast<unsigned>(code));
  return text;
}

}  // namespace verbatim::roce
