// SPDX-License-Identifier: MIT
#include "testing/simulation/plan.h"

#include <algorithm>

#include "wire/link/segment.h"

namespace verbatim::simulation {

using engine::Opcode;
using engine::QpType;

namespace {

constexpr uint32_t kMessagesMax = 24;
constexpr uint32_t kFlawOneIn = 300;
constexpr uint32_t kLengthMax = Plan::kSourceBytes / 2;  ///< so that there is a longer one

uint32_t choose_length(uint32_t mtu, Random& random) {
  switch (random.below(8)) {
    case 0:
      return 0;
    case 1:
      return random.between(1, 16);
    case 2:
      return mtu;
    case 3:
      return mtu * random.between(1, 4);
    case 4:
      return random.one_in(8) ? std::min(kLengthMax, mtu * 100 + random.below(mtu)) : random.below(64);
    default:
      return random.below(4 * mtu + 1);
  }
}

Opcode choose_opcode(QpType type, Random& random) {
  if (type == QpType::kUd) return Opcode::kSendImmediate;
  if (type == QpType::kUc) {
    constexpr Opcode kOffered[] = {Opcode::kSendImmediate, Opcode::kSendImmediate, Opcode::kWrite,
                                   Opcode::kWriteImmediate};
    return kOffered[random.below(4)];
  }
  constexpr Opcode kOffered[] = {
      Opcode::kSend,     Opcode::kSend, Opcode::kSendImmediate,  Opcode::kWrite,       Opcode::kWrite,
      Opcode::kRead,     Opcode::kRead, Opcode::kWriteImmediate, Opcode::kCompareSwap, Opcode::kFetchAdd,
      Opcode::kFetchAdd, Opcode::kNop,  Opcode::kKeyUpdate,      Opcode::kAtomicWrite, Opcode::kFlush};
  return kOffered[random.below(std::size(kOffered))];
}

uint32_t place(uint32_t& used, uint32_t length) {
  const uint32_t at = used;
  used += (length + 7) / 8 * 8 + Plan::kGap;
  return at;
}

/// Half of the swaps find what they compare with.
void aim_atomic(const Plan& plan, Message& message, Random& random) {
  message.swap_or_add = random.next();
  const uint64_t value = plan.counter_before(static_cast<uint32_t>(plan.messages.size()));
  message.compare = random.one_in(2) ? value : value + 1;
}

/// A read of what some write before it has written.
void aim_read(Plan& plan, Message& message, Random& random) {
  const auto count = static_cast<uint32_t>(plan.messages.size());
  if (count == 0 || random.one_in(2)) return;
  const uint32_t number = random.below(count);
  if (!plan.messages[number].is_write() || plan.messages[number].flaw != Flaw::kNone) return;
  message.reread = number + 1;
  message.length = plan.messages[number].length;
}

void aim_flush(const Plan& plan, Message& message, Random& random) {
  constexpr uint32_t kPlacements[] = {wire::kFlushVisible, wire::kFlushLasting,
                                      wire::kFlushVisible | wire::kFlushLasting};
  message.placement = kPlacements[random.below(3)] | (random.one_in(3) ? wire::kFlushRegion : 0);
  message.reach = random.below(plan.target_bytes + 1);
}

void spoil(Message& message, Random& random) {
  if (!random.one_in(kFlawOneIn)) return;
  if (message.length > 0 && random.one_in(4))
    message.flaw = Flaw::kWrongLocalKey;
  else if (message.is_atomic() || message.opcode == Opcode::kAtomicWrite)
    message.flaw = random.one_in(2) ? Flaw::kMisaligned : Flaw::kWrongKey;
  else if ((message.is_write() || message.opcode == Opcode::kRead) && message.length > 0)
    message.flaw = Flaw::kWrongKey;
  else if (message.opcode == Opcode::kFlush)
    message.flaw = Flaw::kWrongKey;
  else if (message.is_send())
    message.flaw = Flaw::kTooLong;
}

}  // namespace

uint64_t Plan::counter_before(uint32_t number) const {
  uint64_t value = 0;
  for (uint32_t i = 0; i < number; i++) {
    const Message& message = messages[i];
    if (message.flaw != Flaw::kNone) continue;
    if (message.opcode == Opcode::kFetchAdd) value += message.swap_or_add;
    if (message.opcode == Opcode::kCompareSwap && message.compare == value) value = message.swap_or_add;
  }
  return value;
}

Plan Plan::make(QpType type, uint32_t mtu, Random& random) {
  Plan plan;
  plan.type = type;
  const uint32_t count = random.between(1, kMessagesMax);
  const bool flawed = engine::is_reliable(type);
  plan.shared = type == QpType::kXrcSend || (type == QpType::kRc && random.one_in(4));
  for (uint32_t i = 0; i < count; i++) {
    Message message;
    message.opcode = choose_opcode(type, random);
    message.length = type == QpType::kUd ? random.below(mtu + 1) : choose_length(mtu, random);
    if (message.is_atomic() || message.opcode == Opcode::kAtomicWrite) message.length = 8;
    if (message.opcode == Opcode::kNop || message.opcode == Opcode::kKeyUpdate ||
        message.opcode == Opcode::kFlush)
      message.length = 0;
    if (message.opcode == Opcode::kFlush) aim_flush(plan, message, random);
    if (message.opcode == Opcode::kRead) aim_read(plan, message, random);
    if (message.is_atomic()) aim_atomic(plan, message, random);
    if (flawed) spoil(message, random);
    message.source = random.below(kSourceBytes - message.length + 1);
    message.immediate = i;
    message.pieces = random.between(1, 3);
    message.signaled = random.one_in(2);
    message.fence = random.one_in(6);
    message.solicited = random.one_in(2);
    if (message.is_write()) message.target = place(plan.target_bytes, message.length);
    if (message.is_atomic() || message.opcode == Opcode::kRead)
      message.landing = place(plan.landing_bytes, message.length);
    if (message.is_two_sided()) plan.receives++;
    if (message.is_send() && message.flaw == Flaw::kNone)
      plan.receive_bytes = std::max(plan.receive_bytes, message.length);
    plan.messages.push_back(message);
  }
  for (Message& message : plan.messages)
    if (message.flaw == Flaw::kTooLong)
      message.length = std::min(plan.receive_bytes + 1 + random.below(mtu), kSourceBytes);
  for (Message& message : plan.messages)
    message.source = std::min(message.source, kSourceBytes - message.length);
  return plan;
}

}  // namespace verbatim::simulation
