// SPDX-License-Identifier: MIT
// Receive queues whose entries are cut into strides: frames lie one behind the other in an entry, and
// completions say where, in the fields that programs read which drive the queue themselves.
#include <random>

#include "tests/conformance/one_queue.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 5, 5, 5, 5, 5};
constexpr uint8_t kUntouched = 0xee;
constexpr uint32_t kFiller = 1u << 31;

uint32_t get(const uint8_t* at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
  return value;
}

/// What a completion says.
struct Told {
  uint32_t bytes, used;
  bool filler;
  uint32_t stride, entry;
};
Told told_at(ibv_cq* cq, uint32_t index) {
  const uint8_t* cqe = completion_at(cq, index);
  const uint32_t count = get(cqe + 44, 4);
  return {count & 0xffff, count >> 16 & 0x7fff, (count & kFiller) != 0, get(cqe + 60, 2), get(cqe + 2, 2)};
}

struct Shape {
  uint8_t log_stride, log_strides, padded;
  uint32_t entries;
};

std::vector<uint8_t> frame_of_size(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> frame = frame_of({.to = kTo, .network = 0, .payload = bytes - 14});
  for (size_t i = 14; i < bytes; i++) frame[i] = static_cast<uint8_t>(seed * 7 + i * 3 + (i >> 8));
  return frame;
}

/// A queue of that shape, all of whose memory is compared with what it should be.
class Strides : public testing::TestWithParam<Shape> {
 protected:
  Strides() {
    EXPECT_EQ(sender_.connect({}), 0);
    const Shape& shape = GetParam();
    attributes_ = {shape.log_stride, shape.log_strides, shape.padded};
    queue_ = std::make_unique<OneQueue>(receiver_, kTo,
                                        OneQueue::Options{.max_wr = shape.entries, .strides = &attributes_});
    std::fill(receiver_.buffer.begin(), receiver_.buffer.end(), kUntouched);
    expected_ = receiver_.buffer;
    for (uint32_t i = 0; i < shape.entries; i++) EXPECT_EQ(post(i), 0);
  }
  size_t stride() const { return size_t{1} << GetParam().log_stride; }
  uint32_t strides() const { return 1u << GetParam().log_strides; }
  size_t entry_bytes() const { return stride() * strides(); }
  size_t place(uint32_t entry) const { return entry % GetParam().entries * entry_bytes(); }
  int post(uint32_t entry) { return queue_->post(entry, place(entry), entry_bytes()); }
  /// The next completion, of which the entry tells as programs read it; verbs give the same number.
  Told next() {
    const ibv_wc wc = queue_->wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    const Told told = told_at(queue_->cq, completions_++);
    EXPECT_EQ(wc.wr_id, told.entry);
    EXPECT_EQ(wc.byte_len, told.bytes | told.used << 16 | (told.filler ? kFiller : 0));
    return told;
  }
  /// Sends a frame, and expects it where it belongs; the frames before have used `used_` strides of `entry_`.
  void pass(const std::vector<uint8_t>& frame) {
    const size_t padding = GetParam().padded != 0 ? 2 : 0;
    const auto need = static_cast<uint32_t>((frame.size() + padding + stride() - 1) / stride());
    send(sender_, frame);
    if (used_ + need > strides()) {
      const Told filler = next();
      EXPECT_TRUE(filler.filler);
      EXPECT_EQ(filler.used, strides() - used_);
      EXPECT_EQ(filler.entry, entry_ & 0xffff);
      fillers_++;
      leave_entry();
    }
    const Told told = next();
    EXPECT_FALSE(told.filler);
    EXPECT_EQ(told.bytes, frame.size());
    EXPECT_EQ(told.used, need);
    EXPECT_EQ(told.stride, used_);
    EXPECT_EQ(told.entry, entry_ & 0xffff);
    const size_t at = place(entry_) + used_ * stride();
    std::fill_n(expected_.begin() + static_cast<ptrdiff_t>(at), padding, uint8_t{0});
    std::copy(frame.begin(), frame.end(), expected_.begin() + static_cast<ptrdiff_t>(at + padding));
    EXPECT_TRUE(expected_ == receiver_.buffer)
        << "a frame of " << frame.size() << " bytes at stride " << used_ << " of entry " << entry_;
    used_ += need;
    if (used_ == strides()) leave_entry();
  }
  /// It is posted again.
  void leave_entry() {
    EXPECT_EQ(post(entry_ + GetParam().entries), 0);
    entry_++;
    used_ = 0;
  }

  Endpoint sender_{kFrames}, receiver_{kFrames};
  mlx5dv_striding_rq_init_attr attributes_{};
  std::unique_ptr<OneQueue> queue_;
  std::vector<uint8_t> expected_;
  uint32_t completions_ = 0, entry_ = 0, used_ = 0, fillers_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Shapes, Strides,
                         testing::Values(Shape{6, 3, 0, 4}, Shape{6, 3, 1, 4}, Shape{8, 4, 0, 2},
                                         Shape{11, 3, 1, 2}, Shape{6, 9, 0, 2}),
                         [](const auto& shape) {
                           const Shape& s = shape.param;
                           return std::to_string(1u << s.log_strides) + "Of" +
                                  std::to_string(1u << s.log_stride) + (s.padded != 0 ? "Padded" : "");
                         });

TEST_P(Strides, TakeFramesOfAllSizes) {
  std::mt19937 random(7);
  const size_t most = std::min<size_t>(entry_bytes() - 2, 4000);
  for (uint32_t i = 0; i < 400 && !HasFailure(); i++) pass(frame_of_size(14 + random() % (most - 13), i));
  EXPECT_GT(fillers_, 0u);
  EXPECT_GT(entry_, GetParam().entries) << "around the queue";
}

TEST_P(Strides, AreUsedUpToTheLastByte) {
  const size_t padding = GetParam().padded != 0 ? 2 : 0;
  for (size_t strides = 1; strides <= 4; strides *= 2)
    for (const size_t more : {0u, 1u}) pass(frame_of_size(strides * stride() - padding + more, 3));
}

TEST_P(Strides, AnEntryIsFreeWhenAllOfItIsUsed) {
  EXPECT_EQ(post(99), ENOMEM);
  const std::vector<uint8_t> frame = frame_of_size(60, 1);
  for (uint32_t i = 0; i + 1 < strides(); i++) {
    send(sender_, frame);
    EXPECT_EQ(next().stride, i);
  }
  EXPECT_EQ(post(99), ENOMEM);
  send(sender_, frame);
  EXPECT_EQ(next().stride, strides() - 1);
  EXPECT_EQ(post(GetParam().entries), 0);
}

class StridesOnce : public Strides {};
INSTANTIATE_TEST_SUITE_P(One, StridesOnce, testing::Values(Shape{6, 3, 0, 4}));

TEST_P(StridesOnce, WithoutAnEntryFramesAreLost) {
  const std::vector<uint8_t> whole = frame_of_size(entry_bytes(), 5), small = frame_of_size(20, 6);
  for (uint32_t i = 0; i < GetParam().entries; i++) {
    send(sender_, whole);
    EXPECT_EQ(next().used, strides());
  }
  send(sender_, small);
  EXPECT_TRUE(queue_->quiet());
  EXPECT_EQ(post(GetParam().entries), 0);
  EXPECT_TRUE(queue_->quiet());
  send(sender_, small);
  EXPECT_EQ(next().entry, GetParam().entries);
}

TEST_P(StridesOnce, FailByAFrameThatNoEntryHolds) {
  send(sender_, frame_of_size(entry_bytes() + 1, 5));
  EXPECT_EQ(queue_->wait().status, IBV_WC_LOC_LEN_ERR);
  for (uint32_t i = 1; i < GetParam().entries; i++) {
    const ibv_wc wc = queue_->wait();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, i);
  }
  EXPECT_TRUE(queue_->quiet());
}

TEST_P(StridesOnce, BeginAgainAfterAReset) {
  send(sender_, frame_of_size(100, 5));
  EXPECT_EQ(next().used, 2u);
  ASSERT_EQ(queue_->move(IBV_WQS_RESET), 0);
  ASSERT_EQ(queue_->move(IBV_WQS_RDY), 0);
  for (uint32_t i = 0; i < GetParam().entries; i++) EXPECT_EQ(post(i), 0);
  send(sender_, frame_of_size(100, 6));
  const Told told = next();
  EXPECT_EQ(told.entry, 0u);
  EXPECT_EQ(told.stride, 0u);
}

/// A queue with strides whose frames are hashed, and wait.
TEST(StridesWithOthers, TellTheHashAndDelayDrops) {
  Endpoint sender{kFrames}, receiver{kFrames};
  ASSERT_EQ(sender.connect({}), 0);
  const mlx5dv_striding_rq_init_attr strides{6, 3, 0};
  OneQueue queue(receiver, kTo,
                 {.flags = IBV_WQ_FLAGS_DELAY_DROP, .strides = &strides, .fields = IBV_RX_HASH_SRC_IPV4});
  const std::vector<uint8_t> frame = frame_of({.to = kTo, .payload = 100});
  for (int i = 0; i < 4; i++) send(sender, frame);
  EXPECT_TRUE(queue.quiet());
  for (uint64_t i = 0; i < 2; i++) EXPECT_EQ(queue.post(i, i * 512, 512), 0);
  const uint32_t strides_of_it = static_cast<uint32_t>((frame.size() + 63) / 64);
  uint32_t entry = 0, used = 0, completions = 0;
  for (int i = 0; i < 4; i++) {
    if (used + strides_of_it > 8) {
      (void)queue.wait();
      EXPECT_TRUE(told_at(queue.cq, completions++).filler);
      entry++;
      used = 0;
    }
    (void)queue.wait();
    EXPECT_NE(get(completion_at(queue.cq, completions) + 12, 4), 0u) << "the hash";
    const Told told = told_at(queue.cq, completions++);
    EXPECT_EQ(told.bytes, frame.size());
    EXPECT_EQ(told.entry, entry);
    EXPECT_EQ(told.stride, used);
    EXPECT_TRUE(lies_at(receiver, entry * 512 + used * 64, frame));
    used += strides_of_it;
  }
}

}  // namespace
}  // namespace verbatim::conformance
