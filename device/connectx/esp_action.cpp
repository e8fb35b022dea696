// SPDX-License-Identifier: MIT
#include "device/connectx/esp_action.h"

#include <cerrno>
#include <cstring>

#include "engine/frame_checksums.h"

namespace verbatim::connectx {

namespace {

constexpr uint32_t kHeadBytes = 8, kVectorBytes = 8, kTrailerBytes = 2, kPadTo = 4;
constexpr uint8_t kIpv4 = 4, kIpv6 = 41, kNothing = 59;
constexpr uint32_t kIpv6Bytes = 40;

void put32(uint8_t* at, uint32_t value) {
  for (int i = 3; i >= 0; i--, value >>= 8) at[i] = static_cast<uint8_t>(value);
}

/// The IP packet has another length now.
void resize(uint8_t* frame, const engine::ParsedFrame& parsed, uint32_t end) {
  uint8_t* ip = frame + parsed.network_at;
  const bool ipv6 = parsed.headers.network == 6;
  const uint32_t bytes = end - parsed.network_at - (ipv6 ? kIpv6Bytes : 0);
  uint8_t* at = ip + (ipv6 ? 4 : 2);
  at[0] = static_cast<uint8_t>(bytes >> 8);
  at[1] = static_cast<uint8_t>(bytes);
  engine::write_checksums(frame, end, engine::kNetworkChecksum);
}

/// Of what is encrypted nothing is known but how it begins.
uint8_t next_header(const uint8_t* payload, uint32_t bytes) {
  const int version = bytes > 0 ? payload[0] >> 4 : 0;
  return version == 4 ? kIpv4 : version == 6 ? kIpv6 : kNothing;
}

}  // namespace

/// Where a packet's parts lie.
struct EspAction::Place {
  engine::ParsedFrame parsed;
  uint32_t esp = 0;      ///< the ESP header, behind it the initialization vector
  uint32_t payload = 0;  ///< behind both
};

EspAction::EspAction(const hw::EspSpec& spec)
    : encrypts_(spec.encrypts),
      extended_(spec.extended),
      cipher_(spec.key),
      salt_(spec.salt),
      sequence_high_(spec.sequence_high),
      new_window_(spec.new_window) {}

Outcome EspAction::change(uint32_t sequence_high, bool new_window) {
  if (!extended_) return Error{EINVAL, "the action was made without extended sequence numbers"};
  const std::lock_guard hold(lock_);
  sequence_high_ = sequence_high;
  new_window_ = new_window;
  return Done{};
}

bool EspAction::find(uint8_t* frame, uint32_t length, Place& place) const {
  place.parsed = engine::parse_frame(frame, length);
  place.esp = place.parsed.behind_network;
  place.payload = place.esp + kHeadBytes + kVectorBytes;
  return place.parsed.headers.is_esp != 0 && place.payload <= place.parsed.end;
}

uint32_t EspAction::apply(uint8_t* frame, uint32_t length, uint32_t room) {
  Place place;
  if (!find(frame, length, place)) return 0;
  return encrypts_ ? seal(frame, place, room) : open(frame, place);
}

// While the window reaches into the next 2^32 numbers, low ones are of those.
uint32_t EspAction::sequence_high(const uint8_t* esp) const {
  const std::lock_guard hold(lock_);
  return sequence_high_ + (new_window_ && (esp[4] & 0x80) == 0 ? 1 : 0);
}

size_t EspAction::beside(const uint8_t* esp, uint8_t (&bytes)[12]) const {
  std::memcpy(bytes, esp, 4);
  if (!extended_) {
    std::memcpy(bytes + 4, esp + 4, 4);
    return 8;
  }
  put32(bytes + 4, sequence_high(esp));
  std::memcpy(bytes + 8, esp + 4, 4);
  return 12;
}

engine::AesGcm::Nonce EspAction::nonce_of(const uint8_t* vector) const {
  engine::AesGcm::Nonce nonce;
  std::memcpy(nonce.data(), salt_.data(), salt_.size());
  std::memcpy(nonce.data() + salt_.size(), vector, kVectorBytes);
  return nonce;
}

// The vector follows the sequence number, so that it never comes twice either.
uint32_t EspAction::seal(uint8_t* frame, Place& place, uint32_t room) const {
  uint8_t* esp = frame + place.esp;
  uint8_t* text = frame + place.payload;
  const uint32_t plain = place.parsed.end - place.payload;
  const uint32_t padded = (plain + kTrailerBytes + kPadTo - 1) / kPadTo * kPadTo;
  const uint32_t end = place.payload + padded + static_cast<uint32_t>(engine::AesGcm::kTag);
  if (end > room) return 0;
  put32(esp + kHeadBytes, extended_ ? sequence_high(esp) : 0);
  std::memcpy(esp + kHeadBytes + 4, esp + 4, 4);
  const uint8_t next = next_header(text, plain);
  const uint32_t pad = padded - kTrailerBytes - plain;
  for (uint32_t i = 0; i < pad; i++) text[plain + i] = static_cast<uint8_t>(i + 1);
  text[padded - 2] = static_cast<uint8_t>(pad);
  text[padded - 1] = next;
  uint8_t around[12];
  const size_t bytes = beside(esp, around);
  uint8_t tag[engine::AesGcm::kTag];
  cipher_.encrypt(nonce_of(esp + kHeadBytes), {around, bytes}, {text, padded}, tag);
  std::memcpy(text + padded, tag, sizeof tag);
  resize(frame, place.parsed, end);
  return end;
}

uint32_t EspAction::open(uint8_t* frame, Place& place) const {
  uint8_t* esp = frame + place.esp;
  uint8_t* text = frame + place.payload;
  const uint32_t bytes = place.parsed.end - place.payload;
  constexpr auto kTag = static_cast<uint32_t>(engine::AesGcm::kTag);
  if (bytes < kTag + kTrailerBytes) return 0;
  const uint32_t padded = bytes - kTag;
  uint8_t around[12];
  const size_t count = beside(esp, around);
  if (!cipher_.decrypt(nonce_of(esp + kHeadBytes), {around, count}, {text, padded}, text + padded)) return 0;
  const uint32_t trailer = kTrailerBytes + text[padded - 2];
  if (trailer > padded) return 0;
  const uint32_t end = place.payload + padded - trailer;
  resize(frame, place.parsed, end);
  return end;
}

}  // namespace verbatim::connectx
