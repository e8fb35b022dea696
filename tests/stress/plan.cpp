// SPDX-License-Identifier: MIT
#include "tests/stress/plan.h"

#include <algorithm>
#include <cstring>

namespace verbatim::stress {

namespace {

constexpr int kCanary = 0xc5;
constexpr uint32_t kSpareMax = 100;
/// What a slot holds besides the message: gaps in front of and behind every element, and spare room.
constexpr size_t kSlack = (kElementsMax + 1) * (kGapMax + 1) + 2 * kSpareMax;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t word_of(uint64_t seed, uint64_t index) { return (seed + index) * 0xd6e8feb86659fd93 ^ seed >> 17; }

size_t canary_bytes(uint32_t length) { return std::min(kSlotBytes, length + kSlack); }

}  // namespace

uint64_t Plan::random() {
  state_ += 0x9e3779b97f4a7c15;
  return mix(state_);
}

uint32_t Plan::random_length() {
  if (below(16) == 0) return 0;
  // Any number of bits is as likely as any other; most are kept small, or there would be few operations.
  const uint32_t magnitude = below(4) == 0 ? below(25) : below(17);
  const uint32_t base = 1u << magnitude;
  return std::min(kLengthMax, base + below(base));
}

// Into up to kElementsMax elements with gaps, none of them empty.
std::vector<Part> Plan::split(uint32_t length, bool spare) {
  std::vector<Part> parts;
  if (length == 0 && !spare) return parts;
  const uint32_t total = length + (spare ? 1 + below(kSpareMax) : 0);
  uint32_t count = 1 + below(kElementsMax), offset = 1 + below(kGapMax), left = total;
  for (; left > 0; count--) {
    const uint32_t take = count <= 1 ? left : 1 + below(left);
    parts.push_back({offset, take});
    offset += take + below(kGapMax + 1);
    left -= take;
  }
  return parts;
}

Step Plan::step(uint32_t position, const std::vector<Step>& before) {
  Step made;
  made.kind = static_cast<Kind>(below(kKinds));
  made.slot = position;
  made.length = random_length();
  made.remote_skew = 1 + below(kGapMax);
  made.pattern = random();
  made.immediate = static_cast<uint32_t>(random());
  made.operand = random();
  made.matches = below(2) == 0;
  made.signaled = below(3) == 0;
  made.fence = below(8) == 0;
  if (made.kind == Kind::kReadBack || made.kind == Kind::kOverwrite) {
    const auto written = std::find_if(before.rbegin(), before.rend(), [](const Step& s) {
      return s.kind == Kind::kWrite || s.kind == Kind::kWriteImmediate || s.kind == Kind::kOverwrite;
    });
    if (written == before.rend()) {
      made.kind = Kind::kWrite;
    } else {
      made.slot = written->slot;
      made.length = written->length;
      made.remote_skew = written->remote_skew;
      if (made.kind == Kind::kReadBack) made.pattern = written->pattern;
      // A read that came before may still be under way without a fence (IBA table 79).
      if (made.kind == Kind::kOverwrite) made.fence = true;
    }
  }
  const bool atomic = made.kind == Kind::kFetchAdd || made.kind == Kind::kCompareSwap;
  if (atomic) made.length = 8;
  made.local = atomic ? std::vector<Part>{{8, 8}} : split(made.length, false);
  const bool send = made.kind == Kind::kSend || made.kind == Kind::kSendImmediate;
  made.posted = split(send ? made.length : 0, true);
  const bool outgoing = !atomic && made.kind != Kind::kRead && made.kind != Kind::kReadBack;
  made.inline_data = outgoing && made.length <= inline_bytes_ && below(2) == 0;
  return made;
}

Batch Plan::next() {
  Batch batch;
  const uint32_t count = 1 + below(kBatchMax);
  for (uint32_t i = 0; i < count; i++) {
    batch.steps.push_back(step(i, batch.steps));
    batch.bytes += batch.steps.back().length;
  }
  batch.late_receives = below(8) == 0;
  return batch;
}

void fill_pattern(uint64_t seed, uint64_t at, std::byte* to, size_t bytes) {
  while (bytes > 0) {
    const uint64_t word = word_of(seed, at / 8);
    const size_t from = at % 8, take = std::min<size_t>(8 - from, bytes);
    std::memcpy(to, reinterpret_cast<const char*>(&word) + from, take);
    to += take, at += take, bytes -= take;
  }
}

size_t check_pattern(uint64_t seed, uint64_t at, const std::byte* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const uint64_t word = word_of(seed, (at + done) / 8);
    const size_t skip = (at + done) % 8, take = std::min<size_t>(8 - skip, bytes - done);
    const auto* expected = reinterpret_cast<const std::byte*>(&word) + skip;
    if (std::memcmp(from + done, expected, take) != 0)
      return done +
             static_cast<size_t>(std::mismatch(expected, expected + take, from + done).first - expected);
    done += take;
  }
  return bytes;
}

void lay_canary(std::byte* slot, uint32_t length) { std::memset(slot, kCanary, canary_bytes(length)); }

int64_t find_trespass(const std::byte* slot, uint32_t length, const std::vector<Part>& parts) {
  size_t at = 0;
  const auto intact = [&](size_t end) {
    while (at < end && slot[at] == std::byte{kCanary}) at++;
    return at >= end;
  };
  for (const Part& part : parts) {
    if (!intact(part.offset)) return static_cast<int64_t>(at);
    at = part.offset + part.length;
  }
  return intact(canary_bytes(length)) ? -1 : static_cast<int64_t>(at);
}

}  // namespace verbatim::stress
