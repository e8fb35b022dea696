// SPDX-License-Identifier: MIT
#pragma once

#include "wire/link/segment.h"

namespace verbatim::wire::shm {

class PeerChannel;

/// Bytes that lie in a list of pieces of this process's memory (loopback).
class GatheredPayload final : public Payload {
 public:
  GatheredPayload(const Piece* pieces, uint32_t count) : pieces_(pieces), count_(count) {}
  CopyResult copy_to(size_t offset, const Piece* pieces, uint32_t count) override;

 private:
  const Piece* pieces_;
  uint32_t count_;
};

/// Bytes that lie in the sending process and are fetched from there.
class PulledPayload final : public Payload {
 public:
  PulledPayload(PeerChannel& peer, const Piece* there, uint32_t count)
      : peer_(peer), there_(there), count_(count) {}
  CopyResult copy_to(size_t offset, const Piece* pieces, uint32_t count) override;

 private:
  CopyResult find_fault(const Piece* there, uint32_t there_count);

  PeerChannel& peer_;
  const Piece* there_;
  uint32_t count_;
};

}  // namespace verbatim::wire::shm
