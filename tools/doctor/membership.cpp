// SPDX-License-Identifier: MIT
#include "tools/doctor/membership.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "engine/published.h"

namespace verbatim::doctor {

namespace {

constexpr uint64_t kAgentNs = 3'000'000'000;  ///< in which an agent that was started again has its port back
constexpr int kLookMs = 100;

// What comes is for queue pairs, of which there are none here.
void drain(int socket) {
  char byte;
  while (recv(socket, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
  }
}

}  // namespace

Expected<std::unique_ptr<Membership>> Membership::join() {
  std::unique_ptr<Membership> made(new Membership);
  auto fabric = wire::shm::ShmFabric::create(sizeof(engine::Published), made->clock_);
  if (!fabric) return fabric.error();
  made->fabric_ = std::move(*fabric);
  const wire::PeerHandles handles = made->fabric_->handles();
  auto client = agent::AgentClient::join(handles.published, handles.inbound, handles.wake, "verbatim doctor");
  if (!client) return client.error();
  made->client_ = std::move(*client);
  return made;
}

Membership::~Membership() {
  if (port_ >= 0) close(port_);
}

Outcome Membership::open_port() {
  const uint64_t give_up = clock_.now_ns() + kAgentNs;
  for (;;) {
    Expected<int> opened = client_->open_wire();
    if (opened) {
      port_ = *opened;
      return Done{};
    }
    if (opened.error().code != EAGAIN || clock_.now_ns() >= give_up) return opened.error();
    poll(nullptr, 0, kLookMs);
  }
}

void Membership::stay() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int ended = signalfd(-1, &signals, SFD_CLOEXEC);
  for (;;) {
    pollfd waits[3] = {{ended, POLLIN, 0}, {port_, POLLIN, 0}, {client_->fd(), POLLIN, 0}};
    const bool agent_is_away = waits[2].fd < 0;
    if (poll(waits, 3, agent_is_away ? kLookMs : -1) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0) break;
    if (waits[1].revents != 0) drain(port_);
    if (agent_is_away || waits[2].revents != 0) client_->handle_notices(*this);
  }
  close(ended);
}

}  // namespace verbatim::doctor
