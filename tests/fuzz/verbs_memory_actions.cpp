// SPDX-License-Identifier: MIT
// Domains, regions, windows, device memory, buffers and handles.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fuzz/verbs_player.h"

namespace verbatim::fuzz {

namespace {

constexpr uint32_t kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                             IBV_ACCESS_ON_DEMAND | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT |
                             IBV_ACCESS_RELAXED_ORDERING;

/// Those of most programs, any, or nonsense.
int some_rights(Player& p) {
  if (p.one_in(2))
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  return static_cast<int>(p.arguments.bits(kRights));
}

/// For memory that is not the process's own.
int some_plain_rights(Player& p) {
  constexpr uint32_t kPlain = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  return p.arguments.odd() ? some_rights(p)
                           : static_cast<int>(p.arguments.bits(kPlain) | IBV_ACCESS_LOCAL_WRITE);
}

void keep(Player& p, const char* call, ibv_mr* mr, uint64_t start, int rights) {
  if (p.made(call, mr) == nullptr) return;
  p.expect(mr->lkey != 0, "a region without a key");
  p.mrs.add(mr);
  p.starts[mr] = (rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : start;
}

void alloc_pd(Player& p) {
  if (!p.pds.full()) p.pds.add(p.made("ibv_alloc_pd", ibv_alloc_pd(p.common.context)));
}
void dealloc_pd(Player& p) { p.pds.destroy_any(p); }

void alloc_td(Player& p) {
  if (p.tds.full()) return;
  ibv_td_init_attr attr{p.arguments.number<uint32_t>(0)};
  p.tds.add(p.made("ibv_alloc_td", ibv_alloc_td(p.common.context, &attr)));
}
void dealloc_td(Player& p) { p.tds.destroy_any(p); }

/// Gives memory, leaves it to the library, or has none.
void* allocate(ibv_pd* /*pd*/, void* player, size_t size, size_t alignment, uint64_t /*type*/) {
  auto& p = *static_cast<Player*>(player);
  if (p.one_in(8)) return nullptr;
  if (p.one_in(3)) return IBV_ALLOCATOR_USE_DEFAULT;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
  p.allocations.insert(memory);
  return memory;
}
void release(ibv_pd* /*pd*/, void* player, void* memory, uint64_t /*type*/) {
  auto& p = *static_cast<Player*>(player);
  p.expect(p.allocations.erase(memory) == 1, "a parent domain frees what it was not given");
  std::free(memory);
}

void alloc_parent_domain(Player& p) {
  if (p.pds.full()) return;
  ibv_parent_domain_init_attr attr{};
  attr.pd = p.some_pd();
  attr.td = p.any(p.tds);
  attr.comp_mask = p.arguments.bits(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
  if ((attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    attr.comp_mask |= IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = allocate;
    attr.free = release;
    attr.pd_context = &p;
  }
  p.pds.add(p.made("ibv_alloc_parent_domain", ibv_alloc_parent_domain(p.common.context, &attr)));
}

void open_xrcd(Player& p) {
  if (p.xrc_domains.full()) return;
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = p.arguments.number<uint32_t>(IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS);
  attr.fd = p.arguments.number<int>(p.one_in(2) ? -1 : p.common.file);
  attr.oflags = p.arguments.number<int>(O_CREAT);
  p.xrc_domains.add(p.made("ibv_open_xrcd", ibv_open_xrcd(p.common.context, &attr)));
}
void close_xrcd(Player& p) { p.xrc_domains.destroy_any(p); }

void reg_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mrs.full()) return;
  void* const address = p.arguments.address();
  const size_t length = p.arguments.length();
  const uint64_t iova = p.arguments.iova(address);
  const int rights = some_rights(p);
  switch (p.below(3)) {
    case 0:
      return keep(p, "ibv_reg_mr", (ibv_reg_mr)(pd, address, length, rights),
                  reinterpret_cast<uint64_t>(address), rights);
    case 1:
      return keep(p, "ibv_reg_mr_iova", (ibv_reg_mr_iova)(pd, address, length, iova, rights), iova, rights);
    default:
      return keep(p, "ibv_reg_mr_iova2",
                  ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(rights)), iova, rights);
  }
}

void reg_whole_address_space(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mrs.full()) return;
  const int rights = some_rights(p) | IBV_ACCESS_ON_DEMAND;
  keep(p, "ibv_reg_mr", (ibv_reg_mr)(pd, nullptr, SIZE_MAX, rights),
       reinterpret_cast<uint64_t>(p.arguments.sound(1 << 19)), 0);
}

int some_file(Player& p) { return p.arguments.odd() ? p.arguments.number<int>(1 << 20) : p.common.file; }

void reg_dmabuf_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mrs.full()) return;
  const uint64_t offset = p.arguments.number<uint64_t>(p.below(4096));
  const uint64_t iova = p.arguments.iova(reinterpret_cast<void*>(offset));
  const int rights = some_plain_rights(p);
  keep(p, "ibv_reg_dmabuf_mr",
       ibv_reg_dmabuf_mr(pd, offset, p.arguments.number<size_t>(8192), iova, some_file(p), rights), iova,
       rights);
}

void reg_mr_ex(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mrs.full()) return;
  ibv_mr_init_attr attr{};
  attr.addr = p.arguments.address();
  attr.length = p.arguments.length();
  attr.access = some_rights(p);
  attr.iova = p.arguments.iova(attr.addr);
  attr.fd = some_file(p);
  attr.fd_offset = p.arguments.number<uint64_t>(0);
  attr.dmah = p.arguments.handle(p.any(p.dmahs));
  attr.buf = p.arguments.handle(p.any(p.bufs));
  attr.comp_mask = p.one_in(2) ? uint64_t{IBV_REG_MR_MASK_ADDR} : p.arguments.bits(63);
  if (attr.buf != nullptr && (attr.comp_mask & IBV_REG_MR_MASK_BUF) != 0 && p.one_in(2))
    attr.addr = p.buffers[attr.buf];
  keep(p, "ibv_reg_mr_ex", ibv_reg_mr_ex(pd, &attr), attr.iova, attr.access);
}

void alloc_null_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mrs.full()) return;
  keep(p, "ibv_alloc_null_mr", ibv_alloc_null_mr(pd), 0, 0);
}

void rereg_mr(Player& p) {
  ibv_mr* mr = p.any(p.mrs);
  if (mr == nullptr) return;
  const int flags = static_cast<int>(p.arguments.bits(IBV_REREG_MR_FLAGS_SUPPORTED));
  void* const address = p.arguments.address();
  const size_t length = p.arguments.length();
  const int result = ibv_rereg_mr(mr, flags, p.some_pd(), address, length, some_rights(p));
  p.expect(result <= 0 && result >= IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW, "ibv_rereg_mr: no such answer");
  p.note("ibv_rereg_mr", result == 0, EINVAL);
  if (result == 0 && (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
    p.starts[mr] = reinterpret_cast<uint64_t>(address);
}

void dereg_mr(Player& p) { p.mrs.destroy_any(p); }

void advise_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr) return;
  ibv_sge list[4];
  const uint32_t count = p.below(5);
  for (uint32_t i = 0; i < count; i++) list[i] = p.some_piece();
  p.took("ibv_advise_mr", ibv_advise_mr(pd, p.arguments.one_of<ibv_advise_mr_advice>(3),
                                        p.arguments.bits(IBV_ADVISE_MR_FLAG_FLUSH), list, count));
}

void alloc_mw(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.mws.full()) return;
  p.mws.add(p.made("ibv_alloc_mw", ibv_alloc_mw(pd, static_cast<ibv_mw_type>(p.arguments.number<int>(
                                                        p.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)))));
}
void dealloc_mw(Player& p) { p.mws.destroy_any(p); }

void alloc_dm(Player& p) {
  if (p.dms.full()) return;
  ibv_alloc_dm_attr attr{};
  attr.length = p.arguments.number<size_t>(p.between(1, 4096));
  attr.log_align_req = p.arguments.number<uint32_t>(p.below(8));
  attr.comp_mask = p.arguments.number<uint32_t>(0);
  p.dms.add(p.made("ibv_alloc_dm", ibv_alloc_dm(p.common.context, &attr)));
}
void free_dm(Player& p) { p.dms.destroy_any(p); }

void copy_device_memory(Player& p) {
  ibv_dm* dm = p.any(p.dms);
  if (dm == nullptr) return;
  const uint64_t offset = p.arguments.number<uint64_t>(4 * p.below(16));
  const size_t length = p.arguments.number<size_t>(4 * p.below(64));
  std::byte* const host = p.arguments.sound(1 << 18);
  if (p.one_in(2))
    p.took("ibv_memcpy_to_dm", ibv_memcpy_to_dm(dm, offset, host, length));
  else
    p.took("ibv_memcpy_from_dm", ibv_memcpy_from_dm(host, dm, offset, length));
}

void reg_dm_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  ibv_dm* dm = p.any(p.dms);
  if (pd == nullptr || dm == nullptr || p.mrs.full()) return;
  const int rights = some_plain_rights(p) | (p.arguments.odd() ? 0 : IBV_ACCESS_ZERO_BASED);
  keep(p, "ibv_reg_dm_mr",
       ibv_reg_dm_mr(pd, dm, p.arguments.number<uint64_t>(4 * p.below(8)),
                     p.arguments.number<size_t>(p.between(1, 512)), static_cast<unsigned>(rights)),
       0, rights);
}

void take_file(Player& p, const char* call, int file) {
  p.note(call, file >= 0, errno);
  if (file >= 0) close(file);
}

void export_memory(Player& p) {
  if (ibv_dm* dm = p.any(p.dms)) take_file(p, "ibv_dm_export_dmabuf_fd", ibv_dm_export_dmabuf_fd(dm));
  if (ibv_buf* buf = p.any(p.bufs)) take_file(p, "ibv_export_buf_dmabuf_fd", ibv_export_buf_dmabuf_fd(buf));
}

void alloc_buf(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr || p.bufs.full()) return;
  ibv_buf* buf = nullptr;
  // Not so large that a sanitizer would have to describe it.
  constexpr size_t kOdd[] = {0, SIZE_MAX, SIZE_MAX / 2, size_t{1} << 46};
  const size_t size = p.arguments.odd() ? kOdd[p.below(std::size(kOdd))] : p.between(1, 1 << 14);
  void* const memory = p.made("ibv_alloc_buf", ibv_alloc_buf(pd, size, &buf));
  if (memory == nullptr) return;
  p.bufs.add(buf);
  p.buffers[buf] = memory;
}
void free_buf(Player& p) { p.bufs.destroy_any(p); }

void reg_buf_mr(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  ibv_buf* buf = p.any(p.bufs);
  if (pd == nullptr || buf == nullptr || p.mrs.full()) return;
  void* const address = p.arguments.odd() ? p.arguments.address() : p.buffers[buf];
  const int rights = some_rights(p);
  keep(p, "ibv_reg_buf_mr",
       ibv_reg_buf_mr(pd, buf, address, p.arguments.number<size_t>(p.below(4096)), rights),
       reinterpret_cast<uint64_t>(address), rights);
}

void alloc_dmah(Player& p) {
  if (p.dmahs.full()) return;
  ibv_dmah_init_attr attr{};
  attr.comp_mask = p.arguments.bits(7);
  attr.cpu_id = p.arguments.number<uint32_t>(0);
  attr.ph = p.arguments.number<uint8_t>(static_cast<uint8_t>(p.below(4)));
  attr.tph_mem_type = p.arguments.number<uint8_t>(static_cast<uint8_t>(p.below(2)));
  p.dmahs.add(p.made("ibv_alloc_dmah", ibv_alloc_dmah(p.common.context, &attr)));
}
void dealloc_dmah(Player& p) { p.dmahs.destroy_any(p); }

/// Second handles, dropped at once.
void import_objects(Player& p) {
  ibv_pd* pd = p.any(p.pds);
  if (pd == nullptr) return;
  const ibv_mr* mr = p.any(p.mrs);
  const ibv_dm* dm = p.any(p.dms);
  const uint32_t handles[] = {pd->handle, mr != nullptr ? mr->handle : 0, dm != nullptr ? dm->handle : 0};
  const auto handle = p.arguments.number<uint32_t>(handles[p.below(3)]);
  if (ibv_pd* same = p.made("ibv_import_pd", ibv_import_pd(p.common.context, handle))) ibv_unimport_pd(same);
  errno = 0;
  if (ibv_mr* same = p.made("ibv_import_mr", ibv_import_mr(pd, handle))) ibv_unimport_mr(same);
  errno = 0;
  if (ibv_dm* same = p.made("ibv_import_dm", ibv_import_dm(p.common.context, handle))) ibv_unimport_dm(same);
}

constexpr Action kActions[] = {
    {alloc_pd, 6},
    {dealloc_pd, 4},
    {alloc_td, 2},
    {dealloc_td, 2},
    {alloc_parent_domain, 4},
    {open_xrcd, 3},
    {close_xrcd, 2},
    {reg_mr, 16},
    {reg_whole_address_space, 1},
    {reg_dmabuf_mr, 3},
    {reg_mr_ex, 4},
    {alloc_null_mr, 1},
    {rereg_mr, 4},
    {dereg_mr, 6},
    {advise_mr, 4},
    {alloc_mw, 4},
    {dealloc_mw, 2},
    {alloc_dm, 3},
    {free_dm, 2},
    {copy_device_memory, 3},
    {reg_dm_mr, 3},
    {export_memory, 2},
    {alloc_buf, 2},
    {free_buf, 1},
    {reg_buf_mr, 2},
    {alloc_dmah, 2},
    {dealloc_dmah, 1},
    {import_objects, 2},
};

}  // namespace

std::span<const Action> memory_actions() { return kActions; }

}  // namespace verbatim::fuzz
