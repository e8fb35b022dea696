// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include <memory>

#include "base/expected.h"
#include "device/connectx/prm/object_store.h"
#include "device/connectx/prm/protection_unit.h"
#include "device/connectx/prm/queue_unit.h"
#include "device/hw/hca.h"

namespace verbatim::prm {

class RawQueueBody;
struct RawQueueSpec;

/// Memory keys that stand for no memory of a program; 0 where the device has none.
struct SpecialKeys {
  uint32_t reserved_lkey = 0;           ///< all memory, for the owner of the device
  uint32_t null_mkey = 0;               ///< reads zeros, discards writes
  uint32_t dump_fill_mkey = 0;          ///< as null_mkey, for received data that nobody wants
  uint32_t terminate_scatter_list = 0;  ///< ends a scatter list
  uint32_t repeated_mkey = 0;           ///< repeats an interleaved entry
};

/// A queue pair as QUERY_QP shows it.
struct QpFacts {
  hw::QpType type{};
  hw::QpAttributes attributes;
  hw::QpExtras extras{};
  uint32_t pd = 0, send_cqn = 0, receive_cqn = 0;
  uint32_t srqn = 0;  ///< 0: it has a receive queue of its own, or none
  uint32_t xrcd = 0;  ///< of an XRC receiver
  uint32_t user_index = 0;
  uint32_t log_send_blocks = 0, log_receive_entries = 0, receive_stride = 0;
  bool sends = false;  ///< it has a send queue
  uint32_t uar = 0;    ///< like what follows, of one that a command made
  Place doorbell;
  bool in_umems = false;
};

/// A memory key over a part of a umem, or one that stands for ranges of other keys (engine::kIndirect).
struct MkeySpec {
  uint32_t pd = 0;
  uint32_t access = 0;  ///< engine::Access, and what makes a key more (engine/status.h)
  uint8_t variant = 0;  ///< low byte of the key, chosen by the program
  uint32_t queue = 0;   ///< the queue pair that alone may use it; 0: all of them
  uint64_t start = 0;   ///< address of its first byte, as work requests name it
  uint64_t length = 0;  ///< bytes
  uint32_t umem = 0;
  uint64_t umem_offset = 0;
  // Of an indirect key.
  uint32_t room = 0;           ///< entries that its list may have
  uint8_t log_entry_size = 0;  ///< bytes of each entry; 0: each says its own
  bool protectable = false;    ///< it may be given signatures or encryption
  bool encrypts = false;       ///< and is of no use without the latter
  std::vector<uint8_t> list;   ///< as it lies in mailboxes and queue entries, 16 bytes an entry
};

/// What queue pairs have counted.
struct QueueCounts {
  uint64_t rnr_naks = 0;      ///< answers that the peer had no receive request
  uint64_t ack_timeouts = 0;  ///< waits for an answer in vain
};

/// What has gone through the port. A message within the host is one packet.
struct PortCounts {
  uint64_t sent_packets = 0, sent_bytes = 0, received_packets = 0, received_bytes = 0;
};

/// The device as commands meet it: objects have numbers, and belong to the user context that made them.
/// Implementations are thread safe. Errors: ENOENT a number that the uid has no object of, EBUSY still in
/// use, ENOMEM none left, EINVAL bad argument; the reason names the argument.
class CommandUnit : public QueueUnit {
 public:
  virtual const hw::Limits& limits() const = 0;
  virtual hw::PortState port() = 0;
  /// An entry of the GID table; zero beyond its end.
  virtual hw::GidEntry gid(uint32_t index) = 0;
  virtual Expected<uint16_t> pkey(uint32_t index) = 0;
  /// The port is to be up, if it is the program's own.
  virtual void train_link() = 0;
  virtual SpecialKeys special_keys() = 0;
  virtual ProtectionUnit& protection() = 0;

  virtual Expected<uint32_t> alloc_pd(uint16_t uid) = 0;
  virtual Outcome dealloc_pd(uint16_t uid, uint32_t pd) = 0;
  /// A UAR page that programs ring on.
  virtual Expected<uint32_t> alloc_uar(uint16_t uid) = 0;
  virtual Outcome dealloc_uar(uint16_t uid, uint32_t uar) = 0;
  /// Whether a user context exists.
  virtual bool has_user_context(uint16_t uid) = 0;
  /// Whether something of the device is a user context's, apart from objects().
  virtual bool has_objects_of(uint16_t uid) = 0;
  /// The objects that are contexts with references.
  virtual ObjectStore& objects() = 0;
  /// Memory of this process that commands name.
  virtual Expected<uint32_t> create_umem(uint16_t uid, const hw::UmemSpec& spec) = 0;
  virtual Outcome destroy_umem(uint16_t uid, uint32_t umem) = 0;
  /// What works behind a queue whose umems and completion queue are there and stay; EINVAL: it does not fit
  /// its umems.
  virtual Expected<std::unique_ptr<RawQueueBody>> make_raw_queue(const RawQueueSpec& spec) = 0;

  /// Whether the table of rates has an entry with this index.
  virtual bool has_rate(uint16_t index) = 0;

  /// The queue pair counts for that set from now on. ENOENT: there is no such set.
  virtual Outcome count_in(uint16_t uid, uint32_t qpn, uint32_t set) = 0;
  /// Of the queue pairs of a set, 0 being that of all others. With `clear`, from 0 again afterwards.
  virtual Expected<QueueCounts> queue_counts(uint16_t uid, uint32_t set, bool clear) = 0;
  virtual PortCounts port_counts(bool clear) = 0;

  virtual Expected<QpFacts> query_qp(uint16_t uid, uint32_t qpn) = 0;
  /// As hw::Hca::modify_qp.
  virtual Outcome modify_qp(uint16_t uid, uint32_t qpn, const hw::QpAttributes& attributes,
                            uint32_t mask) = 0;
  /// As hw::Hca::reset_stream.
  virtual Outcome reset_stream(uint16_t uid, uint32_t qpn, uint16_t stream) = 0;

  /// As hw::Hca::change_qp.
  virtual Outcome change_qp(uint16_t uid, uint32_t qpn, uint32_t mask, const hw::QpExtras& extras) = 0;

  /// As hw::Hca; ENOENT: the user context has no such element.
  virtual Expected<uint32_t> create_scheduling_element(uint16_t uid, const hw::SchedulingSpec& spec) = 0;
  virtual Outcome modify_scheduling_element(uint16_t uid, uint32_t number, uint32_t mask,
                                            const hw::SchedulingSpec& spec) = 0;
  virtual Outcome destroy_scheduling_element(uint16_t uid, uint32_t number) = 0;

  /// Its index: the key is that << 8 | variant. EINVAL: beyond the umem, or without the umem's rights.
  virtual Expected<uint32_t> create_mkey(uint16_t uid, const MkeySpec& spec) = 0;
  /// As work requests have left it; no more of the list than a mailbox shows.
  virtual Expected<MkeySpec> query_mkey(uint16_t uid, uint32_t index) = 0;
  virtual Outcome destroy_mkey(uint16_t uid, uint32_t index) = 0;
};

}  // namespace verbatim::prm
