// SPDX-License-Identifier: MIT
// Round trips of librpma, and the same loop over bare verbs: post, poll until it is done, on a connection of
// the connection manager within one process. usage: rpma_costs rpma|verbs read|write|send BYTES    prints
// nanoseconds a round
#include <librpma.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "bench/need.h"

namespace {

using verbatim::bench::need;
using verbatim::bench::succeed;

constexpr char kAddress[] = "127.0.0.1", kPort[] = "7411";
constexpr int kRounds = 4'000, kBatches = 50;
constexpr uint32_t kDepth = 16;

/// The median of batches, the first of which does not count: others run on this machine, too.
template <class Round>
double time(Round round) {
  std::vector<double> batches;
  for (int batch = 0; batch <= kBatches; batch++) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; i++) round();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (batch > 0) batches.push_back(taken.count() / kRounds * 1e9);
  }
  std::sort(batches.begin(), batches.end());
  return batches[kBatches / 2];
}

/// Two ends of librpma.
class Rpma {
 public:
  explicit Rpma(size_t bytes) : bytes_(bytes), here_(bytes), there_(bytes) {
    ibv_context* device = nullptr;
    succeed(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device), "device");
    succeed(rpma_peer_new(device, &peer_), "rpma_peer_new");
    local_ = registered(here_);
    other_ = registered(there_);
    char descriptor[64];
    succeed(rpma_mr_get_descriptor(other_, descriptor), "rpma_mr_get_descriptor");
    succeed(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote_), "descriptor");
    connect();
  }
  double read() const {
    return time([this] {
      succeed(rpma_read(active_, local_, 0, remote_, 0, bytes_, RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_read");
      finish(active_cq_);
    });
  }
  double write() const {
    return time([this] {
      succeed(rpma_write(active_, remote_, 0, local_, 0, bytes_, RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_write");
      finish(active_cq_);
    });
  }
  double send() const {
    return time([this] {
      pass(active_, local_, active_cq_, passive_, other_, passive_cq_);
      pass(passive_, other_, passive_cq_, active_, local_, active_cq_);
    });
  }

 private:
  rpma_mr_local* registered(std::vector<char>& memory) const {
    rpma_mr_local* mr = nullptr;
    succeed(rpma_mr_reg(peer_, memory.data(), bytes_, 0xff, &mr), "rpma_mr_reg");
    return mr;
  }
  void connect() {
    rpma_ep* endpoint = nullptr;
    rpma_conn_req *asking = nullptr, *asked = nullptr;
    succeed(rpma_ep_listen(peer_, kAddress, kPort, &endpoint), "rpma_ep_listen");
    succeed(rpma_conn_req_new(peer_, kAddress, kPort, nullptr, &asking), "rpma_conn_req_new");
    succeed(rpma_conn_req_connect(&asking, nullptr, &active_), "rpma_conn_req_connect");
    succeed(rpma_ep_next_conn_req(endpoint, nullptr, &asked), "rpma_ep_next_conn_req");
    succeed(rpma_conn_req_connect(&asked, nullptr, &passive_), "rpma_conn_req_connect");
    for (rpma_conn* each : {active_, passive_}) {
      rpma_conn_event event;
      succeed(rpma_conn_next_event(each, &event), "rpma_conn_next_event");
      need(event == RPMA_CONN_ESTABLISHED, "connection");
    }
    succeed(rpma_conn_get_cq(active_, &active_cq_), "rpma_conn_get_cq");
    succeed(rpma_conn_get_cq(passive_, &passive_cq_), "rpma_conn_get_cq");
  }
  static void finish(rpma_cq* cq) {
    ibv_wc done;
    int result;
    while ((result = rpma_cq_get_wc(cq, 1, &done, nullptr)) == RPMA_E_NO_COMPLETION) {
    }
    need(result == 0 && done.status == IBV_WC_SUCCESS, "completion");
  }
  void pass(rpma_conn* from, rpma_mr_local* source, rpma_cq* sent, rpma_conn* to, rpma_mr_local* place,
            rpma_cq* received) const {
    succeed(rpma_recv(to, place, 0, bytes_, nullptr), "rpma_recv");
    succeed(rpma_send(from, source, 0, bytes_, RPMA_F_COMPLETION_ALWAYS, nullptr), "rpma_send");
    finish(sent);
    finish(received);
  }

  const size_t bytes_;
  std::vector<char> here_, there_;
  rpma_peer* peer_ = nullptr;
  rpma_mr_local *local_ = nullptr, *other_ = nullptr;
  rpma_mr_remote* remote_ = nullptr;
  rpma_conn *active_ = nullptr, *passive_ = nullptr;
  rpma_cq *active_cq_ = nullptr, *passive_cq_ = nullptr;
};

/// The same over ids of librdmacm and verbs.
class Verbs {
 public:
  explicit Verbs(size_t bytes) : bytes_(bytes), here_(bytes), there_(bytes) {
    rdma_addrinfo* at = resolved(RAI_PASSIVE);
    rdma_cm_id* heard = made(at);
    succeed(rdma_listen(heard, 1), "rdma_listen");
    active_ = made(resolved(0));
    auto accepted = std::async(std::launch::async, [heard] {
      rdma_cm_id* id = nullptr;
      succeed(rdma_get_request(heard, &id), "rdma_get_request");
      succeed(rdma_accept(id, nullptr), "rdma_accept");
      return id;
    });
    succeed(rdma_connect(active_, nullptr), "rdma_connect");
    passive_ = accepted.get();
    local_ = registered(active_, here_);
    other_ = registered(passive_, there_);
  }
  double read() const { return one_sided(IBV_WR_RDMA_READ); }
  double write() const { return one_sided(IBV_WR_RDMA_WRITE); }
  double send() const {
    return time([this] {
      pass(active_, local_, passive_, other_);
      pass(passive_, other_, active_, local_);
    });
  }

 private:
  static rdma_addrinfo* resolved(int flags) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    succeed(rdma_getaddrinfo(kAddress, kPort, &hints, &found), "rdma_getaddrinfo");
    return found;
  }
  static rdma_cm_id* made(rdma_addrinfo* at) {
    ibv_qp_init_attr queues{};
    queues.cap = {kDepth, kDepth, 1, 1, 8};
    queues.qp_type = IBV_QPT_RC;
    rdma_cm_id* id = nullptr;
    succeed(rdma_create_ep(&id, at, nullptr, &queues), "rdma_create_ep");
    return id;
  }
  ibv_mr* registered(rdma_cm_id* id, std::vector<char>& memory) const {
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    return need(ibv_reg_mr(id->pd, memory.data(), bytes_, kAccess), "ibv_reg_mr");
  }
  ibv_sge part(const ibv_mr* of) const {
    return {reinterpret_cast<uintptr_t>(of->addr), static_cast<uint32_t>(bytes_), of->lkey};
  }
  void post(rdma_cm_id* id, const ibv_mr* memory, ibv_wr_opcode opcode) const {
    ibv_sge piece = part(memory);
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {reinterpret_cast<uintptr_t>(other_->addr), other_->rkey};
    succeed(ibv_post_send(id->qp, &request, &bad), "ibv_post_send");
  }
  static void finish(ibv_cq* cq) {
    ibv_wc done;
    int result;
    while ((result = ibv_poll_cq(cq, 1, &done)) == 0) {
    }
    need(result == 1 && done.status == IBV_WC_SUCCESS, "completion");
  }
  double one_sided(ibv_wr_opcode opcode) const {
    return time([this, opcode] {
      post(active_, local_, opcode);
      finish(active_->send_cq);
    });
  }
  void pass(rdma_cm_id* from, const ibv_mr* source, rdma_cm_id* to, const ibv_mr* place) const {
    ibv_sge piece = part(place);
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    succeed(ibv_post_recv(to->qp, &request, &bad), "ibv_post_recv");
    post(from, source, IBV_WR_SEND);
    finish(from->send_cq);
    finish(to->recv_cq);
  }

  const size_t bytes_;
  std::vector<char> here_, there_;
  rdma_cm_id *active_ = nullptr, *passive_ = nullptr;
  ibv_mr *local_ = nullptr, *other_ = nullptr;
};

template <class Ends>
double measure(const std::string& what, size_t bytes) {
  const Ends ends(bytes);
  return what == "read" ? ends.read() : what == "write" ? ends.write() : ends.send();
}

}  // namespace

int main(int count, char** words) {
  const std::string by = count == 4 ? words[1] : "", what = count == 4 ? words[2] : "";
  const bool known = what == "read" || what == "write" || what == "send";
  if (!known || (by != "rpma" && by != "verbs")) {
    std::fprintf(stderr, "usage: rpma_costs rpma|verbs read|write|send BYTES\n");
    return 2;
  }
  const size_t bytes = std::strtoul(words[3], nullptr, 10);
  std::printf("%.3f\n", by == "rpma" ? measure<Rpma>(what, bytes) : measure<Verbs>(what, bytes));
  return 0;
}
