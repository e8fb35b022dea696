// SPDX-License-Identifier: MIT
#include "agent/server.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "agent/gid_table.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbatim::agent {

namespace {

constexpr uint64_t kLingerNs = 2'000'000'000;      ///< stay this long when nobody is there
constexpr uint64_t kFirstWaitNs = 10'000'000'000;  ///< for whoever started the agent
constexpr int kPollMs = 500;
constexpr size_t kClientsMax = 4096;

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

}  // namespace

Expected<std::unique_ptr<Server>> Server::open(const std::string& name) {
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
  if (memory == MAP_FAILED || fcntl(directory_file_, F_ADD_SEALS, kSeals) != 0)
    return Error{errno, "the directory could not be shared"};
  directory_ = static_cast<Directory*>(memory);
  directory_->magic = Directory::kMagic;
  uint64_t start = 0;
  if (getrandom(&start, sizeof start, 0) != sizeof start) start = clock_.now_ns();
  registry_ = std::make_unique<Registry>(*directory_, start >> 1, [this](uint32_t slot) {
    const int proof = bind_name(slot_name(name_, slot), SOCK_DGRAM);
    if (proof >= 0) close(proof);
    return proof < 0;
  });
  netlink_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (netlink_ >= 0 && bind(netlink_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(netlink_);
    netlink_ = -1;  // addresses are looked at now and then instead
  }
  refresh_addresses();
  poller_ = epoll_create1(EPOLL_CLOEXEC);
  if (poller_ < 0 || listen(listener_, 512) != 0) return Error{errno, "the agent could not listen"};
  watch(listener_);
  if (netlink_ >= 0) watch(netlink_);
  return Done{};
}

Server::~Server() {
  for (auto& [socket, client] : clients_) {
    close(socket);
    close_files(client.files, 4);
  }
  if (directory_) munmap(directory_, sizeof(Directory));
  for (const int file : {listener_, poller_, netlink_, directory_file_})
    if (file >= 0) close(file);
}

void Server::watch(int file) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = file;
  epoll_ctl(poller_, EPOLL_CTL_ADD, file, &event);
}

int Server::run() {
  uint64_t leave_at = clock_.now_ns() + kFirstWaitNs;
  for (;;) {
    epoll_event events[64];
    const int count = epoll_wait(poller_, events, 64, kPollMs);
    if (count < 0 && errno != EINTR) return 1;
    for (int i = 0; i < count; i++) {
      const int file = events[i].data.fd;
      if (file == listener_)
        accept_client();
      else if (file == netlink_)
        drain_netlink();
      else if (const auto found = clients_.find(file); found != clients_.end())
        serve(found->second);
    }
    if (netlink_ < 0) refresh_addresses();
    const uint64_t now = clock_.now_ns();
    if (!clients_.empty())
      leave_at = now + kLingerNs;
    else if (now >= leave_at)
      return 0;
  }
}

void Server::accept_client() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (!known || peer.uid != geteuid() || clients_.size() >= kClientsMax) {
    close(socket);
    return;
  }
  Client& client = clients_[socket];
  client.socket = socket;
  client.pid = static_cast<uint32_t>(peer.pid);
  watch(socket);
}

void Server::serve(Client& client) {
  Request request{};
  int files[kFilesMax], count = 0, reply_files[kFilesMax], reply_count = 0;
  const bool got = receive_record(client.socket, &request, sizeof request, files, count);
  if (!got && errno == EAGAIN) return;
  if (!got || request.version != kVersion) {
    close_files(files, count);
    return drop(client.socket);
  }
  const Answer reply = answer(client, request, files, count, reply_files, reply_count);
  close_files(files, count);
  if (!send_record(client.socket, &reply, sizeof reply, reply_files, reply_count)) drop(client.socket);
}

void Server::drop(int socket) {
  Client client = clients_[socket];
  clients_.erase(socket);
  close(socket);
  if (client.slot != 0) {
    history_.add(read_reasons(client.files[0], client.pid));
    const uint64_t generation = directory_->slots[client.slot].generation;
    registry_->leave(client.slot);
    notify({Event::kGone, client.slot, generation}, nullptr);
  }
  close_files(client.files, 4);
}

Server::Client* Server::owner_of(uint32_t slot) {
  if (slot == 0 || slot >= wire::kSlotsMax || directory_->slots[slot].generation == 0) return nullptr;
  const uint32_t primary = directory_->slots[slot].primary;
  for (auto& [socket, client] : clients_)
    if (client.slot == primary) return &client;
  return nullptr;
}

Answer Server::answer(Client& client, const Request& request, int* files, int& count, int* reply_files,
                      int& reply_count) {
  if (request.ask == Ask::kJoin) return join(client, request, files, count, reply_files, reply_count);
  if (request.ask == Ask::kList) return list(request, reply_files, reply_count);
  if (request.ask == Ask::kHistory) return history(request);
  if (client.slot == 0) return refusal({EPERM, "the process has not joined"});
  switch (request.ask) {
    case Ask::kExtraSlot: {
      Expected<Registry::Grant> grant = registry_->extra(client.slot, request.slot);
      if (!grant) return refusal(grant.error());
      Answer reply = done();
      reply.slot = grant->slot;
      reply.generation = grant->generation;
      return reply;
    }
    case Ask::kIntroduce: {
      const Client* peer = owner_of(request.slot);
      if (!peer) return refusal({ESRCH, "no process has this slot"});
      Answer reply = done();
      reply.slot = request.slot;
      reply.primary = peer->slot;
      reply.generation = directory_->slots[peer->slot].generation;
      reply.pid = peer->pid;
      std::copy_n(peer->files, 3, reply_files);
      reply_count = 3;
      return reply;
    }
    case Ask::kJoinGroup: {
      Outcome joined = registry_->join_group(client.slot, request.group);
      return joined ? done() : refusal(joined.error());
    }
    case Ask::kLeaveGroup:
      registry_->leave_group(client.slot, request.group);
      return done();
    case Ask::kJoin:
    case Ask::kList:
    case Ask::kHistory:
      break;
  }
  return refusal({EINVAL, "unknown request"});
}

Answer Server::join(Client& client, const Request& request, int* files, int& count, int* reply_files,
                    int& reply_count) {
  if (client.slot != 0) return refusal({EALREADY, "the process has joined already"});
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;
  if (count != 4 || !sealed(files[0], kSize | F_SEAL_FUTURE_WRITE) || !sealed(files[1], kSize))
    return refusal(
        {EINVAL, "joining takes two sealed memory files, an event descriptor and a socket for notices"});
  Expected<Registry::Grant> grant = request.slot != 0
                                        ? registry_->rejoin(client.pid, request.slot, request.generation)
                                        : registry_->join(client.pid);
  if (!grant) return refusal(grant.error());
  client.slot = grant->slot;
  std::copy_n(files, 4, client.files);
  count = 0;  // kept
  fcntl(client.files[3], F_SETFL, O_NONBLOCK);
  std::memcpy(client.program, request.program, sizeof client.program - 1);
  Answer reply = done();
  reply.slot = reply.primary = grant->slot;
  reply.generation = grant->generation;
  reply_files[0] = directory_file_;
  reply_count = 1;
  return reply;
}

Answer Server::list(const Request& request, int* reply_files, int& reply_count) {
  const Client* next = nullptr;
  for (const auto& [socket, client] : clients_)
    if (client.slot > request.slot && (!next || client.slot < next->slot)) next = &client;
  if (!next) return refusal({ENOENT, "no more"});
  Answer reply = done();
  reply.slot = reply.primary = next->slot;
  reply.generation = directory_->slots[next->slot].generation;
  reply.pid = next->pid;
  std::memcpy(reply.program, next->program, sizeof reply.program);
  reply_files[0] = next->files[0];
  reply_count = 1;
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

// A process that does not read its notices loses them; what they say can also be seen in the directory.
void Server::notify(const Notice& notice, const Client* except) {
  for (auto& [socket, client] : clients_)
    if (client.slot != 0 && &client != except)
      send_record(client.files[3], &notice, sizeof notice, nullptr, 0);
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
    notify({Event::kGidsChanged, 0, 0}, nullptr);
  }
  if (directory_->link_up.exchange(up) != static_cast<uint32_t>(up))
    notify({up ? Event::kLinkUp : Event::kLinkDown, 0, 0}, nullptr);
}

void Server::drain_netlink() {
  char buffer[8192];
  while (recv(netlink_, buffer, sizeof buffer, 0) > 0) {
  }
  refresh_addresses();
}

}  // namespace verbatim::agent
