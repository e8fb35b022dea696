// SPDX-License-Identifier: MIT
// Buffers of the library, files behind them and behind device memory, and DMA handles.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kBytes = 3 * 4096 + 100;

/// Writes `bytes` of the left player's buffer to `address` of a region of the right one.
ibv_wc_status write(Pair& pair, const ibv_mr& mr, uint64_t address, uint8_t value, uint32_t bytes) {
  std::memset(pair.left.buffer.data(), value, bytes);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, bytes);
  wr.wr.rdma = {address, mr.rkey};
  EXPECT_EQ(pair.left.post(wr), 0);
  return pair.left.wait_status();
}

TEST(Buffers, AreRegisteredInParts) {
  Pair pair;
  ibv_buf* buf = nullptr;
  auto* memory = static_cast<uint8_t*>(ibv_alloc_buf(pair.right.pd, kBytes, &buf));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  std::memset(memory, 0, kBytes);
  ibv_mr* mr = ibv_reg_buf_mr(pair.right.pd, buf, memory + 100, 1000, kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory + 100);
  EXPECT_EQ(mr->length, 1000u);
  EXPECT_EQ(write(pair, *mr, reinterpret_cast<uint64_t>(memory + 100), 7, 1000), IBV_WC_SUCCESS);
  EXPECT_EQ(memory[99], 0);
  EXPECT_EQ(memory[100], 7);
  EXPECT_EQ(memory[1099], 7);
  EXPECT_EQ(memory[1100], 0);
  EXPECT_EQ(ibv_export_buf_dmabuf_fd(buf), -1) << "it is ordinary memory";
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_free_buf(buf);
}

TEST(Buffers, RefuseWhatLeavesThem) {
  Endpoint self;
  ibv_buf* buf = nullptr;
  auto* memory = static_cast<uint8_t*>(ibv_alloc_buf(self.pd, kBytes, &buf));
  ASSERT_NE(memory, nullptr);
  const auto error_of = [&](ibv_pd* pd, uint64_t mask, uint8_t* from, size_t bytes) {
    ibv_mr_init_attr wanted{};
    wanted.comp_mask = IBV_REG_MR_MASK_BUF | mask;
    wanted.buf = buf;
    wanted.addr = from;
    wanted.length = bytes;
    wanted.access = kAllRights;
    wanted.fd = -1;
    wanted.iova = reinterpret_cast<uint64_t>(from);
    errno = 0;
    ibv_mr* mr = ibv_reg_mr_ex(pd, &wanted);
    if (mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    return errno;
  };
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR, memory, kBytes), 0);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA, memory, kBytes), 0);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR, memory, kBytes + 1), EINVAL);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR, memory - 1, 10), EINVAL);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR, memory + kBytes - 5, 6), EINVAL);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR, memory + 1, SIZE_MAX), EINVAL);
  EXPECT_EQ(error_of(self.pd, 0, memory, 10), EINVAL) << "where in the buffer?";
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD, memory, 10), EINVAL);
  EXPECT_EQ(error_of(self.pd, IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET, memory, 10), EINVAL);
  ibv_pd* other = ibv_alloc_pd(self.context);
  EXPECT_EQ(error_of(other, IBV_REG_MR_MASK_ADDR, memory, 10), EINVAL) << "another domain";
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  ibv_free_buf(buf);
  EXPECT_EQ(ibv_alloc_buf(self.pd, 0, &buf), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_alloc_buf(self.pd, SIZE_MAX, &buf), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

// What a confidential guest would share with its host lies in a file, which others can map.
TEST(Buffers, OfWillingDomainsAreFiles) {
  Pair pair;
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = pair.right.pd;
  wanted.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
  ibv_pd* parent = ibv_alloc_parent_domain(pair.right.context, &wanted);
  ASSERT_NE(parent, nullptr);
  ibv_buf* buf = nullptr;
  auto* memory = static_cast<uint8_t*>(ibv_alloc_buf(parent, kBytes, &buf));
  ASSERT_NE(memory, nullptr);
  ibv_mr* mr = ibv_reg_buf_mr(parent, buf, memory + 5000, 2000, kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write(pair, *mr, reinterpret_cast<uint64_t>(memory + 5000), 9, 2000), IBV_WC_SUCCESS);
  EXPECT_EQ(memory[4999], 0);
  EXPECT_EQ(memory[5000], 9);
  const int fd = ibv_export_buf_dmabuf_fd(buf);
  ASSERT_GE(fd, 0);
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  uint8_t there = 0;
  EXPECT_EQ(pread(fd, &there, 1, 6999), 1);
  EXPECT_EQ(there, 9);
  ibv_mr_init_attr described{};
  described.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA;
  described.buf = buf;
  described.addr = memory;
  described.length = 10;
  EXPECT_EQ(ibv_reg_mr_ex(parent, &described), nullptr) << "its IOVA is its address";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ibv_free_buf(buf);
  EXPECT_EQ(pread(fd, &there, 1, 5000), 1) << "the caller's descriptor is its own";
  EXPECT_EQ(there, 9);
  close(fd);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(DeviceMemoryFiles, AreTheMemory) {
  Pair pair;
  ibv_alloc_dm_attr wanted{4096, 0, 0};
  ibv_dm* dm = ibv_alloc_dm(pair.right.context, &wanted);
  ASSERT_NE(dm, nullptr);
  const int fd = ibv_dm_export_dmabuf_fd(dm);
  ASSERT_GE(fd, 0);
  uint32_t value = 0x12345678;
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 256, &value, sizeof value), 0);
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* words = static_cast<uint32_t*>(mapped);
  EXPECT_EQ(words[64], 0x12345678u);
  words[65] = 77;
  EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 260, sizeof value), 0);
  EXPECT_EQ(value, 77u);
  // As any other DMA-buf.
  ibv_mr* mr = ibv_reg_dmabuf_mr(pair.right.pd, 0, 4096, 0, fd, kAllRights);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write(pair, *mr, 1024, 0x55, 64), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 1024, sizeof value), 0);
  EXPECT_EQ(value, 0x55555555u);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(words[65], 77u) << "the descriptor keeps the memory";
  EXPECT_NE(ftruncate(fd, 0), 0) << "nobody takes it away from the device";
  munmap(mapped, 4096);
  close(fd);
}

TEST(DmaHandles, GoWithRegions) {
  Pair pair;
  ibv_dmah_init_attr hints{};
  hints.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH;
  hints.ph = 2;
  ibv_dmah* handle = ibv_alloc_dmah(pair.right.context, &hints);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(handle->context, pair.right.context);
  ibv_mr_init_attr wanted{};
  wanted.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH;
  wanted.addr = pair.right.buffer.data();
  wanted.length = 4096;
  wanted.access = kAllRights;
  wanted.dmah = handle;
  ibv_mr* mr = ibv_reg_mr_ex(pair.right.pd, &wanted);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_dmah(handle), EBUSY);
  ibv_mr_init_attr wrong = wanted;
  wrong.access |= IBV_ACCESS_ON_DEMAND;
  EXPECT_EQ(ibv_reg_mr_ex(pair.right.pd, &wrong), nullptr) << "on demand";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr_ex(pair.left.pd, &wanted), nullptr) << "of another context";
  EXPECT_EQ(errno, EINVAL);
  wrong = wanted;
  wrong.dmah = nullptr;
  EXPECT_EQ(ibv_reg_mr_ex(pair.right.pd, &wrong), nullptr) << "no handle";
  EXPECT_EQ(errno, EINVAL);
  wrong.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF;
  EXPECT_EQ(ibv_reg_mr_ex(pair.right.pd, &wrong), nullptr) << "no buffer";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(write(pair, *mr, reinterpret_cast<uint64_t>(pair.right.buffer.data()), 3, 64), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.buffer[63], 3);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_dmah(handle), 0);
}

TEST(DmaHandles, AreRefusedWithAReason) {
  Endpoint self;
  const auto error_of = [&](uint32_t mask, uint8_t ph, uint32_t cpu, uint8_t kind) {
    ibv_dmah_init_attr hints{mask, cpu, ph, kind};
    errno = 0;
    ibv_dmah* handle = ibv_alloc_dmah(self.context, &hints);
    if (handle != nullptr) {
      EXPECT_EQ(ibv_dealloc_dmah(handle), 0);
    }
    return errno;
  };
  constexpr uint32_t kPh = IBV_DMAH_INIT_ATTR_MASK_PH, kCpu = IBV_DMAH_INIT_ATTR_MASK_CPU_ID,
                     kType = IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  uint32_t cpu = 0;
  while (!CPU_ISSET(cpu, &mine)) cpu++;
  EXPECT_EQ(error_of(kPh | kCpu | kType, 0, cpu, IBV_TPH_MEM_TYPE_PM), 0);
  EXPECT_EQ(error_of(0, 0, 0, 0), EINVAL) << "without a hint";
  EXPECT_EQ(error_of(kPh, 4, 0, 0), EINVAL);
  EXPECT_EQ(error_of(kPh | kCpu, 0, cpu, 0), EINVAL) << "half a target";
  EXPECT_EQ(error_of(kPh | kType, 0, 0, 0), EINVAL);
  EXPECT_EQ(error_of(kPh | kCpu | kType, 0, 1u << 20, 0), EINVAL) << "no such processor";
  EXPECT_EQ(error_of(kPh | kCpu | kType, 0, cpu, 2), EINVAL);
  EXPECT_EQ(error_of(kPh | 1u << 30, 0, 0, 0), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::conformance
