// SPDX-License-Identifier: MIT
// librpma on memory of ordinary files: what the other side writes, what it takes to keep it.
#include <sys/mman.h>
#include <unistd.h>

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

  /// What is in the file, past the page cache if the file system lets a program do that.
  std::string stored() const {
    alignas(kBytes) static char page[kBytes];
    int past = open(name_, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (past < 0) past = open(name_, O_RDONLY | O_CLOEXEC);
    ssize_t got = pread(past, page, kBytes, 0);
    if (got < 0) got = pread(file_, page, kBytes, 0);
    close(past);
    EXPECT_EQ(got, ssize_t{kBytes});
    page[kBytes - 1] = '\0';
    return page;
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
  ASSERT_EQ(msync(file.memory(), kBytes, MS_SYNC), 0);
  EXPECT_EQ(rpma_send(pair.passive, nullptr, 0, 0, RPMA_F_COMPLETION_ON_ERROR, nullptr), 0);
  expect_success(active);
  EXPECT_EQ(file.stored(), "for ever");
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
