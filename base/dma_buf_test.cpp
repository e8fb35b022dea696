// SPDX-License-Identifier: MIT
#include "base/dma_buf.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#if __has_include(<linux/udmabuf.h>)
#include <linux/udmabuf.h>
#endif

namespace verbatim {
namespace {

constexpr size_t kBytes = 16384;

class DmaBufs : public testing::Test {
 protected:
  void SetUp() override {
    file_ = memfd_create("dma-buf test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_GE(file_, 0);
    ASSERT_EQ(ftruncate(file_, kBytes), 0);
  }
  void TearDown() override { close(file_); }
  int file_ = -1;
};

TEST_F(DmaBufs, SharedMemoryIsMappedAnywhere) {
  auto made = DmaBuf::map(file_, 4100, 8000, true);
  ASSERT_TRUE(made) << made.error().reason;
  std::memset(made->base(), 0x5a, 8000);
  uint8_t got[2] = {};
  ASSERT_EQ(pread(file_, got, 1, 4099), 1);
  EXPECT_EQ(got[0], 0);
  ASSERT_EQ(pread(file_, got, 2, 4100 + 7999), 2);
  EXPECT_EQ(got[0], 0x5a);
  EXPECT_EQ(got[1], 0);
  const DmaBuf moved = std::move(*made);
  EXPECT_EQ(*moved.base(), std::byte{0x5a});
}

TEST_F(DmaBufs, OthersAreRefused) {
  EXPECT_EQ(DmaBuf::map(-1, 0, 1, false).error().code, EBADF);
  EXPECT_EQ(DmaBuf::map(file_, 0, 0, false).error().code, EINVAL);
  EXPECT_EQ(DmaBuf::map(file_, 0, kBytes + 1, false).error().code, EINVAL);
  EXPECT_EQ(DmaBuf::map(file_, kBytes + 1, UINT64_MAX, false).error().code, EINVAL);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(DmaBuf::map(ends[0], 0, 1, false).error().code, EINVAL);
  close(ends[0]);
  close(ends[1]);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(DmaBuf::map(null, 0, 1, false).error().code, EOPNOTSUPP) << "a device that nobody can map";
  close(null);
}

TEST_F(DmaBufs, FilesAndDevicesServeAsWell) {
  const int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto mapped = DmaBuf::map(program, 1, 3, false);
  ASSERT_TRUE(mapped) << mapped.error().reason;
  EXPECT_EQ(std::memcmp(mapped->base(), "ELF", 3), 0);
  EXPECT_EQ(DmaBuf::map(program, 0, 1, true).error().code, EACCES);
  close(program);
  const int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
  mapped = DmaBuf::map(zero, 0, 4096, true);
  ASSERT_TRUE(mapped) << mapped.error().reason;
  *mapped->base() = std::byte{5};
  EXPECT_EQ(*mapped->base(), std::byte{5});
  close(zero);
}

TEST_F(DmaBufs, RightsAreTheFiles) {
  ASSERT_EQ(fcntl(file_, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(DmaBuf::map(file_, 0, 1, true).error().code, EPERM);
  EXPECT_TRUE(DmaBuf::map(file_, 0, 1, false));
}

#if __has_include(<linux/udmabuf.h>)
TEST_F(DmaBufs, OfADriver) {
  const int driver = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (driver < 0) GTEST_SKIP() << "no udmabuf here";
  ASSERT_EQ(fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  udmabuf_create wanted{static_cast<uint32_t>(file_), UDMABUF_FLAGS_CLOEXEC, 0, kBytes};
  const int made = ioctl(driver, UDMABUF_CREATE, &wanted);
  close(driver);
  ASSERT_GE(made, 0);
  auto mapped = DmaBuf::map(made, 100, 100, true);
  ASSERT_TRUE(mapped) << mapped.error().reason;
  *mapped->base() = std::byte{9};
  uint8_t got = 0;
  ASSERT_EQ(pread(file_, &got, 1, 100), 1);
  EXPECT_EQ(got, 9);
  EXPECT_EQ(DmaBuf::map(made, 0, kBytes + 1, false).error().code, EINVAL);
  close(made);
}
#endif

}  // namespace
}  // namespace verbatim
