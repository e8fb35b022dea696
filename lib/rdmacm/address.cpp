// SPDX-License-Identifier: MIT
// Where an id is, and the way to its peer: binding, resolving, listening, options.
#include "lib/rdmacm/convert.h"
#include "lib/rdmacm/id.h"
#include "lib/rdmacm/result.h"
#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {
namespace {

void set_address(sockaddr_storage& to, const agent::cm::SocketAddress& from, int port_space) {
  sockaddr_storage address{};
  if (to_public(from, port_space, address)) to = address;
}

/// An address to bind to. 0 or an errno value.
int take_source(const Id& id, const sockaddr* address, Request& request) {
  if (!from_public(address, request.source)) return EINVAL;
  if (address->sa_family != AF_IB) return 0;
  const int space = space_of(*reinterpret_cast<const sockaddr_ib*>(address), id.base.ps);
  request.port_space = static_cast<uint16_t>(space);
  return space != 0 ? 0 : EPROTONOSUPPORT;
}

int adopt_path(Id& id, const agent::cm::PathRecord& path) {
  if (id.path == nullptr) id.path = std::make_unique<ibv_sa_path_rec>();
  *id.path = to_public(path);
  id.base.route.path_rec = id.path.get();
  id.base.route.num_paths = 1;
  return 0;
}

/// Asks for something whose answer brings the id's addresses.
int ask_and_adopt(Id& id, Request& request) {
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  return adopt(id, answer.view);
}

/// The value of an option of one byte, or of an int, as the kernel takes them.
template <class Value>
bool take_value(const void* value, size_t bytes, uint32_t& to) {
  if (bytes != sizeof(Value)) return false;
  Value taken;
  std::memcpy(&taken, value, sizeof taken);
  to = static_cast<uint32_t>(taken);
  return true;
}

bool take_option(Request& request, int name, const void* value, size_t bytes) {
  using agent::cm::Option;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      request.option = Option::kTypeOfService;
      return take_value<uint8_t>(value, bytes, request.value);
    case RDMA_OPTION_ID_REUSEADDR:
      request.option = Option::kReuseAddress;
      return take_value<int>(value, bytes, request.value);
    case RDMA_OPTION_ID_AFONLY:
      request.option = Option::kAddressFamilyOnly;
      return take_value<int>(value, bytes, request.value);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      request.option = Option::kAckTimeout;
      return take_value<uint8_t>(value, bytes, request.value);
    default:
      return false;
  }
}

/// The first path that is one for data, both ways.
bool take_path(Request& request, const void* value, size_t bytes) {
  if (bytes == 0 || bytes % sizeof(ibv_path_data) != 0) return false;
  constexpr uint32_t kWanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
  for (size_t at = 0; at < bytes; at += sizeof(ibv_path_data)) {
    ibv_path_data path;
    std::memcpy(&path, static_cast<const char*>(value) + at, sizeof path);
    if ((path.flags & kWanted) != kWanted) continue;
    request.option = agent::cm::Option::kPath;
    request.path = from_public(path);
    return true;
  }
  return false;
}

}  // namespace

int adopt(Id& id, const agent::cm::View& view) {
  rdma_addr& address = id.base.route.addr;
  set_address(address.src_storage, view.source, id.base.ps);
  set_address(address.dst_storage, view.destination, id.base.ps);
  set_gid(address.addr.ibaddr.sgid, view.source_gid);
  set_gid(address.addr.ibaddr.dgid, view.destination_gid);
  if (view.path_count > 0) adopt_path(id, view.path);
  if (view.port == 0 || id.device != nullptr) return 0;
  id.device = Devices::of_process().hold_port();
  if (id.device == nullptr) return -1;
  id.base.verbs = id.device->verbs;
  id.base.pd = id.device->pd;
  id.base.port_num = view.port;
  address.addr.ibaddr.pkey = htobe16(view.pkey);
  return 0;
}

}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_bind_addr(rdma_cm_id* public_id, sockaddr* addr) {
  Id& id = *Id::of(public_id);
  Request request = request_for(id, Do::kBindAddress);
  if (const int error = take_source(id, addr, request); error != 0) return fail(error);
  return ask_and_adopt(id, request);
}

int rdma_resolve_addr(rdma_cm_id* public_id, sockaddr* src_addr, sockaddr* dst_addr, int timeout_ms) {
  Id& id = *Id::of(public_id);
  Request request = request_for(id, Do::kResolveAddress);
  if (!from_public(dst_addr, request.destination)) return fail(EINVAL);
  if (src_addr != nullptr && !from_public(src_addr, request.source)) return fail(EINVAL);
  request.timeout_ms = static_cast<uint32_t>(timeout_ms);
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  std::memcpy(&id.base.route.addr.dst_storage, dst_addr, length_of(dst_addr));
  return complete(id);
}

int rdma_resolve_route(rdma_cm_id* public_id, int timeout_ms) {
  Id& id = *Id::of(public_id);
  if (id.base.verbs == nullptr) return fail(EINVAL);
  Request request = request_for(id, Do::kResolveRoute);
  request.timeout_ms = static_cast<uint32_t>(timeout_ms);
  Answer answer{};
  if (ask(request, answer) != 0) return -1;
  return complete(id);
}

int rdma_listen(rdma_cm_id* public_id, int backlog) {
  Id& id = *Id::of(public_id);
  Request request = request_for(id, Do::kListen);
  request.backlog = backlog;
  return ask_and_adopt(id, request);
}

int rdma_set_option(rdma_cm_id* public_id, int level, int optname, void* optval, size_t optlen) {
  Id& id = *Id::of(public_id);
  Request request = request_for(id, Do::kSetOption);
  if (level != RDMA_OPTION_ID && level != RDMA_OPTION_IB) return fail(ENOSYS);
  if (level == RDMA_OPTION_IB && optname != RDMA_OPTION_IB_PATH) return fail(ENOSYS);
  if (level == RDMA_OPTION_ID && optname > RDMA_OPTION_ID_ACK_TIMEOUT) return fail(ENOSYS);
  const bool taken = level == RDMA_OPTION_IB ? take_path(request, optval, optlen)
                                             : take_option(request, optname, optval, optlen);
  if (!taken) return fail(EINVAL);
  Answer answer{};
  return ask(request, answer);
}

}  // extern "C"
