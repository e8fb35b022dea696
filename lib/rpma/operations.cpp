// SPDX-License-Identifier: MIT
// Operations on connections. A flush and an atomic write are the device's own where it has them. Elsewhere a
// flush is a read of the last bytes of its range, which a device carries out after the writes before it; and
// an atomic write is a write with its data along that waits for such reads.
#include <arpa/inet.h>

#include <algorithm>

#include "lib/rpma/connection.h"
#include "lib/rpma/posting.h"

namespace verbatim::rpma {

int fail_of_posting(const char* what, int error, std::source_location here) {
  log_at(RPMA_LOG_LEVEL_ERROR, here, "{} was not taken: {}{}", what, std::strerror(error),
         error == ENOMEM ? ", the queue is full" : "");
  errno = error;
  return RPMA_E_PROVIDER;
}

namespace {

constexpr int kOnSuccess = RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR;

unsigned signal_for(int flags) { return (flags & kOnSuccess) != 0 ? unsigned{IBV_SEND_SIGNALED} : 0; }

/// A work request with room for its one part.
struct Operation {
  ibv_send_wr request{};
  ibv_sge part{};

  Operation(ibv_wr_opcode opcode, int flags, const void* op_context) {
    request.wr_id = reinterpret_cast<uintptr_t>(op_context);
    request.opcode = opcode;
    request.send_flags = signal_for(flags);
  }
  void carries(const ibv_sge& given) {
    part = given;
    request.sg_list = &part;
    request.num_sge = 1;
  }
  void goes_to(const rpma_mr_remote& memory, size_t offset) {
    request.wr.rdma = {memory.address + offset, memory.key};
  }
  int post(const rpma_conn& conn, const char* what,
           std::source_location here = std::source_location::current()) {
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(conn.qp, &request, &bad);
    return error == 0 ? 0 : fail_of_posting(what, error, here);
  }
};

int check(const rpma_conn* conn, int flags, std::source_location here = std::source_location::current()) {
  if (conn == nullptr) return fail_of_null("conn", here);
  if (flags != 0) return 0;
  log_at(RPMA_LOG_LEVEL_ERROR, here, "flags are not set");
  return RPMA_E_INVAL;
}

struct Ends {
  const rpma_mr_local* local;
  size_t local_offset;
  const rpma_mr_remote* remote;
  size_t remote_offset;
  size_t bytes;
};

/// Both ends are there, or nothing at all is.
int check(const Ends& ends, std::source_location here = std::source_location::current()) {
  if (ends.local != nullptr && ends.remote != nullptr) return check_length(ends.bytes, here);
  const bool nothing = ends.local == nullptr && ends.remote == nullptr && ends.local_offset == 0 &&
                       ends.remote_offset == 0 && ends.bytes == 0;
  return nothing ? 0 : fail_of_null("src or dst, and the rest is not null and 0", here);
}

void fill(Operation& operation, const Ends& ends) {
  if (ends.local == nullptr) return;
  operation.carries(part_of(*ends.local, ends.local_offset, ends.bytes));
  operation.goes_to(*ends.remote, ends.remote_offset);
}

int check(const rpma_mr_local* from, size_t offset, size_t bytes,
          std::source_location here = std::source_location::current()) {
  if (from != nullptr) return check_length(bytes, here);
  return offset == 0 && bytes == 0 ? 0 : fail_of_null("src, and offset or len is not 0", here);
}

/// Whether the other side's memory and its peer are up to such a flush.
int check_flush(const rpma_conn& conn, const rpma_mr_remote& memory, rpma_flush_type type) {
  if (type != RPMA_FLUSH_TYPE_PERSISTENT && type != RPMA_FLUSH_TYPE_VISIBILITY)
    return fail(RPMA_E_INVAL, "there is no flush of type {}", int{type});
  const bool persistent = type == RPMA_FLUSH_TYPE_PERSISTENT;
  if (persistent && !conn.direct_write_to_pmem)
    return fail(RPMA_E_NOSUPP, "the other side's configuration has no direct write to persistent memory");
  const int needed = persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
  if ((memory.usage & needed) == 0)
    return fail(RPMA_E_NOSUPP, "the remote memory is not registered for flushes to {}",
                persistent ? "persistence" : "visibility");
  return 0;
}

int flush_natively(const rpma_conn& conn, const rpma_mr_remote& memory, size_t offset, size_t bytes,
                   rpma_flush_type type, int flags, const void* op_context) {
  ibv_qp_ex* qp = conn.flushes;
  const uint8_t placement = type == RPMA_FLUSH_TYPE_PERSISTENT ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL;
  ibv_wr_start(qp);
  qp->wr_id = reinterpret_cast<uintptr_t>(op_context);
  qp->wr_flags = signal_for(flags);
  ibv_wr_flush(qp, memory.key, memory.address + offset, bytes, placement, IBV_FLUSH_RANGE);
  const int error = ibv_wr_complete(qp);
  return error == 0 ? 0 : fail_of_posting("a flush", error);
}

/// Of the range's last bytes, so that a range that ends outside fails as a flush would.
int flush_by_reading(const rpma_conn& conn, const rpma_mr_remote& memory, size_t offset, size_t bytes,
                     int flags, const void* op_context) {
  const size_t read = std::min(bytes, sizeof conn.read_back);
  Operation operation(IBV_WR_RDMA_READ, flags, op_context);
  operation.carries({reinterpret_cast<uintptr_t>(&conn.read_back), static_cast<uint32_t>(read),
                     conn.read_back_region->lkey});
  operation.goes_to(memory, offset + bytes - read);
  return operation.post(conn, "a flush");
}

int write_atomically(const rpma_conn& conn, const rpma_mr_remote& memory, size_t offset, const char* from,
                     int flags, const void* op_context) {
  ibv_qp_ex* qp = conn.atomic_writes;
  ibv_wr_start(qp);
  qp->wr_id = reinterpret_cast<uintptr_t>(op_context);
  qp->wr_flags = signal_for(flags);
  ibv_wr_atomic_write(qp, memory.key, memory.address + offset, from);
  const int error = ibv_wr_complete(qp);
  return error == 0 ? 0 : fail_of_posting("an atomic write", error);
}

}  // namespace
}  // namespace verbatim::rpma

using namespace verbatim::rpma;

extern "C" {

int rpma_read(rpma_conn* conn, rpma_mr_local* dst, size_t dst_offset, const rpma_mr_remote* src,
              size_t src_offset, size_t len, int flags, const void* op_context) {
  const Ends ends{dst, dst_offset, src, src_offset, len};
  if (const int result = check(conn, flags); result != 0) return result;
  if (const int result = check(ends); result != 0) return result;
  Operation operation(IBV_WR_RDMA_READ, flags, op_context);
  fill(operation, ends);
  return operation.post(*conn, "a read");
}

int rpma_write(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, const rpma_mr_local* src,
               size_t src_offset, size_t len, int flags, const void* op_context) {
  const Ends ends{src, src_offset, dst, dst_offset, len};
  if (const int result = check(conn, flags); result != 0) return result;
  if (const int result = check(ends); result != 0) return result;
  Operation operation(IBV_WR_RDMA_WRITE, flags, op_context);
  fill(operation, ends);
  return operation.post(*conn, "a write");
}

int rpma_write_with_imm(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, const rpma_mr_local* src,
                        size_t src_offset, size_t len, int flags, uint32_t imm, const void* op_context) {
  const Ends ends{src, src_offset, dst, dst_offset, len};
  if (const int result = check(conn, flags); result != 0) return result;
  if (const int result = check(ends); result != 0) return result;
  Operation operation(IBV_WR_RDMA_WRITE_WITH_IMM, flags, op_context);
  fill(operation, ends);
  operation.request.imm_data = htonl(imm);
  return operation.post(*conn, "a write with immediate data");
}

int rpma_atomic_write(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, const char* src, int flags,
                      const void* op_context) {
  if (const int result = check(conn, flags); result != 0) return result;
  if (dst == nullptr || src == nullptr) return fail_of_null("dst or src");
  if (dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0)
    return fail(RPMA_E_INVAL, "offset {} is no multiple of {}", dst_offset, RPMA_ATOMIC_WRITE_ALIGNMENT);
  if (conn->atomic_writes != nullptr)
    return write_atomically(*conn, *dst, dst_offset, src, flags, op_context);
  Operation operation(IBV_WR_RDMA_WRITE, flags, op_context);
  operation.carries({reinterpret_cast<uintptr_t>(src), RPMA_ATOMIC_WRITE_ALIGNMENT, 0});
  operation.goes_to(*dst, dst_offset);
  operation.request.send_flags |= IBV_SEND_INLINE | IBV_SEND_FENCE;
  return operation.post(*conn, "an atomic write");
}

int rpma_flush(rpma_conn* conn, rpma_mr_remote* dst, size_t dst_offset, size_t len, rpma_flush_type type,
               int flags, const void* op_context) {
  if (const int result = check(conn, flags); result != 0) return result;
  if (dst == nullptr) return fail_of_null("dst");
  if (const int result = check_flush(*conn, *dst, type); result != 0) return result;
  if (conn->flushes != nullptr) return flush_natively(*conn, *dst, dst_offset, len, type, flags, op_context);
  return flush_by_reading(*conn, *dst, dst_offset, len, flags, op_context);
}

int rpma_send(rpma_conn* conn, const rpma_mr_local* src, size_t offset, size_t len, int flags,
              const void* op_context) {
  if (const int result = check(conn, flags); result != 0) return result;
  if (const int result = check(src, offset, len); result != 0) return result;
  Operation operation(IBV_WR_SEND, flags, op_context);
  if (src != nullptr) operation.carries(part_of(*src, offset, len));
  return operation.post(*conn, "a send");
}

int rpma_send_with_imm(rpma_conn* conn, const rpma_mr_local* src, size_t offset, size_t len, int flags,
                       uint32_t imm, const void* op_context) {
  if (const int result = check(conn, flags); result != 0) return result;
  if (const int result = check(src, offset, len); result != 0) return result;
  Operation operation(IBV_WR_SEND_WITH_IMM, flags, op_context);
  if (src != nullptr) operation.carries(part_of(*src, offset, len));
  operation.request.imm_data = htonl(imm);
  return operation.post(*conn, "a send with immediate data");
}

int rpma_recv(rpma_conn* conn, rpma_mr_local* dst, size_t offset, size_t len, const void* op_context) {
  if (conn == nullptr) return fail_of_null("conn");
  return post_receive(*conn->qp, dst, offset, len, op_context);
}

}  // extern "C"
