// SPDX-License-Identifier: MIT
// From the specifications of a rule to the headers that it matches. What a ConnectX does not compare is
// refused as its driver refuses it.
#include "lib/ibverbs/flow_specs.h"

#include <cstring>

namespace verbatim::verbs {
namespace {

using engine::FrameHeaders;
using engine::PacketHeaders;
using hw::FlowRule;

/// The headers that a rule speaks of so far, of the packet and of the one inside; and what it does.
enum Layer : uint32_t {
  kEthernet = 1,
  kNetwork = 2,
  kTransport = 4,
  kTunnel = 8,
  kLabel = 16,
  kTag = 32,
  kDrop = 64,
  kCount = 128,
  kHandle = 256
};
constexpr uint32_t kInnerShift = 16;
constexpr uint32_t kSpecsMax = 10;
constexpr uint16_t kPriorityMax = 15;

template <size_t bytes>
void ask(uint8_t (&value)[bytes], uint8_t (&mask)[bytes], const void* wanted, const void* wanted_mask) {
  std::memcpy(value, wanted, bytes);
  std::memcpy(mask, wanted_mask, bytes);
}
void ask(uint8_t& value, uint8_t& mask, uint8_t wanted, uint8_t wanted_mask = 0xff) {
  value = wanted;
  mask = wanted_mask;
}

/// Where a specification's fields go.
struct Fields {
  PacketHeaders &value, &mask;
};

/// The rule under construction.
class Reader {
 public:
  Reader(const Context& context, FlowWish& wish) : context_(context), wish_(wish) {}
  /// One specification of `bytes` bytes; it may lie anywhere.
  Error take(uint32_t type, const uint8_t* at, uint32_t bytes);
  /// After the last of them.
  Error check() const;

 private:
  template <class Spec>
  Error read(const uint8_t* at, uint32_t bytes, Layer layer, Spec& spec);
  template <class Spec>
  Error header(const uint8_t* at, uint32_t bytes, Layer layer);
  template <class Spec>
  Error outermost(const uint8_t* at, uint32_t bytes, Layer layer);

  Error add(Fields to, const ibv_flow_spec_eth& spec);
  Error add(Fields to, const ibv_flow_spec_ipv4& spec);
  Error add(Fields to, const ibv_flow_spec_ipv4_ext& spec);
  Error add(Fields to, const ibv_flow_spec_ipv6& spec);
  Error add(Fields to, const ibv_flow_spec_tcp_udp& spec);
  Error add(Fields to, const ibv_flow_spec_mpls& spec);
  Error add(Fields to, const ibv_flow_spec_tunnel& spec);
  Error add(Fields to, const ibv_flow_spec_gre& spec);
  Error add(Fields to, const ibv_flow_spec_esp& spec);
  Error add(Fields to, const ibv_flow_spec_action_tag& spec);
  Error add(Fields to, const ibv_flow_spec_action_drop& spec);
  Error add(Fields to, const ibv_flow_spec_counter_action& spec);
  Error add(Fields to, const ibv_flow_spec_action_handle& spec);

  const Context& context_;
  FlowWish& wish_;
  uint32_t layers_ = 0;
  bool inner_ = false;     ///< of the specification that is read
  uint32_t previous_ = 0;  ///< type of the one before
};

Error Reader::add(Fields to, const ibv_flow_spec_eth& spec) {
  ask(to.value.destination_mac, to.mask.destination_mac, spec.val.dst_mac, spec.mask.dst_mac);
  ask(to.value.source_mac, to.mask.source_mac, spec.val.src_mac, spec.mask.src_mac);
  ask(to.value.ether_type, to.mask.ether_type, &spec.val.ether_type, &spec.mask.ether_type);
  ask(to.value.vlan, to.mask.vlan, &spec.val.vlan_tag, &spec.mask.vlan_tag);
  if (spec.mask.vlan_tag != 0) ask(to.value.is_tagged, to.mask.is_tagged, 1);
  return {};
}

template <class Spec>
void add_ipv4(Fields to, const Spec& spec) {
  std::memcpy(to.value.source_ip, &spec.val.src_ip, 4);
  std::memcpy(to.mask.source_ip, &spec.mask.src_ip, 4);
  std::memcpy(to.value.destination_ip, &spec.val.dst_ip, 4);
  std::memcpy(to.mask.destination_ip, &spec.mask.dst_ip, 4);
  ask(to.value.network, to.mask.network, 4);
}

Error Reader::add(Fields to, const ibv_flow_spec_ipv4& spec) {
  add_ipv4(to, spec);
  return {};
}

Error Reader::add(Fields to, const ibv_flow_spec_ipv4_ext& spec) {
  if (spec.mask.flags != 0 || spec.mask.ttl != 0)
    return {EOPNOTSUPP, "ibv_create_flow: the device compares neither flags nor time to live of IPv4"};
  ask(to.value.protocol, to.mask.protocol, spec.val.proto, spec.mask.proto);
  ask(to.value.traffic_class, to.mask.traffic_class, spec.val.tos, spec.mask.tos);
  add_ipv4(to, spec);
  return {};
}

Error Reader::add(Fields to, const ibv_flow_spec_ipv6& spec) {
  if (spec.mask.hop_limit != 0)
    return {EOPNOTSUPP, "ibv_create_flow: the device does not compare the hop limit of IPv6"};
  ask(to.value.source_ip, to.mask.source_ip, spec.val.src_ip, spec.mask.src_ip);
  ask(to.value.destination_ip, to.mask.destination_ip, spec.val.dst_ip, spec.mask.dst_ip);
  // 20 bits of a word.
  ask(to.value.flow_label, to.mask.flow_label, reinterpret_cast<const uint8_t*>(&spec.val.flow_label) + 1,
      reinterpret_cast<const uint8_t*>(&spec.mask.flow_label) + 1);
  ask(to.value.protocol, to.mask.protocol, spec.val.next_hdr, spec.mask.next_hdr);
  ask(to.value.traffic_class, to.mask.traffic_class, spec.val.traffic_class, spec.mask.traffic_class);
  ask(to.value.network, to.mask.network, 6);
  return {};
}

Error Reader::add(Fields to, const ibv_flow_spec_tcp_udp& spec) {
  const bool tcp = (static_cast<uint32_t>(spec.type) & ~uint32_t{IBV_FLOW_SPEC_INNER}) == IBV_FLOW_SPEC_TCP;
  ask(to.value.transport, to.mask.transport, tcp ? engine::kProtocolTcp : engine::kProtocolUdp);
  ask(to.value.source_port, to.mask.source_port, &spec.val.src_port, &spec.mask.src_port);
  ask(to.value.destination_port, to.mask.destination_port, &spec.val.dst_port, &spec.mask.dst_port);
  return {};
}

// Where labels lie is told by the specification in front of theirs.
Error Reader::add(Fields to, const ibv_flow_spec_mpls& spec) {
  const uint8_t carrier = previous_ == IBV_FLOW_SPEC_UDP   ? engine::kMplsOnUdp
                          : previous_ == IBV_FLOW_SPEC_GRE ? engine::kMplsOnGre
                                                           : engine::kMplsOnEthernet;
  ask(to.value.mpls_carrier, to.mask.mpls_carrier, carrier);
  ask(to.value.mpls, to.mask.mpls, &spec.val.label, &spec.mask.label);
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_tunnel& spec) {
  uint8_t identifier[4], mask[4];
  std::memcpy(identifier, &spec.val.tunnel_id, 4);
  std::memcpy(mask, &spec.mask.tunnel_id, 4);
  if (identifier[0] != 0 && mask[0] != 0)
    return {EINVAL, "ibv_create_flow: the identifier of a VXLAN has 24 bits"};
  FlowRule& rule = wish_.rule;
  ask(rule.value.vxlan, rule.mask.vxlan, identifier, mask);
  rule.value.vxlan[0] = 1;
  rule.mask.vxlan[0] = 0xff;
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_gre& spec) {
  if (spec.mask.c_ks_res0_ver != 0)
    return {EOPNOTSUPP, "ibv_create_flow: the device does not compare flags and version of GRE"};
  FlowRule& rule = wish_.rule;
  ask(rule.value.is_gre, rule.mask.is_gre, 1);
  ask(rule.value.gre_protocol, rule.mask.gre_protocol, &spec.val.protocol, &spec.mask.protocol);
  ask(rule.value.gre_key, rule.mask.gre_key, &spec.val.key, &spec.mask.key);
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_esp& spec) {
  if (spec.mask.seq != 0)
    return {EOPNOTSUPP, "ibv_create_flow: the device does not compare sequence numbers of ESP"};
  FlowRule& rule = wish_.rule;
  ask(rule.value.is_esp, rule.mask.is_esp, 1);
  ask(rule.value.esp_index, rule.mask.esp_index, &spec.val.spi, &spec.mask.spi);
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_action_tag& spec) {
  if (spec.tag_id > 0xffffff) return {EINVAL, "ibv_create_flow: a tag has 24 bits"};
  wish_.rule.tag = spec.tag_id;
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_action_drop& /*spec*/) {
  wish_.rule.drops = true;
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_counter_action& spec) {
  if (spec.counters == nullptr || spec.counters->context != &context_.verbs.context)
    return {EINVAL, "ibv_create_flow: counters of another context"};
  wish_.counters = Counters::of(spec.counters);
  wish_.rule.count = wish_.counters->count;
  return {};
}

Error Reader::add(Fields /*to*/, const ibv_flow_spec_action_handle& spec) {
  if (spec.action == nullptr || spec.action->context != &context_.verbs.context)
    return {EINVAL, "ibv_create_flow: an action of another context"};
  wish_.action = EspFlowAction::of(const_cast<ibv_flow_action*>(spec.action));
  wish_.rule.action = wish_.action->device;
  return {};
}

template <class Spec>
Error Reader::read(const uint8_t* at, uint32_t bytes, Layer layer, Spec& spec) {
  if (bytes != sizeof(Spec))
    return {EINVAL, "ibv_create_flow: a specification has another size than its kind"};
  const uint32_t bit = inner_ ? static_cast<uint32_t>(layer) << kInnerShift : static_cast<uint32_t>(layer);
  if ((layers_ & bit) != 0)
    return {EINVAL, "ibv_create_flow: two specifications of the same header or action"};
  layers_ |= bit;
  std::memcpy(static_cast<void*>(&spec), at, sizeof spec);
  return {};
}

template <class Spec>
Error Reader::header(const uint8_t* at, uint32_t bytes, Layer layer) {
  Spec spec;
  if (const Error refusal = read(at, bytes, layer, spec); refusal.code != 0) return refusal;
  FrameHeaders &value = wish_.rule.value, &mask = wish_.rule.mask;
  return inner_ ? add(Fields{value.inner, mask.inner}, spec) : add(Fields{value, mask}, spec);
}

/// What there is once.
template <class Spec>
Error Reader::outermost(const uint8_t* at, uint32_t bytes, Layer layer) {
  if (inner_) return {EINVAL, "ibv_create_flow: no such specification of a packet in a tunnel"};
  return header<Spec>(at, bytes, layer);
}

Error Reader::take(uint32_t type, const uint8_t* at, uint32_t bytes) {
  inner_ = (type & IBV_FLOW_SPEC_INNER) != 0;
  const uint32_t kind = type & ~uint32_t{IBV_FLOW_SPEC_INNER};
  const auto dispatch = [&]() -> Error {
    switch (kind) {
      case IBV_FLOW_SPEC_ETH:
        return header<ibv_flow_spec_eth>(at, bytes, kEthernet);
      case IBV_FLOW_SPEC_IPV4:
        return header<ibv_flow_spec_ipv4>(at, bytes, kNetwork);
      case IBV_FLOW_SPEC_IPV4_EXT:
        return header<ibv_flow_spec_ipv4_ext>(at, bytes, kNetwork);
      case IBV_FLOW_SPEC_IPV6:
        return header<ibv_flow_spec_ipv6>(at, bytes, kNetwork);
      case IBV_FLOW_SPEC_TCP:
      case IBV_FLOW_SPEC_UDP:
        return header<ibv_flow_spec_tcp_udp>(at, bytes, kTransport);
      case IBV_FLOW_SPEC_MPLS:
        return header<ibv_flow_spec_mpls>(at, bytes, kLabel);
      case IBV_FLOW_SPEC_VXLAN_TUNNEL:
        return outermost<ibv_flow_spec_tunnel>(at, bytes, kTunnel);
      case IBV_FLOW_SPEC_GRE:
        return outermost<ibv_flow_spec_gre>(at, bytes, kTunnel);
      case IBV_FLOW_SPEC_ESP:
        return outermost<ibv_flow_spec_esp>(at, bytes, kTunnel);
      case IBV_FLOW_SPEC_ACTION_TAG:
        return outermost<ibv_flow_spec_action_tag>(at, bytes, kTag);
      case IBV_FLOW_SPEC_ACTION_DROP:
        return outermost<ibv_flow_spec_action_drop>(at, bytes, kDrop);
      case IBV_FLOW_SPEC_ACTION_HANDLE:
        return outermost<ibv_flow_spec_action_handle>(at, bytes, kHandle);
      case IBV_FLOW_SPEC_ACTION_COUNT:
        return outermost<ibv_flow_spec_counter_action>(at, bytes, kCount);
      default:
        return {EINVAL, "ibv_create_flow: there is no such kind of specification"};
    }
  };
  const Error refusal = dispatch();
  previous_ = kind;
  return refusal;
}

/// No packet has headers that announce others than those behind them.
Error check_packet(const PacketHeaders& value, const PacketHeaders& mask) {
  const uint8_t ipv4[2] = {0x08, 0x00}, ipv6[2] = {0x86, 0xdd};
  const uint8_t* needed = value.network == 4 ? ipv4 : ipv6;
  if (value.network != 0)
    for (int i = 0; i < 2; i++)
      if (((value.ether_type[i] ^ needed[i]) & mask.ether_type[i]) != 0)
        return {EINVAL, "ibv_create_flow: the EtherType is not that of the IP header"};
  if (value.transport != 0 && ((value.protocol ^ value.transport) & mask.protocol) != 0)
    return {EINVAL, "ibv_create_flow: the IP header's protocol is not the one of the ports"};
  return {};
}

Error check_action(const FlowRule& rule, const EspFlowAction* action) {
  if (action == nullptr) return {};
  if (rule.value.is_esp == 0) return {EINVAL, "ibv_create_flow: an ESP action is for packets of ESP"};
  if (action->device->encrypts() != rule.leaves)
    return {EINVAL, "ibv_create_flow: what leaves is encrypted, what arrives decrypted"};
  return rule.leaves && (rule.drops || rule.tag != 0)
             ? Error{EINVAL, "ibv_create_flow: what is encrypted is neither dropped nor tagged"}
             : Error{};
}

Error Reader::check() const {
  const FlowRule& rule = wish_.rule;
  if (rule.drops && rule.passes_on) return {EINVAL, "ibv_create_flow: a frame is dropped or passed on"};
  if (wish_.counters != nullptr && !wish_.counters->has_points())
    return {EINVAL, "ibv_create_flow: nothing was attached to the counters that could count"};
  if (const Error refusal = check_action(rule, wish_.action); refusal.code != 0) return refusal;
  if (const Error refusal = check_packet(rule.value, rule.mask); refusal.code != 0) return refusal;
  return check_packet(rule.value.inner, rule.mask.inner);
}

Error convert_kind(const ibv_flow_attr& attributes, FlowRule& rule) {
  switch (attributes.type) {
    case IBV_FLOW_ATTR_NORMAL:
      rule.kind = FlowRule::Kind::kNormal;
      return {};
    case IBV_FLOW_ATTR_ALL_DEFAULT:
      rule.kind = FlowRule::Kind::kAllDefault;
      return {};
    case IBV_FLOW_ATTR_MC_DEFAULT:
      rule.kind = FlowRule::Kind::kMulticastDefault;
      rule.value.destination_mac[0] = rule.mask.destination_mac[0] = 1;
      return {};
    case IBV_FLOW_ATTR_SNIFFER:
      rule.kind = FlowRule::Kind::kSniffer;
      return {};
  }
  return {EINVAL, "ibv_create_flow: no such type of rule"};
}

Error read_head(const ibv_flow_attr& attributes, FlowRule& rule) {
  constexpr uint32_t kKnown = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
  if (attributes.comp_mask != 0) return {EOPNOTSUPP, "ibv_create_flow: unknown bits in comp_mask"};
  if (attributes.port != 1) return {EINVAL, "ibv_create_flow: the device has port 1 alone"};
  if ((attributes.flags & ~kKnown) != 0) return {EINVAL, "ibv_create_flow: unknown flags"};
  if (attributes.num_of_specs > kSpecsMax)
    return {EINVAL, "ibv_create_flow: a rule has at most 10 specifications"};
  if (attributes.priority > kPriorityMax)
    return {ENOMEM, "ibv_create_flow: the device has tables for priorities 0 to 15"};
  rule.passes_on = (attributes.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0;
  rule.leaves = (attributes.flags & IBV_FLOW_ATTR_FLAGS_EGRESS) != 0;
  rule.priority = attributes.priority;
  if (const Error refusal = convert_kind(attributes, rule); refusal.code != 0) return refusal;
  const bool normal = rule.kind == FlowRule::Kind::kNormal;
  if (!normal && (rule.passes_on || rule.leaves || attributes.num_of_specs != 0))
    return {EINVAL,
            "ibv_create_flow: only a normal rule has specifications, passes frames on, or is for those "
            "that leave"};
  return {};
}

}  // namespace

Error read_flow(const Context& context, const ibv_flow_attr& attributes, FlowWish& wish) {
  if (const Error refusal = read_head(attributes, wish.rule); refusal.code != 0) return refusal;
  const auto* at = reinterpret_cast<const uint8_t*>(&attributes + 1);
  Reader reader(context, wish);
  for (uint32_t i = 0; i < attributes.num_of_specs; i++) {
    uint32_t type = 0;
    uint16_t bytes = 0;
    std::memcpy(&type, at, sizeof type);
    std::memcpy(&bytes, at + sizeof type, sizeof bytes);
    if (const Error refusal = reader.take(type, at, bytes); refusal.code != 0) return refusal;
    at += bytes;
  }
  return reader.check();
}

}  // namespace verbatim::verbs
