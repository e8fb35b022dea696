// SPDX-License-Identifier: MIT
// Everything by command: no verbs object is made. Data moves by entries and doorbells that the test writes,
// events come from an event queue in memory and through an event channel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "abi/prm/completion_queues.h"
#include "abi/prm/events.h"
#include "abi/prm/memory.h"
#include "abi/prm/raw_queues.h"
#include "tests/conformance/devx_parts.h"
#include "tests/conformance/event_queue.h"
#include "tests/conformance/idle.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

using connectx::Cqe;
using connectx::DataSegment;
using connectx::RemoteSegment;
using prm::Event;
using prm::View;

constexpr size_t kBytes = 8192, kHalf = kBytes / 2;

uint32_t completed(const std::vector<uint8_t>& entry) {
  return View<prm::Eqe>(entry)[prm::Eqe::event_data][prm::EventAuto::comp_event][prm::CompEvent::cq_number];
}

class DevxAlone : public testing::Test {
 protected:
  DevxAlone() = default;
  explicit DevxAlone(ibv_context* opened) : device(opened) {}
  void SetUp() override {
    ASSERT_TRUE(device.good());
    memory = std::make_unique<NamedMemory>(device.context, kBytes);
    Mail<prm::CreateMkey> mail;
    mail.in.set(prm::CreateMkeyIn::mkey_umem_valid, true);
    mail.in.set(prm::CreateMkeyIn::mkey_umem_id, memory->id());
    const auto context = mail.in[prm::CreateMkeyIn::memory_key_mkey_entry];
    context.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
    context.set(prm::Mkc::qpn, 0xffffff);
    context.set(prm::Mkc::pd, device.pdn);
    context.set(prm::Mkc::start_addr, address(0));
    context.set(prm::Mkc::len, kBytes);
    for (const auto right : {prm::Mkc::lw, prm::Mkc::lr, prm::Mkc::rw, prm::Mkc::rr})
      context.set(right, true);
    mkey = mail.create(device.context);
    ASSERT_NE(mkey, nullptr);
    key = mail.out[prm::CreateMkeyOut::mkey_index] << 8;
  }
  void TearDown() override {
    if (mkey != nullptr) {
      EXPECT_EQ(mlx5dv_devx_obj_destroy(mkey), 0);
    }
    EXPECT_EQ(memory->deregister(), 0);
  }
  uint64_t address(size_t offset) const { return reinterpret_cast<uint64_t>(memory->at(offset)); }
  DataSegment piece(size_t offset, uint32_t bytes) const {
    return {connectx::Be32(bytes), connectx::Be32(key), connectx::Be64(address(offset))};
  }
  RemoteSegment remote(size_t offset, uint32_t rkey) const {
    return {connectx::Be64(address(offset)), connectx::Be32(rkey), 0};
  }

  void moves_data_and_is_told();

  DevxDevice device;
  std::unique_ptr<NamedMemory> memory;
  mlx5dv_devx_obj* mkey = nullptr;
  uint32_t key = 0;
};

void DevxAlone::moves_data_and_is_told() {
  EventQueue events(device.context, {Event::kCqError});
  ASSERT_NE(events.shown, nullptr);
  DevxCq send_cq(device, 6, device.eqn), receive_cq(device, 6, events.number);
  ASSERT_TRUE(send_cq.good() && receive_cq.good()) << receive_cq.status;
  DevxQp left(device, send_cq), right(device, receive_cq);
  ASSERT_TRUE(left.good() && right.good()) << left.status;
  ASSERT_EQ(left.connect(right.number), 0);
  ASSERT_EQ(right.connect(left.number), 0);
  events.tell(true);
  for (uint32_t round = 0; round < 3 * EventQueue::kEntries; round++) {
    std::memset(memory->at(0), static_cast<int>(round + 1), 1024);
    receive_cq.arm();
    right.receive(piece(kHalf, 1024));
    left.post(connectx::kOpSendImmediate, piece(0, 1024), nullptr, 0x03020100 + round);
    const std::vector<uint8_t> event = events.wait();
    ASSERT_FALSE(event.empty()) << "round " << round;
    EXPECT_EQ(event[1], 0) << "a completion";
    EXPECT_EQ(completed(event), receive_cq.number);
    events.tell(true);
    const auto received = receive_cq.wait(), sent = send_cq.wait();
    ASSERT_TRUE(received && sent);
    EXPECT_EQ(received->opcode_owner >> 4, connectx::kCqeSendImmediate);
    EXPECT_EQ(received->byte_count, 1024u);
    EXPECT_EQ(received->immediate, 0x03020100 + round);
    EXPECT_EQ(received->user_index, 0x42u);
    EXPECT_EQ(sent->opcode_owner >> 4, connectx::kCqeRequest);
    EXPECT_EQ(sent->wqe_counter, round);
    EXPECT_EQ(std::memcmp(memory->at(0), memory->at(kHalf), 1024), 0);
  }
  EXPECT_TRUE(events.take().empty());
  EXPECT_EQ(memory->deregister(), EBUSY) << "the key lies in it";
}

TEST_F(DevxAlone, MovesDataAndIsToldByInterrupts) { moves_data_and_is_told(); }

class TakenOver : public DevxAlone {
 protected:
  TakenOver() : DevxAlone(take_over()) {}
};

TEST_F(TakenOver, MovesDataAndIsToldByInterrupts) { moves_data_and_is_told(); }

TEST_F(DevxAlone, SendsWithoutAcknowledgements) {
  DevxCq cq(device, 6, device.eqn);
  DevxQpTraits traits;
  traits.service = prm::QpService::kUc;
  DevxQp left(device, cq, traits), right(device, cq, traits);
  ASSERT_TRUE(left.good() && right.good());
  ASSERT_EQ(left.connect(right.number), 0);
  ASSERT_EQ(right.connect(left.number), 0);
  std::memset(memory->at(0), 0x5a, 512);
  right.receive(piece(kHalf, 512));
  left.post(connectx::kOpSend, piece(0, 512));
  ASSERT_TRUE(cq.wait() && cq.wait());
  EXPECT_EQ(std::memcmp(memory->at(0), memory->at(kHalf), 512), 0);
}

TEST_F(DevxAlone, SendsDatagrams) {
  constexpr uint32_t kQkey = 0x1234, kGrhBytes = 40;
  DevxCq send_cq(device, 4, device.eqn), receive_cq(device, 4, device.eqn);
  DevxQpTraits traits;
  traits.service = prm::QpService::kUd;
  DevxQp left(device, send_cq, traits), right(device, receive_cq, traits);
  ASSERT_TRUE(left.good() && right.good());
  ASSERT_EQ(left.connect(0), 0);
  ASSERT_EQ(right.connect(0), 0);
  struct {
    connectx::DatagramSegment address{};
    DataSegment data;
  } segments;
  segments.address.qkey = kQkey;
  segments.address.dest_qpn = right.number | connectx::kExtendedAv;
  segments.address.hop_limit = 64;
  segments.address.rlid = device.lid;
  segments.address.gid_flow = connectx::kGrhPresent;
  std::memcpy(segments.address.rgid, device.gid.raw, sizeof segments.address.rgid);
  segments.data = piece(0, 256);
  for (int i = 0; i < 20; i++) {
    std::memset(memory->at(0), i + 1, 256);
    right.receive(piece(kHalf, 256 + kGrhBytes));
    left.post_segments(connectx::kOpSendImmediate, std::as_bytes(std::span(&segments, 1)), 7);
    ASSERT_TRUE(send_cq.wait()) << i;
    const auto received = receive_cq.wait();
    ASSERT_TRUE(received) << i;
    EXPECT_EQ(received->byte_count, 256 + kGrhBytes);
    EXPECT_EQ(received->flags_rqpn & 0xffffff, left.number);
    EXPECT_EQ(std::memcmp(memory->at(0), memory->at(kHalf + kGrhBytes), 256), 0);
  }
}

TEST_F(DevxAlone, BeginsAfreshAfterAReset) {
  DevxCq cq(device, 6, device.eqn);
  DevxQp qp(device, cq);
  const RemoteSegment there = remote(kHalf, key);
  for (int round = 0; round < 20; round++) {
    ASSERT_EQ(qp.connect(qp.number), 0);
    // The record says the same as in the round before.
    qp.post(connectx::kOpWrite, piece(0, 64), &there);
    ASSERT_TRUE(cq.wait()) << round;
    ASSERT_EQ(qp.reset(), 0);
  }
}

TEST_F(DevxAlone, CostsNothingWhileNothingRings) {
  if (!stores_can_wake()) GTEST_SKIP() << "userfaultfd is not allowed here: sleep is bounded instead";
  EventQueue events(device.context, {Event::kCqError});
  DevxCq cq(device, 6, events.number);
  DevxQp qp(device, cq);
  ASSERT_EQ(qp.connect(qp.number), 0);
  const RemoteSegment there = remote(kHalf, key);
  constexpr double kIdleSeconds = 0.004;  ///< of the processor, in a second and a half
  for (int round = 0; round < 2; round++) {
    events.tell(true);
    cq.arm();
    poll(nullptr, 0, 50);
    // The least of a few: others on the machine make what little there is to do more expensive.
    double least = 1;
    for (int look = 0; look < 3 && least >= kIdleSeconds; look++) {
      const double before = processor_seconds();
      poll(nullptr, 0, 1500);
      least = std::min(least, processor_seconds() - before);
    }
    EXPECT_LT(least, kIdleSeconds);
    qp.post(connectx::kOpWrite, piece(0, 64), &there);
    EXPECT_FALSE(events.wait().empty());
    EXPECT_TRUE(cq.wait());
  }
}

TEST_F(DevxAlone, EveryDoorbellCountsWhenQueuesShareAPage) {
  constexpr int kPairs = 6, kRounds = 200;
  DevxCq cq(device, 9, device.eqn);
  std::vector<std::unique_ptr<DevxQp>> qps;
  for (int i = 0; i < 2 * kPairs; i++) {
    qps.push_back(std::make_unique<DevxQp>(device, cq));
    ASSERT_TRUE(qps.back()->good());
  }
  for (int i = 0; i < kPairs; i++) {
    ASSERT_EQ(qps[2 * i]->connect(qps[2 * i + 1]->number), 0);
    ASSERT_EQ(qps[2 * i + 1]->connect(qps[2 * i]->number), 0);
  }
  for (int round = 0; round < kRounds; round++) {
    if (round % 20 == 0) poll(nullptr, 0, 3);  // now and then the device sleeps
    // All in a row, to the same register: the device sees the last store, and the records.
    for (int i = 0; i < kPairs; i++) {
      const RemoteSegment there = remote(kHalf, key);
      qps[2 * i]->post(connectx::kOpWrite, piece(0, 64), &there);
    }
    for (int i = 0; i < kPairs; i++) {
      const auto done = cq.wait();
      ASSERT_TRUE(done) << "round " << round << ", " << i << " of them";
      EXPECT_EQ(done->opcode_owner >> 4, connectx::kCqeRequest);
    }
  }
}

TEST_F(DevxAlone, FirstArmsAreNotLostWhenTheyComeTogether) {
  DevxCq cqs[4] = {
      {device, 4, device.eqn}, {device, 4, device.eqn}, {device, 4, device.eqn}, {device, 4, device.eqn}};
  mlx5dv_devx_event_channel* channel =
      mlx5dv_devx_create_event_channel(device.context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  ASSERT_NE(channel, nullptr);
  uint16_t completion = 0;
  std::vector<std::unique_ptr<DevxQp>> qps;
  for (DevxCq& cq : cqs) {
    ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, cq.object, sizeof completion, &completion, cq.number),
              0);
    qps.push_back(std::make_unique<DevxQp>(device, cq));
    ASSERT_EQ(qps.back()->connect(qps.back()->number), 0);
  }
  poll(nullptr, 0, 20);  // asleep
  for (DevxCq& cq : cqs) cq.arm();
  const RemoteSegment there = remote(kHalf, key);
  for (auto& qp : qps) qp->post(connectx::kOpWrite, piece(0, 64), &there);
  std::vector<uint32_t> told;
  while (told.size() < 4 && readable(channel->fd)) {
    mlx5dv_devx_async_event_hdr event{};
    ASSERT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), 8);
    told.push_back(static_cast<uint32_t>(event.cookie));
  }
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (std::vector{cqs[0].number, cqs[1].number, cqs[2].number, cqs[3].number}));
  mlx5dv_devx_destroy_event_channel(channel);
}

TEST_F(DevxAlone, ErrorsOfQueuePairsComeBothWays) {
  EventQueue events(device.context, {Event::kLocalAccessViolationWqError});
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      device.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  ASSERT_NE(channel, nullptr);
  DevxCq cq(device, 6, device.eqn);
  DevxQp left(device, cq), right(device, cq);
  ASSERT_EQ(left.connect(right.number), 0);
  ASSERT_EQ(right.connect(left.number), 0);
  uint16_t types[] = {static_cast<uint16_t>(Event::kLocalAccessViolationWqError),
                      static_cast<uint16_t>(Event::kLocalWqCatastrophicError)};
  constexpr uint64_t kCookie = 0x1122334455667788;
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, right.object, sizeof types, types, kCookie), 0);
  events.tell(true);
  const RemoteSegment nowhere = remote(kHalf, key ^ 0x100);
  left.post(connectx::kOpWrite, piece(0, 64), &nowhere);
  const auto done = cq.wait();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->opcode_owner >> 4, connectx::kCqeRequestError);
  ASSERT_TRUE(readable(channel->fd));
  std::vector<uint8_t> room(sizeof(mlx5dv_devx_async_event_hdr) + 64);
  auto* event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
  ASSERT_EQ(mlx5dv_devx_get_event(channel, event, room.size()), static_cast<ssize_t>(room.size()));
  EXPECT_EQ(event->cookie, kCookie);
  const View<prm::Eqe> told(std::span<const uint8_t>(event->out_data, 64));
  EXPECT_EQ(told[prm::Eqe::event_type], types[0]);
  EXPECT_EQ(told[prm::Eqe::event_data][prm::EventAuto::qp_events][prm::QpEvents::qpn_rqn_sqn], right.number);
  const std::vector<uint8_t> entry = events.wait();
  ASSERT_FALSE(entry.empty());
  EXPECT_EQ(entry[1], types[0]);
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(mlx5dv_devx_get_event(channel, event, room.size()), -1);
  EXPECT_EQ(errno, EAGAIN);
  mlx5dv_devx_destroy_event_channel(channel);
}

/// A shared receive queue of 16 entries of 32 bytes, and its record.
struct SharedQueue {
  SharedQueue(DevxDevice& device, prm::WqType type) : memory(device.context, 4096) {
    Mail<prm::CreateRmp> mail;
    const auto context = mail.in[prm::CreateRmpIn::ctx];
    context.set(prm::Rmpc::state, prm::RmpState::kRdy);
    const auto queue = context[prm::Rmpc::wq];
    queue.set(prm::Wq::wq_type, type);
    queue.set(prm::Wq::pd, device.pdn);
    queue.set(prm::Wq::log_wq_sz, 4);
    queue.set(prm::Wq::log_wq_stride, 5);
    queue.set(prm::Wq::wq_umem_id, memory.id());
    queue.set(prm::Wq::dbr_umem_id, memory.id());
    queue.set(prm::Wq::dbr_addr, kRecord);
    object = mail.create(device.context);
    number = mail.out[prm::CreateRmpOut::rmpn];
    for (uint16_t i = 0; i < 16; i++) {
      connectx::SharedNextSegment link{};
      link.next_index = static_cast<uint16_t>((i + 1) % 16);
      std::memcpy(memory.at(i * 32u), &link, sizeof link);
    }
  }
  void receive(const DataSegment& data) {
    std::memcpy(memory.at(posted++ % 16 * 32 + 16), &data, sizeof data);
    __atomic_store_n(memory.word(kRecord), connectx::Be32(posted).raw(), __ATOMIC_RELEASE);
  }
  int arm(uint32_t limit) {
    Mail<prm::ModifyRmp> mail;
    mail.in.set(prm::ModifyRmpIn::rmpn, number);
    mail.in.set(prm::ModifyRmpIn::rmp_state, prm::RmpState::kRdy);
    mail.in[prm::ModifyRmpIn::bitmask].set(prm::RmpBitmask::lwm, true);
    mail.in[prm::ModifyRmpIn::ctx].set(prm::Rmpc::state, prm::RmpState::kRdy);
    mail.in[prm::ModifyRmpIn::ctx][prm::Rmpc::wq].set(prm::Wq::lwm, limit);
    return mail.modify(object);
  }
  static constexpr size_t kRecord = 1024;
  NamedMemory memory;
  mlx5dv_devx_obj* object = nullptr;
  uint32_t number = 0, posted = 0;
};

class DevxSharedReceive : public DevxAlone, public testing::WithParamInterface<prm::WqType> {};

TEST_P(DevxSharedReceive, ServesQueuePairsAndTellsOfItsLimit) {
  SharedQueue shared(device, GetParam());
  ASSERT_NE(shared.object, nullptr);
  mlx5dv_devx_event_channel* channel =
      mlx5dv_devx_create_event_channel(device.context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  uint16_t limit = static_cast<uint16_t>(Event::kSrqLimit);
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, shared.object, sizeof limit, &limit, 77), 0);
  DevxCq cq(device, 6, device.eqn);
  DevxQpTraits traits;
  traits.rmpn = shared.number;
  DevxQp left(device, cq), right(device, cq, traits);
  ASSERT_TRUE(right.good()) << right.status;
  ASSERT_EQ(left.connect(right.number), 0);
  ASSERT_EQ(right.connect(left.number), 0);
  for (int i = 0; i < 8; i++) shared.receive(piece(kHalf, 256));
  ASSERT_EQ(shared.arm(8), 0);
  EXPECT_FALSE(readable(channel->fd, 0));
  for (int i = 0; i < 20; i++) {
    std::memset(memory->at(0), i + 1, 256);
    left.post(connectx::kOpSend, piece(0, 256));
    const auto first = cq.wait(), second = cq.wait();
    ASSERT_TRUE(first && second) << i;
    EXPECT_EQ((first->opcode_owner >> 4) + (second->opcode_owner >> 4), connectx::kCqeSend);
    EXPECT_EQ(std::memcmp(memory->at(0), memory->at(kHalf), 256), 0);
    shared.receive(piece(kHalf, 256));
    EXPECT_TRUE(readable(channel->fd, 0)) << i;
  }
  mlx5dv_devx_async_event_hdr event{};
  EXPECT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), 8);
  EXPECT_EQ(event.cookie, 77u);
  mlx5dv_devx_destroy_event_channel(channel);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(shared.object), EBUSY);
  EXPECT_EQ(right.destroy(), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(shared.object), 0);
}

INSTANTIATE_TEST_SUITE_P(Orders, DevxSharedReceive,
                         testing::Values(prm::WqType::kLinkedList, prm::WqType::kCyclic),
                         [](const auto& info) {
                           return info.param == prm::WqType::kCyclic ? "Cyclic" : "Chained";
                         });

TEST_F(DevxAlone, SignalsADescriptorForOneEvent) {
  DevxCq cq(device, 4, device.eqn);
  DevxQp qp(device, cq);
  ASSERT_EQ(qp.connect(qp.number), 0);
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      device.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  const int signal = eventfd(0, 0);
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, -1, cq.object, 0), EBADF);
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, 0, cq.object, 0), EINVAL);
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, signal, cq.object, 9), EINVAL);
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, signal, cq.object, 0), 0);
  cq.arm();
  const RemoteSegment there = remote(kHalf, key);
  qp.post(connectx::kOpWrite, piece(0, 64), &there);
  EXPECT_TRUE(readable(signal));
  EXPECT_FALSE(readable(channel->fd, 0));
  close(signal);
  ASSERT_TRUE(cq.wait());
  cq.arm();
  qp.post(connectx::kOpWrite, piece(0, 64), &there);
  EXPECT_TRUE(cq.wait()) << "the subscription has a descriptor of its own";
  mlx5dv_devx_destroy_event_channel(channel);
}

TEST_F(DevxAlone, ChannelsRefuseWhatNeverHappens) {
  mlx5dv_devx_event_channel* channel = mlx5dv_devx_create_event_channel(
      device.context, static_cast<mlx5dv_devx_create_event_channel_flags>(0));
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(mlx5dv_devx_create_event_channel(device.context,
                                             static_cast<mlx5dv_devx_create_event_channel_flags>(2)),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  uint16_t port[] = {9, 4};
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, nullptr, 2, port, 1), 0);
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, nullptr, 4, port, 1), EINVAL) << "not of the device";
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, mkey, 2, port, 1), EINVAL) << "not of an object";
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, nullptr, 0, port, 1), EINVAL);
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, nullptr, 3, port, 1), EINVAL);
  mlx5dv_devx_destroy_event_channel(channel);
  uint32_t eqn = 0;
  EXPECT_EQ(
      mlx5dv_devx_query_eqn(device.context, static_cast<uint32_t>(device.context->num_comp_vectors), &eqn),
      EINVAL);
  EXPECT_EQ(mlx5dv_devx_query_eqn(device.context, 0, &eqn), 0);
  EXPECT_NE(eqn, 0u);
}

}  // namespace
}  // namespace verbatim::conformance
