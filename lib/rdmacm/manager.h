// SPDX-License-Identifier: MIT
#pragma once

#include "agent/cm/protocol.h"

namespace verbatim::rdmacm {

using agent::cm::Answer;
using agent::cm::Do;
using agent::cm::Request;

/// Asks the agent's connection manager, which is started when there is none, and once more if it goes away
/// meanwhile. 0, or -1 with errno set: what the manager says, or why there is none. Thread safe.
int ask(Request& request, Answer& answer);

/// Opens a channel over an eventfd, which must stay open until the channel is closed; its number, or 0 with
/// errno set.
uint32_t open_channel(int eventfd);
/// Whether the process has the channel and did not close it.
bool channel_is_open(uint32_t channel);

/// What the manager told last of an id. False: nothing.
bool recall(uint32_t id, agent::cm::Testament& testament);

}  // namespace verbatim::rdmacm
