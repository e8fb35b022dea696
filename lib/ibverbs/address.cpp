// SPDX-License-Identifier: MIT
// Address handles, and addresses made from received datagrams.
#include <arpa/inet.h>
#include <endian.h>

#include <cstring>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/ethernet_address.h"

namespace verbatim::verbs {
namespace {

constexpr uint8_t kNextHeaderUdp = 17;

/// Code 0, or why an address cannot be used.
Error check(Context& context, const ibv_ah_attr& attributes) {
  if (attributes.port_num != 1)
    return {EINVAL, "address handle: there is no port " + std::to_string(attributes.port_num)};
  if (attributes.sl > 15) return {EINVAL, "address handle: service levels are 0 to 15"};
  const bool infiniband = context.hca->port().is_infiniband();
  if (infiniband && attributes.dlid == 0)
    return {EINVAL, "address handle: an InfiniBand port needs the LID of the destination (dlid)"};
  if (infiniband && attributes.is_global == 0) return {};
  if (attributes.is_global == 0)
    return {EINVAL, "address handle: Ethernet needs a global address (is_global)"};
  const uint32_t index = attributes.grh.sgid_index;
  if (index >= context.hca->port().gid_entries || context.hca->gid(index).gid.is_zero())
    return {EINVAL, "address handle: the GID table has nothing at index " + std::to_string(index)};
  return {};
}

/// What the 40 bytes in front of a received datagram say.
struct Origin {
  ibv_gid source{}, destination{};
  GidType type = GidType::kRoceV2;
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0, hop_limit = 0;
};

void map_ipv4(const uint8_t* address, ibv_gid& gid) {
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, address, 4);
}

/// A plain sum over an IPv4 header is all ones when it is one.
bool is_ipv4_header(const uint8_t* header) {
  if (header[0] != 0x45) return false;
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

Origin read_origin(const ibv_grh& grh, bool infiniband) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&grh);
  const uint8_t* ipv4 = bytes + 20;
  Origin origin;
  if (!infiniband && bytes[0] >> 4 != 6 && is_ipv4_header(ipv4)) {
    map_ipv4(ipv4 + 12, origin.source);
    map_ipv4(ipv4 + 16, origin.destination);
    origin.traffic_class = ipv4[1];
    origin.hop_limit = ipv4[8];
    return origin;
  }
  const uint32_t first = be32toh(grh.version_tclass_flow);
  origin.source = grh.sgid;
  origin.destination = grh.dgid;
  origin.type = infiniband                       ? GidType::kInfiniband
                : grh.next_hdr == kNextHeaderUdp ? GidType::kRoceV2
                                                 : GidType::kRoceV1;
  origin.flow_label = first & IB_GRH_FLOWLABEL_MASK;
  origin.traffic_class = static_cast<uint8_t>(first >> 20);
  origin.hop_limit = grh.hop_limit;
  return origin;
}

/// Index of the GID that a datagram was sent to; a multicast one stands for the first entry of its type and
/// family.
int find_gid(Context& context, const Origin& origin) {
  const Gid wanted = [&] {
    Gid gid;
    std::memcpy(gid.bytes.data(), origin.destination.raw, sizeof origin.destination.raw);
    return gid;
  }();
  Gid source;
  std::memcpy(source.bytes.data(), origin.source.raw, sizeof origin.source.raw);
  const uint32_t entries = context.hca->port().gid_entries;
  for (uint32_t index = 0; index < entries; index++) {
    const hw::GidEntry entry = context.hca->gid(index);
    if (entry.gid.is_zero() || entry.type != origin.type) continue;
    const bool fits =
        wanted.is_multicast() ? entry.gid.is_ipv4_mapped() == source.is_ipv4_mapped() : entry.gid == wanted;
    if (fits) return static_cast<int>(index);
  }
  return -1;
}

}  // namespace
}  // namespace verbatim::verbs

using namespace verbatim;
using namespace verbatim::verbs;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  const Error refusal = check(*context, *attributes);
  if (refusal.code != 0) return refuse_pointer(*context, refusal);
  ProtectionDomain& domain = *ProtectionDomain::of(pd);
  AddressHandle* ah = context->provider->create_ah(domain, *attributes);
  if (ah == nullptr) return nullptr;
  ah->base.context = pd->context;
  ah->base.pd = pd;
  ah->domain_use = DomainUse(domain);
  return &ah->base;
}

int ibv_destroy_ah(ibv_ah* ah) {
  Context::of(ah->context)->provider->free_ah(*reinterpret_cast<AddressHandle*>(ah));
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* public_context, uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attributes) {
  Context* context = usable(public_context);
  if (context == nullptr) return -1;
  *attributes = {};
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  const Origin origin = read_origin(*grh, context->hca->port().is_infiniband());
  const int index = find_gid(*context, origin);
  if (index < 0) {
    errno = refuse(*context, EINVAL, "ibv_init_ah_from_wc: the datagram was sent to no GID of this port");
    return -1;
  }
  attributes->is_global = 1;
  attributes->grh.dgid = origin.source;
  attributes->grh.sgid_index = static_cast<uint8_t>(index);
  attributes->grh.flow_label = origin.flow_label;
  attributes->grh.traffic_class = origin.traffic_class;
  attributes->grh.hop_limit = origin.hop_limit;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port_num) {
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attributes) != 0) return nullptr;
  return ibv_create_ah(pd, &attributes);
}

int ibv_resolve_eth_l2_from_gid(ibv_context* public_context, ibv_ah_attr* attributes,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t* vid) {
  constexpr uint16_t kNoVlan = 0xffff;
  Context* context = usable(public_context);
  if (context == nullptr) return EIO;
  if (context->hca->port().is_infiniband())
    return refuse(*context, EOPNOTSUPP, "ibv_resolve_eth_l2_from_gid: the port is not Ethernet");
  const Error refusal = check(*context, *attributes);
  if (refusal.code != 0) return refuse(*context, refusal);
  if (!find_ethernet_address(attributes->grh.dgid, eth_mac))
    return refuse(*context, EHOSTUNREACH, "ibv_resolve_eth_l2_from_gid: no neighbour has this address");
  *vid = kNoVlan;
  return 0;
}

}  // extern "C"
