// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/verbs_arguments.h"

namespace verbatim::fuzz {

/// How often a call did what it was asked for, and how often it refused.
struct Ends {
  uint64_t done = 0, refused = 0;
};
using Tally = std::map<std::string_view, Ends>;

/// What the players of a world share and none of them destroys.
struct Common {
  uint64_t seed = 0;
  ibv_context* context = nullptr;
  ibv_gid gid{};      ///< of the port
  uint16_t lid = 0;   ///< 0: it is Ethernet
  bool alone = true;  ///< one player: all events and completions are its own

  // Objects of another context, which must never be taken for one's own.
  ibv_pd* strange_pd = nullptr;
  ibv_cq* strange_cq = nullptr;
  ibv_srq* strange_srq = nullptr;
  ibv_mr* strange_mr = nullptr;
  int file = -1;  ///< of shared memory, for what takes file descriptors
};

class Player;

/// Objects of one kind that a player has.
template <class T>
class Pool {
 public:
  using Destroy = int (*)(T*);
  Pool(const char* call, Destroy destroy, size_t most = 10) : call_(call), destroy_(destroy), most_(most) {}

  T* any(Random& random) const {
    return all_.empty() ? nullptr : all_[random.below(static_cast<uint32_t>(all_.size()))];
  }
  /// Some, so that worlds stay small.
  bool full() const { return all_.size() >= most_; }
  void add(T* object) {
    if (object != nullptr) all_.push_back(object);
  }
  bool has(const T* object) const { return std::ranges::find(all_, object) != all_.end(); }
  const std::vector<T*>& all() const { return all_; }
  void destroy_any(Player& player);
  /// Those that can be.
  void destroy_all(Player& player);
  std::string left() const { return all_.empty() ? "" : " " + std::to_string(all_.size()) + " for " + call_; }

 private:
  void destroy(Player& player, T* object);

  const char* call_;
  Destroy destroy_;
  size_t most_;
  std::vector<T*> all_;
};

/// One thread of a program that calls whatever there is with whatever it finds.
class Player {
 public:
  Player(const Common& common, const Arena& arena, uint64_t seed);

  /// One call, or a few that belong together.
  void step();
  /// Takes down all that it has made, each of which must work; ends the process if it does not.
  void finish();
  const Tally& tally() const { return tally_; }

  // For the actions. Each of the first three ends the process if the answer is none that is documented.
  /// 0 or an errno value. Whether the call did it.
  bool took(const char* call, int result);
  /// 0, or -1 and errno.
  bool took_or_minus(const char* call, int result);
  /// An object, or NULL and errno.
  template <class T>
  T* made(const char* call, T* object) {
    note(call, object != nullptr, errno);
    return object;
  }
  void note(const char* call, bool done, int error);
  [[noreturn]] void fail(const std::string& what) const;
  void expect(bool right, const char* what) const {
    if (!right) fail(what);
  }

  uint32_t below(uint32_t bound) { return arguments.random.below(bound); }
  uint32_t between(uint32_t least, uint32_t most) { return arguments.random.between(least, most); }
  bool one_in(uint32_t n) { return arguments.random.one_in(n); }
  template <class T>
  T* any(const Pool<T>& pool) {
    return pool.any(arguments.random);
  }
  ibv_pd* some_pd();
  ibv_ah_attr some_address();
  ibv_gid some_gid();
  ibv_sge some_piece();
  uint32_t some_qpn();
  void before_destruction(ibv_cq* cq);
  void before_destruction(ibv_qp* qp);
  template <class T>
  void before_destruction(T*) {}

  const Common& common;
  Arguments arguments;

  /// Few, because only objects of one domain work together.
  Pool<ibv_pd> pds{"ibv_dealloc_pd", ibv_dealloc_pd, 3};
  Pool<ibv_td> tds{"ibv_dealloc_td", ibv_dealloc_td};
  Pool<ibv_xrcd> xrc_domains{"ibv_close_xrcd", ibv_close_xrcd};
  Pool<ibv_mr> mrs{"ibv_dereg_mr", ibv_dereg_mr};
  Pool<ibv_mw> mws{"ibv_dealloc_mw", ibv_dealloc_mw};
  Pool<ibv_dm> dms{"ibv_free_dm", ibv_free_dm};
  Pool<ibv_dmah> dmahs{"ibv_dealloc_dmah", ibv_dealloc_dmah};
  Pool<ibv_buf> bufs{"ibv_free_buf", [](ibv_buf* buf) {
                       ibv_free_buf(buf);
                       return 0;
                     }};
  Pool<ibv_comp_channel> channels{"ibv_destroy_comp_channel", ibv_destroy_comp_channel};
  Pool<ibv_cq> cqs{"ibv_destroy_cq", ibv_destroy_cq};
  Pool<ibv_srq> srqs{"ibv_destroy_srq", ibv_destroy_srq};
  Pool<ibv_qp> qps{"ibv_destroy_qp", ibv_destroy_qp};
  Pool<ibv_ah> ahs{"ibv_destroy_ah", ibv_destroy_ah};
  Pool<ibv_wq> wqs{"ibv_destroy_wq", ibv_destroy_wq};
  Pool<ibv_rwq_ind_table> tables{"ibv_destroy_rwq_ind_table", ibv_destroy_rwq_ind_table};
  Pool<ibv_flow> flows{"ibv_destroy_flow", ibv_destroy_flow};
  Pool<ibv_flow_action> flow_actions{"ibv_destroy_flow_action", ibv_destroy_flow_action};
  Pool<ibv_counters> counters{"ibv_destroy_counters", ibv_destroy_counters};
  Pool<ibv_comp_cntr> comp_cntrs{"ibv_destroy_comp_cntr", ibv_destroy_comp_cntr};

  std::map<const ibv_mr*, uint64_t> starts;  ///< first address of each region
  std::map<const ibv_buf*, void*> buffers;   ///< where each lies
  std::set<const ibv_cq*> extended;          ///< queues made with ibv_create_cq_ex
  std::set<const ibv_cq*> shared;            ///< queues that shared receive queues complete into
  std::map<ibv_cq*, unsigned> unacknowledged;
  struct Attachment {
    ibv_qp* qp;
    ibv_gid gid;
    uint16_t lid;
  };
  std::vector<Attachment> attachments;
  /// What the allocators of parent domains have out.
  std::set<void*> allocations;

 private:
  void destroy_what_goes();
  std::string left() const;

  Tally tally_;
  uint32_t steps_ = 0;
};

/// A call with its share of the steps.
struct Action {
  void (*play)(Player& player);
  uint32_t weight;
};
std::span<const Action> memory_actions();
std::span<const Action> queue_actions();
std::span<const Action> queue_pair_actions();
std::span<const Action> packet_actions();
std::span<const Action> posting_actions();
std::span<const Action> query_actions();

template <class T>
void Pool<T>::destroy(Player& player, T* object) {
  player.before_destruction(object);
  const int result = destroy_(object);
  player.expect(result == 0 || result == EBUSY, call_);
  if (player.took(call_, result)) std::erase(all_, object);
}

template <class T>
void Pool<T>::destroy_any(Player& player) {
  if (T* object = player.any(*this)) destroy(player, object);
}

template <class T>
void Pool<T>::destroy_all(Player& player) {
  for (T* object : std::vector<T*>(all_)) destroy(player, object);
}

}  // namespace verbatim::fuzz
