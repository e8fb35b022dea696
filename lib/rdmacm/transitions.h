// SPDX-License-Identifier: MIT
#pragma once

#include "lib/rdmacm/id.h"

namespace verbatim::rdmacm {

// States of an id's queue pair. 0, or -1 with errno set; nothing is done for an id without one.

/// A connected queue pair to INIT, a datagram one to RTS.
int make_ready(Id& id, ibv_qp* qp);
/// To RTR and RTS, as the messages of the connection say; the numbers of reads at a time are the caller's
/// where they are not RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH.
int move_to_connected(Id& id, uint8_t responder_resources, uint8_t initiator_depth);
void move_to_error(Id& id);

/// The active side's last step, after the peer's answer: the queue pair is connected, the peer told.
int finish_connecting(Id& id, const agent::cm::Ece& remote);
/// Tells the peer that the connection stands.
int establish(Id& id);

/// Options of a queue pair just made: takes those that the peer's request offered.
int agree_on_ece(Id& id, ibv_qp* qp);
/// Remembers what the queue pair made of them.
int note_ece(Id& id, ibv_qp* qp);

}  // namespace verbatim::rdmacm
