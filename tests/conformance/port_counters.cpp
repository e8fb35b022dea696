// SPDX-License-Identifier: MIT
// Counters of the port, as a program finds them that opens the file which ibv_device.ibdev_path leads to.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kLong = 10'000;
constexpr uint64_t kWord = 4, kHeadersMax = 120;
constexpr useconds_t kNewUs = 20'000;  ///< who looks twice may find what was true some milliseconds ago

std::string path_of(const Endpoint& self, const std::string& name) {
  return std::string(self.context->device->ibdev_path) + "/ports/1/" + name;
}

uint64_t counter(const Endpoint& self, const std::string& name) {
  usleep(kNewUs);
  uint64_t value = UINT64_MAX;
  std::ifstream file(path_of(self, name));
  file >> value;
  EXPECT_NE(value, UINT64_MAX) << name;
  return value;
}

struct Port {
  explicit Port(const Endpoint& self)
      : sent_words(counter(self, "counters/port_xmit_data")),
        received_words(counter(self, "counters/port_rcv_data")),
        sent(counter(self, "counters/port_xmit_packets")),
        received(counter(self, "counters/port_rcv_packets")),
        writes(counter(self, "hw_counters/rx_write_requests")),
        reads(counter(self, "hw_counters/rx_read_requests")),
        atomics(counter(self, "hw_counters/rx_atomic_requests")) {}
  uint64_t sent_words, received_words, sent, received, writes, reads, atomics;
};

uint64_t packets_of(const Endpoint& self, size_t bytes) {
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(self.qp, &now, IBV_QP_PATH_MTU, &made), 0);
  const size_t mtu = size_t{128} << now.path_mtu;
  return (bytes + mtu - 1) / mtu;
}

void post(Endpoint& self, ibv_send_wr wr) {
  EXPECT_EQ(self.post(wr), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
}

class PortCounters : public Played {};
VERBATIM_PLAY_BOTH_WAYS(PortCounters);

// Bytes move without packets here; what is counted is what a wire would carry. Both ends are on the one port.
TEST_P(PortCounters, CountMessagesAsPackets) {
  play(
      {},
      [](Endpoint& self) {
        self.barrier();
        const Port before(self);
        for (int i = 0; i < 10; i++) post(self, self.request(IBV_WR_RDMA_WRITE, kLong));
        post(self, self.request(IBV_WR_RDMA_READ, kLong));
        ibv_send_wr atomic = self.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
        atomic.wr.atomic.remote_addr = self.peer.address;
        atomic.wr.atomic.rkey = self.peer.rkey;
        atomic.wr.atomic.compare_add = 1;
        post(self, atomic);
        post(self, self.request(IBV_WR_SEND, kLong));
        const Port after(self);
        const uint64_t packets = packets_of(self, kLong);
        const uint64_t expected = 10 * (packets + 1) + (1 + packets) + 2 + (packets + 1);
        EXPECT_EQ(after.sent - before.sent, expected) << "with an acknowledgement or a response for each";
        EXPECT_EQ(after.received - before.received, expected);
        const uint64_t bytes = (after.sent_words - before.sent_words) * kWord;
        EXPECT_GT(bytes, 12 * kLong);
        EXPECT_LT(bytes, 12 * kLong + expected * kHeadersMax);
        EXPECT_EQ(after.received_words - before.received_words, after.sent_words - before.sent_words);
        EXPECT_EQ(after.writes - before.writes, 10u);
        EXPECT_EQ(after.reads - before.reads, 1u);
        EXPECT_EQ(after.atomics - before.atomics, 1u);
        self.barrier();
      },
      [](Endpoint& self) {
        EXPECT_EQ(self.receive(0, kLong), 0);
        self.barrier();
        EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
      });
}

TEST_P(PortCounters, CountDatagramsWhereTheyGoAndWhereTheyCome) {
  play(
      {.type = IBV_QPT_UD},
      [](Endpoint& self) {
        self.barrier();
        const Port before(self);
        for (int i = 0; i < 3; i++) post(self, self.request(IBV_WR_SEND, 100));
        self.barrier();
        const Port after(self);
        EXPECT_EQ(after.sent - before.sent, 3u);
        EXPECT_EQ(after.received - before.received, 3u);
        self.barrier();
      },
      [](Endpoint& self) {
        for (int i = 0; i < 3; i++) EXPECT_EQ(self.receive(0, 1000), 0);
        self.barrier();
        for (int i = 0; i < 3; i++) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
        self.barrier();
        self.barrier();
      });
}

TEST_P(PortCounters, CountWhatGoesWrong) {
  play(
      {.retries = 1, .rnr_retries = 1},
      [](Endpoint& self) {
        const auto value = [&self](const char* name) {
          return counter(self, std::string("hw_counters/") + name);
        };
        const uint64_t waits = value("rnr_nak_retry_err"), unready = value("out_of_buffer");
        const uint64_t errors = value("req_cqe_error"), flushed = value("req_cqe_flush_error");
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 8)), 0);
        EXPECT_EQ(self.wait_status(), IBV_WC_RNR_RETRY_EXC_ERR);
        EXPECT_EQ(self.wait_status(), IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(value("rnr_nak_retry_err") - waits, 2u);
        EXPECT_GE(value("out_of_buffer") - unready, 2u);
        EXPECT_EQ(value("req_cqe_error") - errors, 2u);
        EXPECT_EQ(value("req_cqe_flush_error") - flushed, 1u);
        self.barrier();
      },
      [](Endpoint& self) { self.barrier(); });
}

TEST(PortCountersOfRefusals, AreOfBothEnds) {
  Pair pair;
  const auto value = [&pair](const char* name) {
    return counter(pair.left, std::string("hw_counters/") + name);
  };
  const uint64_t denied = value("req_remote_access_errors"), refused = value("resp_remote_access_errors");
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 8);
  wr.wr.rdma.rkey += 0x100000;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(value("req_remote_access_errors") - denied, 1u);
  EXPECT_EQ(value("resp_remote_access_errors") - refused, 1u);
}

TEST(PortCountersOfProcesses, OutliveThem) {
  uint64_t before = 0, within = 0;
  {
    Pair pair;
    before = counter(pair.left, "counters/port_xmit_packets");
    post(pair.left, pair.left.request(IBV_WR_RDMA_WRITE, 8));
    within = counter(pair.left, "counters/port_xmit_packets");
  }
  EXPECT_EQ(within - before, 2u);
  play(
      Players::kTwoProcesses, {},
      [](Endpoint& self) {
        for (int i = 0; i < 5; i++) post(self, self.request(IBV_WR_RDMA_WRITE, 8));
        self.barrier();
      },
      [](Endpoint& self) { self.barrier(); });
  Endpoint later;
  EXPECT_EQ(counter(later, "counters/port_xmit_packets") - within, 10u);
}

TEST(PortCountersHeldOpen, Follow) {
  Pair pair;
  const int file = open(path_of(pair.left, "counters/port_xmit_packets").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const auto value = [file] {
    usleep(kNewUs);
    char text[32] = {};
    EXPECT_GT(pread(file, text, sizeof text - 1, 0), 0);
    return std::strtoull(text, nullptr, 10);
  };
  const uint64_t before = value();
  post(pair.left, pair.left.request(IBV_WR_RDMA_WRITE, 8));
  EXPECT_EQ(value() - before, 2u);
  close(file);
}

TEST(PortCountersOfDevices, AreTheirOwn) {
  with_devices("2", [] {
    Endpoint left({.device = 0}), right({.device = 1});
    ASSERT_EQ(left.connect(right.contact()), 0);
    ASSERT_EQ(right.connect(left.contact()), 0);
    const Port left_before(left), right_before(right);
    const uint64_t packets = packets_of(left, kLong);
    post(left, left.request(IBV_WR_RDMA_READ, kLong));
    const Port left_after(left), right_after(right);
    EXPECT_EQ(left_after.sent - left_before.sent, 1u);
    EXPECT_EQ(left_after.received - left_before.received, packets);
    EXPECT_EQ(right_after.sent - right_before.sent, packets);
    EXPECT_EQ(right_after.received - right_before.received, 1u);
    EXPECT_EQ(left_after.reads, left_before.reads);
    EXPECT_EQ(right_after.reads - right_before.reads, 1u) << "the request was carried out there";
  });
}

}  // namespace
}  // namespace verbatim::conformance
