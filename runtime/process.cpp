// SPDX-License-Identifier: MIT
#include "runtime/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "agent/client.h"
#include "agent/device_config.h"
#include "agent/gid_table.h"
#include "agent/subnet.h"
#include "agent/sysfs_entries.h"
#include "base/store_trap.h"
#include "device/connectx/connectx_hca.h"
#include "engine/engine.h"
#include "runtime/crypto_setting.h"
#include "runtime/doorbell_linger.h"
#include "runtime/engine_thread.h"
#include "runtime/outlet.h"
#include "runtime/stand_in.h"
#include "runtime/sysfs.h"
#include "wire/link/mux_fabric.h"
#include "wire/link/shm/shm_fabric.h"

namespace verbatim::runtime {

namespace {

std::string program_name() {
  char name[32] = {};
  if (FILE* file = fopen("/proc/self/comm", "re")) {
    if (!fgets(name, sizeof name, file)) name[0] = 0;
    fclose(file);
  }
  name[strcspn(name, "\n")] = 0;
  return name;
}

bool wants_explanations_aloud() {
  const char* set = std::getenv("VERBATIM_EXPLAIN");
  return set && *set && *set != '0';
}

/// Everything that a process with an open device has. Members are taken down in reverse order.
class Process final : public engine::Host, public agent::NoticeSink, private StoreCompany {
 public:
  static Expected<std::unique_ptr<Process>> start();
  ~Process() override { thread_.reset(); }

  engine::Engine& engine() { return *engine_; }
  agent::AgentClient& agent() { return *agent_; }
  DoorbellWatch& doorbells() { return doorbells_; }
  StandIn& stand_in() { return *stand_in_; }
  void add(hw::Hca& hca);
  /// Who captures packets knows it by this name.
  void name_device(uint32_t number, const std::string& name) {
    wires_->tap().recorder().name_device(number, name);
  }
  void remove(hw::Hca& hca);
  void after_fork_child();

  // engine::Host
  uint32_t gid_count() const override { return agent_->gid_count(); }
  engine::GidEntry gid(uint32_t index) const override { return agent_->gid(index); }
  bool link_up() const override { return agent_->link_up(); }
  engine::PortSetting port_setting(uint32_t device) const override { return agent_->port_setting(device); }
  Outcome join(const Gid& group) override;
  Outcome leave(const Gid& group) override;
  Expected<uint32_t> qpn_slot(uint32_t block) override;
  void wake_engine_thread() override {
    if (thread_) thread_->wake();
  }

  ProcessPlace place() const { return {agent_->slot(), agent_->generation()}; }
  Expected<wire::Channel*> find(const ProcessPlace& place);
  Expected<int> borrow_file(const ProcessPlace& place, int file);

  void on_taps_changed() override { wires_->refresh_taps(); }

  // StoreCompany
  uint32_t before_ring() override { return linger_->before_ring(); }
  void after_ring(uint32_t before) override { linger_->after_ring(before); }

  // agent::NoticeSink, on the engine thread
  void on_gone(uint32_t slot, uint64_t generation) override {
    {
      std::lock_guard<SpinLock> hold(engine_->progress_lock());
      fabric_->peer_gone(slot, generation, *engine_);
    }
    fabric_->reclaim([this] { let_go_of_the_dead(*engine_, clock_); });
  }
  void on_gids_changed() override {
    refresh_files();
    tell(hw::AsyncEvent::kGidChange);
  }
  void on_raised(uint32_t device, hw::AsyncEvent event) override {
    refresh_files();
    tell(event, device);
  }
  void on_link(bool up) override {
    refresh_files();
    tell(up ? hw::AsyncEvent::kPortActive : hw::AsyncEvent::kPortError);
  }

 private:
  void tell(hw::AsyncEvent event);
  void tell(hw::AsyncEvent event, uint32_t device);
  void refresh_files();

  SystemClock clock_;
  std::unique_ptr<agent::AgentClient> agent_;
  std::unique_ptr<wire::shm::ShmFabric> fabric_;
  std::unique_ptr<wire::MuxFabric> wires_;
  std::unique_ptr<engine::Engine> engine_;
  std::mutex devices_lock_;
  std::vector<hw::Hca*> devices_;
  DoorbellWatch doorbells_{[this] { wake_engine_thread(); }, *this};
  std::unique_ptr<EngineThread> thread_;
  std::unique_ptr<DoorbellLinger> linger_;
  std::unique_ptr<StandIn> stand_in_;
};

/// VERBATIM_INJECT is this process's alone, unless its agent was started with the same, and so has it for
/// all.
Expected<std::vector<wire::tap::Rule>> own_rules() {
  auto rules = wire::tap::parse_rules(wire::tap::environment_text(), wire::tap::random_seed());
  if (!rules) return Error{rules.error().code, "VERBATIM_INJECT: " + rules.error().reason};
  return rules;
}

Expected<std::unique_ptr<Process>> Process::start() {
  auto made = std::make_unique<Process>();
  auto rules = own_rules();
  if (!rules) return rules.error();
  auto fabric = wire::shm::ShmFabric::create(sizeof(engine::Published), made->clock_);
  if (!fabric) return fabric.error();
  made->fabric_ = std::move(*fabric);
  const std::string program = program_name();
  const wire::PeerHandles handles = made->fabric_->handles();
  auto agent = agent::AgentClient::join(handles.published, handles.inbound, handles.wake, program);
  if (!agent) return agent.error();
  made->agent_ = std::move(*agent);
  made->fabric_->attach(*made->agent_, made->agent_->slot(), made->agent_->generation());
  made->wires_ = std::make_unique<wire::MuxFabric>(*made->fabric_, *made->agent_, made->clock_);
  if (const wire::tap::Board* board = made->agent_->board();
      !board || wire::tap::environment_text() != board->environment)
    made->wires_->tap().add_own(*rules);
  made->wires_->udp().on_call([process = made.get()] { process->wake_engine_thread(); });
  made->engine_ = std::make_unique<engine::Engine>(*made->wires_, *made, made->clock_);
  made->wires_->tap().on_device_of([process = made.get()](uint32_t qpn) {
    const engine::PublishedQp* qp = find_published(process->engine_->published(), qpn);
    return qp ? qp->device.load(std::memory_order_relaxed) : 0;
  });
  made->engine_->explain_aloud(wants_explanations_aloud());
  engine::PublishedHeader& header = made->engine_->published().header;
  header.pid = static_cast<uint32_t>(getpid());
  std::snprintf(header.program, sizeof header.program, "%s", program.c_str());
  made->fabric_->set_receiver(*made->engine_);
  made->refresh_files();
  made->agent_->serve_counters(serve_sysfs());
  made->thread_ = std::make_unique<EngineThread>(*made->engine_, *made->fabric_, made->wires_->udp(),
                                                 *made->agent_, *made, made->doorbells_, made->clock_);
  if (!made->thread_->runs()) return Error{EAGAIN, "this process may have no more threads"};
  made->linger_ =
      std::make_unique<DoorbellLinger>(*made->engine_, *made->fabric_, *made->thread_, made->clock_);
  made->stand_in_ =
      std::make_unique<StandIn>(*made->engine_, made->wires_->udp(), *made->thread_, made->clock_);
  return made;
}

Expected<uint32_t> Process::qpn_slot(uint32_t block) {
  if (block == 0) return agent_->slot();
  Expected<uint32_t> slot = agent_->extra_slot();
  if (slot) fabric_->add_own_slot(*slot);
  return slot;
}

Outcome Process::join(const Gid& group) {
  Outcome joined = agent_->join_group(group);
  if (joined) wires_->join(group);
  return joined;
}

Outcome Process::leave(const Gid& group) {
  wires_->leave(group);
  return agent_->leave_group(group);
}

Expected<wire::Channel*> Process::find(const ProcessPlace& wanted) {
  if (wanted == place()) return nullptr;
  const Error gone{ESRCH, "the process that the object came from has ended"};
  if (agent_->slot_generation(wanted.slot) != wanted.generation) return gone;
  wire::Channel* channel = fabric_->neighbor(engine::make_qpn(wanted.slot, 0));
  return channel && channel->alive() ? Expected<wire::Channel*>(channel) : gone;
}

Expected<int> Process::borrow_file(const ProcessPlace& wanted, int file) {
  const auto channel = find(wanted);
  if (!channel) return channel.error();
  const auto pid =
      *channel ? static_cast<wire::shm::PeerChannel*>(*channel)->pid() : static_cast<uint32_t>(getpid());
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const int mine = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (mine < 0) return Error{EOPNOTSUPP, "the other process's file cannot be opened through /proc"};
  return mine;
}

void Process::add(hw::Hca& hca) {
  std::lock_guard<std::mutex> hold(devices_lock_);
  devices_.push_back(&hca);
}

void Process::remove(hw::Hca& hca) {
  std::lock_guard<std::mutex> hold(devices_lock_);
  std::erase(devices_, &hca);
}

void Process::tell(hw::AsyncEvent event) {
  std::lock_guard<std::mutex> hold(devices_lock_);
  for (hw::Hca* hca : devices_) hca->port_event(event);
}

// What has been asked for happens to InfiniBand ports as well.
void Process::tell(hw::AsyncEvent event, uint32_t device) {
  std::lock_guard<std::mutex> hold(devices_lock_);
  for (hw::Hca* hca : devices_)
    if (hca->place() == device) hca->raise(event);
}

void Process::refresh_files() {
  agent::PortView port{agent_->link_up(), {}, {}};
  for (uint32_t device = 0; device < port.settings.size(); device++)
    port.settings[device] = agent_->port_setting(device);
  for (uint32_t i = 0; i < agent_->gid_count(); i++) port.gids.push_back(agent_->gid(i));
  refresh_sysfs(port);
}

void Process::after_fork_child() {
  thread_->abandon();
  wires_->after_fork_child();
  fabric_->after_fork_child();
  agent_->after_fork_child();
}

// The present process, while a device is open. Never destroyed by exit: threads may still be at work then.
struct Present {
  std::mutex lock;
  Process* process = nullptr;
  uint32_t users = 0;
};
Present& present() {
  static Present* const kept = new Present;
  return *kept;
}

void before_fork() { present().lock.lock(); }
void after_fork_parent() { present().lock.unlock(); }
void after_fork_child() {
  Present& now = present();
  engine::AccessGuard::after_fork_child();
  forget_store_traps();
  // What the parent opened stays the parent's: the child forgets it and may open its own.
  if (now.process) now.process->after_fork_child();
  now.process = nullptr;
  now.users = 0;
  now.lock.unlock();
}

connectx::Identity identity_of(const DeviceEntry& device, const connectx::CryptoOptions& crypto,
                               Outlet* outlet) {
  connectx::Identity identity;
  identity.outlet = outlet;
  identity.name = device.name;
  identity.node_guid = device.guid;
  identity.device = device.index;
  if (device.data_direct) identity.data_direct_path = agent::data_direct_path(device.index);
  if (device.lag) identity.lag_ports = 2;
  if (device.infiniband) {
    identity.lid = agent::lid_of(device.index);
    identity.sm_lid = agent::kManagerLid;
    identity.gid = agent::subnet_gid(device.guid);
    std::ranges::copy(device.pkeys, identity.pkeys.begin());
  }
  identity.crypto = crypto;
  return identity;
}

/// Nothing where no name is given.
Expected<std::unique_ptr<Outlet>> open_outlet(Process& process, const std::string& name) {
  if (name.empty()) return std::unique_ptr<Outlet>();
  const Expected<int> file = process.agent().open_outlet(name);
  if (!file) return Error{file.error().code, name + ": " + file.error().reason};
  auto outlet = std::make_unique<Outlet>(*file, process.engine());
  if (!outlet->runs()) return Error{EAGAIN, "this process may have no more threads"};
  return outlet;
}

class OpenConnectx final : public OpenDevice {
 public:
  OpenConnectx(Process& process, const DeviceEntry& device, const connectx::CryptoOptions& crypto,
               std::unique_ptr<Outlet> outlet, hw::EventSink& sink)
      : process_(process),
        device_(device.index),
        outlet_(std::move(outlet)),
        hca_(std::make_unique<connectx::ConnectxHca>(process.engine(), sink,
                                                     identity_of(device, crypto, outlet_.get()))) {
    process_.add(*hca_);
    process_.name_device(device.index, device.name);
    process_.engine().published().header.objects[0].fetch_add(1);
  }
  ~OpenConnectx() override;
  hw::Hca& hca() override { return *hca_; }
  hw::RawDoorbells& doorbells() override { return process_.doorbells(); }
  Waited wait(int file) override { return process_.stand_in().wait(file); }
  Expected<uint64_t> open_xrc_domain(const agent::XrcFile& file, bool create, bool exclusive) override {
    return process_.agent().open_xrc_domain({device_, file}, create, exclusive);
  }
  void close_xrc_domain(uint64_t identity) override { process_.agent().close_xrc_domain(identity); }
  ProcessPlace place() const override { return process_.place(); }
  Expected<wire::Channel*> find_process(const ProcessPlace& place) override { return process_.find(place); }
  Expected<int> borrow_file(const ProcessPlace& place, int file) override {
    return process_.borrow_file(place, file);
  }

 private:
  Process& process_;
  const uint32_t device_;
  std::unique_ptr<Outlet> outlet_;
  std::unique_ptr<connectx::ConnectxHca> hca_;
};

OpenConnectx::~OpenConnectx() {
  Present& now = present();
  std::lock_guard<std::mutex> hold(now.lock);
  if (now.process != &process_) {  // in the child of a fork: what it holds is the parent's
    (void)hca_.release();
    if (outlet_) outlet_.release()->abandon();
    return;
  }
  process_.remove(*hca_);
  hca_.reset();
  outlet_.reset();
  process_.engine().published().header.objects[0].fetch_sub(1);
  if (--now.users > 0) return;
  delete now.process;
  now.process = nullptr;
}

}  // namespace

Expected<std::vector<DeviceEntry>> list_devices() {
  auto configured = agent::configured_devices();
  if (!configured) return configured.error();
  bool up = false;
  const std::vector<engine::GidEntry> gids = agent::gid_order(agent::host_addresses(up));
  uint64_t guid = 0;
  for (int i = 8; i < 16 && !gids.empty(); i++) guid = guid << 8 | gids[0].gid.bytes[static_cast<size_t>(i)];
  std::vector<DeviceEntry> devices;
  for (const agent::DeviceConfig& each : *configured) {
    const auto index = static_cast<uint32_t>(devices.size());
    devices.push_back({each.name, each.kind, index, guid + index, each.data_direct, each.lag, each.infiniband,
                       each.pkeys, each.outlet, agent::pci_address(index)});
  }
  return devices;
}

Expected<std::unique_ptr<OpenDevice>> open_device(const DeviceEntry& device, hw::EventSink& sink) {
  static const int registered = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  (void)registered;
  const auto cannot = [&device](const Error& error) {
    return Error{error.code, device.name + " cannot be opened: " + error.reason};
  };
  Expected<connectx::CryptoOptions> crypto = crypto_setting();
  if (!crypto) return cannot(crypto.error());
  Present& now = present();
  std::lock_guard<std::mutex> hold(now.lock);
  if (!now.process) {
    Expected<std::unique_ptr<Process>> started = Process::start();
    if (!started) return cannot(started.error());
    now.process = started->release();
  }
  auto outlet = open_outlet(*now.process, device.outlet);
  if (!outlet) {
    if (now.users == 0) delete std::exchange(now.process, nullptr);
    return cannot(outlet.error());
  }
  now.users++;
  return std::unique_ptr<OpenDevice>(
      new OpenConnectx(*now.process, device, *crypto, std::move(*outlet), sink));
}

}  // namespace verbatim::runtime
