// SPDX-License-Identifier: MIT
// The connection manager of a real agent, as a library meets it.
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>

#include <cstring>
#include <map>
#include <random>
#include <set>

#include "agent/cm/protocol.h"
#include "agent/test_member.h"

namespace verbatim::agent {
namespace {

cm::SocketAddress loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return cm::socket_address(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

/// A process's control connection with one channel.
class Control {
 public:
  Control() : bell_(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC)) { connect(); }
  ~Control() {
    close(socket_);
    close(bell_);
  }
  /// To whatever agent there is, which is started if there is none; gives back what the former one had.
  void connect() {
    if (socket_ >= 0) close(socket_);
    uint64_t void_now = 0;
    while (read(bell_, &void_now, sizeof void_now) == sizeof void_now) {
    }
    const Expected<int> reached = reach_agent();
    ASSERT_TRUE(reached);
    socket_ = *reached;
    Request become{};
    become.ask = Ask::kConnectionManager;
    Answer became{};
    int files[kFilesMax], count = 0;
    ASSERT_TRUE(ask_agent(socket_, become, became, files, count));
    cm::Request open = on(0, cm::Do::kOpenChannel);
    const cm::Answer opened = ask(open, bell_);
    ASSERT_EQ(0, opened.error) << opened.text;
    channel_ = opened.channel;
    const auto before = testaments;
    for (const auto& [id, testament] : before) {
      cm::Request restore = on(id, cm::Do::kRestore);
      restore.testament = testament;
      restore.context = id;
      const cm::Answer restored = ask(restore);
      ASSERT_EQ(0, restored.error) << restored.text;
    }
  }
  cm::Answer ask(cm::Request request, int file = -1) {
    cm::Answer answer{};
    answer.error = -1;
    request.serial = ++serial_;
    if (!send_record(socket_, &request, sizeof request, &file, file >= 0 ? 1 : 0)) return answer;
    int files[kFilesMax], count = 0;
    if (receive_record(socket_, &answer, sizeof answer, files, count) != Received::kRecord) answer.error = -1;
    if (answer.error == 0 && answer.testament.bytes != 0) testaments[answer.id] = answer.testament;
    return answer;
  }
  cm::Request on(uint32_t id, cm::Do what) const {
    cm::Request request{};
    request.what = what;
    request.id = id;
    request.channel = channel_;
    request.parameters.valid = 1;
    return request;
  }
  int run(uint32_t id, cm::Do what) { return ask(on(id, what)).error; }
  uint32_t create() {
    cm::Request request = on(0, cm::Do::kCreateId);
    request.port_space = RDMA_PS_TCP;
    return ask(request).id;
  }
  uint32_t listening(uint16_t port) {
    cm::Request bind = on(create(), cm::Do::kBindAddress);
    bind.source = loopback(port);
    EXPECT_EQ(0, ask(bind).error);
    EXPECT_EQ(0, run(bind.id, cm::Do::kListen));
    return bind.id;
  }
  uint32_t asking(uint16_t port, uint32_t qpn) {
    cm::Request resolve = on(create(), cm::Do::kResolveAddress);
    resolve.destination = loopback(port);
    EXPECT_EQ(0, ask(resolve).error);
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ADDR_RESOLVED}, event().type);
    EXPECT_EQ(0, run(resolve.id, cm::Do::kResolveRoute));
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_ROUTE_RESOLVED}, event().type);
    cm::Request connect = on(resolve.id, cm::Do::kConnect);
    connect.parameters.qp_num = qpn;
    EXPECT_EQ(0, ask(connect).error);
    return resolve.id;
  }
  /// The next event, within some seconds; type UINT32_MAX: none came.
  cm::Event event(int wait_ms = 15000) {
    pollfd bell{bell_, POLLIN, 0};
    uint64_t one = 0;
    if (poll(&bell, 1, wait_ms) == 1 && read(bell_, &one, sizeof one) == sizeof one) {
      const cm::Answer answer = ask(on(0, cm::Do::kGetEvent));
      EXPECT_EQ(0, answer.error);
      return answer.event;
    }
    cm::Event none{};
    none.type = UINT32_MAX;
    return none;
  }
  int socket() const { return socket_; }

  std::map<uint32_t, cm::Testament> testaments;

 private:
  const int bell_;
  int socket_ = -1;
  uint32_t channel_ = 0, serial_ = 0;
};

class ConnectionServiceTest : public AgentTest {
 protected:
  /// One connection between two processes.
  static void connect(Control& server, Control& client, uint16_t port, uint32_t& child, uint32_t& id) {
    id = client.asking(port, 0x100 + port);
    const cm::Event request = server.event();
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
    EXPECT_EQ(0x100u + port, request.parameters.qp_num);
    child = request.id;
    cm::Request accept = server.on(child, cm::Do::kAccept);
    accept.parameters.qp_num = 0x8000 + port;
    accept.context = child;
    ASSERT_EQ(0, server.ask(accept).error);
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, client.event().type);
    ASSERT_EQ(0, client.run(id, cm::Do::kEstablish));
    ASSERT_EQ(uint32_t{RDMA_CM_EVENT_ESTABLISHED}, server.event().type);
  }
};

TEST_F(ConnectionServiceTest, ConnectAndDisconnect) {
  Control server, client;
  server.listening(7001);
  uint32_t child = 0, id = 0;
  connect(server, client, 7001, child, id);
  ASSERT_EQ(0, client.run(id, cm::Do::kDisconnect));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, server.event().type);
  ASSERT_EQ(0, server.run(child, cm::Do::kDisconnect));
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client.event().type);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, client.event().type);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_TIMEWAIT_EXIT}, server.event().type);
}

TEST_F(ConnectionServiceTest, NobodyListens) {
  Control client;
  client.asking(7002, 1);
  const cm::Event no = client.event();
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, no.type);
  EXPECT_EQ(8, no.status);
}

TEST_F(ConnectionServiceTest, AProcessThatEndsDisconnects) {
  Control client;
  uint32_t child = 0, id = 0;
  {
    Control server;
    server.listening(7003);
    connect(server, client, 7003, child, id);
  }
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, client.event().type);
  client.asking(7003, 2);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, client.event().type) << "the listener is gone, too";
}

TEST_F(ConnectionServiceTest, ConnectionsOutliveTheAgent) {
  Control server, client;
  server.listening(7004);
  uint32_t child = 0, id = 0;
  connect(server, client, 7004, child, id);
  const uint32_t waiting = client.asking(7004, 0x77);  // nobody has taken this request
  kill_agent();
  pollfd hang_up{client.socket(), 0, 0};
  EXPECT_EQ(1, poll(&hang_up, 1, 5000));
  client.connect();
  // Its peer is not back yet: the word for it waits.
  ASSERT_EQ(0, client.run(id, cm::Do::kDisconnect));
  server.connect();
  std::set<uint32_t> types;
  for (int i = 0; i < 3 && types.size() < 2; i++) {
    const cm::Event event = server.event();
    types.insert(event.type);
    if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
      EXPECT_EQ(child, event.id);
      ASSERT_EQ(0, server.run(child, cm::Do::kDisconnect));
    } else if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      EXPECT_EQ(0x77u, event.parameters.qp_num);
      cm::Request reject = server.on(event.id, cm::Do::kReject);
      ASSERT_EQ(0, server.ask(reject).error);
    }
  }
  EXPECT_EQ((std::set<uint32_t>{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED}), types);
  std::map<uint32_t, uint32_t> told;
  for (int i = 0; i < 2; i++) {
    const cm::Event event = client.event();
    told[event.id] = event.type;
  }
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_DISCONNECTED}, told[id]);
  EXPECT_EQ(uint32_t{RDMA_CM_EVENT_REJECTED}, told[waiting]);
}

TEST_F(ConnectionServiceTest, NonsenseChangesNothingForOthers) {
  Control server;
  const uint32_t listener = server.listening(7005);
  std::mt19937 random(11);
  for (int round = 0; round < 20; round++) {
    Control stranger;
    for (int i = 0; i < 200; i++) {
      cm::Request request;
      auto* bytes = reinterpret_cast<unsigned char*>(&request);
      for (size_t at = 0; at < sizeof request; at++) bytes[at] = static_cast<unsigned char>(random());
      request.what = static_cast<cm::Do>(random() % 26);
      request.id = random() % 4;
      request.channel = random() % 3;
      if (stranger.ask(request, random() % 8 == 0 ? STDERR_FILENO : -1).error < 0) break;
    }
    char part[100] = {};
    send_record(stranger.socket(), part, sizeof part, nullptr, 0);
  }
  EXPECT_EQ(0, server.run(listener, cm::Do::kQuery));
  Control client;
  uint32_t child = 0, id = 0;
  connect(server, client, 7005, child, id);
}

}  // namespace
}  // namespace verbatim::agent
