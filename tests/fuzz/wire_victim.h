// SPDX-License-Identifier: MIT
#pragma once

// What hostile packets are sent to: a process with memory, queue pairs and an id that listens.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <string>
#include <vector>

#include "base/gid.h"
#include "tests/fuzz/random.h"
#include "tests/fuzz/wire_marker.h"

namespace verbatim::fuzz {

[[noreturn]] void fail(const std::string& what);
inline void expect(bool right, const char* what) {
  if (!right) fail(what);
}

inline constexpr size_t kPart = 16384, kParts = 8;
/// What the memory is for. Between them lies what has no key.
enum Part : size_t { kWritable = 1, kReadOnly = 3, kReceives = 5, kLocal = 6 };
inline constexpr uint32_t kPsn = 0x1000, kQkey = 0x11111111;
inline constexpr uint64_t kAccessKey = 0x0123456789abcdef;
inline constexpr uint16_t kListenPort = 7471;

/// 127.0.0.`number`
Gid host(uint8_t number);
inline constexpr uint8_t kVictim = 1, kPeer = 2, kStranger = 3;

/// The attacked process, which is this one. Its queue pairs are connected to a host that does not answer.
class Victim {
 public:
  explicit Victim(Random& random);
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  /// All can be taken down again, whatever came.
  ~Victim();

  uint8_t* memory;
  ibv_mr *writable, *read_only;
  ibv_mr *receives, *local;  ///< peers have no right to them
  ibv_qp *connected, *unreliable, *datagrams;
  ibv_qp* dynamic;   ///< a target of whoever has its access key
  ibv_qp* extended;  ///< a receiver of XRC, connected as the others are
  uint32_t extended_queue = 0;

  /// A queue pair that has failed is replaced; each has requests to receive, and waits for answers.
  void get_ready();
  /// All are replaced: nothing that was sent so far has anything to do with them.
  void renew();
  void take_completions();
  /// All that was sent so far has been taken in.
  void settle();
  /// Of the queue pair that knows that.
  uint32_t marker() const { return marker_->number(); }
  std::vector<uint8_t> copy() const { return {memory, memory + kPart * kParts}; }
  void scramble() { random_.fill(memory, kPart * kParts); }

 private:
  ibv_mr* reg(Part part, int access);
  ibv_qp* make(ibv_qp_type type);
  ibv_qp* make_target();
  void open_extended();
  ibv_qp* make_extended();
  void replace(ibv_qp*& qp);
  void receive(uint64_t id);
  void ask(ibv_qp* qp);

  Random& random_;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_srq *srq_, *extended_srq_;
  ibv_xrcd* domain_;
  std::unique_ptr<Marker> marker_;
};

/// Ids that listen, and do this or that with what comes.
class Listener {
 public:
  explicit Listener(Random& random);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();
  /// Takes what there is; how many requests for connections.
  uint32_t take_events();

 private:
  void answer(rdma_cm_id* child);

  Random& random_;
  rdma_event_channel* channel_;
  std::vector<rdma_cm_id*> listening_, children_;
};

}  // namespace verbatim::fuzz
