// SPDX-License-Identifier: MIT
// Queries whose answer comes through a descriptor. The device answers at once; what is asynchronous is when
// the program takes the answer.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#include "lib/mlx5/devx.h"

namespace verbatim::mlx5::devx {
namespace {

/// Of one cmd_comp; beyond it the program has to take answers first.
constexpr size_t kWaitingBytesMax = 1u << 20;

struct Answer {
  uint64_t wr_id;
  std::vector<uint8_t> out;
  size_t bytes() const { return sizeof(mlx5dv_devx_async_cmd_hdr) + out.size(); }
};

/// Answers in the order of the queries. The descriptor counts them, so that it is readable while there are
/// some.
struct Completions {
  mlx5dv_devx_cmd_comp shown{-1};
  std::mutex lock;
  std::deque<Answer> answers;
  size_t waiting_bytes = 0;

  static Completions& of(mlx5dv_devx_cmd_comp* shown) { return *reinterpret_cast<Completions*>(shown); }
};

int query(mlx5dv_devx_obj& object, const Boxes& boxes, uint64_t wr_id, Completions& completions) {
  if (working(&object.context->verbs.context) == nullptr) return errno;
  const Outcome may = allowed_about("mlx5dv_devx_obj_query_async", prm::Kind::kQuery, boxes, object.target);
  if (!may) return verbs::refuse(*object.context, may.error());
  Answer answer{wr_id, {boxes.out.begin(), boxes.out.end()}};
  const std::lock_guard guard(completions.lock);
  if (completions.waiting_bytes + answer.bytes() > kWaitingBytesMax) return EAGAIN;
  static_cast<void>(send(*object.context, boxes.in, answer.out));
  completions.waiting_bytes += answer.bytes();
  completions.answers.push_back(std::move(answer));
  return ::eventfd_write(completions.shown.fd, 1) == 0 ? 0 : errno;
}

int take(Completions& completions, mlx5dv_devx_async_cmd_hdr& to, size_t bytes) {
  eventfd_t one;
  if (::eventfd_read(completions.shown.fd, &one) != 0) return errno;
  const std::lock_guard guard(completions.lock);
  const Answer& answer = completions.answers.front();
  if (answer.bytes() > bytes) {
    static_cast<void>(::eventfd_write(completions.shown.fd, 1));
    return ENOSPC;
  }
  to.wr_id = answer.wr_id;
  std::memcpy(to.out_data, answer.out.data(), answer.out.size());
  completions.waiting_bytes -= answer.bytes();
  completions.answers.pop_front();
  return 0;
}

}  // namespace
}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;

extern "C" {

mlx5dv_devx_cmd_comp* mlx5dv_devx_create_cmd_comp(ibv_context* context) {
  if (own(context) == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  auto completions = std::unique_ptr<devx::Completions>(new (std::nothrow) devx::Completions);
  if (completions == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  completions->shown.fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return completions->shown.fd < 0 ? nullptr : &completions.release()->shown;
}

void mlx5dv_devx_destroy_cmd_comp(mlx5dv_devx_cmd_comp* shown) {
  ::close(shown->fd);
  delete &devx::Completions::of(shown);
}

int mlx5dv_devx_obj_query_async(mlx5dv_devx_obj* obj, const void* in, size_t inlen, size_t outlen,
                                uint64_t wr_id, mlx5dv_devx_cmd_comp* cmd_comp) {
  std::vector<uint8_t> out(std::min<size_t>(outlen, 0x10000));
  return devx::query(*obj, devx::Boxes(in, inlen, out.data(), out.size()), wr_id,
                     devx::Completions::of(cmd_comp));
}

int mlx5dv_devx_get_async_cmd_comp(mlx5dv_devx_cmd_comp* cmd_comp, mlx5dv_devx_async_cmd_hdr* cmd_resp,
                                   size_t cmd_resp_len) {
  return devx::take(devx::Completions::of(cmd_comp), *cmd_resp, cmd_resp_len);
}

}  // extern "C"
