// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/rdmacm/device.h"
#include "lib/rdmacm/handover.h"
#include "lib/rdmacm/manager.h"
#include "lib/rdmacm/public.h"

namespace verbatim::rdmacm {

/// An event channel: an eventfd that counts the events that wait in the agent.
struct Channel {
  rdma_event_channel base{};
  uint32_t number = 0;

  static Channel* of(rdma_event_channel* channel) { return reinterpret_cast<Channel*>(channel); }
};

/// Events that the program has and those that it gave back.
struct Deliveries {
  uint32_t delivered = 0, acknowledged = 0;
  bool all_returned() const { return delivered == acknowledged; }
};

struct Id;

/// A multicast group that an id joined.
struct Membership {
  Id* id = nullptr;
  uint64_t key = 0;     ///< names it in events
  uint32_t number = 0;  ///< names it in requests
  void* context = nullptr;
  uint32_t join_flags = 0;
  sockaddr_storage address{};
  bool attached = false;
  ibv_gid group{};
  uint16_t lid = 0;
  Deliveries events;
};

/// An id. The public part comes first; what is not guarded by the table's lock is the business of whoever
/// calls for the id.
struct Id {
  rdma_cm_id base{};
  uint32_t number = 0;  ///< the agent's
  Device* device = nullptr;
  bool waits = false;   ///< its channel is its own: calls return when what they started has ended
  bool broken = false;  ///< failed to connect on this side: how the peer takes it is no news
  uint8_t initiator_depth = 0, responder_resources = 0;
  bool own_send_queue = false, own_receive_queue = false;  ///< completion queues made for the queue pair
  bool queue_of_srq = false;                               ///< recv_cq was made for the SRQ
  std::vector<uint8_t> connect_data;                       ///< goes in front of the program's private data
  std::unique_ptr<ibv_sa_path_rec> path;
  std::optional<ibv_qp_init_attr> request_queues;  ///< of ids that requests bring
  ibv_ece local_ece{}, remote_ece{};
  std::list<Membership> memberships;
  std::atomic<bool> resolving = false;  ///< between rdma_resolve_addrinfo and rdma_query_addrinfo
  rdma_addrinfo* resolved = nullptr;
  Deliveries events;
  Handover handover;                         ///< of a listener
  mutable std::atomic<bool> touched{false};  ///< asked something of since it was shown

  static Id* of(rdma_cm_id* id) { return reinterpret_cast<Id*>(id); }
};

/// Finds the ids of the process, and counts their events. Thread safe.
class IdTable {
 public:
  static IdTable& of_process();

  void add(Id& id);
  /// The id of that number, with one more event delivered; nullptr: destroyed.
  Id* deliver(uint32_t number);
  /// The same for a membership and its id.
  Membership* deliver_to_membership(uint64_t key);
  void acknowledge(Id& id, Membership* membership);
  /// There is an id of that number, and nothing has been asked of it.
  bool is_untouched(uint32_t number);

  /// From now on no event is delivered; returns when all are acknowledged.
  void remove(Id& id);
  void wait_for_acknowledgements(Id& id);

  Membership& add_membership(Id& id, const Membership& membership);
  /// The membership in a group; nullptr: none. It delivers no events any more.
  Membership* take_membership(Id& id, const sockaddr* group, socklen_t bytes);
  void wait_and_forget(Id& id, Membership& membership);

 private:
  Membership* find_membership(uint64_t key);

  std::mutex lock_;
  std::condition_variable acknowledged_;
  std::map<uint32_t, Id*> ids_;
  std::map<uint64_t, Membership*> memberships_;
  uint64_t next_key_ = 1;
};

/// A request about an id.
Request request_for(const Id& id, Do what);

Id* make_id(Channel* channel, void* context, rdma_port_space ps, ibv_qp_type qp_type);
/// Gives back all that is in it; the agent knows of it no more.
void free_id(Id* id);
/// rdma_create_id with a type of queue pair. 0, or -1 with errno set.
int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps,
              ibv_qp_type qp_type);

/// Takes what the agent knows of an id over into its public part, with the device. 0, or -1 with errno set.
int adopt(Id& id, const agent::cm::View& view);

/// For an id without channel: waits for the event that ends what was started. 0, or -1 with errno set.
int complete(Id& id);
/// Acknowledges the event that an id without channel holds.
void drop_event(Id& id);

/// Queues an event at the agent. 0, or -1 with errno set.
int write_event(Id& id, rdma_cm_event_type type, int status, uint64_t argument);

/// Takes events off a channel that the agent took back.
void take_off(const Channel& channel, uint32_t count);

}  // namespace verbatim::rdmacm
