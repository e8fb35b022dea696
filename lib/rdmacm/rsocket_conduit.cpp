// SPDX-License-Identifier: MIT
// Making a stream's queue pair, and its two directions.
#include "lib/rdmacm/rsocket_conduit.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbatim::rdmacm {
namespace {

constexpr bool kBigEndianHost = std::endian::native == std::endian::big;

uint32_t swap_if(bool wanted, uint32_t value) { return wanted ? __builtin_bswap32(value) : value; }
uint64_t swap_if(bool wanted, uint64_t value) { return wanted ? __builtin_bswap64(value) : value; }

RemotePiece in_network_order(const RemotePiece& own) {
  return {htobe64(own.address), htobe32(own.key), htobe32(own.length)};
}
RemotePiece in_host_order(const RemotePiece& wire) {
  return {be64toh(wire.address), be32toh(wire.key), be32toh(wire.length)};
}

}  // namespace

void RegisteredMemory::release() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (start_ != nullptr) ::munmap(start_, bytes_);
  region_ = nullptr;
  start_ = nullptr;
}

bool RegisteredMemory::make(ibv_pd* pd, size_t bytes, int access) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return false;
  start_ = static_cast<uint8_t*>(start);
  bytes_ = bytes;
  region_ = ibv_reg_mr(pd, start, bytes, access);
  return region_ != nullptr;
}

template <class Move>
void Gather::walk(size_t bytes, Move move) {
  while (bytes > 0 && piece_ != end_) {
    const size_t now = std::min(bytes, piece_->iov_len - done_);
    if (now > 0) move(static_cast<uint8_t*>(piece_->iov_base) + done_, now);
    bytes -= now;
    done_ += now;
    if (done_ < piece_->iov_len) continue;
    ++piece_;
    done_ = 0;
  }
}

void Gather::read(uint8_t* to, size_t bytes) {
  walk(bytes, [&](const uint8_t* from, size_t now) {
    std::memcpy(to, from, now);
    to += now;
  });
}

void Gather::write(const uint8_t* from, size_t bytes) {
  walk(bytes, [&](uint8_t* to, size_t now) {
    std::memcpy(to, from, now);
    from += now;
  });
}

size_t Gather::bytes_of(const iovec* pieces, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

std::unique_ptr<Conduit> Conduit::make(rdma_cm_id& id, const StreamSizes& sizes) {
  std::unique_ptr<Conduit> made(new Conduit(id, sizes));
  if (!made->make_queue_pair() || !made->make_buffers()) return nullptr;
  for (uint32_t i = 0; i < made->sizes_.receive_entries; ++i)
    if (!made->post_receive()) return nullptr;
  return made;
}

bool Conduit::make_queue_pair() {
  channel_ = ibv_create_comp_channel(id_.verbs);
  if (channel_ == nullptr) return false;
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  cq_ = ibv_create_cq(id_.verbs, static_cast<int>(sizes_.send_entries + sizes_.receive_entries), &id_,
                      channel_, 0);
  if (cq_ == nullptr) return false;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = sizes_.send_entries;
  attributes.cap.max_recv_wr = sizes_.receive_entries;
  attributes.cap.max_send_sge = 2;
  attributes.cap.max_recv_sge = 1;
  // What tells of a target is always inline.
  attributes.cap.max_inline_data = std::max<uint32_t>(sizes_.inline_bytes, sizeof(RemoteMapping));
  if (rdma_create_qp(&id_, nullptr, &attributes) != 0) return false;
  inline_bytes_ = std::min(sizes_.inline_bytes, attributes.cap.max_inline_data);
  return true;
}

bool Conduit::make_buffers() {
  half_ = std::max<uint32_t>(sizes_.receive_bytes / 2, 1);
  const size_t lists = kTargets * sizeof(RemotePiece) + sizes_.mappings * sizeof(RemoteMapping);
  if (!send_memory_.make(id_.pd, sizes_.send_bytes, IBV_ACCESS_LOCAL_WRITE) ||
      !lists_.make(id_.pd, lists, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) ||
      !receive_memory_.make(id_.pd, 2 * size_t{half_}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
    return false;
  send_free_ = sizes_.send_bytes;
  // The greeting gives the first half away; the second is told of as soon as the connection stands.
  free_at_ = free_bytes_ = half_;
  due_at_ = static_cast<uint16_t>(sizes_.receive_entries / 2);
  return true;
}

Conduit::~Conduit() {
  if (id_.qp != nullptr) rdma_destroy_qp(&id_);
  for (const std::list<LocalMapping>* each : {&told_, &untold_})
    for (const LocalMapping& mapping : *each) ibv_dereg_mr(mapping.region);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

StreamGreeting Conduit::greeting() const {
  StreamGreeting own{};
  own.version = StreamGreeting::kVersion;
  own.flags = static_cast<uint8_t>(StreamGreeting::kMaps | (kBigEndianHost ? StreamGreeting::kBigEndian : 0));
  own.credits = htobe16(static_cast<uint16_t>(sizes_.receive_entries));
  own.mappings = scale_mappings(sizes_.mappings);
  own.targets = in_network_order({reinterpret_cast<uintptr_t>(lists_.at(0)), lists_.rkey(), kTargets});
  own.buffer =
      in_network_order({reinterpret_cast<uintptr_t>(receive_memory_.at(0)), receive_memory_.rkey(), half_});
  return own;
}

bool Conduit::take(const StreamGreeting& peer) {
  if (peer.version != StreamGreeting::kVersion) return false;
  peer_targets_ = in_host_order(peer.targets);
  if (peer_targets_.length == 0) return false;
  swapped_ = ((peer.flags & StreamGreeting::kBigEndian) != 0) != kBigEndianHost;
  if ((peer.flags & StreamGreeting::kMaps) != 0) {
    peer_mappings_ = peer_targets_;
    peer_mappings_.address += uint64_t{sizeof(RemotePiece)} * peer_targets_.length;
    peer_mappings_.length = unscale_mappings(peer.mappings);
    taken_mappings_.resize(peer_mappings_.length);
  }
  next_peer_target_ = 1 % peer_targets_.length;
  target_ = in_host_order(peer.buffer);
  next_target_ = 1;
  sendable_ = be16toh(peer.credits);
  return true;
}

void Conduit::open() { connected_ = readable_ = writable_ = true; }

bool Conduit::take_event() {
  ibv_cq* cq;
  void* context;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return false;
  ibv_ack_cq_events(cq, 1);
  armed_ = false;
  return true;
}

void Conduit::take_events() {
  while (take_event()) {
  }
}

bool Conduit::arm() {
  if (armed_ && !fired_) return false;
  const bool taken = armed_ && take_event();
  ibv_req_notify_cq(cq_, 0);
  armed_ = true;
  fired_ = false;
  return taken;
}

void Conduit::fail(int error) {
  if (error_ == 0) error_ = error;
  disconnect();
}

void Conduit::disconnect() {
  connected_ = readable_ = writable_ = false;
  ++edges_;
}

bool Conduit::can_send() {
  if (target_.length == 0) {
    // The peer writes an entry only after what it held before was filled; its length last.
    RemotePiece& next = targets()[next_target_];
    const uint32_t length = __atomic_load_n(&next.length, __ATOMIC_ACQUIRE);
    if (length == 0) return false;
    target_ = {next.address, next.key, length};
    __atomic_store_n(&next.length, 0, __ATOMIC_RELEASE);
    next_target_ = (next_target_ + 1) % kTargets;
  }
  return sends_in_flight_ + kControls < sizes_.send_entries &&
         send_free_ >= std::min(kLeastToSend, sizes_.send_bytes) && sent_ != sendable_;
}

bool Conduit::ends_group(uint32_t message) {
  constexpr uint32_t kMessages = 16;
  const bool data =
      message_of(message) == StreamMessage::kData || message_of(message) == StreamMessage::kDirect;
  ++group_messages_;
  if (data) group_bytes_ += value_of(message);
  const bool full = group_messages_ >= std::min(kMessages, sizes_.send_entries / 4) ||
                    group_bytes_ >= sizes_.send_bytes / 4;
  if (data && !full) return false;
  group_messages_ = group_bytes_ = 0;
  return true;
}

int Conduit::post(const Write& write, ibv_sge* pieces, int count, bool inline_data) {
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = first_unfinished_ + static_cast<uint32_t>(unfinished_.size());
  request.sg_list = pieces;
  request.num_sge = count;
  request.opcode = write.opcode;
  if (inline_data) request.send_flags |= IBV_SEND_INLINE;
  if (ends_group(write.message)) request.send_flags |= IBV_SEND_SIGNALED;
  request.imm_data = htobe32(write.message);
  request.wr.rdma.remote_addr = write.to.address;
  request.wr.rdma.rkey = write.to.key;
  unfinished_.push_back(write.message);
  const int error = ibv_post_send(id_.qp, &request, &refused);
  if (error == 0) return 0;
  unfinished_.pop_back();
  errno = error;
  return -1;
}

int Conduit::post_data(const Write& write, Gather& from, uint32_t bytes) {
  const uint32_t first = std::min(bytes, sizes_.send_bytes - send_at_);
  ibv_sge pieces[2] = {{reinterpret_cast<uintptr_t>(send_memory_.at(send_at_)), first, send_memory_.lkey()},
                       {reinterpret_cast<uintptr_t>(send_memory_.at(0)), bytes - first, send_memory_.lkey()}};
  from.read(send_memory_.at(send_at_), first);
  if (bytes > first) from.read(send_memory_.at(0), bytes - first);
  send_at_ = (send_at_ + bytes) % sizes_.send_bytes;
  send_free_ -= bytes;
  ++sends_in_flight_;
  return post(write, pieces, bytes > first ? 2 : 1, bytes <= inline_bytes_);
}

ssize_t Conduit::send(Gather& from, size_t bytes_max) {
  const auto bytes = static_cast<uint32_t>(std::min<size_t>({bytes_max, send_free_, target_.length}));
  const Write write{IBV_WR_RDMA_WRITE_WITH_IMM, stream_message(StreamMessage::kData, bytes), target_};
  ++sent_;
  target_.address += bytes;
  target_.length -= bytes;
  return post_data(write, from, bytes) == 0 ? bytes : -1;
}

size_t Conduit::receive(Gather& to, size_t bytes_max, bool leave_there) {
  const uint32_t size = 2 * half_;
  size_t done = 0, message = 0;
  uint32_t at = receive_at_;
  while (done < bytes_max && message < arrived_.size()) {
    const auto bytes = static_cast<uint32_t>(std::min<size_t>(bytes_max - done, arrived_[message]));
    const uint32_t first = std::min(bytes, size - at);
    to.write(receive_memory_.at(at), first);
    if (bytes > first) to.write(receive_memory_.at(0), bytes - first);
    at = (at + bytes) % size;
    done += bytes;
    if (leave_there) {
      ++message;
      continue;
    }
    arrived_.front() -= bytes;
    if (arrived_.front() > 0) break;
    arrived_.pop_front();
    ++received_;
  }
  if (leave_there) return done;
  receive_at_ = at;
  free_bytes_ += static_cast<uint32_t>(done);
  received_bytes_ -= static_cast<uint32_t>(done);
  return done;
}

void Conduit::control(StreamControl message) {
  ++controls_in_flight_;
  const Write write{IBV_WR_RDMA_WRITE_WITH_IMM,
                    stream_message(StreamMessage::kControl, static_cast<uint32_t>(message)),
                    {}};
  if (post(write, nullptr, 0, false) != 0) fail(errno);
}

RemotePiece Conduit::for_peer(const RemotePiece& own) const {
  return {swap_if(swapped_, own.address), swap_if(swapped_, own.key), swap_if(swapped_, own.length)};
}

bool Conduit::room_is_due() const {
  const bool messages = static_cast<int16_t>(received_ - due_at_) >= 0;
  return connected_ && can_control() && (free_bytes_ >= half_ || messages);
}

void Conduit::give_room() {
  if (!room_is_due()) return;
  ++controls_in_flight_;
  due_at_ = static_cast<uint16_t>(received_ + sizes_.receive_entries / 2);
  const auto until = static_cast<uint16_t>(received_ + sizes_.receive_entries);
  Write write{IBV_WR_RDMA_WRITE_WITH_IMM, stream_message(StreamMessage::kTargets, until), {}};
  if (free_bytes_ < half_) {
    if (post(write, nullptr, 0, false) != 0) fail(errno);
    return;
  }
  RemotePiece room =
      for_peer({reinterpret_cast<uintptr_t>(receive_memory_.at(free_at_)), receive_memory_.rkey(), half_});
  ibv_sge piece{reinterpret_cast<uintptr_t>(&room), sizeof room, 0};
  write.to = {peer_targets_.address + uint64_t{next_peer_target_} * sizeof(RemotePiece), peer_targets_.key,
              0};
  next_peer_target_ = (next_peer_target_ + 1) % peer_targets_.length;
  free_bytes_ -= half_;
  free_at_ = free_at_ == 0 ? half_ : 0;
  if (post(write, &piece, 1, true) != 0) fail(errno);
}

}  // namespace verbatim::rdmacm
