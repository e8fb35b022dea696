// SPDX-License-Identifier: MIT
#include "agent/history.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <random>

#include "agent/test_member.h"
#include "engine/published.h"
#include "wire/link/shm/layout.h"

namespace verbatim::agent {
namespace {

engine::Published& published(Member& member) {
  return *reinterpret_cast<engine::Published*>(member.fabric->published());
}

void publish(Member& member, uint64_t number, const char* text) {
  engine::Published& area = published(member);
  area.header.magic = engine::PublishedHeader::kMagic;
  std::strcpy(area.header.program, "failing");
  engine::Reason& reason = area.reasons[(number - 1) % engine::kReasonsMax];
  reason.time_ns = 1000 + number;
  reason.qpn = 0x4001;
  reason.status = 9;
  std::strcpy(reason.text, text);
  reason.number = number;
}

class HistoryTest : public AgentTest {};

TEST_F(HistoryTest, KeepsTheReasonsOfTheDeadAndOutlivesTheAgent) {
  Member a;
  MemberProcess b([](Member& member) {
    publish(member, 2, "second");
    publish(member, 1, "first");
  });
  const auto pid = static_cast<uint32_t>(b.pid());
  b.kill_it();
  ASSERT_TRUE(eventually([&] { return a.client->slot_generation(b.slot()) == 0; }));
  const auto kept = load_history(history_path(name_));
  ASSERT_EQ(2u, kept.size());
  EXPECT_EQ("first", kept[0].text);
  EXPECT_EQ((Explanation{1002, pid, 0x4001, 9, "failing", "second"}), kept[1]);
  struct stat status {};
  ASSERT_EQ(0, stat(history_path(name_).c_str(), &status));
  EXPECT_EQ(0600u, status.st_mode & 0777);

  kill_agent();
  Member c;  // starts the next agent
  Expected<int> socket = connect_agent();
  ASSERT_TRUE(socket);
  Request request{};
  request.ask = Ask::kHistory;
  request.index = 1;
  Answer answer{};
  int files[kFilesMax], count = 0;
  ASSERT_TRUE(ask_agent(*socket, request, answer, files, count));
  EXPECT_STREQ("second", answer.text);
  EXPECT_STREQ("failing", answer.program);
  request.index = 2;
  EXPECT_EQ(ENOENT, ask_agent(*socket, request, answer, files, count).error().code);
  close(*socket);
}

TEST(History, KeepsTheNewest) {
  History history("");
  for (int round = 0; round < 5; round++) {
    std::vector<Explanation> many(300);
    for (size_t i = 0; i < many.size(); i++) many[i].time_ns = static_cast<uint64_t>(round) * 300 + i;
    history.add(std::move(many));
  }
  EXPECT_EQ(nullptr, history.at(History::kMax));
  ASSERT_NE(nullptr, history.at(History::kMax - 1));
  EXPECT_EQ(1499u, history.at(History::kMax - 1)->time_ns);
  EXPECT_EQ(1500u - History::kMax, history.at(0)->time_ns);
}

TEST(History, BelievesNoPublishedMemory) {
  const size_t bytes = wire::shm::kPage + offsetof(engine::Published, qps);
  const int file = memfd_create("garbage", MFD_CLOEXEC);
  EXPECT_TRUE(read_reasons(file, 1).empty()) << "too short";
  std::vector<char> garbage(bytes);
  std::mt19937 random(3);
  for (char& byte : garbage) byte = static_cast<char>(random());
  ASSERT_EQ(static_cast<ssize_t>(bytes), pwrite(file, garbage.data(), bytes, 0));
  EXPECT_TRUE(read_reasons(file, 1).empty()) << "no magic";
  const uint64_t magic = engine::PublishedHeader::kMagic;
  ASSERT_EQ(8, pwrite(file, &magic, 8, static_cast<off_t>(wire::shm::kPage)));
  for (const Explanation& each : read_reasons(file, 1)) {
    EXPECT_LE(each.text.size(), sizeof(engine::Reason::text));
    EXPECT_LE(each.program.size(), sizeof(engine::PublishedHeader::program));
  }
  close(file);
  EXPECT_TRUE(read_reasons(-1, 1).empty());
}

TEST(History, BelievesNoFile) {
  const std::string path = "/tmp/verbatim-history-test-" + std::to_string(getpid());
  std::ofstream(path) << std::string(288 * 3 + 7, 'z');
  EXPECT_TRUE(load_history(path).empty());
  unlink(path.c_str());
  ASSERT_EQ(0, symlink("/etc/passwd", path.c_str()));
  EXPECT_TRUE(load_history(path).empty());
  unlink(path.c_str());
  ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
  EXPECT_TRUE(load_history(path).empty()) << "and does not wait for a writer";
  unlink(path.c_str());
}

}  // namespace
}  // namespace verbatim::agent
