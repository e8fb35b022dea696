// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "device/connectx/command_device.h"
#include "device/connectx/device_memory.h"
#include "device/connectx/event_router.h"
#include "device/connectx/object_numbers.h"
#include "device/connectx/objects.h"
#include "device/connectx/protection_device.h"
#include "device/connectx/raw_queue.h"
#include "device/connectx/scheduling.h"
#include "device/connectx/uar_table.h"

namespace verbatim::connectx {

/// Which one of several devices this is.
struct Identity {
  std::string name;                ///< mlx5_0
  uint64_t node_guid = 0;          ///< host order
  std::string data_direct_path{};  ///< as hw::Limits
  uint32_t lag_ports = 0;
  CryptoOptions crypto{};
  uint16_t lid = 0, sm_lid = 0;                      ///< as hw::PortState
  std::array<uint16_t, engine::kPkeysMade> pkeys{};  ///< of an InfiniBand port, from entry 1 on
  Gid gid{};                                         ///< of an InfiniBand port
  uint32_t device = 0;                               ///< as engine::Port
  engine::FrameOutlet* outlet = nullptr;
};

/// A soft ConnectX-7: decodes work queue entries of the real formats and runs them on the engine.
class ConnectxHca final : public hw::Hca {
 public:
  ConnectxHca(engine::Engine& engine, hw::EventSink& sink, const Identity& identity);
  ~ConnectxHca() override;

  const hw::Limits& limits() const override { return limits_; }
  hw::PortState port() override;
  hw::GidEntry gid(uint32_t index) override;
  Expected<uint16_t> pkey(uint32_t index) override;
  uint64_t hardware_clock() override;

  Expected<hw::Pd*> create_pd() override;
  Outcome destroy_pd(hw::Pd*) override;
  Expected<hw::Pd*> import_pd(const hw::Origin&) override;

  Expected<hw::Mr*> create_mr(const hw::MrSpec&) override;
  Expected<hw::Mr*> create_null_mr(hw::Pd*) override;
  Outcome modify_mr(hw::Mr*, uint32_t rereg_mask, const hw::MrSpec&) override;
  Outcome destroy_mr(hw::Mr*) override;

  Expected<hw::ImportedMr> import_mr(hw::Pd*, const hw::Origin&, uint32_t index) override;

  Expected<hw::Dm*> import_dm(int file, uint64_t bytes) override {
    return device_memory_.import(file, bytes);
  }
  Expected<hw::Dm*> create_dm(const hw::DmSpec& spec) override { return device_memory_.create(spec); }
  Outcome destroy_dm(hw::Dm* dm) override { return device_memory_.destroy(dm); }
  Expected<void*> map_dm_operation(hw::Dm* dm, uint32_t operation) override {
    return map_memic_operation(dm, operation);
  }

  Expected<hw::Cq*> create_cq(const hw::CqSpec&) override;
  Outcome destroy_cq(hw::Cq*) override;
  Outcome resize_cq(hw::Cq*, const hw::QueueMemory& ring) override;
  Outcome moderate_cq(hw::Cq*, uint16_t count, uint16_t period_us) override;
  void arm_cq(hw::Cq*) override;
  void ring_arm(hw::Cq*) override;

  Expected<uint32_t> create_xrcd(uint64_t identity) override;
  Outcome destroy_xrcd(uint32_t number) override;
  Expected<hw::Srq*> create_srq(const hw::SrqSpec&) override;
  Outcome destroy_srq(hw::Srq*) override;
  Outcome arm_srq(hw::Srq*, uint32_t limit) override;
  uint32_t srq_limit(hw::Srq*) override;

  Expected<hw::Qp*> create_qp(const hw::QpSpec&) override;
  Outcome destroy_qp(hw::Qp*) override;
  Expected<uint32_t> reserve_qpn() override { return engine_.reserve_number(); }
  void release_qpn(uint32_t number) override { engine_.release_number(number); }
  Outcome modify_qp(hw::Qp*, const hw::QpAttributes&, uint32_t mask) override;
  hw::QpAttributes query_qp(hw::Qp*) override;
  Expected<uint32_t> resting_send_position(hw::Qp*) override;
  void drain_on_signature_errors(hw::Qp*) override;

  Expected<uint32_t> create_scheduling_element(const hw::SchedulingSpec& spec) override {
    return scheduling_.create(spec);
  }
  Outcome modify_scheduling_element(uint32_t number, uint32_t mask, const hw::SchedulingSpec& spec) override {
    return scheduling_.modify(number, mask, spec);
  }
  Outcome destroy_scheduling_element(uint32_t number) override { return scheduling_.destroy(number); }
  Expected<uint16_t> take_pacing(const hw::PacingSpec& spec, bool dedicated) override {
    return pacing_.take(spec, dedicated);
  }
  bool has_pacing(uint16_t index) { return pacing_.has(index); }
  Outcome give_back_pacing(uint16_t index) override { return pacing_.give_back(index); }
  hw::QpExtras qp_extras(hw::Qp*) override;
  Outcome change_qp(hw::Qp*, uint32_t mask, const hw::QpExtras&) override;
  Outcome reset_stream(hw::Qp*, uint16_t stream) override;
  Expected<hw::CompletionCounter*> create_completion_counter(bool of_bytes) override;
  Outcome destroy_completion_counter(hw::CompletionCounter*) override;
  Outcome attach_completion_counter(hw::Qp*, hw::CompletionCounter*, uint32_t operations) override;

  Outcome attach_multicast(hw::Qp*, const Gid&) override;
  Outcome detach_multicast(hw::Qp*, const Gid&) override;
  Expected<uint32_t> create_flow(const hw::FlowDestination&, const hw::FlowRule&) override;
  Outcome destroy_flow(uint32_t number) override { return engine_.remove_flow(number); }
  Expected<std::shared_ptr<hw::EspAction>> create_esp_action(const hw::EspSpec&) override;

  void ring_send(hw::Qp*) override;
  std::atomic<uint32_t>& program_polls() override { return engine_.program_poll_count(); }
  void poll() override;

  void port_event(hw::AsyncEvent event) override;
  uint32_t place() const override { return port_.device; }
  void raise(hw::AsyncEvent event) override;
  void take_over_port(bool down) override;
  /// A program that has the port for itself wants it up: the link is trained, also if it is up already.
  void train_link();
  Expected<uint32_t> event_queue(uint32_t vector) override { return router_.of_vector(vector); }
  void ring_register(uint32_t page, uint32_t offset, uint64_t bytes) override;

  // For objects that commands make. Their events go to the router; the host side has no object for them.
  EventRouter& events() { return router_; }
  UarTable& uars() { return uars_; }
  WatchedQueues& watched_queues() { return watched_queues_; }
  engine::Engine& engine() { return engine_; }
  Expected<CqObject*> create_cq_for(uint16_t uid, const hw::CqSpec&);
  Expected<SrqObject*> create_srq_for(uint16_t uid, const hw::SrqSpec&);
  Expected<QpObject*> create_qp_for(uint16_t uid, const hw::QpSpec&);
  /// As create_mr, with the key's low byte chosen by the program. Remote rights do not need local write here.
  Expected<hw::Mr*> create_mkey(const hw::MrSpec&, uint8_t variant);
  /// A key over ranges of other keys; `list` as it lies in a queue entry. Its rights may include
  /// engine::kFreeKey and the like.
  Expected<hw::Mr*> create_list_key(const hw::MrSpec&, const engine::KeyShape& shape,
                                    std::span<const uint8_t> list, uint8_t variant);
  /// Fills in what work requests have made of a key, and the beginning of its list.
  void show_key(uint32_t index, prm::MkeySpec& spec);
  Expected<hw::Umem*> create_umem(const hw::UmemSpec&) override;
  Outcome destroy_umem(hw::Umem*) override;
  void execute(std::span<const uint8_t> in, std::span<uint8_t> out) override;
  void explain(uint32_t qpn, int status, const char* text) override { engine_.explain(qpn, status, 0, text); }

 private:
  Expected<hw::Pd*> add_pd(std::optional<uint32_t> number);
  Expected<uint32_t> import_key(hw::MrSpec& spec, wire::Channel& process, const engine::KeyView& original);
  Expected<hw::Mr*> make_mr(const hw::MrSpec& spec, uint32_t device_access,
                            std::optional<uint8_t> variant = {});
  hw::Mr* note_mr(const hw::MrSpec& spec, uint32_t key);
  Outcome check_mr(const hw::MrSpec& spec) const;
  Expected<CqObject*> make_cq(const hw::CqSpec&, hw::EventSink& sink);
  Expected<SrqObject*> make_srq(uint16_t uid, const hw::SrqSpec&, hw::EventSink& sink);
  Outcome number_srq(uint16_t uid, SrqObject& srq);
  Expected<QpObject*> make_qp(uint16_t uid, const hw::QpSpec&, hw::EventSink& sink);
  Expected<uint64_t> hold_xrcd(uint16_t uid, uint32_t number);
  void let_go_of_xrcd(uint32_t number);
  Outcome check_rate(const hw::QpAttributes& attributes, uint32_t mask) const;
  Outcome check_extras(const QpObject& qp, uint32_t mask, const hw::QpExtras& wanted) const;
  void tell_of_port(hw::AsyncEvent event);
  void take_port_setting();
  void take_pkeys(const engine::PortSetting& setting);
  void show_object(std::string_view kind, uint32_t number);
  void hide_object(std::string_view kind, uint32_t number);
  static constexpr size_t kUarsMax = size_t{1} << 20;
  void count(int kind, int change);

  engine::Engine& engine_;
  hw::EventSink& sink_;
  hw::Limits limits_;
  engine::Port port_;
  const uint16_t first_lid_, sm_lid_;
  const std::array<uint16_t, engine::kPkeysMade> first_pkeys_;
  std::atomic<bool> owns_port_{false};
  EventRouter router_{sink_, limits_.completion_vectors};
  UarTable uars_{kUarsMax};
  WatchedQueues watched_queues_{engine_};
  std::mutex lock_;
  LinkedList<CqObject> cqs_;
  LinkedList<QpObject> qps_;
  LinkedList<MrObject> mrs_list_;
  LinkedList<CounterObject> counter_list_;
  DeviceMemory device_memory_{limits_};
  SchedulingTree scheduling_{limits_};
  PacingTable pacing_{limits_};
  std::atomic<uint32_t> lag_turn_{0};  ///< queue pairs take turns over the ports of a LAG
  std::atomic<uint32_t> pds_{0}, counters_{0}, next_counter_{1};
  uint32_t cq_count_ = 0, srq_count_ = 0;
  uint64_t xrc_device_ = 0;  ///< begins the identities of XRC domains that have none given; numbers_.lock
  NumberSpace cq_numbers_, srq_numbers_;
  /// Where objects of commands are shown to other processes; guarded by numbers_.lock.
  std::map<std::pair<std::string, uint32_t>, uint32_t> shown_;
  ObjectNumbers numbers_;  ///< its lock is taken before all others
  ProtectionDevice protection_;
  CommandDevice commands_{*this, numbers_, protection_};
};

}  // namespace verbatim::connectx
