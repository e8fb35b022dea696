// SPDX-License-Identifier: MIT
#pragma once

// What cases of librpma are made of: peers, memory, pairs of connected ends, and the library's log, which a
// refused call has to explain itself in.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <librpma.h>
#include <poll.h>

#include <cstdarg>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace verbatim::conformance {

inline constexpr char kAddress[] = "127.0.0.1";
inline constexpr char kPort[] = "7204";
inline constexpr int kWaitMs = 5000;

/// The library's messages, while one of these lives.
class Log {
 public:
  struct Message {
    rpma_log_level level;
    std::string file, function, text;
    int line;
  };

  explicit Log(rpma_log_level level = RPMA_LOG_LEVEL_ERROR) {
    messages().clear();
    EXPECT_EQ(rpma_log_set_function(take), 0);
    EXPECT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, level), 0);
  }
  ~Log() {
    EXPECT_EQ(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING), 0);
    EXPECT_EQ(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  static std::vector<Message>& messages() {
    static std::vector<Message> all;
    return all;
  }
  /// Everything that was said since it was asked last.
  static std::string drain() {
    const std::scoped_lock guard(lock());
    std::string all;
    for (const Message& each : messages()) all += each.text;
    messages().clear();
    return all;
  }

 private:
  static std::mutex& lock() {
    static std::mutex one;
    return one;
  }
  static void take(rpma_log_level level, const char* file_name, const int line_no, const char* function_name,
                   const char* message_format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, message_format);
    vsnprintf(text, sizeof text, message_format, arguments);
    va_end(arguments);
    const std::scoped_lock guard(lock());
    messages().push_back({level, file_name, function_name, text, line_no});
  }
};

/// A call's result with its cause in the log. What was logged before is forgotten.
#define EXPECT_REFUSED(call, expected, cause)                                   \
  do {                                                                          \
    verbatim::conformance::Log::drain();                                        \
    EXPECT_EQ((call), (expected));                                              \
    const std::string said = verbatim::conformance::Log::drain();               \
    EXPECT_NE(said.find(cause), std::string::npos) << "the log says: " << said; \
  } while (false)

/// A peer on the device of the loopback address.
struct Peer {
  Peer() {
    EXPECT_EQ(rpma_utils_get_ibv_context(kAddress, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device), 0);
    EXPECT_EQ(rpma_peer_new(device, &peer), 0);
  }
  ~Peer() { EXPECT_EQ(rpma_peer_delete(&peer), 0); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  operator rpma_peer*() const { return peer; }

  ibv_context* device = nullptr;
  rpma_peer* peer = nullptr;
};

inline constexpr int kEveryUsage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                                   RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                                   RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_SEND |
                                   RPMA_MR_USAGE_RECV;

/// Registered memory, and what the other side makes of its descriptor.
struct Memory {
  explicit Memory(rpma_peer* peer, size_t bytes = 4096, int usage = kEveryUsage) : place(bytes) {
    EXPECT_EQ(rpma_mr_reg(peer, place.data(), place.size(), usage, &local), 0);
    size_t size = 0;
    EXPECT_EQ(rpma_mr_get_descriptor_size(local, &size), 0);
    std::vector<uint8_t> descriptor(size);
    EXPECT_EQ(rpma_mr_get_descriptor(local, descriptor.data()), 0);
    EXPECT_EQ(rpma_mr_remote_from_descriptor(descriptor.data(), size, &remote), 0);
  }
  ~Memory() {
    EXPECT_EQ(rpma_mr_remote_delete(&remote), 0);
    EXPECT_EQ(rpma_mr_dereg(&local), 0);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::string text(size_t offset = 0) const { return place.data() + offset; }
  void write(const std::string& text, size_t offset = 0) { text.copy(place.data() + offset, text.size()); }

  std::vector<char> place;
  rpma_mr_local* local = nullptr;
  rpma_mr_remote* remote = nullptr;
};

struct FreeSettings {
  void operator()(rpma_conn_cfg* cfg) const { rpma_conn_cfg_delete(&cfg); }
  void operator()(rpma_srq_cfg* cfg) const { rpma_srq_cfg_delete(&cfg); }
  void operator()(rpma_peer_cfg* cfg) const { rpma_peer_cfg_delete(&cfg); }
};
using Settings = std::unique_ptr<rpma_conn_cfg, FreeSettings>;
inline Settings make_settings() {
  rpma_conn_cfg* cfg = nullptr;
  EXPECT_EQ(rpma_conn_cfg_new(&cfg), 0);
  return Settings(cfg);
}

inline bool is_readable(int fd, int wait_ms = kWaitMs) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, wait_ms) == 1;
}
inline void make_nonblocking(int fd) { EXPECT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

/// The next event, which must be this one, within five seconds.
inline void expect_event(rpma_conn* conn, rpma_conn_event expected) {
  int fd = -1;
  ASSERT_EQ(rpma_conn_get_event_fd(conn, &fd), 0);
  ASSERT_TRUE(is_readable(fd)) << "no event, " << rpma_utils_conn_event_2str(expected) << " was expected";
  rpma_conn_event event = RPMA_CONN_UNDEFINED;
  EXPECT_EQ(rpma_conn_next_event(conn, &event), 0);
  EXPECT_STREQ(rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(expected));
}

/// The next completion of a queue, within five seconds.
inline ibv_wc next_completion(rpma_cq* cq) {
  ibv_wc done{};
  int fd = -1;
  EXPECT_EQ(rpma_cq_get_fd(cq, &fd), 0);
  while (rpma_cq_get_wc(cq, 1, &done, nullptr) == RPMA_E_NO_COMPLETION) {
    if (!is_readable(fd)) {
      ADD_FAILURE() << "no completion";
      break;
    }
    EXPECT_EQ(rpma_cq_wait(cq), 0);
  }
  return done;
}

/// A listening address.
struct Listener {
  explicit Listener(rpma_peer* peer) { EXPECT_EQ(rpma_ep_listen(peer, kAddress, kPort, &endpoint), 0); }
  ~Listener() { EXPECT_EQ(rpma_ep_shutdown(&endpoint), 0); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  rpma_conn_req* next(const rpma_conn_cfg* cfg = nullptr) const {
    int fd = -1;
    EXPECT_EQ(rpma_ep_get_fd(endpoint, &fd), 0);
    EXPECT_TRUE(is_readable(fd)) << "no request";
    rpma_conn_req* request = nullptr;
    EXPECT_EQ(rpma_ep_next_conn_req(endpoint, cfg, &request), 0);
    return request;
  }
  rpma_ep* endpoint = nullptr;
};

inline rpma_conn_req* ask(rpma_peer* peer, const rpma_conn_cfg* cfg = nullptr) {
  rpma_conn_req* request = nullptr;
  EXPECT_EQ(rpma_conn_req_new(peer, kAddress, kPort, cfg, &request), 0);
  return request;
}
inline rpma_conn* connect(rpma_conn_req* request, std::string data = {}) {
  rpma_conn* conn = nullptr;
  const rpma_conn_private_data given{data.data(), static_cast<uint8_t>(data.size())};
  EXPECT_EQ(rpma_conn_req_connect(&request, data.empty() ? nullptr : &given, &conn), 0);
  EXPECT_EQ(request, nullptr);
  return conn;
}
inline rpma_cq* queue_of(const rpma_conn* conn) {
  rpma_cq* cq = nullptr;
  EXPECT_EQ(rpma_conn_get_cq(conn, &cq), 0);
  return cq;
}
inline rpma_cq* receive_queue_of(const rpma_conn* conn) {
  rpma_cq* cq = nullptr;
  EXPECT_EQ(rpma_conn_get_rcq(conn, &cq), 0);
  return cq;
}

/// Two connected ends on one peer, the passive one with a receive for `first` posted before it agrees.
struct Pair {
  explicit Pair(rpma_peer* peer, const rpma_conn_cfg* active_cfg = nullptr,
                const rpma_conn_cfg* passive_cfg = nullptr)
      : listener(peer) {
    active = connect(ask(peer, active_cfg), "may I?");
    rpma_conn_req* request = listener.next(passive_cfg);
    passive = connect(request, "you may");
    expect_event(active, RPMA_CONN_ESTABLISHED);
    expect_event(passive, RPMA_CONN_ESTABLISHED);
  }
  ~Pair() {
    EXPECT_EQ(rpma_conn_delete(&active), 0);
    EXPECT_EQ(rpma_conn_delete(&passive), 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  Listener listener;
  rpma_conn *active = nullptr, *passive = nullptr;
};

}  // namespace verbatim::conformance
