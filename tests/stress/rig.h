// SPDX-License-Identifier: MIT
#pragma once

// What the stress programs share: a device, connected queue pairs, a socket to the other process, and their
// patience.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbatim::stress {

/// Ends the process with status 1 and says why on standard error (with errno) unless `ok`.
void require(bool ok, const char* what);
/// The same with words of one's own, without errno.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Nanoseconds of a clock that only goes forward.
uint64_t now_ns();
/// Processor time that this process has used, in nanoseconds.
uint64_t cpu_ns();
inline constexpr uint64_t kMillisecondNs = 1'000'000;
inline constexpr uint64_t kSecondNs = 1'000'000'000;

/// Whole records over a stream socket. False: the other end has gone.
bool send_all(int socket, const void* data, size_t bytes);
bool receive_all(int socket, void* data, size_t bytes);
template <class T>
bool send_record(int socket, const T& record) {
  return send_all(socket, &record, sizeof record);
}
template <class T>
bool receive_record(int socket, T& record) {
  return receive_all(socket, &record, sizeof record);
}

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_gid gid{};
};
/// Opens the first device with a protection domain.
Device open_device();
void close_device(Device& device);

/// How to reach a queue pair, as one process tells another.
struct Address {
  uint32_t qpn = 0, psn = 0;
  ibv_gid gid{};
};

struct QpShape {
  uint32_t sends = 64, receives = 64, elements = 8, inline_bytes = 64;
};
ibv_qp* make_qp(const Device& device, ibv_cq* send_cq, ibv_cq* receive_cq, const QpShape& shape = {});
Address address_of(const Device& device, const ibv_qp* qp);

struct Patience {
  uint8_t timeout = 14, retries = 7, rnr_retries = 7, reads = 8;
};
/// RESET to RTS. False: the peer could not be named (errno).
bool connect_qp(ibv_qp* qp, const Address& mine, const Address& peer, const Patience& patience = {});

/// A peer process: this program again with `arguments`, one end of a socket as file descriptor 3.
struct Child {
  int pid = -1;
  int socket = -1;
};
inline constexpr int kParentSocket = 3;
Child start_self(const char* role, const char* argument = nullptr);
/// Waits for the process's end; its wait status.
int reap(const Child& child);

/// A private agent name for this run, so that concurrent runs do not meet. Set before a device is opened.
void use_private_agent(const char* test);

/// Private anonymous zeroed memory that ends where nothing is mapped.
std::byte* map_memory(size_t bytes);

}  // namespace verbatim::stress
