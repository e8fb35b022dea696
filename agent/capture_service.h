// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "agent/protocol.h"
#include "base/expected.h"
#include "wire/link/tap/board.h"
#include "wire/link/tap/tap.h"

namespace verbatim::agent {

/// The capture that runs, if any: whose connection asked for it, and the memory that processes write to.
class CaptureService {
 public:
  /// `board`: where processes see that there is one. `tap`: what the agent itself sends passes it.
  CaptureService(wire::tap::Board& board, wire::tap::Tap& tap) : board_(board), tap_(tap) {}
  ~CaptureService() { stop(); }
  CaptureService(const CaptureService&) = delete;
  CaptureService& operator=(const CaptureService&) = delete;

  /// `file`: the capture's memory, which is taken over. EBUSY: another one runs; EPROTO: it is none.
  Outcome begin(uint64_t client, int file);
  /// The client has gone. True: the capture has ended with it.
  bool end(uint64_t client);
  /// Stays this object's; -1: none runs.
  int file() const { return file_; }

 private:
  void stop();

  wire::tap::Board& board_;
  wire::tap::Tap& tap_;
  uint64_t client_ = 0;
  int file_ = -1;
};

}  // namespace verbatim::agent
