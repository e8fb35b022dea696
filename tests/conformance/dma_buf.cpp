// SPDX-License-Identifier: MIT
// DMA-bufs, for which files of shared memory stand here: registered, reached by peers, named by commands, and
// by way of a Data Direct function.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kBytes = 16384;

/// A file of zeros that a driver of another device might have handed out.
class File {
 public:
  File() : fd(memfd_create("dma-buf", MFD_CLOEXEC)) { EXPECT_EQ(ftruncate(fd, kBytes), 0); }
  ~File() { close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int fd;
};

/// Writes 64 bytes of the left player's buffer into the right one's region at `address`.
void write(Pair& pair, const ibv_mr& mr, uint64_t address, uint8_t value) {
  std::memset(pair.left.buffer.data(), value, 64);
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 64);
  wr.wr.rdma = {address, mr.rkey};
  ASSERT_EQ(pair.left.post(wr), 0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
}

int byte_at(const File& file, off_t offset) {
  uint8_t got = 0;
  EXPECT_EQ(pread(file.fd, &got, 1, offset), 1);
  return got;
}

TEST(DmaBufRegions, TakeWhatPeersWrite) {
  Pair pair;
  const File file;
  const int other = dup(file.fd);
  ibv_mr* mr = ibv_reg_dmabuf_mr(pair.right.pd, 4096 + 64, 8192, 0x1234'5000 + 64, other, kAllRights);
  ASSERT_NE(mr, nullptr);
  close(other);  // the region keeps what it needs
  EXPECT_EQ(mr->length, 8192u);
  EXPECT_EQ(reinterpret_cast<uint64_t>(mr->addr), 4096u + 64) << "the offset";
  write(pair, *mr, 0x1234'5000 + 64, 0x11);
  write(pair, *mr, 0x1234'5000 + 8192, 0x22);
  EXPECT_EQ(byte_at(file, 4096 + 63), 0);
  EXPECT_EQ(byte_at(file, 4096 + 64), 0x11);
  EXPECT_EQ(byte_at(file, 4096 + 8192 + 63), 0x22);
  EXPECT_EQ(byte_at(file, 4096 + 8192 + 64), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pair.right.buffer.data(), 64, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(DmaBufRegions, AreRefusedWithAReason) {
  Endpoint self;
  const File file;
  const auto error_of = [&](uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_dmabuf_mr(self.pd, offset, length, iova, fd, access);
    if (mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    return errno;
  };
  EXPECT_EQ(error_of(0, kBytes, 0, file.fd, kAllRights), 0);
  EXPECT_EQ(error_of(0, kBytes, 0, -1, kAllRights), EBADF);
  EXPECT_EQ(error_of(0, kBytes, 0, 0x7fff'fff0, kAllRights), EBADF);
  EXPECT_EQ(error_of(0, 64, 0, self.context->async_fd, kAllRights), EINVAL) << "no DMA-buf";
  EXPECT_EQ(error_of(0, kBytes + 1, 0, file.fd, kAllRights), EINVAL);
  EXPECT_EQ(error_of(UINT64_MAX - 4095, 4096, 0, file.fd, kAllRights), EINVAL);
  EXPECT_EQ(error_of(0, 0, 0, file.fd, kAllRights), EINVAL);
  EXPECT_EQ(error_of(64, 64, 0, file.fd, kAllRights), EINVAL) << "another place in the page";
  EXPECT_EQ(error_of(0, 64, 0, file.fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(error_of(0, 64, 0, file.fd, IBV_ACCESS_ON_DEMAND), EINVAL);
}

TEST(DmaBufRegions, AsDescribed) {
  Pair pair;
  const File file;
  ibv_mr_init_attr wanted{};
  wanted.length = 4096;
  wanted.access = kAllRights;
  wanted.fd = file.fd;
  wanted.fd_offset = 8192;
  wanted.comp_mask = IBV_REG_MR_MASK_FD;
  EXPECT_EQ(ibv_reg_mr_ex(pair.right.pd, &wanted), nullptr) << "where in the file?";
  EXPECT_EQ(errno, EINVAL);
  wanted.comp_mask |= IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_ADDR;
  EXPECT_EQ(ibv_reg_mr_ex(pair.right.pd, &wanted), nullptr) << "which of the two?";
  EXPECT_EQ(errno, EINVAL);
  wanted.comp_mask &= ~uint64_t{IBV_REG_MR_MASK_ADDR};
  ibv_mr* mr = ibv_reg_mr_ex(pair.right.pd, &wanted);
  ASSERT_NE(mr, nullptr);
  write(pair, *mr, 0, 0x33);
  EXPECT_EQ(byte_at(file, 8192), 0x33);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// What is gone from the file is an error of the work request, not of the program.
TEST(DmaBufRegions, OfAFileCutShort) {
  Pair pair;
  const File file;
  ibv_mr* mr = ibv_reg_dmabuf_mr(pair.left.pd, 0, kBytes, 0, file.fd, kAllRights);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(ftruncate(file.fd, 0), 0);
  ibv_sge from{0, 64, mr->lkey};
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 64), *bad = nullptr;
  wr.sg_list = &from;
  ASSERT_EQ(ibv_post_send(pair.left.qp, &wr, &bad), 0);
  EXPECT_NE(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(DmaBufRegions, UmemsOfCommands) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_GT(count, 0);
  mlx5dv_context_attr attributes{MLX5DV_CONTEXT_FLAGS_DEVX, 0, nullptr};
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  const File file;
  mlx5dv_devx_umem_in wanted{reinterpret_cast<void*>(4096), 8192,   IBV_ACCESS_LOCAL_WRITE, ~0ull,
                             MLX5DV_UMEM_MASK_DMABUF,       file.fd};
  mlx5dv_devx_umem* umem = mlx5dv_devx_umem_reg_ex(context, &wanted);
  ASSERT_NE(umem, nullptr);
  EXPECT_NE(umem->umem_id, 0u);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
  wanted.size = kBytes;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context, &wanted), nullptr) << "beyond the end";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(DataDirect, IsNotThereByDefault) {
  Endpoint self;
  const File file;
  char path[64];
  EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, sizeof path), ENODEV);
  EXPECT_EQ(
      mlx5dv_reg_dmabuf_mr(self.pd, 0, 4096, 0, file.fd, kAllRights, MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT),
      nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mlx5dv_reg_dmabuf_mr(self.pd, 0, 4096, 0, file.fd, kAllRights, 1 << 20), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mr* mr = mlx5dv_reg_dmabuf_mr(self.pd, 0, 4096, 0, file.fd, kAllRights, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(DataDirect, HasAPathWhereConfigured) {
  with_devices("mlx5_0:mlx5:data-direct", [] {
    Endpoint self;
    char path[256];
    std::memset(path, 'x', sizeof path);
    ASSERT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, sizeof path), 0);
    const size_t length = strnlen(path, sizeof path);
    EXPECT_EQ(std::string(path).rfind("/devices/pci", 0), 0u) << path;
    EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, length), ENOSPC);
    EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, 5), ENOSPC);
    EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path(self.context, path, length + 1), 0);
    // The same function in what stands in for /sys.
    const std::string device = self.context->device->ibdev_path;
    const std::string root = device.substr(0, device.find("/class/"));
    EXPECT_EQ(access((root + path + "/vendor").c_str(), R_OK), 0) << root << path;
    const File file;
    ibv_mr* mr =
        mlx5dv_reg_dmabuf_mr(self.pd, 0, 4096, 0, file.fd, kAllRights, MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  });
}

}  // namespace
}  // namespace verbatim::conformance
