// SPDX-License-Identifier: MIT
// Names to addresses, by the host's name service.
#include <netdb.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "lib/rdmacm/result.h"
#include "lib/rdmacm/sockaddr.h"

namespace verbatim::rdmacm {
namespace {

int socket_type(int qp_type) {
  switch (qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return SOCK_STREAM;
    case IBV_QPT_UD:
      return SOCK_DGRAM;
    default:
      return 0;
  }
}

int protocol(int port_space, int type) {
  switch (port_space) {
    case RDMA_PS_TCP:
      return IPPROTO_TCP;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      return IPPROTO_UDP;
    case RDMA_PS_IB:
      return type == SOCK_STREAM ? IPPROTO_TCP : type == SOCK_DGRAM ? IPPROTO_UDP : 0;
    default:
      return 0;
  }
}

/// What the name service is asked for. AF_IB is not its business: such addresses are written as IPv6's are.
addrinfo question(const rdma_addrinfo& hints) {
  addrinfo asked{};
  if ((hints.ai_flags & RAI_PASSIVE) != 0) asked.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) asked.ai_flags |= AI_NUMERICHOST;
  asked.ai_family = hints.ai_family == AF_IB ? AF_UNSPEC : hints.ai_family;
  asked.ai_socktype = socket_type(hints.ai_qp_type);
  asked.ai_protocol = protocol(hints.ai_port_space, asked.ai_socktype);
  return asked;
}

bool copy_address(const sockaddr* from, socklen_t length, sockaddr*& to, socklen_t& to_length) {
  to = static_cast<sockaddr*>(std::malloc(length));
  if (to == nullptr) return false;
  std::memcpy(to, from, length);
  to_length = length;
  return true;
}

bool as_native(const sockaddr_in6& from, int port_space, sockaddr*& to, socklen_t& to_length) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_pkey = htobe16(0xffff);
  address.sib_flowinfo = from.sin6_flowinfo;
  std::memcpy(address.sib_addr.sib_raw, from.sin6_addr.s6_addr, sizeof address.sib_addr.sib_raw);
  address.sib_scope_id = from.sin6_scope_id;
  set_service(address, port_space, be16toh(from.sin6_port));
  return copy_address(reinterpret_cast<const sockaddr*>(&address), sizeof address, to, to_length);
}

bool wants_native(const rdma_addrinfo& hints, const addrinfo& found) {
  return (hints.ai_flags & RAI_FAMILY) != 0 && (hints.ai_flags & RAI_NUMERICHOST) != 0 &&
         hints.ai_family == AF_IB && found.ai_family == AF_INET6;
}

/// The first answer of the name service. False: no memory.
bool take_answer(const addrinfo& found, const rdma_addrinfo& hints, rdma_addrinfo& to) {
  to.ai_qp_type = hints.ai_qp_type;
  if (to.ai_qp_type == 0) to.ai_qp_type = found.ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
  to.ai_port_space = hints.ai_port_space;
  if (to.ai_port_space == 0) to.ai_port_space = to.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
  to.ai_flags = passive ? RAI_PASSIVE : 0;
  sockaddr*& address = passive ? to.ai_src_addr : to.ai_dst_addr;
  socklen_t& length = passive ? to.ai_src_len : to.ai_dst_len;
  if (found.ai_canonname != nullptr)
    (passive ? to.ai_src_canonname : to.ai_dst_canonname) = strdup(found.ai_canonname);
  if (wants_native(hints, found)) {
    to.ai_family = AF_IB;
    return as_native(*reinterpret_cast<const sockaddr_in6*>(found.ai_addr), to.ai_port_space, address,
                     length);
  }
  to.ai_family = found.ai_family;
  return copy_address(found.ai_addr, found.ai_addrlen, address, length);
}

/// 0 or an EAI_* value.
int look_up(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo& to) {
  const rdma_addrinfo none{};
  const addrinfo asked = question(hints != nullptr ? *hints : none);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(node, service, hints != nullptr ? &asked : nullptr, &found);
  if (error != 0) return error;
  const bool taken = take_answer(*found, hints != nullptr ? *hints : none, to);
  ::freeaddrinfo(found);
  return taken ? 0 : EAI_MEMORY;
}

/// Without a name: what the hints say already.
int repeat_hints(const rdma_addrinfo& hints, rdma_addrinfo& to) {
  to.ai_flags = hints.ai_flags;
  to.ai_family = hints.ai_family;
  to.ai_qp_type = hints.ai_qp_type;
  to.ai_port_space = hints.ai_port_space;
  const bool copied = hints.ai_dst_len == 0 ||
                      copy_address(hints.ai_dst_addr, hints.ai_dst_len, to.ai_dst_addr, to.ai_dst_len);
  return copied ? 0 : EAI_MEMORY;
}

bool take_source(const rdma_addrinfo* hints, rdma_addrinfo& to) {
  return hints == nullptr || hints->ai_src_len == 0 || to.ai_src_len != 0 ||
         copy_address(hints->ai_src_addr, hints->ai_src_len, to.ai_src_addr, to.ai_src_len);
}

/// The subnet's administrator of services: nothing ever registers one here.
int ask_subnet(const char* node, const char* service, const rdma_addrinfo& hints) {
  if (node != nullptr || (hints.ai_flags & RAI_DNS) != 0) return fail(EOPNOTSUPP);
  return fail(service == nullptr ? EINVAL : ENOENT);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim::rdmacm;

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
  if ((node == nullptr && service == nullptr && hints == nullptr) || res == nullptr) return fail(EINVAL);
  if (hints != nullptr && (hints->ai_flags & RAI_SA) != 0) return ask_subnet(node, service, *hints);
  auto* info = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (info == nullptr) return fail(ENOMEM);
  const bool named = node != nullptr || service != nullptr;
  int error = named ? look_up(node, service, hints, *info) : repeat_hints(*hints, *info);
  if (error == 0 && !take_source(hints, *info)) error = EAI_MEMORY;
  if (error != 0) {
    rdma_freeaddrinfo(info);
    return error == EAI_MEMORY ? fail(ENOMEM) : error;
  }
  *res = info;
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res != nullptr) {
    rdma_addrinfo* next = res->ai_next;
    for (void* part : {static_cast<void*>(res->ai_src_addr), static_cast<void*>(res->ai_dst_addr),
                       static_cast<void*>(res->ai_src_canonname), static_cast<void*>(res->ai_dst_canonname),
                       res->ai_route, res->ai_connect})
      std::free(part);
    std::free(res);
    res = next;
  }
}

}  // extern "C"
