// SPDX-License-Identifier: MIT
// Buffers that the library allocates for a program. Those of a parent domain that allows memory which is
// shared with a host lie in a file, which stands for the DMA-buf that they would be in a confidential guest.
#include "lib/ibverbs/buffers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "lib/ibverbs/contexts.h"
#include "lib/ibverbs/operations.h"

struct ibv_buf {
  ibv_pd* pd = nullptr;
  void* base = nullptr;
  size_t bytes = 0;
  int file = -1;  ///< that the memory is of
};

namespace verbatim::verbs {
namespace {

constexpr size_t kPage = 4096;

/// False: there is no memory, and errno says why.
bool allocate_file(ibv_buf& buffer) {
  buffer.file = ::memfd_create("verbatim-buffer", MFD_CLOEXEC);
  if (buffer.file < 0) return false;
  if (::ftruncate(buffer.file, static_cast<off_t>(buffer.bytes)) != 0) return false;
  void* mapped = ::mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.file, 0);
  if (mapped != MAP_FAILED) buffer.base = mapped;
  return buffer.base != nullptr;
}

bool allocate_plain(ibv_buf& buffer) {
  const int error = posix_memalign(&buffer.base, kPage, buffer.bytes);
  if (error == 0) return true;
  buffer.base = nullptr;
  errno = error;
  return false;
}

void release(ibv_buf* buffer) {
  if (buffer->file < 0) {
    std::free(buffer->base);
  } else {
    if (buffer->base != nullptr) ::munmap(buffer->base, buffer->bytes);
    ::close(buffer->file);
  }
  delete buffer;
}

void* allocate(ibv_pd* pd, size_t size, ibv_buf** made) {
  Context* context = usable(pd->context);
  if (context == nullptr) return nullptr;
  if (size == 0 || size > PTRDIFF_MAX)
    return refuse_pointer(*context, size == 0 ? EINVAL : ENOMEM, "ibv_alloc_buf: no such size");
  auto* buffer = new (std::nothrow) ibv_buf;
  if (buffer == nullptr) return refuse_pointer(*context, ENOMEM, "ibv_alloc_buf: no memory");
  buffer->pd = pd;
  buffer->bytes = size;
  const uint32_t options = ProtectionDomain::of(pd)->parent.comp_mask;
  const bool shared = (options & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC) != 0;
  if (!(shared ? allocate_file(*buffer) : allocate_plain(*buffer))) {
    const int error = errno;
    release(buffer);
    return refuse_pointer(*context, error, "ibv_alloc_buf: the memory cannot be had");
  }
  *made = buffer;
  return buffer->base;
}

}  // namespace

const char* locate_in_buffer(ibv_pd* pd, ibv_mr_init_attr& attributes) {
  constexpr uint64_t kFile = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
  const ibv_buf* buffer = attributes.buf;
  if (buffer == nullptr || pd != buffer->pd) return "there is no buffer of this protection domain";
  if ((attributes.comp_mask & IBV_REG_MR_MASK_ADDR) == 0) return "the address in the buffer is missing";
  if ((attributes.comp_mask & kFile) != 0) return "a buffer says itself which file it is in";
  const auto base = reinterpret_cast<uintptr_t>(buffer->base);
  const auto address = reinterpret_cast<uintptr_t>(attributes.addr);
  if (address < base || address - base > buffer->bytes ||
      attributes.length > buffer->bytes - (address - base))
    return "the range leaves the buffer";
  attributes.comp_mask &= ~uint64_t{IBV_REG_MR_MASK_BUF};
  if (buffer->file < 0) return nullptr;
  if ((attributes.comp_mask & IBV_REG_MR_MASK_IOVA) != 0)
    return "a buffer in a file has its address for IOVA";
  attributes.comp_mask &= ~uint64_t{IBV_REG_MR_MASK_ADDR};
  attributes.comp_mask |= kFile | IBV_REG_MR_MASK_IOVA;
  attributes.fd = buffer->file;
  attributes.fd_offset = address - base;
  attributes.iova = address;
  return nullptr;
}

void install_buffer_operations(verbs_context& verbs) {
  verbs.alloc_buf = allocate;
  verbs.free_buf = release;
}

}  // namespace verbatim::verbs

using namespace verbatim::verbs;

extern "C" {

void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf) { return allocate(pd, size, buf); }

void ibv_free_buf(ibv_buf* buf) { release(buf); }

ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, size_t length, int access) {
  ibv_mr_init_attr attributes{};
  attributes.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
  attributes.buf = buf;
  attributes.addr = addr;
  attributes.length = length;
  attributes.access = access;
  return ibv_reg_mr_ex(pd, &attributes);
}

int ibv_export_buf_dmabuf_fd(ibv_buf* buf) {
  if (buf->file >= 0) return ::fcntl(buf->file, F_DUPFD_CLOEXEC, 0);
  errno = ENODATA;
  return -1;
}

}  // extern "C"
