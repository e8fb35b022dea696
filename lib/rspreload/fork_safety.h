// SPDX-License-Identifier: MIT
#pragma once

// Connections over RDMA do not survive a fork, so that a server that forks after it has accepted would lose
// them. With RDMAV_FORK_SAFE=1 at both ends sockets begin as those of the kernel, and become ones over RDMA
// when a program first sends or receives, which a forking server does in the child:
//
//   passive: listens over RDMA on its own port, writes 4 zero bytes, accepts
//   active:  waits for these bytes, connects over RDMA to the same address
//
// The kernel's connection ends then. What fails leaves both with it. Released libraries are peers.

namespace verbatim::rspreload {

/// Whether sockets are to begin as the kernel's.
bool is_fork_safety_wanted();
/// A socket of the kernel's is one of these from now on.
void begin_as_plain(int descriptor);
/// The program listens on it, connects it, or has accepted it from a listening one. What is none of these
/// sockets stays none.
void note_listening(int descriptor);
void note_connecting(int descriptor);
void note_accepted(int listening, int descriptor);
/// The descriptor is closed, or means something else.
void forget_plain(int descriptor);
/// The program wants to use it for data: one that can become a socket over RDMA does so. Waits for the peer.
void turn_over(int descriptor);

}  // namespace verbatim::rspreload
