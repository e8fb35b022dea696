// SPDX-License-Identifier: MIT
// Commands and the objects they make.
#include "lib/mlx5/devx.h"
#include "lib/mlx5/direct.h"

#include <new>
#include <string>

#include "abi/prm/memory.h"
#include "device/connectx/prm/command_table.h"
#include "device/connectx/prm/object_life.h"

namespace verbatim::mlx5::devx {
namespace {

using prm::Kind;
using prm::MboxIn;
using prm::MboxOut;
using prm::View;

constexpr size_t kHeadBytes = 16;
constexpr size_t kBoxBytesMax = 0xffff;
/// Opcodes that any program may send without an object, known to the driver or not.
constexpr uint32_t kGeneralFirst = 0xb00, kGeneralLast = 0xcff;

const char* what(Kind kind) {
  switch (kind) {
    case Kind::kCreate:
      return " makes no object for it";
    case Kind::kQuery:
      return " asks for no object";
    case Kind::kModify:
      return " changes no object";
    default:
      return " is not a general command";
  }
}

Outcome sizes_fit(const char* call, const Boxes& boxes) {
  for (const size_t bytes : {boxes.in.size(), boxes.out.size()})
    if (bytes < kHeadBytes || bytes > kBoxBytesMax)
      return Error{EINVAL, std::string(call) + ": a mailbox has " + std::to_string(bytes) +
                               " bytes, it takes 16 to 65535"};
  return Done{};
}

/// What the device says of a failed destruction, where there is no mailbox to say it in.
int error_of(prm::Status status) {
  switch (status) {
    case prm::Status::kBadResStateErr:
      return EBUSY;
    case prm::Status::kBadResErr:
      return ENOENT;
    default:
      return EREMOTEIO;
  }
}

/// One command makes up to four signature values, of which an object is only one.
Outcome makes_one(const prm::CommandInfo& command, const Boxes& boxes) {
  if (command.opcode != prm::CreatePsv::kOpcode) return Done{};
  const uint32_t count = View<prm::CreatePsvIn>(boxes.in)[prm::CreatePsvIn::num_psv];
  if (count == 1) return Done{};
  return Error{EINVAL,
               "mlx5dv_devx_obj_create: an object is one signature value, not " + std::to_string(count)};
}

mlx5dv_devx_obj* create(verbs::Context& context, const Boxes& boxes) {
  const auto command = allowed("mlx5dv_devx_obj_create", Kind::kCreate, boxes);
  if (!command) return verbs::refuse_pointer(context, command.error());
  if (Outcome one = makes_one(**command, boxes); !one) return verbs::refuse_pointer(context, one.error());
  auto made = std::unique_ptr<mlx5dv_devx_obj>(new (std::nothrow) mlx5dv_devx_obj{&context, {}, {}});
  if (made == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (const int error = send(context, boxes.in, boxes.out)) {
    errno = error;
    return nullptr;
  }
  made->target = {prm::object_kind(**command), prm::object_number(**command, boxes.in, boxes.out)};
  made->undo = prm::undo_input(known_commands(), **command, boxes.in, boxes.out);
  return made.release();
}

int about(const char* call, Kind kind, mlx5dv_devx_obj& object, const Boxes& boxes) {
  if (object.context->abandoned) return EOPNOTSUPP;
  const Outcome may = allowed_about(call, kind, boxes, object.target);
  return may ? send(*object.context, boxes.in, boxes.out) : verbs::refuse(*object.context, may.error());
}

}  // namespace

const prm::CommandTable& known_commands() {
  static const prm::CommandTable known{};
  return known;
}

Expected<const prm::CommandInfo*> allowed(const char* call, Kind kind, const Boxes& boxes) {
  if (Outcome fit = sizes_fit(call, boxes); !fit) return fit.error();
  const View<MboxIn> head(boxes.in);
  const auto opcode = static_cast<uint16_t>(head[MboxIn::opcode]);
  const prm::CommandInfo* command =
      known_commands().find(opcode, static_cast<uint16_t>(head[MboxIn::op_mod]));
  if (kind == Kind::kGeneral && opcode >= kGeneralFirst && opcode <= kGeneralLast) return command;
  if (command == nullptr) return Error{EINVAL, std::string(call) + ": " + prm::unknown_reason(opcode)};
  if (command->kind != kind) return Error{EINVAL, std::string(call) + ": " + command->name + what(kind)};
  return command;
}

Outcome allowed_about(const char* call, Kind kind, const Boxes& boxes, const Target& target) {
  const auto command = allowed(call, kind, boxes);
  if (!command) return command.error();
  const std::string_view meant = prm::object_kind(**command);
  const uint32_t number = prm::object_number(**command, boxes.in, {});
  if (meant != target.kind || number != target.number)
    return Error{EINVAL, std::string(call) + ": the mailbox names " + std::string(meant) + ' ' +
                             std::to_string(number) + ", the object is " + std::string(target.kind) + ' ' +
                             std::to_string(target.number)};
  return Done{};
}

bool is_lost(const verbs::Context& context, std::span<const uint8_t> in) {
  if (!context.failed.load(std::memory_order_relaxed)) return false;
  const View<MboxIn> head(in);
  const prm::CommandInfo* command = known_commands().find(static_cast<uint16_t>(head[MboxIn::opcode]),
                                                          static_cast<uint16_t>(head[MboxIn::op_mod]));
  return command == nullptr || command->kind != Kind::kDestroy;
}

int send(verbs::Context& context, std::span<const uint8_t> in, std::span<uint8_t> out) {
  if (is_lost(context, in)) return EIO;
  std::vector<uint8_t> box(in.begin(), in.end());
  prm::Writer<MboxIn>(box).set(MboxIn::uid, hw::Hca::kUserContext);
  context.hca->execute(box, out);
  return View<MboxOut>(out).as<prm::Status>(MboxOut::status) == prm::Status::kOk ? 0 : EREMOTEIO;
}

int destroy(verbs::Context& context, std::span<const uint8_t> undo) {
  if (undo.empty()) return 0;
  uint8_t out[64] = {};
  if (send(context, undo, out) == 0) return 0;
  return error_of(View<MboxOut>(out).as<prm::Status>(MboxOut::status));
}

}  // namespace verbatim::mlx5::devx

using namespace verbatim;
using namespace verbatim::mlx5;
using prm::Kind;

extern "C" {

int mlx5dv_devx_general_cmd(ibv_context* public_context, const void* in, size_t inlen, void* out,
                            size_t outlen) {
  verbs::Context* context = working(public_context);
  if (context == nullptr) return errno;
  const devx::Boxes boxes(in, inlen, out, outlen);
  const auto command = devx::allowed("mlx5dv_devx_general_cmd", Kind::kGeneral, boxes);
  return command ? devx::send(*context, boxes.in, boxes.out) : verbs::refuse(*context, command.error());
}

mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* public_context, const void* in, size_t inlen, void* out,
                                        size_t outlen) {
  verbs::Context* context = working(public_context);
  return context != nullptr ? devx::create(*context, devx::Boxes(in, inlen, out, outlen)) : nullptr;
}

int mlx5dv_devx_obj_query(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_obj_query", Kind::kQuery, *obj, devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_obj_modify(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
  return devx::about("mlx5dv_devx_obj_modify", Kind::kModify, *obj, devx::Boxes(in, inlen, out, outlen));
}

int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* obj) {
  if (!obj->context->abandoned) {
    if (const int error = devx::destroy(*obj->context, obj->undo)) return error;
    ContextState::of(*obj->context).subscriptions->forget(obj->target.kind, obj->target.number);
  }
  delete obj;
  return 0;
}

}  // extern "C"
