// SPDX-License-Identifier: MIT
#include "wire/format/parsed.h"

namespace verbatim::roce {

const char* words(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "nothing is wrong";
    case Refusal::kTooShort:
      return "shorter than its first header";
    case Refusal::kUnknownOpcode:
      return "the opcode is not known";
    case Refusal::kTransportVersion:
      return "the transport header's version is not 0";
    case Refusal::kShorterThanHeaders:
      return "shorter than the headers of its opcode";
    case Refusal::kNotWholeWords:
      return "its length is not a multiple of 4";
    case Refusal::kPadExceedsPayload:
      return "the pad count is larger than what follows the headers";
    case Refusal::kPadInMiddle:
      return "a packet that is not its message's last has pad bytes";
    case Refusal::kPayloadForbidden:
      return "there is payload where the opcode has none";
    case Refusal::kPayloadSize:
      return "the opcode does not go with so much payload";
    case Refusal::kTooLong:
      return "there is more payload than any path MTU allows";
    case Refusal::kWrongIcrc:
      return "the invariant CRC is wrong";
    case Refusal::kIpVersion:
      return "neither IPv4 nor IPv6";
    case Refusal::kIpOptions:
      return "the IP header has options";
    case Refusal::kIpLength:
      return "the IP header tells another length";
    case Refusal::kIpChecksum:
      return "the checksum of the IP header is wrong";
    case Refusal::kFragment:
      return "a fragment";
    case Refusal::kNotUdp:
      return "not UDP";
    case Refusal::kUdpLength:
      return "the UDP header tells another length";
    case Refusal::kMadVersion:
      return "the management datagram's base version is not 1";
    case Refusal::kMadClass:
      return "the management class is not that of the connection manager";
    case Refusal::kMadClassVersion:
      return "the class version is not 2";
    case Refusal::kMadMethod:
      return "the method is not Send";
    case Refusal::kMadAttribute:
      return "the attribute is none of the connection manager's";
    case Refusal::kCmServiceVersion:
      return "the version of the RDMA IP CM service is not 0";
    case Refusal::kCmServiceAddress:
      return "the RDMA IP CM service's addresses are neither IPv4 nor IPv6";
  }
  return "an unknown check";
}

}  // namespace verbatim::roce
