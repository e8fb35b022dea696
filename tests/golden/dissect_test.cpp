// SPDX-License-Identifier: MIT
// Another reader of what is written here: tshark, where it is installed, finds nothing malformed, and the
// same values in the same fields.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "testing/hex.h"
#include "wire/format/cm.h"
#include "wire/format/cm_service.h"
#include "wire/format/datagram.h"
#include "wire/format/packet.h"

namespace verbatim::roce {
namespace {

using Values = std::map<std::string, uint64_t>;  // by tshark's names of fields

/// A packet, and what there is to find in it.
struct Written {
  std::string what;
  std::vector<uint8_t> bytes;
  Values values;
};

Envelope some_envelope(bool ipv4) {
  Envelope envelope;
  const auto source = verbatim::testing::from_hex(ipv4 ? "00000000 00000000 0000ffff 0a000001"
                                                       : "fd770000 00000000 00000000 00000001");
  std::copy(source.begin(), source.end(), envelope.source.bytes.begin());
  envelope.destination = envelope.source;
  envelope.destination.bytes[15] = 2;
  envelope.source_port = 0xc001;
  return envelope;
}

Values values_of(const Headers& headers) {
  const Bth& bth = headers.bth;
  Values values{{"infiniband.bth.opcode", static_cast<uint64_t>(bth.opcode)},
                {"infiniband.bth.se", bth.solicited},
                {"infiniband.bth.m", bth.migrated},
                {"infiniband.bth.p_key", bth.pkey},
                {"infiniband.bth.destqp", bth.destination},
                {"infiniband.bth.a", bth.ack_request},
                {"infiniband.bth.psn", bth.psn}};
  const auto add = [&](const char* name, uint64_t value) {
    values["infiniband." + std::string(name)] = value;
  };
  if (headers.has(kDeth)) add("deth.q_key", headers.deth.qkey), add("deth.srcqp", headers.deth.source);
  if (headers.has(kReth) || headers.has(kAtomicEth)) {
    add("reth.va", headers.has(kReth) ? headers.reth.address : headers.atomic.address);
    add("reth.r_key", headers.has(kReth) ? headers.reth.rkey : headers.atomic.rkey);
  }
  if (headers.has(kReth)) add("reth.dmalen", headers.reth.length);
  if (headers.has(kAtomicEth))
    add("atomiceth.swapdt", headers.atomic.swap_or_add), add("atomiceth.cmpdt", headers.atomic.compare);
  if (headers.has(kAeth)) add("aeth.msn", headers.aeth.msn);
  if (headers.has(kAeth)) add("aeth.syndrome.opcode", static_cast<uint64_t>(headers.aeth.kind));
  if (headers.has(kAtomicAckEth)) add("atomicacketh.origremdt", headers.atomic_ack.original);
  return values;
}

Written written(const std::string& what, const Headers& headers, std::span<const uint8_t> payload,
                bool ipv4) {
  Datagram datagram;
  datagram.envelope = some_envelope(ipv4);
  std::vector<uint8_t> packet(datagram.header_bytes() + kPacketBytesMax);
  const auto room = std::span(packet).subspan(datagram.header_bytes());
  datagram.payload = room.first(PacketWriter(datagram.envelope).write(room, headers, payload));
  datagram.emit_headers(packet);
  packet.resize(datagram.header_bytes() + datagram.payload.size());
  Values values = values_of(headers);
  values["infiniband.bth.padcnt"] = -payload.size() & 3;
  values["infiniband.invariant.crc"] = load_word(packet.data() + packet.size() - kIcrcBytes);
  return {what, packet, values};
}

Headers some_headers(Opcode code) {
  Headers headers;
  headers.bth = {code, true, false, 0, 0, 0x8001, false, false, 0x123456, true, 0xabcdef};
  headers.deth = {0x11111111, 0x445566};
  headers.reth = {0x0102030405060708, 0x22222222, 0x100};
  headers.atomic = {0x1112131415161718, 0x44444444, 0x2122232425262728, 0x3132333435363738};
  headers.aeth = Aeth::ack(0x778899, 5);
  headers.atomic_ack = {0x4142434445464748};
  return headers;
}

/// Of every opcode that tshark 4.0 knows: not XRC, nor flush and atomic write.
std::vector<Written> transport_packets() {
  std::vector<Written> packets;
  const std::vector<uint8_t> payload(256, 0x5a);
  for (int byte = 0; byte < 0x80; byte++) {
    const auto code = static_cast<Opcode>(byte);
    const OpcodeInfo& info = info_of(code);
    if (!info.known || info.payload == PayloadRule::kEight || info.headers & kFeth) continue;
    const size_t bytes = info.payload == PayloadRule::kNone       ? 0
                         : info.payload == PayloadRule::kUnpadded ? 256
                                                                  : 5;
    packets.push_back(
        written(name_of(code), some_headers(code), std::span(payload).first(bytes), byte % 2 == 0));
  }
  return packets;
}

Written message_packet(cm::Body body, Values values) {
  Headers headers;
  headers.bth.opcode = opcode(Transport::kUd, Operation::kSendOnly);
  headers.bth.destination = kGeneralServicesQpn;
  headers.deth = {kGeneralServicesQkey, kGeneralServicesQpn};
  std::vector<uint8_t> mad(kMadBytes);
  const auto message = cm::Message::of(std::move(body), 0x1122334455667788);
  message.emit(mad);
  Written packet = written(cm::name_of(message.body), headers, mad, true);
  packet.values.insert(values.begin(), values.end());
  packet.values["infiniband.mad.transactionid"] = message.header.transaction;
  packet.values["infiniband.mad.attributeid"] = message.header.attribute;
  return packet;
}

// Without flow label and packet rate of the path, which tshark 4.0 reads from the bytes before.
Written req_packet() {
  cm::Req req;
  req.local_comm_id = 0x01020304;
  req.service_id = cm::service_id(cm::PortSpace::kTcp, 7174);
  req.local_ca_guid = 0x1122334455667788;
  req.local_qpn = 0x123456;
  req.responder_resources = 16;
  req.initiator_depth = 8;
  req.remote_cm_response_timeout = 20;
  req.starting_psn = 0xabcdef;
  req.local_cm_response_timeout = 21;
  req.retry_count = 7;
  req.path_mtu = 3;
  req.rnr_retry_count = 6;
  req.max_cm_retries = 15;
  req.srq = true;
  req.primary = {0xffff,
                 0xffff,
                 some_envelope(true).source,
                 some_envelope(true).destination,
                 0xabcde,
                 0x2a,
                 0x6a,
                 64,
                 5,
                 true,
                 19,
                 false};
  const cm::ServiceHeader service{false, 0xc001, req.primary.local_gid, req.primary.remote_gid};
  service.emit(req.private_data);
  const std::string at = "infiniband.cm.req.";
  return message_packet(req, {{at + "serviceid.dport", 7174},
                              {at + "localcaguid", req.local_ca_guid},
                              {at + "localqpn", req.local_qpn},
                              {at + "responderres", req.responder_resources},
                              {at + "initdepth", req.initiator_depth},
                              {at + "remoteresptout", req.remote_cm_response_timeout},
                              {at + "startpsn", req.starting_psn},
                              {at + "localresptout", req.local_cm_response_timeout},
                              {at + "retrcount", req.retry_count},
                              {at + "pppmtu", req.path_mtu},
                              {at + "rnrretrcount", req.rnr_retry_count},
                              {at + "maxcmretr", req.max_cm_retries},
                              {at + "srq", req.srq},
                              {at + "prim_tfcclass", req.primary.traffic_class},
                              {at + "prim_hoplim", req.primary.hop_limit},
                              {at + "prim_sl", req.primary.service_level},
                              {at + "prim_subnetlocal", req.primary.subnet_local},
                              {at + "prim_localacktout", req.primary.local_ack_timeout},
                              {at + "ip_cm.ipv", 4},
                              {at + "ip_cm.sport", 0xc001}});
}

Written rep_packet() {
  cm::Rep rep;
  rep.local_comm_id = 5, rep.remote_comm_id = 0x01020304;
  rep.local_qpn = 0x654321, rep.starting_psn = 0x123456;
  rep.responder_resources = 4, rep.initiator_depth = 3, rep.target_ack_delay = 15, rep.failover_accepted = 1;
  rep.rnr_retry_count = 7, rep.srq = true, rep.local_ca_guid = 0x99;
  const std::string at = "infiniband.cm.rep.";
  return message_packet(rep, {{at + "remotecommid", rep.remote_comm_id},
                              {at + "localqpn", rep.local_qpn},
                              {at + "startpsn", rep.starting_psn},
                              {at + "respres", rep.responder_resources},
                              {at + "initdepth", rep.initiator_depth},
                              {at + "tgtackdelay", rep.target_ack_delay},
                              {at + "failoveracc", rep.failover_accepted},
                              {at + "rnrretrcount", rep.rnr_retry_count},
                              {at + "srq", rep.srq},
                              {at + "localcaguid", rep.local_ca_guid}});
}

std::vector<Written> message_packets() {
  std::vector<Written> packets{req_packet(), rep_packet()};
  for (const cm::Body& body :
       {cm::Body(cm::Mra{}), cm::Body(cm::Rtu{1, 2, {}}), cm::Body(cm::Dreq{1, 2, 3, {}}),
        cm::Body(cm::Drep{1, 2, {}}), cm::Body(cm::SidrReq{}), cm::Body(cm::SidrRep{}), cm::Body(cm::Lap{}),
        cm::Body(cm::Apr{})})
    packets.push_back(message_packet(body, {}));
  cm::Rej rej;
  rej.reason = cm::RejectReason::kByConsumer;
  packets.push_back(message_packet(rej, {}));
  return packets;
}

/// A capture of IP packets without a link layer.
void write_capture(const std::string& path, const std::vector<Written>& packets) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  const uint32_t head[] = {0xa1b2c3d4, 4u << 16 | 2, 0, 0, 65535, 101};
  std::fwrite(head, sizeof head, 1, file);
  for (const Written& packet : packets) {
    const auto size = static_cast<uint32_t>(packet.bytes.size());
    const uint32_t record[] = {0, 0, size, size};
    std::fwrite(record, sizeof record, 1, file);
    std::fwrite(packet.bytes.data(), size, 1, file);
  }
  std::fclose(file);
}

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  char chunk[4096];
  for (size_t count; (count = std::fread(chunk, 1, sizeof chunk, pipe)) != 0;) out.append(chunk, count);
  pclose(pipe);
  return out;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

/// Decimal, 0x..., True and False.
uint64_t number_in(const std::string& text) {
  if (text == "True") return 1;
  return std::strtoull(text.c_str(), nullptr, 0);
}

void expect_dissected(const std::vector<Written>& packets) {
  if (output_of("tshark -v").empty()) GTEST_SKIP() << "tshark is not installed";
  const std::string path = ::testing::TempDir() + "/dissect-" + std::to_string(getpid()) + ".pcap";
  write_capture(path, packets);
  std::map<std::string, int> fields;
  for (const Written& packet : packets)
    for (const auto& [field, value] : packet.values) fields[field] = 0;
  std::string command =
      "tshark -n --disable-protocol rpcordma -r " + path + " -T fields -E separator=';' -e _ws.malformed";
  int count = 0;
  for (auto& [field, column] : fields) {
    command += " -e " + field;
    column = ++count;
  }
  const auto lines = split(output_of(command), '\n');
  std::filesystem::remove(path);
  ASSERT_EQ(lines.size(), packets.size());
  for (size_t i = 0; i < packets.size(); i++) {
    SCOPED_TRACE(packets[i].what);
    auto columns = split(lines[i] + ";", ';');
    columns.resize(fields.size() + 1);
    EXPECT_EQ(columns[0], "");
    for (const auto& [field, value] : packets[i].values) {
      const std::string& found = columns[static_cast<size_t>(fields[field])];
      EXPECT_FALSE(found.empty()) << field;
      EXPECT_EQ(number_in(found), value) << field << " is " << found;
    }
  }
}

TEST(Dissected, PacketsOfEveryOpcode) { expect_dissected(transport_packets()); }

TEST(Dissected, MessagesOfEveryKind) { expect_dissected(message_packets()); }

}  // namespace
}  // namespace verbatim::roce
