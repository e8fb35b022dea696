// SPDX-License-Identifier: MIT
// Clients that do not keep to the rules: the agent refuses, and goes on serving the others.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "agent/test_member.h"
#include "engine/published.h"

namespace verbatim::agent {
namespace {

/// A client of the agent that says what it likes.
class Stranger {
 public:
  explicit Stranger(const std::string& name) {
    socket_ = connect_name(name, 3000);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, notices_) != 0) notices_[0] = notices_[1] = -1;
  }
  ~Stranger() { close_files(all_, 3); }
  int socket() const { return socket_; }
  int notices() const { return notices_[1]; }

  /// The error of the answer, 0 for none, -1 when the agent hangs up.
  int ask(Ask what, std::vector<int> files, uint32_t slot = 0, uint64_t generation = 0) {
    Request request{};
    request.version = kVersion;
    request.ask = what;
    request.slot = slot;
    request.generation = generation;
    std::memset(request.program, 'x', sizeof request.program);
    if (!send_record(socket_, &request, sizeof request, files.data(), static_cast<int>(files.size())))
      return -1;
    int came[kFilesMax], count = 0;
    const Received got = receive_record(socket_, &answer_, sizeof answer_, came, count);
    close_files(came, count);
    return got == Received::kRecord ? answer_.error : -1;
  }
  const Answer& answer() const { return answer_; }

 private:
  int all_[3] = {-1, -1, -1};
  int& socket_ = all_[0];
  int* const notices_ = all_ + 1;
  Answer answer_{};
};

int memory_file(unsigned seals) {
  const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (ftruncate(file, 1 << 16) != 0 || fcntl(file, F_ADD_SEALS, seals) != 0) return -1;
  return file;
}

class HostileTest : public AgentTest {
 protected:
  static constexpr unsigned kSize = F_SEAL_SHRINK | F_SEAL_GROW;
  void SetUp() override {
    AgentTest::SetUp();
    files_ = {memory_file(kSize | F_SEAL_FUTURE_WRITE), memory_file(kSize), eventfd(0, EFD_CLOEXEC)};
  }
  void TearDown() override {
    close_files(files_.data(), static_cast<int>(files_.size()));
    AgentTest::TearDown();
  }
  std::vector<int> with(std::vector<int> files, int notices) const {
    files.push_back(notices);
    return files;
  }
  std::vector<int> files_;
};

TEST_F(HostileTest, JoiningTakesSealedMemory) {
  Member honest;
  ASSERT_TRUE(honest.client);
  const int open_memory = memory_file(0), null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const auto [published, inbound, wake] = std::tuple(files_[0], files_[1], files_[2]);
  Stranger stranger(name_);
  const int n = stranger.notices();
  for (const std::vector<int>& wrong : {std::vector<int>{},
                                        {published, inbound, wake},
                                        {open_memory, inbound, wake, n},
                                        {inbound, inbound, wake, n},
                                        {published, open_memory, wake, n},
                                        {null, inbound, wake, n},
                                        {published, inbound, null, n},
                                        {published, inbound, n, wake},
                                        {published, inbound, wake, null}})
    EXPECT_EQ(EINVAL, stranger.ask(Ask::kJoin, wrong)) << wrong.size();
  EXPECT_EQ(EPERM, stranger.ask(Ask::kIntroduce, {}, honest.client->slot()));
  EXPECT_EQ(EPERM, stranger.ask(Ask::kExtraSlot, {}));
  EXPECT_EQ(0, stranger.ask(Ask::kJoin, with(files_, n)));
  EXPECT_NE(0u, honest.client->slot_generation(stranger.answer().slot));
  EXPECT_EQ(EALREADY, stranger.ask(Ask::kJoin, with(files_, n)));
  close(open_memory);
  close(null);
}

TEST_F(HostileTest, NobodyGetsASlotThatIsNotTheirs) {
  Member honest;
  const uint32_t slot = honest.client->slot();
  const uint64_t generation = honest.client->generation();
  kill_agent();
  Member other;  // starts the next agent, which has not met `honest`
  Stranger thief(name_);
  std::vector<int> claim = with(files_, thief.notices());
  EXPECT_EQ(EINVAL, thief.ask(Ask::kJoin, claim, slot, generation)) << "no proof";
  claim.push_back(files_[2]);
  EXPECT_EQ(EPERM, thief.ask(Ask::kJoin, claim, slot, generation)) << "no such proof";
  const int another = bind_name(slot_name(name_, 999), SOCK_DGRAM);
  claim.back() = another;
  EXPECT_EQ(EPERM, thief.ask(Ask::kJoin, claim, slot, generation)) << "another slot's";
  EXPECT_EQ(EINVAL, thief.ask(Ask::kJoin, claim, 999, UINT64_MAX));
  close(another);
  Notices notices;
  honest.client->handle_notices(notices);
  EXPECT_EQ(generation, other.client->slot_generation(slot));
}

TEST_F(HostileTest, NobodyTakesAllSlots) {
  Member honest;
  Stranger greedy(name_);
  ASSERT_EQ(0, greedy.ask(Ask::kJoin, with(files_, greedy.notices())));
  int had = 0;
  while (greedy.ask(Ask::kExtraSlot, {}) == 0 && had < 2000) had++;
  EXPECT_LT(had, 20);
  EXPECT_EQ(ENOSPC, greedy.answer().error);
  EXPECT_EQ(EPERM, greedy.ask(Ask::kExtraSlot, {}, 77)) << "a slot that it never had";
  EXPECT_TRUE(honest.client->extra_slot());
}

TEST_F(HostileTest, NonsenseEndsTheConnectionOnly) {
  Member a;
  ASSERT_TRUE(a.client);
  std::mt19937 random(7);
  for (int i = 0; i < 2000; i++) {
    const int socket = connect_name(name_, 3000);
    ASSERT_GE(socket, 0);
    char record[sizeof(Request) + 64];
    for (char& byte : record) byte = static_cast<char>(random());
    const uint32_t version = kVersion, ask = random() % 10;
    if (i % 2) std::memcpy(record, &version, sizeof version), std::memcpy(record + 4, &ask, sizeof ask);
    const int files[kFilesMax] = {STDERR_FILENO, a.fabric->handles().wake, socket, socket, STDIN_FILENO};
    send_record(socket, record, i % 3 ? sizeof(Request) : random() % sizeof record, files,
                i % (kFilesMax + 1));
    close(socket);
  }
  Member b;
  EXPECT_TRUE(b.client);
  EXPECT_NE(0u, b.client->slot_generation(a.client->slot()));
}

TEST_F(HostileTest, OtherVersionsAreToldSo) {
  Member a;
  Stranger stranger(name_);
  Request request{};
  request.version = kVersion + 1;
  ASSERT_TRUE(send_record(stranger.socket(), &request, sizeof request, nullptr, 0));
  Answer answer{};
  int files[kFilesMax], count = 0;
  ASSERT_EQ(Received::kRecord, receive_record(stranger.socket(), &answer, sizeof answer, files, count));
  EXPECT_EQ(EPROTO, answer.error);
  EXPECT_EQ(Received::kClosed, receive_record(stranger.socket(), &answer, sizeof answer, files, count));
}

TEST_F(HostileTest, NoOneCanMakeTheAgentWait) {
  Member a;
  Stranger deaf(name_);  // never reads a notice, from a socket that it made blocking again
  ASSERT_EQ(0, deaf.ask(Ask::kJoin, with(files_, deaf.notices())));
  fcntl(deaf.notices(), F_SETFL, 0);
  Notices notices;
  for (int i = 0; i < 600; i++) {
    Stranger guest(name_);
    ASSERT_EQ(0, guest.ask(Ask::kJoin, with(files_, guest.notices())));
    a.client->handle_notices(notices);
  }
  Member b;
  EXPECT_TRUE(b.client);
}

// A process may leave its end of the connection with a child, or with the agent itself.
TEST_F(HostileTest, TheSlotGoesWithTheProcess) {
  Member a;
  int ends[2];
  ASSERT_EQ(0, pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    Stranger stranger(name_);
    const int error = stranger.ask(Ask::kJoin, with(files_, stranger.socket()));
    const uint32_t slot = error == 0 ? stranger.answer().slot : 0;
    _exit(write(ends[1], &slot, sizeof slot) == sizeof slot ? 0 : 1);
  }
  uint32_t slot = 0;
  ASSERT_EQ(static_cast<ssize_t>(sizeof slot), read(ends[0], &slot, sizeof slot));
  waitpid(child, nullptr, 0);
  ASSERT_NE(0u, slot);
  EXPECT_TRUE(eventually([&] { return a.client->slot_generation(slot) == 0; }));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace verbatim::agent
