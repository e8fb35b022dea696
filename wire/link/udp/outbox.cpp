// SPDX-License-Identifier: MIT
#include "wire/link/udp/outbox.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/format/crc32.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::wire::udp {

namespace {

constexpr int kUdpSegment = 103;         // linux/udp.h clashes with netinet/udp.h
constexpr size_t kRunBytesMax = 65000;   // an IP packet has 65535
constexpr uint32_t kRunPacketsMax = 64;  // UDP_MAX_SEGMENTS
constexpr uint32_t kAlongBytesMin =
    4;                      ///< of payload, for the packet to be no shorter than an acknowledgement
constexpr int kRoomMs = 2;  // how long what follows something that has gone waits for room
constexpr size_t kWaitingBytesMax = 32 << 10;  // that wait for the end of a burst

template <class T>
uint8_t* put_control(uint8_t* at, int level, int type, const T& value) {
  auto* header = reinterpret_cast<cmsghdr*>(at);
  header->cmsg_len = CMSG_LEN(sizeof value);
  header->cmsg_level = level;
  header->cmsg_type = type;
  std::memcpy(CMSG_DATA(header), &value, sizeof value);
  return at + CMSG_SPACE(sizeof value);
}

}  // namespace

Outbox& Outbox::mine() {
  thread_local std::unique_ptr<Outbox> kept;
  if (!kept) kept = std::make_unique<Outbox>();
  return *kept;
}

// Addresses and control messages stay the same for a while.
void Outbox::take(const Way& way) {
  if (way_ == way) return;
  way_ = way;
  writer_.emplace(way.envelope());
  sockaddr_in6 to = address_of(way.destination, roce::kRocePort, way.scope);
  const bool ipv4 = way.destination.is_ipv4_mapped();
  if (!ipv4) to.sin6_flowinfo = htonl(way.flow_label & 0xfffff);
  std::memcpy(&to_, &to, sizeof to);
  in6_pktinfo from{};
  from.ipi6_addr = address_of(way.source, 0, 0).sin6_addr;
  uint8_t* at = put_control(control_.data(), IPPROTO_IPV6, IPV6_PKTINFO, from);
  const int traffic_class = way.traffic_class, hop_limit = way.hop_limit;
  if (traffic_class != 0)
    at = ipv4 ? put_control(at, IPPROTO_IP, IP_TOS, traffic_class)
              : put_control(at, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
  if (hop_limit != 0)
    at = ipv4 ? put_control(at, IPPROTO_IP, IP_TTL, hop_limit)
              : put_control(at, IPPROTO_IPV6, IPV6_HOPLIMIT, hop_limit);
  control_bytes_ = static_cast<size_t>(at - control_.data());
}

bool Outbox::gather(const Piece*& piece, size_t& offset, uint8_t* to, size_t bytes, uint32_t& icrc_state) {
  while (bytes > 0) {
    const size_t chunk = std::min(piece->length - offset, bytes);
    const char* from = static_cast<const char*>(piece->base) + offset;
    if (chunk > 0 && !roce::crc32_copy(icrc_state, to, from, chunk)) return false;
    to += chunk;
    bytes -= chunk;
    offset += chunk;
    if (offset == piece->length) piece++, offset = 0;
  }
  return true;
}

// Finds the run for a packet of that size; returns its number there, which is its IP identification.
uint16_t Outbox::place(size_t packet_bytes, bool segments) {
  if (runs_ > 0) {
    Run& run = run_[runs_ - 1];
    if (segments && !run.ended && packet_bytes <= run.packet_bytes && run.packets < kRunPacketsMax &&
        run.bytes + packet_bytes <= kRunBytesMax) {
      run.ended = packet_bytes < run.packet_bytes;
      run.bytes += packet_bytes;
      return static_cast<uint16_t>(run.packets++);
    }
  }
  run_[runs_++] = {filled_, packet_bytes, packet_bytes, 1, false};
  return 0;
}

// The packets of a segment, from the one on that `packets` stands before. False: the memory is not there.
bool Outbox::lay_out(PacketsOf& packets, const Piece* pieces, bool segments, bool may_wait, bool& refused) {
  const uint32_t runs_most = injects_ ? kRunsMax / 2 : kRunsMax;  // packets may be doubled
  size_t offset = 0;
  bool begun = runs_ > 0;  // what is before or has gone already cannot be refused for want of room any more
  while (packets.next()) {
    const roce::Headers& headers = packets.headers();
    const size_t header_bytes = roce::bytes_of(headers), payload = packets.bytes() + packets.filler_bytes();
    const size_t packet_bytes = header_bytes + (payload + 3) / 4 * 4 + roce::kIcrcBytes;
    if (runs_ == runs_most || filled_ + packet_bytes > bytes_.size()) {
      if (!flush(!begun)) return refused = true;
      begun = true;
    }
    uint8_t* at = bytes_.data() + filled_;
    const uint16_t number = place(packet_bytes, segments);
    roce::PacketWriter::Gathered packet = writer_->begin({at, packet_bytes}, headers, payload, number);
    at += header_bytes;
    if (packets.filler_bytes() > 0)
      packet.add({static_cast<uint8_t*>(std::memset(at, 0, payload)), payload});
    else if (!gather(pieces, offset, at, payload, packet.icrc_state))
      return false;
    uint8_t tail[roce::kTailBytesMax];
    std::memcpy(at + payload, tail, packet.finish(tail));
    filled_ += packet_bytes;
  }
  if (kept_) lay_out_kept();
  if (may_wait && has_room() && Burst::hold(*this)) return true;
  refused = !flush(!begun);
  return true;
}

// For more of the same burst.
bool Outbox::has_room() const {
  return filled_ < kWaitingBytesMax && run_[runs_ - 1].packets < kRunPacketsMax;
}

// An acknowledgement goes before what the program answers, but as the last of its run, of which the receiver
// takes it first: so both are one packet for the kernel. True: it waits for the answer. One that has waited
// goes now, if what comes is nothing to go along with.
bool Outbox::keep(const Segment& segment, PacketsOf& packets, bool segments, bool may_wait) {
  const bool may = segments && may_wait;
  if (kept_) {
    const bool along = may && packets.count() == 1 && segment.length >= kAlongBytesMin;
    if (!along) lay_out_kept();
    return false;
  }
  const bool bare = segment.operation == Operation::kAck && segment.transport == Transport::kRc;
  if (!may || !bare || runs_ > 0 || !Burst::hold(*this) || !packets.next()) return false;
  kept_ = packets.headers();
  return true;
}

void Outbox::lay_out_kept() {
  const size_t bytes = roce::bytes_of(*kept_) + roce::kIcrcBytes;
  const uint16_t number = place(bytes, true);
  (void)writer_->seal({bytes_.data() + filled_, bytes}, *kept_, 0, number);
  filled_ += bytes;
  kept_.reset();
}

SendResult Outbox::send(Sender* sender, const Way& way, const Segment& segment, const Piece* pieces,
                        bool segments, bool may_wait) {
  PacketsOf packets(segment);
  if (packets.obstacle()) return SendResult::kUnreachable;
  if (sender_ != sender || way_ != way) send_held();
  sender_ = sender;
  take(way);
  const bool injects = way.tap && way.tap->injects_out(), captures = way.tap && way.tap->captures();
  if (injects || injects_ != injects || captures_ != captures) send_held();
  injects_ = injects;
  captures_ = captures;
  segments &= !injects;
  may_wait &= !injects && !captures;  // a run is one queue pair's then
  source_qpn_ = segment.src_qpn;
  if (keep(segment, packets, segments, may_wait)) return SendResult::kAccepted;
  const uint64_t flushes = flushes_;
  const size_t filled = filled_;
  const uint32_t runs = runs_;
  const Run last = runs > 0 ? run_[runs - 1] : Run{};
  bool refused = false;
  if (lay_out(packets, pieces, segments, may_wait, refused))
    return refused ? SendResult::kBusy : SendResult::kAccepted;
  // Of this segment nothing more goes; what was there before stays, if it has not gone meanwhile.
  filled_ = flushes == flushes_ ? filled : 0;
  runs_ = flushes == flushes_ ? runs : 0;
  if (runs_ > 0) run_[runs_ - 1] = last;
  return SendResult::kSourceFault;
}

void Outbox::fill(uint32_t index) {
  const Run& run = run_[index];
  vectors_[index] = {bytes_.data() + run.begin, run.bytes};
  msghdr& message = messages_[index].msg_hdr;
  message = {};
  message.msg_name = &to_;
  message.msg_namelen = sizeof(sockaddr_in6);
  message.msg_iov = &vectors_[index];
  message.msg_iovlen = 1;
  uint8_t* control = controls_[index].bytes;
  std::memcpy(control, control_.data(), control_bytes_);
  uint8_t* end = control + control_bytes_;
  if (run.packets > 1)
    end = put_control(end, IPPROTO_UDP, kUdpSegment, static_cast<uint16_t>(run.packet_bytes));
  message.msg_control = control;
  message.msg_controllen = static_cast<size_t>(end - control);
}

// Packets, each a run of its own, meet the rules: what they leave is sent.
void Outbox::inject() {
  const std::array<Run, kRunsMax> packets = run_;
  const uint32_t count = runs_;
  runs_ = 0;
  for (uint32_t i = 0; i < count; i++) {
    const std::span<uint8_t> datagram(bytes_.data() + packets[i].begin, packets[i].bytes);
    tap::PacketFacts facts = tap::facts_of(datagram, tap::Direction::kOut);
    facts.source_qpn = source_qpn_;
    const tap::Fate fate = way_->tap->fate(facts);
    if (fate.drop) continue;
    if (fate.corrupt) tap::damage(datagram, way_->envelope(), fate.dice);
    for (uint32_t copy = 0; copy < fate.copies; copy++) {
      run_[runs_] = packets[i];
      fill(runs_);
      if (fate.hold_ns == 0) {
        runs_++;
        continue;
      }
      tap::HeldDatagram held = tap::HeldDatagram::of(way_->socket, messages_[runs_].msg_hdr);
      held.travel = way_->travel();
      held.source_qpn = source_qpn_;
      way_->tap->hold(std::move(held), fate);
    }
  }
}

// What has gone, with the time before that: an answer must not seem to be older.
void Outbox::record(uint32_t first, uint32_t count, uint64_t time_ns) const {
  for (uint32_t i = first; i < first + count; i++)
    way_->tap->record_sent(way_->travel(), {bytes_.data() + run_[i].begin, run_[i].bytes},
                           run_[i].packet_bytes, source_qpn_, time_ns);
}

// False: there is no room for anything of it, and nothing of it has gone.
bool Outbox::flush(bool may_refuse) {
  Sent sent;
  if (kept_) lay_out_kept();
  hand_over(may_refuse, sent);
  filled_ = runs_ = 0;
  flushes_++;
  if (sender_) sender_->on_sent(sent);
  return !sent.busy;
}

// What the kernel refuses is lost, as it may be on any way; but if it has no room for the first already,
// nothing is.
void Outbox::hand_over(bool may_refuse, Sent& sent) {
  if (injects_) [[unlikely]]
    inject();
  else
    for (uint32_t i = 0; i < runs_; i++) fill(i);
  const uint64_t time_ns = captures_ ? way_->tap->recorder().now_ns() : 0;
  for (uint32_t done = 0; done < runs_;) {
    const int count = sendmmsg(way_->socket, messages_.data() + done, runs_ - done, 0);
    if (count > 0) {
      if (captures_) [[unlikely]]
        record(done, static_cast<uint32_t>(count), time_ns);
      done += static_cast<uint32_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      sent.busy = may_refuse && done == 0;
      pollfd room{way_->socket, POLLOUT, 0};
      if (!sent.busy && poll(&room, 1, kRoomMs) > 0) continue;
      return;
    }
    sent.error = errno;
    sent.no_segments |= run_[done].packets > 1 && (errno == EIO || errno == EINVAL);
    done++;
  }
  if (injects_ && runs_ > 0) [[unlikely]]
    way_->tap->note_passed(runs_);
}

}  // namespace verbatim::wire::udp
