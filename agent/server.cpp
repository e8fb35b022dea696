// SPDX-License-Identifier: MIT
#include "agent/server.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "agent/gid_table.h"
#include "agent/sysfs_tree.h"
#include "wire/format/ip.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbatim::agent {

namespace {

constexpr uint64_t kLingerNs = 2'000'000'000;      ///< stay this long when nobody is there
constexpr uint64_t kFirstWaitNs = 10'000'000'000;  ///< for whoever started the agent
constexpr int kAddressPollMs = 1000;               ///< where changes are not told
constexpr size_t kClientsMax = 4096;

// What an epoll event is about. Clients have two numbers each: the socket's and the process's.
constexpr uint64_t kListenerId = 0, kNetlinkId = 1, kWireId = 2, kCountersId = 3, kFirstClient = 2;
constexpr uint64_t socket_id(uint64_t client) { return client * 2; }
constexpr uint64_t process_id(uint64_t client) { return client * 2 + 1; }

Answer refusal(const Error& error) {
  Answer answer{};
  answer.version = kVersion;
  answer.error = error.code;
  std::strncpy(answer.text, error.reason.c_str(), sizeof answer.text - 1);
  return answer;
}

Answer done() {
  Answer answer{};
  answer.version = kVersion;
  return answer;
}

bool sealed(int file, int wanted) {
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & wanted) == wanted;
}

// Others will write to it: anything that could make them wait must not pass for one.
bool is_eventfd(int file) {
  char link[32], kind[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, kind, sizeof kind);
  if (length < 0) return true;  // no /proc here: believe it
  constexpr char kEventfd[] = "anon_inode:[eventfd]";
  return static_cast<size_t>(length) == sizeof kEventfd - 1 &&
         std::memcmp(kind, kEventfd, sizeof kEventfd - 1) == 0;
}

bool is_socket(int file, int type) {
  int domain = 0, actual = 0;
  socklen_t length = sizeof domain;
  return getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX &&
         getsockopt(file, SOL_SOCKET, SO_TYPE, &actual, &length) == 0 && actual == type;
}

bool is_wire_socket(int file) {
  sockaddr_in6 address{};
  socklen_t length = sizeof address;
  int type = 0;
  socklen_t type_length = sizeof type;
  return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &type_length) == 0 && type == SOCK_DGRAM &&
         getsockname(file, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         address.sin6_family == AF_INET6 && ntohs(address.sin6_port) == roce::kRocePort;
}

int open_process(pid_t pid) {
#ifdef SYS_pidfd_open
  return pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1;
#else
  return -1;
#endif
}

int open_netlink() {
  const int made = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (made < 0 || bind(made, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return made;
  close(made);
  return -1;
}

}  // namespace

Expected<std::unique_ptr<Server>> Server::open(const std::string& name) {
  if (name.size() > kAgentNameMax) return Error{ENAMETOOLONG, "the agent's name is too long"};
  const int listener = bind_name(name, SOCK_SEQPACKET | SOCK_NONBLOCK);
  if (listener < 0)
    return Error{errno, "the agent's name could not be bound: " + std::string(std::strerror(errno))};
  std::unique_ptr<Server> server(new Server(name, listener));
  if (Outcome ready = server->prepare(); !ready) return ready.error();
  return server;
}

Outcome Server::prepare() {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  directory_file_ = memfd_create("verbatim-directory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (directory_file_ < 0 || ftruncate(directory_file_, sizeof(Directory)) != 0)
    return Error{errno, "no memory for the directory"};
  void* memory = mmap(nullptr, sizeof(Directory), PROT_READ | PROT_WRITE, MAP_SHARED, directory_file_, 0);
  if (memory == MAP_FAILED) return Error{errno, "no memory for the directory"};
  directory_ = static_cast<Directory*>(memory);
  if (fcntl(directory_file_, F_ADD_SEALS, kSeals) != 0)
    return Error{errno, "the directory could not be sealed"};
  directory_->magic = Directory::kMagic;
  uint64_t start = 0;
  if (getrandom(&start, sizeof start, 0) != sizeof start) start = clock_.now_ns();
  registry_ = std::make_unique<Registry>(*directory_, start >> 2,
                                         [this](uint32_t slot) { return slot_is_owned(slot); });
  xrc_domains_ = std::make_unique<XrcDomains>(start >> 2);
  ports_ = std::make_unique<WirePorts>(name_, *directory_, [this](int wire) { connections_->receive(wire); });
  if (Outcome ready = rules_.prepare(); !ready) return ready;
  tap_.follow(rules_.board());
  captures_ = std::make_unique<CaptureService>(rules_.board(), tap_);
  port_service_ = std::make_unique<PortService>(*directory_);
  counters_ = std::make_unique<CounterService>(sums_path(name_), [this](HostSums& sums) {
    for (const auto& [id, client] : clients_)
      if (client.slot != 0) add_counts(client.files[0], sums);
  });
  next_client_ = kFirstClient;
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  netlink_ = open_netlink();
  refresh_addresses();
  connections_ =
      std::make_unique<ConnectionService>(*directory_, clock_, tap_, [this] { return open_own_wire(); });
  if (has_predecessor()) connections_->expect_returns();
  poller_ = epoll_create1(EPOLL_CLOEXEC);
  if (poller_ < 0 || listen(listener_, 512) != 0) return Error{errno, "the agent could not listen"};
  watch(listener_, kListenerId);
  if (netlink_ >= 0) watch(netlink_, kNetlinkId);
  return Done{};
}

Server::~Server() {
  for (auto& [id, client] : clients_) {
    close_files(&client.socket, 1);
    close_files(&client.process, 1);
    close_files(client.files, 4);
  }
  if (directory_) munmap(directory_, sizeof(Directory));
  for (const int file : {listener_, poller_, netlink_, directory_file_, spare_})
    if (file >= 0) close(file);
}

void Server::watch(int file, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(poller_, EPOLL_CTL_ADD, file, &event);
}

// Nothing needs a clock while somebody is there, no connection waits for an answer, and the kernel tells of
// address changes.
int Server::wait_ms(uint64_t leave_at) const {
  const uint64_t now = clock_.now_ns();
  const auto sooner = [now](int wait, uint64_t at_ns) {
    const uint64_t left = now >= at_ns ? 0 : (at_ns - now) / 1'000'000 + 1;
    const int left_ms = static_cast<int>(std::min<uint64_t>(left, kAddressPollMs * 60));
    return wait < 0 ? left_ms : std::min(wait, left_ms);
  };
  int wait = netlink_ < 0 ? kAddressPollMs : -1;
  const bool peers_wait = connections_->deadline_ns() != kNever;
  if (peers_wait) wait = sooner(wait, connections_->deadline_ns());
  if (ports_->settle_at_ns() != 0) wait = sooner(wait, ports_->settle_at_ns());
  if (counters_->deadline_ns() != kNever) wait = sooner(wait, counters_->deadline_ns());
  return clients_.empty() && may_leave() && !peers_wait ? sooner(wait, leave_at) : wait;
}

// Nothing that somebody has asked for would be forgotten.
bool Server::may_leave() const { return !rules_.any_added() && !port_service_->any_set(); }

int Server::run() {
  uint64_t leave_at = clock_.now_ns() + kFirstWaitNs;
  bool somebody_came = false;
  for (;;) {
    epoll_event events[64];
    const int count = epoll_wait(poller_, events, 64, wait_ms(leave_at));
    if (count < 0 && errno != EINTR) return 1;
    for (int i = 0; i < count; i++) happened(events[i].data.u64);
    if (netlink_ < 0) refresh_addresses();
    connections_->step();
    const uint64_t now = clock_.now_ns();
    ports_->settle(now);
    counters_->step(now);
    connections_->expects_hosts() ? static_cast<void>(open_own_wire()) : ports_->expect_nothing();
    watch_wire();
    if (!clients_.empty())
      somebody_came = true;
    else if (connections_->deadline_ns() != kNever)
      continue;  // peers wait for the last word
    else if (now >= leave_at && count == 0 && may_leave())
      break;
    if (count > 0 && somebody_came) leave_at = now + kLingerNs;
  }
  sweep_sysfs_trees();
  return 0;
}

void Server::happened(uint64_t id) {
  if (id == kListenerId) return accept_client();
  if (id == kNetlinkId) return drain_netlink();
  if (id == kWireId) return ports_->drain();
  if (id == kCountersId) return counters_->let_readers_in();
  const auto found = clients_.find(id / 2);
  if (found == clients_.end()) return;  // gone by an earlier event of the same batch
  if (id == process_id(id / 2))
    drop(id / 2);
  else
    serve(found->second);
}

// Otherwise the connection would stay at the door and wake this loop for ever.
void Server::refuse_for_want_of_files() {
  if (spare_ < 0) return;
  close(spare_);
  const int refused = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (refused >= 0) close(refused);
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void Server::accept_client() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    if (errno == EMFILE || errno == ENFILE) refuse_for_want_of_files();
    return;
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (!known || peer.uid != geteuid() || clients_.size() >= kClientsMax) {
    close(socket);
    return;
  }
  const uint64_t id = next_client_++;
  Client& client = clients_[id];
  client.id = id;
  client.socket = socket;
  client.pid = static_cast<uint32_t>(peer.pid);
  client.process = open_process(peer.pid);
  watch(socket, socket_id(id));
  if (client.process >= 0) watch(client.process, process_id(id));
}

void Server::serve(Client& client) {
  if (client.connections != 0) return serve_connections(client);
  Request request{};
  Attached attached;
  const Received got =
      receive_record(client.socket, &request, sizeof request, attached.files, attached.count);
  if (got == Received::kNothing) return;
  if (got == Received::kClosed) return drop(client.id);
  if (got == Received::kMalformed || request.version != kVersion) {
    const Answer no =
        refusal({EPROTO, "the agent that runs is of another version; it leaves with its last program"});
    send_record(client.socket, &no, sizeof no, nullptr, 0, false);
    return drop(client.id);
  }
  Answer reply = got == Received::kTruncated ? refusal({EMFILE, "the agent has no room for more open files"})
                                             : answer(client, request, attached);
  reply.serial = request.serial;
  if (!send_record(client.socket, &reply, sizeof reply, attached.reply, attached.reply_count, false))
    drop(client.id);
}

void Server::serve_connections(Client& client) {
  cm::Request request{};
  Attached attached;
  const Received got =
      receive_record(client.socket, &request, sizeof request, attached.files, attached.count);
  if (got == Received::kNothing) return;
  if (got == Received::kClosed || got == Received::kMalformed) return drop(client.id);
  int none = -1;
  const bool has_bell = attached.count == 1 && is_eventfd(attached.files[0]);
  const cm::Answer answer =
      connections_->handle(client.connections, request, has_bell ? attached.files[0] : none);
  if (!send_record(client.socket, &answer, sizeof answer, nullptr, 0, false)) drop(client.id);
}

void Server::drop(uint64_t id) {
  Client client = clients_[id];
  clients_.erase(id);
  if (client.connections != 0) connections_->close_client(client.connections);
  if (captures_->end(id)) notify({Event::kTapsChanged, 0, 0});
  close_files(&client.socket, 1);
  close_files(&client.process, 1);
  if (client.slot != 0) {
    history_.add(read_reasons(client.files[0], client.pid));
    counters_->process_gone(client.files[0]);
    const uint64_t generation = directory_->slots[client.slot].generation;
    registry_->leave(client.slot);
    xrc_domains_->leave(client.slot);
    outlets_.leave(client.slot);
    ports_->leave(client.slot);
    watch_wire();
    notify({Event::kGone, client.slot, generation});
  }
  close_files(client.files, 4);
  sweep_sysfs_trees();
  counters_->forget_removed();
}

Server::Client* Server::owner_of(uint32_t slot) {
  if (slot == 0 || slot >= wire::kSlotsMax || directory_->slots[slot].generation == 0) return nullptr;
  const uint32_t primary = directory_->slots[slot].primary;
  for (auto& [id, client] : clients_)
    if (client.slot == primary) return &client;
  return nullptr;
}

bool Server::slot_is_owned(uint32_t slot) const {
  const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
  if (proof < 0) return errno == EADDRINUSE;
  close(proof);
  return false;
}

Answer Server::answer(Client& client, const Request& request, Attached& attached) {
  if (request.ask == Ask::kJoin) return join(client, request, attached);
  if (request.ask == Ask::kList) return list(request, attached);
  if (request.ask == Ask::kHistory) return history(request);
  if (request.ask == Ask::kDirectory) {
    attached.reply[attached.reply_count++] = directory_file_;
    return done();
  }
  if (request.ask == Ask::kConnectionManager) return become_control_connection(client);
  if (request.ask == Ask::kServeCounters) return serve_counters(request);
  if (request.ask == Ask::kRaiseEvent) return raise_event(request);
  if (request.ask == Ask::kCapture) return capture(client, attached);
  if (request.ask == Ask::kCaptureFile && captures_->file() < 0) return refusal({ENOENT, "no capture runs"});
  if (request.ask == Ask::kCaptureFile) {
    attached.reply[attached.reply_count++] = captures_->file();
    return done();
  }
  if (RuleService::serves(request.ask)) return change_rules(client, request, attached);
  if (client.slot == 0) return refusal({EPERM, "the process has not joined"});
  if (request.ask == Ask::kReturnPort) return return_port(request);
  if (request.ask == Ask::kExtraSlot) return extra_slot(client, request, attached);
  if (request.ask == Ask::kIntroduce) return introduce(request, attached);
  if (request.ask == Ask::kWire) return wire(client, request, attached);
  if (request.ask == Ask::kOutlet) return outlet(client, request, attached);
  if (request.ask == Ask::kOpenXrcDomain) return open_xrc_domain(client, request);
  if (request.ask == Ask::kCloseXrcDomain) {
    xrc_domains_->close(client.slot, request.generation);
    return done();
  }
  if (request.ask == Ask::kJoinGroup) {
    Outcome joined = registry_->join_group(client.slot, request.group);
    return joined ? done() : refusal(joined.error());
  }
  if (request.ask == Ask::kLeaveGroup) {
    registry_->leave_group(client.slot, request.group);
    return done();
  }
  return refusal({EINVAL, "unknown request"});
}

Answer Server::join(Client& client, const Request& request, Attached& attached) {
  if (client.slot != 0) return refusal({EALREADY, "the process has joined already"});
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;
  const bool again = request.slot != 0;
  const int* files = attached.files;
  if (attached.count != (again ? 5 : 4) || !sealed(files[0], kSize | F_SEAL_FUTURE_WRITE) ||
      !sealed(files[1], kSize) || !is_eventfd(files[2]) || !is_socket(files[3], SOCK_SEQPACKET))
    return refusal({EINVAL, "joining takes two sealed memory files, an eventfd and a socket for notices"});
  if (again && !is_bound_to(files[4], slot_name(name_, request.slot)))
    return refusal({EPERM, "the slot is not the process's own"});
  Expected<Registry::Grant> grant =
      again ? registry_->rejoin(client.pid, request.slot, request.generation) : registry_->join(client.pid);
  if (!grant) return refusal(grant.error());
  client.slot = grant->slot;
  client.returned = again;
  for (int i = 0; i < 4; i++) std::swap(client.files[i], attached.files[i]);
  std::memcpy(client.program, request.program, sizeof client.program - 1);
  Answer reply = done();
  reply.slot = reply.primary = grant->slot;
  reply.generation = grant->generation;
  attached.reply[attached.reply_count++] = directory_file_;
  attached.reply[attached.reply_count++] = rules_.board_file();
  return reply;
}

Answer Server::capture(const Client& client, Attached& attached) {
  if (attached.count != 1) return refusal({EINVAL, "a capture takes a memory file"});
  attached.count = 0;  // it is theirs now
  if (Outcome begun = captures_->begin(client.id, attached.files[0]); !begun) return refusal(begun.error());
  notify({Event::kTapsChanged, 0, 0});
  return done();
}

Answer Server::serve_counters(const Request& request) {
  const Outcome served =
      counters_->serve(std::string(request.text, strnlen(request.text, sizeof request.text)));
  if (!served) return refusal(served.error());
  if (!std::exchange(counters_watched_, true)) watch(counters_->file(), kCountersId);
  return done();
}

// `index`: the place of the device in the list; `slot`: the event; `generation`: what goes with it.
Answer Server::raise_event(const Request& request) {
  const Outcome raised = port_service_->raise(request.index, static_cast<engine::AsyncEvent>(request.slot),
                                              static_cast<uint32_t>(request.generation));
  if (!raised) return refusal(raised.error());
  notify({Event::kRaised, request.index, request.slot});
  return done();
}

Answer Server::return_port(const Request& request) {
  engine::PortSetting setting{request.slot != 0,
                              static_cast<uint16_t>(request.generation),
                              static_cast<uint16_t>(request.generation >> 16),
                              {}};
  std::memcpy(setting.pkeys.data(), request.text, sizeof setting.pkeys);
  const Expected<bool> taken = port_service_->take_back(request.index, setting);
  if (!taken) return refusal(taken.error());
  if (*taken) tell_newcomers(request.index, setting);
  return done();
}

// Who has never met the former agent does not know what had been made of the port.
void Server::tell_newcomers(uint32_t device, const engine::PortSetting& setting) {
  using engine::AsyncEvent;
  const AsyncEvent event = setting.down     ? AsyncEvent::kPortError
                           : setting.lid    ? AsyncEvent::kLidChange
                           : setting.sm_lid ? AsyncEvent::kSmChange
                                            : AsyncEvent::kPkeyChange;
  const Notice notice{Event::kRaised, device, static_cast<uint64_t>(event)};
  for (auto& [id, client] : clients_)
    if (client.slot != 0 && !client.returned)
      send_record(client.files[3], &notice, sizeof notice, nullptr, 0, false);
}

Answer Server::change_rules(const Client& client, const Request& request, const Attached& attached) {
  const bool returned = request.ask == Ask::kReturnRules;
  if (returned && (client.slot == 0 || attached.count != 1))
    return refusal({EPERM, "only a process that has joined has rules of an agent before"});
  const bool before = rules_.any();
  const Answer reply = rules_.answer(request, returned ? attached.files[0] : -1);
  if (rules_.any() != before) notify({Event::kTapsChanged, 0, 0});
  return reply;
}

Answer Server::extra_slot(Client& client, const Request& request, const Attached& attached) {
  if (request.slot != 0 &&
      (attached.count != 1 || !is_bound_to(attached.files[0], slot_name(name_, request.slot))))
    return refusal({EPERM, "the slot is not the process's own"});
  Expected<Registry::Grant> grant = registry_->extra(client.slot, request.slot);
  if (!grant) return refusal(grant.error());
  ports_->refresh(client.slot);
  Answer reply = done();
  reply.slot = grant->slot;
  reply.generation = grant->generation;
  return reply;
}

Answer Server::wire(Client& client, const Request& request, Attached& attached) {
  if (attached.count == 0) {
    Expected<int> opened = ports_->open(client.slot, clock_.now_ns());
    watch_wire();
    if (!opened) return refusal(opened.error());
    epoll_ctl(poller_, EPOLL_CTL_DEL, *opened, nullptr);  // it was the agent's
    attached.reply[attached.reply_count++] = *opened;
    return done();
  }
  if (attached.count != 1 || !is_wire_socket(attached.files[0]))
    return refusal({EINVAL, "it is not a socket on the port of RoCEv2"});
  Outcome taken = ports_->take_back(client.slot, attached.files[0], request.index, clock_.now_ns());
  if (!taken) return refusal(taken.error());
  attached.count = 0;  // it is theirs now
  return done();
}

Outcome Server::open_own_wire() {
  Outcome opened = ports_->expect(clock_.now_ns());
  watch_wire();
  return opened;
}

Answer Server::outlet(const Client& client, const Request& request, Attached& attached) {
  const std::string name(request.text, strnlen(request.text, sizeof request.text));
  if (attached.count == 1) {
    if (outlets_.take_back(client.slot, name, attached.files[0])) attached.count = 0;  // it is theirs now
    return done();
  }
  const Expected<int> file = outlets_.open(client.slot, name);
  if (!file) return refusal(file.error());
  attached.reply[attached.reply_count++] = *file;
  return done();
}

Answer Server::open_xrc_domain(const Client& client, const Request& request) {
  XrcWish wish;
  std::memcpy(&wish, request.program, sizeof wish);
  const XrcName name{wish.device, {wish.file_device, wish.inode}};
  Answer reply = done();
  if (request.generation != 0) {
    Outcome taken = xrc_domains_->take_back(client.slot, name, request.generation);
    return taken ? reply : refusal(taken.error());
  }
  const Expected<uint64_t> opened =
      xrc_domains_->open(client.slot, name, wish.create != 0, wish.exclusive != 0);
  if (!opened) return refusal(opened.error());
  reply.generation = *opened;
  return reply;
}

void Server::watch_wire() {
  if (ports_->own() < 0 || ports_->own_number() == watched_wire_) return;
  watched_wire_ = ports_->own_number();
  watch(ports_->own(), kWireId);
}

Answer Server::introduce(const Request& request, Attached& attached) {
  const Client* peer = owner_of(request.slot);
  if (!peer) return refusal({ESRCH, "no process has this slot"});
  Answer reply = done();
  reply.slot = request.slot;
  reply.primary = peer->slot;
  reply.generation = directory_->slots[peer->slot].generation;
  reply.pid = peer->pid;
  std::copy_n(peer->files, 3, attached.reply);
  attached.reply_count = 3;
  return reply;
}

Answer Server::list(const Request& request, Attached& attached) {
  const Client* next = nullptr;
  for (const auto& [id, client] : clients_)
    if (client.slot > request.slot && (!next || client.slot < next->slot)) next = &client;
  if (!next) return refusal({ENOENT, "no more"});
  Answer reply = done();
  reply.slot = reply.primary = next->slot;
  reply.generation = directory_->slots[next->slot].generation;
  reply.pid = next->pid;
  std::memcpy(reply.program, next->program, sizeof reply.program);
  attached.reply[attached.reply_count++] = next->files[0];
  return reply;
}

Answer Server::history(const Request& request) {
  const Explanation* entry = history_.at(request.index);
  if (!entry) return refusal({ENOENT, "no more"});
  Answer reply = done();
  reply.pid = entry->pid;
  reply.qpn = entry->qpn;
  reply.status = entry->status;
  reply.time_ns = entry->time_ns;
  std::strncpy(reply.program, entry->program.c_str(), sizeof reply.program - 1);
  std::strncpy(reply.text, entry->text.c_str(), sizeof reply.text - 1);
  return reply;
}

Answer Server::become_control_connection(Client& client) {
  if (client.slot != 0) return refusal({EALREADY, "this connection is of a process that has joined"});
  client.connections = connections_->open_client();
  return done();
}

// Processes that an agent before this had are there, though they have not come back yet.
bool Server::has_predecessor() const {
  for (uint32_t slot = 1; slot < wire::kSlotsMax; slot++)
    if (slot_is_owned(slot)) return true;
  return false;
}

// A process that does not read its notices loses them; what they say can also be seen in the directory.
void Server::notify(const Notice& notice) {
  for (auto& [id, client] : clients_)
    if (client.slot != 0) send_record(client.files[3], &notice, sizeof notice, nullptr, 0, false);
}

void Server::refresh_addresses() {
  bool up = false;
  const std::vector<engine::GidEntry> wanted = gid_order(host_addresses(up));
  std::vector<engine::GidEntry> table(directory_->gids, directory_->gids + kGidsMax);
  uint32_t count = directory_->gid_count;
  if (merge_gids(table.data(), count, wanted)) {
    directory_->gid_sequence.fetch_add(1, std::memory_order_acq_rel);
    std::copy(table.begin(), table.end(), directory_->gids);
    directory_->gid_count = count;
    directory_->gid_sequence.fetch_add(1, std::memory_order_acq_rel);
    notify({Event::kGidsChanged, 0, 0});
  }
  if (directory_->link_up.exchange(up) != static_cast<uint32_t>(up))
    notify({up ? Event::kLinkUp : Event::kLinkDown, 0, 0});
}

void Server::drain_netlink() {
  char buffer[8192];
  while (recv(netlink_, buffer, sizeof buffer, 0) > 0) {
  }
  refresh_addresses();
}

}  // namespace verbatim::agent
