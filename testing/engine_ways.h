// SPDX-License-Identifier: MIT
#pragma once

// Test cases that run once over loopback, once between two processes' worth with direct access, and once
// where everything goes through the rings.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "testing/engine_world.h"

namespace verbatim::testing {

enum class Way { kLoopback, kDirect, kRings };

inline const char* name_of(Way way) {
  return way == Way::kLoopback ? "Loopback" : way == Way::kDirect ? "Direct" : "Rings";
}

class EngineTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    setenv("VERBATIM_NO_CMA", GetParam() == Way::kRings ? "1" : "0", 1);
    a_ = std::make_unique<Node>(world_, 1, clock_);
    if (GetParam() != Way::kLoopback) b_ = std::make_unique<Node>(world_, 2, clock_);
  }
  Node& a() { return *a_; }
  Node& b() { return b_ ? *b_ : *a_; }
  void settle() {
    // An engine may rest for some hundred nanoseconds, and holds some acknowledgements back for a few looks.
    int quiet = 0;
    for (int round = 0; round < 100'000 && quiet < 200; round++)
      quiet = a().engine().progress() + b().engine().progress() == 0 ? quiet + 1 : 0;
  }
  void pass(uint64_t ns) {
    for (uint64_t done = 0; done < ns; done += 10'000'000) {
      clock_.advance(10'000'000);
      a().engine().step(clock_.now_ns());
      b().engine().step(clock_.now_ns());
      settle();
    }
  }
  static engine::SendWork work(engine::Opcode opcode, TestMemory& memory, uint32_t length,
                               size_t offset = 0) {
    engine::SendWork w;
    w.opcode = opcode;
    w.signaled = true;
    w.sge_count = 1;
    w.sges[0] = memory.sge(offset, length);
    return w;
  }
  static engine::SendWork to(engine::SendWork w, TestMemory& remote, size_t offset = 0) {
    w.remote_address = remote.address() + offset;
    w.rkey = remote.key();
    return w;
  }

  ManualClock clock_;
  World world_;
  std::unique_ptr<Node> a_, b_;
  static constexpr uint32_t kAll =
      engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;
};

}  // namespace verbatim::testing
