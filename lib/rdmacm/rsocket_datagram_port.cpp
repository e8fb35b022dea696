// SPDX-License-Identifier: MIT
// The queue pair of a datagram socket at one local address.
#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/rsocket_datagram.h"

namespace verbatim::rdmacm {
namespace {

constexpr uint64_t kReceive = uint64_t{1} << 63;
constexpr size_t kGrhBytes = sizeof(ibv_grh);

DatagramHeader header_of(const Peer& local) {
  DatagramHeader header{};
  if (local.get()->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(local.address);
    header.version = 4;
    header.length = offsetof(DatagramHeader, v4) + sizeof header.v4;
    header.port = v4.sin_port;
    header.v4 = v4.sin_addr.s_addr;
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(local.address);
    header.version = 6;
    header.length = sizeof header;
    header.port = v6.sin6_port;
    header.v6.flow = v6.sin6_flowinfo;
    std::memcpy(header.v6.address, v6.sin6_addr.s6_addr, sizeof header.v6.address);
  }
  return header;
}

ibv_gid gid_of(const Peer& peer) {
  ibv_gid gid{};
  if (peer.get()->sa_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in&>(peer.address).sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6&>(peer.address).sin6_addr, sizeof gid.raw);
  }
  return gid;
}

}  // namespace

std::unique_ptr<DatagramPort> DatagramPort::make(const Peer& local, uint32_t sends, uint32_t receives) {
  std::unique_ptr<DatagramPort> made(new DatagramPort);
  made->header_ = header_of(local);
  made->sends_ = sends;
  made->receives_ = receives;
  Peer address = local;
  if (rdma_create_id(nullptr, &made->id_, nullptr, RDMA_PS_UDP) != 0 ||
      rdma_bind_addr(made->id_, address.get()) != 0 || !made->make_queue_pair())
    return nullptr;
  for (uint32_t slot = 0; slot < sends; ++slot) made->free_slots_.push_back(slot);
  for (uint32_t slot = 0; slot < receives; ++slot) made->give_back(slot);
  return made;
}

bool DatagramPort::make_queue_pair() {
  if (id_->verbs == nullptr) return fail(EADDRNOTAVAIL) == 0;
  channel_ = ibv_create_comp_channel(id_->verbs);
  if (channel_ == nullptr) return false;
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  cq_ = ibv_create_cq(id_->verbs, static_cast<int>(sends_ + receives_), nullptr, channel_, 0);
  if (cq_ == nullptr) return false;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_UD;
  attributes.sq_sig_all = 1;
  attributes.cap = {sends_, receives_, 1, 2, 64};
  if (rdma_create_qp(id_, nullptr, &attributes) != 0) return false;
  inline_bytes_ = attributes.cap.max_inline_data;
  // Behind the slots: where headers of the network go.
  return send_memory_.make(id_->pd, sends_ * size_t{kSlot}, IBV_ACCESS_LOCAL_WRITE) &&
         receive_memory_.make(id_->pd, receives_ * size_t{kSlot} + kGrhBytes, IBV_ACCESS_LOCAL_WRITE);
}

DatagramPort::~DatagramPort() {
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (id_ == nullptr) return;
  // The memory is of the id's domain, which may go with the id.
  send_memory_.release();
  receive_memory_.release();
  rdma_destroy_id(id_);
}

void DatagramPort::take_events() {
  ibv_cq* cq;
  void* context;
  while (ibv_get_cq_event(channel_, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
}

bool DatagramPort::take(Arrival& arrival) {
  ibv_wc completion;
  while (ibv_poll_cq(cq_, 1, &completion) > 0) {
    const auto slot = static_cast<uint32_t>(completion.wr_id);
    if ((completion.wr_id & kReceive) == 0) {
      free_slots_.push_back(slot);
      continue;
    }
    if (completion.status != IBV_WC_SUCCESS) continue;
    const auto& header = *reinterpret_cast<const DatagramHeader*>(bytes_of(slot));
    const bool v4 = header.version == 4 && header.length == 8,
               v6 = header.version == 6 && header.length == 24;
    if ((v4 || v6) && completion.byte_len >= kGrhBytes + header.length) {
      arrival = {slot, completion.byte_len - static_cast<uint32_t>(kGrhBytes)};
      return true;
    }
    give_back(slot);
  }
  return false;
}

void DatagramPort::give_back(uint32_t slot) {
  ibv_sge pieces[2] = {{reinterpret_cast<uintptr_t>(receive_memory_.at(receives_ * size_t{kSlot})), kGrhBytes,
                        receive_memory_.lkey()},
                       {reinterpret_cast<uintptr_t>(bytes_of(slot)), kSlot, receive_memory_.lkey()}};
  ibv_recv_wr request{}, *refused = nullptr;
  request.wr_id = kReceive | slot;
  request.sg_list = pieces;
  request.num_sge = 2;
  ibv_post_recv(id_->qp, &request, &refused);
}

int DatagramPort::send(ibv_ah* ah, uint32_t qpn, Gather& from, size_t bytes) {
  if (bytes > kSlot - header_.length) return fail(EMSGSIZE);
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  uint8_t* place = send_memory_.at(slot * size_t{kSlot});
  std::memcpy(place, &header_, header_.length);
  from.read(place + header_.length, bytes);
  ibv_sge piece{reinterpret_cast<uintptr_t>(place), static_cast<uint32_t>(header_.length + bytes),
                send_memory_.lkey()};
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = piece.length <= inline_bytes_ ? static_cast<unsigned>(IBV_SEND_INLINE) : 0;
  request.wr.ud.ah = ah;
  request.wr.ud.remote_qpn = qpn;
  request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  const int error = ibv_post_send(id_->qp, &request, &refused);
  if (error == 0) return 0;
  free_slots_.push_back(slot);
  return fail(error);
}

ibv_ah* DatagramPort::make_address(const Peer& peer) {
  constexpr uint8_t kHops = 64;
  const ibv_gid own = id_->route.addr.addr.ibaddr.sgid;
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.grh.dgid = gid_of(peer);
  attributes.grh.hop_limit = kHops;
  attributes.port_num = id_->port_num;
  ibv_gid_entry entry;
  for (uint32_t index = 0;
       ibv_query_gid_ex(id_->verbs, id_->port_num, index, &entry, 0) == 0 || errno == ENODATA; ++index) {
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || std::memcmp(entry.gid.raw, own.raw, sizeof own.raw) != 0)
      continue;
    attributes.grh.sgid_index = static_cast<uint8_t>(index);
    return ibv_create_ah(id_->pd, &attributes);
  }
  return fail_pointer(EADDRNOTAVAIL);
}

}  // namespace verbatim::rdmacm
