// SPDX-License-Identifier: MIT
#include "tools/capture/session.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/client.h"
#include "agent/protocol.h"

namespace verbatim::capture {

Outcome Session::begin() {
  Expected<int> socket = agent::reach_agent();
  if (!socket) return socket.error();
  socket_ = *socket;
  agent::Request request{};
  request.ask = agent::Ask::kCapture;
  agent::Answer answer{};
  int files[agent::kFilesMax] = {rings_.file()}, count = 1;
  Outcome asked = agent::ask_agent(socket_, request, answer, files, count);
  agent::close_files(files, count);
  if (!asked) end();
  return asked;
}

// The agent says nothing by itself: what comes is its end.
Outcome Session::wait_ms(int milliseconds) {
  pollfd file{socket_, POLLIN, 0};
  if (poll(&file, 1, milliseconds) <= 0 || !(file.revents & (POLLIN | POLLHUP))) return Done{};
  end();
  return begin();
}

bool Session::all_write() const {
  agent::Request request{};
  request.ask = agent::Ask::kList;
  for (;;) {
    agent::Answer answer{};
    int files[agent::kFilesMax], count = 0;
    const Outcome asked = agent::ask_agent(socket_, request, answer, files, count);
    agent::close_files(files, count);
    if (!asked) return true;  // there are no more
    if (!rings_.writes(answer.slot)) return false;
    request.slot = answer.slot;
  }
}

void Session::end() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

}  // namespace verbatim::capture
