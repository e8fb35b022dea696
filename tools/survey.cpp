// SPDX-License-Identifier: MIT
#include "tools/survey.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/client.h"
#include "engine/published.h"
#include "engine/qp_types.h"
#include "engine/status.h"
#include "engine/transitions.h"
#include "wire/link/shm/layout.h"

namespace verbatim::tools {

namespace {

using agent::Answer;
using agent::Ask;
using agent::Request;

/// A connection to the agent that closes itself.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  bool ask(Request request, Answer& answer, int* files, int& count) const {
    request.version = agent::kVersion;
    return agent::send_record(socket_, &request, sizeof request, nullptr, 0) &&
           agent::receive_record(socket_, &answer, sizeof answer, files, count) && answer.error == 0;
  }

 private:
  int socket_;
};

/// A process's published memory, mapped for reading.
class View {
 public:
  explicit View(int file) {
    struct stat status {};
    constexpr size_t kBytes = wire::shm::kPage + sizeof(engine::Published);
    if (fstat(file, &status) != 0 || static_cast<size_t>(status.st_size) != kBytes) return;
    void* memory = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<char*>(memory);
  }
  ~View() {
    if (memory_) munmap(memory_, wire::shm::kPage + sizeof(engine::Published));
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const engine::Published* published() const {
    const auto* published = reinterpret_cast<const engine::Published*>(memory_ + wire::shm::kPage);
    return memory_ && published->header.magic == engine::PublishedHeader::kMagic ? published : nullptr;
  }

 private:
  char* memory_ = nullptr;
};

std::string type_name(uint8_t type) {
  switch (static_cast<engine::QpType>(type)) {
    case engine::QpType::kRc:
      return "RC";
    case engine::QpType::kUc:
      return "UC";
    case engine::QpType::kUd:
      return "UD";
  }
  return "?";
}

// The queue pair table is sparse: whole pages of it were never touched, and reading them makes none.
void read_queue_pairs(const engine::Published& published, ProcessRow& row) {
  for (uint32_t block = 0; block < engine::kQpBlocksMax; block++) {
    const uint32_t slot = published.header.block_slots[block];
    if (slot == 0) continue;
    for (uint32_t i = 0; i < engine::kQpBlock; i++) {
      const engine::PublishedQp& qp = published.qps[block * engine::kQpBlock + i];
      const uint32_t qpn = qp.qpn;
      if (qpn != engine::make_qpn(slot, i)) continue;
      row.queue_pairs.push_back({qpn, qp.remote_qpn, qp.path_mtu, type_name(qp.transport),
                                 engine::state_name(static_cast<engine::QpState>(qp.state.load())),
                                 qp.send_messages, qp.send_bytes, qp.receive_messages, qp.receive_bytes,
                                 qp.rnr_naks, qp.retries, qp.errors});
    }
  }
}

ProcessRow read_process(const Answer& answer, int file) {
  ProcessRow row;
  row.slot = answer.slot;
  row.pid = answer.pid;
  row.program = std::string(answer.program, strnlen(answer.program, sizeof answer.program));
  const View view(file);
  const engine::Published* published = view.published();
  if (!published) return row;
  const auto& counts = published->header.objects;
  row.contexts = counts[0];
  row.domains = counts[1];
  row.regions = counts[2];
  row.completion_queues = counts[3];
  row.queue_pair_count = counts[4];
  row.shared_queues = counts[5];
  read_queue_pairs(*published, row);
  return row;
}

// Calls `visit(answer, file)` for every live process. False: no agent runs.
template <class Visit>
Outcome for_each_process(Visit visit) {
  Expected<int> socket = agent::connect_agent();
  if (!socket) return socket.error();
  const Connection connection(*socket);
  Request request{};
  request.ask = Ask::kList;
  for (;;) {
    Answer answer{};
    int files[agent::kFilesMax], count = 0;
    if (!connection.ask(request, answer, files, count)) return Done{};
    if (count > 0) visit(answer, files[0]);
    agent::close_files(files, count);
    request.slot = answer.slot;
  }
}

}  // namespace

Expected<std::vector<ProcessRow>> survey() {
  std::vector<ProcessRow> rows;
  Outcome asked =
      for_each_process([&](const Answer& answer, int file) { rows.push_back(read_process(answer, file)); });
  if (!asked && asked.error().code != ECONNREFUSED) return asked.error();
  return rows;
}

Expected<std::vector<agent::Explanation>> explanations() {
  std::vector<agent::Explanation> found;
  Outcome asked = for_each_process([&](const Answer& answer, int file) {
    for (agent::Explanation& each : agent::read_reasons(file, answer.pid)) found.push_back(std::move(each));
  });
  if (!asked) {
    if (asked.error().code != ECONNREFUSED) return asked.error();
    return found;
  }
  Expected<int> socket = agent::connect_agent();
  if (!socket) return found;
  const Connection connection(*socket);
  Request request{};
  request.ask = Ask::kHistory;
  for (;; request.index++) {
    Answer answer{};
    int files[agent::kFilesMax], count = 0;
    const bool got = connection.ask(request, answer, files, count);
    agent::close_files(files, count);
    if (!got) break;
    found.push_back({answer.time_ns, answer.pid, answer.qpn, answer.status,
                     std::string(answer.program, strnlen(answer.program, sizeof answer.program)),
                     std::string(answer.text, strnlen(answer.text, sizeof answer.text))});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return found;
}

std::string status_name(uint32_t status, uint32_t qpn) {
  if (qpn == 0) return std::strerror(static_cast<int>(status));
  static constexpr const char* kNames[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local protection error",
                                           "work request flushed",
                                           "memory window bind error",
                                           "bad response",
                                           "local access error",
                                           "remote invalid request",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry exceeded",
                                           "RNR retry exceeded",
                                           "remote aborted"};
  return status < std::size(kNames) ? kNames[status] : "status " + std::to_string(status);
}

}  // namespace verbatim::tools
