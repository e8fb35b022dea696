// SPDX-License-Identifier: MIT
#include "agent/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/spawn.h"
#include "base/spinlock.h"

namespace verbatim::agent {

namespace {

constexpr int kAnswerSeconds = 3;
constexpr int kStartAttempts = 40;
constexpr int kReadAttempts = 1000;
constexpr int kSlotAttempts = 16;

// Reads a part of the directory that its writer may be changing; whatever happens the loop ends.
template <class Read>
void read_locked(const std::atomic<uint32_t>& sequence, Read read) {
  for (int attempt = 0; attempt < kReadAttempts; attempt++) {
    const uint32_t before = sequence.load(std::memory_order_acquire);
    if (before & 1) {
      spin_pause();
      continue;
    }
    read();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (sequence.load(std::memory_order_relaxed) == before) return;
  }
}

}  // namespace

Expected<int> connect_agent() {
  const std::string name = agent_name();
  const int socket = connect_name(name);
  if (socket < 0) return Error{errno, "no agent answers at @" + name};
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (!known || (peer.uid != geteuid() && peer.uid != 0)) {
    close(socket);
    return Error{EACCES, "the agent's name @" + name + " is held by process " + std::to_string(peer.pid) +
                             " of another user"};
  }
  timeval wait{kAnswerSeconds, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  return socket;
}

AgentClient::AgentClient(int published, int inbound, int wake, std::string program)
    : name_(agent_name()), program_(std::move(program)), files_{published, inbound, wake} {}

Expected<std::unique_ptr<AgentClient>> AgentClient::join(int published, int inbound, int wake,
                                                         const std::string& program) {
  std::unique_ptr<AgentClient> client(new AgentClient(published, inbound, wake, program));
  std::lock_guard<std::mutex> hold(client->lock_);
  if (Outcome joined = client->connect_and_join(); !joined) return joined.error();
  return client;
}

AgentClient::~AgentClient() {
  for (const int proof : proofs_) close(proof);
  if (notices_ >= 0) close(notices_);
  if (socket_ >= 0) close(socket_);
  for (const Directory* each : directories_) munmap(const_cast<Directory*>(each), sizeof(Directory));
}

void AgentClient::after_fork_child() {
  for (const int proof : proofs_) close(proof);
  proofs_.clear();
  if (notices_ >= 0) close(notices_.exchange(-1));
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

// An agent may leave just as it is asked, or several programs start one at once: try again for a while.
Outcome AgentClient::connect_and_join() {
  Error last{EAGAIN, "the agent did not answer"};
  for (int attempt = 0; attempt < kStartAttempts; attempt++) {
    Expected<int> socket = connect_agent();
    if (!socket && socket.error().code == EACCES) return socket.error();
    if (!socket) {
      last = socket.error();
      if (Outcome started = start_agent(); !started) return started;
    } else {
      Outcome joined = register_here(*socket);
      if (joined) return joined;
      last = joined.error();
      if (last.code != EAGAIN) return last;
    }
    poll(nullptr, 0, 1 + attempt * 5);
  }
  return last;
}

// With the lock held: joins over a fresh connection, which becomes this client's.
Outcome AgentClient::register_here(int socket) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    close(socket);
    return Error{errno, "no socket for notices"};
  }
  if (socket_ >= 0) close(socket_);
  socket_ = socket;
  Request request{};
  request.ask = Ask::kJoin;
  request.slot = slot_;
  request.generation = generation_;
  std::strncpy(request.program, program_.c_str(), sizeof request.program - 1);
  const int files[4] = {files_[0], files_[1], files_[2], pair[1]};
  Answer answer{};
  int reply_files[kFilesMax], reply_count = 0;
  Outcome asked = ask_locked(request, files, 4, answer, reply_files, reply_count);
  close(pair[1]);
  if (asked && reply_count != 1) asked = Error{EPROTO, "the agent sent no directory"};
  if (asked && slot_ == 0 && !prove(answer.slot))
    asked = Error{EAGAIN, "the slot's proof is held by another process"};
  if (!asked) {
    close_files(reply_files, reply_count);
    close(pair[0]);
    close(socket_);
    socket_ = -1;
    return asked;
  }
  slot_ = answer.slot;
  generation_ = answer.generation;
  const Outcome adopted = adopt_directory(reply_files[0]);
  close_files(reply_files, reply_count);
  const int former = notices_.exchange(pair[0]);
  if (former >= 0) close(former);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  return adopted ? take_back_the_rest() : adopted;
}

// After the agent was replaced: further slots and groups.
Outcome AgentClient::take_back_the_rest() {
  for (const uint32_t slot : extra_slots_) {
    Request request{};
    request.ask = Ask::kExtraSlot;
    request.slot = slot;
    Answer answer{};
    int files[kFilesMax], count = 0;
    if (Outcome asked = ask_locked(request, nullptr, 0, answer, files, count); !asked) return asked;
  }
  for (const Gid& group : groups_) {
    Request request{};
    request.ask = Ask::kJoinGroup;
    request.group = group;
    Answer answer{};
    int files[kFilesMax], count = 0;
    if (Outcome asked = ask_locked(request, nullptr, 0, answer, files, count); !asked) return asked;
  }
  return Done{};
}

bool AgentClient::prove(uint32_t slot) {
  const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
  if (proof < 0) return false;
  proofs_.push_back(proof);
  return true;
}

Outcome AgentClient::adopt_directory(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0 || status.st_size != static_cast<off_t>(sizeof(Directory)))
    return Error{EPROTO, "the agent's directory has another size: a different version?"};
  void* memory = mmap(nullptr, sizeof(Directory), PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return Error{errno, "the agent's directory could not be mapped"};
  const auto* directory = static_cast<const Directory*>(memory);
  directories_.push_back(directory);
  if (directory->magic != Directory::kMagic)
    return Error{EPROTO, "the agent's directory is of another version"};
  directory_.store(directory, std::memory_order_release);
  return Done{};
}

Outcome AgentClient::ask(Request& request, const int* files, int count, Answer& answer, int* reply_files,
                         int& reply_count) {
  std::lock_guard<std::mutex> hold(lock_);
  return ask_locked(request, files, count, answer, reply_files, reply_count);
}

Outcome AgentClient::ask_locked(Request& request, const int* files, int count, Answer& answer,
                                int* reply_files, int& reply_count) {
  request.version = kVersion;
  reply_count = 0;
  if (socket_ < 0 || !send_record(socket_, &request, sizeof request, files, count) ||
      !receive_record(socket_, &answer, sizeof answer, reply_files, reply_count)) {
    close_files(reply_files, reply_count);
    reply_count = 0;
    // A late answer must not be taken for the next one's: the connection is of no use any more.
    if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
    return Error{EAGAIN, "the agent is away"};
  }
  if (answer.error == 0) return Done{};
  answer.text[sizeof answer.text - 1] = 0;
  return Error{answer.error, answer.text};
}

void AgentClient::handle_notices(NoticeSink& sink) {
  Notice notice{};
  int files[kFilesMax], count = 0;
  while (notices_ >= 0) {
    const bool got = receive_record(notices_, &notice, sizeof notice, files, count);
    close_files(files, count);
    if (!got) break;
    switch (notice.event) {
      case Event::kGone:
        sink.on_gone(notice.slot, notice.generation);
        break;
      case Event::kGidsChanged:
        sink.on_gids_changed();
        break;
      case Event::kLinkUp:
        sink.on_link(true);
        break;
      case Event::kLinkDown:
        sink.on_link(false);
        break;
    }
  }
  if (notices_ >= 0 && errno == EAGAIN) return;
  std::lock_guard<std::mutex> hold(lock_);
  if (notices_ >= 0) close(notices_.exchange(-1));
  (void)connect_and_join();  // in vain: the next call tries again
}

Expected<uint32_t> AgentClient::extra_slot() {
  for (int attempt = 0; attempt < kSlotAttempts; attempt++) {
    Request request{};
    request.ask = Ask::kExtraSlot;
    Answer answer{};
    int files[kFilesMax], count = 0;
    std::lock_guard<std::mutex> hold(lock_);
    if (Outcome asked = ask_locked(request, nullptr, 0, answer, files, count); !asked) return asked.error();
    if (!prove(answer.slot)) continue;
    extra_slots_.push_back(answer.slot);
    return answer.slot;
  }
  return Error{ENOMEM, "no further slot could be had"};
}

Outcome AgentClient::join_group(const Gid& group) {
  std::lock_guard<std::mutex> hold(lock_);
  const bool first = std::find(groups_.begin(), groups_.end(), group) == groups_.end();
  Request request{};
  request.ask = Ask::kJoinGroup;
  request.group = group;
  Answer answer{};
  int files[kFilesMax], count = 0;
  if (first)
    if (Outcome asked = ask_locked(request, nullptr, 0, answer, files, count); !asked) return asked;
  groups_.push_back(group);  // once for each joining: the last one to leave tells the agent
  return Done{};
}

Outcome AgentClient::leave_group(const Gid& group) {
  std::lock_guard<std::mutex> hold(lock_);
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  if (found == groups_.end()) return Error{EINVAL, "the group was not joined"};
  groups_.erase(found);
  if (std::find(groups_.begin(), groups_.end(), group) != groups_.end()) return Done{};
  Request request{};
  request.ask = Ask::kLeaveGroup;
  request.group = group;
  Answer answer{};
  int files[kFilesMax], count = 0;
  return ask_locked(request, nullptr, 0, answer, files, count);
}

uint32_t AgentClient::gid_count() const {
  return std::min(directory().gid_count.load(std::memory_order_acquire), kGidsMax);
}

engine::GidEntry AgentClient::gid(uint32_t index) const {
  engine::GidEntry entry;
  if (index >= kGidsMax) return entry;
  read_locked(directory().gid_sequence, [&] { entry = directory().gids[index]; });
  return entry;
}

bool AgentClient::link_up() const { return directory().link_up.load(std::memory_order_relaxed) != 0; }

Expected<wire::PeerHandles> AgentClient::introduce(uint32_t slot) {
  Request request{};
  request.ask = Ask::kIntroduce;
  request.slot = slot;
  Answer answer{};
  int files[kFilesMax], count = 0;
  if (Outcome asked = ask(request, nullptr, 0, answer, files, count); !asked) return asked.error();
  if (count != 3) {
    close_files(files, count);
    return Error{EPROTO, "the agent sent no handles"};
  }
  wire::PeerHandles handles;
  handles.published = files[0];
  handles.inbound = files[1];
  handles.wake = files[2];
  handles.generation = answer.generation;
  handles.pid = answer.pid;
  handles.primary_slot = answer.primary;
  return handles;
}

uint64_t AgentClient::slot_generation(uint32_t slot) const {
  return slot < wire::kSlotsMax ? directory().slots[slot].generation.load(std::memory_order_acquire) : 0;
}

bool AgentClient::is_local(const Gid& gid) const {
  bool found = false;
  read_locked(directory().gid_sequence, [&] {
    found = false;
    const uint32_t count = gid_count();
    for (uint32_t i = 0; i < count && !found; i++) found = directory().gids[i].gid == gid;
  });
  return found && !gid.is_zero();
}

uint32_t AgentClient::members(const Gid& group, uint32_t* slots, uint32_t max) const {
  uint32_t found = 0;
  read_locked(directory().group_sequence, [&] {
    found = 0;
    const uint32_t count = std::min(directory().group_count.load(std::memory_order_acquire), kGroupsMax);
    for (uint32_t i = 0; i < count; i++) {
      const DirectoryGroup& entry = directory().groups[i];
      if (!(entry.group == group)) continue;
      for (uint32_t slot = 1; slot < wire::kSlotsMax && found < max; slot++)
        if (entry.members[slot / 64] >> (slot % 64) & 1) slots[found++] = slot;
    }
  });
  return found;
}

}  // namespace verbatim::agent
