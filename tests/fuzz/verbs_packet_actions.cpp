// SPDX-License-Identifier: MIT
// Addresses, multicast groups, rules for packets, their actions and counters.
#include <cstring>
#include <memory>

#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

void create_ah(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.ahs.full()) return;
  ibv_ah_attr attr = p.some_address();
  p.ahs.add(p.made("ibv_create_ah", ibv_create_ah(pd, &attr)));
}
void destroy_ah(Player& p) { p.ahs.destroy_any(p); }

/// A way back to a sender that there may never have been.
void address_from_wc(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.ahs.full()) return;
  ibv_wc wc{};
  ibv_grh grh{};
  wc.wc_flags = p.arguments.bits(IBV_WC_GRH);
  wc.slid = p.arguments.number<uint16_t>(p.common.lid);
  wc.sl = p.arguments.number<uint8_t>(0);
  p.arguments.random.fill(&grh, p.one_in(4) ? sizeof grh : 8);
  grh.sgid = p.some_gid();
  grh.dgid = p.some_gid();
  const auto port = p.arguments.number<uint8_t>(1);
  ibv_ah_attr attr{};
  p.took_or_minus("ibv_init_ah_from_wc", ibv_init_ah_from_wc(p.common.context, port, &wc, &grh, &attr));
  errno = 0;
  p.ahs.add(p.made("ibv_create_ah_from_wc", ibv_create_ah_from_wc(pd, &wc, &grh, port)));
}

void resolve(Player& p) {
  ibv_ah_attr attr = p.some_address();
  uint8_t mac[ETHERNET_LL_SIZE];
  uint16_t vlan = 0;
  p.took("ibv_resolve_eth_l2_from_gid", ibv_resolve_eth_l2_from_gid(p.common.context, &attr, mac, &vlan));
}

void attach(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr || p.attachments.size() > 8) return;
  ibv_gid gid{};
  gid.raw[0] = 0xff;
  gid.raw[1] = p.arguments.number<uint8_t>(0x0e);
  gid.raw[15] = static_cast<uint8_t>(p.below(4));
  if (p.arguments.odd()) gid = p.some_gid();
  const auto lid = p.arguments.number<uint16_t>(p.common.lid == 0 ? 0 : 0xc001);
  const bool done = p.took("ibv_attach_mcast", ibv_attach_mcast(qp, &gid, lid));
  const bool again = std::ranges::any_of(p.attachments, [&](const Player::Attachment& each) {
    return each.qp == qp && std::memcmp(&each.gid, &gid, sizeof gid) == 0;
  });
  if (done && !again) p.attachments.push_back({qp, gid, lid});
}

void detach(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr) return;
  Player::Attachment chosen{qp, p.some_gid(), 0};
  const bool known = !p.attachments.empty() && !p.arguments.odd();
  const size_t place = known ? p.below(static_cast<uint32_t>(p.attachments.size())) : 0;
  if (known) chosen = p.attachments[place];
  const bool done = p.took("ibv_detach_mcast", ibv_detach_mcast(chosen.qp, &chosen.gid, chosen.lid));
  p.expect(done == known, known ? "an attachment cannot be undone" : "what was never attached is detached");
  if (known) p.attachments.erase(p.attachments.begin() + static_cast<std::ptrdiff_t>(place));
}

/// A specification and its size.
struct Kind {
  uint32_t type;
  uint16_t size;
};
constexpr Kind kSpecifications[] = {
    {IBV_FLOW_SPEC_ETH, sizeof(ibv_flow_spec_eth)},
    {IBV_FLOW_SPEC_IPV4, sizeof(ibv_flow_spec_ipv4)},
    {IBV_FLOW_SPEC_IPV6, sizeof(ibv_flow_spec_ipv6)},
    {IBV_FLOW_SPEC_IPV4_EXT, sizeof(ibv_flow_spec_ipv4_ext)},
    {IBV_FLOW_SPEC_ESP, sizeof(ibv_flow_spec_esp)},
    {IBV_FLOW_SPEC_TCP, sizeof(ibv_flow_spec_tcp_udp)},
    {IBV_FLOW_SPEC_UDP, sizeof(ibv_flow_spec_tcp_udp)},
    {IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(ibv_flow_spec_tunnel)},
    {IBV_FLOW_SPEC_GRE, sizeof(ibv_flow_spec_gre)},
    {IBV_FLOW_SPEC_MPLS, sizeof(ibv_flow_spec_mpls)},
    {IBV_FLOW_SPEC_ACTION_TAG, sizeof(ibv_flow_spec_action_tag)},
    {IBV_FLOW_SPEC_ACTION_DROP, sizeof(ibv_flow_spec_action_drop)},
};

/// The specification at `at`, of which `room` bytes belong to the rule; how many it takes.
size_t write_specification(Player& p, std::byte* at, size_t room) {
  const Kind& kind = kSpecifications[p.below(std::size(kSpecifications))];
  uint32_t type = p.arguments.number<uint32_t>(kind.type);
  auto size = p.arguments.number<uint16_t>(kind.size);
  // Those with pointers need objects; nobody could tell a wrong one.
  if (type == IBV_FLOW_SPEC_ACTION_HANDLE || type == IBV_FLOW_SPEC_ACTION_COUNT) type = kind.type;
  if (room < kind.size) return room;
  p.arguments.random.fill(at, kind.size);
  if (!p.arguments.odd()) std::memset(at + kind.size / 2, p.one_in(2) ? 0xff : 0, kind.size - kind.size / 2);
  std::memcpy(at, &type, sizeof type);
  std::memcpy(at + sizeof type, &size, sizeof size);
  return kind.size;
}

/// With a counter or an action of the player's.
size_t write_object(Player& p, std::byte* at, size_t room) {
  ibv_counters* counters = p.any(p.counters);
  ibv_flow_action* action = p.any(p.flow_actions);
  if (counters != nullptr && room >= sizeof(ibv_flow_spec_counter_action)) {
    const ibv_flow_spec_counter_action count{IBV_FLOW_SPEC_ACTION_COUNT, sizeof count, counters};
    std::memcpy(at, &count, sizeof count);
    return sizeof count;
  }
  if (action != nullptr && room >= sizeof(ibv_flow_spec_action_handle)) {
    const ibv_flow_spec_action_handle handle{IBV_FLOW_SPEC_ACTION_HANDLE, sizeof handle, action};
    std::memcpy(at, &handle, sizeof handle);
    return sizeof handle;
  }
  return 0;
}

/// As many specifications as it says, whatever they are and whatever it says of its size, which nobody looks
/// at.
void create_flow(Player& p) {
  ibv_qp* qp = p.any(p.qps);
  if (qp == nullptr || p.flows.full()) return;
  const uint32_t count = p.below(4);
  const size_t room = count * sizeof(ibv_flow_spec);
  const auto record = std::make_unique<std::byte[]>(sizeof(ibv_flow_attr) + room);
  std::byte* const behind = record.get() + sizeof(ibv_flow_attr);
  size_t used = p.one_in(4) ? write_object(p, behind, room) : 0;
  for (uint32_t i = used != 0; i < count; i++) used += write_specification(p, behind + used, room - used);
  auto& attr = *reinterpret_cast<ibv_flow_attr*>(record.get());
  attr.comp_mask = p.arguments.number<uint32_t>(0);
  attr.type = p.one_in(3) ? p.arguments.one_of<ibv_flow_attr_type>(4) : IBV_FLOW_ATTR_NORMAL;
  attr.size = p.arguments.number<uint16_t>(static_cast<uint16_t>(sizeof attr + used));
  attr.priority = p.arguments.number<uint16_t>(static_cast<uint16_t>(p.below(3)));
  attr.num_of_specs = static_cast<uint8_t>(p.arguments.odd() ? p.below(count + 1) : count);
  attr.port = p.arguments.number<uint8_t>(1);
  attr.flags = p.one_in(2) ? 0 : p.arguments.bits(IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS);
  p.flows.add(p.made("ibv_create_flow", ibv_create_flow(qp, &attr)));
}
void destroy_flow(Player& p) { p.flows.destroy_any(p); }

/// Key material and parameters as the device takes them, but for what is to be nonsense.
void flow_action(Player& p) {
  ibv_flow_action_esp_keymat_aes_gcm key{};
  key.icv_len = p.arguments.number<uint32_t>(16);
  key.key_len = p.arguments.number<uint32_t>(p.one_in(2) ? 16 : 32);
  key.iv_algo = p.arguments.one_of<ibv_flow_action_esp_keymat_aes_gcm_iv_algo>(1);
  key.salt = p.arguments.number<uint32_t>(1);
  p.arguments.random.fill(key.aes_key, sizeof key.aes_key);
  ibv_flow_action_esp_replay_bmp window{p.arguments.number<uint32_t>(32)};
  constexpr uint32_t kFlags = IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT | IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT |
                              IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;
  ibv_flow_action_esp esp{};
  esp.spi = p.arguments.number<uint32_t>(0);
  esp.flags = p.arguments.bits(kFlags);
  ibv_flow_action_esp_attr attr{};
  attr.esp_attr = p.arguments.handle(&esp);
  ibv_flow_action* action = p.any(p.flow_actions);
  const bool changes = action != nullptr && p.one_in(2);
  if (!changes || p.arguments.odd()) {
    attr.keymat_proto = p.arguments.one_of<ibv_flow_action_esp_keymat>(1);
    attr.keymat_len = p.arguments.odd() ? static_cast<uint16_t>(p.below(sizeof key)) : sizeof key;
    attr.keymat_ptr = p.arguments.handle(&key);
  }
  if (p.arguments.odd()) {
    attr.replay_proto = p.arguments.one_of<ibv_flow_action_esp_replay>(2);
    attr.replay_len = p.arguments.odd() ? 0 : sizeof window;
    attr.replay_ptr = p.arguments.handle(&window);
  }
  attr.comp_mask = p.arguments.bits(IBV_FLOW_ACTION_ESP_MASK_ESN);
  attr.esn = p.arguments.number<uint32_t>(0);
  if (changes)
    p.took("ibv_modify_flow_action_esp", ibv_modify_flow_action_esp(action, &attr));
  else if (!p.flow_actions.full())
    p.flow_actions.add(
        p.made("ibv_create_flow_action_esp", ibv_create_flow_action_esp(p.common.context, &attr)));
}
void destroy_flow_action(Player& p) { p.flow_actions.destroy_any(p); }

void create_counters(Player& p) {
  if (p.counters.full()) return;
  ibv_counters_init_attr attr{p.arguments.number<uint32_t>(0)};
  p.counters.add(p.made("ibv_create_counters", ibv_create_counters(p.common.context, &attr)));
}
void destroy_counters(Player& p) { p.counters.destroy_any(p); }

void use_counters(Player& p) {
  ibv_counters* counters = p.any(p.counters);
  if (counters == nullptr) return;
  ibv_counter_attach_attr attr{p.arguments.one_of<ibv_counter_description>(2),
                               p.arguments.number<uint32_t>(p.below(4)), p.arguments.number<uint32_t>(0)};
  p.took("ibv_attach_counters_point_flow",
         ibv_attach_counters_point_flow(counters, &attr, p.one_in(2) ? p.any(p.flows) : nullptr));
  uint64_t values[64];
  p.took("ibv_read_counters", ibv_read_counters(counters, values, p.below(std::size(values) + 1),
                                                p.arguments.bits(IBV_READ_COUNTERS_ATTR_PREFER_CACHED)));
}

constexpr Action kActions[] = {
    {create_ah, 6},       {destroy_ah, 3},
    {address_from_wc, 4}, {resolve, 1},
    {attach, 5},          {detach, 4},
    {create_flow, 12},    {destroy_flow, 4},
    {flow_action, 4},     {destroy_flow_action, 1},
    {create_counters, 2}, {destroy_counters, 1},
    {use_counters, 3},
};

}  // namespace

std::span<const Action> packet_actions() { return kActions; }

}  // namespace verbatim::fuzz
