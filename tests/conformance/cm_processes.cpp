// SPDX-License-Identifier: MIT
// Connections between processes, and what happens to them when a process or the agent dies.
#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "tests/conformance/cm_ends.h"

namespace verbatim::conformance {
namespace {

/// A process of the case's own: the case and it tell each other bytes.
class Other {
 public:
  template <class Body>
  explicit Other(Body body) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends_[0]);
      body(ends_[1]);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends_[1]);
  }
  ~Other() { stop(SIGKILL); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  static void say(int end, uint16_t what) { EXPECT_EQ(write(end, &what, sizeof what), ssize_t{sizeof what}); }
  static uint16_t hear(int end) {
    uint16_t what = 0;
    pollfd wait{end, POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, 2 * kWaitMs), 1);
    EXPECT_EQ(read(end, &what, sizeof what), ssize_t{sizeof what});
    return what;
  }
  void say(uint16_t what) const { say(ends_[0], what); }
  uint16_t hear() const { return hear(ends_[0]); }

  void stop(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    close(ends_[0]);
  }
  /// It has ended by itself without a failure.
  bool ended_well() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    close(ends_[0]);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

/// Listens, tells the port, accepts, receives a message, and goes on with `then`.
template <class Then>
void be_passive(int end, Then then) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* heard = listener(events, address);
  Other::say(end, address.sin_port);
  rdma_cm_id* id = events.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  make_queues(id);
  char place[64];
  ibv_mr* memory = rdma_reg_msgs(id, place, sizeof place);
  EXPECT_EQ(rdma_post_recv(id, nullptr, place, sizeof place, memory), 0);
  rdma_conn_param agree = parameters();
  EXPECT_EQ(rdma_accept(id, &agree), 0);
  events.next(RDMA_CM_EVENT_ESTABLISHED);
  ibv_wc done{};
  EXPECT_EQ(rdma_get_recv_comp(id, &done), 1);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  then(events, id);
  rdma_dereg_mr(memory);
  destroy(id);
  destroy(heard);
}

struct ActiveEnd {
  explicit ActiveEnd(__be16 port) {
    address = v4("127.0.0.1", ntohs(port));
    id = resolved(events, address);
    make_queues(id);
    rdma_conn_param ask = parameters();
    EXPECT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
    events.next(RDMA_CM_EVENT_ESTABLISHED);
  }
  ~ActiveEnd() { destroy(id); }
  void send() const {
    char text[] = "over there";
    EXPECT_EQ(rdma_post_send(id, nullptr, text, sizeof text, nullptr, IBV_SEND_INLINE), 0);
    ibv_wc done{};
    EXPECT_EQ(rdma_get_send_comp(id, &done), 1);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  }
  Events events;
  sockaddr_in address{};
  rdma_cm_id* id;
};

TEST(Processes, ConnectAndPart) {
  Other other([](int end) {
    be_passive(end, [](const Events& events, rdma_cm_id* id) {
      events.next(RDMA_CM_EVENT_DISCONNECTED);
      EXPECT_EQ(rdma_disconnect(id), 0);
    });
  });
  {
    const ActiveEnd end(other.hear());
    end.send();
    ASSERT_EQ(rdma_disconnect(end.id), 0);
    end.events.next(RDMA_CM_EVENT_DISCONNECTED);
  }
  EXPECT_TRUE(other.ended_well());
}

TEST(Processes, SeeThatAnotherIsKilled) {
  Other other([](int end) {
    be_passive(end, [end](const Events&, rdma_cm_id*) {
      Other::say(end, 1);
      pause();
    });
  });
  const ActiveEnd end(other.hear());
  end.send();
  EXPECT_EQ(other.hear(), 1);
  other.stop(SIGKILL);
  end.events.next(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Processes, RejectByDying) {
  Other other([](int end) {
    const Events events;
    sockaddr_in address;
    listener(events, address);
    Other::say(end, address.sin_port);
    events.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    Other::say(end, 1);
    pause();
  });
  const Events events;
  sockaddr_in address = v4("127.0.0.1", ntohs(other.hear()));
  rdma_cm_id* id = resolved(events, address);
  make_queues(id);
  rdma_conn_param ask = parameters();
  ASSERT_EQ(rdma_connect(id, &ask), 0);
  EXPECT_EQ(other.hear(), 1);
  other.stop(SIGKILL);
  constexpr int kByConsumer = 28;
  events.next(RDMA_CM_EVENT_REJECTED, kByConsumer);
  destroy(id);
}

/// The process that serves the agent's name.
pid_t agent() {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string own = getenv("VERBATIM_AGENT_SOCKET");
  own.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + own.size());
  const int asked = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool reached = connect(asked, generic(name), bytes) == 0 &&
                       getsockopt(asked, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  close(asked);
  return reached ? peer.pid : -1;
}

void kill_agent() {
  const pid_t victim = agent();
  ASSERT_GT(victim, 0);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
}

TEST(Agents, MayDieUnderConnections) {
  const Connected pair;
  ASSERT_NO_FATAL_FAILURE(kill_agent());
  EXPECT_EQ(Connected::pass(pair.active, pair.passive, "meanwhile"), "meanwhile");
  ASSERT_EQ(rdma_disconnect(pair.active), 0) << strerror(errno);
  pair.passive_events.next(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Agents, MayDieUnderListeners) {
  const Connected pair;
  ASSERT_NO_FATAL_FAILURE(kill_agent());
  sockaddr_in address = pair.address;
  rdma_cm_id* id = resolved(pair.active_events, address);
  make_queues(id);
  rdma_conn_param ask = parameters();
  ASSERT_EQ(rdma_connect(id, &ask), 0) << strerror(errno);
  rdma_cm_id* child = pair.passive_events.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  EXPECT_EQ(rdma_reject(child, nullptr, 0), 0);
  pair.active_events.next(RDMA_CM_EVENT_REJECTED, 28);
  destroy(child);
  destroy(id);
}

/// Accepts so many connections, receives a message over each, and sees them end.
void serve(int end, uint16_t count) {
  const Events events;
  sockaddr_in address;
  rdma_cm_id* heard = listener(events, address);
  Other::say(end, address.sin_port);
  std::vector<rdma_cm_id*> ids;
  char place[64];
  ibv_mr* memory = nullptr;
  while (ids.size() < count) {
    rdma_cm_id* id = events.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    make_queues(id);
    if (memory == nullptr) memory = rdma_reg_msgs(id, place, sizeof place);
    EXPECT_EQ(rdma_post_recv(id, nullptr, place, sizeof place, memory), 0);
    rdma_conn_param agree = parameters();
    EXPECT_EQ(rdma_accept(id, &agree), 0);
    events.next(RDMA_CM_EVENT_ESTABLISHED);
    ids.push_back(id);
    // All but the last one stand, at this end, too.
    if (ids.size() + 1 == count) Other::say(end, count);
  }
  for (rdma_cm_id* id : ids) {
    ibv_wc done{};
    EXPECT_EQ(rdma_get_recv_comp(id, &done), 1);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  }
  Other::say(end, count);
  for (uint16_t i = 0; i < count; ++i)
    EXPECT_EQ(rdma_disconnect(events.next(RDMA_CM_EVENT_DISCONNECTED)->id), 0);
  rdma_dereg_mr(memory);
  for (rdma_cm_id* id : ids) destroy(id);
  destroy(heard);
}

TEST(Agents, MayDieUnderAHundredConnections) {
  constexpr uint16_t kMany = 100;
  Other other([](int end) { serve(end, kMany); });
  const __be16 port = other.hear();
  std::vector<std::unique_ptr<ActiveEnd>> ends;
  while (ends.size() + 1 < kMany) ends.push_back(std::make_unique<ActiveEnd>(port));
  EXPECT_EQ(other.hear(), kMany);
  ASSERT_NO_FATAL_FAILURE(kill_agent());
  ends.push_back(std::make_unique<ActiveEnd>(port));
  for (const auto& each : ends) each->send();
  EXPECT_EQ(other.hear(), kMany);
  ASSERT_NO_FATAL_FAILURE(kill_agent());
  for (const auto& each : ends) {
    ASSERT_EQ(rdma_disconnect(each->id), 0) << strerror(errno);
    each->events.next(RDMA_CM_EVENT_DISCONNECTED);
  }
  EXPECT_TRUE(other.ended_well());
}

}  // namespace
}  // namespace verbatim::conformance
