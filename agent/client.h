// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/directory.h"
#include "agent/protocol.h"
#include "base/expected.h"
#include "engine/host.h"
#include "wire/link/shm/neighborhood.h"

namespace verbatim::agent {

/// Takes what the agent has to tell; called by AgentClient::handle_notices.
class NoticeSink {
 public:
  virtual ~NoticeSink() = default;
  virtual void on_gone(uint32_t slot, uint64_t generation) = 0;
  virtual void on_gids_changed() = 0;
  virtual void on_link(bool up) = 0;
};

/// A process's side of the agent. Requests are answered within three seconds or fail with EAGAIN. When the
/// agent dies, handle_notices starts another and takes the process's place in it again; until then the old
/// directory serves. Thread safe.
class AgentClient final : public wire::Neighborhood {
 public:
  /// Joins, starting the agent if none runs. The descriptors stay the caller's and must live as long as this
  /// does. Errors: ENOENT no agent to start, EACCES somebody else's process has the name, and what the agent
  /// says.
  static Expected<std::unique_ptr<AgentClient>> join(int published, int inbound, int wake,
                                                     const std::string& program);
  ~AgentClient() override;

  uint32_t slot() const { return slot_; }
  uint64_t generation() const { return generation_; }

  /// Readable when handle_notices has something to do; -1 while the agent is away (call it now and then).
  int fd() const { return notices_.load(std::memory_order_relaxed); }
  /// One caller at a time.
  void handle_notices(NoticeSink& sink);
  /// In a forked child: lets go of the sockets without a word to the agent.
  void after_fork_child();

  /// A further slot for queue pair numbers.
  Expected<uint32_t> extra_slot();
  Outcome join_group(const Gid& group);
  Outcome leave_group(const Gid& group);

  uint32_t gid_count() const;
  engine::GidEntry gid(uint32_t index) const;
  bool link_up() const;

  // wire::Neighborhood
  Expected<wire::PeerHandles> introduce(uint32_t slot) override;
  uint64_t slot_generation(uint32_t slot) const override;
  bool is_local(const Gid& gid) const override;
  uint32_t members(const Gid& group, uint32_t* slots, uint32_t max) const override;

 private:
  AgentClient(int published, int inbound, int wake, std::string program);
  Outcome connect_and_join();
  Outcome register_here(int socket);
  Outcome take_back_the_rest();
  bool prove(uint32_t slot);
  Outcome ask(Request& request, const int* files, int count, Answer& answer, int* reply_files,
              int& reply_count);
  Outcome ask_locked(Request& request, const int* files, int count, Answer& answer, int* reply_files,
                     int& reply_count);
  Outcome adopt_directory(int file);
  const Directory& directory() const { return *directory_.load(std::memory_order_acquire); }

  const std::string name_, program_;
  const int files_[3];
  uint32_t slot_ = 0;
  uint64_t generation_ = 0;
  std::mutex lock_;
  int socket_ = -1;
  std::atomic<int> notices_{-1};
  std::atomic<const Directory*> directory_{nullptr};
  std::vector<const Directory*> directories_;  ///< of former agents: readers may still look
  std::vector<int> proofs_;
  std::vector<uint32_t> extra_slots_;
  std::vector<Gid> groups_;
};

/// Connects to the user's agent for questions that need no joining (kList, kHistory). EACCES: the name is
/// somebody else's; ECONNREFUSED: no agent runs. The caller closes the socket.
Expected<int> connect_agent();

}  // namespace verbatim::agent
