// SPDX-License-Identifier: MIT
// Calls that the library has and no device of this release can do: they say EOPNOTSUPP. abi/missing.txt lists
// them.
#include "lib/ibverbs/operations.h"

namespace {

std::nullptr_t nothing() {
  errno = EOPNOTSUPP;
  return nullptr;
}
int minus_one() {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

extern "C" {

ibv_context* ibv_import_device(int) { return nothing(); }
ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return nothing(); }
void ibv_unimport_pd(ibv_pd*) {}
ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return nothing(); }
void ibv_unimport_mr(ibv_mr*) {}
ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return nothing(); }
void ibv_unimport_dm(ibv_dm*) {}

int ibv_dm_export_dmabuf_fd(ibv_dm*) { return minus_one(); }
void* ibv_alloc_buf(ibv_pd*, size_t, ibv_buf**) { return nothing(); }
void ibv_free_buf(ibv_buf*) {}
ibv_mr* ibv_reg_buf_mr(ibv_pd*, ibv_buf*, void*, size_t, int) { return nothing(); }
int ibv_export_buf_dmabuf_fd(ibv_buf*) { return minus_one(); }
ibv_dmah* ibv_alloc_dmah(ibv_context*, ibv_dmah_init_attr*) { return nothing(); }
int ibv_dealloc_dmah(ibv_dmah*) { return EOPNOTSUPP; }

int _ibv_query_comp_cntr_caps(ibv_context*, ibv_comp_cntr_caps*, size_t) { return EOPNOTSUPP; }
ibv_comp_cntr* ibv_create_comp_cntr(ibv_context*, ibv_comp_cntr_init_attr*) { return nothing(); }
int ibv_destroy_comp_cntr(ibv_comp_cntr*) { return EOPNOTSUPP; }
int ibv_set_comp_cntr(ibv_comp_cntr*, uint64_t) { return EOPNOTSUPP; }
int ibv_set_err_comp_cntr(ibv_comp_cntr*, uint64_t) { return EOPNOTSUPP; }
int ibv_inc_comp_cntr(ibv_comp_cntr*, uint64_t) { return EOPNOTSUPP; }
int ibv_inc_err_comp_cntr(ibv_comp_cntr*, uint64_t) { return EOPNOTSUPP; }
int ibv_read_comp_cntr(ibv_comp_cntr*, uint64_t*) { return EOPNOTSUPP; }
int ibv_read_err_comp_cntr(ibv_comp_cntr*, uint64_t*) { return EOPNOTSUPP; }
int ibv_qp_attach_comp_cntr(ibv_qp*, ibv_comp_cntr*, ibv_qp_attach_comp_cntr_attr*) { return EOPNOTSUPP; }

}  // extern "C"

namespace verbatim::verbs {

void install_refusals(verbs_context& verbs) {
  verbs.context.ops.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; };
  verbs.context.ops.dealloc_mw = [](ibv_mw*) { return EOPNOTSUPP; };
}

}  // namespace verbatim::verbs
