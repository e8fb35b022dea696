// SPDX-License-Identifier: MIT
#include "wire/link/tap/tap.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "wire/format/headers.h"

namespace verbatim::wire::tap {

namespace {

constexpr uint64_t kOvertakenNs = 2'000'000;  ///< how long a packet waits to be overtaken
constexpr uint32_t kOvertakersMax = 3;
constexpr uint64_t kHoldMaxNs = 200'000'000'000;
constexpr size_t kBytesMax = 65536;
constexpr size_t kUncoveredByte = 4;  ///< of the BTH: congestion marks, which the ICRC does not cover

/// Of packet `number` of a rule, beside what says whether it is picked.
uint64_t dice_of(const Rule& rule, uint64_t number) {
  Random random(rule.seed + 0x9e3779b97f4a7c15 * (number + 1) + static_cast<uint64_t>(rule.action));
  random.next();
  return random.next();
}

void apply(const Rule& rule, uint64_t number, Fate& fate) {
  const uint64_t dice = dice_of(rule, number);
  switch (rule.action) {
    case Action::kDrop:
      fate.drop = true;
      break;
    case Action::kDelay:
      fate.hold_ns += std::min(rule.delay_ns, kHoldMaxNs) +
                      (rule.jitter_ns > 0 ? dice % std::min(rule.jitter_ns, kHoldMaxNs) : 0);
      fate.overtakers = 0;
      break;
    case Action::kDuplicate:
      fate.copies = 2;
      break;
    case Action::kReorder:
      if (fate.hold_ns != 0) break;
      fate.hold_ns = kOvertakenNs;
      fate.overtakers = 1 + static_cast<uint32_t>(dice % kOvertakersMax);
      break;
    case Action::kCorrupt:
      fate.corrupt = true;
      fate.dice = dice;
      break;
  }
}

template <class T>
std::vector<uint8_t> copy_of(const T* from, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(static_cast<const void*>(from));
  return {first, first + bytes};
}

}  // namespace

// One bit nearly always does. Where a receiver does not know the IP identification, one in 2^15 damages looks
// like another identification.
void damage(std::span<uint8_t> datagram, const roce::Envelope& envelope, uint64_t dice) {
  if (datagram.size() <= roce::Bth::kBytes) return;
  Random random(dice);
  do {
    const size_t at = random.below(static_cast<uint32_t>(datagram.size()));
    if (at != kUncoveredByte) datagram[at] ^= static_cast<uint8_t>(1u << random.below(8));
  } while (roce::check_icrc(envelope, datagram, false).right);
}

HeldDatagram HeldDatagram::of(int socket, const msghdr& message) {
  const iovec& bytes = message.msg_iov[0];
  return {socket,
          copy_of(message.msg_name, message.msg_namelen),
          copy_of(message.msg_control, message.msg_controllen),
          copy_of(bytes.iov_base, bytes.iov_len),
          {},
          kAnyQpn};
}

void HeldDatagram::send() const {
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_name = const_cast<uint8_t*>(address.data());
  message.msg_namelen = static_cast<socklen_t>(address.size());
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = const_cast<uint8_t*>(control.data());
  message.msg_controllen = control.size();
  (void)!sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);  // what finds no room is lost
}

void Tap::follow(Board& board) {
  std::lock_guard<SpinLock> hold(rules_lock_);
  Source source{&board, board.edition.load(std::memory_order_relaxed) - 1, {}};
  if (!sources_.empty() && sources_[0].board != own_.get())
    sources_[0] = source;
  else
    sources_.insert(sources_.begin(), source);
  active_.follow(board.active);
}

void Tap::add_own(const std::vector<Rule>& rules) {
  if (rules.empty()) return;
  std::lock_guard<SpinLock> hold(rules_lock_);
  own_ = std::make_unique<Board>();
  std::vector<NumberedRule> numbered;
  for (const Rule& rule : rules) numbered.push_back({0, rule});
  write_rules(*own_, numbered);
  sources_.push_back({own_.get(), own_->edition.load(std::memory_order_relaxed) - 1, {}});
  active_.always(own_->active.load(std::memory_order_relaxed));
}

// With the lock held. While they are being written, the ones from before stay.
void Tap::refresh(Source& source) {
  const uint32_t edition = source.board->edition.load(std::memory_order_acquire);
  if (edition == source.edition || edition & 1) return;
  std::vector<Rule> rules;
  for (const NumberedRule& each : read_rules(*source.board)) rules.push_back(each.rule);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (source.board->edition.load(std::memory_order_relaxed) != edition) return;
  source.rules = std::move(rules);
  source.edition = edition;
}

Fate Tap::fate(const PacketFacts& packet) {
  Fate fate;
  std::lock_guard<SpinLock> hold(rules_lock_);
  for (Source& source : sources_) {
    refresh(source);
    for (size_t i = 0; i < source.rules.size(); i++) {
      const Rule& rule = source.rules[i];
      if (!rule.matches(packet)) continue;
      Board::Entry& entry = source.board->rules[i];
      const uint64_t number = entry.matched.fetch_add(1, std::memory_order_relaxed);
      if (!rule.picks(number)) continue;
      if (rule.limit != 0 && entry.picked.load(std::memory_order_relaxed) >= rule.limit) continue;
      entry.picked.fetch_add(1, std::memory_order_relaxed);
      apply(rule, number, fate);
    }
  }
  return fate;
}

void Tap::record_sent(const Travel& travel, std::span<const uint8_t> datagrams, size_t packet_bytes,
                      uint32_t source_qpn, uint64_t time_ns) {
  Travel each = travel;
  const uint32_t device = device_of(source_qpn);
  for (size_t at = 0; at < datagrams.size(); at += packet_bytes) {
    const auto datagram = datagrams.subspan(at, std::min(packet_bytes, datagrams.size() - at));
    recorder_.record(each, datagram, Direction::kOut, source_qpn, device, time_ns);
    each.envelope.identification++;
  }
}

// The receiver of a UDP socket is not shown the IP identification; the ICRC tells it.
void Tap::record_arrived(const Travel& travel, std::span<const uint8_t> datagram) {
  Travel known = travel;
  const roce::IcrcCheck check = roce::check_icrc(travel.envelope, datagram, false);
  if (check.right && travel.envelope.is_ipv4()) {
    known.envelope.identification = check.identification;
    known.envelope.dont_fragment = check.dont_fragment;
  }
  const uint32_t device = device_of(facts_of(datagram, Direction::kIn).dest_qpn);
  recorder_.record(known, datagram, Direction::kIn, kAnyQpn, device, recorder_.now_ns());
}

void Tap::record(const Segment& segment, const Piece* pieces, uint32_t count) {
  recorder_.record(segment, pieces, count, device_of(segment.src_qpn));
}

void Tap::hold(HeldDatagram datagram, const Fate& fate) {
  if (datagram.bytes.size() > kBytesMax) return;
  {
    std::lock_guard<std::mutex> hold(held_lock_);
    held_.add(clock_.now_ns() + fate.hold_ns, fate.overtakers, std::move(datagram));
    next_ns_.store(held_.next_ns(), std::memory_order_relaxed);
  }
  if (call_) call_();
}

void Tap::note_passed(uint32_t count) {
  if (!holds()) return;
  std::lock_guard<std::mutex> hold(held_lock_);
  held_.note_passed(count);
  send_due(clock_.now_ns());
}

void Tap::release() {
  if (!holds()) return;
  std::lock_guard<std::mutex> hold(held_lock_);
  send_due(clock_.now_ns());
}

// With the lock held.
void Tap::send_due(uint64_t now_ns) {
  for (const HeldDatagram& each : held_.take_due(now_ns)) {
    if (captures())
      record_sent(each.travel, each.bytes, each.bytes.size(), each.source_qpn, recorder_.now_ns());
    each.send();
  }
  next_ns_.store(held_.next_ns(), std::memory_order_relaxed);
}

void Tap::forget_held() {
  std::lock_guard<std::mutex> hold(held_lock_);
  held_.clear();
  next_ns_.store(kNever, std::memory_order_relaxed);
}

}  // namespace verbatim::wire::tap
