// SPDX-License-Identifier: MIT
// Memory windows: indirect keys with one range, which peers use and work requests bind.
#include <algorithm>
#include <new>

#include "abi/prm/memory.h"
#include "lib/ibverbs/memory_region.h"
#include "lib/mlx5/builders.h"
#include "lib/mlx5/memory_key.h"
#include "lib/mlx5/typed_command.h"

namespace verbatim::mlx5 {

/// The public part comes first.
struct MemoryWindow {
  ibv_mw shown{};
  verbs::Context* context = nullptr;
  mlx5dv_mkey* key = nullptr;

  static MemoryWindow* of(ibv_mw* window) { return reinterpret_cast<MemoryWindow*>(window); }
};

namespace {

using connectx::UmrControlSegment;
using connectx::UmrKeySegment;

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  verbs::Context& context = *verbs::ProtectionDomain::of(pd)->context;
  if (context.abandoned) {
    errno = EIO;
    return nullptr;
  }
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
    return verbs::refuse_pointer(context, EINVAL, "ibv_alloc_mw: windows are of type 1 or 2");
  auto window = std::unique_ptr<MemoryWindow>(new (std::nothrow) MemoryWindow);
  if (window == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  mlx5dv_mkey_init_attr wanted{};
  wanted.pd = pd;
  wanted.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  if (type == IBV_MW_TYPE_2) wanted.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE;
  wanted.max_entries = 1;
  window->key = mlx5dv_create_mkey(&wanted);
  if (window->key == nullptr) return nullptr;
  window->context = &context;
  window->shown = {pd->context, pd, window->key->rkey, MemoryKey::of(window->key)->index, type};
  ContextState& state = ContextState::of(context);
  const std::lock_guard hold(state.windows_lock);
  state.windows.insert(window.get());
  return &window.release()->shown;
}

int dealloc_mw(ibv_mw* public_window) {
  MemoryWindow* window = MemoryWindow::of(public_window);
  if (!window->context->abandoned) {
    ContextState& state = ContextState::of(*window->context);
    const std::lock_guard hold(state.windows_lock);
    state.windows.erase(window);
  }
  if (const int error = mlx5dv_destroy_mkey(window->key)) return error;
  delete window;
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* wanted) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_BIND_MW;
  wr.wr_id = wanted->wr_id;
  wr.send_flags = wanted->send_flags;
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr.bind_mw.bind_info = wanted->bind_info;
  if ((wanted->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0)
    return verbs::refuse(*MemoryWindow::of(window)->context, EINVAL,
                         "ibv_bind_mw: windows of type 1 have addresses", qp->qp_num);
  if (const int error = post_send(qp, &wr, &bad)) return error;
  window->rkey = wr.bind_mw.rkey;
  return 0;
}

/// The local key of the memory that a window opens; 0: none.
uint32_t target_of(const MemoryWindow& window) {
  devx::TypedCommand<prm::QueryMkey> query;
  query.in().set(prm::QueryMkeyIn::mkey_index, MemoryKey::of(window.key)->index);
  if (query.send(*window.context) != 0) return 0;
  const prm::View<prm::QueryMkeyOut> key = query.out();
  if (key[prm::QueryMkeyOut::memory_key_mkey_entry][prm::Mkc::free]) return 0;
  return key.overlay<prm::Klm>(prm::QueryMkeyOut::bsf0_klm0_pas_mtt0_1)[prm::Klm::mkey];
}

/// 0, or EINVAL: the region's rights do not allow a window of those.
int check_rights(const QueuePair& qp, const ibv_mw_bind_info& info) {
  constexpr unsigned int kWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const uint32_t rights = verbs::MemoryRegion::of(info.mr)->access;
  if ((rights & IBV_ACCESS_MW_BIND) == 0)
    return verbs::refuse(*qp.context, EINVAL,
                         "binding a memory window: the region was registered without IBV_ACCESS_MW_BIND",
                         qp.number);
  if ((info.mw_access_flags & kWrites) != 0 && (rights & IBV_ACCESS_LOCAL_WRITE) == 0)
    return verbs::refuse(*qp.context, EINVAL,
                         "binding a memory window: a window to write through needs a region with "
                         "IBV_ACCESS_LOCAL_WRITE",
                         qp.number);
  return 0;
}

uint8_t rights_of(unsigned int access) {
  uint8_t rights = 0;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) rights |= connectx::kUmrKeyLocalWrite;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights |= connectx::kUmrKeyRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights |= connectx::kUmrKeyRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights |= connectx::kUmrKeyAtomic;
  return rights;
}

/// Where the window goes: everything of the key but its list.
void describe_range(const ibv_mw_bind_info& info, bool type2, UmrControlSegment& control,
                    UmrKeySegment& key) {
  control.flags |= type2 ? connectx::kUmrMustBeFree << connectx::kUmrCheckShift : 0;
  control.klm_octowords = 1;
  control.key_mask = control.key_mask | connectx::kUmrMaskLength | connectx::kUmrMaskStart |
                     connectx::kUmrMaskLocalWrite | connectx::kUmrMaskRemoteRead |
                     connectx::kUmrMaskRemoteWrite | connectx::kUmrMaskAtomic;
  key.access = rights_of(info.mw_access_flags);
  key.start = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : info.addr;
  key.length = info.length;
}

}  // namespace

int write_bind(const QueuePair& qp, std::byte* at, const ibv_mw& window, uint32_t rkey,
               const ibv_mw_bind_info& info, uint32_t& units) {
  constexpr uint64_t kLengthMax = uint64_t{1} << 31;
  constexpr uint32_t kUnits = (sizeof(UmrControlSegment) + sizeof(UmrKeySegment)) / kUnit;
  const bool type2 = window.type == IBV_MW_TYPE_2, binds = info.length != 0;
  if (info.length > kLengthMax) return EOPNOTSUPP;
  if (binds && info.mr == nullptr) return EINVAL;
  if (binds)
    if (const int error = check_rights(qp, info)) return error;
  if (1 + kUnits + binds > units_max(qp)) return ENOMEM;
  UmrControlSegment control{};
  UmrKeySegment key{};
  control.flags = connectx::kUmrInline | connectx::kUmrOffset;
  control.key_mask = connectx::kUmrMaskFree | connectx::kUmrMaskVariant;
  if (type2) control.key_mask = control.key_mask | connectx::kUmrMaskQpn;
  const uint32_t queue = type2 && binds ? qp.number : connectx::kUmrAnyQp;
  key.qpn_variant = queue << 8 | (rkey & 0xff);
  if (binds)
    describe_range(info, type2, control, key);
  else
    key.free = connectx::kUmrKeyFree;
  if (type2 && !binds) control.flags |= connectx::kUmrCheckQpn;
  std::memcpy(at, &control, sizeof control);
  at = advance(qp, at, sizeof control);
  std::memcpy(at, &key, sizeof key);
  at = advance(qp, at, sizeof key);
  const connectx::ListEntry range{static_cast<uint32_t>(info.length), binds ? info.mr->lkey : 0, info.addr};
  if (binds) {
    std::memcpy(at, &range, sizeof range);
    verbs::MemoryRegion::of(info.mr)->was_bound = true;
  }
  units = kUnits + binds;
  return 0;
}

bool has_windows(verbs::Context& context, const verbs::MemoryRegion& region) {
  ContextState& state = ContextState::of(context);
  const std::lock_guard hold(state.windows_lock);
  return std::ranges::any_of(state.windows, [&region](const MemoryWindow* window) {
    return target_of(*window) == region.base.lkey;
  });
}

void install_memory_windows(verbs_context& verbs) {
  ibv_context_ops& ops = verbs.context.ops;
  ops.alloc_mw = alloc_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.bind_mw = bind_mw;
}

}  // namespace verbatim::mlx5
