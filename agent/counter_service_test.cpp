// SPDX-License-Identifier: MIT
// Counters of processes, and the files that show them: whoever opens one reads what is true then.
#include "agent/counter_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "wire/link/shm/layout.h"

namespace verbatim::agent {
namespace {

using engine::PortCount;
using engine::Published;

constexpr int kPatienceMs = 5000;

/// Published memory as the agent gets it, with one queue pair of device 0.
class Process {
 public:
  Process() : file_(memfd_create("published", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(wire::shm::kPage + sizeof(Published))), 0);
    put(offsetof(Published, header) + offsetof(engine::PublishedHeader, magic),
        uint64_t{engine::PublishedHeader::kMagic});
    put(offsetof(Published, header) + offsetof(engine::PublishedHeader, qp_ends), uint32_t{17});
  }
  ~Process() { close(file_); }
  int file() const { return file_; }
  void send(uint64_t bytes) {
    put(offsetof(Published, traffic) + 16 * sizeof(engine::PublishedTraffic) +
            offsetof(engine::PublishedTraffic, sent_bytes),
        bytes);
  }
  void count(uint32_t device, PortCount what, uint64_t number) {
    put(offsetof(Published, ports) + device * sizeof(engine::PublishedPort) +
            static_cast<size_t>(what) * sizeof number,
        number);
  }

 private:
  template <class Value>
  void put(size_t offset, Value value) {
    EXPECT_EQ(pwrite(file_, &value, sizeof value, static_cast<off_t>(wire::shm::kPage + offset)),
              static_cast<ssize_t>(sizeof value));
  }
  const int file_;
};

class Counters : public testing::Test {
 protected:
  Counters() {
    char name[] = "/tmp/verbatim-counters-XXXXXX";
    root_ = mkdtemp(name);
    std::filesystem::create_directories(root_ + "/class/infiniband_verbs/uverbs0");
    std::ofstream(root_ + "/class/infiniband_verbs/uverbs0/ibdev") << "mlx5_0\n";
    for (const CounterFile& each : counter_files()) {
      std::filesystem::create_directories(std::filesystem::path(path_of(each.path)).parent_path());
      std::ofstream(path_of(each.path)) << "0\n";
    }
  }
  ~Counters() override { std::filesystem::remove_all(root_); }

  std::string path_of(const std::string& counter) const {
    return root_ + "/class/infiniband/mlx5_0/ports/1/" + counter;
  }
  /// Another thread opens the file; this one is the agent meanwhile.
  uint64_t read(CounterService& service, const char* counter) const {
    auto reader = std::async(std::launch::async, [path = path_of(counter)] {
      uint64_t value = UINT64_MAX;
      std::ifstream(path) >> value;
      return value;
    });
    const SystemClock clock;
    while (reader.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      pollfd somebody{service.file(), POLLIN, 0};
      if (poll(&somebody, 1, 1) > 0) service.let_readers_in();
      service.step(clock.now_ns());
    }
    // Until the file is held again: who comes earlier may find what was true some milliseconds ago.
    for (int waited = 0; service.deadline_ns() != kNever && waited < kPatienceMs; waited++) {
      poll(nullptr, 0, 1);
      service.step(clock.now_ns());
    }
    EXPECT_EQ(service.deadline_ns(), kNever) << "nobody has a file open any more";
    return reader.get();
  }

  std::string root_;
  Process process_;
};

TEST_F(Counters, AreSummedWhenSomebodyLooks) {
  CounterService service("", [this](HostSums& sums) { add_counts(process_.file(), sums); });
  ASSERT_TRUE(service.serve(root_));
  EXPECT_EQ(read(service, "counters/port_xmit_data"), 0u);
  process_.send(4000);
  process_.count(0, PortCount::kOutOfSequence, 3);
  EXPECT_EQ(read(service, "counters/port_xmit_data"), 1000u) << "in words";
  EXPECT_EQ(read(service, "hw_counters/out_of_sequence"), 3u);
  EXPECT_EQ(read(service, "hw_counters/packet_seq_err"), 0u);
}

TEST_F(Counters, OutliveProcessesAndAgents) {
  const std::string kept = root_ + "/sums";
  {
    CounterService service(kept, [](HostSums&) {});
    process_.send(4000);
    service.process_gone(process_.file());
    ASSERT_TRUE(service.serve(root_));
    EXPECT_EQ(read(service, "counters/port_xmit_data"), 1000u);
  }
  Process later;
  later.send(400);
  CounterService service(kept, [&later](HostSums& sums) { add_counts(later.file(), sums); });
  ASSERT_TRUE(service.serve(root_));
  EXPECT_EQ(read(service, "counters/port_xmit_data"), 1100u);
}

TEST_F(Counters, OfATreeThatIsGoneAreLetGo) {
  CounterService service("", [](HostSums&) {});
  EXPECT_FALSE(service.serve(root_ + "/nothing"));
  EXPECT_FALSE(service.serve("relative"));
  ASSERT_TRUE(service.serve(root_));
  const std::string copy = root_ + "-copy";
  std::filesystem::rename(root_, copy);
  service.forget_removed();
  std::filesystem::rename(copy, root_);
  uint64_t value = UINT64_MAX;
  std::ifstream(path_of("counters/port_xmit_data")) >> value;  // nobody would let this reader in
  EXPECT_EQ(value, 0u);
}

TEST(Processes, AreNotBelieved) {
  const int file = memfd_create("published", MFD_CLOEXEC);
  HostSums sums{};
  add_counts(file, sums);
  add_counts(-1, sums);
  EXPECT_EQ(sums[0][PortCount::kSentBytes], 0u);
  close(file);
}

}  // namespace
}  // namespace verbatim::agent
