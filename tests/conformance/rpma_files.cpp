// SPDX-License-Identifier: MIT
// librpma on memory of ordinary files: what the other side writes, what it takes to keep it.
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/conformance/rpma_ends.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kBytes = 4096;

/// A file of one page in the working folder, mapped.
class File {
 public:
  explicit File(int protection = PROT_READ | PROT_WRITE) {
    file_ = mkstemp(name_);
    EXPECT_GE(file_, 0) << strerror(errno);
    EXPECT_EQ(ftruncate(file_, kBytes), 0);
    memory_ = static_cast<char*>(mmap(nullptr, kBytes, protection, MAP_SHARED, file_, 0));
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~File() {
    munmap(memory_, kBytes);
    close(file_);
    unlink(name_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  char* memory() const { return memory_; }
  void put(const char* text) const {
    EXPECT_EQ(pwrite(file_, text, strlen(text) + 1, 0), ssize_t(strlen(text) + 1));
  }

  std::string stored() const {
    char page[kBytes] = "";
    EXPECT_EQ(pread(file_, page, kBytes, 0), ssize_t{kBytes});
    return page;
  }
  /// Whether the kernel has yet to write what is in the page. A file system in memory never writes.
  bool is_kept_in_memory() const {
    struct statfs of {};
    return fstatfs(file_, &of) == 0 && of.f_type == TMPFS_MAGIC;
  }
  bool is_dirty() const {
    std::ifstream mappings("/proc/self/smaps");
    const auto at = reinterpret_cast<uintptr_t>(memory_);
    bool here = false;
    long dirty_kib = 0;
    for (std::string line; std::getline(mappings, line);) {
      uintptr_t start = 0, end = 0;
      char dash = 0;
      std::istringstream range(line);
      if (range >> std::hex >> start >> dash >> end && dash == '-') here = start <= at && at < end;
      if (here && line.find("_Dirty:") != std::string::npos)
        dirty_kib += std::stol(line.substr(line.find(':') + 1));
    }
    return dirty_kib > 0;
  }

 private:
  char name_[16] = "rpma_fileXXXXXX";
  int file_ = -1;
  char* memory_ = nullptr;
};

/// A registration of a file's memory and what the other side makes of its descriptor.
struct FileMemory {
  FileMemory(rpma_peer* peer, const File& file, int usage) {
    EXPECT_EQ(rpma_mr_reg(peer, file.memory(), kBytes, usage, &local), 0);
    char descriptor[21];
    EXPECT_EQ(rpma_mr_get_descriptor(local, descriptor), 0);
    EXPECT_EQ(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote), 0);
  }
  ~FileMemory() {
    EXPECT_EQ(rpma_mr_remote_delete(&remote), 0);
    EXPECT_EQ(rpma_mr_dereg(&local), 0);
  }
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  rpma_mr_local* local = nullptr;
  rpma_mr_remote* remote = nullptr;
};

void expect_success(rpma_cq* cq) {
  EXPECT_STREQ(ibv_wc_status_str(next_completion(cq).status), ibv_wc_status_str(IBV_WC_SUCCESS));
}

// Writes, and asks the other side by a message to make them persistent.
TEST(RpmaFiles, KeepWhatWasMadePersistent) {
  const File file;
  const Peer peer;
  const Pair pair(peer);
  const FileMemory there(peer, file, RPMA_MR_USAGE_WRITE_DST);
  Memory here(peer);
  rpma_cq *active = queue_of(pair.active), *passive = queue_of(pair.passive);
  here.write("for ever");
  EXPECT_EQ(rpma_recv(pair.passive, nullptr, 0, 0, nullptr), 0);
  EXPECT_EQ(rpma_recv(pair.active, nullptr, 0, 0, nullptr), 0);
  EXPECT_EQ(rpma_write(pair.active, there.remote, 0, here.local, 0, 9, RPMA_F_COMPLETION_ON_ERROR, nullptr),
            0);
  EXPECT_EQ(rpma_send(pair.active, nullptr, 0, 0, RPMA_F_COMPLETION_ON_ERROR, nullptr), 0);
  expect_success(passive);
  EXPECT_TRUE(file.is_dirty());
  ASSERT_EQ(msync(file.memory(), kBytes, MS_SYNC), 0);
  EXPECT_EQ(rpma_send(pair.passive, nullptr, 0, 0, RPMA_F_COMPLETION_ON_ERROR, nullptr), 0);
  expect_success(active);
  EXPECT_EQ(file.stored(), "for ever");
  EXPECT_TRUE(!file.is_dirty() || file.is_kept_in_memory());
}

// A device that flushes by itself does it without the other side's program.
TEST(RpmaFiles, KeepWhatADeviceFlushed) {
  const File file;
  const Peer peer;
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(peer.device, nullptr, &attributes), 0);
  const bool flushes = (attributes.device_cap_flags_ex >> 38 & 3) == 3;
  const Pair pair(peer);
  const FileMemory there(peer, file, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
  rpma_peer_cfg* cfg = nullptr;
  ASSERT_EQ(rpma_peer_cfg_new(&cfg), 0);
  ASSERT_EQ(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true), 0);
  EXPECT_EQ(rpma_conn_apply_remote_peer_cfg(pair.active, cfg), 0);
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
  Memory here(peer);
  here.write("flushed");
  EXPECT_EQ(rpma_write(pair.active, there.remote, 0, here.local, 0, 8, RPMA_F_COMPLETION_ON_ERROR, nullptr),
            0);
  EXPECT_EQ(rpma_flush(pair.active, there.remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS,
                       nullptr),
            0);
  expect_success(queue_of(pair.active));
  EXPECT_EQ(file.stored(), "flushed");
  EXPECT_TRUE(!flushes || !file.is_dirty() || file.is_kept_in_memory());
}

TEST(RpmaFiles, ThatAreMappedForReadingAreRead) {
  const Log log;
  const File file(PROT_READ);
  const Peer peer;
  const Pair pair(peer);
  const FileMemory there(peer, file, RPMA_MR_USAGE_READ_SRC);
  const Memory here(peer);
  file.put("as it is");
  EXPECT_EQ(rpma_read(pair.active, here.local, 0, there.remote, 0, 9, RPMA_F_COMPLETION_ALWAYS, nullptr), 0);
  expect_success(queue_of(pair.active));
  EXPECT_EQ(here.text(), "as it is");
  rpma_mr_local* none = nullptr;
  EXPECT_REFUSED(rpma_mr_reg(peer, file.memory(), kBytes, RPMA_MR_USAGE_WRITE_DST, &none), RPMA_E_PROVIDER,
                 "ibv_reg_mr failed: Bad address");
}

// Two programs' mappings of a file are the same memory.
TEST(RpmaFiles, ShowOtherMappingsWhatIsVisible) {
  const File file;
  const Peer peer;
  const Pair pair(peer);
  const FileMemory there(peer, file, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
  Memory here(peer);
  here.write("seen");
  EXPECT_EQ(rpma_write(pair.active, there.remote, 0, here.local, 0, 5, RPMA_F_COMPLETION_ON_ERROR, nullptr),
            0);
  EXPECT_EQ(rpma_flush(pair.active, there.remote, 0, 5, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                       nullptr),
            0);
  expect_success(queue_of(pair.active));
  EXPECT_EQ(file.stored(), "seen");
}

}  // namespace
}  // namespace verbatim::conformance
