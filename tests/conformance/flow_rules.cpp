// SPDX-License-Identifier: MIT
// Rules that count, that look into tunnels, and that are for frames that leave.
#include <infiniband/mlx5dv.h>

#include <memory>

#include "tests/conformance/frames.h"

namespace verbatim::conformance {
namespace {

constexpr Mac kTo{2, 6, 6, 6, 6, 6}, kOther{2, 6, 6, 6, 6, 7};
constexpr size_t kPlace = 16384, kRoom = 2048;

ibv_counters* make_counters(ibv_context* context) {
  ibv_counters_init_attr none{};
  return ibv_create_counters(context, &none);
}

int attach(ibv_counters* counters, ibv_counter_description what, uint32_t index) {
  ibv_counter_attach_attr point{what, index, 0};
  return ibv_attach_counters_point_flow(counters, &point, nullptr);
}

ibv_flow_spec_counter_action counting(ibv_counters* counters) {
  ibv_flow_spec_counter_action spec{};
  spec.type = IBV_FLOW_SPEC_ACTION_COUNT;
  spec.counters = counters;
  return spec;
}

ibv_flow_spec_action_drop dropping() {
  ibv_flow_spec_action_drop spec{};
  spec.type = IBV_FLOW_SPEC_ACTION_DROP;
  return spec;
}

using Values = std::array<uint64_t, 2>;

Values read(ibv_counters* counters) {
  Values values{77, 77};
  EXPECT_EQ(ibv_read_counters(counters, values.data(), 2, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
  return values;
}

class FlowRules : public testing::Test {
 protected:
  FlowRules() {
    for (Endpoint* each : {&one_, &two_, &sender_}) EXPECT_EQ(each->connect({}), 0);
    for (Endpoint* each : {&one_, &two_})
      for (uint64_t i = 0; i < 16; i++) EXPECT_EQ(each->receive(kPlace + i * kRoom, kRoom, i), 0);
  }
  /// Which of the two queue pairs a frame comes to: bits 1 and 2.
  int who(const std::vector<uint8_t>& frame) {
    send(sender_, frame);
    int found = 0;
    for (Endpoint* each : {&one_, &two_}) {
      ibv_wc wc{};
      if (ibv_poll_cq(each->cq, 1, &wc) == 1) found |= each == &one_ ? 1 : 2;
    }
    return found;
  }
  Endpoint one_{kFrames}, two_{kFrames}, sender_{kFrames};
};

TEST_F(FlowRules, CountPacketsAndBytes) {
  ibv_counters* counters = make_counters(one_.context);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(attach(counters, IBV_COUNTER_BYTES, 0), 0);
  EXPECT_EQ(attach(counters, IBV_COUNTER_PACKETS, 1), 0);
  EXPECT_EQ(read(counters), (Values{0, 0}));
  const std::vector<uint8_t> small = frame_of({.to = kTo}), large = frame_of({.to = kOther, .payload = 500});
  {
    Rule rule, drops;
    ASSERT_EQ(rule.to(kTo).add(counting(counters)).put_in_force(one_), 0);
    EXPECT_EQ(attach(counters, IBV_COUNTER_BYTES, 0), EBUSY);
    EXPECT_EQ(ibv_destroy_counters(counters), EBUSY);
    EXPECT_EQ(who(small), 1);
    EXPECT_EQ(who(large), 0) << "another address";
    EXPECT_EQ(read(counters), (Values{small.size(), 1}));
    ASSERT_EQ(drops.to(kOther).add(dropping()).add(counting(counters)).put_in_force(one_), 0);
    EXPECT_EQ(who(large), 0);
    EXPECT_EQ(who(small), 1);
    EXPECT_EQ(read(counters), (Values{2 * small.size() + large.size(), 3})) << "of both rules";
  }
  EXPECT_EQ(read(counters)[1], 3u) << "they stay when the rules have gone";
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

TEST_F(FlowRules, AddUpWhereSeveralPointsHaveOnePlace) {
  ibv_counters* counters = make_counters(one_.context);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(attach(counters, IBV_COUNTER_PACKETS, 1), 0);
  EXPECT_EQ(attach(counters, IBV_COUNTER_PACKETS, 1), 0);
  {
    Rule rule;
    ASSERT_EQ(rule.to(kTo).add(counting(counters)).put_in_force(one_), 0);
    EXPECT_EQ(who(frame_of({.to = kTo})), 1);
  }
  EXPECT_EQ(read(counters), (Values{0, 2}));
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

TEST_F(FlowRules, RefuseCountersWithoutSense) {
  ibv_counters_init_attr unknown{};
  unknown.comp_mask = 1;
  EXPECT_EQ(ibv_create_counters(one_.context, &unknown), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_counters* counters = make_counters(one_.context);
  ASSERT_NE(counters, nullptr);
  Rule empty, live, twice;
  EXPECT_EQ(empty.to(kTo).add(counting(counters)).put_in_force(one_), EINVAL) << "nothing is attached";
  EXPECT_EQ(attach(counters, static_cast<ibv_counter_description>(2), 0), ENOTSUP);
  ibv_counter_attach_attr point{IBV_COUNTER_PACKETS, 3, 1};
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &point, nullptr), EOPNOTSUPP);
  ibv_flow_attr everything{};
  everything.type = IBV_FLOW_ATTR_ALL_DEFAULT;
  everything.port = 1;
  everything.size = sizeof everything;
  ibv_flow* flow = ibv_create_flow(one_.qp, &everything);
  ASSERT_NE(flow, nullptr);
  point.comp_mask = 0;
  EXPECT_EQ(ibv_attach_counters_point_flow(counters, &point, flow), ENOTSUP) << "only when a rule is made";
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(attach(counters, IBV_COUNTER_PACKETS, 3), 0);
  Values values{};
  EXPECT_EQ(ibv_read_counters(counters, values.data(), 2, 0), EINVAL) << "the point is beyond";
  EXPECT_EQ(ibv_read_counters(counters, values.data(), 2, 2), EINVAL);
  EXPECT_EQ(twice.to(kTo).add(counting(counters)).add(counting(counters)).put_in_force(one_), EINVAL);
  EXPECT_EQ(live.to(kTo).add(counting(nullptr)).put_in_force(one_), EINVAL);
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

std::vector<uint8_t> packet_of(uint32_t ip, int port) {
  std::vector<uint8_t> frame = frame_of({.to = kOther, .ip = ip, .port = port});
  frame.erase(frame.begin(), frame.begin() + 14);
  return frame;
}

std::vector<uint8_t> vxlan(uint8_t identifier, const std::vector<uint8_t>& inner) {
  std::vector<uint8_t> payload{8, 0, 0, 0, 0, 0, identifier, 0};
  append(payload, inner);
  return carrying(kTo, 17, payload, 4789);
}

template <class Spec>
Spec spec_of(uint32_t type) {
  Spec spec{};
  spec.type = static_cast<ibv_flow_spec_type>(type);
  return spec;
}

ibv_flow_spec_tcp_udp inner_port(int port) {
  auto spec = spec_of<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER);
  spec.val.dst_port = big16(port);
  spec.mask.dst_port = 0xffff;
  return spec;
}

TEST_F(FlowRules, LookIntoVxlan) {
  auto tunnel = spec_of<ibv_flow_spec_tunnel>(IBV_FLOW_SPEC_VXLAN_TUNNEL);
  tunnel.val.tunnel_id = big32(7);
  tunnel.mask.tunnel_id = 0xffffffff;
  auto inside = spec_of<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER);
  std::memcpy(inside.val.dst_mac, kOther.data(), 6);
  std::memset(inside.mask.dst_mac, 0xff, 6);
  Rule by_number, by_content;
  ASSERT_EQ(by_number.add(tunnel).priority(1).put_in_force(one_), 0);
  ASSERT_EQ(by_content.add(inside).add(inner_port(99)).put_in_force(two_), 0);
  EXPECT_EQ(who(vxlan(7, frame_of({.to = kOther, .port = 98}))), 1);
  EXPECT_EQ(who(vxlan(8, frame_of({.to = kOther, .port = 99}))), 2);
  EXPECT_EQ(who(vxlan(8, frame_of({.to = kTo, .port = 99}))), 0);
  EXPECT_EQ(who(frame_of({.to = kOther, .port = 99})), 0) << "no tunnel";
  Rule wide;
  tunnel.val.tunnel_id = big32(0x1000000);
  EXPECT_EQ(wide.add(tunnel).put_in_force(one_), EINVAL);
}

TEST_F(FlowRules, LookIntoGre) {
  auto gre = spec_of<ibv_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
  gre.val.key = big32(0x01020304);
  gre.mask.key = 0xffffffff;
  auto inside = spec_of<ibv_flow_spec_ipv4>(IBV_FLOW_SPEC_IPV4 | IBV_FLOW_SPEC_INNER);
  inside.val.dst_ip = big32(0x0b0b0b0b);
  inside.mask.dst_ip = 0xffffffff;
  Rule keyed, content;
  ASSERT_EQ(keyed.add(gre).priority(1).put_in_force(one_), 0);
  ASSERT_EQ(content.add(inside).put_in_force(two_), 0);
  std::vector<uint8_t> with_key{0x20, 0, 8, 0, 1, 2, 3, 4}, plain{0, 0, 8, 0};
  append(with_key, packet_of(0x0a0a0a0a, 1));
  append(plain, packet_of(0x0b0b0b0b, 1));
  EXPECT_EQ(who(carrying(kTo, 47, with_key)), 1);
  EXPECT_EQ(who(carrying(kTo, 47, plain)), 2);
  EXPECT_EQ(who(carrying(kTo, 4, packet_of(0x0b0b0b0b, 1))), 2) << "IP in IP";
  EXPECT_EQ(who(carrying(kTo, 4, packet_of(0x0a0a0a0a, 1))), 0);
  Rule flags;
  gre.mask.c_ks_res0_ver = 1;
  EXPECT_EQ(flags.add(gre).put_in_force(one_), EOPNOTSUPP);
}

TEST_F(FlowRules, FindLabelsWhereTheyAreSaidToLie) {
  auto label = spec_of<ibv_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS);
  label.val.label = big32(5 << 12);
  label.mask.label = big32(0xfffff000);
  Rule on_ethernet, in_udp;
  ASSERT_EQ(on_ethernet.to(kTo).add(label).put_in_force(one_), 0);
  ASSERT_EQ(in_udp.ports(IBV_FLOW_SPEC_UDP, 6635).add(label).add(inner_port(99)).put_in_force(two_), 0);
  std::vector<uint8_t> stack{0, 0, 0x51, 64};
  append(stack, packet_of(1, 99));
  std::vector<uint8_t> frame = frame_of({.to = kTo});
  frame.resize(12);
  append(frame, {0x88, 0x47});
  append(frame, stack);
  EXPECT_EQ(who(frame), 1);
  EXPECT_EQ(who(carrying(kTo, 17, stack, 6635)), 2);
  frame[16] = 0x61;
  EXPECT_EQ(who(frame), 0) << "another label";
}

TEST_F(FlowRules, TellPacketsOfIpsecApart) {
  auto esp = spec_of<ibv_flow_spec_esp>(IBV_FLOW_SPEC_ESP);
  esp.val.spi = big32(0x1234);
  esp.mask.spi = 0xffffffff;
  Rule rule, sequence;
  ASSERT_EQ(rule.add(esp).put_in_force(one_), 0);
  EXPECT_EQ(who(carrying(kTo, 50, {0, 0, 0x12, 0x34, 0, 0, 0, 1, 9, 9})), 1);
  EXPECT_EQ(who(carrying(kTo, 50, {0, 0, 0x12, 0x35, 0, 0, 0, 1, 9, 9})), 0);
  EXPECT_EQ(who(carrying(kTo, 51, {0, 0, 0x12, 0x34, 0, 0, 0, 1, 9, 9})), 0);
  esp.mask.seq = 1;
  EXPECT_EQ(sequence.add(esp).put_in_force(one_), EOPNOTSUPP);
}

TEST_F(FlowRules, ForFramesThatLeaveDropAndCountThem) {
  ibv_counters* counters = make_counters(sender_.context);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(attach(counters, IBV_COUNTER_PACKETS, 0), 0);
  Rule in;
  ASSERT_EQ(in.to(kTo).put_in_force(one_), 0);
  {
    Rule counts, stops;
    ASSERT_EQ(counts.to(kTo)
                  .flags(IBV_FLOW_ATTR_FLAGS_EGRESS)
                  .priority(1)
                  .add(counting(counters))
                  .put_in_force(sender_),
              0);
    EXPECT_EQ(who(frame_of({.to = kTo})), 1);
    ASSERT_EQ(stops.ipv4(0x0a000009).flags(IBV_FLOW_ATTR_FLAGS_EGRESS).add(dropping()).put_in_force(sender_),
              0);
    EXPECT_EQ(who(frame_of({.to = kTo, .ip = 0x0a000009})), 0);
    EXPECT_EQ(who(frame_of({.to = kTo})), 1);
    EXPECT_EQ(read(counters)[0], 2u);
  }
  EXPECT_EQ(who(frame_of({.to = kTo, .ip = 0x0a000009})), 1);
  Rule rest(IBV_FLOW_ATTR_ALL_DEFAULT);
  EXPECT_EQ(rest.flags(IBV_FLOW_ATTR_FLAGS_EGRESS).put_in_force(sender_), EINVAL);
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

/// Parameters of an ESP action.
struct Esp {
  ibv_flow_action_esp esp{};
  ibv_flow_action_esp_keymat_aes_gcm material{};
  ibv_flow_action_esp_attr attributes{};

  explicit Esp(uint32_t flags, uint32_t first_word_of_key = 1) {
    esp.flags = flags;
    material.key_len = material.icv_len = 16;
    material.salt = 0x01020304;
    material.aes_key[0] = first_word_of_key;
    attributes.esp_attr = &esp;
    attributes.keymat_proto = IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM;
    attributes.keymat_len = sizeof material;
    attributes.keymat_ptr = &material;
  }
  void extended(uint32_t high) {
    attributes.comp_mask = IBV_FLOW_ACTION_ESP_MASK_ESN;
    attributes.esn = high;
  }
  ibv_flow_action* make(ibv_context* context) { return ibv_create_flow_action_esp(context, &attributes); }
};

constexpr uint32_t kIndex = 0x1234;

ibv_flow_spec_esp esp_packets() {
  auto spec = spec_of<ibv_flow_spec_esp>(IBV_FLOW_SPEC_ESP);
  spec.val.spi = big32(kIndex);
  spec.mask.spi = 0xffffffff;
  return spec;
}

ibv_flow_spec_action_handle by(const ibv_flow_action* action) {
  auto spec = spec_of<ibv_flow_spec_action_handle>(IBV_FLOW_SPEC_ACTION_HANDLE);
  spec.action = action;
  return spec;
}

constexpr size_t kEspAt = 14 + 20, kTextAt = kEspAt + 16, kText = 29;

/// With an empty place for the vector and a text behind it.
std::vector<uint8_t> esp_frame(uint8_t sequence) {
  std::vector<uint8_t> payload{0, 0, kIndex >> 8, kIndex & 0xff, 0, 0, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < kText; i++) payload.push_back(static_cast<uint8_t>(0x45 + i));
  return carrying(kTo, 50, payload);
}

/// Encrypts what is sent and decrypts what arrives at the first queue pair; the second gets it as it is.
class Encrypted : public FlowRules {
 protected:
  void begin(Esp sending, Esp receiving) {
    seals = sending.make(sender_.context);
    opens = receiving.make(one_.context);
    ASSERT_TRUE(seals != nullptr && opens != nullptr);
    ASSERT_EQ(out->add(esp_packets()).add(by(seals)).flags(IBV_FLOW_ATTR_FLAGS_EGRESS).put_in_force(sender_),
              0);
    ASSERT_EQ(clear.add(esp_packets()).add(by(opens)).put_in_force(one_), 0);
    ASSERT_EQ(raw.add(esp_packets()).put_in_force(two_), 0);
  }
  void TearDown() override {
    if (seals == nullptr) return;
    EXPECT_EQ(ibv_destroy_flow_action(opens), EBUSY);
    for (Rule* rule : {&clear, &raw}) rule->end();
    out.reset();
    EXPECT_EQ(ibv_destroy_flow_action(seals), 0);
    EXPECT_EQ(ibv_destroy_flow_action(opens), 0);
  }
  std::unique_ptr<Rule> out = std::make_unique<Rule>();
  Rule clear, raw;
  ibv_flow_action *seals = nullptr, *opens = nullptr;
};

TEST_F(Encrypted, PacketsAreOpenedByTheSameKey) {
  begin(Esp(IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT), Esp(0));
  const std::vector<uint8_t> sent = esp_frame(7);
  send(sender_, sent);
  ibv_wc wc = two_.wait();
  ASSERT_EQ(wc.byte_len, kTextAt + 32 + 16) << "with a trailer of two bytes and one of padding, and a tag";
  std::vector<uint8_t> sealed(&two_.buffer[kPlace], &two_.buffer[kPlace + wc.byte_len]);
  EXPECT_NE(std::memcmp(&sealed[kTextAt], &sent[kTextAt], kText), 0);
  EXPECT_EQ(sealed[kEspAt + 15], 7) << "the vector follows the sequence number";
  EXPECT_EQ(sealed[16] << 8 | sealed[17], static_cast<int>(wc.byte_len - 14));
  wc = one_.wait();
  ASSERT_EQ(wc.byte_len, sent.size());
  EXPECT_EQ(std::memcmp(&one_.buffer[kPlace + kTextAt], &sent[kTextAt], kText), 0);
  // The same once more, and damaged.
  out.reset();
  EXPECT_EQ(who(sealed), 3);
  sealed[kTextAt] ^= 1;
  EXPECT_EQ(who(sealed), 2) << "what does not verify is dropped";
  sealed.resize(kEspAt + 20);
  EXPECT_EQ(who(sealed), 2) << "it is too short";
}

TEST_F(Encrypted, PacketsStayClosedToOtherKeys) {
  begin(Esp(IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT), Esp(0, 2));
  EXPECT_EQ(who(esp_frame(1)), 2);
}

TEST_F(Encrypted, PacketsMayHaveExtendedNumbers) {
  Esp sending(IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT), receiving(0);
  sending.extended(5);
  receiving.extended(5);
  begin(sending, receiving);
  EXPECT_EQ(who(esp_frame(1)), 3);
  EXPECT_EQ(ibv_modify_flow_action_esp(opens, &receiving.attributes), EOPNOTSUPP) << "with a key";
  receiving.attributes.keymat_ptr = nullptr;
  receiving.attributes.esn = 6;
  EXPECT_EQ(ibv_modify_flow_action_esp(opens, &receiving.attributes), 0);
  EXPECT_EQ(who(esp_frame(2)), 2);
  receiving.attributes.esn = 4;
  receiving.esp.flags = IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;
  receiving.attributes.esp_attr = &receiving.esp;
  EXPECT_EQ(ibv_modify_flow_action_esp(opens, &receiving.attributes), 0);
  EXPECT_EQ(who(esp_frame(3)), 3) << "low numbers are of the next window";
}

TEST_F(FlowRules, RefuseActionsWithoutSense) {
  const auto refused = [this](auto change) {
    Esp wanted(0);
    change(wanted);
    errno = 0;
    return wanted.make(one_.context) == nullptr ? errno : 0;
  };
  EXPECT_EQ(refused([](Esp& e) { e.material.key_len = 15; }), EINVAL);
  EXPECT_EQ(refused([](Esp& e) { e.material.key_len = 24; }), EOPNOTSUPP);
  EXPECT_EQ(refused([](Esp& e) { e.material.icv_len = 8; }), EOPNOTSUPP);
  EXPECT_EQ(refused([](Esp& e) { e.attributes.keymat_ptr = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](Esp& e) { e.attributes.esp_attr = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](Esp& e) { e.esp.flags = IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD; }), EOPNOTSUPP);
  EXPECT_EQ(refused([](Esp& e) { e.attributes.replay_proto = IBV_FLOW_ACTION_ESP_REPLAY_BMP; }), EOPNOTSUPP);
  EXPECT_EQ(refused([](Esp& e) { e.attributes.comp_mask = 2; }), EOPNOTSUPP);
  ibv_flow_action* seals = Esp(IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT).make(one_.context);
  ASSERT_NE(seals, nullptr);
  Esp plain(0);
  plain.extended(1);
  plain.attributes.keymat_ptr = nullptr;
  EXPECT_EQ(ibv_modify_flow_action_esp(seals, &plain.attributes), EINVAL) << "it was made without them";
  Rule without, incoming, nothing;
  EXPECT_EQ(without.to(kTo).add(by(seals)).flags(IBV_FLOW_ATTR_FLAGS_EGRESS).put_in_force(one_), EINVAL);
  EXPECT_EQ(incoming.add(esp_packets()).add(by(seals)).put_in_force(one_), EINVAL) << "it encrypts";
  EXPECT_EQ(nothing.add(esp_packets()).add(by(nullptr)).put_in_force(one_), EINVAL);
  EXPECT_EQ(ibv_destroy_flow_action(seals), 0);
}

TEST_F(FlowRules, TakeActionsOfDirectVerbs) {
  mlx5dv_context device{};
  device.comp_mask = MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS;
  ASSERT_EQ(mlx5dv_query_device(one_.context, &device), 0);
  EXPECT_NE(device.flow_action_flags & MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM, 0u);
  EXPECT_EQ(device.flow_action_flags & MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA, 0u);
  Esp wanted(0);
  mlx5dv_flow_action_esp special{};
  special.comp_mask = MLX5DV_FLOW_ACTION_ESP_MASK_FLAGS;
  ibv_flow_action* action = mlx5dv_create_flow_action_esp(one_.context, &wanted.attributes, &special);
  ASSERT_NE(action, nullptr);
  EXPECT_EQ(ibv_destroy_flow_action(action), 0);
  special.action_flags = MLX5DV_FLOW_ACTION_FLAGS_REQUIRE_METADATA;
  EXPECT_EQ(mlx5dv_create_flow_action_esp(one_.context, &wanted.attributes, &special), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(FlowRules, HaveSixteenPriorities) {
  Rule last, beyond, many;
  EXPECT_EQ(last.to(kTo).priority(15).put_in_force(one_), 0);
  EXPECT_EQ(beyond.to(kTo).priority(16).put_in_force(one_), ENOMEM);
  for (int i = 0; i < 11; i++) many.tag(1);
  EXPECT_EQ(many.put_in_force(one_), EINVAL);
}

}  // namespace
}  // namespace verbatim::conformance
