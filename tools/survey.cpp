// SPDX-License-Identifier: MIT
#include "tools/survey.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>

#include "agent/client.h"
#include "engine/published.h"
#include "engine/qp_types.h"
#include "engine/status.h"
#include "engine/transitions.h"
#include "tools/agent_connection.h"
#include "wire/link/shm/layout.h"

namespace verbatim::tools {

namespace {

using agent::Answer;
using agent::Ask;
using agent::Request;

template <size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

/// Copies a part of a process's published memory. Not by mapping it: a look at a page that was never touched
/// would make that process bigger.
template <class Part>
bool read_part(int file, size_t offset, Part* parts, size_t count) {
  const auto bytes = static_cast<ssize_t>(sizeof(Part) * count);
  return pread(file, static_cast<void*>(parts), sizeof(Part) * count,
               static_cast<off_t>(wire::shm::kPage + offset)) == bytes;
}

std::string type_name(uint8_t type) {
  switch (static_cast<engine::QpType>(type)) {
    case engine::QpType::kRc:
      return "RC";
    case engine::QpType::kUc:
      return "UC";
    case engine::QpType::kUd:
      return "UD";
    case engine::QpType::kRaw:
      return "RAW";
    case engine::QpType::kXrcSend:
      return "XRC_SEND";
    case engine::QpType::kXrcReceive:
      return "XRC_RECV";
    case engine::QpType::kDci:
      return "DCI";
    case engine::QpType::kDct:
      return "DCT";
  }
  return "?";
}

void read_queue_pairs(int file, const engine::PublishedHeader& header, ProcessRow& row) {
  const std::unique_ptr<engine::PublishedQp[]> block(new engine::PublishedQp[engine::kQpBlock]);
  for (uint32_t number = 0; number < engine::kQpBlocksMax; number++) {
    const uint32_t slot = header.block_slots[number];
    const size_t offset =
        offsetof(engine::Published, qps) + sizeof(engine::PublishedQp) * engine::kQpBlock * number;
    if (slot == 0 || !read_part(file, offset, block.get(), engine::kQpBlock)) continue;
    for (uint32_t i = 0; i < engine::kQpBlock; i++) {
      const engine::PublishedQp& qp = block[i];
      if (qp.qpn != engine::make_qpn(slot, i)) continue;
      row.queue_pairs.push_back({qp.qpn, qp.remote_qpn, qp.path_mtu, type_name(qp.transport),
                                 engine::state_name(static_cast<engine::QpState>(qp.state.load())),
                                 qp.send_messages, qp.send_bytes, qp.receive_messages, qp.receive_bytes,
                                 qp.rnr_naks, qp.retries, qp.errors});
    }
  }
}

void read_objects(int file, const engine::PublishedHeader& header, ProcessRow& row) {
  const uint32_t end = std::min(header.shown_end.load(), engine::kShownMax);
  const auto objects = std::make_unique<engine::PublishedObject[]>(end);
  if (!read_part(file, offsetof(engine::Published, shown), objects.get(), end)) return;
  std::map<std::string, std::vector<uint32_t>> kinds;
  for (uint32_t i = 0; i < end; i++)
    if (objects[i].shown != 0) kinds[text_of(objects[i].kind)].push_back(objects[i].number);
  for (auto& [kind, numbers] : kinds) {
    std::sort(numbers.begin(), numbers.end());
    row.command_objects.push_back({kind, std::move(numbers)});
  }
}

ProcessRow read_process(const Answer& answer, int file) {
  ProcessRow row;
  row.slot = answer.slot;
  row.pid = answer.pid;
  row.program = text_of(answer.program);
  engine::PublishedHeader header;
  if (!read_part(file, 0, &header, 1) || header.magic != engine::PublishedHeader::kMagic) return row;
  uint32_t* const counts[8] = {&row.contexts,          &row.domains,          &row.regions,
                               &row.completion_queues, &row.queue_pair_count, &row.shared_queues,
                               &row.address_handles,   &row.channels};
  for (size_t i = 0; i < 8; i++) *counts[i] = header.objects[i];
  read_queue_pairs(file, header, row);
  read_objects(file, header, row);
  return row;
}

// Calls `visit(answer, file)` for every live process.
template <class Visit>
Outcome for_each_process(const AgentConnection& connection, Visit visit) {
  Request request{};
  request.ask = Ask::kList;
  for (;;) {
    Outcome asked = connection.ask(request, [&](const Answer& answer, int file) {
      if (file >= 0) visit(answer, file);
      request.slot = answer.slot;
    });
    if (!asked) return asked.error().code == ENOENT ? Outcome(Done{}) : asked;
  }
}

// The living first: one that ends meanwhile is then found among the dead, if twice.
Outcome ask_for_explanations(const AgentConnection& connection, std::vector<agent::Explanation>& found) {
  Outcome asked = for_each_process(connection, [&](const Answer& answer, int file) {
    for (agent::Explanation& each : agent::read_reasons(file, answer.pid)) found.push_back(std::move(each));
  });
  Request request{};
  request.ask = Ask::kHistory;
  for (; asked; request.index++)
    asked = connection.ask(request, [&](const Answer& answer, int) {
      found.push_back({answer.time_ns, answer.pid, answer.qpn, answer.status, text_of(answer.program),
                       text_of(answer.text)});
    });
  return asked.error().code == ENOENT ? Outcome(Done{}) : asked;
}

bool none_runs(const Error& error) { return error.code == ECONNREFUSED; }

}  // namespace

Expected<std::vector<ProcessRow>> survey() {
  std::vector<ProcessRow> rows;
  Expected<int> socket = agent::connect_agent();
  if (!socket && none_runs(socket.error())) return rows;
  if (!socket) return socket.error();
  Outcome asked = for_each_process(AgentConnection(*socket), [&](const Answer& answer, int file) {
    rows.push_back(read_process(answer, file));
  });
  if (!asked) return asked.error();
  return rows;
}

Expected<std::vector<agent::Explanation>> explanations() {
  std::vector<agent::Explanation> found;
  Expected<int> socket = agent::connect_agent();
  if (socket) {
    if (Outcome asked = ask_for_explanations(AgentConnection(*socket), found); !asked) return asked.error();
  } else if (none_runs(socket.error())) {
    found = agent::load_history(agent::history_path(agent::agent_name()));
  } else {
    return socket.error();
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return found;
}

std::string status_name(uint32_t status) {
  if (status & engine::kRefusal) return std::strerror(static_cast<int>(status & ~engine::kRefusal));
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

std::string printable(std::string text) {
  for (char& each : text)
    if (static_cast<unsigned char>(each) < ' ' || each == 0x7f) each = '?';
  return text;
}

}  // namespace verbatim::tools
