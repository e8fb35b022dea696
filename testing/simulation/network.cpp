// SPDX-License-Identifier: MIT
#include "testing/simulation/network.h"

#include <algorithm>

namespace verbatim::simulation {

Gid address_of(uint32_t host) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 10;
  gid.bytes[15] = static_cast<uint8_t>(host + 1);
  return gid;
}

roce::Envelope envelope_of(uint32_t from, uint32_t to) {
  roce::Envelope envelope;
  envelope.source = address_of(from);
  envelope.destination = address_of(to);
  envelope.source_port = 0xc000;
  return envelope;
}

void Network::note(Fate fate, uint32_t from, uint32_t to, const std::vector<uint8_t>& datagram) {
  const auto packet = roce::Packet::parse(datagram);
  if (packet) trace_.packet(fate, from, to, packet->headers, packet->payload.size());
}

void Network::send(uint32_t from, uint32_t to, std::vector<uint8_t> datagram) {
  note(Fate::kSent, from, to, datagram);
  if (clock_.now_ns() < parted_[from][to] || random_.per_million(faults.drop)) {
    note(Fate::kDropped, from, to, datagram);
    lost_[from][to]++;
    if (sabotage == Sabotage::kFalseAcknowledge) acknowledge_falsely(from, to, datagram);
    return;
  }
  if (random_.per_million(faults.duplicate)) {
    note(Fate::kDoubled, from, to, datagram);
    doubled_[from][to]++;
    put_on_its_way(from, to, datagram);
  }
  put_on_its_way(from, to, std::move(datagram));
}

void Network::put_on_its_way(uint32_t from, uint32_t to, std::vector<uint8_t> datagram) {
  uint64_t takes_ns = faults.latency_ns;
  if (faults.jitter_ns > 0) takes_ns += random_.next() % faults.jitter_ns;
  if (random_.per_million(faults.delay)) {
    note(Fate::kDelayed, from, to, datagram);
    lost_[from][to]++;
    takes_ns += random_.next() % faults.delay_ns;
  }
  if (random_.per_million(faults.damage)) {
    note(Fate::kDamaged, from, to, datagram);
    lost_[from][to]++;
    const auto bit = random_.below(static_cast<uint32_t>(datagram.size() * 8));
    datagram[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  events_.push_back({clock_.now_ns() + takes_ns, number_++, from, to, random_.per_million(faults.congest),
                     std::move(datagram)});
  std::push_heap(events_.begin(), events_.end());
}

void Network::deliver() {
  while (!events_.empty() && events_.front().at_ns <= clock_.now_ns()) {
    std::pop_heap(events_.begin(), events_.end());
    Event event = std::move(events_.back());
    events_.pop_back();
    uint64_t& newest = newest_[event.from][event.to];
    if (event.number < newest) lost_[event.from][event.to]++;  // a receiver that wants them in order drops it
    newest = std::max(newest, event.number);
    if (stations_[event.to]) stations_[event.to]->arrive(event.from, event.datagram, event.congested);
  }
}

// Tells the sender of a request that it was received, as no responder would.
void Network::acknowledge_falsely(uint32_t from, uint32_t to, const std::vector<uint8_t>& datagram) {
  const auto packet = roce::Packet::parse(datagram);
  if (!packet || !packet->headers.info().request ||
      !partners_.contains({to, packet->headers.bth.destination}) ||
      roce::transport_of(packet->headers.bth.opcode) != roce::Transport::kRc)
    return;
  roce::Headers answer;
  answer.bth.opcode = roce::opcode(roce::Transport::kRc, roce::Operation::kAcknowledge);
  answer.bth.destination = partners_[{to, packet->headers.bth.destination}];
  answer.bth.psn = packet->headers.bth.psn;
  answer.aeth = roce::Aeth::ack(0);
  std::vector<uint8_t> out(64);
  out.resize(roce::PacketWriter(envelope_of(to, from)).write(out, answer, {}));
  note(Fate::kForged, to, from, out);
  put_on_its_way(to, from, std::move(out));
}

}  // namespace verbatim::simulation
