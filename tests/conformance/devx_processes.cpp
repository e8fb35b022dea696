// SPDX-License-Identifier: MIT
// Two processes that know their devices by command alone; neither calls the library while data moves.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "abi/prm/memory.h"
#include "tests/conformance/devx_parts.h"
#include "tests/conformance/mail.h"

namespace verbatim::conformance {
namespace {

using connectx::DataSegment;
using connectx::RemoteSegment;

constexpr uint32_t kBytes = 4096, kRounds = 300;

/// What one tells the other.
struct Contact {
  uint32_t qpn = 0, key = 0;
  uint64_t address = 0;
};

struct Player {
  explicit Player(int with)
      : socket(with), memory(device.context, kBytes), cq(device, 6, device.eqn), qp(device, cq) {
    Mail<prm::CreateMkey> mail;
    mail.in.set(prm::CreateMkeyIn::mkey_umem_valid, true);
    mail.in.set(prm::CreateMkeyIn::mkey_umem_id, memory.id());
    const auto context = mail.in[prm::CreateMkeyIn::memory_key_mkey_entry];
    context.set(prm::Mkc::access_mode_1_0, prm::MkeyAccessMode::kMtt);
    context.set(prm::Mkc::qpn, 0xffffff);
    context.set(prm::Mkc::pd, device.pdn);
    context.set(prm::Mkc::start_addr, reinterpret_cast<uint64_t>(memory.at(0)));
    context.set(prm::Mkc::len, kBytes);
    for (const auto right : {prm::Mkc::lw, prm::Mkc::lr, prm::Mkc::rw, prm::Mkc::rr})
      context.set(right, true);
    mkey = mail.create(device.context);
    own = {qp.number, mail.out[prm::CreateMkeyOut::mkey_index] << 8,
           reinterpret_cast<uint64_t>(memory.at(0))};
  }
  ~Player() {
    (void)qp.destroy();
    (void)mlx5dv_devx_obj_destroy(mkey);
  }
  bool meet() {
    return send(socket, &own, sizeof own, 0) == sizeof own &&
           recv(socket, &peer, sizeof peer, MSG_WAITALL) == sizeof peer && qp.connect(peer.qpn) == 0 &&
           barrier();
  }
  bool barrier() const {
    char token = 1;
    return send(socket, &token, 1, 0) == 1 && recv(socket, &token, 1, MSG_WAITALL) == 1;
  }
  DataSegment piece(uint32_t bytes) const {
    return {connectx::Be32(bytes), connectx::Be32(own.key), connectx::Be64(own.address)};
  }

  int socket;
  DevxDevice device;
  NamedMemory memory;
  DevxCq cq;
  DevxQp qp;
  mlx5dv_devx_obj* mkey = nullptr;
  Contact own, peer;
};

/// Answers each message with one that is larger by one. The number of the step that failed, or 0.
int answer(int socket) {
  Player self(socket);
  if (!self.qp.good() || self.mkey == nullptr) return 1;
  self.qp.receive(self.piece(kBytes));
  if (!self.meet()) return 2;
  for (uint32_t round = 0; round < kRounds; round++) {
    if (!self.cq.wait()) return 3;
    ++*self.memory.word(0);
    self.qp.receive(self.piece(kBytes));
    self.qp.post(connectx::kOpSend, self.piece(64));
    if (!self.cq.wait()) return 4;
  }
  return self.barrier() ? 0 : 5;
}

TEST(DevxProcesses, AnswerEachOther) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    _exit(answer(sockets[1]));
  }
  close(sockets[1]);
  {
    Player self(sockets[0]);
    ASSERT_TRUE(self.qp.good());
    ASSERT_TRUE(self.meet());
    for (uint32_t round = 0; round < kRounds; round++) {
      *self.memory.word(0) = round;
      self.qp.receive(self.piece(kBytes));
      self.qp.post(connectx::kOpSend, self.piece(64));
      ASSERT_TRUE(self.cq.wait() && self.cq.wait()) << round;
      EXPECT_EQ(*self.memory.word(0), round + 1);
      if (round % 50 == 0) poll(nullptr, 0, 10);  // both sides sleep
    }
    *self.memory.word(0) = 0x11223344;
    const RemoteSegment there{connectx::Be64(self.peer.address + 128), connectx::Be32(self.peer.key), 0};
    self.qp.post(connectx::kOpWrite, self.piece(64), &there);
    const auto done = self.cq.wait();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->opcode_owner >> 4, connectx::kCqeRequest);
    EXPECT_TRUE(self.barrier());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(sockets[0]);
}

}  // namespace
}  // namespace verbatim::conformance
