// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <mutex>

#include "device/hw/hca.h"
#include "engine/protection/aes_gcm.h"

namespace verbatim::connectx {

/// Encrypts or decrypts ESP packets (RFC 4303) by AES-GCM (RFC 4106), inline: the program writes and reads
/// the ESP header. What is sent has no trailer yet, what is received none any more. A packet that does not
/// verify is dropped. Thread safe.
class EspAction final : public hw::EspAction {
 public:
  explicit EspAction(const hw::EspSpec& spec);
  uint32_t apply(uint8_t* frame, uint32_t length, uint32_t room) override;
  bool encrypts() const override { return encrypts_; }
  Outcome change(uint32_t sequence_high, bool new_window) override;

 private:
  struct Place;
  bool find(uint8_t* frame, uint32_t length, Place& place) const;
  uint32_t seal(uint8_t* frame, Place& place, uint32_t room) const;
  uint32_t open(uint8_t* frame, Place& place) const;
  engine::AesGcm::Nonce nonce_of(const uint8_t* vector) const;
  size_t beside(const uint8_t* esp, uint8_t (&bytes)[12]) const;
  uint32_t sequence_high(const uint8_t* esp) const;

  const bool encrypts_, extended_;
  const engine::AesGcm cipher_;
  const std::array<uint8_t, 4> salt_;
  mutable std::mutex lock_;  ///< of what follows
  uint32_t sequence_high_;
  bool new_window_;
};

}  // namespace verbatim::connectx
