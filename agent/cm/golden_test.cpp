// SPDX-License-Identifier: MIT
// What Linux says is understood, and in its place the same is said: held against captures (tests/golden) of
// two guests, 10.77.0.3 asking 10.77.0.2.
#include "testing/golden.h"

#include "agent/cm/test_world.h"
#include "wire/format/datagram.h"
#include "wire/format/packet.h"

namespace verbatim::agent::cm {
namespace {

using namespace roce::cm;

std::vector<Message> captured(const std::string& name) {
  std::vector<verbatim::testing::Golden> packets;
  verbatim::testing::read_golden_file(std::string(VERBATIM_GOLDEN) + "/" + name + ".hex", packets);
  std::vector<Message> messages;
  for (const auto& each : packets) {
    const auto packet = roce::Packet::parse(roce::Datagram::parse(each.bytes)->payload);
    if (packet && packet->headers.bth.destination == roce::kGeneralServicesQpn)
      messages.push_back(*Message::parse(packet->payload));
  }
  return messages;
}

template <class T>
T only(const std::vector<Message>& messages) {
  for (const Message& message : messages)
    if (const T* body = std::get_if<T>(&message.body)) return *body;
  ADD_FAILURE() << "no such message";
  return {};
}

class LinuxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.a.mtu = world_.b.mtu = 4200;
    world_.sees = [this](const Arrival& arrival) { said_.push_back(*Message::parse(arrival.mad)); };
    world_.passes = [](const std::string&, int) { return false; };  // Linux is the other end
  }
  void hear(Machine& machine, const std::string& local, const std::string& remote, const Message& message) {
    std::array<uint8_t, roce::kMadBytes> mad{};
    message.emit(mad);
    machine.manager->on_mad({ip(local).address, ip(remote).address, mad}, world_.now_ns);
  }
  World world_;
  std::vector<Message> said_;
};

TEST_F(LinuxTest, WeAskAsItDoes) {
  for (const auto& [name, us, it] :
       {std::tuple("ucmatose", "10.77.0.3", "10.77.0.2"), std::tuple("rping_v6", "fd77::3", "fd77::2")}) {
    SCOPED_TRACE(name);
    said_.clear();
    const auto theirs = captured(name);
    const Req asked = only<Req>(theirs);
    const auto header = ServiceHeader::parse(asked.private_data);
    Program client(world_, world_.b);
    Request resolve = client.on(client.create(RDMA_PS_TCP), Do::kResolveAddress);
    resolve.source = ip(us, header->source_port);
    resolve.destination = ip(it, roce::cm::port_of(asked.service_id));
    ASSERT_EQ(0, client.error_of(resolve));
    ASSERT_EQ(0, client.run(resolve.id, Do::kResolveRoute));
    Request connect = client.on(resolve.id, Do::kConnect);
    connect.parameters.qp_num = asked.local_qpn;
    connect.parameters.responder_resources = asked.responder_resources;
    connect.parameters.initiator_depth = asked.initiator_depth;
    connect.parameters.retry_count = asked.retry_count;
    connect.parameters.rnr_retry_count = asked.rnr_retry_count;
    connect.parameters.private_data_bytes = 56;
    std::copy_n(asked.private_data.begin() + ServiceHeader::kBytes, 56, connect.parameters.private_data);
    ASSERT_EQ(0, client.error_of(connect));
    Req ours = only<Req>(said_);
    EXPECT_NE(0u, ours.local_comm_id);
    const uint32_t comm_id = std::exchange(ours.local_comm_id, asked.local_comm_id);
    ours.local_ca_guid = asked.local_ca_guid;
    ours.starting_psn = asked.starting_psn;
    EXPECT_EQ(asked, ours);

    Message reply;
    for (const Message& each : theirs)
      if (std::holds_alternative<Rep>(each.body)) reply = each;
    std::get<Rep>(reply.body).remote_comm_id = comm_id;
    client.type(), client.type();  // addresses, route
    hear(world_.b, us, it, reply);
    const Event response = client.event();
    EXPECT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_RESPONSE}, response.type);
    EXPECT_EQ(only<Rep>(theirs).local_qpn, response.parameters.qp_num);
  }
}

TEST_F(LinuxTest, WeAcceptAsItDoes) {
  const auto theirs = captured("connection");
  const Req asked = only<Req>(theirs);
  const Rep answered = only<Rep>(theirs);
  Program server(world_, world_.a);
  server.listening(RDMA_PS_TCP, ip("10.77.0.2", roce::cm::port_of(asked.service_id)));
  hear(world_.a, "10.77.0.2", "10.77.0.3", theirs.front());
  const Event request = server.event();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
  EXPECT_EQ("the client asks", Program::data_of(request));
  EXPECT_EQ(asked.local_qpn, request.parameters.qp_num);
  Request accept = server.on(request.id, Do::kAccept);
  accept.parameters.valid = 1;
  accept.parameters.qp_num = answered.local_qpn;
  accept.parameters.responder_resources = answered.responder_resources;
  accept.parameters.initiator_depth = answered.initiator_depth;
  accept.parameters.rnr_retry_count = answered.rnr_retry_count;
  accept.parameters.flow_control = answered.end_to_end_flow_control;
  accept.parameters.private_data_bytes = 196;
  std::copy(answered.private_data.begin(), answered.private_data.end(), accept.parameters.private_data);
  ASSERT_EQ(0, server.error_of(accept));
  Rep ours = only<Rep>(said_);
  EXPECT_EQ(theirs.front().header.transaction, said_.front().header.transaction);
  ours.local_comm_id = answered.local_comm_id;
  ours.local_ca_guid = answered.local_ca_guid;
  ours.starting_psn = answered.starting_psn;
  ours.target_ack_delay = answered.target_ack_delay;
  EXPECT_EQ(answered, ours);
}

TEST_F(LinuxTest, NobodyListensAsThere) {
  for (const char* name : {"reject", "reject_ud"}) {
    said_.clear();
    const auto theirs = captured(name);
    hear(world_.a, "10.77.0.2", "10.77.0.3", theirs.front());
    world_.pass(kSecond);
    ASSERT_EQ(1u, said_.size());
    EXPECT_EQ(theirs.at(1), said_.front()) << name;
  }
}

TEST_F(LinuxTest, DatagramsAsThere) {
  const auto theirs = captured("udaddy");
  const SidrRep answered = only<SidrRep>(theirs);
  Program server(world_, world_.a);
  server.listening(RDMA_PS_UDP, ip("10.77.0.2", roce::cm::port_of(only<SidrReq>(theirs).service_id)));
  hear(world_.a, "10.77.0.2", "10.77.0.3", theirs.front());
  const Event request = server.event();
  ASSERT_EQ(uint32_t{RDMA_CM_EVENT_CONNECT_REQUEST}, request.type);
  ASSERT_EQ(0, server.accept(request.id, "", answered.qpn));
  EXPECT_EQ(answered, only<SidrRep>(said_));
}

}  // namespace
}  // namespace verbatim::agent::cm
