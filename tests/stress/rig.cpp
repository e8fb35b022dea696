// SPDX-License-Identifier: MIT
#include "tests/stress/rig.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

extern char** environ;

namespace verbatim::stress {

void require(bool ok, const char* what) {
  if (!ok) fail("%s: %s", what, std::strerror(errno));
}

void fail(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "FAILED [%d] %s\n", getpid(), text);
  _exit(1);
}

uint64_t cpu_ns() {
  rusage used{};
  require(getrusage(RUSAGE_SELF, &used) == 0, "getrusage");
  const auto ns = [](const timeval& t) {
    return static_cast<uint64_t>(t.tv_sec) * kSecondNs + static_cast<uint64_t>(t.tv_usec) * 1000;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

bool send_all(int socket, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

Device open_device() {
  Device device;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  require(list && count > 0, "no device");
  device.context = ibv_open_device(list[0]);
  require(device.context, "ibv_open_device");
  ibv_free_device_list(list);
  device.pd = ibv_alloc_pd(device.context);
  require(device.pd, "ibv_alloc_pd");
  require(ibv_query_gid(device.context, 1, 0, &device.gid) == 0, "ibv_query_gid");
  return device;
}

void close_device(Device& device) {
  require(ibv_dealloc_pd(device.pd) == 0, "ibv_dealloc_pd");
  require(ibv_close_device(device.context) == 0, "ibv_close_device");
  device = Device{};
}

ibv_qp* make_qp(const Device& device, ibv_cq* send_cq, ibv_cq* receive_cq, const QpShape& shape) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = send_cq;
  wanted.recv_cq = receive_cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = shape.sends;
  wanted.cap.max_recv_wr = shape.receives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = shape.elements;
  wanted.cap.max_inline_data = shape.inline_bytes;
  ibv_qp* qp = ibv_create_qp(device.pd, &wanted);
  require(qp, "ibv_create_qp");
  return qp;
}

Address address_of(const Device& device, const ibv_qp* qp) {
  return {qp->qp_num, (qp->qp_num * 2654435761u) & 0xffffff, device.gid};
}

bool connect_qp(ibv_qp* qp, const Address& mine, const Address& peer, const Patience& patience) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  to.qp_access_flags =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    return false;
  to = ibv_qp_attr{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = peer.qpn;
  to.rq_psn = peer.psn;
  to.max_dest_rd_atomic = patience.reads;
  to.min_rnr_timer = 1;
  to.ah_attr.is_global = 1;
  to.ah_attr.grh.dgid = peer.gid;
  to.ah_attr.grh.hop_limit = 1;
  to.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &to,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    return false;
  to = ibv_qp_attr{};
  to.qp_state = IBV_QPS_RTS;
  to.timeout = patience.timeout;
  to.retry_cnt = patience.retries;
  to.rnr_retry = patience.rnr_retries;
  to.sq_psn = mine.psn;
  to.max_rd_atomic = patience.reads;
  return ibv_modify_qp(qp, &to,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

Child start_self(const char* role, const char* argument) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  if (ends[1] == kParentSocket) {  // dup2 onto itself would keep the close-on-exec mark
    const int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, kParentSocket + 1);
    require(moved >= 0, "fcntl");
    close(ends[1]);
    ends[1] = moved;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kParentSocket);
  char program[] = "/proc/self/exe";
  char* arguments[] = {program, const_cast<char*>(role), const_cast<char*>(argument), nullptr};
  pid_t pid = -1;
  errno = posix_spawn(&pid, program, &actions, nullptr, arguments, environ);
  require(errno == 0, "posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return {pid, ends[0]};
}

int reap(const Child& child) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0) require(errno == EINTR, "waitpid");
  return status;
}

void use_private_agent(const char* test) {
  const std::string name = "verbatim-stress/" + std::string(test) + "/" + std::to_string(getpid());
  setenv("VERBATIM_AGENT_SOCKET", name.c_str(), 0);
}

std::byte* map_memory(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  void* memory = mmap(nullptr, rounded + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  require(mprotect(static_cast<char*>(memory) + rounded, kPage, PROT_NONE) == 0, "mprotect");
  return static_cast<std::byte*>(memory);
}

}  // namespace verbatim::stress
