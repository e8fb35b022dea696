// SPDX-License-Identifier: MIT
#include "wire/format/cm_service.h"

namespace verbatim::roce::cm {

namespace {

/// As on the wire, where an IPv4 address has 12 bytes of zeroes before it.
struct Raw {
  uint8_t version = 0;
  uint8_t ip_version = 0;
  uint16_t source_port = 0;
  Gid source, destination;

  using Layout =
      roce::Layout<36, At<&Raw::version, 0, 8>, At<&Raw::ip_version, 8, 4>, At<&Raw::source_port, 16, 16>,
                   Bytes<&Raw::source, 4>, Bytes<&Raw::destination, 20>>;
};
static_assert(Raw::Layout::kBytes == ServiceHeader::kBytes);

Gid with_prefix(const Gid& address, bool mapped) {
  Gid gid;
  if (mapped) gid.bytes[10] = gid.bytes[11] = 0xff;
  for (size_t i = 12; i < 16; i++) gid.bytes[i] = address.bytes[i];
  return gid;
}

}  // namespace

Parsed<ServiceHeader> ServiceHeader::parse(std::span<const uint8_t> private_data) {
  const Parsed<Raw> raw = Raw::Layout::parse<Raw>(private_data);
  if (!raw) return raw.refusal();
  if (raw->version != 0) return Refusal::kCmServiceVersion;
  if (raw->ip_version == 4)
    return ServiceHeader{false, raw->source_port, with_prefix(raw->source, true),
                         with_prefix(raw->destination, true)};
  if (raw->ip_version == 6) return ServiceHeader{true, raw->source_port, raw->source, raw->destination};
  return Refusal::kCmServiceAddress;
}

size_t ServiceHeader::emit(std::span<uint8_t> out) const {
  const Raw raw = ipv6 ? Raw{0, 6, source_port, source, destination}
                       : Raw{0, 4, source_port, with_prefix(source, false), with_prefix(destination, false)};
  return Raw::Layout::emit(raw, out);
}

}  // namespace verbatim::roce::cm
