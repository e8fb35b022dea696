// SPDX-License-Identifier: MIT
// What a process has of the agent for its packets: a socket, rules, a capture.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/client.h"
#include "agent/client_reply.h"

namespace verbatim::agent {

// With the lock held. What the next agent makes of it does not matter to what comes in already.
void AgentClient::return_wire() {
  const Directory& former = *directories_[directories_.size() - 2];
  Request request{};
  request.ask = Ask::kWire;
  request.index = former.slots[slot_].wire_number;
  (void)ask_once(request, &wire_, 1);
}

// With the lock held. What has been done to ports on purpose stays.
void AgentClient::return_ports() {
  if (directories_.size() < 2) return;
  const Directory& former = *directories_[directories_.size() - 2];
  for (uint32_t device = 0; device < engine::kPortsShown; device++) {
    const engine::PortSetting setting = setting_of(former.ports[device]);
    if (setting == engine::PortSetting{}) continue;
    Request request{};
    request.ask = Ask::kReturnPort;
    request.index = device;
    request.slot = setting.down;
    request.generation = uint64_t{setting.sm_lid} << 16 | setting.lid;
    static_assert(sizeof setting.pkeys <= sizeof request.text);
    std::memcpy(request.text, setting.pkeys.data(), sizeof setting.pkeys);
    (void)ask_once(request, nullptr, 0);
  }
}

// With the lock held. What the former agent knew of rules goes to the new one first, so that they go on.
Outcome AgentClient::adopt_board(int& file) {
  using wire::tap::Board;
  struct stat status {};
  if (fstat(file, &status) != 0 || status.st_size != static_cast<off_t>(sizeof(Board)))
    return Error{EPROTO, "the agent's board of rules has another size: a different version?"};
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return Error{errno, "the agent's board of rules could not be mapped"};
  auto* board = static_cast<Board*>(memory);
  boards_.push_back(board);
  if (board->magic != Board::kMagic) return Error{EPROTO, "the agent's board of rules is of another version"};
  if (board_file_ >= 0) {
    Request request{};
    request.ask = Ask::kReturnRules;
    (void)ask_once(request, &board_file_, 1);
    close(board_file_);
  }
  board_file_ = std::exchange(file, -1);
  board_.store(board, std::memory_order_release);
  return Done{};
}

Expected<int> AgentClient::open_wire() {
  std::lock_guard<std::mutex> hold(lock_);
  Request request{};
  request.ask = Ask::kWire;
  Expected<Reply> reply = ask_locked(request);
  if (!reply) return reply.error();
  if (reply->count != 1) return Error{EPROTO, "the agent sent no socket"};
  if (wire_ >= 0) close(wire_);
  wire_ = fcntl(reply->files[0], F_DUPFD_CLOEXEC, 0);
  reply->count = 0;  // theirs now
  return reply->files[0];
}

Expected<int> AgentClient::open_capture() {
  Request request{};
  request.ask = Ask::kCaptureFile;
  Expected<Reply> reply = ask(request);
  if (!reply) return reply.error();
  if (reply->count != 1) return Error{EPROTO, "the agent sent no capture"};
  reply->count = 0;  // theirs now
  return reply->files[0];
}

Expected<int> AgentClient::open_outlet(const std::string& name) {
  std::lock_guard<std::mutex> hold(lock_);
  Expected<Reply> reply = ask_locked(outlet_request(name));
  if (!reply) return reply.error();
  if (reply->count != 1) return Error{EPROTO, "the agent sent no file for " + name};
  if (!outlets_.contains(name)) outlets_[name] = fcntl(reply->files[0], F_DUPFD_CLOEXEC, 0);
  reply->count = 0;  // theirs now
  return reply->files[0];
}

}  // namespace verbatim::agent
