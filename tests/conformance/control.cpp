// SPDX-License-Identifier: MIT
// Control: queries, objects, transitions, completion and async events, memory registration, names and rates.
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

TEST(Device, IsListedAndOpened) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "mlx5_0");
  EXPECT_NE(ibv_get_device_guid(list[0]), 0u);
  EXPECT_GE(ibv_get_device_index(list[0]), 0);
  EXPECT_TRUE(mlx5dv_is_supported(list[0]));
  ibv_context* context = mlx5dv_open_device(list[0], nullptr);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->device, list[0]);
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Device, AnswersQueries) {
  Endpoint self;
  ibv_device_attr plain{};
  EXPECT_EQ(ibv_query_device(self.context, &plain), 0);
  EXPECT_EQ(plain.phys_port_cnt, 1);
  EXPECT_GT(plain.max_qp, 1000);
  ibv_device_attr_ex extended{};
  EXPECT_EQ(ibv_query_device_ex(self.context, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, plain.max_qp);
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(self.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(ibv_query_port(self.context, 2, &port), EINVAL);
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  EXPECT_EQ(ibv_query_rt_values_ex(self.context, &values), 0);
  EXPECT_NE(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK, 0u);
}

TEST(Device, ListsAddressesAndKeys) {
  Endpoint self;
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(self.context, 1, 0, &gid), 0);
  EXPECT_EQ(ibv_query_gid(self.context, 1, 100000, &gid), -1);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(self.context, 1, 0, &entry, 0), 0);
  ibv_gid_entry table[256];
  EXPECT_GE(ibv_query_gid_table(self.context, table, 256, 0), 1);
  EXPECT_EQ(ibv_query_gid_table(self.context, table, 0, 0), -EINVAL);
  __be16 key = 0;
  EXPECT_EQ(ibv_query_pkey(self.context, 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(self.context, 1, key), 0);
  EXPECT_LT(ibv_query_pkey(self.context, 1, 500, &key), 0);
}

TEST(Device, ForkedProcessesOpenTheirOwn) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_NE(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
  Endpoint before;
  const pid_t child = fork();
  if (child == 0) {
    { Pair own; }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Names, AreInWords) {
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(999)), "unknown");
}

TEST(Rates, ConvertBothWays) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
  EXPECT_EQ(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
  EXPECT_EQ(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(mbps_to_ibv_rate(3), IBV_RATE_MAX);
}

TEST(Memory, RefusesWhatIsNotThere) {
  Endpoint self;
  auto* memory = static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(ibv_reg_mr(self.pd, memory, 8192, kAllRights), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* readable = ibv_reg_mr(self.pd, memory, 8192, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(readable, nullptr);
  EXPECT_EQ(ibv_dereg_mr(readable), 0);
  munmap(memory, 8192);
  EXPECT_EQ(ibv_reg_mr(self.pd, memory, 8192, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(self.pd, self.buffer.data(), 64, IBV_ACCESS_REMOTE_ATOMIC), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Memory, IsRegisteredAgain) {
  Endpoint self;
  std::vector<uint8_t> other(8192);
  ibv_mr* mr = ibv_reg_mr(self.pd, self.buffer.data(), 4096, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllRights), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0), 0);
  EXPECT_EQ(mr->addr, other.data());
  EXPECT_EQ(mr->length, other.size());
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Memory, HasOtherAddressesForPeers) {
  Pair pair;
  ibv_mr* mr =
      ibv_reg_mr_iova(pair.right.pd, pair.right.buffer.data(), 4096,
                      0x100000 | (reinterpret_cast<uintptr_t>(pair.right.buffer.data()) & 4095), kAllRights);
  ASSERT_NE(mr, nullptr);
  pair.left.buffer[0] = 42;
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 1);
  wr.wr.rdma = {0x100000 | (reinterpret_cast<uintptr_t>(pair.right.buffer.data()) & 4095), mr->rkey};
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.buffer[0], 42);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(Memory, NullRegionDiscards) {
  Pair pair;
  ibv_mr* null = ibv_alloc_null_mr(pair.left.pd);
  ASSERT_NE(null, nullptr);
  ibv_sge sge{0, 64, null->lkey};
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_READ, 64);
  wr.sg_list = &sge;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST(Memory, OfAGibibyteIsRegisteredInNoTime) {
  Endpoint self;
  constexpr size_t kGibibyte = size_t{1} << 30;
  void* memory =
      mmap(nullptr, kGibibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = std::chrono::steady_clock::now();
  ibv_mr* mr = ibv_reg_mr(self.pd, memory, kGibibyte, kAllRights);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kGibibyte);
}

TEST(Objects, InUseAreNotReleased) {
  Endpoint self({.srq = true, .channel = true});
  EXPECT_EQ(ibv_dealloc_pd(self.pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(self.cq), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(self.srq), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(self.channel), EBUSY);
}

TEST(Objects, BelongToDomains) {
  Endpoint self;
  ibv_td_init_attr nothing{};
  ibv_td* td = ibv_alloc_td(self.context, &nothing);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attributes{};
  attributes.pd = self.pd;
  attributes.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(self.context, &attributes);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST(Transitions, NeedTheirAttributes) {
  Endpoint self;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(self.qp, &to, IBV_QP_STATE), EINVAL);
  to.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(self.qp, &to, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(self.to_init(), 0);
  EXPECT_EQ(self.to_rts(), EINVAL);
  to.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(self.qp, &to, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(self.to_rtr(self.contact()), 0);
  EXPECT_EQ(self.to_init(), EINVAL);
  EXPECT_EQ(self.to_rts(), 0);
}

/// Brings an endpoint to a state, RESET to RTS, SQD or ERR.
void bring(Endpoint& self, ibv_qp_state state) {
  if (state == IBV_QPS_RESET) return;
  ASSERT_EQ(self.to_init(), 0);
  if (state != IBV_QPS_INIT && state != IBV_QPS_ERR) {
    ASSERT_EQ(self.to_rtr(self.contact()), 0);
  }
  if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) {
    ASSERT_EQ(self.to_rts(), 0);
  }
  ibv_qp_attr to{};
  to.qp_state = state;
  if (state == IBV_QPS_SQD || state == IBV_QPS_ERR) {
    ASSERT_EQ(ibv_modify_qp(self.qp, &to, IBV_QP_STATE), 0);
  }
}

TEST(Transitions, WithoutAttributesAreLegalOrEinval) {
  constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                      IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
  for (const ibv_qp_state from : kStates)
    for (const ibv_qp_state to : kStates) {
      Endpoint self;
      bring(self, from);
      ibv_qp_attr wanted{};
      wanted.qp_state = to;
      const bool running = from == IBV_QPS_RTS || from == IBV_QPS_SQD;
      const bool legal = to == IBV_QPS_RESET || to == IBV_QPS_ERR || (running && to == IBV_QPS_RTS) ||
                         (running && to == IBV_QPS_SQD) || (from == IBV_QPS_INIT && to == IBV_QPS_INIT);
      EXPECT_EQ(ibv_modify_qp(self.qp, &wanted, IBV_QP_STATE), legal ? 0 : EINVAL) << from << " to " << to;
      EXPECT_EQ(self.qp->state, legal ? to : from);
    }
}

TEST(Transitions, AreReadBack) {
  Pair pair;
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(pair.left.qp, &now, IBV_QP_STATE | IBV_QP_AV, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.dest_qp_num, pair.right.qp->qp_num);
  EXPECT_EQ(now.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(now.timeout, 12);
  EXPECT_EQ(now.retry_cnt, 3);
  EXPECT_EQ(now.ah_attr.port_num, 1);
  EXPECT_EQ(made.qp_type, IBV_QPT_RC);
  EXPECT_EQ(made.send_cq, pair.left.cq);
  EXPECT_GE(made.cap.max_send_wr, 64u);
  EXPECT_EQ(ibv_query_qp_data_in_order(pair.left.qp, IBV_WR_SEND, 0), 0);
}

TEST(Transitions, ToErrorFlush) {
  Pair pair;
  EXPECT_EQ(pair.left.receive(0, 8, 5), 0);
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(pair.left.qp, &to, IBV_QP_STATE), 0);
  const ibv_wc wc = pair.left.wait();
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_WR_FLUSH_ERR);
}

TEST(Completions, WakeAChannel) {
  Pair pair({.channel = true});
  EXPECT_EQ(fcntl(pair.right.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(pair.right.channel, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_req_notify_cq(pair.right.cq, 1), 0);
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  EXPECT_EQ(pair.right.receive(0, 64), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  pollfd wait{pair.right.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 50), 0) << "not solicited";
  ibv_send_wr solicited = pair.left.request(IBV_WR_SEND, 8);
  solicited.send_flags |= IBV_SEND_SOLICITED;
  EXPECT_EQ(pair.left.post(solicited), 0);
  EXPECT_EQ(poll(&wait, 1, 5000), 1);
  EXPECT_EQ(ibv_get_cq_event(pair.right.channel, &cq, &context), 0);
  EXPECT_EQ(cq, pair.right.cq);
  ibv_ack_cq_events(cq, 1);
}

TEST(Completions, QueueIsResizedAndModerated) {
  Pair pair;
  EXPECT_EQ(ibv_resize_cq(pair.left.cq, 1000), 0);
  EXPECT_GE(pair.left.cq->cqe, 1000);
  EXPECT_EQ(ibv_resize_cq(pair.left.cq, 0), EINVAL);
  ibv_modify_cq_attr attributes{};
  attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
  attributes.moderate = {4, 10};
  EXPECT_EQ(ibv_modify_cq(pair.left.cq, &attributes), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_RDMA_WRITE, 8)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
}

TEST(Completions, AreReadFieldByField) {
  Pair pair({.cq_fields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                          IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK});
  EXPECT_EQ(pair.right.receive(0, 64, 9), 0);
  ibv_send_wr wr = pair.left.request(IBV_WR_SEND_WITH_IMM, 24);
  wr.imm_data = 99;
  EXPECT_EQ(pair.left.post(wr), 0);
  ibv_cq_ex* cq = reinterpret_cast<ibv_cq_ex*>(pair.right.cq);
  ibv_poll_cq_attr nothing{};
  while (ibv_start_poll(cq, &nothing) == ENOENT) {
  }
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(cq->wr_id, 9u);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 24u);
  EXPECT_EQ(ibv_wc_read_imm_data(cq), 99u);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), pair.right.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
  EXPECT_NE(ibv_wc_read_completion_ts(cq), 0u);
  EXPECT_NE(ibv_wc_read_completion_wallclock_ns(cq), 0u);
  EXPECT_EQ(ibv_wc_read_sl(cq), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
}

/// The next async event within five seconds; acknowledged. -1: none came.
int next_event(Endpoint& self) {
  pollfd wait{self.context->async_fd, POLLIN, 0};
  if (poll(&wait, 1, 5000) != 1) return -1;
  ibv_async_event event{};
  if (ibv_get_async_event(self.context, &event) != 0) return -1;
  ibv_ack_async_event(&event);
  return event.event_type;
}

TEST(AsyncEvents, TellOfTheFirstMessage) {
  Pair pair;
  Endpoint late;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(ibv_modify_qp(pair.left.qp, &to, IBV_QP_STATE), 0);
  EXPECT_EQ(late.to_init(), 0);
  EXPECT_EQ(late.receive(0, 64), 0);
  EXPECT_EQ(late.to_rtr(pair.left.contact()), 0);
  EXPECT_EQ(pair.left.connect(late.contact()), 0);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(late.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(next_event(late), IBV_EVENT_COMM_EST);
}

TEST(AsyncEvents, TellOfRefusedAccess) {
  Pair pair;
  ibv_send_wr wr = pair.left.request(IBV_WR_RDMA_WRITE, 8);
  wr.wr.rdma.rkey += 0x100000;
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(next_event(pair.right), IBV_EVENT_QP_ACCESS_ERR);
}

TEST(AsyncEvents, TellOfTheLastReceiveOfASharedQueue) {
  Pair pair({.srq = true});
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(pair.right.qp, &to, IBV_QP_STATE), 0);
  EXPECT_EQ(next_event(pair.right), IBV_EVENT_QP_LAST_WQE_REACHED);
}

TEST(AsyncEvents, TellOfTheLimitOfASharedQueue) {
  Pair pair({.srq = true});
  EXPECT_EQ(pair.right.receive(0, 8), 0);
  EXPECT_EQ(pair.right.receive(0, 8), 0);
  ibv_srq_attr attributes{0, 0, 2};
  EXPECT_EQ(ibv_modify_srq(pair.right.srq, &attributes, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(ibv_query_srq(pair.right.srq, &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 2u);
  EXPECT_EQ(pair.left.post(pair.left.request(IBV_WR_SEND, 8)), 0);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(next_event(pair.right), IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(ibv_modify_srq(pair.right.srq, &attributes, IBV_SRQ_MAX_WR), EINVAL);
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(pair.right.srq, &number), 0);
}

TEST(Multicast, ReachesEveryMember) {
  Pair pair({.type = IBV_QPT_UD});
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 0x17;
  EXPECT_EQ(ibv_attach_mcast(pair.right.qp, &group, 0), 0);
  EXPECT_EQ(pair.right.receive(0, 256), 0);
  ibv_ah_attr to{};
  to.is_global = 1;
  to.grh.dgid = group;
  to.port_num = 1;
  ibv_ah* ah = ibv_create_ah(pair.left.pd, &to);
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr = pair.left.request(IBV_WR_SEND, 16);
  wr.wr.ud = {ah, 0xffffff, kQkey};
  EXPECT_EQ(pair.left.post(wr), 0);
  EXPECT_EQ(pair.right.wait().byte_len, 56u);
  EXPECT_EQ(ibv_detach_mcast(pair.right.qp, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(pair.right.qp, &group, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST(Builders, PostEveryOperation) {
  Pair pair({.operations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                           IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD});
  Endpoint& self = pair.left;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pair.right.receive(32768, 256), 0);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(self.qp);
  ASSERT_NE(qp, nullptr);
  const uint64_t at = self.peer.address;
  const uint32_t rkey = self.peer.rkey, lkey = self.mr->lkey;
  const auto here = reinterpret_cast<uint64_t>(self.buffer.data());
  const ibv_sge list[] = {self.piece(0, 8), self.piece(64, 8)};
  const ibv_data_buf pieces[] = {{self.buffer.data(), 8}, {self.buffer.data() + 64, 8}};
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, rkey, at);
  ibv_wr_set_sge(qp, lkey, here, 16);
  ibv_wr_rdma_write_imm(qp, rkey, at, 5);
  ibv_wr_set_sge_list(qp, 2, list);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, self.buffer.data(), 24);
  ibv_wr_send_imm(qp, 6);
  ibv_wr_set_inline_data_list(qp, 2, pieces);
  ibv_wr_rdma_read(qp, rkey, at);
  ibv_wr_set_sge(qp, lkey, here, 16);
  ibv_wr_atomic_cmp_swp(qp, rkey, at, 0, 1);
  ibv_wr_set_sge(qp, lkey, here, 8);
  ibv_wr_atomic_fetch_add(qp, rkey, at, 2);
  ibv_wr_set_sge(qp, lkey, here, 8);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.buffer[0], 3);
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_abort(qp);
  EXPECT_TRUE(self.quiet());
}

TEST(Direct, ShowsQueuesAndDevice) {
  Endpoint self({.srq = true});
  mlx5dv_qp qp{};
  mlx5dv_cq cq{};
  mlx5dv_srq srq{};
  mlx5dv_pd pd{};
  mlx5dv_obj objects{};
  objects.qp = {self.qp, &qp};
  objects.cq = {self.cq, &cq};
  objects.srq = {self.srq, &srq};
  objects.pd = {self.pd, &pd};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_PD), 0);
  EXPECT_NE(qp.sq.buf, nullptr);
  EXPECT_EQ(qp.sq.stride, 64u);
  EXPECT_EQ(cq.cqe_size, 64u);
  EXPECT_NE(srq.buf, nullptr);
  mlx5dv_context device{};
  EXPECT_EQ(mlx5dv_query_device(self.context, &device), 0);
  mlx5dv_clock_info clock{};
  EXPECT_EQ(mlx5dv_get_clock_info(self.context, &clock), 0);
  EXPECT_NE(mlx5dv_ts_to_ns(&clock, clock.last_cycles), 0u);
}

}  // namespace
}  // namespace verbatim::conformance
