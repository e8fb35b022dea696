// SPDX-License-Identifier: MIT
// Objects of a context that another process has opened, by its command descriptor and their handles.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "tests/conformance/players.h"

namespace verbatim::conformance {
namespace {

constexpr size_t kFar = 32 * 1024;

/// What the owner of objects hands to who imports them, beside the descriptor.
struct Handles {
  uint32_t pd = 0, mr = 0, dm = 0, lkey = 0, rkey = 0;
  uint64_t address = 0;
};

void give(int socket, int fd, const Handles& handles) {
  Handles copy = handles;
  iovec data{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* with = CMSG_FIRSTHDR(&message);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_RIGHTS;
  with->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(with), &fd, sizeof fd);
  ASSERT_EQ(sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof copy));
}

Handles take(int socket, int& fd) {
  Handles handles;
  iovec data{&handles, sizeof handles};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(recvmsg(socket, &message, MSG_CMSG_CLOEXEC), static_cast<ssize_t>(sizeof handles));
  const cmsghdr* with = CMSG_FIRSTHDR(&message);
  if (with != nullptr) std::memcpy(&fd, CMSG_DATA(with), sizeof fd);
  return handles;
}

using Side = std::function<void(int socket)>;

/// Both sides at once, the importer in a process of its own, which opens nothing before.
void play_two(const Side& owner, const Side& importer) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(30);
    importer(ends[1]);
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  close(ends[1]);
  owner(ends[0]);
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the other process failed";
}

Handles handles_of(const Endpoint& self) {
  return {self.pd->handle, self.mr->handle, 0,
          self.mr->lkey,   self.mr->rkey,   reinterpret_cast<uint64_t>(self.buffer.data())};
}

/// What an endpoint is made with in the domain that the other end of the socket has given.
Traits take_domain(int socket, Handles& from) {
  Traits traits;
  from = take(socket, traits.command_fd);
  traits.pd_handle = from.pd;
  return traits;
}

/// Its own memory is registered there, too.
Endpoint import_endpoint(int socket, Handles& from) { return Endpoint(take_domain(socket, from), socket); }

/// One work request over one element of any region.
ibv_wc_status carry_out(Endpoint& self, ibv_wr_opcode opcode, const ibv_sge& local, uint64_t remote,
                        uint32_t rkey) {
  ibv_sge sge = local;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {remote, rkey};
  EXPECT_EQ(ibv_post_send(self.qp, &wr, &bad), 0);
  return self.wait_status();
}

void own_region(int socket) {
  Endpoint self({}, socket);
  give(socket, self.context->cmd_fd, handles_of(self));
  self.meet();
  fill(self, 0, 20'000, 3);
  self.barrier();
  self.barrier();  // it has written
  EXPECT_TRUE(holds(self, kFar, 20'000, 3));
  // A message that the importer receives into this process's memory.
  fill(self, 0, 20'000, 4);
  self.barrier();
  EXPECT_EQ(self.post(self.request(IBV_WR_SEND, 20'000)), 0);
  EXPECT_EQ(self.wait_status(), IBV_WC_SUCCESS);
  self.barrier();
  EXPECT_TRUE(holds(self, kFar, 20'000, 4));
  // Through the importer's queue pair with the imported region's rkey.
  Handles theirs;
  EXPECT_EQ(recv(socket, &theirs, sizeof theirs, MSG_WAITALL), static_cast<ssize_t>(sizeof theirs));
  EXPECT_EQ(theirs.rkey, self.mr->rkey);
  fill(self, 0, 20'000, 5);
  const ibv_sge mine = self.piece(0, 20'000);
  const uint64_t far = reinterpret_cast<uint64_t>(self.buffer.data()) + kFar;
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, mine, far, theirs.rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(self, kFar, 20'000, 5));
  std::memset(self.buffer.data(), 0, 20'000);
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_READ, mine, far, theirs.rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(self, 0, 20'000, 5));
  self.barrier();
  self.barrier();  // it has unimported the region, and written to the original
  EXPECT_EQ(self.buffer[kFar], 0x77);
  EXPECT_EQ(ibv_dereg_mr(self.mr), 0);
  self.mr = nullptr;
  self.barrier();
  self.barrier();
}

void use_region(int socket) {
  Handles from;
  Endpoint self = import_endpoint(socket, from);
  EXPECT_EQ(self.pd->handle, from.pd);
  ibv_mr* mr = ibv_import_mr(self.pd, from.mr);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, kBuffer);
  EXPECT_EQ(mr->handle, from.mr);
  EXPECT_EQ(mr->lkey, from.lkey);
  EXPECT_EQ(mr->rkey, from.rkey);
  self.meet();
  self.barrier();
  const ibv_sge theirs{from.address, 20'000, mr->lkey};
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, theirs, from.address + kFar, from.rkey), IBV_WC_SUCCESS);
  self.barrier();
  ibv_sge far{from.address + kFar, 20'000, mr->lkey};
  ibv_recv_wr receive{1, nullptr, &far, 1}, *bad = nullptr;
  EXPECT_EQ(ibv_post_recv(self.qp, &receive, &bad), 0);
  self.barrier();
  const ibv_wc wc = self.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 20'000u);
  self.barrier();
  const Handles mine{0, 0, 0, mr->lkey, mr->rkey, 0};
  EXPECT_EQ(send(socket, &mine, sizeof mine, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof mine));
  self.barrier();
  // The end of an import does not hurt the original.
  ibv_unimport_mr(mr);
  self.buffer[0] = 0x77;
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, self.piece(0, 1), from.address + kFar, from.rkey),
            IBV_WC_SUCCESS);
  ASSERT_NE(mr = ibv_import_mr(self.pd, from.mr), nullptr);
  const uint32_t lkey = mr->lkey;
  self.barrier();
  self.barrier();  // the original is deregistered
  EXPECT_EQ(ibv_import_mr(self.pd, from.mr), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, {from.address, 8, lkey}, from.address, from.rkey),
            IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  self.barrier();
}

TEST(Imports, RegionsServeAnotherProcess) { play_two(own_region, use_region); }

/// Binds the window, of type 1, to a range of the region; without bytes it is unbound.
void bind(Endpoint& self, ibv_mw* window, ibv_mr* mr, uint64_t address, uint64_t bytes) {
  ibv_mw_bind wanted{
      1, IBV_SEND_SIGNALED, {mr, address, bytes, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ}};
  ASSERT_EQ(ibv_bind_mw(self.qp, window, &wanted), 0);
  ASSERT_EQ(self.wait_status(), IBV_WC_SUCCESS);
}

// The owner reaches its own memory by the importer's queue pair and window.
TEST(Imports, WindowsOpenRegionsOfAnotherProcess) {
  play_two(
      [](int socket) {
        Traits traits;
        traits.mr_access = kAllRights | IBV_ACCESS_MW_BIND;
        Endpoint self(traits, socket);
        give(socket, self.context->cmd_fd, handles_of(self));
        self.meet();
        Handles window;
        EXPECT_EQ(recv(socket, &window, sizeof window, MSG_WAITALL), static_cast<ssize_t>(sizeof window));
        const uint64_t far = reinterpret_cast<uint64_t>(self.buffer.data()) + kFar;
        fill(self, 0, 5'000, 6);
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, self.piece(0, 5'000), far, window.rkey), IBV_WC_SUCCESS);
        EXPECT_TRUE(holds(self, kFar, 5'000, 6));
        std::memset(self.buffer.data(), 0, 5'000);
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_READ, self.piece(0, 5'000), far, window.rkey), IBV_WC_SUCCESS);
        EXPECT_TRUE(holds(self, 0, 5'000, 6));
        self.barrier();
        self.barrier();  // the window is unbound
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_READ, self.piece(0, 8), far, window.rkey),
                  IBV_WC_REM_ACCESS_ERR);
        self.barrier();
      },
      [](int socket) {
        Handles from;
        Endpoint self = import_endpoint(socket, from);
        ibv_mr* mr = ibv_import_mr(self.pd, from.mr);
        ASSERT_NE(mr, nullptr);
        ibv_mw* window = ibv_alloc_mw(self.pd, IBV_MW_TYPE_1);
        ASSERT_NE(window, nullptr);
        self.meet();
        bind(self, window, mr, from.address + kFar, 5'000);
        const Handles mine{0, 0, 0, 0, window->rkey, 0};
        EXPECT_EQ(send(socket, &mine, sizeof mine, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof mine));
        self.barrier();
        EXPECT_EQ(ibv_dereg_mr(mr), EBUSY) << "the window is bound to it";
        bind(self, window, mr, 0, 0);
        self.barrier();
        self.barrier();
        EXPECT_EQ(ibv_dealloc_mw(window), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
      });
}

TEST(Imports, RegionsKeepTheirRights) {
  play_two(
      [](int socket) {
        Traits read_only;
        read_only.mr_access = 0;
        Endpoint self(read_only, socket);
        give(socket, self.context->cmd_fd, handles_of(self));
        self.meet();
        self.barrier();
      },
      [](int socket) {
        Handles from;
        Endpoint self = import_endpoint(socket, from);
        ibv_mr* mr = ibv_import_mr(self.pd, from.mr);
        ASSERT_NE(mr, nullptr);
        EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllRights),
                  IBV_REREG_MR_ERR_CMD);
        self.meet();
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_READ, {from.address, 8, mr->lkey}, from.address, from.rkey),
                  IBV_WC_LOC_PROT_ERR)
            << "the original lets nobody write";
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(ibv_import_mr(self.pd, from.mr + 1), nullptr);
        EXPECT_EQ(errno, ENOENT);
        ibv_pd* other = ibv_alloc_pd(self.context);
        EXPECT_EQ(ibv_import_mr(other, from.mr), nullptr) << "it is not of that domain";
        EXPECT_EQ(errno, ENOENT);
        EXPECT_EQ(ibv_dealloc_pd(other), 0);
        self.barrier();
      });
}

TEST(Imports, DeviceMemoryIsShared) {
  play_two(
      [](int socket) {
        Endpoint self({}, socket);
        ibv_alloc_dm_attr wanted{4096, 0, 0};
        ibv_dm* dm = ibv_alloc_dm(self.context, &wanted);
        ASSERT_NE(dm, nullptr);
        uint32_t value = 0x1234;
        EXPECT_EQ(ibv_memcpy_to_dm(dm, 64, &value, sizeof value), 0);
        Handles handles = handles_of(self);
        handles.dm = dm->handle;
        give(socket, self.context->cmd_fd, handles);
        self.meet();
        self.barrier();
        EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 128, sizeof value), 0);
        EXPECT_EQ(value, 0x5678u);
        EXPECT_EQ(ibv_free_dm(dm), 0);
        self.barrier();
        self.barrier();
      },
      [](int socket) {
        Handles from;
        Endpoint self = import_endpoint(socket, from);
        ibv_dm* dm = ibv_import_dm(self.context, from.dm);
        ASSERT_NE(dm, nullptr);
        EXPECT_EQ(dm->handle, from.dm);
        self.meet();
        uint32_t value = 0;
        EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 64, sizeof value), 0);
        EXPECT_EQ(value, 0x1234u);
        // Registered here, and written by the device.
        ibv_mr* mr = ibv_reg_dm_mr(self.pd, dm, 0, 4096, kAllRights | IBV_ACCESS_ZERO_BASED);
        ASSERT_NE(mr, nullptr);
        word(self, 0) = 0x5678;
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, self.piece(0, 8), from.address, from.rkey),
                  IBV_WC_SUCCESS);
        EXPECT_EQ(carry_out(self, IBV_WR_RDMA_READ, {128, 8, mr->lkey}, from.address, from.rkey),
                  IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        self.barrier();
        self.barrier();  // the original is freed
        EXPECT_EQ(ibv_import_dm(self.context, from.dm), nullptr);
        EXPECT_EQ(errno, ENOENT);
        EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 64, sizeof value), 0) << "the pages are still there";
        EXPECT_EQ(value, 0x1234u);
        ibv_unimport_dm(dm);
        self.barrier();
      });
}

// The one that imports goes on; what was only the other's is an error of work requests.
TEST(Imports, OutliveTheirOriginals) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    Endpoint self({}, ends[1]);
    ibv_alloc_dm_attr wanted{64, 0, 0};
    ibv_dm* dm = ibv_alloc_dm(self.context, &wanted);
    uint32_t value = 0xabcd;
    if (ibv_memcpy_to_dm(dm, 0, &value, sizeof value) != 0) _exit(1);
    Handles handles = handles_of(self);
    handles.dm = dm->handle;
    give(ends[1], self.context->cmd_fd, handles);
    self.barrier();
    _exit(0);  // without a word to anybody
  }
  Handles from;
  const Traits traits = take_domain(ends[0], from);
  close(ends[1]);
  Pair pair(traits);
  Endpoint& self = pair.left;
  ibv_mr* mr = ibv_import_mr(self.pd, from.mr);
  ASSERT_NE(mr, nullptr);
  ibv_dm* dm = ibv_import_dm(self.context, from.dm);
  ASSERT_NE(dm, nullptr);
  char token = 'b';
  EXPECT_EQ(send(ends[0], &token, 1, MSG_NOSIGNAL), 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ibv_import_mr(self.pd, from.mr), nullptr);
  EXPECT_EQ(errno, ENOENT);
  uint32_t value = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&value, dm, 0, sizeof value), 0);
  EXPECT_EQ(value, 0xabcdu);
  fill(self, 0, 100, 9);
  const uint64_t there = reinterpret_cast<uint64_t>(pair.right.buffer.data());
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, self.piece(0, 100), there, pair.right.mr->rkey),
            IBV_WC_SUCCESS);
  EXPECT_TRUE(holds(pair.right, 0, 100, 9));
  EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, {from.address, 8, mr->lkey}, there, pair.right.mr->rkey),
            IBV_WC_LOC_PROT_ERR);
  ibv_pd* again = ibv_import_pd(self.context, from.pd);
  EXPECT_NE(again, nullptr) << "a domain needs nothing of its process";
  ibv_unimport_pd(again);
  ibv_unimport_mr(mr);
  ibv_unimport_dm(dm);
  close(ends[0]);
}

TEST(Imports, InTheSameProcessAreTheSameKeys) {
  Endpoint original;
  Traits traits;
  traits.command_fd = dup(original.context->cmd_fd);
  traits.pd_handle = original.pd->handle;
  {
    Endpoint self(traits), peer;
    ibv_mr* mr = ibv_import_mr(self.pd, original.mr->handle);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->lkey, original.mr->lkey);
    EXPECT_EQ(mr->addr, nullptr);
    EXPECT_EQ(self.connect(peer.contact()), 0);
    EXPECT_EQ(peer.connect(self.contact()), 0);
    fill(original, 0, 1000, 8);
    const auto there = reinterpret_cast<uint64_t>(peer.buffer.data());
    EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, original.piece(0, 1000), there, peer.mr->rkey),
              IBV_WC_SUCCESS)
        << "the domain is shared: so is a region that nobody has imported";
    EXPECT_TRUE(holds(peer, 0, 1000, 8));
    EXPECT_EQ(ibv_dealloc_pd(self.pd), EBUSY);
    ibv_unimport_mr(mr);
    EXPECT_EQ(carry_out(self, IBV_WR_RDMA_WRITE, original.piece(0, 1000), there, peer.mr->rkey),
              IBV_WC_SUCCESS);
  }
  EXPECT_EQ(original.mr->length, kBuffer);
}

TEST(Imports, AreRefusedWithAReason) {
  Endpoint self;
  EXPECT_EQ(ibv_import_device(-1), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ibv_import_device(self.context->async_fd), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_import_pd(self.context, self.pd->handle + 1), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_pd(self.context, UINT32_MAX), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_dm(self.context, 0), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_dm(self.context, 77), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_pd* pd = ibv_import_pd(self.context, self.pd->handle);
  ASSERT_NE(pd, nullptr);
  ibv_unimport_pd(ibv_import_pd(self.context, self.pd->handle));
  ibv_pd* again = ibv_import_pd(self.context, self.pd->handle);
  EXPECT_NE(again, nullptr) << "the end of an import is not that of the original";
  ibv_unimport_pd(again);
  EXPECT_EQ(ibv_import_mr(pd, 0), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_mr(pd, UINT32_MAX), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_pd(pd);
}

// As a program might use it whose child needs the device: what the child has of it is its parent's.
TEST(Imports, GiveAForkedChildAContextOfItsOwn) {
  Endpoint self;
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const auto works = [&] {
      if (ibv_alloc_pd(self.context) != nullptr || errno != EIO) return 1;
      ibv_context* context = ibv_import_device(dup(self.context->cmd_fd));
      if (context == nullptr) return 2;
      ibv_pd* pd = ibv_import_pd(context, self.pd->handle);
      if (pd == nullptr) return 3;
      ibv_mr* mr = ibv_import_mr(pd, self.mr->handle);
      if (mr == nullptr) return 4;
      ibv_unimport_mr(mr);
      ibv_unimport_pd(pd);
      return ibv_close_device(context) == 0 ? 0 : 5;
    };
    _exit(works());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << (status >> 8);
}

}  // namespace
}  // namespace verbatim::conformance
