// SPDX-License-Identifier: MIT
// The `verbatim` command as people run it.
#include <sys/stat.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "agent/test_member.h"
#include "engine/object_board.h"
#include "engine/published.h"
#include "engine/qp_types.h"
#include "engine/status.h"
#include "wire/link/shm/layout.h"

namespace verbatim::tools {
namespace {

using agent::Member;
using agent::MemberProcess;
using nlohmann::json;

struct Result {
  int status = -1;
  std::string output;  ///< both streams
};

Result shell(const std::string& command) {
  Result result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return result;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

Result verbatim(const std::string& arguments) { return shell(VERBATIM_TEST_TOOL " " + arguments); }

bool has(const Result& result, const std::string& text) {
  return result.output.find(text) != std::string::npos;
}

engine::Published& published(Member& member) {
  return *reinterpret_cast<engine::Published*>(member.fabric->published());
}

void publish_header(Member& member, const char* program) {
  engine::PublishedHeader& header = published(member).header;
  header.magic = engine::PublishedHeader::kMagic;
  std::strcpy(header.program, program);
  header.block_slots[0] = member.client->slot();
}

void publish_reason(Member& member, uint64_t number, uint64_t time_ns, const char* text,
                    uint32_t status = static_cast<uint32_t>(engine::Status::kRemoteAccess)) {
  engine::Reason& reason = published(member).reasons[(number - 1) % engine::kReasonsMax];
  reason.time_ns = time_ns;
  reason.qpn = 0x4001;
  reason.status = status;
  std::strcpy(reason.text, text);
  reason.number = number;
}

int64_t memory_of(Member& member) {
  struct stat status {};
  return fstat(member.fabric->handles().published, &status) == 0 ? status.st_blocks : -1;
}

class ToolsTest : public agent::AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    unsetenv("VERBATIM_DEVICES");
  }
};

TEST_F(ToolsTest, SaysHowItIsUsed) {
  for (const char* arguments : {"--help", "--version", "status --help", "run --help"})
    EXPECT_EQ(0, verbatim(arguments).status) << arguments;
  EXPECT_TRUE(has(verbatim("--version"), "verbatim 0."));
  for (const char* command : {"run", "devices", "status", "explain", "doctor", "completion"})
    EXPECT_TRUE(has(verbatim("--help"), command)) << command;
  for (const char* wrong : {"", "nonsense", "status --nonsense", "run", "run --", "run --nonsense ls",
                            "completion", "completion ksh", "doctor a b", "doctor --json --listen"})
    EXPECT_EQ(2, verbatim(wrong).status) << wrong;
  EXPECT_TRUE(has(verbatim("nonsense"), "no subcommand 'nonsense'"));
  EXPECT_EQ(1, verbatim("devices > /dev/full").status) << "what could not be written was not done";
}

TEST_F(ToolsTest, ListsDevices) {
  EXPECT_TRUE(has(verbatim("devices"), "mlx5_0  mlx5  port 1"));
  setenv("VERBATIM_DEVICES", "2", 1);
  json devices = json::parse(verbatim("devices --json").output);
  ASSERT_EQ(2u, devices.size());
  EXPECT_EQ("mlx5_1", devices[1]["name"]);
  setenv("VERBATIM_DEVICES", "left:mlx5,right:mlx5", 1);
  devices = json::parse(verbatim("devices --json").output);
  ASSERT_EQ(2u, devices.size());
  EXPECT_EQ("right", devices[1]["name"]);
  setenv("VERBATIM_DEVICES", "roce,ib:mlx5:infiniband", 1);
  devices = json::parse(verbatim("devices --json").output);
  ASSERT_EQ(2u, devices.size());
  EXPECT_EQ(3, devices[1]["lid"]);
  EXPECT_FALSE(devices[0].contains("lid"));
  setenv("VERBATIM_DEVICES", "a:quantum", 1);
  const Result refused = verbatim("devices");
  EXPECT_EQ(1, refused.status);
  EXPECT_TRUE(has(refused, "no kind 'quantum'; the kinds are: mlx5")) << refused.output;
  EXPECT_EQ(1, verbatim("run true").status);
  setenv("VERBATIM_DEVICES", "0", 1);
  EXPECT_TRUE(has(verbatim("devices"), "no devices"));
  EXPECT_TRUE(json::parse(verbatim("devices --json").output).empty());
}

TEST_F(ToolsTest, RunSaysWhatIsWrongWithTheKeys) {
  setenv("VERBATIM_CRYPTO", "rot13", 1);
  const Result refused = verbatim("run true");
  setenv("VERBATIM_CRYPTO", "wrapped:/dev/null/none", 1);
  const Result unreadable = verbatim("run true");
  unsetenv("VERBATIM_CRYPTO");
  EXPECT_EQ(1, refused.status);
  EXPECT_TRUE(has(refused, "not 'rot13'")) << refused.output;
  EXPECT_EQ(1, unreadable.status);
  EXPECT_TRUE(has(unreadable, "/dev/null/none cannot be read")) << unreadable.output;
}

TEST_F(ToolsTest, ShowsTheAgentsGids) {
  Member member;
  const json gids = json::parse(verbatim("devices --json").output)[0]["gids"];
  ASSERT_FALSE(gids.empty());
  for (const json& each : gids) {
    const engine::GidEntry entry = member.client->gid(each["index"]);
    EXPECT_EQ(entry.type == GidType::kRoceV2 ? "RoCE v2" : "RoCE v1", each["type"]);
    char start[8];
    std::snprintf(start, sizeof start, "%02x%02x:", entry.gid.bytes[0], entry.gid.bytes[1]);
    EXPECT_EQ(start, each["gid"].get<std::string>().substr(0, 5));
  }
}

TEST_F(ToolsTest, ShowsLiveProcesses) {
  EXPECT_TRUE(has(verbatim("status"), "no process has a device open"));
  EXPECT_TRUE(json::parse(verbatim("status --json").output)["processes"].empty());
  Member member(sizeof(engine::Published));
  publish_header(member, "worker");
  published(member).header.objects[2] = 3;
  published(member).header.objects[7] = 2;
  const uint32_t qpn = engine::make_qpn(member.client->slot(), 5);
  engine::PublishedQp& qp = published(member).qps[5];
  qp.qpn = qpn;
  qp.remote_qpn = 0x8001;
  qp.state = static_cast<uint8_t>(engine::QpState::kRts);
  qp.transport = static_cast<uint8_t>(engine::QpType::kRc);
  qp.send_bytes = 1ull << 40;
  qp.retries = 4;
  const int64_t memory = memory_of(member);

  const json status = json::parse(verbatim("status --json").output)["processes"];
  ASSERT_EQ(1u, status.size());
  EXPECT_EQ(getpid(), status[0]["pid"]);
  EXPECT_EQ(member.client->slot(), status[0]["slot"]);
  EXPECT_EQ("member", status[0]["program"]);
  EXPECT_EQ(3, status[0]["memory_regions"]);
  EXPECT_EQ(2, status[0]["completion_channels"]);
  ASSERT_EQ(1u, status[0]["queue_pairs"].size());
  const json row = status[0]["queue_pairs"][0];
  EXPECT_EQ(qpn, row["qpn"]);
  EXPECT_EQ("RTS", row["state"]);
  EXPECT_EQ("RC", row["type"]);
  EXPECT_EQ(0x8001, row["remote_qpn"]);
  EXPECT_EQ(1ull << 40, row["send_bytes"]);
  EXPECT_EQ(4, row["retries"]);
  EXPECT_EQ(memory, memory_of(member)) << "looking costs the process no memory";
  const Result words = verbatim("status");
  EXPECT_TRUE(has(words, "RTS    to 0x008001")) << words.output;
}

TEST_F(ToolsTest, ShowsObjectsOfCommands) {
  Member member(sizeof(engine::Published));
  publish_header(member, "worker");
  EXPECT_TRUE(json::parse(verbatim("status --json").output)["processes"][0]["command_objects"].empty());
  engine::ObjectBoard board(published(member));
  const auto gone = board.show("EQ", 7);
  ASSERT_TRUE(gone);
  for (uint32_t number = 1; number <= 10; number++) ASSERT_TRUE(board.show("UMEM", number));
  ASSERT_TRUE(board.show("UAR", 0x11));
  board.hide(*gone);
  const json objects = json::parse(verbatim("status --json").output)["processes"][0]["command_objects"];
  ASSERT_EQ(2u, objects.size());
  EXPECT_EQ("UAR", objects[0]["kind"]);
  EXPECT_EQ(std::vector<uint32_t>{0x11}, objects[0]["numbers"].get<std::vector<uint32_t>>());
  EXPECT_EQ(10u, objects[1]["numbers"].size());
  ASSERT_EQ(gone, board.show("a kind with a name that is too long to show", 3)) << "its place is free again";
  const Result words = verbatim("status");
  EXPECT_TRUE(has(words, "  UAR 1: 0x000011\n")) << words.output;
  EXPECT_TRUE(has(words, "  UMEM 10: 0x000001")) << words.output;
  EXPECT_TRUE(has(words, " ...\n")) << words.output;
  EXPECT_TRUE(has(words, "a kind with a name that 1:")) << words.output;
}

TEST_F(ToolsTest, BelievesNoProcess) {
  Member member(sizeof(engine::Published));
  Member small;  // without room for what it should show
  publish_header(small, "small");
  std::mt19937_64 random(5);
  auto* words = reinterpret_cast<uint64_t*>(member.fabric->published());
  for (int round = 0; round < 8; round++) {
    const size_t bytes = offsetof(engine::Published, qps) + sizeof(engine::PublishedQp) * engine::kQpBlock;
    for (size_t i = 0; i < bytes / 8; i++) words[i] = random();
    published(member).header.magic = engine::PublishedHeader::kMagic;
    published(member).header.block_slots[round % 8] = member.client->slot();
    for (uint32_t i = 0; i < 64; i++)
      published(member).qps[i].qpn = engine::make_qpn(member.client->slot(), i);
    for (const char* command : {"status", "explain"}) {
      EXPECT_EQ(0, verbatim(command).status) << command;
      EXPECT_EQ(0, verbatim(std::string(command) + " --json").status) << command;
    }
    for (const char byte : verbatim("explain").output)
      ASSERT_TRUE(byte == '\n' || (byte & 0xe0)) << "a control";
  }
}

TEST_F(ToolsTest, ExplainsErrorsOfTheLivingAndTheDead) {
  EXPECT_TRUE(has(verbatim("explain"), "no errors are remembered"));
  auto member = std::make_unique<Member>();
  publish_header(*member, "alive");
  publish_reason(*member, 1, 2'000, "rkey 0x1234 has no remote write right");
  publish_reason(*member, 2, 4'000, "red \033[31m alert", engine::kRefusal | ENOMEM);
  MemberProcess dead([](Member& other) {
    publish_header(other, "dead");
    publish_reason(other, 1, 1'000, "oldest");
    publish_reason(other, 2, 3'000, "third");
  });
  const auto pid = static_cast<uint32_t>(dead.pid());
  dead.kill_it();
  ASSERT_TRUE(eventually([&] { return member->client->slot_generation(dead.slot()) == 0; }));

  const auto check = [&](const Result& result) {
    std::vector<json> lines;
    for (size_t at = 0, end; (end = result.output.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(json::parse(result.output.substr(at, end - at)));
    ASSERT_EQ(4u, lines.size());
    for (size_t i = 0; i < 4; i++) EXPECT_EQ(1'000 * (i + 1), lines[i]["time_ns"]);
    EXPECT_EQ("dead", lines[0]["program"]);
    EXPECT_EQ(pid, lines[2]["pid"]);
    EXPECT_EQ(0x4001, lines[1]["qpn"]);
    EXPECT_EQ("remote access error", lines[1]["status"]);
    EXPECT_EQ("rkey 0x1234 has no remote write right", lines[1]["reason"]);
    EXPECT_EQ("Cannot allocate memory", lines[3]["status"]) << "a refused command, though of a queue pair";
  };
  check(verbatim("explain --json"));
  const Result words = verbatim("explain");
  EXPECT_TRUE(
      has(words, "alive[" + std::to_string(getpid()) + "] QP 0x004001  remote access error: rkey 0x1234"))
      << words.output;
  EXPECT_TRUE(has(words, "red ?[31m alert")) << words.output;

  // After the last process the agent leaves; people ask later.
  member.reset();
  ASSERT_TRUE(eventually([&] {
    const int taken = agent::bind_name(name_, SOCK_SEQPACKET);
    if (taken >= 0) close(taken);
    return taken >= 0;
  }));
  check(verbatim("explain --json"));
}

TEST_F(ToolsTest, FollowsErrorsAsTheyCome) {
  Member member;
  publish_header(member, "alive");
  publish_reason(member, 1, UINT64_MAX, "a clock that makes no sense");
  FILE* pipe = popen("echo $$; exec " VERBATIM_TEST_TOOL " explain --follow", "r");
  ASSERT_NE(nullptr, pipe);
  char line[512];
  ASSERT_NE(nullptr, fgets(line, sizeof line, pipe));
  const pid_t follower = std::atoi(line);
  ASSERT_GT(follower, 0);
  ASSERT_NE(nullptr, fgets(line, sizeof line, pipe));
  EXPECT_NE(nullptr, std::strstr(line, "makes no sense"));
  publish_reason(member, 2, 5'000, "something new");
  ASSERT_NE(nullptr, fgets(line, sizeof line, pipe));
  EXPECT_NE(nullptr, std::strstr(line, "something new")) << line;
  publish_reason(member, 3, 5'000, "and at the same time");
  ASSERT_NE(nullptr, fgets(line, sizeof line, pipe));
  EXPECT_NE(nullptr, std::strstr(line, "at the same time")) << line;
  kill(follower, SIGTERM);
  pclose(pipe);
}

TEST_F(ToolsTest, RunsPrograms) {
  unsetenv("LD_LIBRARY_PATH");
  const Result path = verbatim("run -- sh -c 'echo $LD_LIBRARY_PATH'");
  EXPECT_EQ(0, path.status);
  EXPECT_EQ(VERBATIM_TEST_LIB "\n", path.output);
  setenv("LD_LIBRARY_PATH", "/somewhere", 1);
  EXPECT_EQ(VERBATIM_TEST_LIB ":/somewhere\n", verbatim("run sh -c 'echo $LD_LIBRARY_PATH'").output);
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(7, verbatim("run sh -c 'exit 7'").status);
  EXPECT_EQ("--json -- --help\n", verbatim("run echo --json -- --help").output);
  EXPECT_EQ("--help\n", verbatim("run -- printf '%s\\n' --help").output);
  EXPECT_EQ(127, verbatim("run no-such-program").status);
  EXPECT_EQ(127, verbatim("run /no-such-folder/program").status);
  EXPECT_EQ(126, verbatim("run /etc/passwd").status);
  EXPECT_NE(0, agent_pid()) << "it was started";
}

TEST_F(ToolsTest, SaysBeforeRunningThatTheAgentCannotStart) {
  setenv("VERBATIM_AGENT", "/nonexistent/verbatimd", 1);
  const Result refused = verbatim("run -- echo it ran");
  EXPECT_EQ(1, refused.status);
  EXPECT_TRUE(has(refused, "/nonexistent/verbatimd")) << refused.output;
  EXPECT_FALSE(has(refused, "it ran"));
}

TEST_F(ToolsTest, WaitsForAnAgentThatIsLate) {
  ASSERT_EQ(0, verbatim("run true").status);
  const std::string agent = std::to_string(agent_pid());
  ASSERT_EQ(0, kill(agent_pid(), SIGSTOP));
  // It goes on when somebody is told of waiting.
  const Result late = shell("( " VERBATIM_TEST_TOOL
                            " run -- echo it ran; echo status $? ) 2>&1 | "
                            "while read -r line; do echo \"$line\"; kill -CONT " +
                            agent + "; done");
  EXPECT_EQ("verbatim run: waiting for the agent at @" + name_ + " to answer\nit ran\nstatus 0\n",
            late.output);
}

TEST_F(ToolsTest, SaysBeforeRunningThatTheAgentIsNoGood) {
  setenv("VERBATIM_AGENT_SOCKET", std::string(97, 'x').c_str(), 1);
  for (const char* command : {"run true", "devices", "status", "explain", "doctor", "doctor --listen"}) {
    const Result too_long = verbatim(command);
    EXPECT_EQ(1, too_long.status) << command;
    EXPECT_TRUE(has(too_long, "longer than 96")) << too_long.output;
  }
  setenv("VERBATIM_AGENT_SOCKET", name_.c_str(), 1);
}

TEST_F(ToolsTest, DoctorSaysWhatIsWrongHere) {
  const auto problem_of = [](const std::string& check) {
    const Result asked = verbatim("doctor --json");
    EXPECT_EQ(1, asked.status) << check;
    for (const json& each : json::parse(asked.output)["findings"])
      if (each["check"] == check && each["verdict"] == "problem") return each["text"].get<std::string>();
    return "nothing: " + asked.output;
  };
  setenv("VERBATIM_DEVICES", "0", 1);
  EXPECT_NE(std::string::npos, problem_of("devices").find("asks for none"));
  setenv("VERBATIM_DEVICES", "ib:mlx5:infiniband", 1);
  EXPECT_NE(std::string::npos, problem_of("devices").find("reach this host only"));
  unsetenv("VERBATIM_DEVICES");
  setenv("VERBATIM_AGENT", "/nonexistent/verbatimd", 1);
  kill_agent();
  EXPECT_NE(std::string::npos, problem_of("agent").find("/nonexistent/verbatimd"));
}

TEST_F(ToolsTest, AddsAndRemovesRules) {
  EXPECT_TRUE(has(verbatim("inject list"), "no rules"));
  EXPECT_EQ(0, verbatim("inject clear").status);
  const Result added = verbatim("inject add --drop 1% --corrupt --opcode read+ack --count 5 --seed 7");
  EXPECT_EQ(0, added.status);
  EXPECT_EQ(
      "1  drop=1%,opcode=read+ack,count=5,seed=7  matched 0  hit 0\n"
      "2  corrupt=100%,opcode=read+ack,count=5,seed=7  matched 0  hit 0\n",
      added.output);
  Member member;
  ASSERT_NE(nullptr, member.client->board());
  EXPECT_EQ(wire::tap::kInjectsOut, member.client->board()->active.load());
  member.client->board()->rules[1].picked = 3;
  EXPECT_EQ(0, verbatim("inject remove 1").status);
  EXPECT_EQ(0, verbatim("inject add --delay 2ms").status);
  const json rules = json::parse(verbatim("inject list --json").output);
  ASSERT_EQ(2u, rules.size());
  EXPECT_EQ(2, rules[0]["number"]);
  EXPECT_EQ(3, rules[0]["hit"]);
  EXPECT_EQ(3, rules[1]["number"]);
  const Result unknown = verbatim("inject remove 1");
  EXPECT_EQ(1, unknown.status);
  EXPECT_TRUE(has(unknown, "there is no rule 1")) << unknown.output;
  const Result wrong = verbatim("inject add --drop 200%");
  EXPECT_EQ(1, wrong.status);
  EXPECT_TRUE(has(wrong, "'200%' is not a probability")) << wrong.output;
  EXPECT_EQ(0, verbatim("inject clear").status);
  EXPECT_TRUE(has(verbatim("inject list"), "no rules"));
  EXPECT_EQ(0u, member.client->board()->active.load());
}

TEST_F(ToolsTest, RulesOutliveTheAgent) {
  Member member;
  ASSERT_EQ(0, verbatim("inject add --drop 5% --seed 3").status);
  member.client->board()->rules[0].matched = 9;
  kill_agent();
  EXPECT_EQ(wire::tap::kInjectsOut, member.client->board()->active.load()) << "in force meanwhile";
  agent::Notices notices;
  ASSERT_TRUE(eventually([&] {
    member.client->handle_notices(notices);
    return member.client->fd() >= 0;
  }));
  EXPECT_TRUE(has(verbatim("inject list"), "1  drop=5%,seed=3  matched 9  hit 0"));
  EXPECT_EQ(wire::tap::kInjectsOut, member.client->board()->active.load());
}

TEST_F(ToolsTest, AnAgentStaysForItsRules) {
  setenv("VERBATIM_INJECT", "drop=1%;reorder=1%,seed=4", 1);
  EXPECT_EQ(0, verbatim("inject add --duplicate 1% --seed 5").status);
  unsetenv("VERBATIM_INJECT");
  const json rules = json::parse(verbatim("inject list --json").output);
  ASSERT_EQ(3u, rules.size());
  EXPECT_EQ("reorder=1%,seed=4", rules[1]["rule"]);
  Member member;
  EXPECT_STREQ("drop=1%;reorder=1%,seed=4", member.client->board()->environment);
}

TEST_F(ToolsTest, CompletesWords) {
  for (const std::string shell_name : {"bash", "zsh", "fish"}) {
    const Result script = verbatim("completion " + shell_name);
    EXPECT_EQ(0, script.status);
    EXPECT_TRUE(has(script, "explain")) << shell_name;
    if (shell("command -v " + shell_name).status != 0) continue;
    EXPECT_EQ(0, shell(VERBATIM_TEST_TOOL " completion " + shell_name + " | " + shell_name + " -n").status);
  }
  const Result words = shell(
      "bash -c 'source <(" VERBATIM_TEST_TOOL
      " completion bash); complete_words() { COMP_WORDS=(verbatim \"$@\"); COMP_CWORD=$#; COMPREPLY=(); "
      "_verbatim; "
      "echo ${COMPREPLY[*]}; }; complete_words st; complete_words explain --f; complete_words completion z; "
      "complete_words inject add --opcode cm'");
  EXPECT_EQ("status\n--follow\nzsh\ncm\n", words.output);
}

}  // namespace
}  // namespace verbatim::tools
