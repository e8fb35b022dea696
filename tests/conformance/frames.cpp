// SPDX-License-Identifier: MIT
#include "tests/conformance/frames.h"

#include <infiniband/mlx5dv.h>

namespace verbatim::conformance {

namespace {

void append16(std::vector<uint8_t>& bytes, size_t value) {
  bytes.push_back(static_cast<uint8_t>(value >> 8));
  bytes.push_back(static_cast<uint8_t>(value));
}

void append_ip(std::vector<uint8_t>& bytes, const FrameTraits& traits, size_t behind) {
  const auto protocol = static_cast<uint8_t>(traits.transport);
  if (traits.network == 4) {
    bytes.insert(bytes.end(), {0x45, 0});
    append16(bytes, 20 + behind);
    bytes.insert(bytes.end(), {0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1});
  } else {
    bytes.insert(bytes.end(), {0x60, 0, 0, 0});
    append16(bytes, behind);
    bytes.insert(bytes.end(), {protocol, 64});
    bytes.resize(bytes.size() + 16 + 12, 0xfd);
  }
  append16(bytes, traits.ip >> 16);
  append16(bytes, traits.ip & 0xffff);
}

}  // namespace

std::vector<uint8_t> frame_of(const FrameTraits& traits) {
  std::vector<uint8_t> bytes(traits.to.begin(), traits.to.end());
  bytes.insert(bytes.end(), traits.from.begin(), traits.from.end());
  if (traits.vlan >= 0) {
    append16(bytes, 0x8100);
    append16(bytes, static_cast<size_t>(traits.vlan));
  }
  append16(bytes, traits.network == 4 ? 0x0800 : traits.network == 6 ? 0x86dd : 0x88b5);
  const bool tcp = traits.transport == 6;
  const size_t head = tcp ? 20 : 8;
  if (traits.network != 0) {
    append_ip(bytes, traits, head + traits.payload);
    append16(bytes, 12345);
    append16(bytes, static_cast<size_t>(traits.port));
    const size_t rest = bytes.size();
    bytes.resize(rest + head - 4, 0);
    if (!tcp) bytes[rest + 1] = static_cast<uint8_t>(head + traits.payload);
    if (tcp) bytes[rest + 8] = 0x50;
  }
  for (size_t i = 0; i < traits.payload; i++) bytes.push_back(static_cast<uint8_t>(traits.seed + i));
  return bytes;
}

void append(std::vector<uint8_t>& bytes, const std::vector<uint8_t>& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

std::vector<uint8_t> carrying(const Mac& to, int protocol, const std::vector<uint8_t>& payload, int port) {
  const bool udp = protocol == 17;
  std::vector<uint8_t> frame = frame_of({.to = to, .port = port, .payload = payload.size()});
  frame.resize(14 + 20 + (udp ? 8 : 0));
  frame[14 + 9] = static_cast<uint8_t>(protocol);
  append(frame, payload);
  const size_t total = frame.size() - 14;
  frame[16] = static_cast<uint8_t>(total >> 8);
  frame[17] = static_cast<uint8_t>(total);
  return frame;
}

void put(Endpoint& self, size_t offset, const std::vector<uint8_t>& frame) {
  std::memcpy(self.buffer.data() + offset, frame.data(), frame.size());
}

bool lies_at(const Endpoint& self, size_t offset, const std::vector<uint8_t>& frame) {
  return std::memcmp(self.buffer.data() + offset, frame.data(), frame.size()) == 0;
}

void send(Endpoint& self, const std::vector<uint8_t>& frame, unsigned int flags) {
  put(self, 0, frame);
  ibv_send_wr wr = self.request(IBV_WR_SEND, frame.size());
  wr.send_flags |= flags;
  EXPECT_EQ(self.post(wr), 0);
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(wc.wr_id, 100u);
}

const uint8_t* completion_at(ibv_cq* cq, uint32_t index) {
  mlx5dv_cq raw{};
  mlx5dv_obj objects{};
  objects.cq = {cq, &raw};
  EXPECT_EQ(mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ), 0);
  EXPECT_EQ(raw.cqe_size, 64u);
  return static_cast<const uint8_t*>(raw.buf) + (index & (raw.cqe_cnt - 1)) * size_t{raw.cqe_size};
}

ibv_qp* spreading_qp(Endpoint& self, ibv_rwq_ind_table* table, uint64_t fields, uint32_t special) {
  std::array<uint8_t, kKey.size()> key = kKey;
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_RAW_PACKET;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  init.pd = self.pd;
  init.rwq_ind_tbl = table;
  init.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, static_cast<uint8_t>(key.size()), key.data(), fields};
  mlx5dv_qp_init_attr options{};
  options.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  options.create_flags = special;
  return mlx5dv_create_qp(self.context, &init, &options);
}

int remake(Endpoint& self, const FrameOptions& options) {
  EXPECT_EQ(ibv_destroy_qp(self.qp), 0);
  self.qp = nullptr;
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = self.cq;
  wanted.qp_type = IBV_QPT_RAW_PACKET;
  wanted.cap = {64, 64, 4, 4, 64};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  wanted.create_flags = options.create_flags;
  wanted.max_tso_header = options.max_header;
  wanted.pd = self.pd;
  if (options.operations != 0) wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = options.operations;
  mlx5dv_qp_init_attr special{};
  special.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  special.create_flags = options.special;
  self.qp = mlx5dv_create_qp(self.context, &wanted, &special);
  return self.qp == nullptr ? errno : self.connect({});
}

Rule::Rule(ibv_flow_attr_type type) : bytes_(sizeof(ibv_flow_attr)) {
  head().type = type;
  head().port = 1;
  head().size = sizeof(ibv_flow_attr);
}

Rule::~Rule() { end(); }

void Rule::end() {
  if (flow_ == nullptr) return;
  EXPECT_EQ(ibv_destroy_flow(flow_), 0);
  flow_ = nullptr;
}

Rule& Rule::append(const void* spec, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(spec);
  bytes_.insert(bytes_.end(), from, from + bytes);
  head().size = static_cast<uint16_t>(bytes_.size());
  head().num_of_specs++;
  return *this;
}

Rule& Rule::priority(uint16_t value) {
  head().priority = value;
  return *this;
}

Rule& Rule::flags(uint32_t value) {
  head().flags = value;
  return *this;
}

Rule& Rule::port(uint8_t value) {
  head().port = value;
  return *this;
}

Rule& Rule::to(const Mac& mac) {
  ibv_flow_spec_eth spec{};
  spec.type = IBV_FLOW_SPEC_ETH;
  std::memcpy(spec.val.dst_mac, mac.data(), mac.size());
  std::memset(spec.mask.dst_mac, 0xff, mac.size());
  return add(spec);
}

Rule& Rule::vlan(int tci) {
  ibv_flow_spec_eth spec{};
  spec.type = IBV_FLOW_SPEC_ETH;
  spec.val.vlan_tag = big16(tci);
  spec.mask.vlan_tag = big16(0xfff);
  return add(spec);
}

Rule& Rule::ipv4(uint32_t destination, uint8_t protocol) {
  ibv_flow_spec_ipv4_ext spec{};
  spec.type = IBV_FLOW_SPEC_IPV4_EXT;
  spec.val.dst_ip = big32(destination);
  spec.mask.dst_ip = 0xffffffff;
  spec.val.proto = protocol;
  spec.mask.proto = protocol != 0 ? 0xff : 0;
  return add(spec);
}

Rule& Rule::ports(ibv_flow_spec_type type, int destination) {
  ibv_flow_spec_tcp_udp spec{};
  spec.type = type;
  spec.val.dst_port = big16(destination);
  spec.mask.dst_port = 0xffff;
  return add(spec);
}

Rule& Rule::tag(uint32_t value) {
  ibv_flow_spec_action_tag spec{};
  spec.type = IBV_FLOW_SPEC_ACTION_TAG;
  spec.tag_id = value;
  return add(spec);
}

int Rule::put_in_force(ibv_qp* qp) {
  flow_ = ibv_create_flow(qp, &head());
  return flow_ != nullptr ? 0 : errno;
}

}  // namespace verbatim::conformance
