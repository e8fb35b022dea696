// SPDX-License-Identifier: MIT
// Flow steering: rules that say which frames a raw packet queue pair gets.
#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

namespace verbatim::verbs {
namespace {

using engine::FrameHeaders;
using hw::FlowRule;

/// A rule of the list, with what it belongs to.
struct Flow {
  ibv_flow base{};
  QueuePair* qp = nullptr;

  static Flow* of(ibv_flow* flow) { return reinterpret_cast<Flow*>(flow); }
};

/// The headers that a rule speaks of so far.
enum Layer : uint32_t { kEthernet = 1, kNetwork = 2, kTransport = 4, kTag = 8, kDrop = 16 };

template <size_t bytes>
void ask(uint8_t (&value)[bytes], uint8_t (&mask)[bytes], const void* wanted, const void* wanted_mask) {
  std::memcpy(value, wanted, bytes);
  std::memcpy(mask, wanted_mask, bytes);
}
void ask(uint8_t& value, uint8_t& mask, uint8_t wanted, uint8_t wanted_mask = 0xff) {
  value = wanted;
  mask = wanted_mask;
}

Error add(FlowRule& rule, const ibv_flow_spec_eth& spec) {
  FrameHeaders &value = rule.value, &mask = rule.mask;
  ask(value.destination_mac, mask.destination_mac, spec.val.dst_mac, spec.mask.dst_mac);
  ask(value.source_mac, mask.source_mac, spec.val.src_mac, spec.mask.src_mac);
  ask(value.ether_type, mask.ether_type, &spec.val.ether_type, &spec.mask.ether_type);
  ask(value.vlan, mask.vlan, &spec.val.vlan_tag, &spec.mask.vlan_tag);
  if (spec.mask.vlan_tag != 0) ask(value.is_tagged, mask.is_tagged, 1);
  return {};
}

template <class Spec>
Error add_ipv4(FlowRule& rule, const Spec& spec) {
  std::memcpy(rule.value.source_ip, &spec.val.src_ip, 4);
  std::memcpy(rule.mask.source_ip, &spec.mask.src_ip, 4);
  std::memcpy(rule.value.destination_ip, &spec.val.dst_ip, 4);
  std::memcpy(rule.mask.destination_ip, &spec.mask.dst_ip, 4);
  ask(rule.value.network, rule.mask.network, 4);
  return {};
}

Error add(FlowRule& rule, const ibv_flow_spec_ipv4& spec) { return add_ipv4(rule, spec); }

Error add(FlowRule& rule, const ibv_flow_spec_ipv4_ext& spec) {
  if (spec.mask.flags != 0)
    return {EOPNOTSUPP, "ibv_create_flow: the device does not look at the flags of an IPv4 header"};
  FrameHeaders &value = rule.value, &mask = rule.mask;
  ask(value.protocol, mask.protocol, spec.val.proto, spec.mask.proto);
  ask(value.traffic_class, mask.traffic_class, spec.val.tos, spec.mask.tos);
  ask(value.hop_limit, mask.hop_limit, spec.val.ttl, spec.mask.ttl);
  return add_ipv4(rule, spec);
}

Error add(FlowRule& rule, const ibv_flow_spec_ipv6& spec) {
  FrameHeaders &value = rule.value, &mask = rule.mask;
  ask(value.source_ip, mask.source_ip, spec.val.src_ip, spec.mask.src_ip);
  ask(value.destination_ip, mask.destination_ip, spec.val.dst_ip, spec.mask.dst_ip);
  // 20 bits of a word.
  ask(value.flow_label, mask.flow_label, reinterpret_cast<const uint8_t*>(&spec.val.flow_label) + 1,
      reinterpret_cast<const uint8_t*>(&spec.mask.flow_label) + 1);
  ask(value.protocol, mask.protocol, spec.val.next_hdr, spec.mask.next_hdr);
  ask(value.traffic_class, mask.traffic_class, spec.val.traffic_class, spec.mask.traffic_class);
  ask(value.hop_limit, mask.hop_limit, spec.val.hop_limit, spec.mask.hop_limit);
  ask(value.network, mask.network, 6);
  return {};
}

Error add(FlowRule& rule, const ibv_flow_spec_tcp_udp& spec) {
  FrameHeaders &value = rule.value, &mask = rule.mask;
  const uint8_t protocol = spec.type == IBV_FLOW_SPEC_TCP ? engine::kProtocolTcp : engine::kProtocolUdp;
  ask(value.transport, mask.transport, protocol);
  ask(value.source_port, mask.source_port, &spec.val.src_port, &spec.mask.src_port);
  ask(value.destination_port, mask.destination_port, &spec.val.dst_port, &spec.mask.dst_port);
  return {};
}

Error add(FlowRule& rule, const ibv_flow_spec_action_tag& spec) {
  if (spec.tag_id > 0xffffff) return {EINVAL, "ibv_create_flow: a tag has 24 bits"};
  rule.tag = spec.tag_id;
  return {};
}

Error add(FlowRule& rule, const ibv_flow_spec_action_drop&) {
  rule.drops = true;
  return {};
}

/// One specification of `bytes` bytes; it may lie anywhere.
template <class Spec>
Error take(const uint8_t* at, uint32_t bytes, Layer layer, uint32_t& layers, FlowRule& rule) {
  if (bytes != sizeof(Spec))
    return {EINVAL, "ibv_create_flow: a specification has another size than its kind"};
  if ((layers & layer) != 0) return {EINVAL, "ibv_create_flow: two specifications of the same header"};
  layers |= layer;
  Spec spec;
  std::memcpy(static_cast<void*>(&spec), at, sizeof spec);
  return add(rule, spec);
}

Error take_any(uint32_t type, const uint8_t* at, uint32_t bytes, uint32_t& layers, FlowRule& rule) {
  switch (type) {
    case IBV_FLOW_SPEC_ETH:
      return take<ibv_flow_spec_eth>(at, bytes, kEthernet, layers, rule);
    case IBV_FLOW_SPEC_IPV4:
      return take<ibv_flow_spec_ipv4>(at, bytes, kNetwork, layers, rule);
    case IBV_FLOW_SPEC_IPV4_EXT:
      return take<ibv_flow_spec_ipv4_ext>(at, bytes, kNetwork, layers, rule);
    case IBV_FLOW_SPEC_IPV6:
      return take<ibv_flow_spec_ipv6>(at, bytes, kNetwork, layers, rule);
    case IBV_FLOW_SPEC_TCP:
    case IBV_FLOW_SPEC_UDP:
      return take<ibv_flow_spec_tcp_udp>(at, bytes, kTransport, layers, rule);
    case IBV_FLOW_SPEC_ACTION_TAG:
      return take<ibv_flow_spec_action_tag>(at, bytes, kTag, layers, rule);
    case IBV_FLOW_SPEC_ACTION_DROP:
      return take<ibv_flow_spec_action_drop>(at, bytes, kDrop, layers, rule);
    default:
      return {EOPNOTSUPP, "ibv_create_flow: the device does not know this kind of specification"};
  }
}

/// No frame has headers that announce others than those behind them.
Error check_layers(const FlowRule& rule) {
  const uint8_t* wanted = rule.value.ether_type;
  const uint8_t* mask = rule.mask.ether_type;
  const uint8_t ipv4[2] = {0x08, 0x00}, ipv6[2] = {0x86, 0xdd};
  const uint8_t* needed = rule.value.network == 4 ? ipv4 : ipv6;
  if (rule.value.network != 0)
    for (int i = 0; i < 2; i++)
      if (((wanted[i] ^ needed[i]) & mask[i]) != 0)
        return {EINVAL, "ibv_create_flow: the EtherType is not that of the IP header"};
  if (rule.value.transport != 0 && ((rule.value.protocol ^ rule.value.transport) & rule.mask.protocol) != 0)
    return {EINVAL, "ibv_create_flow: the IP header's protocol is not the one of the ports"};
  return {};
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

Error convert(const ibv_flow_attr& attributes, FlowRule& rule) {
  if (attributes.comp_mask != 0) return {EOPNOTSUPP, "ibv_create_flow: unknown bits in comp_mask"};
  if (attributes.port != 1) return {EINVAL, "ibv_create_flow: the device has port 1 alone"};
  if ((attributes.flags & IBV_FLOW_ATTR_FLAGS_EGRESS) != 0)
    return {EOPNOTSUPP, "ibv_create_flow: rules are for frames that arrive"};
  if ((attributes.flags & ~static_cast<uint32_t>(IBV_FLOW_ATTR_FLAGS_DONT_TRAP)) != 0)
    return {EINVAL, "ibv_create_flow: unknown flags"};
  rule.passes_on = (attributes.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0;
  rule.priority = attributes.priority;
  if (const Error refusal = convert_kind(attributes, rule); refusal.code != 0) return refusal;
  const bool normal = rule.kind == FlowRule::Kind::kNormal;
  if (!normal && (rule.passes_on || attributes.num_of_specs != 0))
    return {EINVAL, "ibv_create_flow: only a normal rule has specifications, or passes frames on"};
  const auto* at = reinterpret_cast<const uint8_t*>(&attributes + 1);
  uint32_t layers = 0;
  for (uint32_t i = 0; i < attributes.num_of_specs; i++) {
    uint32_t type = 0;
    uint16_t bytes = 0;
    std::memcpy(&type, at, sizeof type);
    std::memcpy(&bytes, at + sizeof type, sizeof bytes);
    if (const Error refusal = take_any(type, at, bytes, layers, rule); refusal.code != 0) return refusal;
    at += bytes;
  }
  if (rule.drops && rule.passes_on) return {EINVAL, "ibv_create_flow: a frame is dropped or passed on"};
  return check_layers(rule);
}

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes) {
  Context* context = usable(qp->context);
  if (context == nullptr) return nullptr;
  QueuePair& pair = *QueuePair::of(qp);
  if (qp->qp_type != IBV_QPT_RAW_PACKET && qp->qp_type != IBV_QPT_UD)
    return refuse_pointer(*context, EINVAL, "ibv_create_flow: the queue pair is not of type RAW_PACKET or UD",
                          qp->qp_num);
  if (pair.device == nullptr)
    return refuse_pointer(*context, EOPNOTSUPP,
                          "ibv_create_flow: no packets reach a queue pair with a table of work queues");
  FlowRule rule;
  if (const Error refusal = convert(*attributes, rule); refusal.code != 0)
    return refuse_pointer(*context, refusal, qp->qp_num);
  auto* flow = new (std::nothrow) Flow;
  if (flow == nullptr) return refuse_pointer(*context, ENOMEM, "ibv_create_flow: no memory for a rule");
  const Expected<uint32_t> number = context->hca->create_flow(pair.device, rule);
  if (!number) {
    delete flow;
    return refuse_pointer(*context, number.error(), qp->qp_num);
  }
  flow->qp = &pair;
  flow->base.context = qp->context;
  flow->base.handle = *number;
  ++pair.flows;
  return &flow->base;
}

int destroy_flow(ibv_flow* public_flow) {
  Flow* flow = Flow::of(public_flow);
  Context& context = *Context::of(public_flow->context);
  if (!context.abandoned)
    if (const int error = settle(context, context.hca->destroy_flow(public_flow->handle))) return error;
  --flow->qp->flows;
  delete flow;
  return 0;
}

}  // namespace

void install_flow_operations(verbs_context& verbs) {
  verbs.ibv_create_flow = create_flow;
  verbs.ibv_destroy_flow = destroy_flow;
}

}  // namespace verbatim::verbs
