// SPDX-License-Identifier: MIT
#include "tests/conformance/players.h"

#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace verbatim::conformance {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);

/// Concurrent runs must not meet.
const bool kPrivateAgent = [] {
  const std::string name = "verbatim-conformance/" + std::to_string(getpid());
  return setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0) == 0;
}();

void need(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

ibv_context* open_at(int place) {
  ibv_device** list = ibv_get_device_list(nullptr);
  need(list != nullptr, "ibv_get_device_list");
  ibv_context* context = ibv_open_device(list[place]);
  ibv_free_device_list(list);
  need(context != nullptr, "ibv_open_device");
  return context;
}

ibv_context* open_for_commands() {
  ibv_device** list = ibv_get_device_list(nullptr);
  need(list != nullptr && list[0] != nullptr, "ibv_get_device_list");
  mlx5dv_context_attr attributes{};
  attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  ibv_context* context = mlx5dv_open_device(list[0], &attributes);
  ibv_free_device_list(list);
  need(context != nullptr, "mlx5dv_open_device");
  return context;
}

}  // namespace

ibv_context* open_first() { return open_at(0); }

Endpoint::Endpoint(const Traits& wanted, int socket) : traits(wanted), socket_(socket) {
  if (traits.command_fd >= 0) {
    need((context = ibv_import_device(traits.command_fd)) != nullptr, "ibv_import_device");
    need((pd = ibv_import_pd(context, traits.pd_handle)) != nullptr, "ibv_import_pd");
  } else {
    context = traits.direct_operations != 0 ? open_for_commands() : open_at(traits.device);
    need((pd = ibv_alloc_pd(context)) != nullptr, "ibv_alloc_pd");
  }
  if (traits.channel)
    need((channel = ibv_create_comp_channel(context)) != nullptr, "ibv_create_comp_channel");
  make_cq();
  if (traits.srq) {
    ibv_srq_init_attr attributes{nullptr, {traits.depth, 4, 0}};
    need((srq = ibv_create_srq(pd, &attributes)) != nullptr, "ibv_create_srq");
  }
  make_qp();
  mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), traits.mr_access);
  need(mr != nullptr, "ibv_reg_mr");
}

void Endpoint::make_cq() {
  if (traits.cq_fields == 0 && traits.cq_flags == 0) {
    cq = ibv_create_cq(context, static_cast<int>(traits.cq_entries), this, channel, 0);
  } else {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = traits.cq_entries;
    attributes.cq_context = this;
    attributes.channel = channel;
    attributes.wc_flags = traits.cq_fields;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attributes.flags = traits.cq_flags;
    ibv_cq_ex* extended = ibv_create_cq_ex(context, &attributes);
    need(extended != nullptr, "ibv_create_cq_ex");
    cq = ibv_cq_ex_to_cq(extended);
  }
  need(cq != nullptr, "ibv_create_cq");
}

void Endpoint::make_qp() {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = this;
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.srq = srq;
  wanted.qp_type = traits.type;
  wanted.sq_sig_all = traits.signal_all;
  wanted.cap = {traits.depth, traits.depth, traits.sge, traits.sge, traits.inline_bytes};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd;
  if (traits.operations != 0) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = traits.operations;
  }
  mlx5dv_qp_init_attr direct{};
  direct.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  direct.create_flags = traits.direct_flags;
  direct.send_ops_flags = traits.direct_operations;
  qp = traits.direct_operations != 0 ? mlx5dv_create_qp(context, &wanted, &direct)
                                     : ibv_create_qp_ex(context, &wanted);
  need(qp != nullptr, "ibv_create_qp_ex");
}

Endpoint::~Endpoint() {
  if (qp != nullptr) {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  if (ah != nullptr) {
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  if (srq != nullptr) {
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  if (channel != nullptr) {
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  }
  if (mr != nullptr) {
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

Contact Endpoint::contact() const {
  Contact mine{qp->qp_num, qp->qp_num * 7 & 0xffffff, mr->rkey, reinterpret_cast<uint64_t>(buffer.data()), {},
               0};
  ibv_port_attr port{};
  need(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
  mine.lid = port.lid;
  need(ibv_query_gid(context, 1, 0, &mine.gid) == 0, "ibv_query_gid");
  return mine;
}

void Endpoint::meet() {
  const Contact mine = contact();
  Contact theirs;
  need(send(socket_, &mine, sizeof mine, MSG_NOSIGNAL) == sizeof mine, "send");
  need(recv(socket_, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs, "the other player has gone");
  EXPECT_EQ(connect(theirs), 0);
  barrier();
}

int Endpoint::connect(const Contact& theirs) {
  if (const int error = to_init()) return error;
  if (const int error = to_rtr(theirs)) return error;
  return to_rts();
}

test::Connection Endpoint::connection() const {
  const Contact mine = contact();
  test::Connection to;
  to.gid = peer.gid;
  to.lid = peer.lid;
  to.qpn = peer.qpn;
  to.receive_psn = peer.psn;
  to.send_psn = mine.psn;
  to.qkey = kQkey;
  to.access = static_cast<unsigned int>(traits.qp_access);
  to.timeout = traits.timeout;
  to.retries = traits.retries;
  to.rnr_retries = traits.rnr_retries;
  to.rnr_timer = traits.rnr_timer;
  return to;
}

int Endpoint::to_init() { return test::step_to_init(qp, connection()); }

int Endpoint::to_rtr(const Contact& theirs) {
  peer = theirs;
  if (traits.type == IBV_QPT_UD && ah == nullptr) {
    ibv_ah_attr address = test::address_of(peer.gid, peer.lid);
    need((ah = ibv_create_ah(pd, &address)) != nullptr, "ibv_create_ah");
  }
  return test::step_to_rtr(qp, connection());
}

int Endpoint::to_rts() { return test::step_to_rts(qp, connection()); }

int Endpoint::move(ibv_qp_state state) {
  ibv_qp_attr to{};
  to.qp_state = state;
  return ibv_modify_qp(qp, &to, IBV_QP_STATE);
}

ibv_qp_state Endpoint::state() const {
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_STATE, &made), 0);
  EXPECT_EQ(qp->state, now.qp_state);
  return now.qp_state;
}

void Endpoint::barrier() const {
  char token = 'b';
  need(send(socket_, &token, 1, MSG_NOSIGNAL) == 1, "send");
  need(recv(socket_, &token, 1, MSG_WAITALL) == 1, "the other player has gone");
}

ibv_sge Endpoint::piece(size_t offset, size_t bytes) const {
  return {reinterpret_cast<uint64_t>(buffer.data() + offset), static_cast<uint32_t>(bytes), mr->lkey};
}

int Endpoint::receive(size_t offset, size_t bytes, uint64_t id) {
  ibv_sge sge = piece(offset, bytes);
  ibv_recv_wr wr{id, nullptr, &sge, 1}, *bad = nullptr;
  return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

ibv_send_wr Endpoint::request(ibv_wr_opcode opcode, size_t bytes, size_t remote_offset) {
  sge_ = piece(0, bytes);
  ibv_send_wr wr{};
  wr.wr_id = 100;
  wr.sg_list = &sge_;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (traits.type == IBV_QPT_UD) {
    wr.wr.ud = {ah, peer.qpn, kQkey};
  } else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = peer.address + remote_offset;
    wr.wr.atomic.rkey = peer.rkey;
  } else {
    wr.wr.rdma = {peer.address + remote_offset, peer.rkey};
  }
  return wr;
}

int Endpoint::post(ibv_send_wr wr, size_t offset) {
  if (wr.sg_list == &sge_) sge_.addr = reinterpret_cast<uint64_t>(buffer.data() + offset);
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

ibv_wc Endpoint::wait() const {
  ibv_wc wc{};
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;)
    if (const int count = ibv_poll_cq(cq, 1, &wc)) {
      EXPECT_EQ(count, 1);
      return wc;
    }
  ADD_FAILURE() << "no completion";
  wc.status = IBV_WC_GENERAL_ERR;
  return wc;
}

bool Endpoint::quiet() const {
  ibv_wc wc{};
  for (const auto end = Clock::now() + std::chrono::milliseconds(20); Clock::now() < end;)
    if (ibv_poll_cq(cq, 1, &wc) != 0) return false;
  return true;
}

int Endpoint::next_event() const {
  pollfd wait{context->async_fd, POLLIN, 0};
  if (poll(&wait, 1, 5000) != 1) return -1;
  ibv_async_event event{};
  if (ibv_get_async_event(context, &event) != 0) return -1;
  ibv_ack_async_event(&event);
  return event.event_type;
}

bool Endpoint::no_event() const {
  pollfd wait{context->async_fd, POLLIN, 0};
  return poll(&wait, 1, 20) == 0;
}

void fill(Endpoint& self, size_t offset, size_t bytes, uint8_t seed) {
  for (size_t i = 0; i < bytes; ++i) self.buffer[offset + i] = static_cast<uint8_t>(seed + i * 7);
}

bool holds(const Endpoint& self, size_t offset, size_t bytes, uint8_t seed) {
  for (size_t i = 0; i < bytes; ++i)
    if (self.buffer[offset + i] != static_cast<uint8_t>(seed + i * 7)) return false;
  return true;
}

uint64_t& word(Endpoint& self, size_t offset) { return *reinterpret_cast<uint64_t*>(&self.buffer[offset]); }

void play(Players players, const Traits& traits, const Part& active, const Part& passive) {
  int ends[2];
  need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  const auto perform = [&traits](const Part& part, int socket) {
    Endpoint self(traits, socket);
    self.meet();
    part(self);
    self.barrier();
  };
  if (players == Players::kOneProcess) {
    std::thread other([&] { perform(passive, ends[1]); });
    perform(active, ends[0]);
    other.join();
    close(ends[1]);
  } else {
    std::fflush(nullptr);
    const pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
      close(ends[0]);
      perform(passive, ends[1]);
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    perform(active, ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the other process failed";
  }
  close(ends[0]);
}

std::string players_name(const testing::TestParamInfo<Players>& info) {
  return info.param == Players::kOneProcess ? "OneProcess" : "TwoProcesses";
}

Pair::Pair(const Traits& traits) : left(traits), right(traits) {
  const Contact one = left.contact(), two = right.contact();
  EXPECT_EQ(left.connect(two), 0);
  EXPECT_EQ(right.connect(one), 0);
}

void with_devices(const char* devices, const std::function<void()>& check) {
  const char* now = std::getenv("VERBATIM_DEVICES");
  if (now != nullptr && std::string(now) == devices) return check();
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string only = std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name();
  const pid_t child = fork();
  if (child == 0) {
    setenv("VERBATIM_DEVICES", devices, 1);
    execl("/proc/self/exe", "again", only.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace verbatim::conformance
