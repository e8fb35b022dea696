// SPDX-License-Identifier: MIT
#include "tools/doctor/question.h"

#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/client.h"

namespace verbatim::doctor {

using agent::cm::Answer;
using agent::cm::Do;
using agent::cm::Event;
using agent::cm::Request;

namespace {

constexpr int kStepMs = 1000;  ///< finding addresses and routes asks nobody
constexpr uint32_t kStepTimeoutMs = 2000;

}  // namespace

Expected<std::unique_ptr<Question>> Question::open() {
  std::unique_ptr<Question> made(new Question);
  Expected<int> reached = agent::reach_agent();
  if (!reached) return reached.error();
  made->control_ = *reached;
  agent::Request become{};
  become.ask = agent::Ask::kConnectionManager;
  agent::Answer became{};
  int files[agent::kFilesMax], count = 0;
  Outcome done = agent::ask_agent(made->control_, become, became, files, count);
  agent::close_files(files, count);
  if (!done) return done.error();
  made->bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  if (made->bell_ < 0) return Error{errno, "no eventfd"};
  Request request{};
  request.what = Do::kOpenChannel;
  Answer answer{};
  if (Outcome opened = made->request(request, answer, made->bell_); !opened) return opened.error();
  made->channel_ = answer.channel;
  return made;
}

Question::~Question() {
  if (control_ >= 0) close(control_);
  if (bell_ >= 0) close(bell_);
}

Outcome Question::request(Request& request, Answer& answer, int file) {
  request.serial = ++serial_;
  int files[agent::kFilesMax], count = 0;
  if (!agent::send_record(control_, &request, sizeof request, &file, file >= 0 ? 1 : 0))
    return Error{EAGAIN, "the agent is away"};
  const agent::Received got = agent::receive_record(control_, &answer, sizeof answer, files, count);
  agent::close_files(files, count);
  if (got != agent::Received::kRecord) return Error{EAGAIN, "the agent does not answer"};
  answer.text[sizeof answer.text - 1] = 0;
  return answer.error == 0 ? Outcome(Done{}) : Outcome(Error{answer.error, answer.text});
}

std::optional<Event> Question::event() {
  uint64_t count;
  if (read(bell_, &count, sizeof count) < 0) return std::nullopt;
  Request request{};
  request.what = Do::kGetEvent;
  request.channel = channel_;
  Answer answer{};
  if (!this->request(request, answer)) return std::nullopt;
  return answer.event;
}

// What comes besides is about an earlier question, which has had its time.
Outcome Question::await_step(uint32_t wanted) {
  pollfd wait{bell_, POLLIN, 0};
  while (poll(&wait, 1, kStepMs) == 1) {
    const std::optional<Event> next = event();
    if (!next) continue;
    if (next->type == wanted) return Done{};
    if (next->type != RDMA_CM_EVENT_ADDR_ERROR && next->type != RDMA_CM_EVENT_ROUTE_ERROR) continue;
    return Error{-next->status, std::strerror(-next->status)};
  }
  return Error{ETIMEDOUT, "the connection manager finds no way"};
}

Outcome Question::ask(const Address& host) {
  Request create{};
  create.what = Do::kCreateId;
  create.channel = channel_;
  create.port_space = RDMA_PS_UDP;
  create.qp_type = IBV_QPT_UD;
  Answer answer{};
  if (Outcome created = request(create, answer); !created) return created;
  const uint32_t id = answer.id;
  Request resolve{};
  resolve.what = Do::kResolveAddress;
  resolve.id = id;
  resolve.destination = host;
  resolve.timeout_ms = kStepTimeoutMs;
  if (Outcome asked = request(resolve, answer); !asked) return asked;
  if (Outcome found = await_step(RDMA_CM_EVENT_ADDR_RESOLVED); !found) return found;
  resolve.what = Do::kResolveRoute;
  if (Outcome asked = request(resolve, answer); !asked) return asked;
  if (Outcome found = await_step(RDMA_CM_EVENT_ROUTE_RESOLVED); !found) return found;
  Request connect{};
  connect.what = Do::kConnect;
  connect.id = id;
  connect.parameters.valid = 1;
  return request(connect, answer);
}

std::optional<Question::News> Question::news() {
  const std::optional<Event> next = event();
  if (!next) return std::nullopt;
  switch (next->type) {
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED:
      return News{true, {}};
    case RDMA_CM_EVENT_UNREACHABLE:
      if (next->status >= 0) return News{true, {}};
      return News{false, std::strerror(-next->status)};
    default:
      return std::nullopt;
  }
}

}  // namespace verbatim::doctor
