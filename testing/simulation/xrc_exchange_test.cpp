// SPDX-License-Identifier: MIT
// Receivers of extended reliable connections on an Ethernet wire, packet by packet.
#include "testing/simulation/script.h"

namespace verbatim::simulation {
namespace {

using engine::QpType;
using wire::Operation;
using wire::Segment;

TEST(WireXrcReceiver, TakesNoAnswersFromAWire) {
  Script s(QpType::kXrcReceive);
  s.post_receive(100);
  Segment request = s.packet(Operation::kSend, 0, Script::kOnly | wire::kAckRequest);
  request.srqn = s.shared_queue;
  s.rx(request, 10);
  EXPECT_EQ(10u, s.expect_receive().bytes);
  s.expect_ack(0);
  for (const Operation operation :
       {Operation::kReadResponse, Operation::kAtomicResponse, Operation::kAck, Operation::kCongestion})
    for (const uint32_t host : {1u, 2u}) {
      Segment answer = s.packet(operation, 1, Script::kOnly);
      answer.source_gid = address_of(host);
      s.rx(answer, operation == Operation::kReadResponse ? 16 : 0);
    }
  s.expect_nothing();
}

}  // namespace
}  // namespace verbatim::simulation
