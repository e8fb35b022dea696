// SPDX-License-Identifier: MIT
#include "tools/capture/rings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "base/random.h"
#include "wire/link/tap/recorder.h"

namespace verbatim::capture {
namespace {

using wire::tap::Direction;
using wire::tap::kAnyQpn;
using wire::tap::Recorder;

constexpr uint32_t kRingBytes = wire::tap::kRingBytesMin;

struct RingsTest : ::testing::Test {
  std::unique_ptr<Rings> rings = std::move(*Rings::create({kRingBytes, 65535, kAnyQpn}));
  SystemClock clock;

  std::unique_ptr<Recorder> writer(uint32_t slot, const char* device) {
    auto made = std::make_unique<Recorder>(clock);
    made->set_slot(slot);
    made->name_device(0, device);
    EXPECT_TRUE(made->open(fcntl(rings->file(), F_DUPFD_CLOEXEC, 0)));
    return made;
  }
};

void write(Recorder& to, uint8_t what, uint64_t time_ns, size_t bytes = 60) {
  const std::vector<uint8_t> frame(bytes, what);
  to.record_frame(frame, Direction::kOut, 0, time_ns);
}

TEST_F(RingsTest, PutsFramesOfProcessesInOrder) {
  const auto one = writer(1, "mlx5_0"), two = writer(900, "mlx5_1");
  EXPECT_EQ(2u, rings->writers());
  EXPECT_TRUE(rings->writes(1) && rings->writes(900) && !rings->writes(2));
  write(*one, 1, 10);
  write(*one, 3, 30);
  write(*two, 2, 20);
  write(*two, 4, 40);
  const std::vector<Captured> first = rings->take(35), rest = rings->take(UINT64_MAX);
  ASSERT_EQ(3u, first.size());
  for (uint8_t i = 0; i < 3; i++) EXPECT_EQ(i + 1, first[i].frame.bytes[0]);
  EXPECT_EQ("mlx5_1", first[1].device);
  ASSERT_EQ(1u, rest.size());
  EXPECT_EQ(40u, rest[0].frame.time_ns);
  EXPECT_EQ(60u, rest[0].frame.original_bytes);
}

TEST_F(RingsTest, TellsWhatWasLost) {
  const auto one = writer(1, "mlx5_0");
  uint64_t taken = 0;
  for (int i = 0; i < 200; i++) write(*one, 0, 1, 4'000);
  for (int i = 0; i < 50; i++) {
    taken += rings->take(UINT64_MAX).size();
    write(*one, 0, 1, 3'999);
  }
  taken += rings->take(UINT64_MAX).size();
  EXPECT_EQ(250 - taken, rings->losses()["mlx5_0"]);
  EXPECT_GT(taken, 100u);
}

TEST_F(RingsTest, BelievesNoProcess) {
  const auto one = writer(1, "mlx5_0");
  const size_t bytes = wire::tap::kCapturePage + kRingBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rings->file(),
                      static_cast<off_t>(wire::tap::kCapturePage + bytes));
  ASSERT_NE(MAP_FAILED, memory);
  auto* header = static_cast<wire::tap::RingHeader*>(memory);
  auto* ring = static_cast<uint8_t*>(memory) + wire::tap::kCapturePage;
  Random random(9);
  for (int round = 0; round < 2'000; round++) {
    wire::tap::CaptureRecord record{};
    random.fill(&record, sizeof record);
    if (!random.one_in(4)) record.bytes = random.below(1 << 17) & ~7u;
    if (!random.one_in(4)) record.captured = random.below(record.bytes + 1);
    const uint64_t tail = header->tail.load();
    const uint64_t at = tail % kRingBytes;
    std::memcpy(ring + at, &record, std::min<size_t>(sizeof record, kRingBytes - at));
    header->head = random.one_in(3) ? random.next() : tail + random.below(1 << 17);
    for (const Captured& each : rings->take(UINT64_MAX)) ASSERT_LE(each.frame.bytes.size(), kRingBytes);
  }
  munmap(memory, bytes);
}

}  // namespace
}  // namespace verbatim::capture
