// SPDX-License-Identifier: MIT
#pragma once

// The host side of a ConnectX: queues as a program fills and reads them. It knows the formats of the entries
// and the doorbell records; everything else is said to the device through hw::Hca.
//
// A send queue is a ring of 64-byte blocks. Its counters run freely: `head` counts posted work requests,
// `block` the blocks they took, `tail` the work requests known to have completed. Beside each block lies a
// SendSlot, looked up by the block index that a completion carries.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/spinlock.h"
#include "device/connectx/formats.h"
#include "device/hw/hca.h"
#include "lib/ibverbs/provider.h"
#include "lib/mlx5/devx_events.h"
#include "lib/mlx5/interrupts.h"
#include "lib/mlx5/public.h"
#include "lib/mlx5/queue_memory.h"

namespace verbatim::mlx5 {

struct CompletionQueue;
struct MemoryKey;
struct MemoryWindow;
struct QueuePair;
struct SharedReceiveQueue;
class TagList;

inline constexpr uint32_t kBlock = connectx::kBasicBlock;
inline constexpr uint32_t kUnit = connectx::kSegmentUnit;
inline constexpr uint32_t kDescriptorBytesMax = 1024;  ///< of one send work queue entry
inline constexpr uint32_t kUnitsMax = 63;              ///< that its size can say
inline constexpr uint32_t kSendBlocksMax = 1u << 15;   ///< of one send queue

/// Queue pairs by the user index that completions carry, in chunks that are made as needed. Look-ups take no
/// lock.
class QueuePairTable {
 public:
  QueuePairTable();
  ~QueuePairTable();
  QueuePairTable(const QueuePairTable&) = delete;
  /// Gives the queue pair an index. False: all are taken, or no memory.
  bool add(QueuePair& qp, uint32_t& index);
  void remove(uint32_t index);
  /// Whether one of them has this number.
  bool holds_number(uint32_t qpn);
  /// The same of all tables of the process.
  static bool any_holds_number(uint32_t qpn);
  QueuePair* find(uint32_t index) const {
    const auto* chunk = chunks_[index >> kChunkBits & (kChunks - 1)].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk[index & (kChunkEntries - 1)].load(std::memory_order_acquire) : nullptr;
  }

 private:
  static constexpr uint32_t kChunkBits = 10, kChunkEntries = 1u << kChunkBits, kChunks = 1u << 10;
  std::atomic<std::atomic<QueuePair*>*> chunks_[kChunks] = {};
  std::mutex lock_;
  std::vector<uint32_t> free_;
  uint32_t next_ = 1;
};

/// What this library keeps of an opened device.
struct ContextState {
  QueuePairTable queue_pairs;
  std::mutex lock;                     ///< of what follows, which has none of its own
  std::byte* doorbell_page = nullptr;  ///< UAR page of raw queues, once there are some
  mlx5dv_ctx_allocators allocators{};
  std::vector<uint32_t> reserved_qpns;
  uint32_t transport_domain = 0;  ///< of queue pairs with a table of work queues, once there are some
  std::mutex crypto_lock;         ///< of the next
  uint32_t crypto_session = 0;    ///< login of mlx5dv_crypto_login; 0: none
  SpinLock signature_lock;        ///< of the next, and of the errors of those keys
  std::unordered_map<uint32_t, MemoryKey*> signature_keys;  ///< by index
  std::mutex windows_lock;                                  ///< of the next
  std::unordered_set<MemoryWindow*> windows;
  std::mutex work_queues_lock;                                  ///< of the next
  std::unordered_map<uint32_t, verbs::WorkQueue*> work_queues;  ///< by number
  std::vector<std::byte*> kept_pages;  ///< UAR pages that were freed while queues still rang there
  devx::Interrupts interrupts;
  std::shared_ptr<devx::Subscriptions> subscriptions = std::make_shared<devx::Subscriptions>();
  static ContextState& of(verbs::Context& context) { return *find(context); }
  /// nullptr before the device is opened.
  static ContextState* find(verbs::Context& context) {
    return static_cast<ContextState*>(context.provider_data.load(std::memory_order_acquire));
  }
};

/// The memory of a completion queue. A queue that is resized keeps its former rings: a thread may be looking
/// at one without the lock. Rings of a size are used again.
struct CompletionRing {
  QueueMemory memory;
  std::byte* base = nullptr;  ///< of the first entry's last 64 bytes, which are the completion
  uint32_t entries = 0;       ///< power of two
  uint32_t stride_shift = 6;  ///< 6 or 7: entries of 64 or 128 bytes

  uint32_t stride() const { return 1u << stride_shift; }
  connectx::Cqe* entry(uint32_t index) const {
    return reinterpret_cast<connectx::Cqe*>(base +
                                            (static_cast<size_t>(index & (entries - 1)) << stride_shift));
  }
  /// The entry at running index `index` if the device has written it; nullptr otherwise.
  connectx::Cqe* written(uint32_t index) const {
    connectx::Cqe* cqe = entry(index);
    const uint8_t last = __atomic_load_n(&cqe->opcode_owner, __ATOMIC_ACQUIRE);
    const bool own = ((last ^ ((index & entries) != 0 ? 1 : 0)) & 1) == 0;
    return own && last >> 4 != connectx::kCqeInvalid ? cqe : nullptr;
  }
};

struct CompletionQueue : verbs::CompletionQueue {
  SpinLock lock;
  uint32_t consumed = 0;  ///< running index of the next entry to read
  std::atomic<const CompletionRing*> ring{nullptr};
  uint32_t* doorbell = nullptr;
  hw::Hca* hca = nullptr;
  std::atomic<uint32_t>* polls = nullptr;  ///< see hw::Hca::program_polls
  QueuePairTable* queue_pairs = nullptr;
  QueuePair* last_qp = nullptr;  ///< of the entry read last; most completions come in runs
  uint32_t last_index = 0;
  uint32_t special = 0;        ///< of the entry read last, see SendSlot
  ibv_wc_status tag_status{};  ///< of the entry read last, if it is about tag matching, and so the next
  unsigned int tag_flags = 0;
  uint32_t arm_sequence = 0;
  uint32_t stride_shift = 6;               ///< of its rings
  bool padded = false;                     ///< their entries are written whole
  bool compressed = false;                 ///< and may be told together
  std::atomic<bool> exposed{false};        ///< a program reads it by itself and arms it by plain stores
  const connectx::Cqe* current = nullptr;  ///< of an extended queue between start_poll and end_poll
  QueuePair* current_qp = nullptr;
  uint64_t clock_khz = 0;
  bool real_time = false;                              ///< its entries tell the wall clock
  std::vector<std::unique_ptr<CompletionRing>> rings;  ///< the present one and former ones
  DoorbellRecord record;
  verbs::ProtectionDomain* domain = nullptr;  ///< with allocators, or nullptr

  static CompletionQueue& of(ibv_cq* cq) {
    return *static_cast<CompletionQueue*>(verbs::CompletionQueue::of(cq));
  }
  static CompletionQueue& of(ibv_cq_ex* cq) {
    return *static_cast<CompletionQueue*>(verbs::CompletionQueue::of(cq));
  }

  /// With the lock held.
  uint32_t entries() const { return ring.load(std::memory_order_relaxed)->entries; }
  connectx::Cqe* entry(uint32_t index) const { return ring.load(std::memory_order_relaxed)->entry(index); }
  connectx::Cqe* written(uint32_t index);
  /// Without it: whether there seems to be something to read.
  bool seems_written() const {
    return ring.load(std::memory_order_acquire)->written(__atomic_load_n(&consumed, __ATOMIC_RELAXED)) !=
           nullptr;
  }
  void note_poll() { polls->store(polls->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Tells the device how far it may write.
  void publish_consumed() {
    const connectx::Be32 word(consumed & connectx::kCqIndexMask);
    __atomic_store_n(&doorbell[0], word.raw(), __ATOMIC_RELEASE);
  }
};

/// Puts completions that were told together into their places, beginning with the one at this running index.
/// With the lock held.
void expand_completions(CompletionQueue& cq, uint32_t index);

inline connectx::Cqe* CompletionQueue::written(uint32_t index) {
  connectx::Cqe* cqe = ring.load(std::memory_order_relaxed)->written(index);
  if (cqe != nullptr && (cqe->opcode_owner & connectx::kCqeCompressed) == connectx::kCqeCompressed)
    expand_completions(*this, index);
  return cqe;
}

/// Beside a block of the send queue where a work request begins.
struct SendSlot {
  uint64_t wr_id;
  uint32_t completed;  ///< `tail` once it has completed
  uint32_t special;  ///< ibv_wc_opcode of its completion, where the opcode in the entry does not tell; else 0
};

/// Which end of DC a queue pair is.
enum class DcRole : uint8_t { kNone, kInitiator, kTarget };

struct QueuePair : verbs::QueuePair {
  // Send queue.
  SpinLock send_lock;
  uint32_t head = 0;
  uint32_t block = 0;
  std::atomic<uint32_t> tail{0};
  uint32_t depth = 0;   ///< work requests that fit
  uint32_t blocks = 0;  ///< power of two, 0: no send queue
  std::byte* send_ring = nullptr;
  SendSlot* slots = nullptr;
  uint32_t* doorbell = nullptr;
  hw::Hca* hca = nullptr;
  uint32_t number = 0;
  uint32_t user_index = 0;
  uint32_t max_inline = 0;
  uint32_t max_send_sge = 0;
  uint16_t opcodes = 0;      ///< bit IBV_WR_x: ibv_post_send takes it; none before RTS
  uint8_t always_flags = 0;  ///< signal every work request
  bool addressed = false;    ///< each work request begins with an address: UD and DC initiators
  bool frames = false;       ///< each is an Ethernet frame: raw packets
  uint32_t max_header = 0;   ///< bytes in front of what one has cut into frames
  bool xrc = false;          ///< each names a shared receive queue first
  bool started = false;      ///< RTS was reached: batches may be built
  DcRole dc = DcRole::kNone;
  bool fence_next = false;           ///< after a local operation
  std::atomic<bool> exposed{false};  ///< its doorbell is rung by plain stores, too
  // Batch under construction by the ibv_wr_ calls; see builders.cpp.
  struct Batch {
    int error = 0;
    uint32_t count = 0;        ///< work requests begun
    uint32_t first_block = 0;  ///< `block` before the batch
    bool fence_next = false;   ///< `fence_next` before it
    uint32_t units = 0;        ///< of the work request under construction; 0: none
    std::byte* at = nullptr;   ///< where its next segment goes
    // Of a memory key update under construction; see key_builders.cpp.
    MemoryKey* key = nullptr;
    uint32_t setters = 0;  ///< that must still follow
  } batch;
  /// What direct verbs build with.
  struct Direct {
    mlx5dv_qp_ex ex{};
    QueuePair* owner = nullptr;
  };
  std::atomic<Direct*> direct{nullptr};  ///< once it was asked for
  // Receive queue.
  SpinLock receive_lock;
  uint32_t receive_head = 0;
  std::atomic<uint32_t> receive_tail{0};
  uint32_t receive_entries = 0;  ///< power of two, 0: none, or an SRQ
  uint32_t receive_stride = 0;
  uint32_t max_receive_sge = 0;
  uint32_t strides = 0;         ///< an entry is of so many, for frames that share it; 0: of one message
  uint32_t strides_used = 0;    ///< of the oldest entry, as completions have told
  bool takes_receives = false;  ///< from INIT on
  std::byte* receive_ring = nullptr;
  uint64_t* receive_ids = nullptr;
  SharedReceiveQueue* srq = nullptr;
  QueueMemory memory;
  DoorbellRecord record;
  std::unique_ptr<SendSlot[]> slot_storage;
  std::unique_ptr<uint64_t[]> id_storage;

  QueuePair() = default;
  ~QueuePair() { delete direct.load(std::memory_order_relaxed); }
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  /// Makes `direct`, or finds it; nullptr: no memory.
  Direct* need_direct();

  static QueuePair& of(ibv_qp* qp) { return *static_cast<QueuePair*>(verbs::QueuePair::of(qp)); }
  static QueuePair& of(ibv_qp_ex* qp) { return of(&qp->qp_base); }
  static QueuePair& of(mlx5dv_qp_ex* qp) { return *reinterpret_cast<Direct*>(qp)->owner; }

  /// Its entries say where their message goes.
  bool has_way() const { return addressed || frames || xrc; }
  std::byte* send_end() const { return send_ring + static_cast<size_t>(blocks) * kBlock; }
  std::byte* block_at(uint32_t index) const {
    return send_ring + static_cast<size_t>(index & (blocks - 1)) * kBlock;
  }
  bool send_full(uint32_t waiting) const {
    return head + waiting - tail.load(std::memory_order_acquire) >= depth;
  }
  /// Where one of its completions says that it was received: an entry for a shared receive queue of an XRC
  /// domain tells which queue pair that was.
  uint32_t number_in(const connectx::Cqe& cqe) const {
    return number != 0 || srq == nullptr ? number : cqe.opcode_qpn & 0xffffff;
  }
  /// The doorbell record, after all entries it covers are written. Then ring with hca->ring_send.
  void publish_send() {
    const connectx::Be32 word(block & 0xffff);
    __atomic_store_n(&doorbell[connectx::kSendDoorbell], word.raw(), __ATOMIC_RELEASE);
  }
};

struct SharedReceiveQueue : verbs::SharedReceiveQueue {
  SpinLock lock;
  uint32_t head = 0;  ///< first free entry
  uint32_t tail = 0;  ///< last free entry; never used, so that the device always finds a link
  uint16_t counter = 0;
  uint32_t entries = 0;
  uint32_t stride = 0;
  std::byte* ring = nullptr;
  uint32_t* doorbell = nullptr;
  std::unique_ptr<uint64_t[]> ids;
  QueueMemory memory;
  DoorbellRecord record;
  std::atomic<uint32_t> queue_pairs{0};  ///< that receive into it
  // Of one in an XRC domain, or with a tag list, which has completions of its own.
  std::unique_ptr<QueuePair> receives;
  CompletionQueue* cq = nullptr;
  std::unique_ptr<TagList> tags;

  SharedReceiveQueue();
  ~SharedReceiveQueue();
  static SharedReceiveQueue& of(ibv_srq* srq) {
    return *static_cast<SharedReceiveQueue*>(verbs::SharedReceiveQueue::of(srq));
  }
  connectx::SharedNextSegment* link_at(uint32_t index) const {
    return reinterpret_cast<connectx::SharedNextSegment*>(ring + static_cast<size_t>(index) * stride);
  }
  /// Puts an entry that the device has used back on the free list.
  void release(uint32_t index) {
    const std::lock_guard guard(lock);
    link_at(tail)->next_index = static_cast<uint16_t>(index);
    tail = index;
  }
};

/// A work queue of its own is the receive side of a queue pair that has nothing else: completions find it as
/// such.
struct WorkQueue : verbs::WorkQueue {
  QueuePair receives;
  uint32_t entry_offset = 0;  ///< of an entry's elements
  hw::Umem* ring_umem = nullptr;
  hw::Umem* record_umem = nullptr;

  static WorkQueue& of(ibv_wq* wq) { return *static_cast<WorkQueue*>(verbs::WorkQueue::of(wq)); }
};

struct AddressHandle : verbs::AddressHandle {
  connectx::DatagramSegment vector{};
  std::atomic<bool> mapped{false};  ///< to a queue pair (mlx5dv_map_ah_to_qp)
};

// Operations of the data path.
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int request_notification(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_wq_recv(ibv_wq* wq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
void install_extended_polling(CompletionQueue& cq);
/// The ibv_wr_ calls for the operations in `flags` (IBV_QP_EX_WITH_x).
void install_builders(QueuePair& qp, uint64_t flags);
/// The mlx5dv_wr_ calls for the operations in `flags` (MLX5DV_QP_EX_WITH_x), which its type has.
void install_key_builders(QueuePair& qp, uint64_t flags);
void install_memory_windows(verbs_context& verbs);
/// Whether windows of the context are bound to the region now.
bool has_windows(verbs::Context& context, const verbs::MemoryRegion& region);

/// Takes the completions of a queue pair that is gone or reset out of a queue.
void clean_cq(CompletionQueue& cq, uint32_t user_index, SharedReceiveQueue* srq);

// Making and releasing, for the provider table.
verbs::CompletionQueue* create_cq(verbs::Context& context, const ibv_cq_init_attr_ex& attributes,
                                  bool extended);
int resize_cq(verbs::CompletionQueue& cq, uint32_t entries);
/// Gives a queue that nothing has used yet entries of 64 or 128 bytes, which are written whole if `padded`
/// and may be told together if `compressed`. 0 or an errno value.
int set_entries(CompletionQueue& cq, uint32_t bytes, bool padded, bool compressed);
/// Bytes of an entry as MLX5_CQE_SIZE wants them, which may be any number; 64 without it.
uint32_t cqe_bytes_wanted();
int destroy_cq(verbs::CompletionQueue& cq);
void free_cq(verbs::CompletionQueue& cq);
/// `special`: a mlx5dv_qp_init_attr, or nullptr.
verbs::QueuePair* create_qp(verbs::Context& context, ibv_qp_init_attr_ex& attributes, const void* special);
verbs::QueuePair* open_qp(verbs::Context& context, const verbs::QueuePair& receiver);
int check_query_qp(verbs::QueuePair& qp, uint32_t mask);
int modify_qp(verbs::QueuePair& qp, const hw::QpAttributes& attributes, uint32_t mask);
/// What the device has made of the queue pair's state, on the host's side.
void follow_state(QueuePair& qp, hw::QpState state);
int destroy_qp(verbs::QueuePair& qp);
void free_qp(verbs::QueuePair& qp);
verbs::SharedReceiveQueue* create_srq(verbs::ProtectionDomain& domain, ibv_srq_init_attr_ex& attributes);
int destroy_srq(verbs::SharedReceiveQueue& srq);
void free_srq(verbs::SharedReceiveQueue& srq);
/// `special`: mlx5dv_wq_init_attr, or nullptr.
verbs::WorkQueue* create_wq(verbs::Context& context, ibv_wq_init_attr& attributes, const void* special);
int modify_wq(verbs::WorkQueue& wq, ibv_wq_state from, ibv_wq_state to);
int strip_vlan(verbs::WorkQueue& wq, bool on);
/// The device says that a receive queue has failed.
void tell_of_failed_queue(verbs::Context& context, uint32_t number);
/// The host's side of a reset.
void reset_wq(WorkQueue& wq);
int destroy_wq(verbs::WorkQueue& wq);
void free_wq(verbs::WorkQueue& wq);
int create_wq_table(verbs::Context& context, const ibv_rwq_ind_table_init_attr& attributes, uint32_t& number);
int destroy_wq_table(verbs::Context& context, uint32_t number);
/// Whether options of mlx5dv_create_qp, or nullptr, ask for tunnels to be looked into.
bool looks_into_tunnels(const void* special);
verbs::QueuePair* create_spreading_qp(verbs::Context& context, const ibv_qp_init_attr_ex& attributes,
                                      const void* special);
int destroy_spreading_qp(QueuePair& qp);
verbs::AddressHandle* create_ah(verbs::ProtectionDomain& domain, const ibv_ah_attr& attributes);
void free_ah(verbs::AddressHandle& ah);

/// ibv_alloc_dm() and ibv_free_dm().
void install_device_memory(verbs_context& verbs);
ibv_dm* wrap_dm(verbs::Context& context, hw::Dm* device);

/// This library's operations; tells its devices apart from others'.
extern const verbs::Provider kProvider;

}  // namespace verbatim::mlx5
