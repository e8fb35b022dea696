// SPDX-License-Identifier: MIT
#include "lib/rspreload/next.h"

#include <dlfcn.h>

namespace verbatim::rspreload {
namespace {

template <class Function>
void find(Function& call, const char* name) {
  call = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

Next look_up() {
  Next all{};
  find(all.socket, "socket");
  find(all.bind, "bind");
  find(all.listen, "listen");
  find(all.accept4, "accept4");
  find(all.connect, "connect");
  find(all.shutdown, "shutdown");
  find(all.close, "close");
  find(all.recv, "recv");
  find(all.recvfrom, "recvfrom");
  find(all.recvmsg, "recvmsg");
  find(all.read, "read");
  find(all.readv, "readv");
  find(all.recv_chk, "__recv_chk");
  find(all.recvfrom_chk, "__recvfrom_chk");
  find(all.read_chk, "__read_chk");
  find(all.poll_chk, "__poll_chk");
  find(all.send, "send");
  find(all.sendto, "sendto");
  find(all.sendmsg, "sendmsg");
  find(all.write, "write");
  find(all.writev, "writev");
  find(all.sendfile, "sendfile");
  find(all.poll, "poll");
  find(all.ppoll, "ppoll");
  find(all.ppoll_chk, "__ppoll_chk");
  find(all.select, "select");
  find(all.pselect, "pselect");
  find(all.epoll_create1, "epoll_create1");
  find(all.epoll_ctl, "epoll_ctl");
  find(all.epoll_wait, "epoll_wait");
  find(all.epoll_pwait, "epoll_pwait");
  find(all.getpeername, "getpeername");
  find(all.getsockname, "getsockname");
  find(all.getsockopt, "getsockopt");
  find(all.setsockopt, "setsockopt");
  find(all.fcntl, "fcntl");
  find(all.ioctl, "ioctl");
  find(all.fstat, "fstat");
  find(all.fstat64, "fstat64");
  find(all.dup, "dup");
  find(all.dup2, "dup2");
  return all;
}

}  // namespace

const Next& next() {
  static const Next all = look_up();
  return all;
}

}  // namespace verbatim::rspreload
