// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_marker.h"

#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "testing/queue_pair_steps.h"
#include "tests/fuzz/wire_victim.h"
#include "wire/link/udp/port_socket.h"

namespace verbatim::fuzz {

namespace {

constexpr uint32_t kMarksQkey = 0x22222222;

}  // namespace

Marker::Marker(ibv_pd* pd, ibv_cq* cq, const Gid& host)
    : region_(ibv_reg_mr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE)), host_(host) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.cap = {1, 8, 1, 1, 0};
  wanted.qp_type = IBV_QPT_UD;
  qp_ = ibv_create_qp(pd, &wanted);
  const Expected<int> opened = wire::udp::open_sending_socket();
  expect(region_ != nullptr && qp_ != nullptr && opened, "nothing can be marked");
  test::Connection to;
  to.qkey = kMarksQkey;
  expect(test::step_to_init(qp_, to) == 0 && test::step_to_rtr(qp_, to) == 0, "marks cannot be received");
  for (int i = 0; i < 8; i++) receive();
  socket_ = *opened;
  sockaddr_in6 own = wire::udp::address_of(host_, 4791, 0);
  socklen_t bytes = sizeof own;
  expect(connect(socket_, reinterpret_cast<sockaddr*>(&own), bytes) == 0 &&
             getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes) == 0,
         "marks cannot be sent");
  port_ = ntohs(own.sin6_port);
}

Marker::~Marker() {
  close(socket_);
  expect(ibv_destroy_qp(qp_) == 0 && ibv_dereg_mr(region_) == 0, "what took marks cannot be taken down");
}

void Marker::receive() {
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), static_cast<uint32_t>(memory_.size()),
              region_->lkey};
  ibv_recv_wr request{kWorkRequest, nullptr, &sge, 1}, *bad = nullptr;
  (void)ibv_post_recv(qp_, &request, &bad);
}

void Marker::mark() {
  sent_++;
  mark_again();
}

void Marker::mark_again() {
  roce::Headers headers;
  headers.bth.opcode = roce::opcode(roce::Transport::kUd, roce::Operation::kSendOnlyImmediate);
  headers.bth.destination = qp_->qp_num;
  headers.deth = {kMarksQkey, 2};
  headers.immediate = {sent_};
  std::vector<uint8_t> packet(roce::bytes_of(headers) + roce::kTailBytesMax);
  const roce::PacketWriter writer(roce::Envelope{host_, host_, port_});
  (void)::send(socket_, packet.data(), writer.write(packet, headers, {}), 0);
}

void Marker::take(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return;
  seen_ = completion.imm_data;
  receive();
}

}  // namespace verbatim::fuzz
