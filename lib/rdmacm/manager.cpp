// SPDX-License-Identifier: MIT
// The control connection to the agent's connection manager.
//
// There is one for the process. A thread of its own sees it hang up, makes another one and gives the new
// manager what the old one knew, so that a program that only waits on its channels goes on, too. It sleeps
// otherwise.
#include "lib/rdmacm/manager.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/client.h"
#include "lib/rdmacm/memory_of_manager.h"

namespace verbatim::rdmacm {
namespace {

class Connection {
 public:
  static Connection& of_process() {
    // Never destroyed: its thread and others may still use it while the process ends.
    static Connection& connection = *new Connection;
    return connection;
  }

  int ask(Request& request, Answer& answer, int file);
  template <class Look>
  auto look_into_memory(Look look) {
    const std::scoped_lock guard(lock_);
    return look(std::as_const(memory_));
  }

 private:
  Connection();
  enum class Said : uint8_t { kAnswer, kGone, kNothing };

  bool connect();
  bool recover();
  void let_go();
  Said exchange(Request& request, Answer& answer, int file);
  Said await(uint32_t serial, Answer& answer);
  void watch();
  void start_watching();
  void after_fork_child();

  std::mutex lock_;
  int socket_ = -1;
  int changed_ = -1;  ///< eventfd: there is another socket to watch
  bool watched_ = false;
  uint32_t serial_ = 0;
  uint64_t generation_ = 0;  ///< of the socket
  MemoryOfManager memory_;
};

Connection::Connection() {
  static Connection* only = this;
  pthread_atfork([] { only->lock_.lock(); }, [] { only->lock_.unlock(); }, [] { only->after_fork_child(); });
}

// The ids are the parent's, and so is the connection.
void Connection::after_fork_child() {
  if (socket_ >= 0) ::close(socket_);
  if (changed_ >= 0) ::close(changed_);
  socket_ = changed_ = -1;
  watched_ = false;
  memory_.forget_all();
  lock_.unlock();
}

void Connection::let_go() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

/// A connection to a manager that knows nothing yet.
bool Connection::connect() {
  Expected<int> reached = agent::reach_agent();
  if (!reached) {
    errno = reached.error().code;
    return false;
  }
  agent::Request request{};
  request.ask = agent::Ask::kConnectionManager;
  agent::Answer answer{};
  int files[agent::kFilesMax], count = 0;
  const Outcome asked = agent::ask_agent(*reached, request, answer, files, count);
  agent::close_files(files, count);
  if (!asked) {
    ::close(*reached);
    errno = asked.error().code;
    return false;
  }
  socket_ = *reached;
  ++generation_;
  // A failure means that there is news already.
  const uint64_t one = 1;
  return changed_ < 0 || ::write(changed_, &one, sizeof one) != 0;
}

/// The same, with all that the former one knew.
bool Connection::recover() {
  if (!connect()) return false;
  bool there = true;
  memory_.repeat([&](Request& request, Answer& answer, int file) {
    if (!there) return false;
    there = exchange(request, answer, file) == Said::kAnswer;
    return there && answer.error == 0;
  });
  if (!there) let_go();
  return there;
}

Connection::Said Connection::await(uint32_t serial, Answer& answer) {
  // An agent that has no processor is waited for; ids would not survive another connection.
  constexpr int kPatience = 5;  // times the socket's own
  for (int tries = 0; tries < kPatience;) {
    int files[agent::kFilesMax], count = 0;
    const agent::Received received = agent::receive_record(socket_, &answer, sizeof answer, files, count);
    agent::close_files(files, count);
    if (received == agent::Received::kNothing)
      ++tries;
    else if (received != agent::Received::kRecord)
      return Said::kGone;
    else if (answer.serial == serial)
      return Said::kAnswer;
  }
  return Said::kNothing;
}

Connection::Said Connection::exchange(Request& request, Answer& answer, int file) {
  request.serial = ++serial_;
  memory_.translate(request);
  const int files[] = {file};
  if (!agent::send_record(socket_, &request, sizeof request, files, file >= 0 ? 1 : 0)) return Said::kGone;
  return await(request.serial, answer);
}

int Connection::ask(Request& request, Answer& answer, int file) {
  constexpr int kAgents = 3;  // that may die under one request
  const std::scoped_lock guard(lock_);
  const Request wanted = request;
  for (int tries = 0; tries < kAgents; ++tries) {
    if (socket_ < 0 && !recover()) {
      if (tries + 1 < kAgents) continue;
      return -1;
    }
    start_watching();
    request = wanted;
    const Said said = exchange(request, answer, file);
    if (said == Said::kNothing) break;
    if (said == Said::kGone) {
      let_go();
      continue;
    }
    if (answer.error != 0) {
      errno = answer.error;
      return -1;
    }
    memory_.learn(request, answer, file);
    return 0;
  }
  errno = ETIMEDOUT;
  return -1;
}

/// Waits until the connection hangs up, and replaces it.
void Connection::watch() {
  pollfd waits[2];
  uint64_t watched;
  {
    const std::scoped_lock guard(lock_);
    waits[0] = {socket_, 0, 0};
    waits[1] = {changed_, POLLIN, 0};
    watched = generation_;
  }
  constexpr int kTryAgainMs = 200;
  ::poll(waits, 2, waits[0].fd < 0 ? kTryAgainMs : -1);
  const std::scoped_lock guard(lock_);
  uint64_t changes;
  if (waits[1].revents != 0 && ::read(changed_, &changes, sizeof changes) < 0) return;
  if (watched != generation_) return;
  if (waits[0].fd >= 0 && waits[0].revents == 0) return;
  let_go();
  // A program without channels has nothing to lose: it reaches the next agent when it asks.
  if (!memory_.is_empty()) recover();
}

void Connection::start_watching() {
  if (watched_) return;
  if (changed_ < 0) changed_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] {
      for (;;) watch();
    }).detach();
    watched_ = true;
  } catch (const std::system_error&) {  // that the agent has gone is noticed by the next request
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int ask(Request& request, Answer& answer) { return Connection::of_process().ask(request, answer, -1); }

uint32_t open_channel(int eventfd) {
  Request request{};
  request.what = Do::kOpenChannel;
  Answer answer{};
  return Connection::of_process().ask(request, answer, eventfd) == 0 ? answer.channel : 0;
}

bool channel_is_open(uint32_t channel) {
  return Connection::of_process().look_into_memory(
      [&](const MemoryOfManager& memory) { return memory.has_channel(channel); });
}

bool recall(uint32_t id, agent::cm::Testament& testament) {
  return Connection::of_process().look_into_memory(
      [&](const MemoryOfManager& memory) { return memory.recall(id, testament); });
}

}  // namespace verbatim::rdmacm
