// SPDX-License-Identifier: MIT
#pragma once

// One queue pair whose peer is the test itself, packet by packet:
//
//   Script s(QpType::kRc);
//   s.post(s.send(100));
//   s.expect(Operation::kSend, 0);
//   s.rx(s.ack(0));
//   s.expect_completion(Status::kSuccess);
//
// PSNs count from Script::kFirstPsn in both directions, which is so near to the end that they wrap.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/fault_copy.h"
#include "engine/engine.h"
#include "engine/queue_pair.h"
#include "testing/simulation/network.h"
#include "wire/link/flat_payload.h"
#include "wire/link/wire_channel.h"

namespace verbatim::simulation {

class Script : public wire::Fabric,
               public wire::WireChannel,
               public engine::Host,
               public engine::SendQueue,
               public engine::ReceiveQueue,
               public engine::ReceiveSink,
               public engine::QueuePairEvents {
 public:
  static constexpr uint32_t kFirstPsn = 0xfffffe;
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kPeerQpn = 0x123;
  static constexpr uint64_t kAccessKey = 0xabcd;  ///< of a DC target
  static constexpr uint64_t kStart = 0x10000000;  ///< of the memory, as work requests name it
  static constexpr uint64_t kTimeoutNs = 4096ull << 10;

  explicit Script(engine::QpType type) : memory_(64 * 1024) {
    install_fault_guard();
    published_ = static_cast<std::byte*>(mmap(nullptr, sizeof(engine::Published), PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    engine_ = std::make_unique<engine::Engine>(*this, *this, clock_);
    constexpr uint32_t kAll =
        engine::kLocalWrite | engine::kRemoteWrite | engine::kRemoteRead | engine::kRemoteAtomic;
    key_ = *engine_->keys().create(
        {1, kAll, kStart, memory_.size(), reinterpret_cast<uint64_t>(memory_.data())});
    for (size_t i = 0; i < memory_.size(); i++) memory_[i] = static_cast<uint8_t>(i * 7 + i / 256);
    engine::QueuePairSpec spec;
    spec.type = type;
    spec.domain = 1;
    spec.send = this;
    spec.receive = this;
    spec.sink = this;
    spec.events = this;
    spec.send_entries = 16;
    spec.access_key = kAccessKey;
    spec.errored_streams_max = 2;
    if (type == engine::QpType::kXrcReceive) {
      constexpr uint64_t kXrcDomain = 7;
      spec.domain = spec.send_entries = 0;
      spec.send = nullptr;
      spec.shared_receive = true;
      spec.xrc_domain = kXrcDomain;
      shared_queue = *engine_->add_shared_queue({kXrcDomain, {1, this, this}});
    }
    qp_ = *engine_->create_queue_pair(spec);
    connect(type);
  }
  ~Script() override {
    engine_->destroy_queue_pair(qp_);
    engine_.reset();
    munmap(published_, sizeof(engine::Published));
  }

  // --- what the program does ---
  engine::SendWork work(engine::Opcode opcode, uint32_t length) const {
    engine::SendWork w;
    w.opcode = opcode;
    w.signaled = true;
    w.sge_count = length > 0 ? 1 : 0;
    w.sges[0] = {kStart, length, key_};
    w.remote_address = 0x5000;
    w.rkey = 0x77;
    return w;
  }
  void post(const engine::SendWork& w) {
    sends_.push_back(w);
    qp_->ring();
    settle();
  }
  /// Only rings: nobody looks for arrivals afterwards.
  void post_alone(const engine::SendWork& w) {
    sends_.push_back(w);
    qp_->ring();
  }
  void post_receive(uint32_t length) {
    engine::ReceiveWork w;
    w.index = receives_posted_++;
    w.sge_count = 1;
    w.sges[0] = {kStart + 32 * 1024, length, key_};
    receives_.push_back(w);
  }
  void pass(uint64_t ns) {
    for (const uint64_t until = clock_.now_ns() + ns; clock_.now_ns() < until;) {
      clock_.set(std::min(until, clock_.now_ns() + 1'000'000));
      settle();
    }
  }

  // --- what the peer sends; PSNs count from the first ---
  wire::Segment packet(wire::Operation operation, uint32_t n, uint32_t flags) const {
    wire::Segment s;
    s.operation = operation;
    s.transport = qp_->transport();
    s.flags = static_cast<uint16_t>(flags);
    s.dest_qpn = qp_->number();
    s.src_qpn = wire::kUnknownQpn;
    s.psn = s.base_psn = wire::psn_add(kFirstPsn, n);
    s.syndrome = wire::kAckOk;
    s.has_grh = true;
    s.gid_type = GidType::kRoceV2;
    s.source_gid = address_of(1);
    s.dest_gid = address_of(0);
    s.remote_address = kStart;
    s.rkey = key_;
    return s;
  }
  static constexpr uint32_t kOnly = wire::kFirst | wire::kLast;
  wire::Segment ack(uint32_t n, uint8_t syndrome = wire::kAckOk) const {
    wire::Segment s = packet(wire::Operation::kAck, n, kOnly);
    s.syndrome = syndrome;
    return s;
  }
  /// A request or response with so many bytes, all of them `fill`.
  void rx(wire::Segment s, uint32_t length = 0, uint8_t fill = 0xab) {
    take_in(s, length, fill);
    settle();
  }
  /// The same, and the program answers before anything else happens.
  void rx_and_post(const wire::Segment& s, uint32_t length, const engine::SendWork& w) {
    take_in(s, length, 0xab);
    post(w);
  }

 private:
  void take_in(wire::Segment s, uint32_t length, uint8_t fill) {
    s.length = length;
    if (s.total_length == 0) s.total_length = length;
    std::vector<std::byte> bytes(length, std::byte{fill});
    wire::FlatPayload payload(bytes.data(), length);
    engine_->enter();
    engine_->on_segment(*this, s, payload, nullptr);
    engine_->leave();
  }

 public:
  // --- what the queue pair has done ---
  /// The oldest packet that it has sent and nobody has looked at; of a segment of several, all of them.
  wire::Segment expect(wire::Operation operation, uint32_t n) {
    wire::Segment s;
    s.operation = wire::Operation::kDisconnect;
    if (sent_.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return s;
    }
    s = sent_.front();
    sent_.pop_front();
    EXPECT_EQ(static_cast<int>(operation), static_cast<int>(s.operation));
    EXPECT_EQ(wire::psn_add(kFirstPsn, n), s.psn);
    EXPECT_EQ(towards, s.dest_gid);
    EXPECT_EQ(kPeerQpn, s.dest_qpn);
    return s;
  }
  void expect_ack(uint32_t n, uint8_t syndrome = wire::kAckOk) {
    EXPECT_EQ(syndrome, expect(wire::Operation::kAck, n).syndrome);
  }
  void expect_nothing() { EXPECT_EQ(0u, sent_.size()); }
  size_t sent() const { return sent_.size(); }
  void forget_sent() { sent_.clear(); }
  const wire::Segment& last_sent() const { return sent_.back(); }
  /// The oldest send completion that nobody has looked at.
  void expect_completion(engine::Status status) {
    if (send_completions_.empty()) {
      ADD_FAILURE() << "nothing has ended";
      return;
    }
    EXPECT_EQ(static_cast<int>(status), static_cast<int>(send_completions_.front().status));
    send_completions_.pop_front();
  }
  void expect_no_completion() { EXPECT_EQ(0u, send_completions_.size()); }
  engine::ReceiveCompletion expect_receive() {
    if (receive_completions_.empty()) {
      ADD_FAILURE() << "nothing was received";
      return {};
    }
    const engine::ReceiveCompletion done = receive_completions_.front();
    receive_completions_.pop_front();
    return done;
  }
  void expect_no_receive() { EXPECT_EQ(0u, receive_completions_.size()); }
  uint8_t* memory() { return memory_.data(); }
  engine::QueuePair& qp() { return *qp_; }
  engine::QpAttributes attributes;
  std::function<void()> on_receive;  ///< when the program can know of a message
  uint32_t shared_queue = 0;         ///< of an XRC receiver
  Gid towards = address_of(1);       ///< where packets are expected to go
  std::vector<engine::AsyncEvent> events;
  void modify(uint32_t mask) { ASSERT_TRUE(static_cast<bool>(qp_->modify(attributes, mask))); }

  // wire::Fabric
  wire::Channel* channel(const Gid& dest, uint32_t) override {
    return dest == address_of(1) || dest == towards ? this : nullptr;
  }
  wire::Channel* neighbor(uint32_t) override { return nullptr; }
  std::string obstacle(const Gid&, uint32_t) override { return ""; }
  uint32_t multicast(const Gid&, wire::Channel**, uint32_t) override { return 0; }
  uint32_t poll(wire::Receiver&, uint32_t) override { return 0; }
  bool pending() const override { return false; }
  bool worth_polling() override { return false; }
  bool shares_processor() override { return false; }
  bool want_wake(bool) override { return false; }
  void wait_for_peers() override {}
  std::byte* published() override { return published_; }
  size_t published_bytes() const override { return sizeof(engine::Published); }
  // wire::Channel
  uint32_t payload_max(bool) const override { return 4096; }
  wire::SendResult send(const wire::Segment& s, const wire::Piece*, uint32_t, bool, wire::Segment*) override {
    sent_.push_back(s);
    return wire::SendResult::kAccepted;
  }
  // engine::Host
  uint32_t gid_count() const override { return 1; }
  engine::GidEntry gid(uint32_t) const override {
    engine::GidEntry entry;
    entry.gid = address_of(0);
    return entry;
  }
  bool link_up() const override { return true; }
  Outcome join(const Gid&) override { return Done{}; }
  Outcome leave(const Gid&) override { return Done{}; }
  Expected<uint32_t> qpn_slot(uint32_t) override { return 5u; }
  void wake_engine_thread() override {}
  void on_event(engine::AsyncEvent event) override { events.push_back(event); }
  // queues
  Fetch fetch(uint32_t index, engine::SendWork& w, uint32_t& next, const char*&) override {
    if (index >= sends_.size()) return Fetch::kNone;
    w = sends_[index];
    next = index + 1;
    return Fetch::kWork;
  }
  void complete(const engine::SendCompletion& done) override { send_completions_.push_back(done); }
  Take take(engine::ReceiveWork& w, const char*&) override {
    if (receives_.empty()) return Take::kNone;
    w = receives_.front();
    receives_.pop_front();
    return Take::kWork;
  }
  void complete(const engine::ReceiveCompletion& done) override {
    receive_completions_.push_back(done);
    if (on_receive) on_receive();
  }

 private:
  void connect(engine::QpType type) {
    using namespace engine;
    const bool rc = type == QpType::kRc, receiver = type == QpType::kXrcReceive;
    const bool initiator = type == QpType::kDci, target = type == QpType::kDct;
    attributes.port = 1;
    attributes.access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
    attributes.path_mtu = kMtu;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 2;
    attributes.timeout = 10;
    attributes.retry_count = 2;
    attributes.rnr_retry = 1;
    attributes.min_rnr_timer = 12;  // 640 us
    attributes.path.is_global = true;
    attributes.path.dgid = address_of(1);
    attributes.dest_qpn = kPeerQpn;
    attributes.sq_psn = attributes.rq_psn = kFirstPsn;
    step(QpState::kInit, kQpPkeyIndex | kQpPort | (initiator ? 0u : uint32_t{kQpAccessFlags}));
    if (initiator) {
      step(QpState::kRtr, kQpPathMtu);
    } else {
      step(QpState::kRtr, kQpAv | kQpPathMtu |
                              (target           ? kQpMinRnrTimer
                               : rc || receiver ? kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer
                                                : kQpDestQpn | kQpRqPsn));
    }
    if (target) return;
    if (receiver) return step(QpState::kRts, kQpSqPsn | kQpTimeout);
    step(QpState::kRts,
         kQpSqPsn | (rc || initiator ? kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic : 0));
  }
  void step(engine::QpState to, uint32_t mask) {
    attributes.state = to;
    modify(mask | engine::kQpState);
  }
  void settle() {
    for (int i = 0; i < 100 && engine_->step(clock_.now_ns()) <= clock_.now_ns(); i++) {
    }
  }

  VirtualClock clock_;
  std::byte* published_;
  std::vector<uint8_t> memory_;
  uint32_t key_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  engine::QueuePair* qp_ = nullptr;
  uint32_t receives_posted_ = 0;
  std::deque<wire::Segment> sent_;
  std::vector<engine::SendWork> sends_;
  std::deque<engine::ReceiveWork> receives_;
  std::deque<engine::SendCompletion> send_completions_;
  std::deque<engine::ReceiveCompletion> receive_completions_;
};

}  // namespace verbatim::simulation
