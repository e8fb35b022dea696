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
#include <utility>

#include "agent/client_reply.h"
#include "agent/gid_table.h"
#include "agent/spawn.h"
#include "base/spinlock.h"

namespace verbatim::agent {

namespace {

constexpr int kAnswerMs = 3000;
constexpr uint64_t kReachNs = 5'000'000'000;
constexpr uint64_t kRestoreNs = 1'000'000'000;
constexpr uint64_t kBackOffMinNs = 50'000'000, kBackOffMaxNs = 5'000'000'000;
constexpr int kReadAttempts = 1000;
constexpr int kSlotAttempts = 4;
constexpr const char* kTooManyFiles = "this process has too many files open";

// Reads a part of the directory that its writer may be changing. An agent that died while writing leaves it
// odd: then what is there has to do until the next agent's is here.
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
  read();
}

Expected<int> connect_to(const std::string& name) {
  if (name.size() > kAgentNameMax)
    return Error{ENAMETOOLONG,
                 "VERBATIM_AGENT_SOCKET is longer than " + std::to_string(kAgentNameMax) + " bytes"};
  const int socket = connect_name(name, kAnswerMs);
  if (socket < 0) return Error{errno, "no agent answers at @" + name};
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (known && (peer.uid == geteuid() || peer.uid == 0)) return socket;
  close(socket);
  return Error{EACCES, "the agent's name @" + name + " is held by process " + std::to_string(peer.pid) +
                           " of another user"};
}

// Several programs may start one at once, and one may be about to leave: try again for a while.
Expected<int> reach(const std::string& name, const Clock& clock, uint64_t deadline_ns) {
  const auto settled = [](const Expected<int>& socket) {
    return socket || socket.error().code == EACCES || socket.error().code == ENAMETOOLONG;
  };
  for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 200)) {
    Expected<int> socket = connect_to(name);
    if (settled(socket)) return socket;
    if (Outcome started = start_agent(); !started) return started.error();
    socket = connect_to(name);
    if (settled(socket)) return socket;
    if (clock.now_ns() >= deadline_ns) {
      const Expected<std::string> path = find_agent();
      return Error{EAGAIN,
                   "the agent " + (path ? *path : "") + " was started but does not answer at @" + name};
    }
    poll(nullptr, 0, pause_ms);
  }
}

Request xrc_request(const XrcName& name, bool create, bool exclusive) {
  const XrcWish wish{name.file.device, name.file.inode, name.device, create, exclusive};
  Request request{};
  request.ask = Ask::kOpenXrcDomain;
  std::memcpy(request.program, &wish, sizeof wish);
  return request;
}

}  // namespace

Expected<int> connect_agent() { return connect_to(agent_name()); }

Expected<int> reach_agent() {
  const SystemClock clock;
  return reach(agent_name(), clock, clock.now_ns() + kReachNs);
}

Outcome ask_agent(int socket, Request request, Answer& answer, int* files, int& count) {
  request.version = kVersion;
  const bool sent = send_record(socket, &request, sizeof request, files, count);
  count = 0;
  if (!sent) return Error{EAGAIN, "the agent is away"};
  const Received got = receive_record(socket, &answer, sizeof answer, files, count);
  if (got == Received::kMalformed) return Error{EPROTO, "an agent of another version runs"};
  if (got == Received::kTruncated) return Error{EMFILE, kTooManyFiles};
  if (got != Received::kRecord) return Error{EAGAIN, "the agent does not answer"};
  answer.text[sizeof answer.text - 1] = 0;
  return answer.error == 0 ? Outcome(Done{}) : Outcome(Error{answer.error, answer.text});
}

AgentClient::AgentClient(int published, int inbound, int wake, std::string program)
    : name_(agent_name()), program_(std::move(program)), files_{published, inbound, wake} {}

Expected<std::unique_ptr<AgentClient>> AgentClient::join(int published, int inbound, int wake,
                                                         const std::string& program) {
  std::unique_ptr<AgentClient> client(new AgentClient(published, inbound, wake, program));
  std::lock_guard<std::mutex> hold(client->lock_);
  if (Outcome joined = client->connect_and_join(client->clock_.now_ns() + kReachNs); !joined)
    return joined.error();
  client->told_ = &client->directory();
  return client;
}

AgentClient::~AgentClient() {
  close_all();
  for (const Directory* each : directories_) munmap(const_cast<Directory*>(each), sizeof(Directory));
  for (wire::tap::Board* each : boards_) munmap(each, sizeof(wire::tap::Board));
}

void AgentClient::after_fork_child() { close_all(); }

void AgentClient::close_all() {
  for (const auto& [slot, proof] : proofs_) close(proof);
  proofs_.clear();
  if (wire_ >= 0) close(std::exchange(wire_, -1));
  for (const auto& [name, file] : outlets_) close(file);
  outlets_.clear();
  if (board_file_ >= 0) close(std::exchange(board_file_, -1));
  for (const int file : former_notices_) close(file);
  former_notices_.clear();
  if (notices_ >= 0) close(notices_.exchange(-1));
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

Outcome AgentClient::connect_and_join(uint64_t deadline_ns) {
  for (;;) {
    Expected<int> socket = reach(name_, clock_, deadline_ns);
    if (!socket) return socket.error();
    Outcome joined = register_here(*socket);
    if (joined || joined.error().code != EAGAIN || clock_.now_ns() >= deadline_ns) return joined;
  }
}

// With the lock held: joins over a fresh connection, which becomes this client's.
Outcome AgentClient::register_here(int socket) {
  socket_ = socket;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    const int error = errno;
    let_go();
    return Error{error, "no socket for notices"};
  }
  Request request{};
  request.ask = Ask::kJoin;
  request.slot = slot_;
  request.generation = generation_;
  std::strncpy(request.program, program_.c_str(), sizeof request.program - 1);
  const bool again = slot_ != 0;
  const int files[5] = {files_[0], files_[1], files_[2], pair[1], again ? proofs_[slot_] : -1};
  Expected<Reply> reply = ask_once(request, files, again ? 5 : 4);
  close(pair[1]);
  Outcome joined = reply ? Outcome(Done{}) : Outcome(reply.error());
  if (joined && reply->count != 2) joined = Error{EPROTO, "the agent sent no directory"};
  if (joined && !again && !prove(reply->answer.slot))
    joined = Error{EAGAIN, "the slot's proof is held by another process"};
  if (joined) joined = adopt_directory(reply->files[0]);
  if (joined) joined = adopt_board(reply->files[1]);
  if (!joined) {
    close(pair[0]);
    let_go();
    return joined;
  }
  if (!again) {  // else they stay, and may be read meanwhile
    slot_ = reply->answer.slot;
    generation_ = reply->answer.generation;
  }
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  const int former = notices_.exchange(pair[0]);
  if (former >= 0) former_notices_.push_back(former);
  return_ports();
  if (wire_ >= 0) return_wire();
  Outcome rest = take_back_the_rest();
  if (!rest) let_go();
  return rest;
}

// After the agent was replaced: further slots and groups.
Outcome AgentClient::take_back_the_rest() {
  for (const uint32_t slot : extra_slots_) {
    Request request{};
    request.ask = Ask::kExtraSlot;
    request.slot = slot;
    if (auto asked = ask_once(request, &proofs_[slot], 1); !asked) return asked.error();
  }
  for (const Gid& group : groups_) {
    Request request{};
    request.ask = Ask::kJoinGroup;
    request.group = group;
    if (auto asked = ask_once(request, nullptr, 0); !asked) return asked.error();
  }
  for (const auto& [name, file] : outlets_) {
    Request request = outlet_request(name);
    (void)ask_once(request, &file, 1);
  }
  for (const auto& [name, identity] : xrc_domains_) {
    Request request = xrc_request(name, false, false);
    request.generation = identity;
    (void)ask_once(request, nullptr, 0);  // where somebody was faster, the two are different domains now
  }
  ask_for_counters();
  return Done{};
}

// With the lock held: finds or starts an agent again, less and less often when that fails.
bool AgentClient::restore() {
  const uint64_t now = clock_.now_ns();
  if (now < next_try_ns_) return false;
  if (connect_and_join(now + kRestoreNs)) {
    next_try_ns_ = back_off_ns_ = 0;
    return true;
  }
  back_off_ns_ = std::clamp(back_off_ns_ * 2, kBackOffMinNs, kBackOffMaxNs);
  next_try_ns_ = clock_.now_ns() + back_off_ns_;
  return false;
}

// With the lock held: the connection is of no use any more.
void AgentClient::let_go() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

bool AgentClient::prove(uint32_t slot) {
  const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
  if (proof < 0) return false;
  proofs_[slot] = proof;
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

Expected<AgentClient::Reply> AgentClient::ask(Request request) {
  std::lock_guard<std::mutex> hold(lock_);
  return ask_locked(request);
}

// With the lock held. The agent may have died unnoticed: then another one is asked.
Expected<AgentClient::Reply> AgentClient::ask_locked(Request request) {
  Expected<Reply> reply = ask_once(request, nullptr, 0);
  if (reply || socket_ >= 0 || slot_ == 0 || !restore()) return reply;
  return ask_once(request, nullptr, 0);
}

// With the lock held. A late answer is thrown away when it comes, so that a slow agent is not a lost one.
Expected<AgentClient::Reply> AgentClient::ask_once(Request request, const int* files, int count) {
  const Error away{EAGAIN, "the agent is away"};
  if (socket_ < 0) return away;
  request.version = kVersion;
  request.serial = ++serial_;
  if (!send_record(socket_, &request, sizeof request, files, count)) {
    if (errno != EAGAIN) let_go();
    return away;
  }
  const uint64_t deadline_ns = clock_.now_ns() + uint64_t{kAnswerMs} * 1'000'000;
  do {
    Reply reply;
    const Received got =
        receive_record(socket_, &reply.answer, sizeof reply.answer, reply.files, reply.count);
    switch (got) {
      case Received::kNothing:
        return Error{EAGAIN, "the agent does not answer"};
      case Received::kClosed:
        let_go();
        return away;
      case Received::kMalformed:
        let_go();
        return Error{EPROTO, "an agent of another version runs at @" + name_};
      case Received::kRecord:
      case Received::kTruncated:
        break;
    }
    reply.answer.text[sizeof reply.answer.text - 1] = 0;
    if (reply.answer.error == EPROTO) return Error{EPROTO, reply.answer.text};
    if (reply.answer.serial != request.serial) continue;
    if (reply.answer.error != 0) return Error{reply.answer.error, reply.answer.text};
    if (got == Received::kTruncated) return Error{EMFILE, kTooManyFiles};
    return reply;
  } while (clock_.now_ns() < deadline_ns);
  return Error{EAGAIN, "the agent does not answer"};
}

void AgentClient::handle_notices(NoticeSink& sink) {
  const int notices = notices_.load();
  Received got = Received::kClosed;
  while (notices >= 0) {
    Notice notice{};
    int files[kFilesMax], count = 0;
    got = receive_record(notices, &notice, sizeof notice, files, count);
    close_files(files, count);
    if (got != Received::kRecord) break;
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
      case Event::kTapsChanged:
        sink.on_taps_changed();
        break;
      case Event::kRaised:
        sink.on_raised(notice.slot, static_cast<engine::AsyncEvent>(notice.generation));
        break;
    }
  }
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (got != Received::kNothing && notices_ == notices) {
      if (notices >= 0) close(notices_.exchange(-1));
      let_go();
      restore();
    }
    for (const int file : former_notices_) close(file);
    former_notices_.clear();
  }
  if (told_ != &directory()) tell_what_was_missed(sink);
}

// Between two agents nobody tells of processes that end, addresses that change: the two directories and the
// slots' proofs do.
void AgentClient::tell_what_was_missed(NoticeSink& sink) {
  const Directory& before = *told_;
  const Directory& now = directory();
  told_ = &now;
  for (uint32_t slot = 1; slot < wire::kSlotsMax; slot++) {
    const uint64_t generation = before.slots[slot].generation;
    if (generation == 0 || before.slots[slot].primary != slot || now.slots[slot].generation == generation)
      continue;
    const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
    if (proof < 0) continue;
    close(proof);
    sink.on_gone(slot, generation);
  }
  bool same = before.gid_count == now.gid_count;
  for (uint32_t i = 0; same && i < kGidsMax; i++)
    same = before.gids[i].gid == now.gids[i].gid && before.gids[i].type == now.gids[i].type;
  if (!same) sink.on_gids_changed();
  if (before.link_up != now.link_up) sink.on_link(now.link_up != 0);
  for (uint32_t device = 0; device < engine::kPortsShown; device++)
    if (before.ports[device].down && !now.ports[device].down)
      sink.on_raised(device, engine::AsyncEvent::kPortActive);
  sink.on_taps_changed();
}

Expected<uint32_t> AgentClient::extra_slot() {
  std::lock_guard<std::mutex> hold(lock_);
  for (int attempt = 0; attempt < kSlotAttempts; attempt++) {
    Request request{};
    request.ask = Ask::kExtraSlot;
    Expected<Reply> reply = ask_locked(request);
    if (!reply) return reply.error();
    if (!prove(reply->answer.slot)) continue;
    extra_slots_.push_back(reply->answer.slot);
    return reply->answer.slot;
  }
  return Error{ENOMEM, "no further slot could be had"};
}

Outcome AgentClient::join_group(const Gid& group) {
  std::lock_guard<std::mutex> hold(lock_);
  Request request{};
  request.ask = Ask::kJoinGroup;
  request.group = group;
  if (std::find(groups_.begin(), groups_.end(), group) == groups_.end())
    if (auto asked = ask_locked(request); !asked) return asked.error();
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
  (void)ask_locked(request);  // in vain: the next agent is not told of the group
  return Done{};
}

Expected<uint64_t> AgentClient::open_xrc_domain(const XrcName& name, bool create, bool exclusive) {
  std::lock_guard<std::mutex> hold(lock_);
  Expected<Reply> reply = ask_locked(xrc_request(name, create, exclusive));
  if (!reply) return reply.error();
  xrc_domains_.emplace_back(name, reply->answer.generation);
  return reply->answer.generation;
}

void AgentClient::close_xrc_domain(uint64_t identity) {
  std::lock_guard<std::mutex> hold(lock_);
  const auto found = std::find_if(xrc_domains_.begin(), xrc_domains_.end(),
                                  [identity](const auto& entry) { return entry.second == identity; });
  if (found == xrc_domains_.end()) return;
  xrc_domains_.erase(found);
  Request request{};
  request.ask = Ask::kCloseXrcDomain;
  request.generation = identity;
  (void)ask_locked(request);  // in vain: the next agent is not told of the domain
}

void AgentClient::serve_counters(const std::string& root) {
  std::lock_guard<std::mutex> hold(lock_);
  tree_ = root;
  ask_for_counters();
}

// With the lock held. In vain: counters stay what they are.
void AgentClient::ask_for_counters() {
  Request request{};
  request.ask = Ask::kServeCounters;
  if (tree_.empty() || tree_.size() >= sizeof request.text) return;
  tree_.copy(request.text, tree_.size());
  (void)ask_once(request, nullptr, 0);
}

engine::PortSetting AgentClient::port_setting(uint32_t device) const {
  return device < engine::kPortsShown ? setting_of(directory().ports[device]) : engine::PortSetting{};
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
  Expected<Reply> reply = ask(request);
  if (!reply) return reply.error();
  if (reply->count != 3) return Error{EPROTO, "the agent sent no handles"};
  wire::PeerHandles handles;
  handles.published = reply->files[0];
  handles.inbound = reply->files[1];
  handles.wake = reply->files[2];
  reply->count = 0;  // theirs now
  handles.generation = reply->answer.generation;
  handles.pid = reply->answer.pid;
  handles.primary_slot = reply->answer.primary;
  return handles;
}

uint32_t AgentClient::interface_of(const Gid& gid) const {
  uint32_t index = 0;
  read_locked(directory().gid_sequence, [&] {
    index = 0;
    const uint32_t count = gid_count();
    for (uint32_t i = 0; i < count && index == 0; i++)
      if (directory().gids[i].gid == gid) index = directory().gids[i].interface_index;
  });
  return index;
}

uint32_t AgentClient::interfaces(uint32_t* indices, uint32_t max) const {
  uint32_t found = 0;
  read_locked(directory().gid_sequence, [&] {
    found = 0;
    const uint32_t count = gid_count();
    for (uint32_t i = 0; i < count && found < max; i++) {
      const engine::GidEntry& entry = directory().gids[i];
      if (is_reachable(entry.gid) &&
          std::find(indices, indices + found, entry.interface_index) == indices + found)
        indices[found++] = entry.interface_index;
    }
  });
  return found;
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
