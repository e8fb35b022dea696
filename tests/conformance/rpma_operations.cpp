// SPDX-License-Identifier: MIT
// librpma's operations and their completions.
#include <arpa/inet.h>

#include "tests/conformance/rpma_ends.h"

namespace verbatim::conformance {
namespace {

constexpr int kAlways = RPMA_F_COMPLETION_ALWAYS, kOnError = RPMA_F_COMPLETION_ON_ERROR;

void* context(uintptr_t number) { return reinterpret_cast<void*>(number); }

void expect_done(rpma_cq* cq, ibv_wc_opcode opcode, uint64_t number) {
  const ibv_wc done = next_completion(cq);
  EXPECT_STREQ(ibv_wc_status_str(done.status), ibv_wc_status_str(IBV_WC_SUCCESS));
  EXPECT_EQ(done.opcode, opcode);
  EXPECT_EQ(done.wr_id, number);
}

/// Two ends, with memory of the case's on the same peer.
struct Ends {
  Peer peer;
  Pair pair{peer};
  Memory here{peer}, there{peer};
  rpma_cq* cq = queue_of(pair.active);
};

TEST(RpmaReads, BringTheOtherSidesBytes) {
  Ends ends;
  ends.there.write("over there", 100);
  EXPECT_EQ(rpma_read(ends.pair.active, ends.here.local, 7, ends.there.remote, 100, 10, kAlways, context(11)),
            0);
  expect_done(ends.cq, IBV_WC_RDMA_READ, 11);
  EXPECT_EQ(ends.here.text(7), "over there");
  EXPECT_EQ(rpma_read(ends.pair.active, nullptr, 0, nullptr, 0, 0, kAlways, context(12)), 0);
  expect_done(ends.cq, IBV_WC_RDMA_READ, 12);
}

TEST(RpmaWrites, BringBytesToTheOtherSide) {
  Ends ends;
  ends.here.write("from here", 1);
  EXPECT_EQ(rpma_write(ends.pair.active, ends.there.remote, 30, ends.here.local, 1, 9, kOnError, context(20)),
            0);
  EXPECT_EQ(rpma_write(ends.pair.active, nullptr, 0, nullptr, 0, 0, kAlways, context(21)), 0);
  // The first one was not to complete.
  expect_done(ends.cq, IBV_WC_RDMA_WRITE, 21);
  EXPECT_EQ(ends.there.text(30), "from here");
}

TEST(RpmaWrites, WithImmediateDataTakeAReceive) {
  Ends ends;
  ends.here.write("news");
  EXPECT_EQ(rpma_recv(ends.pair.passive, nullptr, 0, 0, context(31)), 0);
  EXPECT_EQ(rpma_write_with_imm(ends.pair.active, ends.there.remote, 0, ends.here.local, 0, 4, kAlways,
                                0x01020304, context(30)),
            0);
  expect_done(ends.cq, IBV_WC_RDMA_WRITE, 30);
  const ibv_wc received = next_completion(queue_of(ends.pair.passive));
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.wr_id, 31u);
  EXPECT_EQ(ntohl(received.imm_data), 0x01020304u);
  EXPECT_EQ(ends.there.text(), "news");
}

TEST(RpmaAtomicWrites, StoreEightBytes) {
  Ends ends;
  const char eight[8] = {'1', '2', '3', '4', '5', '6', '7', '\0'};
  EXPECT_EQ(rpma_atomic_write(ends.pair.active, ends.there.remote, 64, eight, kAlways, context(40)), 0);
  const ibv_wc done = next_completion(ends.cq);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(done.opcode == IBV_WC_RDMA_WRITE || done.opcode == IBV_WC_ATOMIC_WRITE) << done.opcode;
  EXPECT_EQ(done.wr_id, 40u);
  EXPECT_EQ(ends.there.text(64), "1234567");
}

TEST(RpmaFlushes, CompleteAfterTheWritesBeforeThem) {
  Ends ends;
  rpma_peer_cfg* cfg = nullptr;
  ASSERT_EQ(rpma_peer_cfg_new(&cfg), 0);
  ASSERT_EQ(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true), 0);
  EXPECT_EQ(rpma_conn_apply_remote_peer_cfg(ends.pair.active, cfg), 0);
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
  uint64_t number = 50;
  for (const rpma_flush_type type : {RPMA_FLUSH_TYPE_VISIBILITY, RPMA_FLUSH_TYPE_PERSISTENT})
    for (const size_t bytes : {size_t{4096}, size_t{3}, size_t{0}}) {
      ends.here.write(std::to_string(number));
      EXPECT_EQ(rpma_write(ends.pair.active, ends.there.remote, 0, ends.here.local, 0, 2, kOnError, nullptr),
                0);
      EXPECT_EQ(rpma_flush(ends.pair.active, ends.there.remote, 0, bytes, type, kAlways, context(number)), 0);
      const ibv_wc done = next_completion(ends.cq);
      EXPECT_EQ(done.status, IBV_WC_SUCCESS);
      EXPECT_TRUE(done.opcode == IBV_WC_RDMA_READ || done.opcode == IBV_WC_FLUSH) << done.opcode;
      EXPECT_EQ(done.wr_id, number);
      EXPECT_EQ(ends.there.text(), std::to_string(number));
      ++number;
    }
}

TEST(RpmaFlushes, OfWhatIsNotThereFail) {
  Ends ends;
  EXPECT_EQ(rpma_flush(ends.pair.active, ends.there.remote, 4000, 97, RPMA_FLUSH_TYPE_VISIBILITY, kOnError,
                       context(60)),
            0);
  const ibv_wc done = next_completion(ends.cq);
  EXPECT_STREQ(ibv_wc_status_str(done.status), ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR));
  EXPECT_EQ(done.wr_id, 60u);
}

TEST(RpmaFlushes, NeedMemoryAndAPeerThatAreUpToThem) {
  const Log log;
  Ends ends;
  const Memory plain(ends.peer, 64, RPMA_MR_USAGE_WRITE_DST);
  rpma_conn* conn = ends.pair.active;
  rpma_mr_remote* to = ends.there.remote;
  constexpr rpma_flush_type kVisible = RPMA_FLUSH_TYPE_VISIBILITY, kPersistent = RPMA_FLUSH_TYPE_PERSISTENT;
  EXPECT_REFUSED(rpma_flush(nullptr, to, 0, 8, kVisible, kAlways, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_flush(conn, nullptr, 0, 8, kVisible, kAlways, nullptr), RPMA_E_INVAL, "dst");
  EXPECT_REFUSED(rpma_flush(conn, to, 0, 8, kVisible, 0, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_flush(conn, to, 0, 8, static_cast<rpma_flush_type>(2), kAlways, nullptr), RPMA_E_INVAL,
                 "type 2");
  EXPECT_REFUSED(rpma_flush(conn, to, 0, 8, kPersistent, kAlways, nullptr), RPMA_E_NOSUPP, "direct write");
  EXPECT_REFUSED(rpma_flush(conn, plain.remote, 0, 8, kVisible, kAlways, nullptr), RPMA_E_NOSUPP,
                 "visibility");
  rpma_peer_cfg* cfg = nullptr;
  ASSERT_EQ(rpma_peer_cfg_new(&cfg), 0);
  ASSERT_EQ(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true), 0);
  EXPECT_EQ(rpma_conn_apply_remote_peer_cfg(conn, cfg), 0);
  EXPECT_REFUSED(rpma_flush(conn, plain.remote, 0, 8, kPersistent, kAlways, nullptr), RPMA_E_NOSUPP,
                 "persistence");
  EXPECT_EQ(rpma_peer_cfg_delete(&cfg), 0);
}

TEST(RpmaMessages, ArriveWithAndWithoutImmediateData) {
  Ends ends;
  rpma_cq* receives = queue_of(ends.pair.passive);
  ends.here.write("hello");
  EXPECT_EQ(rpma_recv(ends.pair.passive, ends.there.local, 10, 90, context(71)), 0);
  EXPECT_EQ(rpma_send(ends.pair.active, ends.here.local, 0, 5, kAlways, context(70)), 0);
  expect_done(ends.cq, IBV_WC_SEND, 70);
  ibv_wc received = next_completion(receives);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 71u);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_EQ(ends.there.text(10), "hello");
  EXPECT_EQ(rpma_recv(ends.pair.passive, nullptr, 0, 0, context(73)), 0);
  EXPECT_EQ(rpma_send_with_imm(ends.pair.active, nullptr, 0, 0, kAlways, 0xabcd, context(72)), 0);
  expect_done(ends.cq, IBV_WC_SEND, 72);
  received = next_completion(receives);
  EXPECT_EQ(received.wr_id, 73u);
  EXPECT_EQ(received.byte_len, 0u);
  EXPECT_EQ(ntohl(received.imm_data), 0xabcdu);
}

TEST(RpmaMessages, FindAReceiveOfTheRequest) {
  const Log log;
  const Peer peer;
  const Listener listener(peer);
  Memory here(peer), there(peer);
  rpma_conn* active = connect(ask(peer));
  rpma_conn_req* request = listener.next();
  EXPECT_EQ(rpma_conn_req_recv(request, there.local, 0, 100, context(81)), 0);
  EXPECT_REFUSED(rpma_conn_req_recv(nullptr, there.local, 0, 100, nullptr), RPMA_E_INVAL, "req");
  EXPECT_REFUSED(rpma_conn_req_recv(request, nullptr, 0, 0, nullptr), RPMA_E_INVAL, "dst");
  for (int posted = 1; posted < 10; ++posted)
    EXPECT_EQ(rpma_conn_req_recv(request, there.local, 0, 100, nullptr), 0);
  // The queue rounds its size up; at some point it is full.
  int result = 0;
  for (int more = 0; result == 0 && more < 64; ++more)
    result = rpma_conn_req_recv(request, there.local, 0, 100, nullptr);
  EXPECT_EQ(result, RPMA_E_PROVIDER);
  EXPECT_NE(Log::drain().find("a receive was not taken"), std::string::npos);
  rpma_conn* passive = connect(request);
  expect_event(active, RPMA_CONN_ESTABLISHED);
  here.write("first");
  EXPECT_EQ(rpma_send(active, here.local, 0, 5, kOnError, nullptr), 0);
  EXPECT_EQ(next_completion(queue_of(passive)).wr_id, 81u);
  EXPECT_EQ(there.text(), "first");
  EXPECT_EQ(rpma_conn_delete(&active), 0);
  EXPECT_EQ(rpma_conn_delete(&passive), 0);
}

TEST(RpmaOperations, RefuseHalfOfTheirEnds) {
  const Log log;
  Ends ends;
  rpma_conn* conn = ends.pair.active;
  rpma_mr_local* here = ends.here.local;
  rpma_mr_remote* there = ends.there.remote;
  constexpr size_t kTooMuch = size_t{UINT32_MAX} + 1;
  EXPECT_REFUSED(rpma_read(nullptr, here, 0, there, 0, 1, kAlways, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_read(conn, here, 0, there, 0, 1, 0, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_read(conn, nullptr, 0, there, 0, 0, kAlways, nullptr), RPMA_E_INVAL, "src or dst");
  EXPECT_REFUSED(rpma_read(conn, here, 0, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL, "src or dst");
  EXPECT_REFUSED(rpma_read(conn, nullptr, 1, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL, "src or dst");
  EXPECT_REFUSED(rpma_read(conn, here, 0, there, 0, kTooMuch, kAlways, nullptr), RPMA_E_INVAL, "more than");
  EXPECT_REFUSED(rpma_write(nullptr, there, 0, here, 0, 1, kAlways, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_write(conn, there, 0, here, 0, 1, 0, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_write(conn, there, 0, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL, "src or dst");
  EXPECT_REFUSED(rpma_write(conn, nullptr, 0, nullptr, 0, 1, kAlways, nullptr), RPMA_E_INVAL, "src or dst");
  EXPECT_REFUSED(rpma_write_with_imm(nullptr, there, 0, here, 0, 1, kAlways, 1, nullptr), RPMA_E_INVAL,
                 "conn");
  EXPECT_REFUSED(rpma_write_with_imm(conn, there, 0, here, 0, 1, 0, 1, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_write_with_imm(conn, nullptr, 0, here, 0, 0, kAlways, 1, nullptr), RPMA_E_INVAL,
                 "src or dst");
  const char eight[8] = {};
  EXPECT_REFUSED(rpma_atomic_write(nullptr, there, 0, eight, kAlways, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_atomic_write(conn, nullptr, 0, eight, kAlways, nullptr), RPMA_E_INVAL, "dst");
  EXPECT_REFUSED(rpma_atomic_write(conn, there, 0, nullptr, kAlways, nullptr), RPMA_E_INVAL, "src");
  EXPECT_REFUSED(rpma_atomic_write(conn, there, 0, eight, 0, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_atomic_write(conn, there, 4, eight, kAlways, nullptr), RPMA_E_INVAL, "offset 4");
  EXPECT_REFUSED(rpma_send(nullptr, here, 0, 1, kAlways, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_send(conn, here, 0, 1, 0, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_send(conn, nullptr, 0, 1, kAlways, nullptr), RPMA_E_INVAL, "src");
  EXPECT_REFUSED(rpma_send_with_imm(nullptr, here, 0, 1, kAlways, 1, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_send_with_imm(conn, here, 0, 1, 0, 1, nullptr), RPMA_E_INVAL, "flags");
  EXPECT_REFUSED(rpma_send_with_imm(conn, nullptr, 1, 0, kAlways, 1, nullptr), RPMA_E_INVAL, "src");
  EXPECT_REFUSED(rpma_recv(nullptr, here, 0, 1, nullptr), RPMA_E_INVAL, "conn");
  EXPECT_REFUSED(rpma_recv(conn, nullptr, 0, 1, nullptr), RPMA_E_INVAL, "dst");
  EXPECT_REFUSED(rpma_recv(conn, here, 0, kTooMuch, nullptr), RPMA_E_INVAL, "more than");
}

/// Posts until the queue is full, and expects that that is what the log says.
template <class Post>
void expect_full(Post post) {
  int result = 0;
  for (int posted = 0; result == 0 && posted < 1000; ++posted) result = post();
  EXPECT_EQ(result, RPMA_E_PROVIDER);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_NE(Log::drain().find("the queue is full"), std::string::npos);
}

TEST(RpmaOperations, AreRefusedByFullQueues) {
  const Log log;
  Ends ends;
  rpma_conn* conn = ends.pair.active;
  // None of these completes, so that none gives its place back.
  expect_full(
      [&] { return rpma_write(conn, ends.there.remote, 0, ends.here.local, 0, 1, kOnError, nullptr); });
  expect_full(
      [&] { return rpma_read(conn, ends.here.local, 0, ends.there.remote, 0, 1, kOnError, nullptr); });
  expect_full([&] { return rpma_write_with_imm(conn, nullptr, 0, nullptr, 0, 0, kOnError, 1, nullptr); });
  const char eight[8] = {};
  expect_full([&] { return rpma_atomic_write(conn, ends.there.remote, 0, eight, kOnError, nullptr); });
  expect_full([&] {
    return rpma_flush(conn, ends.there.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, kOnError, nullptr);
  });
  expect_full([&] { return rpma_send(conn, nullptr, 0, 0, kOnError, nullptr); });
  expect_full([&] { return rpma_send_with_imm(conn, nullptr, 0, 0, kOnError, 1, nullptr); });
  expect_full([&] { return rpma_recv(conn, nullptr, 0, 0, nullptr); });
}

TEST(RpmaCompletions, AreCollectedOneByOneAndInNumbers) {
  const Log log(RPMA_LOG_LEVEL_DEBUG);
  Ends ends;
  ibv_wc done[4];
  int got = -1;
  EXPECT_REFUSED(rpma_cq_get_wc(nullptr, 1, done, nullptr), RPMA_E_INVAL, "cq");
  EXPECT_REFUSED(rpma_cq_get_wc(ends.cq, 1, nullptr, nullptr), RPMA_E_INVAL, "wc");
  EXPECT_REFUSED(rpma_cq_get_wc(ends.cq, 0, done, &got), RPMA_E_INVAL, "0 entries");
  EXPECT_REFUSED(rpma_cq_get_wc(ends.cq, 2, done, nullptr), RPMA_E_INVAL, "num_entries_got");
  EXPECT_REFUSED(rpma_cq_get_wc(ends.cq, 4, done, &got), RPMA_E_NO_COMPLETION, "no completion");
  EXPECT_EQ(got, -1);
  for (uintptr_t number = 1; number <= 3; ++number)
    EXPECT_EQ(rpma_write(ends.pair.active, nullptr, 0, nullptr, 0, 0, kAlways, context(number)), 0);
  EXPECT_EQ(rpma_cq_wait(ends.cq), 0);
  int all = 0;
  while (all < 3) {
    const int result = rpma_cq_get_wc(ends.cq, 4, done, &got);
    if (result == RPMA_E_NO_COMPLETION) continue;
    ASSERT_EQ(result, 0);
    for (int each = 0; each < got; ++each) EXPECT_EQ(done[each].wr_id, static_cast<uint64_t>(++all));
  }
}

TEST(RpmaCompletions, AreWaitedFor) {
  const Log log(RPMA_LOG_LEVEL_DEBUG);
  Ends ends;
  int fd = -1;
  EXPECT_REFUSED(rpma_cq_get_fd(nullptr, &fd), RPMA_E_INVAL, "cq");
  EXPECT_REFUSED(rpma_cq_get_fd(ends.cq, nullptr), RPMA_E_INVAL, "fd");
  EXPECT_REFUSED(rpma_cq_wait(nullptr), RPMA_E_INVAL, "cq");
  ASSERT_EQ(rpma_cq_get_fd(ends.cq, &fd), 0);
  EXPECT_FALSE(is_readable(fd, 0));
  make_nonblocking(fd);
  EXPECT_REFUSED(rpma_cq_wait(ends.cq), RPMA_E_NO_COMPLETION, "no completion event");
  EXPECT_EQ(rpma_write(ends.pair.active, nullptr, 0, nullptr, 0, 0, kAlways, context(91)), 0);
  ASSERT_TRUE(is_readable(fd));
  EXPECT_EQ(rpma_cq_wait(ends.cq), 0);
  expect_done(ends.cq, IBV_WC_RDMA_WRITE, 91);
}

TEST(RpmaCompletions, OfReceivesHaveAQueueOfTheirOwnIfAskedFor) {
  const Peer peer;
  const Settings cfg = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_rcq_size(cfg.get(), 10), 0);
  const Pair pair(peer, nullptr, cfg.get());
  rpma_cq *cq = queue_of(pair.passive), *rcq = receive_queue_of(pair.passive);
  ASSERT_NE(rcq, nullptr);
  EXPECT_NE(rcq, cq);
  EXPECT_EQ(rpma_recv(pair.passive, nullptr, 0, 0, context(2)), 0);
  EXPECT_EQ(rpma_send(pair.active, nullptr, 0, 0, kOnError, nullptr), 0);
  EXPECT_EQ(rpma_cq_wait(rcq), 0);
  expect_done(rcq, IBV_WC_RECV, 2);
  ibv_wc none;
  EXPECT_EQ(rpma_cq_get_wc(cq, 1, &none, nullptr), RPMA_E_NO_COMPLETION);
}

TEST(RpmaCompletions, ShareAChannelIfAskedTo) {
  const Log log(RPMA_LOG_LEVEL_DEBUG);
  const Peer peer;
  const Settings cfg = make_settings();
  ASSERT_EQ(rpma_conn_cfg_set_rcq_size(cfg.get(), 10), 0);
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(cfg.get(), true), 0);
  const Pair pair(peer, nullptr, cfg.get());
  rpma_cq *sends = queue_of(pair.passive), *receives = receive_queue_of(pair.passive), *cq = nullptr;
  int fd = -1, of_sends = -2;
  ASSERT_EQ(rpma_conn_get_compl_fd(pair.passive, &fd), 0);
  EXPECT_EQ(rpma_cq_get_fd(sends, &of_sends), 0);
  EXPECT_EQ(of_sends, fd);
  EXPECT_REFUSED(rpma_cq_wait(sends), RPMA_E_SHARED_CHANNEL, "rpma_conn_wait");
  make_nonblocking(fd);
  EXPECT_REFUSED(rpma_conn_wait(pair.passive, RPMA_W_WAIT_FOR_COMPLETION, &cq, nullptr), RPMA_E_NO_COMPLETION,
                 "no completion");
  bool is_rcq = false;
  EXPECT_EQ(rpma_recv(pair.passive, nullptr, 0, 0, context(3)), 0);
  EXPECT_EQ(rpma_send(pair.active, nullptr, 0, 0, kOnError, nullptr), 0);
  ASSERT_TRUE(is_readable(fd));
  EXPECT_EQ(rpma_conn_wait(pair.passive, RPMA_W_WAIT_FOR_COMPLETION, &cq, &is_rcq), 0);
  EXPECT_TRUE(is_rcq);
  EXPECT_EQ(cq, receives);
  expect_done(receives, IBV_WC_RECV, 3);
  EXPECT_EQ(rpma_write(pair.passive, nullptr, 0, nullptr, 0, 0, kAlways, context(4)), 0);
  ASSERT_TRUE(is_readable(fd));
  EXPECT_EQ(rpma_conn_wait(pair.passive, RPMA_W_WAIT_FOR_COMPLETION, &cq, &is_rcq), 0);
  EXPECT_FALSE(is_rcq);
  EXPECT_EQ(cq, sends);
  expect_done(sends, IBV_WC_RDMA_WRITE, 4);
  // The other end has a channel for each queue.
  EXPECT_REFUSED(rpma_conn_get_compl_fd(pair.active, &fd), RPMA_E_NOT_SHARED_CHNL, "rpma_cq_get_fd");
  EXPECT_REFUSED(rpma_conn_wait(pair.active, 0, &cq, nullptr), RPMA_E_NOT_SHARED_CHNL, "rpma_cq_wait");
}

struct SharedQueue {
  SharedQueue(rpma_peer* peer, uint32_t completions) {
    rpma_srq_cfg* cfg = nullptr;
    EXPECT_EQ(rpma_srq_cfg_new(&cfg), 0);
    EXPECT_EQ(rpma_srq_cfg_set_rq_size(cfg, 4), 0);
    EXPECT_EQ(rpma_srq_cfg_set_rcq_size(cfg, completions), 0);
    EXPECT_EQ(rpma_srq_new(peer, cfg, &queue), 0);
    EXPECT_EQ(rpma_srq_cfg_delete(&cfg), 0);
    EXPECT_EQ(rpma_srq_get_rcq(queue, &rcq), 0);
    EXPECT_EQ(rpma_conn_cfg_set_srq(settings.get(), queue), 0);
  }
  ~SharedQueue() { EXPECT_EQ(rpma_srq_delete(&queue), 0); }
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;
  rpma_srq* queue = nullptr;
  rpma_cq* rcq = nullptr;
  Settings settings = make_settings();
};

TEST(RpmaSharedQueues, FeedSeveralConnections) {
  const Peer peer;
  SharedQueue shared(peer, 10);
  ASSERT_NE(shared.rcq, nullptr);
  Memory there(peer);
  const Listener listener(peer);
  rpma_conn *active[2], *passive[2];
  uint32_t numbers[2];
  for (int each = 0; each < 2; ++each) {
    EXPECT_EQ(rpma_srq_recv(shared.queue, there.local, 0, 100, context(5)), 0);
    active[each] = connect(ask(peer));
    passive[each] = connect(listener.next(shared.settings.get()));
    expect_event(active[each], RPMA_CONN_ESTABLISHED);
    EXPECT_EQ(receive_queue_of(passive[each]), nullptr);
    EXPECT_EQ(rpma_conn_get_qp_num(passive[each], &numbers[each]), 0);
  }
  for (int each = 1; each >= 0; --each) {
    EXPECT_EQ(rpma_send(active[each], nullptr, 0, 0, kOnError, nullptr), 0);
    const ibv_wc received = next_completion(shared.rcq);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 5u);
    EXPECT_EQ(received.qp_num, numbers[each]);
  }
  for (rpma_conn* conn : {active[0], active[1], passive[0], passive[1]})
    EXPECT_EQ(rpma_conn_delete(&conn), 0);
}

TEST(RpmaSharedQueues, CompleteOnTheirConnectionsIfTheyHaveNoQueue) {
  const Log log;
  const Peer peer;
  SharedQueue shared(peer, 0);
  EXPECT_EQ(shared.rcq, nullptr);
  const Pair pair(peer, nullptr, shared.settings.get());
  EXPECT_EQ(rpma_srq_recv(shared.queue, nullptr, 0, 0, context(6)), 0);
  EXPECT_EQ(rpma_send(pair.active, nullptr, 0, 0, kOnError, nullptr), 0);
  expect_done(queue_of(pair.passive), IBV_WC_RECV, 6);
  EXPECT_REFUSED(rpma_recv(pair.passive, nullptr, 0, 0, nullptr), RPMA_E_PROVIDER, "a receive was not taken");
}

TEST(RpmaSharedQueues, RefuseWhatTheyCannotDo) {
  const Log log;
  const Peer peer;
  rpma_srq* queue = nullptr;
  rpma_cq* rcq = nullptr;
  EXPECT_REFUSED(rpma_srq_new(nullptr, nullptr, &queue), RPMA_E_INVAL, "peer");
  EXPECT_REFUSED(rpma_srq_new(peer, nullptr, nullptr), RPMA_E_INVAL, "srq_ptr");
  EXPECT_REFUSED(rpma_srq_delete(nullptr), RPMA_E_INVAL, "srq_ptr");
  EXPECT_EQ(rpma_srq_delete(&queue), 0);
  rpma_srq_cfg* huge = nullptr;
  ASSERT_EQ(rpma_srq_cfg_new(&huge), 0);
  ASSERT_EQ(rpma_srq_cfg_set_rq_size(huge, UINT32_MAX), 0);
  EXPECT_REFUSED(rpma_srq_new(peer, huge, &queue), RPMA_E_PROVIDER, "ibv_create_srq");
  EXPECT_EQ(rpma_srq_cfg_delete(&huge), 0);
  SharedQueue shared(peer, 10);
  EXPECT_REFUSED(rpma_srq_get_rcq(nullptr, &rcq), RPMA_E_INVAL, "srq");
  EXPECT_REFUSED(rpma_srq_get_rcq(shared.queue, nullptr), RPMA_E_INVAL, "rcq_ptr");
  EXPECT_REFUSED(rpma_srq_recv(nullptr, nullptr, 0, 0, nullptr), RPMA_E_INVAL, "srq");
  EXPECT_REFUSED(rpma_srq_recv(shared.queue, nullptr, 1, 0, nullptr), RPMA_E_INVAL, "dst");
  expect_full([&] { return rpma_srq_recv(shared.queue, nullptr, 0, 0, nullptr); });
  ASSERT_EQ(rpma_conn_cfg_set_compl_channel(shared.settings.get(), true), 0);
  rpma_conn_req* request = nullptr;
  EXPECT_REFUSED(rpma_conn_req_new(peer, kAddress, kPort, shared.settings.get(), &request), RPMA_E_INVAL,
                 "completes elsewhere");
  // With the default parameters.
  EXPECT_EQ(rpma_srq_new(peer, nullptr, &queue), 0);
  EXPECT_EQ(rpma_srq_get_rcq(queue, &rcq), 0);
  EXPECT_NE(rcq, nullptr);
  EXPECT_EQ(rpma_srq_delete(&queue), 0);
  EXPECT_EQ(queue, nullptr);
}

}  // namespace
}  // namespace verbatim::conformance
