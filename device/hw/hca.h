// SPDX-License-Identifier: MIT
#pragma once

// The hardware interface: the line between the host side of a provider and a device.
//
// The host side allocates queue memory and doorbell records, writes work queue entries in the device's own
// format, updates the doorbell record and rings; it reads completion queue entries out of memory. Everything
// else goes through the typed commands below, which are the one implementation of control: a command mailbox
// (DEVX) is decoded into the same calls. No input may crash the device: commands refuse with an errno and a
// reason, queue memory is checked when it is decoded.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "engine/host.h"
#include "engine/qp_types.h"
#include "engine/steering.h"
#include "wire/link/channel.h"

namespace verbatim::hw {

using engine::AddressAttributes;
using engine::AsyncEvent;
using engine::FlowRule;
using engine::GidEntry;
using engine::QpAttributes;
using engine::QpState;
using engine::QpType;

/// Device objects as the host side sees them: a number in the device's space, and whose events they raise.
struct Pd {
  uint32_t number = 0;  ///< PD number
};
struct Mr {
  uint32_t lkey = 0;
  uint32_t rkey = 0;
};
struct Cq {
  uint32_t number = 0;    ///< CQN
  void* owner = nullptr;  ///< the host side's own object, handed back in events
  /// The host side may say no where nobody is going to read when its entries were written: to ask the clock
  /// is a good part of what an entry costs.
  std::atomic<bool> timed{true};
};
struct Srq {
  uint32_t number = 0;  ///< SRQN
  void* owner = nullptr;
};
struct Qp {
  uint32_t number = 0;  ///< QPN, 24 bits
  void* owner = nullptr;
};

/// Counts operations of queue pairs that have ended. The host side may set and add to the values.
struct CompletionCounter {
  uint32_t number = 0;
  std::atomic<uint64_t> succeeded{0}, failed{0};
};

/// Operations that a queue pair's completion counters tell apart; values are those of
/// IBV_QP_ATTACH_COMP_CNTR_OP_*.
enum CountedOperation : uint32_t {
  kCountSends = 1 << 0,
  kCountReceives = 1 << 1,
  kCountReads = 1 << 2,
  kCountRemoteReads = 1 << 3,
  kCountWrites = 1 << 4,
  kCountRemoteWrites = 1 << 5,
};
inline constexpr size_t kCountedOperations = 6;

/// Where a rule steers frames: to a raw packet queue pair, or to what a command has made.
struct FlowDestination {
  Qp* qp = nullptr;
  uint32_t tir = 0;  ///< number of what spreads them over a table of receive queues; 0: the queue pair counts
};

/// What an ESP action of rules does: AES-GCM with a 16-byte check value.
struct EspSpec {
  bool encrypts = false;     ///< frames that leave, else it decrypts those that arrive
  std::vector<uint8_t> key;  ///< 16 or 32 bytes
  std::array<uint8_t, 4> salt{};
  bool extended = false;       ///< sequence numbers have 64 bits, of which packets carry 32
  uint32_t sequence_high = 0;  ///< the others
  bool new_window = false;     ///< low numbers belong to the next 2^32
};

/// An ESP action, for hw::FlowRule::action.
class EspAction : public engine::FlowAction {
 public:
  virtual bool encrypts() const = 0;
  /// EINVAL: its sequence numbers are not extended.
  virtual Outcome change(uint32_t sequence_high, bool new_window) = 0;
};

/// Memory of this process that command mailboxes name.
struct Umem {
  uint32_t number = 0;
};

/// What memory of the device is for: programs, or one of the tables of packet steering.
enum class DmKind : uint8_t { kMemic, kSteering, kHeaderModify, kHeaderModifyPattern, kEncapsulation };

/// Memory of the device, which is memory of this process here.
struct Dm {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  uint64_t device_address = 0;  ///< where it lies in the device's own address space
  int file = -1;                ///< a file of which it is the beginning, for others to map; -1: there is none
};

/// Where an object to be imported comes from: another opened device, maybe of another process.
struct Origin {
  wire::Channel* process = nullptr;  ///< the way there; nullptr: it is this process
  uint32_t pd = 0;                   ///< number of the protection domain there
};

/// A region that was imported.
struct ImportedMr {
  Mr* mr = nullptr;
  uint64_t start = 0, length = 0;
  uint32_t access = 0;  ///< engine::Access
};

inline constexpr size_t kDmKinds = 5;

/// Where memory of a kind lies in the device's address space, and in what units it is given out.
struct DmRange {
  uint64_t start = 0;
  uint32_t log_bytes = 0, log_granularity = 0;
};

struct DmSpec {
  DmKind kind{};
  uint64_t bytes = 0;
  uint32_t log_alignment = 0;  ///< of the device's address
  /// Memory of the process alone, which nothing can be told of: for the child of a fork, whose device is its
  /// parent's.
  bool detached = false;
};

/// Queue memory. Unless it is revocable, it must stay mapped until the object is destroyed.
struct QueueMemory {
  void* base = nullptr;
  size_t bytes = 0;
  uint32_t entries = 0;     ///< power of two
  uint32_t stride = 0;      ///< bytes of an entry, power of two
  bool padded = false;      ///< completions of 128 bytes are written whole: their unused half, too
  bool compressed = false;  ///< runs of like completions may be told as a title and short entries
  /// Memory of a program that may take it away at any time: it and the doorbell record are reached through
  /// guarded copies (base/fault_copy.h).
  bool revocable = false;
};

struct CqSpec {
  QueueMemory ring;
  /// Doorbell record: big-endian 32-bit words; [0] consumer index, [1] arm (command and sequence), as the
  /// device defines.
  uint32_t* doorbell = nullptr;
  bool ignore_overrun = false;
  bool real_time = false;  ///< entries tell the wall clock: seconds << 32 | nanoseconds
  void* owner = nullptr;
};

struct SrqSpec {
  Pd* pd = nullptr;
  QueueMemory ring;
  uint32_t* doorbell = nullptr;  ///< [0] receive counter
  uint32_t sge_max = 1;
  uint32_t limit = 0;   ///< event when fewer entries are left; 0: none
  bool cyclic = false;  ///< entries follow one another; else each names the next
  bool bare = false;    ///< of cyclic ones: nothing is in front of the scatter list
  // Of one that XRC senders name.
  uint32_t xrcd = 0;        ///< number of its XRC domain; 0: it is none
  Cq* cq = nullptr;         ///< where what it receives completes
  uint32_t user_index = 0;  ///< echoed in these completions
  uint32_t tags =
      0;  ///< entries of its tag list; 0: it has none. With one it has completions of its own, too
  void* owner = nullptr;
};

struct QpSpec {
  QpType type{};
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  Srq* srq = nullptr;
  QueueMemory send;              ///< stride: the basic block
  QueueMemory receive;           ///< empty with an SRQ
  uint32_t* doorbell = nullptr;  ///< [0] receive counter, [1] send counter
  bool signal_all = false;       ///< sq_sig_all, where the device needs to know
  uint32_t user_index = 0;       ///< echoed in completions where the format carries it
  uint64_t access_key = 0;  ///< of a DC target, which has an SRQ and neither queues nor a doorbell record
  uint32_t errored_streams_max = 1;  ///< of a DC initiator: with so many failed streams it fails as a whole
  uint32_t xrcd = 0;                 ///< number of an XRC receiver's domain; it has nothing else
  bool deaf_to_itself = false;       ///< multicast that it sends does not come back to it
  engine::FrameWishes frames;        ///< of one that receives frames
  void* owner = nullptr;
};

struct MrSpec {
  Pd* pd = nullptr;
  uint64_t address = 0;  ///< in this process; with `dm` counted from its beginning
  uint64_t length = 0;   ///< bytes
  uint64_t start = 0;    ///< IOVA
  uint32_t access = 0;   ///< engine::Access
  Dm* dm = nullptr;
  uint32_t queue = 0;  ///< the queue pair that alone may use it; 0: all of them
};

struct UmemSpec {
  uint64_t address = 0;  ///< in this process
  uint64_t length = 0;   ///< bytes
  uint32_t access = 0;   ///< engine::Access
};

/// An element of the tree that decides who may send: queue pairs are attached to leaves.
struct SchedulingSpec {
  bool leaf = false;
  uint32_t parent = 0;    ///< number of an element that is no leaf; 0: none, it is a root
  uint32_t share = 0;     ///< weight among its siblings; nothing is scarce here that it would divide
  uint32_t max_mbps = 0;  ///< of all below it together, averaged; 0: no limit
};

/// What a queue pair has beside the attributes of the specification.
struct QpExtras {
  uint8_t lag_port = 0;          ///< physical port of a LAG that it sends from; 0: there is no LAG
  uint16_t udp_source_port = 0;  ///< to spread packets over paths of a network; 0: the device's choice
  /// Leaves of scheduling trees, 0: none. What it sends counts for the first; responses are as fast as
  /// requests ask.
  uint32_t request_leaf = 0, response_leaf = 0;
};

/// An entry of the table of rates.
struct PacingSpec {
  uint32_t rate_kbps = 0;
  uint32_t burst_bytes = 0, packet_bytes = 0;
  bool operator==(const PacingSpec&) const = default;
};

/// What ibv_query_device_ex and the like report. Only what works.
struct Limits {
  std::string firmware;    ///< "22.39.1002"
  uint64_t node_guid = 0;  ///< host order
  std::string
      data_direct_path;    ///< below /sys, of the function that reaches other devices' memory; empty: none
  uint32_t lag_ports = 0;  ///< physical ports behind the one that programs see; 0: one
  uint64_t max_mr_bytes = 0;
  DmRange dm[kDmKinds];  ///< by DmKind; log_bytes 0: none
  uint32_t log_dm_alignment_max = 0;
  uint32_t dm_operations = 0;       ///< bit n: map_dm_operation knows operation n
  uint32_t dm_operation_sizes = 0;  ///< bit n: for accesses of 2^n bytes
  uint32_t vendor_id = 0, vendor_part_id = 0, hardware_version = 0;
  uint32_t ece_vendor_id = 0;  ///< whose connection options (ECE) it knows; 0: nobody's
  uint32_t ece_options = 0;    ///< those that it offers
  uint32_t max_qp = 0, max_qp_wr = 0, max_sge = 0, max_sge_rd = 0, max_inline = 0;
  uint32_t max_cq = 0, max_cqe = 0, max_mr = 0, max_mw = 0, max_pd = 0, max_ah = 0;
  uint16_t max_cq_count = 0, max_cq_period_us = 0;  ///< of moderation
  uint32_t max_srq = 0, max_srq_wr = 0, max_srq_sge = 0;
  uint32_t max_qp_rd_atomic = 0, max_qp_init_rd_atomic = 0, max_res_rd_atomic = 0;
  uint32_t max_mcast_grp = 0, max_mcast_qp_attach = 0, max_total_mcast_qp_attach = 0;
  uint32_t max_wq = 0, max_wq_tables = 0, max_wq_table_size = 0;
  uint32_t max_pkeys = 0;
  uint32_t log_max_dci_streams = 0, log_max_dci_errored_streams = 0;
  uint32_t timestamp_khz = 0;
  uint32_t max_send_message_bytes = 0;
  uint32_t max_frame_bytes = 0;          ///< of an Ethernet port, without the FCS; 0: it takes no frames
  uint32_t log_segmented_bytes_max = 0;  ///< of a send that is cut into frames
  uint32_t log_max_scheduling_leaves = 0;
  uint32_t pacing_entries = 0, pacing_min_kbps = 0, pacing_max_kbps = 0;
  uint32_t max_tags = 0, max_tag_operations = 0, max_rendezvous_header_bytes = 0;
  uint32_t max_completion_counters = 0;
  uint32_t counted_operations = 0;  ///< CountedOperation
  uint8_t local_ack_delay = 0;      ///< a response takes up to 4.096 us * 2^this
  uint32_t completion_vectors = 1;  ///< event queues that the host side's completions are spread over
  uint32_t interrupt_vectors = 0;   ///< interrupts that event queues made by command may raise
};

struct PortState {
  bool active = true;
  uint32_t max_mtu = 4096, active_mtu = 1024;  ///< bytes
  uint32_t gid_entries = 0;
  uint32_t pkey_entries = 1;
  uint32_t other_partitions = 0;  ///< packets that this process has dropped for their P_Key
  uint16_t lid = 0;               ///< in the InfiniBand subnet; 0: the port is Ethernet
  uint16_t sm_lid = 0;            ///< of the subnet's manager
  bool is_infiniband() const { return lid != 0; }
  uint32_t speed_mbps = 100000;
};

/// An event as a program meets it that makes objects by command: the device's own event queue entry.
struct DeviceEvent {
  uint16_t type = 0;  ///< as the device numbers events
  const char* kind =
      "";  ///< of the object it is about, as the device's commands name it ("QP"); "": the device itself
  uint32_t number = 0;  ///< of that object
  std::array<uint8_t, 64> entry{};
};

/// Takes a device's events. Called from any thread, engine thread included, possibly with device locks held:
/// implementations queue, wake and return; they call nothing of the device.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_completion(Cq& cq) = 0;
  virtual void on_async(AsyncEvent event,
                        void* owner) = 0;  ///< owner: of the QP, CQ or SRQ; nullptr: port or device
  /// Of an object that a command made, or of the device: who wants entries of their own.
  virtual void on_device_event(const DeviceEvent& /*event*/) {}
  /// An armed event queue with this interrupt vector has something to read.
  virtual void on_interrupt(uint32_t /*vector*/) {}
};

/// One opened device. Thread safe, except that an object must not be used while it is destroyed.
/// Errors: EINVAL bad argument, ENOMEM out of memory or limit reached, EFAULT memory not accessible, EBUSY
/// still in use, EOPNOTSUPP not offered; the reason tells which argument and why.
class Hca {
 public:
  virtual ~Hca() = default;

  virtual const Limits& limits() const = 0;
  virtual PortState port() = 0;
  virtual GidEntry gid(uint32_t index) = 0;
  virtual Expected<uint16_t> pkey(uint32_t index) = 0;
  virtual uint64_t hardware_clock() = 0;  ///< ticks of limits().timestamp_khz

  virtual Expected<Pd*> create_pd() = 0;
  virtual Outcome destroy_pd(Pd*) = 0;
  /// A domain that stands for that one: in the same process they share their regions.
  virtual Expected<Pd*> import_pd(const Origin&) = 0;

  virtual Expected<Mr*> create_mr(const MrSpec&) = 0;
  /// Key that always faults-free discards writes and reads as zero.
  virtual Expected<Mr*> create_null_mr(Pd*) = 0;
  enum Rereg : uint32_t { kTranslation = 1, kPd = 2, kAccess = 4 };
  virtual Outcome modify_mr(Mr*, uint32_t rereg_mask, const MrSpec&) = 0;
  /// Returns when no peer can still touch the memory.
  virtual Outcome destroy_mr(Mr*) = 0;

  /// The region with that index (lkey >> 8) of the domain that `pd` stands for. Destroying what was imported
  /// leaves the original alone; when the original goes, accesses fail. ENOENT: there is none; EOPNOTSUPP: its
  /// kind or its memory cannot be shared.
  virtual Expected<ImportedMr> import_mr(Pd* pd, const Origin&, uint32_t index) = 0;

  virtual Expected<Dm*> create_dm(const DmSpec&) = 0;
  /// Memory that another opened device has, which lies in the file; takes the file over.
  virtual Expected<Dm*> import_dm(int file, uint64_t bytes) = 0;
  /// EBUSY: it is registered.
  virtual Outcome destroy_dm(Dm*) = 0;
  /// Addresses as long as the memory, at which loads and stores of the program carry out an operation of the
  /// device on it; the program unmaps them. EOPNOTSUPP: there is no such operation, or no way to see
  /// accesses.
  virtual Expected<void*> map_dm_operation(Dm*, uint32_t operation) = 0;

  virtual Expected<Cq*> create_cq(const CqSpec&) = 0;
  virtual Outcome destroy_cq(Cq*) = 0;
  /// Moves the CQ to a new ring: entries not yet consumed are carried over, then the old memory is not
  /// touched any more.
  virtual Outcome resize_cq(Cq*, const QueueMemory& ring) = 0;
  virtual Outcome moderate_cq(Cq*, uint16_t count, uint16_t period_us) = 0;
  /// The arm doorbell: reads the arm word of the doorbell record. The next matching completion raises an
  /// event, once.
  virtual void arm_cq(Cq*) = 0;
  /// The same when it was rung by a plain store and is seen late: completions that the arm word's consumer
  /// index does not cover raise the event at once. An arm word that has been taken in already does nothing.
  virtual void ring_arm(Cq*) = 0;

  /// The number of an XRC domain; all that are opened with the same identity are one, 0: it is its own.
  virtual Expected<uint32_t> create_xrcd(uint64_t identity) = 0;
  /// EBUSY: queues belong to it.
  virtual Outcome destroy_xrcd(uint32_t number) = 0;

  virtual Expected<Srq*> create_srq(const SrqSpec&) = 0;
  virtual Outcome destroy_srq(Srq*) = 0;
  virtual Outcome arm_srq(Srq*, uint32_t limit) = 0;
  virtual uint32_t srq_limit(Srq*) = 0;

  virtual Expected<Qp*> create_qp(const QpSpec&) = 0;
  virtual Outcome destroy_qp(Qp*) = 0;
  /// A number that no queue pair of the host has or gets until it is released.
  virtual Expected<uint32_t> reserve_qpn() = 0;
  virtual void release_qpn(uint32_t number) = 0;
  /// Checks the transition as the specification demands (EINVAL) and makes it. A reset also resets the
  /// device's queue indices; the host side then resets its own and the doorbell record.
  virtual Outcome modify_qp(Qp*, const QpAttributes&, uint32_t mask) = 0;
  virtual QpAttributes query_qp(Qp*) = 0;
  /// Of operations, or of their bytes. ENOMEM: there are max_completion_counters.
  virtual Expected<CompletionCounter*> create_completion_counter(bool of_bytes) = 0;
  /// EBUSY: queue pairs count with it.
  virtual Outcome destroy_completion_counter(CompletionCounter*) = 0;
  /// From now on until the queue pair is destroyed. EINVAL: it is beyond INIT, or `operations` names none;
  /// EBUSY: one of them has a counter; EOPNOTSUPP: this type of queue pair has none.
  virtual Outcome attach_completion_counter(Qp*, CompletionCounter*, uint32_t operations) = 0;
  /// Lets work of a failed stream of a DC initiator go again. EINVAL: it has not failed.
  virtual Outcome reset_stream(Qp*, uint16_t stream) = 0;
  /// Where the send queue of a queue pair in SQD goes on: the running index of the entry, as the device
  /// counts. EINVAL: it is in another state.
  virtual Expected<uint32_t> resting_send_position(Qp*) = 0;
  /// A signature error that a send queue meets sends it to SQD before the next entry, with an event.
  virtual void drain_on_signature_errors(Qp*) = 0;

  /// Its number.
  virtual Expected<uint32_t> create_scheduling_element(const SchedulingSpec&) = 0;
  enum Reschedule : uint32_t { kShare = 1, kRate = 2 };
  virtual Outcome modify_scheduling_element(uint32_t number, uint32_t mask, const SchedulingSpec&) = 0;
  /// EBUSY: elements or queue pairs are below it.
  virtual Outcome destroy_scheduling_element(uint32_t number) = 0;

  /// Index of an entry with this rate, from 1 on; one that is not dedicated is shared by all who ask for the
  /// same. ENOSPC: the table is full.
  virtual Expected<uint16_t> take_pacing(const PacingSpec&, bool dedicated) = 0;
  virtual Outcome give_back_pacing(uint16_t index) = 0;

  virtual QpExtras qp_extras(Qp*) = 0;
  enum QpExtra : uint32_t { kLagPort = 1, kUdpSourcePort = 2, kLeaves = 4 };
  /// EOPNOTSUPP: the device has no such thing, or the queue pair is in another state than RTS (with leaves:
  /// or INIT).
  virtual Outcome change_qp(Qp*, uint32_t mask, const QpExtras&) = 0;

  virtual Outcome attach_multicast(Qp*, const Gid&) = 0;
  virtual Outcome detach_multicast(Qp*, const Gid&) = 0;

  /// Steers frames of the port; the number of the rule, which goes with the queue pair.
  virtual Expected<uint32_t> create_flow(const FlowDestination&, const FlowRule&) = 0;
  virtual Outcome destroy_flow(uint32_t number) = 0;
  /// EINVAL: keys have not such a size.
  virtual Expected<std::shared_ptr<EspAction>> create_esp_action(const EspSpec&) = 0;

  /// The send doorbell: the doorbell record's send counter has moved. Runs the queue on the calling thread,
  /// up to a bounded amount of work; the rest is done by poll and by the engine thread.
  virtual void ring_send(Qp*) = 0;
  /// Grows whenever a program thread looks for completions, found ones included (poll counts itself): the
  /// device's own thread stays away from what such a program is about to do. Relaxed; a lost update does not
  /// matter.
  virtual std::atomic<uint32_t>& program_polls() = 0;
  /// Drains what has arrived for this process. Cheap when nothing has.
  virtual void poll() = 0;

  /// Records a refusal in words for `verbatim explain`; its status is engine::kRefusal with an errno value.
  virtual void explain(uint32_t qpn, int status, const char* text) = 0;

  /// What the host has learned of the port or of its addresses, for the host side and for event queues.
  virtual void port_event(AsyncEvent event) = 0;

  /// Its place in the list of devices.
  virtual uint32_t place() const = 0;
  /// What somebody has asked for happens to the device or its port, which is as Host::port_setting says now.
  /// kDeviceFatal: all queue pairs fail, and commands do from now on, but for those that destroy.
  virtual void raise(AsyncEvent event) = 0;

  /// The host side's program has the device for itself: the port is at its command, and down at first if it
  /// says so.
  virtual void take_over_port(bool down) = 0;

  /// The number of the event queue behind a completion vector. EINVAL: there is no such vector.
  virtual Expected<uint32_t> event_queue(uint32_t vector) = 0;
  /// A program has stored these 8 bytes at an offset of the UAR page of that number (hw::RawDoorbells).
  virtual void ring_register(uint32_t page, uint32_t offset, uint64_t bytes) = 0;

  /// Memory that commands can name; it must stay mapped. EFAULT: it is not mapped with these rights.
  virtual Expected<Umem*> create_umem(const UmemSpec&) = 0;
  /// EBUSY: objects still lie in it.
  virtual Outcome destroy_umem(Umem*) = 0;
  /// The user context that the mailboxes of the host side's program are sent from.
  static constexpr uint16_t kUserContext = 1;
  /// Carries out a command mailbox of the device's own format, for the user context that it names. `out` says
  /// how it ended; a refusal is also kept for `verbatim explain`.
  virtual void execute(std::span<const uint8_t> in, std::span<uint8_t> out) = 0;
};

}  // namespace verbatim::hw
