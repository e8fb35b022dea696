// SPDX-License-Identifier: MIT
#pragma once

#include <sys/uio.h>

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "lib/rdmacm/public.h"
#include "lib/rdmacm/rsocket_wire.h"

namespace verbatim::rdmacm {

inline constexpr uint32_t kEntriesMax = 0xfffe, kEntriesMin = 16;
inline constexpr uint32_t kBufferMin = 4096, kBufferMax = INT32_MAX & ~1;
inline constexpr uint32_t kMappingsMax = 0x7fff;

/// What a socket asks of its queue pair; options change it before the connection is made.
struct StreamSizes {
  uint32_t send_bytes = 1 << 17, receive_bytes = 1 << 17;
  uint32_t send_entries = 384, receive_entries = 384;
  uint32_t inline_bytes = 64;
  uint32_t mappings = 0;
};

/// Memory of whole pages, registered.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  ~RegisteredMemory() { release(); }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  /// False with errno set.
  bool make(ibv_pd* pd, size_t bytes, int access);
  void release();
  uint8_t* at(size_t offset) const { return start_ + offset; }
  uint32_t lkey() const { return region_->lkey; }
  uint32_t rkey() const { return region_->rkey; }

 private:
  uint8_t* start_ = nullptr;
  size_t bytes_ = 0;
  ibv_mr* region_ = nullptr;
};

/// Walks through the bytes of an array of buffers.
class Gather {
 public:
  Gather(const iovec* pieces, int count) : piece_(pieces), end_(pieces + count) {}
  void read(uint8_t* to, size_t bytes);
  void write(const uint8_t* from, size_t bytes);
  static size_t bytes_of(const iovec* pieces, int count);

 private:
  template <class Move>
  void walk(size_t bytes, Move move);
  const iovec *piece_, *end_;
  size_t done_ = 0;  ///< of *piece_
};

/// The connection of a stream socket: a queue pair, its buffers, and what is known of the peer's. Its
/// socket's lock guards it. Nothing here waits.
class Conduit {
 public:
  /// Makes the queue pair of `id` with all its receives posted; null with errno set.
  static std::unique_ptr<Conduit> make(rdma_cm_id& id, const StreamSizes& sizes);
  ~Conduit();

  StreamGreeting greeting() const;
  /// False: of another version.
  bool take(const StreamGreeting& peer);
  /// The connection stands.
  void open();

  /// Takes in what has arrived or ended, and tells the peer of room.
  void drain();
  /// The next completion makes an event. True: an earlier one was taken off the channel for that, which
  /// others may be waiting for.
  bool arm();
  ibv_comp_channel* events() const { return channel_; }
  /// Takes the events of the completion queue off its channel.
  void take_events();

  // How it stands.
  uint64_t edges() const { return edges_; }
  bool is_connected() const { return connected_; }
  bool is_readable() const { return readable_; }
  bool is_writable() const { return writable_; }
  int error() const { return error_; }
  bool has_data() const { return !arrived_.empty(); }
  bool can_send();
  bool can_control() const { return controls_in_flight_ < kControls; }
  bool all_sent() const { return sends_in_flight_ == 0 && controls_in_flight_ == 0; }

  /// Sends `bytes_max` of the program's at most, as one message; the bytes, or -1 with errno set. can_send()
  /// first.
  ssize_t send(Gather& from, size_t bytes_max);
  /// The same into a mapping of the peer's; 0: there is none at this offset.
  ssize_t send_to_mapping(Gather& from, size_t bytes_max, uint64_t offset);
  /// Hands out what has arrived.
  size_t receive(Gather& to, size_t bytes_max, bool leave_there);
  void control(StreamControl message);

  void stop_reading() { readable_ = false; }
  void stop_writing() { writable_ = false; }
  /// The peer or its host has gone; what has arrived can still be read.
  void disconnect();

  /// Mappings of the program's memory. -1 with errno set.
  off_t map(void* start, size_t bytes, int prot, off_t offset);
  int unmap(void* start, size_t bytes);
  bool has_news_of_mappings() const { return !untold_.empty(); }
  /// Tells the peer of one; can_send() first.
  int tell_of_mapping();

  uint32_t inline_bytes() const { return inline_bytes_; }

 private:
  static constexpr uint32_t kControls = 4;  ///< in flight at a time
  static constexpr uint32_t kLeastToSend = 2048;

  struct LocalMapping {
    ibv_mr* region = nullptr;
    uint64_t offset = 0;
    int index = -1;  ///< in the peer's list; -1: local
  };

  Conduit(rdma_cm_id& id, const StreamSizes& sizes) : id_(id), sizes_(sizes) {}
  bool make_queue_pair();
  bool make_buffers();
  bool post_receive();
  void take_receive(const ibv_wc& completion);
  void take_message(uint32_t immediate);
  void take_data(uint32_t bytes);
  void take_control(StreamControl message);
  void take_send(const ibv_wc& completion);
  void finish(uint32_t message);
  bool take_event();
  void fail(int error);
  void give_room();
  bool room_is_due() const;
  RemotePiece for_peer(const RemotePiece& own) const;
  const RemoteMapping* find_mapping(uint64_t offset) const;

  struct Write {
    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    uint32_t message = 0;
    RemotePiece to{};
  };
  int post(const Write& write, ibv_sge* pieces, int count, bool inline_data);
  /// Whether its completion is to be told, and that of those before it with it.
  bool ends_group(uint32_t message);
  /// Copies the program's bytes into the send buffer and posts them; 0, or -1 with errno set.
  int post_data(const Write& write, Gather& from, uint32_t bytes);

  rdma_cm_id& id_;
  StreamSizes sizes_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  uint32_t inline_bytes_ = 0;
  bool armed_ = false, fired_ = false;  ///< fired: a completion since then has made an event, or is about to

  bool connected_ = false, readable_ = false, writable_ = false;
  int error_ = 0;
  uint64_t edges_ = 1;  ///< counts what may have made something possible

  // Sending.
  RegisteredMemory send_memory_;
  uint32_t send_at_ = 0, send_free_ = 0;
  uint32_t sends_in_flight_ = 0, controls_in_flight_ = 0;
  uint16_t sent_ = 0, sendable_ = 0;  ///< numbers of messages
  // Completions are told for the last of some messages: each that is takes an acknowledgement of its own.
  std::deque<uint32_t> unfinished_;  ///< messages in the send queue, in order
  uint32_t first_unfinished_ = 0;    ///< its number
  uint32_t group_messages_ = 0, group_bytes_ = 0;
  RemotePiece target_{};  ///< what is left of the one in use
  uint32_t next_target_ = 0;

  // Lists that the peer writes to.
  RegisteredMemory lists_;
  RemotePiece* targets() const { return reinterpret_cast<RemotePiece*>(lists_.at(0)); }
  const RemoteMapping* mappings() const {
    return reinterpret_cast<const RemoteMapping*>(lists_.at(kTargets * sizeof(RemotePiece)));
  }

  // Receiving.
  RegisteredMemory receive_memory_;
  std::deque<uint32_t> arrived_;  ///< bytes of each message
  uint32_t receive_at_ = 0;       ///< where the first of them lies
  uint32_t half_ = 0, free_at_ = 0, free_bytes_ = 0;
  uint16_t received_ = 0, due_at_ = 0;
  uint32_t received_bytes_ = 0;  ///< that nobody has read

  // The peer's lists.
  bool swapped_ = false;
  RemotePiece peer_targets_{}, peer_mappings_{};
  uint32_t next_peer_target_ = 1;
  std::vector<bool> taken_mappings_;
  std::list<LocalMapping> told_, untold_;
};

}  // namespace verbatim::rdmacm
