// SPDX-License-Identifier: MIT
#pragma once

// Ids of the connection manager for conformance cases: with channels, whose events a case waits for by name,
// and pairs of connected ones.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cstring>
#include <string>
#include <vector>

namespace verbatim::conformance {

inline constexpr int kWaitMs = 5000;

inline sockaddr_in v4(const char* address, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, address, &to.sin_addr);
  return to;
}

template <class Address>
sockaddr* generic(Address& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

/// An event, acknowledged when it goes.
class Happening {
 public:
  explicit Happening(rdma_cm_event* event) : event_(event) {}
  Happening(Happening&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  ~Happening() {
    if (event_ == nullptr) return;
    EXPECT_EQ(rdma_ack_cm_event(event_), 0);
  }
  rdma_cm_event* operator->() const { return event_; }
  rdma_cm_event* get() const { return event_; }
  std::string private_data() const {
    const rdma_conn_param& conn = event_->param.conn;
    return {static_cast<const char*>(conn.private_data), conn.private_data_len};
  }

 private:
  rdma_cm_event* event_;
};

/// An event channel with ids on it.
class Events {
 public:
  Events() : channel_(rdma_create_event_channel()) { EXPECT_NE(channel_, nullptr) << strerror(errno); }
  ~Events() { rdma_destroy_event_channel(channel_); }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  rdma_event_channel* get() const { return channel_; }

  rdma_cm_id* make(rdma_port_space ps = RDMA_PS_TCP, void* context = nullptr) const {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, context, ps), 0) << strerror(errno);
    return id;
  }
  bool has_one(int wait_ms = 0) const {
    pollfd wait{channel_->fd, POLLIN, 0};
    return poll(&wait, 1, wait_ms) == 1;
  }
  /// The next event, which must be of this type; a failure of the case after five seconds.
  Happening next(rdma_cm_event_type type, int status = 0) const {
    rdma_cm_event* event = nullptr;
    if (!has_one(kWaitMs) || rdma_get_cm_event(channel_, &event) != 0) {
      ADD_FAILURE() << "no event, " << rdma_event_str(type) << " was expected";
      return Happening(nullptr);
    }
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type));
    EXPECT_EQ(event->status, status);
    return Happening(event);
  }

 private:
  rdma_event_channel* const channel_;
};

inline ibv_qp_init_attr small_queues(ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = type;
  attributes.cap = {8, 8, 1, 1, 16};
  attributes.sq_sig_all = 1;
  return attributes;
}

inline void make_queues(rdma_cm_id* id) {
  ibv_qp_init_attr attributes = small_queues(id->qp_type);
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0) << strerror(errno);
}

inline rdma_conn_param parameters(const std::string& data = {}) {
  rdma_conn_param with{};
  with.private_data = data.data();
  with.private_data_len = static_cast<uint8_t>(data.size());
  with.responder_resources = with.initiator_depth = 4;
  with.retry_count = with.rnr_retry_count = 7;
  return with;
}

/// An id that listens on the loopback address, at a port of its own.
inline rdma_cm_id* listener(const Events& events, sockaddr_in& address, rdma_port_space ps = RDMA_PS_TCP,
                            int backlog = 4) {
  rdma_cm_id* id = events.make(ps);
  address = v4("127.0.0.1", 0);
  EXPECT_EQ(rdma_bind_addr(id, generic(address)), 0) << strerror(errno);
  EXPECT_EQ(rdma_listen(id, backlog), 0) << strerror(errno);
  address.sin_port = rdma_get_src_port(id);
  EXPECT_NE(address.sin_port, 0);
  return id;
}

/// An id whose way to `address` is known, with a queue pair.
inline rdma_cm_id* resolved(const Events& events, sockaddr_in& address, rdma_port_space ps = RDMA_PS_TCP) {
  rdma_cm_id* id = events.make(ps);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 2000), 0) << strerror(errno);
  events.next(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id, 2000), 0) << strerror(errno);
  events.next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

inline void destroy(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0) << strerror(errno);
}

/// A connection that one id of a process has asked another for, who has seen it.
struct Asked {
  Asked() {
    heard = listener(passive_events, address);
    active = resolved(active_events, address);
    make_queues(active);
    const std::string question = "may I?";
    rdma_conn_param ask = parameters(question);
    EXPECT_EQ(rdma_connect(active, &ask), 0) << strerror(errno);
    const Happening request = passive_events.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request->listen_id, heard);
    passive = request->id;
    asked = request.private_data();
  }

  Events active_events, passive_events;
  sockaddr_in address{};
  rdma_cm_id *heard = nullptr, *active = nullptr, *passive = nullptr;
  std::string asked;
};

/// Two connected ids of one process.
struct Connected : Asked {
  Connected() {
    make_queues(passive);
    const std::string answer = "you may";
    rdma_conn_param agree = parameters(answer);
    EXPECT_EQ(rdma_accept(passive, &agree), 0) << strerror(errno);
    answered = active_events.next(RDMA_CM_EVENT_ESTABLISHED).private_data();
    passive_events.next(RDMA_CM_EVENT_ESTABLISHED);
  }
  ~Connected() {
    destroy(active);
    destroy(passive);
    destroy(heard);
  }

  /// Sends a text from one side to the other.
  static std::string pass(rdma_cm_id* from, rdma_cm_id* to, std::string text) {
    std::vector<char> place(64);
    ibv_mr* into = rdma_reg_msgs(to, place.data(), place.size());
    EXPECT_EQ(rdma_post_recv(to, nullptr, place.data(), place.size(), into), 0);
    EXPECT_EQ(rdma_post_send(from, nullptr, text.data(), text.size(), nullptr, IBV_SEND_INLINE), 0);
    ibv_wc done{};
    EXPECT_EQ(rdma_get_send_comp(from, &done), 1);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_get_recv_comp(to, &done), 1);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_dereg_mr(into), 0);
    return {place.data(), done.status == IBV_WC_SUCCESS ? done.byte_len : 0};
  }

  std::string answered;
};

}  // namespace verbatim::conformance
