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
#include "agent/xrc_domains.h"
#include "base/clock.h"
#include "base/expected.h"
#include "engine/host.h"
#include "engine/qp_types.h"
#include "wire/link/shm/neighborhood.h"
#include "wire/link/tap/board.h"

namespace verbatim::agent {

/// Takes what the agent has to tell; called by AgentClient::handle_notices.
class NoticeSink {
 public:
  virtual ~NoticeSink() = default;
  virtual void on_gone(uint32_t slot, uint64_t generation) = 0;
  virtual void on_gids_changed() = 0;
  virtual void on_link(bool up) = 0;
  /// The port of the device at this place in the list is as port_setting says now.
  virtual void on_raised(uint32_t /*device*/, engine::AsyncEvent /*event*/) {}
  /// The board is another, or what is active on it.
  virtual void on_taps_changed() {}
};

/// A process's side of the agent. Requests are answered within three seconds or fail with EAGAIN. When the
/// agent dies, handle_notices or the next request starts another and takes the process's place in it again;
/// until then the old directory serves. Thread safe.
class AgentClient final : public wire::Neighborhood {
 public:
  /// Joins, starting the agent if none runs; takes five seconds at most, eight when the agent hangs. The
  /// descriptors stay the caller's and must live as long as this does. Errors: ENOENT no agent to start,
  /// EACCES somebody else's process has the name, EPROTO an agent of another version runs, and what the agent
  /// says.
  static Expected<std::unique_ptr<AgentClient>> join(int published, int inbound, int wake,
                                                     const std::string& program);
  ~AgentClient() override;

  uint32_t slot() const { return slot_; }
  uint64_t generation() const { return generation_; }

  /// Readable when handle_notices has something to do; -1 while the agent is away (call it now and then).
  int fd() const { return notices_.load(std::memory_order_relaxed); }
  /// One caller at a time, which is also the only one that waits on fd().
  void handle_notices(NoticeSink& sink);
  /// In a forked child: lets go of the sockets without a word to the agent.
  void after_fork_child();

  /// A further slot for queue pair numbers.
  Expected<uint32_t> extra_slot();
  Outcome join_group(const Gid& group);
  Outcome leave_group(const Gid& group);
  /// The identity of a shared XRC domain, as XrcDomains::open.
  Expected<uint64_t> open_xrc_domain(const XrcName& name, bool create, bool exclusive);
  void close_xrc_domain(uint64_t identity);

  uint32_t gid_count() const;
  engine::GidEntry gid(uint32_t index) const;
  bool link_up() const;
  engine::PortSetting port_setting(uint32_t device) const;

  /// The counters in this tree for /sys are kept true from now on, by the next agents, too.
  void serve_counters(const std::string& root);

  // wire::Neighborhood
  Expected<wire::PeerHandles> introduce(uint32_t slot) override;
  uint64_t slot_generation(uint32_t slot) const override;
  bool is_local(const Gid& gid) const override;
  uint32_t members(const Gid& group, uint32_t* slots, uint32_t max) const override;
  Expected<int> open_wire() override;
  uint32_t interface_of(const Gid& gid) const override;
  uint32_t interfaces(uint32_t* indices, uint32_t max) const override;
  Expected<int> open_capture() override;
  /// The file for an outlet of Ethernet frames, as Outlets::open.
  Expected<int> open_outlet(const std::string& name);
  wire::tap::Board* board() const override { return board_.load(std::memory_order_acquire); }

 private:
  struct Reply;
  AgentClient(int published, int inbound, int wake, std::string program);
  Outcome connect_and_join(uint64_t deadline_ns);
  Outcome register_here(int socket);
  Outcome take_back_the_rest();
  void ask_for_counters();
  void return_wire();
  void return_ports();
  bool restore();
  void let_go();
  void close_all();
  bool prove(uint32_t slot);
  Expected<Reply> ask(Request request);
  Expected<Reply> ask_locked(Request request);
  Expected<Reply> ask_once(Request request, const int* files, int count);
  Outcome adopt_directory(int file);
  Outcome adopt_board(int& file);
  void tell_what_was_missed(NoticeSink& sink);
  const Directory& directory() const { return *directory_.load(std::memory_order_acquire); }

  const std::string name_, program_;
  const int files_[3];
  const SystemClock clock_;
  uint32_t slot_ = 0;
  uint64_t generation_ = 0;
  std::mutex lock_;
  int socket_ = -1;
  uint32_t serial_ = 0;
  uint64_t next_try_ns_ = 0, back_off_ns_ = 0;  ///< of finding a lost agent
  std::atomic<int> notices_{-1};
  std::vector<int> former_notices_;  ///< somebody may wait on them: handle_notices closes them
  std::atomic<const Directory*> directory_{nullptr};
  const Directory* told_ = nullptr;            ///< what the notices so far are about
  std::vector<const Directory*> directories_;  ///< of former agents: readers may still look
  std::atomic<wire::tap::Board*> board_{nullptr};
  std::vector<wire::tap::Board*> boards_;  ///< of former agents, too
  int board_file_ = -1;
  std::map<uint32_t, int> proofs_;      ///< by slot
  std::string tree_;                    ///< whose counters are served
  int wire_ = -1;                       ///< a duplicate of the socket on the port of RoCEv2
  std::map<std::string, int> outlets_;  ///< duplicates of their files, by name
  std::vector<uint32_t> extra_slots_;
  std::vector<Gid> groups_;
  std::vector<std::pair<XrcName, uint64_t>> xrc_domains_;  ///< with their identities
};

/// Connects to the user's agent for questions that need no joining (kList, kHistory, kDirectory). EACCES: the
/// name is somebody else's; ENAMETOOLONG; ECONNREFUSED: no agent runs. The caller closes the socket.
Expected<int> connect_agent();

/// The same, starting the agent when none runs. Errors: what kept it from starting; EAGAIN: it was started
/// but does not answer.
Expected<int> reach_agent();

/// One question over such a socket. The descriptors belong to the caller, whatever is returned. Errors: what
/// the agent says; EAGAIN it does not answer; EPROTO it is of another version.
/// `count` is of the descriptors that go with the question first, then of those that come with the answer.
Outcome ask_agent(int socket, Request request, Answer& answer, int* files, int& count);

}  // namespace verbatim::agent
