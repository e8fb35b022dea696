// SPDX-License-Identifier: MIT
#pragma once

// The messages of the InfiniBand connection manager (chapter 12 of the specification), each the data of a MAD
// of class 7. Fields have the specification's names and values; what "local" and "remote" mean is seen from
// the sender.

#include <algorithm>
#include <array>
#include <variant>

#include "wire/format/mad.h"

namespace verbatim::roce::cm {

template <size_t kBytes>
using Private = std::array<uint8_t, kBytes>;

enum class TransportService : uint8_t { kRc = 0, kUc = 1, kRd = 2, kExtended = 3 };
constexpr uint8_t kXrcTransport = 1;

/// Which message an Mra or Rej answers.
enum class Answered : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

enum class RejectReason : uint16_t {
  kNone = 0,
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kNoRdc = 11,
  kInvalidGid = 12,
  kInvalidLid = 13,
  kInvalidServiceLevel = 14,
  kInvalidTrafficClass = 15,
  kInvalidHopLimit = 16,
  kInvalidPacketRate = 17,
  kInvalidAlternateGid = 18,
  kInvalidAlternateLid = 19,
  kInvalidAlternateServiceLevel = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidMtu = 26,
  kFewResponderResources = 27,
  kByConsumer = 28,
  kInvalidRnrRetry = 29,
  kDuplicateLocalCommId = 30,
  kInvalidClassVersion = 31,
  kInvalidFlowLabel = 32,
  kInvalidAlternateFlowLabel = 33,
  kVendorOptionUnsupported = 35,
};

enum class SidrStatus : uint8_t {
  kValid = 0,
  kUnsupportedService = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirected = 4,
  kUnsupportedVersion = 5,
};

enum class AlternatePathStatus : uint8_t {
  kLoaded = 0,
  kInvalidCommId = 1,
  kUnsupported = 2,
  kRejected = 3,
  kRedirected = 4,
  kIsCurrent = 5,
  kInvalidQpn = 6,
  kInvalidLid = 7,
  kInvalidGid = 8,
  kInvalidFlowLabel = 9,
  kInvalidTrafficClass = 10,
  kInvalidHopLimit = 11,
  kInvalidPacketRate = 12,
  kInvalidServiceLevel = 13,
};

/// A path of a connection, from the sender's side.
struct Path {
  uint16_t local_lid = 0, remote_lid = 0;  ///< 0xffff on RoCE
  Gid local_gid, remote_gid;
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;
  bool sap_supported = false;  ///< of the alternate path of a Req only: suggesting another one is understood

  friend bool operator==(const Path&, const Path&) = default;

  using InRequest =
      Layout<44, At<&Path::local_lid, in_byte(0), 16>, At<&Path::remote_lid, in_byte(2), 16>,
             Bytes<&Path::local_gid, 4>, Bytes<&Path::remote_gid, 20>, At<&Path::flow_label, in_byte(36), 20>,
             At<&Path::packet_rate, in_byte(39, 2), 6>, At<&Path::traffic_class, in_byte(40), 8>,
             At<&Path::hop_limit, in_byte(41), 8>, At<&Path::service_level, in_byte(42), 4>,
             At<&Path::subnet_local, in_byte(42, 4), 1>, At<&Path::local_ack_timeout, in_byte(43), 5>,
             At<&Path::sap_supported, in_byte(43, 5), 1>>;
  using InLoad =
      Layout<44, At<&Path::local_lid, in_byte(0), 16>, At<&Path::remote_lid, in_byte(2), 16>,
             Bytes<&Path::local_gid, 4>, Bytes<&Path::remote_gid, 20>, At<&Path::flow_label, in_byte(36), 20>,
             At<&Path::traffic_class, in_byte(39), 8>, At<&Path::hop_limit, in_byte(40), 8>,
             At<&Path::packet_rate, in_byte(41, 2), 6>, At<&Path::service_level, in_byte(42), 4>,
             At<&Path::subnet_local, in_byte(42, 4), 1>, At<&Path::local_ack_timeout, in_byte(43), 5>>;
};

/// Asks for a connection.
struct Req {
  static constexpr uint16_t kAttribute = 0x0010;

  uint32_t local_comm_id = 0;
  uint32_t vendor_id = 0;  ///< of ECE, 24 bits; its options are the header's modifier
  uint64_t service_id = 0;
  uint64_t local_ca_guid = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;
  uint8_t remote_cm_response_timeout = 0;  ///< 4.096 us << it, as all timeouts here
  TransportService transport_service = TransportService::kRc;
  bool end_to_end_flow_control = false;
  uint32_t starting_psn = 0;
  uint8_t local_cm_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0xffff;
  uint8_t path_mtu = 0;  ///< 128 << it
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  uint8_t extended_transport = 0;  ///< kXrcTransport where transport_service is kExtended
  Path primary;
  Path alternate;  ///< none: all zeroes
  Private<92> private_data{};

  using Layout = roce::Layout<
      kMadDataBytes, At<&Req::local_comm_id, in_byte(0), 32>, At<&Req::vendor_id, in_byte(5), 24>,
      At<&Req::service_id, in_byte(8), 64>, At<&Req::local_ca_guid, in_byte(16), 64>,
      At<&Req::local_qkey, in_byte(28), 32>, At<&Req::local_qpn, in_byte(32), 24>,
      At<&Req::responder_resources, in_byte(35), 8>, At<&Req::local_eecn, in_byte(36), 24>,
      At<&Req::initiator_depth, in_byte(39), 8>, At<&Req::remote_eecn, in_byte(40), 24>,
      At<&Req::remote_cm_response_timeout, in_byte(43), 5>, At<&Req::transport_service, in_byte(43, 5), 2>,
      At<&Req::end_to_end_flow_control, in_byte(43, 7), 1>, At<&Req::starting_psn, in_byte(44), 24>,
      At<&Req::local_cm_response_timeout, in_byte(47), 5>, At<&Req::retry_count, in_byte(47, 5), 3>,
      At<&Req::pkey, in_byte(48), 16>, At<&Req::path_mtu, in_byte(50), 4>,
      At<&Req::rdc_exists, in_byte(50, 4), 1>, At<&Req::rnr_retry_count, in_byte(50, 5), 3>,
      At<&Req::max_cm_retries, in_byte(51), 4>, At<&Req::srq, in_byte(51, 4), 1>,
      At<&Req::extended_transport, in_byte(51, 5), 3>, Inner<&Req::primary, 52, Path::InRequest>,
      Inner<&Req::alternate, 96, Path::InRequest>, Bytes<&Req::private_data, 140>>;
  friend bool operator==(const Req&, const Req&) = default;
};

/// Asks for patience: a message has arrived.
struct Mra {
  static constexpr uint16_t kAttribute = 0x0011;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Answered message = Answered::kReq;
  uint8_t service_timeout = 0;
  Private<222> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&Mra::local_comm_id, in_byte(0), 32>,
                              At<&Mra::remote_comm_id, in_byte(4), 32>, At<&Mra::message, in_byte(8), 2>,
                              At<&Mra::service_timeout, in_byte(9), 5>, Bytes<&Mra::private_data, 10>>;
  friend bool operator==(const Mra&, const Mra&) = default;
};

/// Rejects a connection, or ends one that is being made.
struct Rej {
  static constexpr uint16_t kAttribute = 0x0012;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Answered message = Answered::kReq;
  uint8_t info_length = 0;  ///< of `info`, as told: `known_info` is sure to be there
  RejectReason reason = RejectReason::kNone;
  Private<72> info{};  ///< more about the reason, for instance what would be accepted
  Private<148> private_data{};

  /// The part of `info` that its length and its room agree on.
  std::span<const uint8_t> known_info() const {
    return std::span(info).first(std::min<size_t>(info_length, info.size()));
  }

  using Layout = roce::Layout<kMadDataBytes, At<&Rej::local_comm_id, in_byte(0), 32>,
                              At<&Rej::remote_comm_id, in_byte(4), 32>, At<&Rej::message, in_byte(8), 2>,
                              At<&Rej::info_length, in_byte(9), 7>, At<&Rej::reason, in_byte(10), 16>,
                              Bytes<&Rej::info, 12>, Bytes<&Rej::private_data, 84>>;
  friend bool operator==(const Rej&, const Rej&) = default;
};

/// Accepts a connection.
struct Rep {
  static constexpr uint16_t kAttribute = 0x0013;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;
  uint32_t vendor_id = 0;   ///< of ECE, as in Req
  uint32_t local_eecn = 0;  ///< of XRC: the queue pair, where local_qpn is 0
  uint32_t starting_psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover_accepted = 0;
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t local_ca_guid = 0;
  Private<196> private_data{};

  using Layout =
      roce::Layout<kMadDataBytes, At<&Rep::local_comm_id, in_byte(0), 32>,
                   At<&Rep::remote_comm_id, in_byte(4), 32>, At<&Rep::local_qkey, in_byte(8), 32>,
                   At<&Rep::local_qpn, in_byte(12), 24>, At<&Rep::vendor_id, in_byte(15), 8, 16>,
                   At<&Rep::vendor_id, in_byte(19), 8, 8>, At<&Rep::vendor_id, in_byte(23), 8, 0>,
                   At<&Rep::local_eecn, in_byte(16), 24>, At<&Rep::starting_psn, in_byte(20), 24>,
                   At<&Rep::responder_resources, in_byte(24), 8>, At<&Rep::initiator_depth, in_byte(25), 8>,
                   At<&Rep::target_ack_delay, in_byte(26), 5>, At<&Rep::failover_accepted, in_byte(26, 5), 2>,
                   At<&Rep::end_to_end_flow_control, in_byte(26, 7), 1>,
                   At<&Rep::rnr_retry_count, in_byte(27), 3>, At<&Rep::srq, in_byte(27, 3), 1>,
                   At<&Rep::local_ca_guid, in_byte(28), 64>, Bytes<&Rep::private_data, 36>>;
  friend bool operator==(const Rep&, const Rep&) = default;
};

/// The accepted connection is ready to use.
struct Rtu {
  static constexpr uint16_t kAttribute = 0x0014;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Private<224> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&Rtu::local_comm_id, in_byte(0), 32>,
                              At<&Rtu::remote_comm_id, in_byte(4), 32>, Bytes<&Rtu::private_data, 8>>;
  friend bool operator==(const Rtu&, const Rtu&) = default;
};

/// Asks for the end of a connection.
struct Dreq {
  static constexpr uint16_t kAttribute = 0x0015;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t remote_qpn = 0;
  Private<220> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&Dreq::local_comm_id, in_byte(0), 32>,
                              At<&Dreq::remote_comm_id, in_byte(4), 32>,
                              At<&Dreq::remote_qpn, in_byte(8), 24>, Bytes<&Dreq::private_data, 12>>;
  friend bool operator==(const Dreq&, const Dreq&) = default;
};

/// The connection has ended.
struct Drep {
  static constexpr uint16_t kAttribute = 0x0016;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Private<224> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&Drep::local_comm_id, in_byte(0), 32>,
                              At<&Drep::remote_comm_id, in_byte(4), 32>, Bytes<&Drep::private_data, 8>>;
  friend bool operator==(const Drep&, const Drep&) = default;
};

/// Asks for the queue pair behind a service: datagrams need no connection.
struct SidrReq {
  static constexpr uint16_t kAttribute = 0x0017;

  uint32_t request_id = 0;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  Private<216> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&SidrReq::request_id, in_byte(0), 32>,
                              At<&SidrReq::pkey, in_byte(4), 16>, At<&SidrReq::service_id, in_byte(8), 64>,
                              Bytes<&SidrReq::private_data, 16>>;
  friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

/// Answers a SidrReq.
struct SidrRep {
  static constexpr uint16_t kAttribute = 0x0018;

  uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kValid;
  uint8_t info_length = 0;  ///< of `info`, as told: `known_info` is sure to be there
  uint32_t vendor_id = 0;   ///< of ECE, as in Req
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  Private<72> info{};
  Private<136> private_data{};

  /// The part of `info` that its length and its room agree on.
  std::span<const uint8_t> known_info() const {
    return std::span(info).first(std::min<size_t>(info_length, info.size()));
  }

  using Layout = roce::Layout<kMadDataBytes, At<&SidrRep::request_id, in_byte(0), 32>,
                              At<&SidrRep::status, in_byte(4), 8>, At<&SidrRep::info_length, in_byte(5), 8>,
                              At<&SidrRep::vendor_id, in_byte(6), 16, 8>,
                              At<&SidrRep::vendor_id, in_byte(11), 8, 0>, At<&SidrRep::qpn, in_byte(8), 24>,
                              At<&SidrRep::service_id, in_byte(12), 64>, At<&SidrRep::qkey, in_byte(20), 32>,
                              Bytes<&SidrRep::info, 24>, Bytes<&SidrRep::private_data, 96>>;
  friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

/// Loads an alternate path into a connection.
struct Lap {
  static constexpr uint16_t kAttribute = 0x0019;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t remote_qpn = 0;
  uint8_t remote_cm_response_timeout = 0;
  Path alternate;
  Private<168> private_data{};

  using Layout = roce::Layout<kMadDataBytes, At<&Lap::local_comm_id, in_byte(0), 32>,
                              At<&Lap::remote_comm_id, in_byte(4), 32>, At<&Lap::remote_qpn, in_byte(12), 24>,
                              At<&Lap::remote_cm_response_timeout, in_byte(15), 5>,
                              Inner<&Lap::alternate, 20, Path::InLoad>, Bytes<&Lap::private_data, 64>>;
  friend bool operator==(const Lap&, const Lap&) = default;
};

/// Answers a Lap.
struct Apr {
  static constexpr uint16_t kAttribute = 0x001a;

  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t info_length = 0;  ///< of `info`, as told: `known_info` is sure to be there
  AlternatePathStatus status = AlternatePathStatus::kLoaded;
  Private<72> info{};
  Private<148> private_data{};

  /// The part of `info` that its length and its room agree on.
  std::span<const uint8_t> known_info() const {
    return std::span(info).first(std::min<size_t>(info_length, info.size()));
  }

  using Layout =
      roce::Layout<kMadDataBytes, At<&Apr::local_comm_id, in_byte(0), 32>,
                   At<&Apr::remote_comm_id, in_byte(4), 32>, At<&Apr::info_length, in_byte(8), 8>,
                   At<&Apr::status, in_byte(9), 8>, Bytes<&Apr::info, 12>, Bytes<&Apr::private_data, 84>>;
  friend bool operator==(const Apr&, const Apr&) = default;
};

using Body = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

/// A whole MAD of the connection manager.
struct Message {
  MadHeader header;
  Body body;

  /// A header that fits the body: Send, of this transaction.
  static Message of(Body body, uint64_t transaction);
  static Parsed<Message> parse(std::span<const uint8_t> mad);
  /// kMadBytes, or 0: no room for them. The header's attribute is taken from the body.
  size_t emit(std::span<uint8_t> out) const;
  friend bool operator==(const Message&, const Message&) = default;
};

/// "REQ", "SIDR_REP"
const char* name_of(const Body& body);

}  // namespace verbatim::roce::cm
