// SPDX-License-Identifier: MIT
#pragma once

// Functions that the library exports though no public header declares them: released programs and librdmacm
// of the same release import them.

#include "lib/ibverbs/public.h"

struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;
struct ibv_sa_path_rec;

/// How sysfs names the type of a GID; InfiniBand and RoCE v1 are one.
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };

#pragma GCC visibility push(default)
extern "C" {

void ibv_register_driver(const char* name, void* init);

/// The type of an entry of a port's GID table. Returns 0, or -1 with errno set.
int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index, ibv_gid_type_sysfs* type);

/// Keep memory out of a child of a fork, and undo that. Return 0, or -1 with errno set.
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);

/// Where sysfs is mounted.
const char* ibv_get_sysfs_path(void);
/// Reads file `dir`/`file` without its last newline. Returns the number of bytes, or -1 with errno set.
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

/// Between the kernel's form of a record and the library's.
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from);

}  // extern "C"
#pragma GCC visibility pop
