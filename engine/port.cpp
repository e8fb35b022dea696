// SPDX-License-Identifier: MIT
// Ways from a port. Processes of the host form one InfiniBand subnet, whose LIDs are those of their devices'
// ports: a queue pair is found by its number, and what its process publishes says whether it is behind that
// LID.
#include "engine/port.h"

#include "engine/published.h"

namespace verbatim::engine {

namespace {

/// What the queue pair's process shows of it; nullptr: nothing.
const PublishedQp* peer_at(const wire::Channel& way, const Place& to) {
  const std::byte* memory = way.testament();
  if (memory == nullptr) return nullptr;
  const PublishedQp* peer = find_published(*reinterpret_cast<const Published*>(memory), to.qpn);
  return peer != nullptr && peer->qpn.load(std::memory_order_acquire) == to.qpn ? peer : nullptr;
}

/// False when it is known that the queue pair belongs to another port than the packet is sent to.
bool is_behind(const wire::Channel& way, const Port& from, const Place& to) {
  const PublishedQp* peer = peer_at(way, to);
  return peer == nullptr || peer->lid.load(std::memory_order_relaxed) == (from.is_infiniband() ? to.lid : 0);
}

/// False when it is known that the queue pair drops what comes from that partition.
bool is_member(const wire::Channel& way, const Port& from, const Place& to) {
  const PublishedQp* peer = from.is_infiniband() ? peer_at(way, to) : nullptr;
  return peer == nullptr || same_partition(to.pkey, peer->pkey.load(std::memory_order_relaxed));
}

}  // namespace

wire::Channel* way_of_datagram(wire::Fabric& fabric, const Port& from, const Place& to) {
  if (from.down.load(std::memory_order_relaxed)) return nullptr;
  if (!from.is_infiniband()) return fabric.channel(to.gid, to.qpn);
  return to.lid != 0 && to.lid <= kUnicastLidMax ? fabric.neighbor(to.qpn) : nullptr;
}

bool is_for(const Port& port, const wire::Segment& segment) {
  if (!port.is_infiniband()) return segment.gid_type != GidType::kInfiniband;
  if (segment.gid_type != GidType::kInfiniband) return false;
  if (segment.has_grh && segment.dest_gid.is_multicast()) return true;
  return segment.dest_lid == port.lid && (!segment.has_grh || segment.dest_gid == port.gid);
}

wire::Channel* find_way(wire::Fabric& fabric, const Port& from, const Place& to) {
  wire::Channel* way = way_of_datagram(fabric, from, to);
  return way != nullptr && is_behind(*way, from, to) ? way : nullptr;
}

std::string way_obstacle(wire::Fabric& fabric, const Port& from, const Place& to) {
  if (from.down.load(std::memory_order_relaxed)) return "the port is down";
  if (!from.is_infiniband()) return fabric.obstacle(to.gid, to.qpn);
  wire::Channel* way = fabric.neighbor(to.qpn);
  if (way == nullptr) return "";
  if (!is_member(*way, from, to)) return "the queue pairs are not of one partition (P_Key)";
  if (is_behind(*way, from, to)) return "";
  return "the queue pair is not behind LID " + std::to_string(to.lid);
}

std::string check_path(const Port& port, const Host& host, const AddressAttributes& path, QpType type) {
  const bool leads_somewhere = type != QpType::kDci && type != QpType::kDct;  // work requests name targets
  const std::string index = std::to_string(path.sgid_index);
  if (!port.is_infiniband()) {
    if (!path.is_global) return "a RoCE address vector needs a GRH (is_global)";
    return host.gid(path.sgid_index).gid.is_zero() ? "entry " + index + " of the GID table is empty" : "";
  }
  if (leads_somewhere && (path.dlid == 0 || path.dlid > kUnicastLidMax))
    return "an InfiniBand path leads to a LID from 1 to 0xbfff, not to " + std::to_string(path.dlid);
  return path.is_global && path.sgid_index != 0 ? "entry " + index + " of the GID table is empty" : "";
}

}  // namespace verbatim::engine
