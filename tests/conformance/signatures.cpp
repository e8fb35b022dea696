// SPDX-License-Identifier: MIT
// Block signatures of memory keys: fields that are made, checked, stripped and replaced on the way.
#include <cerrno>
#include <cstring>

#include "tests/conformance/protected_keys.h"

namespace verbatim::conformance {
namespace {

using Kind = Fields::Kind;

constexpr size_t kRemote = 32 * 1024;  ///< where the other half of a buffer begins

Traits signature_traits(uint32_t qp_flags = 0) {
  Traits traits = key_traits();
  traits.operations |= IBV_QP_EX_WITH_RDMA_READ;
  traits.direct_flags = qp_flags;
  return traits;
}

int post(Endpoint& self, ibv_send_wr wr) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(self.qp, &wr, &bad);
}

int receive(Endpoint& self, ibv_sge sge) {
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(self.qp, &wr, &bad);
}

std::vector<Fields> every_kind() {
  std::vector<Fields> kinds;
  for (const Kind kind : {Kind::kT10Crc, Kind::kT10Checksum, Kind::kCrc32, Kind::kCrc32c, Kind::kCrc64})
    kinds.push_back({kind});
  for (const mlx5dv_block_size size :
       {MLX5DV_BLOCK_SIZE_520, MLX5DV_BLOCK_SIZE_4048, MLX5DV_BLOCK_SIZE_4096, MLX5DV_BLOCK_SIZE_4160})
    kinds.push_back({Kind::kT10Crc, size});
  return kinds;
}

TEST(SignatureCapabilities, AreAllThere) {
  ibv_context* context = open_first();
  mlx5dv_context told{};
  told.comp_mask = MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD;
  ASSERT_EQ(mlx5dv_query_device(context, &told), 0);
  EXPECT_EQ(told.comp_mask, MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD);
  EXPECT_EQ(told.sig_caps.block_size, MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 |
                                          MLX5DV_BLOCK_SIZE_CAP_4048 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                                          MLX5DV_BLOCK_SIZE_CAP_4160);
  EXPECT_EQ(told.sig_caps.block_prot, MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC);
  EXPECT_EQ(told.sig_caps.t10dif_bg, MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM);
  EXPECT_EQ(told.sig_caps.crc_type, MLX5DV_SIG_CRC_TYPE_CAP_CRC32 | MLX5DV_SIG_CRC_TYPE_CAP_CRC32C |
                                        MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10);
  EXPECT_EQ(ibv_close_device(context), 0);
}

using Signatures = Played;
VERBATIM_PLAY_BOTH_WAYS(Signatures);

/// The sender's key strips the fields of its memory, the receiver's key adds those of its own.
void send_part(Endpoint& self) {
  for (const Fields& fields : every_kind()) {
    SCOPED_TRACE(fields.name());
    const Bytes data = random_bytes(3 * fields.block_bytes(), 1);
    ProtectedKey key(self);
    const Signature signature(fields, {});
    put(self, 0, fields.put_into(data));
    ASSERT_EQ(key.give({{0, static_cast<uint32_t>(fields.bytes_for(data.size()))}}, &signature.attr),
              IBV_WC_SUCCESS);
    self.barrier();
    ASSERT_EQ(post(self, through(key.sge(0, data.size()), IBV_WR_SEND)), 0);
    ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    ASSERT_EQ(post(self, through(key.sge(0, data.size()), IBV_WR_RDMA_WRITE, self.peer.address + kRemote,
                                 self.peer.rkey)),
              0);
    ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
    self.barrier();
  }
}

void receive_part(Endpoint& self) {
  for (const Fields& fields : every_kind()) {
    SCOPED_TRACE(fields.name());
    const Bytes data = random_bytes(3 * fields.block_bytes(), 1);
    ProtectedKey key(self);
    const Signature signature(fields, {});
    put(self, 0, Bytes(kRemote));
    ASSERT_EQ(key.give({{0, static_cast<uint32_t>(fields.bytes_for(data.size()))}}, &signature.attr),
              IBV_WC_SUCCESS);
    ASSERT_EQ(receive(self, key.sge(0, data.size())), 0);
    self.barrier();
    const ibv_wc wc = self.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, data.size());
    EXPECT_EQ(got(self, 0, fields.bytes_for(data.size())), fields.put_into(data)) << "made for memory";
    self.barrier();
    EXPECT_EQ(got(self, kRemote, data.size()), data) << "stripped for the wire";
    EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
  }
}

TEST_P(Signatures, AreStrippedFromWhatIsSentAndMadeForWhatIsReceived) {
  play(signature_traits(), send_part, receive_part);
}

/// A key of the passive player with fields on the wire alone: reads get them, writes have to have them.
void read_and_write_part(Endpoint& self) {
  for (const Fields& fields : every_kind()) {
    SCOPED_TRACE(fields.name());
    const Bytes data = random_bytes(2 * fields.block_bytes(), 2);
    const auto wire = fields.bytes_for(data.size());
    self.barrier();
    uint32_t rkey = 0;
    std::memcpy(&rkey, &self.buffer[kRemote], sizeof rkey);  // the other player has written it there
    ASSERT_EQ(post(self, through(self.piece(0, wire), IBV_WR_RDMA_READ, 0, rkey)), 0);
    ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(got(self, 0, wire), fields.put_into(data)) << "made for the wire";
    const Bytes other = random_bytes(data.size(), 3);
    put(self, 0, fields.put_into(other));
    ASSERT_EQ(post(self, through(self.piece(0, wire), IBV_WR_RDMA_WRITE, 0, rkey)), 0);
    ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    self.barrier();
  }
}

void remote_part(Endpoint& self) {
  for (const Fields& fields : every_kind()) {
    SCOPED_TRACE(fields.name());
    const Bytes data = random_bytes(2 * fields.block_bytes(), 2);
    ProtectedKey key(self);
    const Signature signature({}, fields);
    put(self, 0, data);
    ASSERT_EQ(key.give({{0, static_cast<uint32_t>(data.size())}}, &signature.attr), IBV_WC_SUCCESS);
    std::memcpy(&self.buffer[kRemote], &key.key->rkey, sizeof key.key->rkey);
    ASSERT_EQ(post(self, through(self.piece(kRemote, 4), IBV_WR_RDMA_WRITE, self.peer.address + kRemote,
                                 self.peer.rkey)),
              0);
    ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
    self.barrier();
    self.barrier();
    EXPECT_EQ(got(self, 0, data.size()), random_bytes(data.size(), 3)) << "stripped for memory";
    EXPECT_TRUE(self.quiet());
    EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
  }
}

TEST_P(Signatures, AreMadeForReadersAndStrippedFromWrites) {
  play(signature_traits(), read_and_write_part, remote_part);
}

/// One pair whose left side sends through a key with T10-DIF fields in memory.
struct Checked : testing::Test {
  Checked() { put(pair.left, 0, fields.put_into(data)); }
  void configure(uint32_t conf_flags = 0) {
    ASSERT_EQ(key.give({{0, static_cast<uint32_t>(fields.bytes_for(data.size()))}}, &signature.attr, nullptr,
                       conf_flags),
              IBV_WC_SUCCESS);
  }
  void write() {
    ASSERT_EQ(post(pair.left, through(key.sge(0, data.size()), IBV_WR_RDMA_WRITE, pair.left.peer.address,
                                      pair.left.peer.rkey)),
              0);
    ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  }
  void damage(size_t offset) { pair.left.buffer[offset] ^= 0xff; }
  uint64_t guard(size_t block) const {
    return fields.guard(std::span(pair.left.buffer).subspan(block * 520, 512));
  }

  Pair pair{signature_traits()};
  Fields fields{Kind::kT10Crc};
  Bytes data = random_bytes(2048, 4);
  Signature signature{fields, {}};
  ProtectedKey key{pair.left};
};

TEST_F(Checked, ErrorsTellWhichPartAndWhere) {
  const uint64_t right = guard(1);
  configure();
  damage(520 + 7);
  write();
  mlx5dv_mkey_err error = key.check();
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
  EXPECT_EQ(error.err.sig.actual_value, guard(1)) << "of the data";
  EXPECT_EQ(error.err.sig.expected_value, right) << "in the field";
  EXPECT_EQ(error.err.sig.offset, 520u);
  EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR) << "told once";
  damage(520 + 7);

  configure();
  damage(2 * 520 + 512 + 2);
  write();
  error = key.check();
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG);
  EXPECT_EQ(error.err.sig.actual_value, 0xa978u);
  EXPECT_EQ(error.err.sig.expected_value, 0x5678u);
  EXPECT_EQ(error.err.sig.offset, 2 * 520u);
  damage(2 * 520 + 512 + 2);

  configure();
  damage(3 * 520 + 512 + 4);
  write();
  error = key.check();
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG);
  EXPECT_EQ(error.err.sig.expected_value, 0xf0debc9du);
  EXPECT_EQ(error.err.sig.actual_value, 0x0fdebc9du);
  EXPECT_EQ(got(pair.right, 0, data.size()), data) << "the data went through";
}

TEST_F(Checked, TheFirstErrorIsKeptUntilTheKeyIsConfiguredAgain) {
  configure();
  damage(100);
  damage(2 * 520 + 512 + 3);
  write();
  EXPECT_EQ(key.check().err.sig.offset, 0u);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
  configure();
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
  // Without the setter the signature stays, and the error is expected anew.
  ASSERT_EQ(key.give({{0, 4 * 520}}, nullptr), IBV_WC_SUCCESS);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
}

TEST_F(Checked, ResetForgetsTheSignature) {
  configure();
  damage(0);
  ASSERT_EQ(key.give({{0, 4 * 520}}, nullptr, nullptr, MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR), IBV_WC_SUCCESS);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
  EXPECT_EQ(got(pair.right, 0, data.size()), got(pair.left, 0, data.size())) << "as it lies in memory";
}

TEST_F(Checked, MasksSayWhatIsChecked) {
  signature.attr.check_mask = MLX5DV_SIG_MASK_T10DIF_REFTAG | 0x10;
  configure();
  damage(3);
  damage(512 + 2);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
  damage(512 + 3);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG);
}

TEST_F(Checked, EscapedBlocksAreNotChecked) {
  fields.flags = MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE;
  const Signature escaping(fields, {});
  ASSERT_EQ(key.give({{0, 4 * 520}}, &escaping.attr), IBV_WC_SUCCESS);
  for (size_t block = 0; block < 4; block++) std::memset(&pair.left.buffer[block * 520 + 512], 0xff, 4);
  write();
  EXPECT_EQ(key.error(), MLX5DV_MKEY_NO_ERR);
}

// What a program finds that reads the queue by itself.
TEST_F(Checked, ErrorsAreEntriesOfTheCompletionQueue) {
  mlx5dv_cq raw{};
  mlx5dv_obj object{};
  object.cq.in = pair.left.cq;
  object.cq.out = &raw;
  configure();
  damage(0);
  const uint64_t found = fields.guard(data.empty() ? std::span<const uint8_t>{} : std::span(data).first(512));
  ASSERT_EQ(post(pair.left, through(key.sge(0, data.size()), IBV_WR_RDMA_WRITE, pair.left.peer.address,
                                    pair.left.peer.rkey)),
            0);
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
  const auto* entry = static_cast<const uint8_t*>(raw.buf) + raw.cqe_size;  // behind the configuration's
  ASSERT_EQ(entry[63] >> 4, MLX5_CQE_SIG_ERR);
  const auto word = [entry](size_t at) {
    return static_cast<uint32_t>(entry[at] << 24 | entry[at + 1] << 16 | entry[at + 2] << 8 | entry[at + 3]);
  };
  EXPECT_EQ(word(16) >> 16, guard(0)) << "expected: made by the device";
  EXPECT_EQ(word(20) >> 16, found) << "actual: found";
  EXPECT_EQ(word(16) & 0xffff, 0x5678u);
  EXPECT_EQ(word(24), 0xf0debc9au);
  EXPECT_EQ(word(32), 1u << 29 | 1u) << "guard, in a block, on the side of memory";
  EXPECT_EQ(word(36), key.key->lkey);
  EXPECT_EQ(word(44), 519u) << "its last byte";
}

TEST_F(Checked, FieldsAreReplacedBetweenUnlikeSides) {
  const Fields wire{Kind::kCrc32c, MLX5DV_BLOCK_SIZE_4096};
  const Bytes whole = random_bytes(8192, 9);
  put(pair.left, 0, fields.put_into(whole));
  const Signature both(fields, wire);
  ASSERT_EQ(key.give({{0, static_cast<uint32_t>(fields.bytes_for(whole.size()))}}, &both.attr),
            IBV_WC_SUCCESS);
  const size_t length = wire.bytes_for(whole.size());
  ASSERT_EQ(post(pair.left,
                 through(key.sge(0, length), IBV_WR_RDMA_WRITE, pair.left.peer.address, pair.left.peer.rkey)),
            0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(got(pair.right, 0, length), wire.put_into(whole));
  ASSERT_EQ(post(pair.left, through(key.sge(0, length + 1), IBV_WR_RDMA_WRITE, pair.left.peer.address,
                                    pair.left.peer.rkey)),
            0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_LOC_PROT_ERR) << "beyond what the memory stands for";
}

TEST_F(Checked, CopiedBytesPassAsTheyCame) {
  Signature both(fields, fields);
  both.attr.check_mask = MLX5DV_SIG_MASK_T10DIF_GUARD;
  both.attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
  both.attr.copy_mask = MLX5DV_SIG_MASK_T10DIF_APPTAG;
  damage(512 + 2);
  damage(512 + 7);
  ASSERT_EQ(key.give({{0, 4 * 520}}, &both.attr), IBV_WC_SUCCESS);
  ASSERT_EQ(post(pair.left, through(key.sge(0, 4 * 520), IBV_WR_RDMA_WRITE, pair.left.peer.address,
                                    pair.left.peer.rkey)),
            0);
  ASSERT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  Bytes wanted = fields.put_into(data);
  wanted[512 + 2] ^= 0xff;
  EXPECT_EQ(got(pair.right, 0, wanted.size()), wanted);
}

// An error of a receiver's key is in the receiver's queue.
TEST_F(Checked, ReceiversFindWhatArrivesWrong) {
  ProtectedKey theirs(pair.right);
  const Signature wire({}, fields);
  ASSERT_EQ(theirs.give({{0, 2048}}, &wire.attr), IBV_WC_SUCCESS);
  damage(520 + 512);
  ASSERT_EQ(receive(pair.right, theirs.sge(0, 4 * 520)), 0);
  ASSERT_EQ(post(pair.left, through(pair.left.piece(0, 4 * 520), IBV_WR_SEND)), 0);
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(theirs.check().err.sig.offset, 520u);
  EXPECT_EQ(got(pair.right, 0, data.size()), data);
}

TEST_F(Checked, SettersRefuseWhatMakesNoSense) {
  const auto refused = [&](const mlx5dv_sig_block_attr& attr) { return key.post({{0, 2080}}, &attr); };
  mlx5dv_sig_block_attr attr = signature.attr;
  attr.comp_mask = 1;
  EXPECT_EQ(refused(attr), EINVAL);
  attr = signature.attr;
  attr.flags = 2;
  EXPECT_EQ(refused(attr), EINVAL);
  attr = {};
  EXPECT_EQ(refused(attr), EINVAL);
  mlx5dv_sig_t10dif dif = *signature.attr.mem->sig.dif;
  mlx5dv_sig_block_domain domain = *signature.attr.mem;
  domain.sig.dif = &dif;
  attr = {&domain, nullptr, 0, 0xff, 0, 0};
  dif.bg = 1;
  EXPECT_EQ(refused(attr), EINVAL);
  dif.bg = 0;
  domain.block_size = static_cast<mlx5dv_block_size>(5);
  EXPECT_EQ(refused(attr), EINVAL);
  const Signature unlike(fields, {Kind::kCrc32});
  attr = unlike.attr;
  attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
  EXPECT_EQ(refused(attr), EINVAL);
  ProtectedKey plain(pair.left, 0);
  EXPECT_EQ(plain.post({{0, 2080}}, &signature.attr), EINVAL) << "made without";
  mlx5dv_mkey_err error{};
  EXPECT_EQ(mlx5dv_mkey_check(plain.key, &error), EINVAL);
  configure();
}

/// The data and, fenced behind it, the good news.
struct Pipelined : testing::Test {
  void configure(uint8_t check_mask) {
    Signature signature({Kind::kCrc32}, {});
    signature.attr.check_mask = check_mask;
    ASSERT_EQ(key.give({{0, 516}}, &signature.attr), IBV_WC_SUCCESS);
  }
  ibv_send_wr news() {
    ibv_send_wr wr = through(pair.left.piece(1024, 16), IBV_WR_SEND);
    wr.wr_id = 1;
    wr.send_flags |= IBV_SEND_FENCE;
    return wr;
  }
  void run() {
    ASSERT_EQ(pair.right.receive(0, 16), 0);
    ibv_send_wr data =
        through(key.sge(0, 512), IBV_WR_RDMA_WRITE, pair.left.peer.address, pair.left.peer.rkey);
    data.send_flags = 0;
    ASSERT_EQ(post(pair.left, data), 0);
    ASSERT_EQ(post(pair.left, news()), 0);
  }
  Pair pair{signature_traits(MLX5DV_QP_CREATE_SIG_PIPELINING)};
  ProtectedKey key{pair.left};
};

TEST_F(Pipelined, GoodDataIsFollowedByItsNews) {
  configure(0);
  run();
  EXPECT_EQ(pair.left.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.left.state(), IBV_QPS_RTS);
}

TEST_F(Pipelined, AWrongSignatureStopsTheQueueBeforeThem) {
  configure(MLX5DV_SIG_MASK_CRC32);
  run();
  EXPECT_EQ(pair.left.next_event(), IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(pair.left.state(), IBV_QPS_SQD);
  EXPECT_TRUE(pair.left.quiet());
  EXPECT_TRUE(pair.right.quiet());
  EXPECT_EQ(key.error(), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
  mlx5dv_qp_ex* direct = direct_builder(pair.left);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct, 5), 0);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct, 1), 1);
  ibv_send_wr again = news();
  again.wr_id = 2;
  ASSERT_EQ(post(pair.left, again), 0);
  EXPECT_EQ(pair.left.move(IBV_QPS_RTS), 0);
  ibv_wc wc = pair.left.wait();
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(pair.left.wait().wr_id, 2u);
  EXPECT_EQ(pair.right.wait_status(), IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.right.quiet()) << "the cancelled one was not sent";
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(direct, 1), -EINVAL) << "not in SQD";
}

}  // namespace
}  // namespace verbatim::conformance
