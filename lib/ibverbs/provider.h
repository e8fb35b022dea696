// SPDX-License-Identifier: MIT
#pragma once

// Between libibverbs and the provider libraries (libmlx5, ...): both are built from one tree and loaded from
// one folder, so this is no stable interface.
//
// libibverbs owns contexts, protection domains, memory regions, channels and events, and what is the same for
// every device. A provider owns the host side of queues and addresses: it allocates the objects below with
// its own state behind them, and fills a context's operations. The order of taking an object down is always
// the same: the provider's destroy_ function ends it on the device, libibverbs takes care of its events,
// free_ releases memory.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/hw/hca.h"
#include "engine/status.h"
#include "lib/ibverbs/device_board.h"
#include "lib/ibverbs/event_queue.h"
#include "lib/ibverbs/public.h"
#include "runtime/process.h"

namespace verbatim::verbs {

struct Context;
struct MemoryRegion;
struct Provider;
struct SharedReceiveQueue;
struct XrcReceiver;

/// A device of the list; lives as long as the library. The public part comes first.
struct Device {
  ibv_device base{};
  runtime::DeviceEntry entry;
};

/// Thread domain.
struct ThreadDomain {
  ibv_td base{};
  std::atomic<uint32_t> users{0};
};

/// Protection domain, or a parent domain: then `origin` is the real one.
struct ProtectionDomain {
  ibv_pd base{};
  Context* context = nullptr;
  hw::Pd* device = nullptr;
  std::atomic<uint32_t> users{0};  ///< objects that libibverbs and providers made in it
  ProtectionDomain* origin = nullptr;
  bool imported = false;  ///< `base.handle` is the original's
  ThreadDomain* thread_domain = nullptr;
  ibv_parent_domain_init_attr parent{};  ///< allocators, when comp_mask names them

  static ProtectionDomain* of(ibv_pd* pd) { return reinterpret_cast<ProtectionDomain*>(pd); }
  ProtectionDomain* real() { return origin != nullptr ? origin : this; }
  bool has_allocators() const { return (parent.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0; }
};

/// Counts a user of an object while it exists.
template <class T>
class Use {
 public:
  Use() = default;
  explicit Use(T& used) : used_(&used) { ++used.users; }
  Use(Use&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    std::swap(used_, other.used_);
    return *this;
  }
  ~Use() {
    if (used_ != nullptr) --used_->users;
  }

 private:
  T* used_ = nullptr;
};
using DomainUse = Use<ProtectionDomain>;

/// XRC domain.
struct XrcDomain {
  ibv_xrcd base{};
  uint32_t number = 0;    ///< in the device's space
  uint64_t identity = 0;  ///< that processes share it by; 0: it is nobody else's
  std::atomic<uint32_t> users{0};

  static XrcDomain* of(ibv_xrcd* domain) { return reinterpret_cast<XrcDomain*>(domain); }
};

/// Links of an object in its context's list.
template <class T>
struct Links {
  T* next = nullptr;
  T* previous = nullptr;
};

/// Completion queue: what comes before a provider's own part.
struct CompletionQueue {
  union {
    ibv_cq_ex ex;
    ibv_cq cq;
  };
  Context* context = nullptr;
  hw::Cq* device = nullptr;
  uint32_t completions_reported = 0;  ///< events read from its channel; guarded by the channel's queue
  uint32_t async_reported = 0;        ///< guarded by the context's event queue
  bool extended = false;
  DomainUse domain_use;  ///< of the parent domain that it was made with, if any
  Links<CompletionQueue> links;

  CompletionQueue() : ex{} {}
  CompletionQueue(const CompletionQueue&) = delete;
  static CompletionQueue* of(ibv_cq* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
  static CompletionQueue* of(ibv_cq_ex* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
};

/// Options that a queue pair's two ends agree on (ECE).
struct ConnectionOptions {
  uint32_t now = 0;     ///< what the device offers, then what was agreed
  uint32_t wanted = 0;  ///< from the next transition on, if `changes`
  bool changes = false;

  void apply() {
    if (changes) now = wanted;
    changes = false;
  }
};

/// Queue pair: what comes before a provider's own part.
struct QueuePair {
  union {
    ibv_qp_ex ex;
    ibv_qp qp;
  };
  Context* context = nullptr;
  hw::Qp* device = nullptr;  ///< nullptr: it only spreads what is received over a table
  uint32_t spreader = 0;     ///< then: what rules steer to
  uint32_t async_reported = 0;
  bool extended = false;  ///< made with send_ops_flags
  bool signal_all = false;
  ibv_qp_cap cap{};                ///< actual sizes
  std::vector<Gid> groups;         ///< multicast attachments; guarded by the public mutex
  std::atomic<uint32_t> flows{0};  ///< rules that steer packets to it
  ConnectionOptions ece;
  XrcReceiver* receiver = nullptr;       ///< that it is a handle of
  SharedReceiveQueue* serves = nullptr;  ///< whose tag list it changes: programs know nothing of it
  DomainUse domain_use;
  Links<QueuePair> links;

  QueuePair() : ex{} {}
  static QueuePair* of(ibv_qp* qp) { return reinterpret_cast<QueuePair*>(qp); }
};

/// Shared receive queue: what comes before a provider's own part.
struct SharedReceiveQueue {
  ibv_srq base{};
  Context* context = nullptr;
  hw::Srq* device = nullptr;
  uint32_t async_reported = 0;
  uint32_t max_wr = 0, max_sge = 0;  ///< actual sizes
  XrcDomain* xrc_domain = nullptr;
  DomainUse domain_use;

  static SharedReceiveQueue* of(ibv_srq* srq) { return reinterpret_cast<SharedReceiveQueue*>(srq); }
};

/// Work queue of its own: what comes before a provider's own part.
struct WorkQueue {
  ibv_wq base{};
  Context* context = nullptr;
  uint32_t async_reported = 0;
  DomainUse domain_use;

  static WorkQueue* of(ibv_wq* wq) { return reinterpret_cast<WorkQueue*>(wq); }
};

/// Table of work queues that received packets are spread over.
struct WorkQueueTable {
  ibv_rwq_ind_table base{};
  Context* context = nullptr;

  static WorkQueueTable* of(ibv_rwq_ind_table* table) { return reinterpret_cast<WorkQueueTable*>(table); }
};

/// Address handle: what comes before a provider's own part.
struct AddressHandle {
  ibv_ah base{};
  DomainUse domain_use;
};

/// An opened device.
struct Context final : hw::EventSink {
  Device* device = nullptr;
  const Provider* provider = nullptr;
  std::atomic<void*> provider_data{
      nullptr};  ///< the provider's own state of this context; events may come before
  hw::Hca* hca = nullptr;
  std::atomic<bool> failed{false};  ///< the device has: calls fail with EIO, but those that destroy
  bool abandoned = false;  ///< belongs to the parent of a fork: calls that need its device fail with EIO
  EventQueue async_events;
  std::unique_ptr<DeviceBoard> board;  ///< its own, or that of who opened what was imported; may be absent
  bool imported = false;               ///< from another context's command descriptor
  std::unique_ptr<runtime::OpenDevice> opened;   ///< after what its events go to
  CompletionQueue* completion_queues = nullptr;  ///< list; guarded by the lock of live contexts
  QueuePair* queue_pairs = nullptr;
  Context* next = nullptr;  ///< of live contexts
  verbs_context verbs{};

  static Context* of(ibv_context* context) {
    return reinterpret_cast<Context*>(verbs_get_ctx(context)->priv);
  }

  void on_completion(hw::Cq& cq) override;
  void on_async(hw::AsyncEvent event, void* owner) override;
  void on_device_event(const hw::DeviceEvent& event) override;
  void on_interrupt(uint32_t vector) override;
};

/// What a provider library offers; all functions are called with valid arguments and no locks held. Functions
/// that return a pointer return nullptr with errno set; the others return 0 or an errno value.
struct Provider {
  const char* name;  ///< runtime::DeviceEntry::provider

  /// Fills the operations of context.verbs that are the provider's: data path, and device specific calls.
  int (*open)(Context& context);
  void (*close)(Context& context);
  /// After the device is closed, from which no event comes any more: frees what the provider keeps.
  void (*release)(Context& context);
  /// See hw::EventSink. nullptr: the provider has no use for them.
  void (*on_device_event)(Context& context, const hw::DeviceEvent& event);
  void (*on_interrupt)(Context& context, uint32_t vector);

  CompletionQueue* (*create_cq)(Context& context, const ibv_cq_init_attr_ex& attributes, bool extended);
  int (*resize_cq)(CompletionQueue& cq, uint32_t entries);
  int (*destroy_cq)(CompletionQueue& cq);
  void (*free_cq)(CompletionQueue& cq);

  /// Writes the actual sizes into attributes.cap. `special`: what the provider's own call handed to
  /// verbatim_create_special_qp, nullptr for the calls of verbs.
  QueuePair* (*create_qp)(Context& context, ibv_qp_init_attr_ex& attributes, const void* special);
  /// A further object for the same XRC receiver, of a context that may be another one. Nothing of the
  /// device's goes with it.
  QueuePair* (*open_qp)(Context& context, const QueuePair& receiver);
  int (*modify_qp)(QueuePair& qp, const hw::QpAttributes& attributes, uint32_t mask);
  /// Whether the attributes in `mask` (IBV_QP_*) can be asked for now.
  int (*check_query_qp)(QueuePair& qp, uint32_t mask);
  int (*destroy_qp)(QueuePair& qp);
  void (*free_qp)(QueuePair& qp);

  /// Writes the actual sizes into attributes.attr.
  SharedReceiveQueue* (*create_srq)(ProtectionDomain& domain, ibv_srq_init_attr_ex& attributes);
  int (*destroy_srq)(SharedReceiveQueue& srq);
  void (*free_srq)(SharedReceiveQueue& srq);

  /// Writes the actual sizes into the attributes, and number and way to post receives into the record.
  /// `special`: what verbatim_create_special_wq was given.
  WorkQueue* (*create_wq)(Context& context, ibv_wq_init_attr& attributes, const void* special);
  int (*modify_wq)(WorkQueue& wq, ibv_wq_state from, ibv_wq_state to);
  int (*strip_vlan)(WorkQueue& wq, bool on);
  int (*destroy_wq)(WorkQueue& wq);
  void (*free_wq)(WorkQueue& wq);
  int (*create_wq_table)(Context& context, const ibv_rwq_ind_table_init_attr& attributes, uint32_t& number);
  int (*destroy_wq_table)(Context& context, uint32_t number);
  /// A queue pair that only receives, into the queues of a table; taken down like others. `special`: as of
  /// create_qp.
  QueuePair* (*create_spreading_qp)(Context& context, const ibv_qp_init_attr_ex& attributes,
                                    const void* special);

  /// Device memory around what was imported.
  ibv_dm* (*wrap_dm)(Context& context, hw::Dm* device);

  /// Whether memory windows are bound to the region.
  bool (*has_windows)(Context& context, const MemoryRegion& region);

  AddressHandle* (*create_ah)(ProtectionDomain& domain, const ibv_ah_attr& attributes);
  void (*free_ah)(AddressHandle& ah);
};

/// Keeps the reason of a refusal for `verbatim explain` and returns its errno value. The child of a fork
/// keeps none: what is shown to others is its parent's.
inline int refuse(Context& context, const Error& error, uint32_t qpn = 0) {
  if (!context.abandoned)
    context.hca->explain(qpn, static_cast<int>(engine::kRefusal | static_cast<uint32_t>(error.code)),
                         error.reason.c_str());
  return error.code;
}
inline int refuse(Context& context, int code, const std::string& reason, uint32_t qpn = 0) {
  return refuse(context, Error{code, reason}, qpn);
}
/// The same for functions that return a pointer.
template <class... Arguments>
std::nullptr_t refuse_pointer(Context& context, Arguments&&... arguments) {
  errno = refuse(context, std::forward<Arguments>(arguments)...);
  return nullptr;
}

/// 0 or the error's errno value, kept for `verbatim explain`.
inline int settle(Context& context, const Outcome& outcome, uint32_t qpn = 0) {
  return outcome.ok() ? 0 : refuse(context, outcome.error(), qpn);
}

/// Called by a provider library when it is loaded.
extern "C" __attribute__((visibility("default"))) void verbatim_register_provider(const Provider* provider);

/// For a provider's own way of making queue pairs: as ibv_create_qp_ex, but what IBV_QPT_DRIVER means is for
/// the provider to say, whose create_qp gets `special`.
extern "C" __attribute__((visibility("default"))) ibv_qp* verbatim_create_special_qp(
    ibv_context* context, ibv_qp_init_attr_ex* attributes, const void* special);

/// Lets other processes find device memory by a handle, which it gets, while the device is open; and no
/// longer.
extern "C" __attribute__((visibility("default"))) void verbatim_show_device_memory(ibv_dm* dm);
extern "C" __attribute__((visibility("default"))) void verbatim_hide_device_memory(ibv_dm* dm);

/// ibv_create_wq with options that only the provider knows.
extern "C" __attribute__((visibility("default"))) ibv_wq* verbatim_create_special_wq(
    ibv_context* context, ibv_wq_init_attr* attributes, const void* special);

/// The provider has heard that a work queue has failed.
extern "C" __attribute__((visibility("default"))) void verbatim_tell_of_failed_wq(WorkQueue* wq);

}  // namespace verbatim::verbs
